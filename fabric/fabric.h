/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The inside of fabricd: what its files share. All of it belongs to one thread, which waits in
 * fabric_server_run() and calls everything else from there; there are no locks.
 *
 *	topology*.c   descriptions of fabrics; generate.c: made ones
 *	map.c         the map: nodes, ports and tables that hosts read too
 *	forward.c     the way of a MAD through the switches, by directed route and by LID
 *	sma*.c        subnet management agents (chapter 14); pma.c, pma_samples.c: performance management
 *	              agents (16.1)
 *	ip.c          IP addresses of hosts
 *	route.c       the way of programs' packets; ledger.c: what they count
 *	link.c        cables and the states of ports; trap.c: notices to the subnet manager
 *	function.c    virtual functions: GUIDs that come and go
 *	host.c        each host's MAD layer: agents, routing of what arrives; host_send.c: what they send, and
 *	              timeouts; rmpp_send.c, rmpp_receive.c: MADs of several segments; host_port.c: the
 *	              ports of a fabric below it
 *	member.c      multicast groups that processes have joined
 *	timer.c       timers
 *	server.c      connections of programs (umad, issm, hosts); outbox.c: what goes to them
 *
 * A MAD that is sent is put into a queue and is at its destination when fabric_run() gets to it: an
 * agent that answers an answer runs in a loop, not in a recursion. When links on its way have a
 * delay, a timer lets it arrive.
 */
#ifndef URXE_FABRIC_FABRIC_H
#define URXE_FABRIC_FABRIC_H

#include <stddef.h>

#include "fabric/host.h"
#include "fabric/map.h"
#include "fabric/topology.h"

/* What a port counts (16.1.3.5, 16.1.4.11); wide enough for both kinds of counters. */
struct counters {
	uint64_t xmit_data, rcv_data, xmit_pkts, rcv_pkts; /* data in words of four bytes */
	uint64_t ucast_xmit_pkts, ucast_rcv_pkts, mcast_xmit_pkts, mcast_rcv_pkts;
	uint64_t symbol_errors, link_recovered, link_downed, rcv_errors, remote_physical;
	uint64_t switch_relay, xmit_discards, xmit_constraint, rcv_constraint, integrity, overrun;
	uint64_t qp1_dropped, vl15_dropped, xmit_wait;
	uint64_t no_lft, looping;  /* details of switch_relay */
	uint64_t classic_base[4];  /* of the first four: what a Set of PortCounters took off */
	struct sl_counters *by_sl; /* NULL: no packet of a program yet */
};

/* Data in words of four bytes, by service level, but for SMPs, which have none (7.6.5). */
struct sl_counters {
	uint64_t xmit_data[16], rcv_data[16];
};

struct notice;	/* trap.c */
struct sampler; /* pma_samples.c */

/* What fabricd alone knows of a port. */
struct port_private {
	struct counters count;
	struct timer lease;  /* M_Key lease (14.2.4.2) */
	unsigned sms;	     /* open issm files */
	uint8_t bad_packets; /* of late: each whole one takes one off (7.12.2) */
	uint64_t packets;    /* to its peer, since faults were set */
};

struct node_private {
	struct notice *notices; /* traps that nobody has repressed */
	uint32_t trap_tid;
	char *own_desc;		 /* of a function that has another NodeDescription meanwhile */
	struct sampler *sampler; /* NULL: not asked for yet */
};

struct ledger;
struct member;

struct fabric {
	struct mads mads; /* first: timers' functions get it */
	struct fabric_map *map;
	int map_fd;
	struct port_private *ports;
	struct node_private *nodes;
	struct packet *queue; /* a ring of packets */
	uint32_t head, tail, queue_mask;
	/* Packets that are under way on links with a delay, in the order in which they arrive. */
	struct late_packet *late, *last_late;
	unsigned num_late;
	struct timer arrival;	 /* of the first one */
	uint64_t (*clock)(void); /* ms, newer than mads.now; NULL: mads.now is exact */

	struct ledger *ledgers;	  /* of programs' packets */
	struct member *members;	  /* of multicast groups */
	unsigned members_waiting; /* whose process has ended, for an answer */
	bool members_over;	  /* some of these have it */
	/* Tells the processes of the port's host; NULL: there are none. */
	void (*port_changed)(struct fabric *f, const struct fabric_port *port, bool rereg);
	/* For show: SMPs carried out; ports that a subnet manager has told to have their programs
	 * register again. */
	uint64_t smps, reregistered;
};

/* ---- map.c ---- */

/* Makes the map of a topology, all links trained. -errno. */
int fabric_create(struct fabric *f, const struct topology *t, const char *name);
void fabric_destroy(struct fabric *f);
/* A port as it is when it is switched on: no LID, no key, the default P_Key. Around it:
 * map_begin(), map_end(). */
void fabric_port_reset(struct fabric *f, struct fabric_port *port);
/* The same for all of a node, its tables and counters too. */
void fabric_node_reset(struct fabric *f, struct fabric_node *node);

static inline struct fabric_node *node_of(const struct fabric *f, const struct fabric_port *port)
{
	return fabric_map_node(f->map, port->node);
}

static inline struct fabric_port *port_at(const struct fabric *f, uint32_t i)
{
	return fabric_map_port(f->map, i);
}

static inline uint32_t index_of(const struct fabric *f, const struct fabric_port *port)
{
	return port - fabric_map_port(f->map, 0);
}

static inline struct counters *count_of(struct fabric *f, const struct fabric_port *port)
{
	return &f->ports[index_of(f, port)].count;
}

/* Around a change of what routes depend on. */
static inline void map_begin(struct fabric *f)
{
	atomic_fetch_add_explicit(&f->map->generation, 1, memory_order_seq_cst);
}

static inline void map_end(struct fabric *f)
{
	atomic_fetch_add_explicit(&f->map->generation, 1, memory_order_seq_cst);
}

/* The port whose P_Key, GUID and LID an adapter's or switch's port number stands for: itself, or
 * port 0. */
static inline struct fabric_port *end_port(const struct fabric *f, struct fabric_port *port)
{
	struct fabric_node *n = node_of(f, port);

	return n->type == NODE_SWITCH ? fabric_node_port(f->map, n, 0) : port;
}

/* ---- forward.c ---- */

/* Room for a packet at the end of the queue, whose port is an adapter's or a switch's port 0;
 * fabric_send_done() sends it, and the rest comes with fabric_run(). */
struct packet *fabric_send_room(struct fabric *f);
void fabric_send_done(struct fabric *f);
/* Turns a packet round: it is an answer now. */
void fabric_turn(struct fabric *f, struct packet *p);
/* Carries out all that is under way, but for what links with a delay keep. */
void fabric_run(struct fabric *f);
/* Drops what they keep. */
void fabric_forget_late(struct fabric *f);
/* Can a route of that SMP begin at this port? mad.c refuses others when they are sent. */
bool fabric_route_begins(const struct fabric_port *port, const uint8_t *smp);

/* ---- sma.c, sma_port_info.c, sma_tables.c ---- */

/*
 * An SMP has arrived at the management agent of port's node. True: the packet is the answer, or has
 * nothing to say (*answer false). False: it is not for the agent, but for a subnet manager of the
 * host.
 */
bool sma_receive(struct fabric *f, struct packet *packet, bool *answer);
/* Get or Set of one attribute; the status. port: where it came in. */
uint16_t sma_port_info(struct fabric *f, struct fabric_port *in, uint8_t *mad, bool set);
uint16_t sma_guid_info(struct fabric *f, struct fabric_port *in, uint8_t *mad, bool set);
uint16_t sma_pkey_table(struct fabric *f, struct fabric_port *in, uint8_t *mad, bool set);
uint16_t sma_sl_to_vl(struct fabric *f, struct fabric_port *in, uint8_t *mad, bool set);
uint16_t sma_vl_arb(struct fabric *f, struct fabric_port *in, uint8_t *mad, bool set);
uint16_t sma_lft(struct fabric *f, struct fabric_port *in, uint8_t *mad, bool set);
uint16_t sma_mft(struct fabric *f, struct fabric_port *in, uint8_t *mad, bool set);
/* Does the M_Key allow it? Counts, and begins the lease, where it does not. */
bool sma_mkey_allows(struct fabric *f, struct fabric_port *port, const struct packet *packet);

/* ---- pma.c ---- */

/* A performance management MAD for port's node: the packet becomes the answer; false: nothing to
 * say. */
bool pma_receive(struct fabric *f, struct packet *packet);
/* Counts data by service level that has crossed the cable of a port. */
void pma_count_sl(struct fabric *f, const struct fabric_port *out, uint8_t sl, uint64_t words);
/* The answer to a Get of an attribute of one port. */
void pma_get(struct fabric *f, struct fabric_port *port, uint16_t attribute, uint8_t mad[MAD_LEN]);

/* ---- pma_samples.c ---- */

/* PortSamplesControl; PortSamplesResult, also the extended one. The status. */
uint16_t pma_samples_control(struct fabric *f, struct fabric_port *at, uint8_t *mad, bool set);
uint16_t pma_samples_result(struct fabric *f, struct fabric_port *at, uint8_t *mad, bool extended);

/* ---- link.c ---- */

/* The cable of a port, as the operator wants it. Both ends change; traps are sent. */
void link_set(struct fabric *f, struct fabric_port *port, bool up);
/* Switches a node on or off, with all of its links: what was set there is lost. */
void link_node_set(struct fabric *f, struct fabric_node *node, bool up);
/* As link_update() of a fabric that begins: each end has the width and speed of its description. */
void link_begin(struct fabric *f, struct fabric_port *port);
/* Brings physical states and PortInfo of both ends to what cables and settings allow. */
void link_update(struct fabric *f, struct fabric_port *port);
/* Down once, and trained again if its physical state lets it. */
void link_retrain(struct fabric *f, struct fabric_port *port);
/* Sets the logical state. */
void link_set_state(struct fabric *f, struct fabric_port *port, uint8_t state);
/* Can a packet cross? It has a cable, and both ends are trained. */
static inline bool link_up(const struct fabric_port *port)
{
	return port->peer != FABRIC_NONE && hi4(port->info[PI_PHYS]) == PHYS_LINK_UP;
}

/* ---- host_port.c ---- */

extern const struct mads_ops host_port_ops;

static inline struct fabric *fabric_of(struct mads *m)
{
	return (struct fabric *)((char *)m - offsetof(struct fabric, mads));
}

/* The packet that carries a MAD of an agent, from the header as the program wrote it. */
void host_packet(struct fabric *f, const struct agent *agent, const uint8_t *hdr, struct packet *p);
/* A program's packet had a key that the port does not take: it is counted, and the subnet manager
 * told. */
void host_violation(struct fabric *f, const struct fabric_violation *v);
/* PortInfo, P_Keys or GUIDs of a port changed: its host's programs are told. rereg: they shall
 * register anew. */
void host_port_changed(struct fabric *f, struct fabric_port *port, bool rereg);

/*
 * Faults of a cable, in the direction away from the port: shares of packets that vanish and that
 * arrive corrupted, from 0 to 1. Which they are depends on the fabric's seed, the link, the
 * packet's addresses and how many came before it, and so is the same in each run. delay: in ns, of
 * each packet, at most LINK_MAX_DELAY.
 */
#define LINK_MAX_DELAY 10000000000ull
void link_set_faults(struct fabric *f, struct fabric_port *port, double loss, double corruption,
		     uint64_t delay);
/* A packet that is no SMP comes in at a port: if it is Armed, it becomes Active (7.2.7). */
void link_takes_data(struct fabric *f, struct fabric_port *port);
/* A packet has come in at a port with a physical error. Too many of them are an error of the link.
 * */
void link_damaged(struct fabric *f, struct fabric_port *port);
/* Is a packet that leaves by the port lost on the way? Counts it where hardware would. */
bool link_loses(struct fabric *f, struct fabric_port *port, const struct packet *packet);

/* ---- function.c ---- */

/* The virtual switch that an adapter is behind, or the switch itself; NULL. */
const struct fabric_node *function_switch(struct fabric *f, const struct fabric_node *node);
/* The virtual function of that number behind a virtual switch, or of the adapter at one; NULL. */
struct fabric_node *function_find(struct fabric *f, const struct fabric_node *node, unsigned num);
/*
 * Gives a function another GUID, that of its node and of its port; 0: none, by which its link goes
 * down. The port is as after a reset. A function that has that GUID already is left alone.
 */
void function_set_guid(struct fabric *f, struct fabric_node *node, uint64_t guid);
/* Switches a function on or off. */
void function_enable(struct fabric *f, struct fabric_node *node, bool on);
/* A port of another node that has that GUID, or whose node has it; NULL. */
const struct fabric_port *function_other(struct fabric *f, const struct fabric_node *node,
					 uint64_t guid);
/*
 * Sets NodeDescription, as a driver does; the subnet manager is told. NULL: as it was in the
 * beginning, which clearing the GUID does as well.
 */
void function_set_desc(struct fabric *f, struct fabric_node *node, const char *desc);

/* ---- trap.c ---- */

enum {
	TRAP_LINK_STATE = 128,
	TRAP_LINK_INTEGRITY = 129,
	TRAP_CAPABILITIES = 144,
	TRAP_BAD_MKEY = 256,
	TRAP_BAD_PKEY = 257,
	TRAP_BAD_QKEY = 258,
};

/* Tells the subnet manager, again and again, until it represses the notice. data: the 54 bytes of
 * details. */
void trap_raise(struct fabric *f, struct fabric_port *port, unsigned number, const uint8_t *details,
		size_t len);
void trap_link_state(struct fabric *f, struct fabric_node *node);
void trap_capabilities(struct fabric *f, struct fabric_port *port);
void trap_description(struct fabric *f, struct fabric_port *port);
void trap_bad_mkey(struct fabric *f, struct fabric_port *port, const struct packet *packet);
void trap_bad_pkey(struct fabric *f, struct fabric_port *port, const struct packet *packet);
void trap_bad_qkey(struct fabric *f, struct fabric_port *port, const struct packet *packet);
void trap_link_integrity(struct fabric *f, struct fabric_port *port);
/* A TrapRepress has come. */
void trap_repress(struct fabric *f, struct fabric_port *port, const uint8_t *mad);
void trap_forget(struct fabric *f, struct fabric_node *node);

#endif
