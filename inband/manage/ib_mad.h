/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Between the files of InfiniBand's back end: MADs (ib_mad.c), devices by their GUIDs (ib_node.c),
 * operations (ib.c), reports (ib_report.c). One thread.
 */
#ifndef INBAND_IB_MAD_H
#define INBAND_IB_MAD_H

#include <endian.h>
#include <infiniband/umad.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>

#include "inband/manage/ib.h"

#define IB_MAD	      256
#define IB_DATA	      64 /* of an SMP, and of performance management */
#define IB_MAX_PATH   (NMP_MAX_HOPS + 2)
#define IB_NAME_LEN   32
#define IB_NODE_PORTS 4			 /* of an adapter, whose GUIDs are kept */
#define IB_PORTS      (FABRIC_PORTS - 1) /* of a device that are looked at */

enum { IB_SUBN = 0x81, IB_SA = 0x03, IB_PERF = 0x04 };
enum { IB_GET = 1, IB_SET = 2, IB_REPORT = 6, IB_GET_RESP = 0x81, IB_REPORT_RESP = 0x86 };
enum {
	IB_NOTICE = 0x02,
	IB_INFORM_INFO = 0x03,
	IB_NODE_DESC = 0x10,
	IB_NODE_INFO = 0x11,
	IB_PORT_INFO = 0x15,
	IB_LFT = 0x19,
	IB_PORT_COUNTERS = 0x12,
	IB_PORT_COUNTERS_EXT = 0x1d,
};

struct ib;
struct ib_op;

/* A MAD to be sent, and what becomes of its answer. */
struct ib_ask {
	struct ib_ask *next;
	struct ib_op *op;
	/* data: from IB_DATA on; NULL when status is not 0. */
	void (*have)(struct ib_op *op, const struct ib_ask *ask, int status, const uint8_t *data);
	uint8_t mclass, method, hops, path[IB_MAX_PATH], number;
	uint16_t attribute, lid;
	uint32_t modifier;
	uint8_t tries;
	uint8_t *data; /* of a Set; NULL */
	/* When its turn has come: whether what it asks has become known meanwhile. NULL: no. */
	bool (*known)(struct ib_op *op, const struct ib_ask *ask);
};

struct ib_op {
	struct ib *ib;
	fabric_done *done;
	void *arg;
	struct target *target;
	struct ib_node *node, *to;
	struct ib_ask *first, **last; /* to be sent when others of this operation are answered */
	unsigned open, under_way;
	int status;
	uint64_t begun, due; /* ms; due: of a pause */
	struct ib_op *next;
	struct facts facts;
};

struct ib_flight {
	struct ib_ask *ask; /* NULL: free */
	uint32_t tid;
	uint64_t deadline; /* ms */
	int next;	   /* free */
};

/* What one end of a link has told of the other. */
struct ib_seen {
	uint64_t when, guid; /* ms */
	uint8_t port, ports, type;
};

struct ib_node {
	struct ib_node *chain, *same_name;
	uint64_t guid;
	uint64_t port_guid[IB_NODE_PORTS + 1]; /* of port 0 of a switch; of an adapter's ports */
	uint8_t type, ports, local_port;       /* by which it was reached */
	uint8_t hops, path[IB_MAX_PATH];
	uint16_t lid; /* 0: not known */
	uint64_t lid_when;
	struct port_set up;
	bool named;
	char name[IB_NAME_LEN];
	struct ib_seen *seen; /* of each port; NULL before it has been asked how many it has */
	unsigned seen_count;
};

struct ib {
	struct fabric fabric;
	struct ib_options options;
	struct fabric_counts counts;
	char ca[UMAD_CA_NAME_LEN];
	int port, fd, smi, perf, sa;
	uint64_t guid, begun;
	uint16_t lid, sm_lid;
	uint8_t sm_sl;
	struct ib_ask *first, **last; /* to be sent */
	struct ib_flight *flights;
	int free_flight;
	unsigned under_way;
	uint32_t next_tid;
	uint64_t look; /* ms: when flights are looked through for those that time out */
	struct ib_op *pauses;
	void *out, *in;
	struct ib_node **hash;
	uint32_t hash_size, nodes;
	struct ib_node **names; /* by a hash of the name */
	/* The thread that waits for the file while the loop does. */
	pthread_t waiter;
	sem_t go;
	int event;
	bool polling, started;
	_Atomic bool stop, busy;
	uint64_t subscribed; /* ms; 0: not */
};

static inline struct ib *ib_of(struct fabric *f)
{
	return (struct ib *)f;
}

static inline uint16_t get16(const uint8_t *at)
{
	return at[0] << 8 | at[1];
}

static inline uint32_t get32(const uint8_t *at)
{
	return (uint32_t)get16(at) << 16 | get16(at + 2);
}

static inline uint64_t get64(const uint8_t *at)
{
	return (uint64_t)get32(at) << 32 | get32(at + 4);
}

static inline void put16(uint8_t *at, uint16_t value)
{
	at[0] = value >> 8;
	at[1] = value;
}

static inline void put32(uint8_t *at, uint32_t value)
{
	put16(at, value >> 16);
	put16(at + 2, value);
}

static inline void put64(uint8_t *at, uint64_t value)
{
	put32(at, value >> 32);
	put32(at + 4, value);
}

uint64_t ib_clock(void); /* ms */

/* ib_mad.c */
int ib_mad_start(struct ib *ib);
void ib_mad_stop(struct ib *ib);
/* An operation with one open part, which ib_op_end() ends; NULL: no memory. */
struct ib_op *ib_op_begin(struct fabric *f, struct target *t, fabric_done *done, void *arg);
/* One part of it is over; after the last the operation is. */
void ib_op_end(struct ib_op *op, int status);
/* The same of the first part, but not before ib_progress(). */
void ib_op_end_later(struct ib_op *op);
static inline void ib_op_fail(struct ib_op *op, int status)
{
	if (!op->status)
		op->status = status;
}
/* A Get on the way to a device (path), or to a LID; NULL: no memory, and the operation knows. */
struct ib_ask *ib_ask(struct ib_op *op, unsigned mclass, unsigned attribute, uint32_t modifier,
		      void (*have)(struct ib_op *op, const struct ib_ask *ask, int status,
				   const uint8_t *data));
void ib_submit(struct ib_ask *ask);
int ib_progress(struct fabric *f, bool wait);
int ib_arm(struct fabric *f, int *fd);
int ib_check(struct fabric *f);

/* ib_node.c */
struct ib_node *ib_node_find(const struct ib *ib, uint64_t guid);
/* NULL: no memory. */
struct ib_node *ib_node_make(struct ib *ib, uint64_t guid);
void ib_node_name(struct ib *ib, struct ib_node *node, const uint8_t description[64]);
struct ib_node *ib_node_lid(const struct ib *ib, uint16_t lid);
void ib_nodes_free(struct ib *ib);

/* ib_report.c */
int ib_subscribe(struct fabric *f, struct target *t, fabric_done *done, void *arg);
/* A MAD of the SA's that answers nothing. */
void ib_report(struct ib *ib, const uint8_t *mad);

#endif
