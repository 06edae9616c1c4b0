/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fabric-sim: the state of one run, which all its files share. One process runs one simulation in
 * one thread; a sweep is many processes.
 *
 * Time is integer picoseconds, and no floating point decides anything: the same seed gives the same
 * run whatever the compiler. Packets live in one array and are linked by their numbers:
 *
 *   host --nic--> [port] ==link==> switch: route, charge the buffer, [port] ==link==> ... --> nic
 *
 * A port is the sending end of a link: two FIFOs (control before data) and the time until which the
 * link is busy. A packet that finds its link idle costs one event, its arrival at the other end;
 * else one more, for the link becoming free.
 */
#ifndef FABRIC_SIM_H
#define FABRIC_SIM_H

#include "reorder/reorder.h"
#include "reorder/sim/options.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define NS	 ((int64_t)1000)
#define US	 ((int64_t)1000000)
#define MS	 ((int64_t)1000000000)
#define NONE	 UINT32_MAX
#define MTU	 1000 /* payload bytes */
#define HEADERS	 48   /* Ethernet, IPv4, UDP and transport, as conweave-ns3 counts them */
#define ACK_SIZE 60
#define CONTROL	 64

enum packet_type {
	DATA,
	ACK,
	NACK,
	CW_REPLY,  /* ConWeave's answer to INIT and TAIL */
	CW_NOTIFY, /* ConWeave's notice of ECN marks on a path */
	RO_CLEAR,  /* libreorder's CLEAR */
};

enum { CE = 1, CNP = 2, LAST_BYTES = 4, CHARGED = 8, SHIMMED = 16, RESENT = 32 };

struct conweave_tag {
	int64_t sent, tail;
	uint32_t epoch;
	uint8_t path, phase, what;
};

struct conga_tag {
	uint8_t path, ce, fb_path, fb_ce;
};

struct packet {
	uint32_t next;
	uint32_t flow;
	uint32_t number; /* data: of the packet in its flow; ACK: first one that is missing */
	uint32_t sack;	 /* IRN's NACK: the packet that came instead */
	uint16_t size;	 /* bytes on the wire */
	uint16_t at;	 /* port it came in by: the switch's own end of that link */
	uint8_t type;
	uint8_t flags;
	uint8_t path;
	uint8_t to_switch; /* control packet: its receiver is a switch */
	union {
		struct reorder_shim shim;
		struct conweave_tag cw;
		struct conga_tag conga;
	};
};
_Static_assert(sizeof(struct packet) <= 64, "a packet is one cache line");

struct fifo {
	uint32_t first, last;
};

struct port {
	struct fifo control, data;
	int64_t free_at;
	int64_t pause_sent; /* the last PAUSE or RESUME of this port has left the link */
	int64_t per_byte;   /* ps */
	int64_t delay;
	uint32_t bytes;	     /* in the data FIFO */
	uint16_t node, peer; /* peer: the port of the other end */
	bool pending;	     /* a FREE event is on its way */
	bool paused;	     /* by the other end */
	bool pausing;	     /* the other end, by us */
	bool expiring;	     /* an EXPIRE event is on its way */
	int64_t paused_until;
	bool to_host;
	uint8_t local;	   /* number among its switch's */
	uint32_t ingress;  /* bytes in the switch that came by this link */
	uint32_t headroom; /* of these, in headroom */
	uint32_t egress;   /* bytes in the switch that leave by it */
	uint64_t sent;	   /* bytes, for CONGA */
	int64_t dre_time;
	uint64_t dre;
};

struct node {
	uint16_t ports, first_port; /* the first up_ports of them lead up */
	uint8_t level;		    /* 0: host, 1: ToR, 2: spine or aggregation, 3: core */
	uint16_t pod, number;	    /* ToR: number of all ToRs */
	uint32_t used, used_max;    /* bytes in the shared buffer */
	struct reorder_source *source;
	struct reorder_destination *destination;
	int64_t timer; /* of the destination half */
	uint32_t ecmp;
};

struct topology {
	bool fat;
	uint32_t hosts, tors, nodes, ports;
	uint32_t per_tor; /* hosts */
	uint32_t paths;	  /* between two ToRs, at most */
	uint32_t k, spines;
};

/* A flow, its requester and its responder. Packets are counted, not bytes. */
struct flow {
	uint16_t source, destination;
	uint32_t packets, last_size; /* payload of the last packet */
	uint64_t bytes;
	int64_t start, end, alone; /* ps; alone: time it would take in an empty fabric */
	uint32_t hash;
	uint8_t ecmp, ecmp_back;
	bool done;
	/* requester */
	bool ready, timed, alive;
	uint32_t next_ready;
	uint32_t una, nxt, highest, acked; /* highest sent; highest acknowledged */
	int64_t available, rto_at;
	bool rto_set, recovering, again;
	uint32_t recover_to;
	uint64_t sacked[4]; /* IRN: bits of the packets from una on */
	/* DCQCN, rates in bit/s */
	uint64_t rate, target, alpha;
	int64_t first_cnp;
	int64_t alpha_steps; /* done since first_cnp */
	bool cnp_alpha, decrease_set, raise_set;
	uint32_t stage;
	int64_t raise_at;
	/* responder */
	uint32_t expected, nacked;
	int64_t nack_at;
	uint64_t got[4]; /* IRN: bits of the packets from expected on */
	uint32_t newest; /* number of the newest packet seen, plus one */
	/* balancing */
	int64_t flowlet;
	uint8_t path;
};

struct counters {
	uint64_t events, hops, data_packets, retransmitted, drops, pauses, marks;
	uint64_t nic_out_of_order, nacks, timeouts, cnps;
	uint64_t reroutes, held, timer_releases, clears;
	uint64_t held_packets_max, held_bytes_max, queues_max, buffer_max;
	uint64_t control_bytes; /* of the balancing method: its own packets and headers */
	uint64_t overtaken;	/* packets that arrive after a later one of their flow, at NICs */
};

struct sim {
	const struct options *options;
	struct topology topology;
	int64_t now;
	uint64_t random;
	struct node *node;
	struct port *port;
	struct packet *packet;
	uint32_t packets, free_packet, packets_out;
	struct flow *flow;
	uint32_t flows, started, done;
	struct fifo *ready; /* of hosts: flows that may send */
	bool *waking;	    /* of hosts: a WAKE event is on its way */
	uint8_t *drill;	    /* [switch port group][host]: best port of the last time */
	uint64_t digest;
	struct counters count;
	struct reorder_source_counters source;
	struct reorder_destination_counters destination;
	void *balance; /* what conga.c or conweave.c keeps */
	int64_t stop;
	const char *broken; /* an invariant */
};

/* conweave-ns3 rounds times down to nanoseconds: its links are 1 % faster. */
static inline int64_t whole(const struct sim *s, int64_t time)
{
	return s->options->ns3 ? time / NS * NS : time;
}

/* event.c: a wheel of 256 ps slots for what is near, a heap for what is not. */
enum event_kind {
	ARRIVE,
	FREE,
	PAUSE,
	RESUME,
	EXPIRE,
	PACE,
	WAKE,
	RTO,
	DECREASE,
	RAISE,
	START,
	HOLD,
	VOQ,
};
void event_init(void);
void event_fini(void);
void event_add(int64_t now, int64_t time, enum event_kind kind, uint32_t index);
bool event_next(int64_t *time, enum event_kind *kind, uint32_t *index);

/* random.c */
uint64_t random_next(uint64_t *state);
uint32_t random_below(uint64_t *state, uint32_t limit);
int64_t random_exponential(uint64_t *state, int64_t mean); /* up to 44 means, mean < 2^53 */

/* topology.c */
int topology_build(struct sim *s);
/* The port by which a packet leaves a switch, for its destination host and its path. */
uint32_t topology_route(const struct sim *s, uint32_t node, uint32_t host, unsigned path);
static inline uint32_t tor_of(const struct sim *s, uint32_t host)
{
	return host / s->topology.per_tor;
}
/* Paths between two ToRs, and the number that the n-th has. */
uint32_t topology_paths(const struct sim *s, uint32_t from, uint32_t to);
static inline unsigned path_number(const struct sim *s, uint32_t from, uint32_t to, uint32_t n)
{
	return topology_paths(s, from, to) == s->topology.paths ? n : n * (s->topology.k / 2);
}
int64_t topology_delay(const struct sim *s, uint32_t a, uint32_t b);
int64_t topology_base_rtt(const struct sim *s, uint32_t a, uint32_t b);
/* The uplink of a ToR that a path begins with. */
static inline struct port *uplink_of(const struct sim *s, uint32_t tor, unsigned path)
{
	unsigned up = s->topology.fat ? path / (s->topology.k / 2) : path;

	return &s->port[s->node[s->topology.hosts + tor].first_port + up];
}

/* switch.c */
uint32_t packet_new(struct sim *s);
void packet_free(struct sim *s, uint32_t p);
void port_kick(struct sim *s, uint32_t port);
void port_free(struct sim *s, uint32_t port);
void port_pause(struct sim *s, uint32_t port);
void port_resume(struct sim *s, uint32_t port);
void port_expire(struct sim *s, uint32_t port);
void switch_receive(struct sim *s, uint32_t p);
/* Charge the buffer, or drop; and queue a data packet at a port. */
bool switch_charge(struct sim *s, uint32_t p, uint32_t port);
void switch_queue(struct sim *s, uint32_t p, uint32_t port);
void switch_forward(struct sim *s, uint32_t p, uint32_t port);
/* Send a packet that this switch made to the host or, through its ToR, the switch. */
void switch_originate(struct sim *s, uint32_t node, uint32_t p, uint32_t host);
void drop(struct sim *s, uint32_t p);
static inline uint64_t port_backlog(const struct port *port)
{
	return port->bytes;
}

/* nic.c, dcqcn.c */
void nic_start(struct sim *s, uint32_t flow);
void nic_receive(struct sim *s, uint32_t p);
uint32_t nic_next(struct sim *s, uint32_t host);
void nic_try(struct sim *s, uint32_t flow);
void nic_wake(struct sim *s, uint32_t host);
void nic_timeout(struct sim *s, uint32_t flow);
void dcqcn_start(struct sim *s, struct flow *flow);
void dcqcn_cnp(struct sim *s, uint32_t flow);
void dcqcn_decrease(struct sim *s, uint32_t flow);
void dcqcn_raise(struct sim *s, uint32_t flow);

/* Balancing: what the ToRs do with data packets. at_source chooses p->path; at_destination returns
 * true when it has taken the packet. */
struct balance {
	const char *name;
	int (*init)(struct sim *s);
	void (*fini)(struct sim *s);
	void (*at_source)(struct sim *s, uint32_t p, uint32_t node);
	void (*at_core)(struct sim *s, uint32_t p, uint32_t node);
	bool (*at_destination)(struct sim *s, uint32_t p, uint32_t node, uint32_t port);
	void (*control)(struct sim *s, uint32_t p, uint32_t node); /* a packet for this switch */
	void (*at_ack)(struct sim *s, uint32_t p, uint32_t node, bool source);
	void (*timer)(struct sim *s, uint32_t index);
	uint32_t (*dequeue)(struct sim *s, uint32_t port);
	uint64_t (*backlog)(struct sim *s, uint32_t port);
	void (*paused)(struct sim *s, const struct port *ingress);
	bool (*ready)(const struct sim *s, uint32_t port);
	void (*finish)(struct sim *s);
};
extern const struct balance balance_ecmp, balance_letflow, balance_drill, balance_conga,
	balance_conweave, balance_shared;
extern const struct balance *balance;
uint8_t topology_hash_path(const struct sim *s, uint32_t hash, uint32_t from, uint32_t to);

/* workload.c, cdf.c */
struct cdf {
	uint32_t points;
	struct {
		uint64_t bytes;
		uint32_t millionths;
	} point[1024];
};
int cdf_read(struct cdf *cdf, FILE *in, const char *name);
int cdf_builtin(struct cdf *cdf, const char *name);
uint64_t cdf_mean(const struct cdf *cdf);
uint64_t cdf_draw(const struct cdf *cdf, uint64_t *random);
struct arrival {
	int64_t start;
	uint64_t bytes;
	uint16_t source, destination;
};
/* Flows of conweave-ns3's file. Returns how many, or -errno with a message on stderr. */
long workload_read(FILE *in, const char *name, uint32_t hosts, struct arrival **arrivals);
int workload_make(struct sim *s);

/* run.c */
struct result;
int run(const struct options *options, struct result *result);
int mg1(const struct options *options);

#endif
