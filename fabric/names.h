/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How people call the nodes of a fabric: by the NodeDescription, by its first word where the rest
 * tells which adapter of the host it is ("node-17" for "node-17 HCA-1"), by ibnetdiscover's
 * identifier ("S-0002c902…"), or by GUID ("0x2c902…"). fabricd's thread.
 */
#ifndef URXE_FABRIC_NAMES_H
#define URXE_FABRIC_NAMES_H

#include "fabric/map.h"

/* The one node of that name; NULL: error says that there is none, or several. */
struct fabric_node *names_node(const struct fabric_map *map, const char *name, char *error,
			       size_t len);
/* The adapters of the host of that name into their indices; their number, or -1 with an error. */
int names_host(const struct fabric_map *map, const char *name, uint32_t *adapters, int most,
	       char *error, size_t len);
/* The host that an adapter belongs to: the first word of its description, or all of it. */
void names_host_of(const struct fabric_node *node, char name[FABRIC_DESC_LEN + 1]);

/* Gives each adapter of the map the number of its host. -ENOMEM. */
int names_number_hosts(struct fabric_map *map);

#endif
