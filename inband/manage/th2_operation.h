/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Between the files of Tianhe-2's back end: an operation under way. One thread. */
#ifndef INBAND_TH2_OPERATION_H
#define INBAND_TH2_OPERATION_H

#include "inband/manage/th2.h"
#include "inband/registers.h"

struct th2 {
	struct fabric fabric;
	glex_ep_handle_t ep;
	struct requester *requester;
	struct operation *idle;
};

struct operation {
	struct job job;
	struct th2 *th2;
	fabric_done *done;
	void *arg;
	int status;
	uint32_t address;
	uint64_t value;
	unsigned type, count, tries, step;
	uint64_t to;
	void *more; /* of operations that need it */
	fabric_bytes *take;
	void (*store)(struct operation *op, unsigned index, const struct nmp *nmp);
	struct facts facts; /* last: not zeroed */
};

static inline struct th2 *of(struct fabric *f)
{
	return (struct th2 *)f;
}

/* An operation of that many requests; NULL: no memory. */
struct operation *th2_begin(struct fabric *f, struct target *t, unsigned type, unsigned requests,
			    fabric_done *done, void *arg);
/* A request has come to its end; after the last the operation has. */
void th2_answer(struct job *job, unsigned index, int status, const struct nmp *nmp);
/* Gives one back that was never submitted. */
void th2_drop(struct operation *op);
/* th2_tables.c */
int th2_tables_write(struct fabric *f, struct target *t, const struct table_image *image,
		     fabric_done *done, void *arg);

#endif
