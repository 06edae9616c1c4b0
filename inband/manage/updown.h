/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Routes through any network of switches that were found: up, away from the nodes, and then down,
 * so that packets never wait for each other in a circle. Of ways that are as short the one is taken
 * that fewest other destinations have. One thread.
 */
#ifndef INBAND_UPDOWN_H
#define INBAND_UPDOWN_H

#include <stdio.h>

#include "inband/manage/model.h"

#define UPDOWN_NONE UINT8_MAX

struct updown;

int updown_create(const struct model *model, struct updown **routes);
void updown_destroy(struct updown *routes);
/*
 * Looks at ways to a switch, for updown_next() of what is at it. -EHOSTUNREACH: no way up and then
 * down leads there from *from, a switch with nodes.
 */
int updown_aim(struct updown *routes, uint32_t to, uint32_t *from);
/* The port by which a switch other than that one sends on to one more destination there. */
unsigned updown_next(struct updown *routes, uint32_t at);

/* A device's name, into a buffer of MACHINE_NAME_LEN, and what a subnet manager knows a port by. */
struct updown_names {
	const char *(*name)(const void *arg, uint32_t device, char *name);
	uint64_t (*guid)(const void *arg, uint32_t device, unsigned port);
	const void *arg;
};

/*
 * The routes for OpenSM's file engine (opensm -R file -U FILE). -EHOSTUNREACH: error says between
 * what no way leads; -EFBIG: more than a million entries.
 */
int updown_export(const struct model *model, const struct updown_names *names, FILE *file,
		  char *error, size_t length);

#endif
