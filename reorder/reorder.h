/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libreorder: switches that move an RDMA flow from one path to another in its middle, and put it in
 * order again before the NIC sees it.
 *
 * The source half lives in the switch a flow enters the fabric by: it chooses paths, and marks each
 * frame with a shim. The destination half lives in the switch the flow leaves the fabric by: it
 * holds what came too early in one of a few FIFOs of the egress port, shared by several flows, and
 * contains that port's scheduler.
 *
 * The library does no I/O and reads no clock. Packets are handles of the caller's (any 32-bit
 * number), time is an argument, in picoseconds of the caller's own clock, which must not run
 * backwards. Clocks of two switches need not agree: only differences within one clock are used, and
 * differences of differences between two. No function blocks; nothing is allocated after creation.
 * An object may be used by one thread at a time.
 *
 * Configurations and counters may grow with the library, and are passed with their size as the
 * program knows it. A member that only the library knows has its default, or is not written; one
 * that only the program knows must be 0 (-EINVAL), or is written as 0. The other structures do not
 * change; a shim is what a frame carries.
 *
 * docs/reorder.md derives the rules.
 */
#ifndef REORDER_H
#define REORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define REORDER_ETHERTYPE 0x88B5     /* IEEE Std 802 local experimental EtherType 1 */
#define REORDER_SHIM	  12	     /* bytes that each frame between two switches grows by */
#define REORDER_SHIM_MAX  16	     /* those of a rerouted frame */
#define REORDER_TICK	  1024	     /* picoseconds: the unit of t_tx on the wire */
#define REORDER_NEVER	  INT64_MAX  /* no time */
#define REORDER_NO_PATH	  255	     /* paths are numbered 0 to 254 */
#define REORDER_NO_PACKET UINT32_MAX /* no handle */
#define REORDER_UNKNOWN	  INT16_MIN  /* an ago that tells nothing */
#define REORDER_PAUSED	  ((int64_t)100 * 1000 * 1000) /* ps */
#define REORDER_QUEUES	  64			       /* reorder queues of a port, at most */

/* A flow: addresses (IPv4 as IPv4-mapped IPv6), ports and destination QP. Compared as a whole. */
struct reorder_key {
	uint64_t word[5];
};

/*
 * Make a key. The addresses are 16 bytes each. qpn is the destination QP of the BTH: one socket of
 * a software adapter carries many QPs between the same two ports. Never fails.
 */
void reorder_key(struct reorder_key *key, const void *source, const void *destination,
		 uint16_t sport, uint16_t dport, uint32_t qpn);
/* The number of a flow: a hash of its key. Two flows may have the same. */
uint32_t reorder_id(const struct reorder_key *key);

/* Shim */

enum {
	REORDER_REROUTED = 1,  /* back and ago are there: the old path may not be empty yet */
	REORDER_CLEAR = 2,     /* no frame follows but a key: its flow is in order again */
	REORDER_FEEDBACK = 4,  /* fb_path and fb_wait are there */
	REORDER_NO_CREDIT = 8, /* the sender of this frame can hold no more for its receiver */
};

/*
 * What a frame between two switches carries between its Ethernet header and its IP header:
 *
 *    0       1       2       3
 *   +-------+-------+-------+-------+
 *   | flags | path  | old   | epoch |   flags: version 1 in the upper four bits
 *   +-------+-------+-------+-------+
 *   | sequence      | fbpath| fbwait|   feedback: wait seen on fbpath in the other direction
 *   +-------+-------+-------+-------+
 *   | t_tx, units of 1,024 ps       |
 *   +-------+-------+-------+-------+
 *   | back          | ago           |   only if rerouted
 *   +-------+-------+-------+-------+
 *
 * back: how many packets of the flow ago the last one went by the old path; 65,535 if more.
 * ago: how long before t_tx that one left, in 65,536 ps, rounded down; negative if it leaves later
 * than this one; 32,767 if earlier than that can say, REORDER_UNKNOWN if later.
 */
struct reorder_shim {
	uint8_t flags;
	uint8_t path;
	uint8_t old_path;
	uint8_t epoch;
	uint16_t sequence;
	uint8_t fb_path;
	uint8_t fb_wait;
	uint32_t t_tx;
	uint16_t back;
	int16_t ago;
};

/* Bytes of a shim on the wire. */
static inline size_t reorder_shim_size(const struct reorder_shim *shim)
{
	return shim->flags & REORDER_REROUTED ? REORDER_SHIM_MAX : REORDER_SHIM;
}

/* Write a shim; bytes has room for REORDER_SHIM_MAX. Returns its size. */
size_t reorder_shim_encode(const struct reorder_shim *shim, uint8_t *bytes);
/* Read a shim. Returns its size, -EINVAL if it is cut off, or -EPROTO if its version is another. */
int reorder_shim_decode(struct reorder_shim *shim, const uint8_t *bytes, size_t size);
/* A wait in ps as one byte: 4 bits of mantissa and 4 of exponent, from 16 ns to 16 ms; and back. */
uint8_t reorder_wait_encode(int64_t wait);
int64_t reorder_wait_decode(uint8_t code);

/* Source half */

struct reorder_source_config {
	size_t size;	       /* of this structure as the program knows it */
	uint32_t flows;	       /* entries of the flow table, a power of 2, at least 4 */
	uint16_t destinations; /* switches that frames go to */
	uint8_t paths;	       /* to each of them, 1 to 254 */
	int64_t high;	       /* ps; a path whose wait is above may be left ... */
	int64_t low;	       /* ps; ... for one whose wait is below ... */
	int64_t gain;	       /* ps; ... when that saves at least this much */
	int64_t most;	       /* ps; ... and no more: it is what the destination would hold for */
	int64_t rest;	       /* ps; a flow keeps a path for at least so long */
	uint32_t budget; /* bytes; a flow is moved if at its rate the destination would hold less */
	int64_t pace;	 /* ps; one flow is moved to a path in this time: about a round trip */
	int64_t inactive; /* ps; a flow that is silent for longer is forgotten, CLEAR or not */
	int64_t fresh;	  /* ps; feedback halves each time it gets older by this */
	/* What each byte sent by a path lately adds to its wait, in ps, and the time in which it
	 * counts half; 0: nothing. An uplink that is busy without a queue is no idle one. */
	int64_t per_byte, lately;
	uint32_t seed;
	/* Time in ps until a packet given to this path now would leave; INT64_MAX if it is down. */
	int64_t (*wait)(void *context, uint16_t destination, uint8_t path);
	/* What to add to it when paths are compared, 0 unless the uplink is paused. May be NULL. */
	int64_t (*penalty)(void *context, uint16_t destination, uint8_t path);
	void *context;
};

struct reorder_source_counters {
	uint64_t packets;
	uint64_t flows;	   /* entries made */
	uint64_t no_entry; /* packets of flows the table had no room for: ECMP, no shim */
	uint64_t reroutes;
	uint64_t forced;       /* of these, by reorder_source_force() */
	uint64_t escapes;      /* of these, from a path that is down */
	uint64_t held_back;    /* times a reroute waited for its turn (pace) */
	uint64_t no_credit;    /* times the destination had no room */
	uint64_t too_fast;     /* times a flow would have needed too much room there */
	uint64_t clears;       /* CLEARs that were awaited */
	uint64_t stray_clears; /* CLEARs that were not */
	uint64_t forgotten;    /* CLEARs that never came: the flow was silent instead */
};

struct reorder_source;

/* Returns -EINVAL (out of range), -ENOMEM or 0. */
int reorder_source_create(struct reorder_source **source,
			  const struct reorder_source_config *config);
void reorder_source_destroy(struct reorder_source *source);

/*
 * Route one packet of size bytes, whose id is reorder_id(key). Returns 0 with the shim filled in
 * (feedback apart) and the path in it, or -ENOENT when the flow table has no room: the packet goes
 * without a shim by reorder_source_ecmp(). Patent, steps 1 to 3.
 */
int reorder_source_route(struct reorder_source *source, const struct reorder_key *key, uint32_t id,
			 uint16_t destination, uint32_t size, int64_t now,
			 struct reorder_shim *shim);
/* The path of a flow without an entry: by its id, among those that are up. */
uint8_t reorder_source_ecmp(struct reorder_source *source, uint32_t id, uint16_t destination);
/* Learn from the feedback in a shim that came from that switch. */
void reorder_source_feedback(struct reorder_source *source, uint16_t destination,
			     const struct reorder_shim *shim, int64_t now);
/* A CLEAR came for this flow. */
void reorder_source_clear(struct reorder_source *source, const struct reorder_key *key, uint32_t id,
			  uint8_t epoch);
/* Move this flow to another path with its next packet. -ENOENT, -EBUSY (CLEAR awaited) or 0. */
int reorder_source_force(struct reorder_source *source, const struct reorder_key *key, uint32_t id);
/* What the half believes the wait on a path to be beyond this switch, in ps. */
int64_t reorder_source_remote(struct reorder_source *source, uint16_t destination, uint8_t path,
			      int64_t now);
void reorder_source_counters(const struct reorder_source *source,
			     struct reorder_source_counters *counters, size_t size);

/* Destination half */

enum reorder_mode {
	REORDER_HW, /* queues FIFOs a port, shared */
	REORDER_SW, /* a FIFO a flow as long as there are any (REORDER_QUEUES), then shared */
};

enum reorder_estimator {
	REORDER_SAMPLE,	    /* the newest packet seen of the old path, any flow's */
	REORDER_MG1,	    /* Pollaczek-Khinchine, as published */
	REORDER_ESTIMATORS, /* does not change: counters have arrays of it */
};

struct reorder_destination_config {
	size_t size; /* of this structure as the program knows it */
	enum reorder_mode mode;
	enum reorder_estimator estimator; /* which serves admission and timers */
	bool measure;			  /* count the other's errors too */
	uint32_t flows;			  /* entries of the flow table, a power of 2, at least 4 */
	uint32_t packets;		  /* in all queues of all ports, at most */
	uint16_t sources;		  /* switches that frames come from */
	/* From each of them, 1 to 254. Paths of one number end in the same links. */
	uint8_t paths;
	uint16_t ports;
	uint16_t ingresses; /* by which frames come; for the PFC bound */
	uint8_t queues;	    /* reorder queues of a port, 1 to REORDER_QUEUES */
	uint64_t rate;	    /* of a port, bit/s */
	int64_t before;	    /* ps; a flow that a queue would hold for longer than needed ... */
	int64_t after;	    /* ps; ... or that would idle the queue for longer counts as far */
	int64_t margin;	    /* ps; at least this much beyond the estimate before a timer acts */
	int64_t hold;	    /* ps; no flow is held for its old path's sake for longer */
	int64_t inactive;   /* ps; less than the source's, by the longest delay of a path */
	int64_t again;	    /* ps; CLEAR is repeated when rerouted frames come this much after */
	uint64_t
		held_ingress; /* bytes of one ingress that may wait for old paths: half its PFC limit */
	/* A port may be ready that was not, by another port's packet or a timer. May be NULL. */
	void (*ready)(void *context, uint16_t port);
	/* Send a CLEAR to a source. Both are called from enqueue, dequeue and
	 * expire, and call nothing of this library. */
	void (*clear)(void *context, uint16_t source, const struct reorder_key *key, uint32_t id,
		      uint8_t epoch);
	void *context;
};

struct reorder_destination_counters {
	uint64_t packets;
	uint64_t held;	   /* packets that went through a reorder queue */
	uint64_t holds;	   /* times a flow began to be held */
	uint64_t shared;   /* of these, in a queue that had other flows */
	uint64_t far;	   /* of these, outside before and after */
	uint64_t by_tail;  /* holds that ended with the old path's last packet */
	uint64_t by_proof; /* ... with a later packet of the old path: the last one was lost */
	uint64_t by_timer; /* ... with a timer */
	uint64_t by_bound; /* ... because too many bytes were held */
	uint64_t late;	   /* packets that came after their flow had stopped waiting for them */
	uint64_t doubled;  /* ... of an old path of a flow that was moved twice: its path broke */
	uint64_t no_entry; /* packets of flows the table had no room for: not held */
	uint64_t evicted;  /* flows in order whose entry went to one that was moved */
	uint64_t no_room;  /* packets refused because all places for packets were taken */
	uint64_t clears;
	uint64_t repeated_clears;
	uint64_t held_packets_max; /* that waited for old paths at a time */
	uint64_t held_bytes_max;
	uint32_t queues_max; /* reorder queues of one port in use at a time */
	uint64_t waited;     /* ps that holds lasted, in sum, until the tail came */
	uint64_t predictions[REORDER_ESTIMATORS];
	uint64_t error[REORDER_ESTIMATORS];	/* ps, sum of |actual - predicted| */
	uint64_t too_early[REORDER_ESTIMATORS]; /* predictions before the actual arrival */
};

/* One packet for the destination half. */
struct reorder_packet {
	uint32_t handle;
	uint32_t size;	  /* bytes on the wire */
	uint16_t port;	  /* it leaves by */
	uint16_t ingress; /* it came by */
	uint16_t source;  /* switch, if there is a shim */
	uint32_t id;	  /* of the key */
	const struct reorder_key *key;
	const struct reorder_shim *shim; /* NULL: an ordinary packet, never held */
};

struct reorder_destination;

/* Returns -EINVAL (out of range), -ENOMEM or 0. */
int reorder_destination_create(struct reorder_destination **destination,
			       const struct reorder_destination_config *config);
void reorder_destination_destroy(struct reorder_destination *destination);

/*
 * Give a packet to its port. Returns 0, or -ENOBUFS when no place is left, with the packet still
 * the caller's. Patent, steps 4 and 5.
 */
int reorder_enqueue(struct reorder_destination *destination, const struct reorder_packet *packet,
		    int64_t now);
/*
 * Take the next packet that may leave by a port: of reorder queues whose first packet may go,
 * before the normal queue. Returns its handle, or REORDER_NO_PACKET.
 */
uint32_t reorder_dequeue(struct reorder_destination *destination, uint16_t port, int64_t now);
/* Whether reorder_dequeue() would return one. */
bool reorder_ready(const struct reorder_destination *destination, uint16_t port);
/* Bytes of a port that wait for the link and not for order: what ECN marks are for. */
uint64_t reorder_backlog(const struct reorder_destination *destination, uint16_t port);
/* Bytes and packets in reorder queues now, of all ports. */
uint64_t reorder_held_bytes(const struct reorder_destination *destination);
uint64_t reorder_held_packets(const struct reorder_destination *destination);
/* The time of the earliest timer (or earlier), or REORDER_NEVER; and do what is due. */
int64_t reorder_deadline(const struct reorder_destination *destination);
void reorder_expire(struct reorder_destination *destination, int64_t now);
/* Put feedback about one of the paths from that source into a shim that goes to it. */
void reorder_feedback(struct reorder_destination *destination, uint16_t source,
		      struct reorder_shim *shim);
/*
 * This switch has paused the link by which packets of that ingress come (PFC), or lets them come
 * again: sources are told to expect REORDER_PAUSED on its paths.
 */
void reorder_pause(struct reorder_destination *destination, uint16_t ingress, bool paused);
void reorder_destination_counters(const struct reorder_destination *destination,
				  struct reorder_destination_counters *counters, size_t size);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
