/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Where fault injection happens to packets: drops, duplicates and corrupts them, and keeps those
 * that must wait, in two lists: the delayed in the order in which they are due, and the reordered
 * until enough later packets have passed them. Links of a fabric that have a delay keep their
 * packets here too. Guarded by the wire's lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "wire/route.h"
#include "wire/shm.h"

#define REORDER_WAIT 1000000 /* ns: how long a reordered packet waits at most */
#define MAX_HELD     16384   /* packets; what comes on top is lost */
#define DRAIN_PAUSE  1000000 /* ns */

struct urxe_fault_packet {
	struct urxe_fault_packet *next;
	uint64_t due;
	struct urxe_lag *lag; /* of the links that delay it; NULL: none do */
	unsigned passes;      /* packets that have yet to pass it */
	bool out;
	/* Of a neighbour's ring, or on the way into one: what kind of record. NONE: a datagram. */
	enum urxe_ring_kind kind;
	uint16_t span;
	unsigned slot;
	union {
		struct urxe_path path;
		struct urxe_arrival from;
	};
	uint32_t len;
	_Alignas(8) uint8_t packet[];
};

/* In front of *link. */
static void insert_at(struct urxe_fault_queue *list, struct urxe_fault_packet **link,
		      struct urxe_fault_packet *held)
{
	held->next = *link;
	*link = held;
	if (!held->next)
		list->tail = &held->next;
	list->len++;
}

static void append(struct urxe_fault_queue *list, struct urxe_fault_packet *held)
{
	insert_at(list, list->tail, held);
}

/* Behind those that are due no later. */
static void insert_by_due(struct urxe_fault_queue *list, struct urxe_fault_packet *held)
{
	struct urxe_fault_packet **link = &list->head;

	if (list->last_due <= held->due)
		link = list->tail;
	while (*link && (*link)->due <= held->due)
		link = &(*link)->next;
	if (!*link)
		list->last_due = held->due;
	insert_at(list, link, held);
}

static struct urxe_fault_packet *unlink_at(struct urxe_fault_queue *list,
					   struct urxe_fault_packet **link)
{
	struct urxe_fault_packet *held = *link;

	*link = held->next;
	if (!*link)
		list->tail = link;
	list->len--;
	return held;
}

/* ---- settings ---- */

int urxe_fault_open(struct urxe_wire *wire)
{
	char err[200];
	int ret = urxe_fault_parse(getenv("URXE_FAULT"), &wire->env_fault, err, sizeof(err));

	wire->delayed.tail = &wire->delayed.head;
	wire->passed.tail = &wire->passed.head;
	if (ret) {
		urxe_log(URXE_LOG_ERROR, "URXE_FAULT: %s", err);
		return ret;
	}
	for (int k = 0; k < URXE_MAX_PORTS; k++)
		wire->port[k].fault = wire->env_fault;
	wire->fault_generation = urxe_segment_fault_generation(wire->seg) - 1;
	urxe_fault_settings(wire);
	return 0;
}

bool urxe_wire_faulty(struct urxe_wire *wire, const struct urxe_path *path)
{
	return urxe_fault_active(&urxe_wire_port(wire, path)->fault, URXE_FAULT_BOTH);
}

static void finish(struct urxe_fault_packet *held)
{
	if (held->lag)
		urxe_route_waited(held->lag);
	free(held);
}

static void clear(struct urxe_fault_queue *list)
{
	while (list->head)
		finish(unlink_at(list, &list->head));
}

void urxe_fault_close(struct urxe_wire *wire)
{
	clear(&wire->delayed);
	clear(&wire->passed);
}

/* A device without a specification of its own in the segment has the environment's. */
void urxe_fault_settings(struct urxe_wire *wire)
{
	uint32_t generation = urxe_segment_fault_generation(wire->seg);

	if (generation == wire->fault_generation)
		return;
	wire->fault_generation = generation;
	for (int k = 0; k < URXE_MAX_PORTS; k++) {
		char spec[URXE_FAULT_SPEC_LEN] = "", err[200];
		struct urxe_fault fault = wire->env_fault;

		urxe_segment_fault_get(wire->seg, k, spec);
		if (*spec && urxe_fault_parse(spec, &fault, err, sizeof(err))) {
			urxe_log(URXE_LOG_ERROR, "port %d: %s", k, err);
			continue;
		}
		/* The same settings as before go on in their random sequence. */
		fault.state = wire->port[k].fault.state;
		if (memcmp(&fault, &wire->port[k].fault, sizeof(fault))) {
			fault.state = fault.seed;
			wire->port[k].fault = fault;
		}
	}
}

/* ---- packets ---- */

static int emit(struct urxe_wire *wire, struct urxe_fault_packet *held)
{
	struct urxe_record rec = {
		.kind = held->kind,
		.span = held->span,
		.len = held->len,
		.bytes = held->packet,
	};

	if (held->out && held->kind)
		return urxe_shm_send_raw(wire, held->slot, &held->path, &rec);
	if (held->out)
		return urxe_link_of(&held->path)
			->send_raw(wire, &held->path, held->packet, held->len);
	held->from.next_id = 0;
	held->from.prefix_len = 0;
	if (held->kind)
		urxe_shm_receive_raw(wire, &held->from, &rec);
	else
		urxe_receive_packet(wire, &held->from, held->packet, held->len);
	return 0;
}

/* Sends or hands up; tries again at the next poll when the socket is full. */
static void let_go(struct urxe_wire *wire, struct urxe_fault_packet *held)
{
	int ret = emit(wire, held);

	if ((ret == -EAGAIN || ret == -ENOBUFS) && wire->delayed.len < MAX_HELD) {
		held->due = 0;
		insert_by_due(&wire->delayed, held);
		return;
	}
	finish(held);
}

/* A packet has gone by: those that waited for it count down. */
static void count_pass(struct urxe_wire *wire, bool out)
{
	for (struct urxe_fault_packet *held = wire->passed.head; held; held = held->next)
		if (held->out == out && held->passes)
			held->passes--;
}

static void release_passed(struct urxe_wire *wire, uint64_t now)
{
	struct urxe_fault_packet **link = &wire->passed.head;
	struct urxe_fault_queue ready = {.tail = &ready.head};

	while (*link) {
		if ((*link)->passes && (*link)->due > now)
			link = &(*link)->next;
		else
			append(&ready, unlink_at(&wire->passed, link));
	}
	while (ready.head)
		let_go(wire, unlink_at(&ready, &ready.head));
}

static struct urxe_fault_packet *copy(const struct urxe_fault_packet *like, const void *packet,
				      uint32_t len)
{
	struct urxe_fault_packet *held = malloc(sizeof(*held) + len);

	if (!held)
		return NULL;
	*held = *like;
	held->len = len;
	memcpy(held->packet, packet, len);
	return held;
}

/* One packet, to go now, later, or after others. */
static void dispatch(struct urxe_wire *wire, struct urxe_fault_packet *held,
		     const struct urxe_fault *fault, unsigned reorder)
{
	uint64_t now = fault->delay || reorder || held->lag ? urxe_now() : 0;
	bool out = held->out;

	if (wire->delayed.len + wire->passed.len >= MAX_HELD) {
		free(held);
		return;
	}
	if (held->lag)
		now = urxe_route_wait(held->lag, now);
	if (reorder) {
		held->due = now + fault->delay + REORDER_WAIT;
		held->passes = reorder;
		append(&wire->passed, held);
		return;
	}
	if (fault->delay || held->lag) {
		held->due = now + fault->delay;
		insert_by_due(&wire->delayed, held);
		return;
	}
	let_go(wire, held);
	if (wire->passed.head) {
		count_pass(wire, out);
		release_passed(wire, 0);
	}
}

static void inject(struct urxe_wire *wire, struct urxe_fault *fault,
		   const struct urxe_fault_packet *like, const void *packet, uint32_t len)
{
	struct urxe_fate fate = urxe_fault_draw(fault);

	if (fate.drop || (fate.corrupt && like->kind && !fate.dup))
		return;
	if (fate.corrupt && like->kind)
		fate.corrupt = fate.dup = false; /* one of the two */
	for (int copies = fate.dup ? 2 : 1; copies; copies--) {
		struct urxe_fault_packet *held = copy(like, packet, len);

		if (!held)
			return;
		if (fate.corrupt)
			urxe_fault_corrupt(fault, held->packet, len);
		dispatch(wire, held, fault, copies == 1 ? fate.reorder : 0);
		fate.corrupt = false; /* the second copy is whole */
	}
}

void urxe_fault_out(struct urxe_wire *wire, const struct urxe_path *path, unsigned slot,
		    const struct urxe_record *rec, struct urxe_lag *lag)
{
	struct urxe_fault_packet like = {
		.out = true,
		.kind = rec->kind,
		.span = rec->span,
		.slot = slot,
		.lag = lag,
		.path = *path,
	};
	struct urxe_fault none = {.dir = URXE_FAULT_OUT};
	struct urxe_fault *fault = &urxe_wire_port(wire, path)->fault;

	if (!urxe_fault_active(fault, URXE_FAULT_OUT))
		fault = &none;
	inject(wire, fault, &like, rec->bytes, rec->len);
}

void urxe_fault_in(struct urxe_wire *wire, const struct urxe_arrival *from,
		   const struct urxe_record *rec)
{
	struct urxe_fault_packet like = {.kind = rec->kind, .span = rec->span, .from = *from};

	inject(wire, &urxe_wire_port(wire, &from->pkt.path)->fault, &like, rec->bytes, rec->len);
}

void urxe_fault_release(struct urxe_wire *wire, uint64_t now)
{
	uint64_t full[URXE_MAX_SLOTS / 64] = {0};
	struct urxe_fault_packet **link = &wire->delayed.head;

	/* What cannot leave now stays where it is, and so does all behind it to the same slot. */
	while (*link && (*link)->due <= now) {
		struct urxe_fault_packet *held = *link;
		uint64_t *word = &full[held->slot / 64], bit = 1ull << held->slot % 64;
		int ret;

		if (held->out && *word & bit) {
			link = &held->next;
			continue;
		}
		unlink_at(&wire->delayed, link);
		ret = emit(wire, held);
		if (ret == -EAGAIN || ret == -ENOBUFS) {
			*word |= bit;
			insert_at(&wire->delayed, link, held);
			link = &held->next;
			continue;
		}
		count_pass(wire, held->out);
		finish(held);
	}
	release_passed(wire, now);
}

/* True: it is time now. */
static bool sleep_until(uint64_t when)
{
	uint64_t now = urxe_now(), ns = when > now ? when - now : 0;
	const struct timespec ts = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

	if (ns)
		nanosleep(&ts, NULL);
	return !ns;
}

/* A neighbour that takes nothing is given up soon (urxe_shm_send_raw()). */
void urxe_wire_drain(struct urxe_wire *wire)
{
	struct urxe_fault_packet **link = &wire->delayed.head, *held;

	while ((held = *link)) {
		if (!held->lag) {
			link = &held->next;
			continue;
		}
		if (!sleep_until(held->due))
			continue;
		if (emit(wire, held) == -EAGAIN) {
			sleep_until(urxe_now() + DRAIN_PAUSE);
			continue;
		}
		unlink_at(&wire->delayed, link);
		if (!wire->ending) /* then no memory is freed either */
			finish(held);
	}
}

uint64_t urxe_fault_deadline(const struct urxe_wire *wire)
{
	uint64_t deadline = wire->delayed.head ? wire->delayed.head->due : UINT64_MAX;

	for (const struct urxe_fault_packet *held = wire->passed.head; held; held = held->next)
		if (held->due < deadline)
			deadline = held->due;
	return deadline;
}
