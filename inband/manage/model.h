/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A network as it was found: devices, what is at the other end of each port, and the way to each.
 * One thread; devices stay where they are until model_destroy().
 */
#ifndef INBAND_MODEL_H
#define INBAND_MODEL_H

#include "inband/manage/fabric.h"

#define MODEL_NONE    UINT32_MAX
#define MODEL_NO_RANK 255

struct model_port {
	uint8_t state; /* enum neighbour_state */
	uint8_t peer_port;
	bool lost;     /* the link has gone down since */
	bool testing;  /* a self-test runs on the link */
	bool reports;  /* a switch's fault reports cross the link: campaign.h */
	bool noisy;    /* its counters grow by more than they should */
	bool resting;  /* it came back lately: no routes lead over it yet */
	uint32_t peer; /* device, MODEL_NONE */
};

enum device_state {
	DEVICE_TOLD, /* a neighbour has named it; an end node stays so */
	DEVICE_ASKED,
	DEVICE_KNOWN,
	DEVICE_SILENT, /* named, and does not answer */
};

struct device {
	struct target target;
	uint32_t number;
	uint16_t hops;
	uint8_t state; /* enum device_state */
	uint8_t nports;
	bool unheard; /* may have been reset: has to be told again where to report to */
	uint32_t via; /* the device it was found from */
	struct model_port port[];
};

struct model {
	struct device **devices;
	uint32_t count, size;
	uint32_t switches, nodes,
		links; /* links: both ends of which are up, or one if the other was not asked */
	uint32_t *hash;
	uint32_t hash_size; /* a power of two */
	uint32_t nameless;  /* ends at chips without an ID */
};

int model_create(struct model **model);
void model_destroy(struct model *model);
/* NULL: not there. */
struct device *model_find(const struct model *model, unsigned type, uint64_t id);
/* One more; NULL: no memory. */
struct device *model_add(struct model *model, unsigned type, uint64_t id, unsigned nports);
/*
 * The way from the server to what is at a device's port: on from the way to the device. False:
 * longer than a route can be.
 */
bool model_way(const struct device *from, unsigned port, unsigned peer_type, unsigned peer_port,
	       struct target *way);
/*
 * Finds the ways to all devices anew, by links that are not lost. changed: for each device whether
 * its way is another one; what no way leads to keeps the one it had. -ENOMEM.
 */
int model_reroute(struct model *model, bool *changed);
/*
 * Another way to a device, by none of the links between switches that its own way has. False: there
 * is none.
 */
bool model_other_way(const struct model *model, const struct device *to, struct nmp_route *out,
		     struct nmp_route *back);
/* Which devices the server's own has a way to, by links that are not lost. -ENOMEM. */
int model_reached(const struct model *model, bool *reached);
void model_count_links(struct model *model);
/*
 * Steps of each switch from the nodes, by links that are up; MODEL_NO_RANK for nodes, and where no
 * way leads. The server's own node is none. The highest, or -ENOMEM.
 */
int model_ranks(const struct model *model, uint8_t *rank);

static inline bool model_up(const struct model_port *port)
{
	return port->peer != MODEL_NONE && port->state == NEIGHBOUR_UP && !port->lost;
}

#endif
