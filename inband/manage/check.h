/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What was found against the plan. Each difference is named once, by what is wrong and not by each
 * place where it shows: two exchanged cables are one finding, a dead switch is one and not 24. One
 * thread.
 */
#ifndef INBAND_CHECK_H
#define INBAND_CHECK_H

#include "inband/machine.h"
#include "inband/manage/model.h"

enum finding_kind {
	FINDING_SWAP,	    /* two cables, exchanged at one end */
	FINDING_WRONG,	    /* a cable leads somewhere else */
	FINDING_CUT,	    /* no light at either end */
	FINDING_DARK,	    /* light in one direction, or without a handshake */
	FINDING_DEAD,	    /* a chip that no neighbour sees */
	FINDING_SILENT,	    /* a chip that its neighbours see and that does not answer */
	FINDING_NAMELESS,   /* a chip without an ID, or with another's, behind this port */
	FINDING_UNEXPECTED, /* a chip that the plan does not have */
	FINDING_EXTRA,	    /* a cable that the plan does not have */
	FINDINGS
};

struct finding {
	enum finding_kind kind;
	/* In the plan's numbers; port < 0: the whole chip. MACHINE_NONE: none. */
	uint32_t chip, chip2;
	int port, port2;
	uint64_t id; /* of an unexpected chip */
	uint8_t type;
};

struct findings {
	struct finding *list;
	uint32_t count, size;
};

int check_plan(const struct machine *plan, const struct model *model, struct findings *findings);
void findings_free(struct findings *findings);
const char *finding_kind_name(enum finding_kind kind);
/* "swap S.a:1 S.b:2": the finding's ends by name. */
void finding_print(const struct machine *plan, const struct finding *finding, char *text,
		   size_t length);
/* Where to go and what to do. */
void finding_place(const struct machine *plan, const struct finding *finding, char *text,
		   size_t length);

#endif
