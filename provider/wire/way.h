/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How large payloads go to a neighbour: copied into its ring by ordinary stores, or by stores past
 * the caches, or not at all, so that the neighbour reads them where they lie. Which one is the
 * fastest depends on the processor, on which caches the two have in common, and on the memory: each
 * is four times as fast as another one somewhere. So all are tried.
 *
 * A trial is some megabytes by one way. It begins when the neighbour has taken all that was sent
 * before, and is about what the neighbour takes from then on: to publish a reference costs nothing.
 * After two trials of each way the fastest is used. Another one is tried again after 8 trials, then
 * 16, and so on, because the first may have met a program that had just begun. Times are in
 * urxe_ticks(). By the producer.
 */
#ifndef URXE_WIRE_WAY_H
#define URXE_WIRE_WAY_H

#include <stdbool.h>
#include <stdint.h>

#define URXE_WAY_TRIAL (2u << 20) /* bytes */
#define URXE_WAY_TRIES 2	  /* trials of each way at the beginning */
#define URXE_WAY_AGAIN 8	  /* trials until one of another way; doubles up to */
#define URXE_WAY_OFTEN 256
#define URXE_WAY_RARE  2048 /* if that takes twice as long */
#define URXE_WAY_MARKS 64
#define URXE_WAY_NEVER (1u << 30) /* ticks a KiB: it could not be used */

enum urxe_way { URXE_WAY_COPY, URXE_WAY_PAST_CACHES, URXE_WAY_REFER, URXE_NUM_WAYS };

/* Zero: nothing was sent yet. */
struct urxe_ways {
	uint8_t way; /* enum urxe_way: of the next payload, and of the trial */
	uint8_t best;
	uint32_t trials;
	uint32_t tried[URXE_NUM_WAYS];
	uint32_t again[URXE_NUM_WAYS], interval[URXE_NUM_WAYS]; /* the trial to try it again at */
	uint32_t cost[URXE_NUM_WAYS]; /* ticks a KiB, averaged; 0: not known */
	/* Bytes since the beginning, modulo 2^32. */
	uint32_t sent, referred, taken;
	/* Of the trial. */
	uint32_t head; /* of the ring at its beginning */
	uint32_t sent_before, referred_before, taken_before;
	uint64_t since; /* 0: the neighbour has not taken all that was sent before */
	/* What was sent up to a head of the ring, of the records that may not have been taken. */
	struct {
		uint32_t head, sent;
	} marks[URXE_WAY_MARKS];
	uint32_t first, end;
};

/*
 * What a trial took. One that was interrupted, that had a pause in it, or ran beside other programs
 * takes longer: so the average follows it slowly, and fast downwards.
 */
static inline void urxe_way_took(struct urxe_ways *w, uint8_t way, uint64_t cost)
{
	uint64_t old = w->cost[way];

	if (cost > URXE_WAY_NEVER)
		cost = URXE_WAY_NEVER;
	if (!old || cost < old / 2)
		w->cost[way] = cost + !cost;
	else if (cost < old)
		w->cost[way] = (old + cost) / 2;
	else
		w->cost[way] = (7 * old + (cost < 2 * old ? cost : 2 * old)) / 8;
}

static inline void urxe_way_wait(struct urxe_ways *w, uint8_t way)
{
	uint32_t most = w->cost[way] / 2 > w->cost[w->best] ? URXE_WAY_RARE : URXE_WAY_OFTEN;

	w->interval[way] = w->interval[way] ? w->interval[way] * 2 : URXE_WAY_AGAIN;
	if (w->interval[way] > most)
		w->interval[way] = most;
	w->again[way] = w->trials + w->interval[way];
}

static inline uint8_t urxe_way_next(struct urxe_ways *w)
{
	uint8_t least = URXE_WAY_COPY;

	for (uint8_t way = 0; way < URXE_NUM_WAYS; way++) {
		if (w->tried[way] < URXE_WAY_TRIES)
			return way;
		if (w->cost[way] < w->cost[least])
			least = way;
	}
	if (w->cost[least] < w->cost[w->best] / 8 * 7) {
		w->interval[w->best] = 0;
		w->best = least;
	}
	for (uint8_t way = 0; way < URXE_NUM_WAYS; way++)
		if (way != w->best && (int32_t)(w->trials - w->again[way]) >= 0) {
			urxe_way_wait(w, way);
			return way;
		}
	return w->best;
}

static inline void urxe_way_mark(struct urxe_ways *w, uint32_t head, uint32_t taken)
{
	while (w->first != w->end &&
	       (int32_t)(taken - w->marks[w->first % URXE_WAY_MARKS].head) >= 0)
		w->taken = w->marks[w->first++ % URXE_WAY_MARKS].sent;
	if (w->end - w->first == URXE_WAY_MARKS)
		return;
	w->marks[w->end % URXE_WAY_MARKS].head = head;
	w->marks[w->end++ % URXE_WAY_MARKS].sent = w->sent;
}

static inline void urxe_way_begin(struct urxe_ways *w, uint32_t head)
{
	w->way = urxe_way_next(w);
	w->head = head;
	w->since = 0;
	w->sent_before = w->sent;
	w->referred_before = w->referred;
}

/*
 * A large payload of len bytes was published, referred to or not. The ring's head is behind it;
 * taken: cells, as the neighbour says.
 */
static inline void urxe_way_sent(struct urxe_ways *w, uint32_t len, bool referred, uint32_t head,
				 uint32_t taken, uint64_t now)
{
	uint32_t bytes;

	w->sent += len;
	if (referred)
		w->referred += len;
	urxe_way_mark(w, head, taken);
	if (!w->since) {
		if ((int32_t)(taken - w->head) >= 0) {
			w->since = now;
			w->taken_before = w->taken;
		}
		return;
	}
	bytes = w->taken - w->taken_before;
	if (bytes < URXE_WAY_TRIAL)
		return;
	if (w->way == URXE_WAY_REFER &&
	    w->referred - w->referred_before < (w->sent - w->sent_before) / 2)
		w->cost[w->way] = URXE_WAY_NEVER;
	else
		urxe_way_took(w, w->way, (now - w->since) / (bytes >> 10));
	w->tried[w->way]++;
	w->trials++;
	urxe_way_begin(w, head);
}

#endif
