/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A fabric without its daemon, for the tests: two leaves under a spine, a host at each leaf and a
 * third with two ports, a program's file on each host. h2 is a virtual function of leaf2. What a
 * program would read lies in `inbox`.
 */
#ifndef FABRIC_TEST_H
#define FABRIC_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <rdma/ib_user_mad.h>

#include "fabric/fabric.h"
#include "fabric/member.h"
#include "fabric/server.h"

static const char test_topology[] = "Switch 8 \"leaf1\"\n"
				    "[1] \"h1\"[1]\n"
				    "[8] \"spine\"[1]\n"
				    "Switch 8 \"leaf2\"\n"
				    "[1] \"h2\"[1]\n"
				    "[2] \"h3\"[2]\n"
				    "[8] \"spine\"[2]\n"
				    "Switch 4 \"spine\"\n"
				    "Ca 1 \"h1\"\n"
				    "function=1\n"
				    "caguid=0x77\n"
				    "Ca 1 \"h2\"\n"
				    "Ca 2 \"h3\"\n";

enum { LEAF1, LEAF2, SPINE, H1, H2, H3 };

/* What was delivered last to each "file", which is one of these. */
struct inbox {
	unsigned count;
	uint32_t len;
	struct ib_user_mad_hdr hdr;
	uint8_t *mad;
};

static struct fabric fabric;

void __wrap_server_deliver(struct fabric *f, struct connection *file, const uint8_t *hdr,
			   const uint8_t *mad, uint32_t len);

void __wrap_server_deliver(struct fabric *f, struct connection *file, const uint8_t *hdr,
			   const uint8_t *mad, uint32_t len)
{
	struct inbox *in = (struct inbox *)file;

	in->count++;
	in->len = len;
	memcpy(&in->hdr, hdr, sizeof(in->hdr));
	free(in->mad);
	in->mad = malloc(len);
	memcpy(in->mad, mad, len);
}

static inline int fabric_start(void **state)
{
	char error[TOPOLOGY_ERROR_LEN];
	struct topology t;

	memset(&fabric, 0, sizeof(fabric));
	timers_init(&fabric.mads.timers, 0, &fabric);
	if (topology_read(&t, test_topology, strlen(test_topology), error))
		return -1;
	if (fabric_create(&fabric, &t, "test"))
		return -1;
	topology_free(&t);
	return 0;
}

static inline int fabric_stop(void **state)
{
	member_forget(&fabric);
	for (uint32_t i = 0; i < fabric.map->num_ports; i++) {
		while (fabric.mads.at_port[i])
			host_unregister(&fabric.mads, fabric.mads.at_port[i]);
	}
	for (uint32_t i = 0; i < fabric.map->num_nodes; i++)
		trap_forget(&fabric, fabric_map_node(fabric.map, i));
	fabric_destroy(&fabric);
	return 0;
}

static inline struct fabric_port *port_of(unsigned node, unsigned port)
{
	return fabric_node_port(fabric.map, fabric_map_node(fabric.map, node), port);
}

/* An agent for a host's port with these methods, whose program reads from inbox. */
static inline struct agent *agent_at(unsigned node, unsigned port, uint8_t class, uint8_t version,
				     uint64_t methods, uint8_t rmpp, struct inbox *inbox)
{
	struct fabric_request r = {.qpn = class == CLASS_SUBN_LID || class == CLASS_SUBN_DR ? 0 : 1,
				   .mgmt_class = class,
				   .class_version = version,
				   .rmpp_version = rmpp,
				   .oui = class_is_vendor2(class) ? 0x1405 : 0,
				   .method_mask = {methods}};
	struct agent *agent;

	assert_int_equal(host_register(&fabric.mads, (struct connection *)inbox,
				       index_of(&fabric, port_of(node, port)), &r, 3, &agent),
			 0);
	return agent;
}

/* What a program writes: a header for that LID and QP, and a MAD. */
struct umad {
	struct ib_user_mad_hdr hdr;
	uint8_t mad[MAD_LEN];
};

static inline struct umad umad_to(uint16_t lid, uint32_t qp, uint32_t timeout)
{
	struct umad u = {.hdr = {.id = 3, .timeout_ms = timeout}};

	u.hdr.lid = htobe16(lid);
	u.hdr.qpn = htobe32(qp);
	u.hdr.qkey = htobe32(qp ? 0x80010000 : 0);
	u.mad[MAD_BASE_VERSION] = 1;
	put64(u.mad + MAD_TID, 0x1234);
	return u;
}

/* An SMP by directed route; path: the ports, ended by 0. */
static inline struct umad smp(uint8_t method, uint16_t attribute, uint32_t modifier,
			      const uint8_t *path)
{
	struct umad u = umad_to(LID_PERMISSIVE, 0, 100);
	unsigned hops = path ? strlen((const char *)path) : 0;

	u.mad[MAD_CLASS] = CLASS_SUBN_DR;
	u.mad[MAD_CLASS_VERSION] = 1;
	u.mad[MAD_METHOD] = method;
	put16(u.mad + MAD_ATTR, attribute);
	put32(u.mad + MAD_MOD, modifier);
	put16(u.mad + SMP_DR_SLID, LID_PERMISSIVE);
	put16(u.mad + SMP_DR_DLID, LID_PERMISSIVE);
	u.mad[SMP_HOP_COUNT] = hops;
	if (hops)
		memcpy(u.mad + SMP_INIT_PATH + 1, path, hops);
	return u;
}

static inline int send_umad(struct agent *agent, const struct umad *u)
{
	int ret = host_send(&fabric.mads, agent, (const uint8_t *)u, sizeof(*u));

	fabric_run(&fabric);
	return ret;
}

static inline void time_passes(unsigned ms)
{
	for (unsigned i = 0; i < ms; i++) {
		timers_run(&fabric.mads.timers, ++fabric.mads.now);
		fabric_run(&fabric);
	}
}

/* What a subnet manager would do: LIDs 1, 2, … in the order of nodes, tables, all ports Active. */
static inline void manage(void)
{
	static const uint8_t out[3][7] = {
		{0, 0, 8, 8, 1, 8, 8}, {0, 8, 0, 8, 8, 1, 2}, {0, 1, 2, 0, 1, 2, 2}};

	for (unsigned sw = LEAF1; sw <= SPINE; sw++) {
		struct fabric_node *n = fabric_map_node(fabric.map, sw);

		put16(port_of(sw, 0)->info + PI_LID, sw + 1);
		put16(port_of(sw, 0)->info + PI_SM_LID, 4);
		for (unsigned lid = 1; lid <= 6; lid++)
			fabric_map_bytes(fabric.map, n->lft)[lid] = 255 - out[sw][lid];
	}
	for (unsigned h = H1; h <= H3; h++) {
		put16(port_of(h, h == H3 ? 2 : 1)->info + PI_LID, h + 1);
		put16(port_of(h, h == H3 ? 2 : 1)->info + PI_SM_LID, 4);
	}
	for (uint32_t i = 0; i < fabric.map->num_ports; i++)
		if (link_up(port_at(&fabric, i)))
			link_set_state(&fabric, port_at(&fabric, i), PORT_ACTIVE);
}

#endif
