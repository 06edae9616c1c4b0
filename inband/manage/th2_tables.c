/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Route tables into an NRC. A request writes two entries, and names them itself; so it may be
 * repeated and come in any order. To read back, the index is set once and moves on with each read,
 * and each answer says which entries it has: what is missing in the end, for an answer was lost, is
 * read once more.
 *
 *	mark "begun" ─► write pairs ─► for each group: set index ─► read pairs ─► … ─► mark "done"
 *
 * One thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inband/manage/load.h"
#include "inband/manage/th2_operation.h"

#define PAIRS (TABLE_ENTRIES / 2)
#define TRIES 8

enum phase { PHASE_MARK, PHASE_WRITE, PHASE_INDEX, PHASE_READ, PHASE_DONE };

struct writing {
	struct operation *op;
	const struct table_image *image;
	enum phase phase;
	unsigned group, first, tries; /* of reading */
	unsigned count;
	uint16_t list[2 * PAIRS]; /* to be written: group * PAIRS + pair */
	bool seen[PAIRS];
	int status;
};

static uint64_t data_of(const struct table_image *image, unsigned group, unsigned pair)
{
	return image->entry[group][2 * pair] | (uint64_t)image->entry[group][2 * pair + 1] << 32;
}

static void make(struct job *job, unsigned index, struct nmp *nmp)
{
	const struct writing *w = ((struct operation *)job)->more;
	const struct table_image *image = w->image;
	unsigned group, pair;

	nmp->type = w->phase == PHASE_READ ? NMP_REGISTER_READ : NMP_REGISTER_WRITE;
	nmp->count = w->phase == PHASE_WRITE || w->phase == PHASE_READ ? 2 : 1;
	nmp->access[0].address = REG_TABLE_INDEX;
	nmp->access[1].address = nmp->count == 2 ? REG_TABLE_DATA : 0;
	switch (w->phase) {
	case PHASE_WRITE:
		group = w->list[index] / PAIRS;
		pair = w->list[index] % PAIRS;
		nmp->access[0].value = (uint64_t)image->ports[group] << 32 | 2 * pair;
		nmp->access[1].value = data_of(image, group, pair);
		break;
	case PHASE_INDEX:
		nmp->access[0].value = (uint64_t)image->ports[w->group] << 32 | 2 * w->first;
		break;
	case PHASE_READ: break;
	default:
		nmp->access[0].address = REG_SCRATCH0;
		nmp->access[0].value = (uint64_t)image->number << 8 |
				       (w->phase == PHASE_MARK ? LOAD_BEGUN : LOAD_DONE);
	}
}

static void see(struct writing *w, const struct nmp *nmp)
{
	uint64_t at = nmp->access[0].value;
	unsigned pair = (uint32_t)at / 2;

	if (at >> 32 != w->image->ports[w->group] || at & 1 || pair >= PAIRS)
		return;
	if (nmp->access[1].value == data_of(w->image, w->group, pair))
		w->seen[pair] = true;
	else
		w->status = -EIO;
}

/* The first pair that has not been read; PAIRS: all have. */
static unsigned unseen(const struct writing *w)
{
	unsigned pair = 0;

	while (pair < PAIRS && w->seen[pair])
		pair++;
	return pair;
}

static void read_group(struct writing *w, unsigned group)
{
	w->phase = group < w->image->groups ? PHASE_INDEX : PHASE_DONE;
	w->group = group;
	w->first = 0;
	w->tries = TRIES;
	w->op->job.total = 1;
	memset(w->seen, 0, sizeof(w->seen));
}

/* All requests of a phase are answered: the next one. False: it was the last. */
static bool next_phase(struct writing *w)
{
	struct job *job = &w->op->job;

	switch (w->phase) {
	case PHASE_MARK:
		if (w->count) {
			w->phase = PHASE_WRITE;
			job->total = w->count;
		} else {
			read_group(w, 0);
		}
		return true;
	case PHASE_WRITE: read_group(w, 0); return true;
	case PHASE_INDEX:
		w->phase = PHASE_READ;
		job->total = PAIRS - w->first;
		return true;
	case PHASE_READ:
		w->first = unseen(w);
		if (w->first == PAIRS) {
			read_group(w, w->group + 1);
		} else if (--w->tries) {
			w->phase = PHASE_INDEX;
			job->total = 1;
		} else {
			w->status = -EIO;
			return false;
		}
		return true;
	default: return false;
	}
}

static void answer(struct job *job, unsigned index, int status, const struct nmp *nmp)
{
	struct operation *op = (struct operation *)job;
	struct writing *w = op->more;

	if (status)
		w->status = status;
	else if (w->phase == PHASE_READ)
		see(w, nmp);
	if (job->finished < job->total)
		return;
	if (!w->status && next_phase(w)) {
		requester_submit(op->th2->requester, job);
		return;
	}
	status = w->status;
	free(w);
	th2_answer(job, index, status, NULL);
}

int th2_tables_write(struct fabric *f, struct target *t, const struct table_image *image,
		     fabric_done *done, void *arg)
{
	struct operation *op = th2_begin(f, t, NMP_REGISTER_WRITE, 1, done, arg);
	struct writing *w = calloc(1, sizeof(*w));

	if (!op || !w) {
		free(w);
		if (op)
			th2_drop(op);
		return -ENOMEM;
	}
	w->op = op;
	w->image = image;
	for (unsigned g = 0; g < image->groups; g++)
		for (unsigned pair = 0; pair < PAIRS; pair++)
			if (image->stale[g][pair])
				w->list[w->count++] = g * PAIRS + pair;
	op->more = w;
	op->job.make = make;
	op->job.answer = answer;
	requester_submit(op->th2->requester, &op->job);
	return 0;
}
