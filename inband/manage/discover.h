/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Discovery (paper, 4.4): breadth first from the server's own port, by the neighbour tags of each
 * switch. End nodes are recorded from their neighbours' tags and not asked. One thread.
 */
#ifndef INBAND_DISCOVER_H
#define INBAND_DISCOVER_H

#include "inband/manage/model.h"

struct discovery;

struct discovery_result {
	uint64_t time; /* ps of the network's time */
	uint32_t asked, silent;
};

typedef void discovery_done(void *arg, int status, struct model *model,
			    const struct discovery_result *result);

/* Begins; done is called from fabric_progress(), once, and owns the model. */
int discover_begin(struct fabric *fabric, discovery_done *done, void *arg);
/* Begins and waits. */
int discover(struct fabric *fabric, struct model **model, struct discovery_result *result);

#endif
