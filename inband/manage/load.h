/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Loading of route tables into switches: computed from the plan and from what is up, checked for
 * cycles, written switch by switch from the nodes upward, read back, and marked in the switch
 * before and after, so that a server that finds half-loaded switches knows which they are. A later
 * load writes what differs from the one before. If a switch does not keep its tables, and the ways
 * of the load before are all still there, what has been written is taken back, from the roots
 * downward. One thread.
 */
#ifndef INBAND_LOAD_H
#define INBAND_LOAD_H

#include "inband/machine.h"
#include "inband/manage/model.h"
#include "inband/routes.h"

/* REG_SCRATCH0 of a switch: which load, and how far it came there. */
#define LOAD_NUMBER(scratch) ((scratch) >> 8)
enum load_mark { LOAD_NEVER, LOAD_BEGUN, LOAD_DONE };

struct load_result {
	uint32_t number;   /* of the load */
	uint32_t switches; /* that were written */
	uint32_t failed;   /* that did not answer, or did not keep what was written */
	uint32_t device;   /* one of those; MODEL_NONE */
	unsigned rounds;   /* once more for each change of the network meanwhile */
	bool rolled_back;  /* a switch did not keep its tables: all have those of the load before */
	uint64_t time;	   /* ps */
};

/* What the switches have now, as far as this server has loaded them. All zero at first. */
struct loaded {
	struct routes *routes; /* NULL: unknown */
	bool *live;	       /* ports of the plan that they were made for */
	bool *unknown; /* chips of the plan whose tables are not those, for a load failed there */
	uint32_t number;
};

void loaded_free(struct loaded *loaded);

/* done and of count switches that may have to be written. */
typedef void load_progress(void *arg, uint32_t done, uint32_t of);
typedef void load_done(void *arg, int status, const struct load_result *result);

/*
 * done is called once from fabric_progress(). -ENOTSUP: the plan is no fat tree; -ELOOP: the tables
 * would make a cycle. The model has to stay; its links may change meanwhile.
 */
int load_begin(struct fabric *fabric, const struct machine *plan, struct model *model,
	       struct loaded *loaded, load_progress *progress, load_done *done, void *arg);
int load(struct fabric *fabric, const struct machine *plan, struct model *model,
	 struct loaded *loaded, struct load_result *result);
/* How many switches a load was begun in and not ended, and what number it had. */
typedef void load_found(void *arg, int status, uint32_t half, uint32_t highest);
int load_look(struct fabric *fabric, struct model *model, load_found *found, void *arg);

#endif
