/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A network as it was found, in the forms that other programs read. One thread. */
#ifndef INBAND_EXPORT_H
#define INBAND_EXPORT_H

#include <stdio.h>

#include "inband/machine.h"
#include "inband/manage/model.h"

/* A device's name, into a buffer of MACHINE_NAME_LEN. */
typedef const char *export_name(const void *arg, uint32_t device, char *name);

/*
 * As ibnetdiscover prints a subnet, and ibsim and ibnetdiscover --load take one: ports count from
 * 1, GUIDs are IDs, names are node descriptions. 0, -EIO.
 */
int export_topology(const struct model *model, export_name *name, const void *arg, FILE *file);
/*
 * Slurm's topology.conf (topology/tree): a switch for each part of the network that stays together
 * without what is farther from the nodes; nodes are prefix and ID. 0, -ENOMEM, -EIO.
 */
int export_slurm(const struct model *model, const char *prefix, FILE *file);
/* Nodes that are not to get work: a line each, with the reason behind #. plan: which are to be
 * there; NULL. */
int export_drain(const struct model *model, const struct machine *plan, const char *prefix,
		 FILE *file);

#endif
