/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Path trace (paper, 3.1 (4)): the way of data packets between two end nodes by the tables that the
 * switches have, with the state of each link on it. Where a table allows several ports, the trace
 * follows the first whose link is up, and tells how many there are. One thread.
 */
#ifndef INBAND_TRACE_H
#define INBAND_TRACE_H

#include "inband/manage/model.h"

#define TRACE_MAX 32

struct trace_hop {
	uint32_t device;	/* of the model */
	int in_port, out_port;	/* -1: none */
	unsigned ways;		/* ports that the table has for it */
	struct link_facts link; /* of out_port */
};

enum trace_end {
	TRACE_ARRIVED,
	TRACE_NO_ROUTE,	  /* the table has no port for it */
	TRACE_LINK_DOWN,  /* none of its ports has a link */
	TRACE_TOO_LONG,	  /* a cycle */
	TRACE_WRONG_NODE, /* it ends at another node */
	TRACE_SILENT,	  /* a switch does not answer */
};

struct trace {
	unsigned count;
	struct trace_hop hop[TRACE_MAX];
	enum trace_end end;
};

/* -ENOENT: one of the nodes is not in the model. */
int trace_path(struct fabric *fabric, struct model *model, uint64_t from, uint64_t to,
	       struct trace *trace);
typedef void trace_done(void *arg, int status, const struct trace *trace);
int trace_begin(struct fabric *fabric, struct model *model, uint64_t from, uint64_t to,
		trace_done *done, void *arg);
const char *trace_end_text(enum trace_end end);

#endif
