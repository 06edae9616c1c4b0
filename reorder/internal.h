/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The destination half from inside: what destination.c (rules), queue.c (FIFOs, scheduler) and
 * estimate.c (when the old path's last packet will come) share.
 *
 * Nodes are packets in a FIFO. All come from one array, and are linked by their numbers:
 *
 *   port:  normal   o-o-o-o-o          packets in order, ordinary packets, old paths' packets
 *          queue 0  a-a-b-a-c-b        flows a, b, c; a's turn comes when a's old path is empty,
 *          queue 1  d-d                and everything behind waits for it
 */
#ifndef REORDER_INTERNAL_H
#define REORDER_INTERNAL_H

#include "reorder/reorder.h"

#define NONE UINT32_MAX
#define WAYS 4

enum flow_state {
	IN_ORDER, /* packets go through the normal queue */
	HOLDING,  /* the old path's last packet has not come: packets are held */
	DRAINING, /* it has, or was given up: packets follow those that are held */
};

struct node {
	uint32_t next;
	uint32_t handle;
	uint32_t size;
	uint32_t flow; /* NONE in the normal queue */
	uint32_t wait; /* that it counts for, see struct queue */
	uint16_t ingress;
};

struct fifo {
	uint32_t first, last;
	uint64_t bytes;
};

/*
 * A reorder queue. Packets that come while a flow in it is HOLDING wait for an old path, their own
 * or another's; what is before them waits for the link only. When no flow is HOLDING any more, all
 * of them have ceased to: the number of the wait goes up, and so they need not be visited.
 */
struct queue {
	struct fifo fifo;
	uint32_t flows;	  /* that have packets in it: the first of a list */
	uint32_t holding; /* how many are HOLDING */
	uint32_t wait;
	uint64_t waiting_packets;
	uint64_t *waiting; /* bytes, by ingress */
};

/* A port. in and out count packets of the normal queue, ever. */
struct port {
	struct fifo normal;
	uint64_t in, out;
	uint64_t used; /* a bit for each reorder queue that has packets */
	uint32_t turn;
	struct queue *queue;
};

struct flow {
	struct reorder_key key;
	uint32_t id;
	uint32_t held; /* packets in the queue */
	uint32_t next_holding, previous_holding;
	uint32_t next_waiting, previous_waiting; /* for the same path */
	uint32_t next_in_queue, previous_in_queue;
	int64_t last;	 /* arrival */
	int64_t since;	 /* HOLDING: when it began */
	int64_t timer;	 /* HOLDING: when to stop */
	int64_t cleared; /* when the last CLEAR was sent */
	int64_t predicted[REORDER_ESTIMATORS];
	uint64_t mark;	  /* DRAINING: packets that leave the normal queue first */
	uint32_t tail_tx; /* t_tx of the old path's last packet */
	uint16_t source;
	uint16_t port;
	uint16_t newest; /* sequence */
	uint16_t tail;	 /* sequence of the old path's last packet */
	uint8_t epoch;
	uint8_t state;
	uint8_t old_path;
	uint8_t queue;
	bool through; /* DRAINING: nothing before its held packets waits any more */
	bool tail_known;
	bool proof_known; /* tail_tx is */
	/* This epoch and those before, a bit each: */
	uint8_t doubled;  /* moved again before it was in order: two old paths */
	uint8_t given_up; /* no longer waited for */
};

/* What was seen of a path from a source. Times without a shared origin are signed ticks. */
struct path {
	uint32_t waiting; /* flows that wait for its last packet: the first of a list */
	bool seen;
	uint32_t t_tx; /* of the newest packet */
	int64_t t_rx;
	int64_t offset;	  /* t_rx - t_tx of it, t_tx put near t_rx */
	int64_t least[2]; /* smallest offset in this window of time and in the one before */
	int64_t window;	  /* when this one began */
	int64_t margin;	  /* running 99.9th percentile of actual - predicted */
	/* mg1: two windows of arrivals */
	int64_t load_window;
	uint64_t count[2], bytes[2], squares[2];
	uint32_t told; /* the news of its end that was fed back */
	uint16_t ingress;
};

/*
 * The end that the paths of one number have in common, whatever switch they come from: a spine's
 * port to here, or a core switch's and what follows. Its queue is the same for all of them, so the
 * newest packet of any of them tells of it.
 */
struct end {
	int64_t wait; /* of that packet above the least of its path, in ticks */
	uint32_t news;
};

struct reorder_destination {
	struct reorder_destination_config config;
	struct flow *flows;
	struct path *paths; /* [source][path] */
	struct port *ports;
	struct node *nodes;
	uint64_t *held_of;    /* ingress: bytes that wait for an old path */
	struct queue *queues; /* of all ports */
	uint64_t *waiting;    /* of all queues */
	struct end *ends;     /* path number */
	bool *paused;	      /* ingress */
	uint8_t *next_fed;    /* source: path to feed back about next */
	uint32_t free_node;
	uint32_t free_nodes;
	uint32_t holding; /* list of flows */
	int64_t deadline;
	int64_t per_byte;			 /* ps */
	unsigned queue_count;			 /* of a port */
	uint64_t held_bytes, held_packets;	 /* in reorder queues */
	uint64_t waiting_bytes, waiting_packets; /* of these, waiting for an old path */
	unsigned full;	  /* ingresses that hold more than half of what they may */
	unsigned without; /* ordering rules that are left out, a bit each: for reorder-check */
	struct reorder_destination_counters counters;
};

/* Leave ordering rules out: bit n is rule n of docs/reorder.md. reorder-check proves them needed.
 * */
void reorder_without_rules(struct reorder_destination *destination, unsigned rules);
static inline bool rule(const struct reorder_destination *d, unsigned number)
{
	return !(d->without & 1u << number);
}

/* queue.c */
int reorder_push_normal(struct reorder_destination *d, const struct reorder_packet *packet);
int reorder_push_held(struct reorder_destination *d, const struct reorder_packet *packet,
		      uint32_t flow);
/* The queue of a port for a flow whose old path will be empty at that time. */
uint8_t reorder_choose_queue(struct reorder_destination *d, uint16_t port, int64_t release,
			     int64_t now);
/* A flow begins, or ceases, to be HOLDING in its queue. */
void reorder_queue_waits(struct reorder_destination *d, const struct flow *flow);
void reorder_queue_goes_on(struct reorder_destination *d, const struct flow *flow);
bool reorder_queue_is_waiting(const struct reorder_destination *d, const struct flow *flow);

/* estimate.c */
static inline struct path *path_of(struct reorder_destination *d, uint16_t source, uint8_t path)
{
	return &d->paths[(size_t)source * d->config.paths + path];
}
/* t_tx is 32 bits: where it lies in 64, as near to a time as may be. In ticks. */
static inline int64_t near(uint32_t t_tx, int64_t ticks)
{
	return ticks + (int32_t)(t_tx - (uint32_t)ticks);
}
void reorder_observe(struct reorder_destination *d, struct path *path, uint32_t t_tx, uint32_t size,
		     uint16_t ingress, int64_t now);
/* When a packet that left at tail_tx will have arrived by this path, in ps. */
int64_t reorder_predict(struct reorder_destination *d, enum reorder_estimator estimator,
			const struct path *path, uint16_t source, uint32_t tail_tx, int64_t now);
void reorder_learn(struct reorder_destination *d, struct path *path, const struct flow *flow,
		   int64_t now);
/* The wait on a path, in ps, above the least of all paths from that source. */
int64_t reorder_wait(struct reorder_destination *d, uint16_t source, const struct path *path);

/* destination.c: the last held packet of a flow has left. */
void reorder_drained(struct reorder_destination *d, uint32_t flow, int64_t now);

#endif
