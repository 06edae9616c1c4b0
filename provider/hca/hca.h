/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The adapter's objects, private to this floor. Each wraps the structure of verbs.h that the
 * program holds.
 *
 * Locks, outermost first; a holder takes only those further down:
 *   engine lock        protocol state of every QP, the QP table, timers, the wire (engine.h)
 *   sq.lock, rq.lock   producers of a work queue; its consumer is the engine (lock.h)
 *   cq.lock            entries and arming of a completion queue (lock.h)
 *   channel/event lock delivery of completion and asynchronous events
 * Counters of users (PD, CQ, SRQ, MR) are atomics, so that destroying a used object is EBUSY.
 */
#ifndef URXE_HCA_HCA_H
#define URXE_HCA_HCA_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <urcu/list.h>
#include <infiniband/verbs.h>

#include "hca/buffer.h"
#include "hca/context_file.h"
#include "hca/direct.h"
#include "hca/lock.h"
#include "hca/qp_protocol.h"
#include "hca/verbs.h"
#include "host/device.h"
#include "host/timer.h"
#include "mempool/table.h"

/* What query_device promises and create accepts. */
#define URXE_MAX_QP	   (65536)
#define URXE_MAX_QP_WR	   16384
#define URXE_MAX_SGE	   32
#define URXE_MAX_INLINE	   1024
#define URXE_MAX_CQ	   65536
#define URXE_MAX_CQE	   (1 << 22)
#define URXE_MAX_MR	   (1 << 20)
#define URXE_MAX_SRQ	   65536
#define URXE_MAX_SRQ_WR	   (1 << 17)
#define URXE_MAX_PD	   65536
#define URXE_MAX_AH	   (1 << 20)
#define URXE_MAX_RD_ATOM   128
#define URXE_MAX_MSG	   (1u << 31)
#define URXE_MAX_MCAST_GRP 8192

/* Objects that nothing but memory would limit: a context counts its own. */
enum urxe_counted {
	URXE_CQS,
	URXE_SRQS,
	URXE_AHS,
	URXE_MWS,
	URXE_RWQ_TABLES,
	URXE_NUM_COUNTED,
};

#define URXE_MR_BUCKETS 256

/*
 * How many forks lie behind this process. Objects have the number of their birth: those with
 * another one are a parent's, and work in it alone. A context is taken over by the first object
 * that a child makes in it; domains and address handles are data, and a child uses its parent's.
 */
extern unsigned urxe_forks;

static inline bool urxe_inherited(unsigned forks)
{
	return forks != urxe_forks;
}

struct urxe_context {
	struct urxe_device *dev;
	struct cds_list_head node;   /* in the engine's list of contexts */
	struct urxe_fdqueue *events; /* asynchronous events waiting for the program */
	struct urxe_context_file file;
	_Atomic uint32_t objects[URXE_NUM_COUNTED];
	/* Objects that a program may leave behind when it closes the context: their kin in the
	 * kernel would go with it. Under lock, but for regions (urxe_regions_lock). */
	pthread_mutex_t lock;
	struct cds_list_head mrs[URXE_MR_BUCKETS]; /* by key index. The engine lock to leave it */
	struct cds_list_head cqs;
	_Atomic unsigned forks;	   /* when it was opened, or taken over by a child */
	struct verbs_context vctx; /* last: ends in struct ibv_context */
};

struct urxe_pd {
	struct ibv_pd ibv;
	unsigned forks;
	uint32_t number; /* as the registration table knows it; a parent domain has its PD's */
	struct urxe_use users;
	bool imported;
	struct urxe_pd *of; /* NULL, or the PD that this is a parent domain of */
	struct urxe_td *td;
	/* The allocator of a parent domain; NULL: none (buffer.h). */
	__typeof__(((struct ibv_parent_domain_init_attr *)NULL)->alloc) alloc;
	__typeof__(((struct ibv_parent_domain_init_attr *)NULL)->free) free;
	void *pd_context;
};

/* A thread domain: the program's word that one thread at a time uses what is in it (lock.h). */
struct urxe_td {
	struct ibv_td ibv;
	atomic_int users;
};

enum urxe_mr_import {
	URXE_MR_OWN,	/* registered here */
	URXE_MR_SHARED, /* registered in this process, under another context */
	URXE_MR_MAPPED, /* registered by another process; its memory is mapped here */
};

struct urxe_mr {
	struct ibv_mr ibv;
	struct cds_list_head node; /* in the context's list */
	unsigned forks;
	unsigned access;
	uint64_t iova;
	unsigned windows; /* memory windows bound to it. Engine lock. */
	struct urxe_place place;
	bool null;	    /* a null region */
	bool lost;	    /* memory of it was missed (lost_memory.h). urxe_regions_lock. */
	struct urxe_dm *dm; /* device memory that it lies in; else NULL */
	enum urxe_mr_import imported;
	struct urxe_mapping mapping; /* URXE_MR_MAPPED */
};

struct urxe_mw {
	struct ibv_mw ibv;
	unsigned forks;
	uint32_t bound_to; /* key of the region, 0: not bound. Engine lock. */
	struct urxe_mr *mr;
	uint32_t leaving; /* the key that was taken away with this ticket (urxe_direct_change()) */
	uint64_t ticket;
	struct cds_list_head node; /* in the engine's list of windows */
};

struct urxe_ah {
	struct ibv_ah ibv;
	struct urxe_path path;
	struct ibv_ah_attr attr;
};

/* Asynchronous events about an object: delivered by get_async_event, and waiting for it. */
struct urxe_async {
	uint32_t taken, queued;
};

/* One completion. The layout of the ring is private; poll copies it out. */
struct urxe_cqe {
	uint64_t wr_id;
	uint32_t status; /* URXE_WC_GONE: of a QP that is no more (urxe_cq_clean()) */
	bool solicited;
	uint64_t timestamp; /* CLOCK_MONOTONIC, ns; 0 unless the CQ asked for it */
	uint32_t opcode;
	uint32_t byte_len;
	uint32_t
		imm; /* immediate data (as on the wire), invalidated R_Key, or the tag that was stripped */
	uint32_t qp_num;
	uint32_t wc_flags;
	uint32_t tm_priv; /* of a tag matching SRQ's message */
	union {
		struct {
			uint32_t src_qp;
			uint32_t
				flow_tag; /* of the rule that a raw packet QP's frame has matched */
		};
		uint64_t tag; /* as tm_priv */
	};
	/* As they follow each other in struct ibv_wc. */
	uint16_t pkey_index;
	uint16_t slid;
	uint8_t sl;
	uint8_t dlid_path_bits;
};
#define URXE_WC_GONE UINT32_MAX
static_assert(sizeof(struct urxe_cqe) == 64, "a line of the cache");

/* The fields that most completions leave alone. One by one: gcc clears a whole structure by an
 * instruction of the processor (rep stos) that takes longer than the rest of a short completion. */
static inline void urxe_cqe_clear(struct urxe_cqe *cqe)
{
	cqe->timestamp = 0;
	cqe->imm = 0;
	cqe->wc_flags = 0;
	cqe->tm_priv = 0;
	cqe->tag = 0;
	cqe->pkey_index = 0;
	cqe->slid = 0;
	cqe->sl = 0;
	cqe->dlid_path_bits = 0;
	cqe->solicited = false;
}

enum urxe_arm { URXE_ARM_NONE, URXE_ARM_SOLICITED, URXE_ARM_NEXT };

/* How long a CQ's event waits for more completions (moderation.h). */
struct urxe_moderation {
	uint32_t count;	  /* completions for an event; 0: it does not wait */
	uint64_t period;  /* ns */
	uint32_t pending; /* completions since it was armed. cq->lock. */
	uint64_t due;	  /* the event that waits. Engine lock, as node. */
	struct cds_list_head node;
};

struct urxe_cq {
	union {
		struct ibv_cq ibv;
		struct ibv_cq_ex ex;
	};
	/* Of the thread that has the batch. Stores of 16 bytes copy it,
	 * slow ones across two lines. */
	struct urxe_cqe current;
	struct cds_list_head node; /* in the context's list */
	struct urxe_lock lock;
	/* From start_poll to end_poll: tail is that thread's. Taken under lock. */
	struct urxe_lock batch;
	uintptr_t batch_owner; /* owned_lock_self() of who took it last. Under lock. */
	struct urxe_cqe *ring;
	uint32_t size;		     /* entries of the ring: a power of two ≥ cqe */
	_Atomic uint32_t head;	     /* next to fill */
	_Atomic uint32_t tail;	     /* next to poll */
	_Atomic unsigned idle;	     /* turns of the engine since something was found, */
	_Atomic uint64_t idle_since; /* and when the first of them was: ticks */
	enum urxe_arm arm;
	struct urxe_moderation moderation;
	uint32_t event_at;	 /* place in the ring that the last event was for */
	_Atomic bool armed_once; /* written under the engine lock */
	bool overflow;		 /* was reported */
	bool ignore_overrun;
	bool want_timestamp;
	bool custom;	   /* ring, as buffer.h has it */
	struct ibv_pd *pd; /* whose allocator that may be; or NULL */
	unsigned forks;
	atomic_int users;
	struct cds_list_head event_node; /* its events that nobody took. The channel's lock. */
	uint32_t events_taken;		 /* delivered by get_cq_event */
	struct urxe_async async;
};

/* By its place, not by its type: the head of a list, read as an entry, has no such alignment. */
_Static_assert(offsetof(struct urxe_cq, current) % 16 == 0,
	       "a store of 16 bytes may cross two lines");

/* A receive queue or a shared one. Producers: under lock. Consumer: the engine. */
struct urxe_rq {
	struct urxe_lock lock;
	uint8_t *wqes;
	uint32_t stride;
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t mask; /* ring size - 1 */
	_Atomic uint32_t head;
	_Atomic uint32_t tail;
	bool custom; /* wqes, as buffer.h has it */
};

struct urxe_xrcd;

struct urxe_srq {
	struct ibv_srq ibv;
	struct urxe_rq rq;
	unsigned forks;
	atomic_int users;
	uint32_t limit; /* rq.lock; 0: not armed */
	/* XRC: its domain, the CQ of what it receives, and its number; else NULL. */
	struct urxe_xrcd *xrcd;
	struct urxe_cq *cq;
	uint32_t number;
	struct urxe_tm *tm; /* tag_matching.h; NULL */
	struct urxe_async async;
};

struct urxe_sq {
	struct urxe_lock lock;
	uint8_t *wqes;
	uint32_t stride;
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t max_inline;
	uint32_t mask;
	bool custom;	       /* wqes, as buffer.h has it */
	_Atomic uint32_t head; /* producer: next free */
	uint32_t gathered;     /* bytes that wait for company */
	uint32_t build;	       /* ibv_wr_*: head of what is not yet published */
	_Atomic uint32_t tail; /* oldest not completed */
	_Atomic uint32_t send; /* next to send. Written by the engine. */
};

/* A peer address: the window that all QPs towards it share. */
struct urxe_peer {
	struct cds_list_head node;
	struct urxe_link_addr addr;
	int users;
	uint64_t window;    /* bytes that may be in flight */
	uint64_t threshold; /* slow start below, linear growth above */
	uint64_t in_flight;
	uint64_t cut_at;	      /* when the window was last cut, ns */
	uint64_t rtt;		      /* smoothed, ns; 0 unknown */
	struct cds_list_head waiting; /* QPs that the window holds back */
};

enum urxe_near { URXE_NEAR_UNKNOWN, URXE_NEAR_NO, URXE_NEAR_YES };

struct urxe_rss;
struct urxe_alternate;

struct urxe_qp {
	struct urxe_sq sq;
	struct urxe_rq rq;
	struct urxe_cq *scq, *rcq;
	struct urxe_srq *srq;
	struct urxe_pd *pd;
	struct urxe_xrcd *xrcd;	       /* an XRC target QP's domain; else NULL */
	struct cds_list_head xrc_node; /* among the domain's targets */
	struct urxe_xrc_loan *loan;    /* and its requests for other processes; NULL: none yet */
	bool handle;		       /* of another QP, maybe another process's (xrc_open.c) */
	unsigned opened;	       /* handles of ibv_open_qp(3). Engine lock. */
	bool borrowed;		       /* of another process (xrc_loan.c) */
	unsigned forks;		       /* urxe_inherited() */
	struct urxe_tm_message *tm;    /* a tag matching SRQ's QP; else NULL. Engine lock. */
	struct urxe_rss *rss;	/* a raw packet QP that spreads frames over others (wq.h); NULL */
	struct ibv_wq *wq;	/* whose receive half it is; NULL */
	struct urxe_port *port; /* number 1 until INIT says which. Engine lock. */
	const struct urxe_transport *transport;
	const uint16_t *pkey; /* in the port's table */
	bool sq_sig_all;
	bool strip_vlan;  /* a raw packet QP's frames come without their 802.1Q tag */
	bool deaf_to_own; /* a UD QP that its own multicast packets do not come back to */
	bool has_ex;	  /* the program may have ex */
	int wr_error;	  /* ibv_wr_*: the first error since wr_start. sq.lock. */
	struct urxe_send_wqe *wr_wqe; /* ibv_wr_*: the one being built. sq.lock. */

	_Atomic bool flying; /* packets are under way: their answers will turn the engine */
	_Atomic bool kicked; /* in the engine's stack of QPs with new work */
	bool overrun;	     /* a completion found no place in its CQ. Engine lock. */
	struct urxe_qp *kick_next;

	/* What the standard's QP is (qp_protocol.h), and its arrays. Engine lock. */
	struct urxe_qp_protocol proto;
	uint32_t *rd_ends;
	struct urxe_response *responses;
	struct urxe_atomic_result *atomics;
	struct urxe_recv_wqe *recv_wqe;

	/* Waits and clocks. Engine lock. */
	struct urxe_peer *peer;
	uint64_t in_flight; /* this QP's share of peer->in_flight */
	bool near; /* the peer is a neighbour: no window, and runs of packets. As of the last run. */
	bool waiting;	/* in peer->waiting */
	bool full_wait; /* rnr_until is until there may be room again */
	bool ack_later; /* after what the program sends, which its peer waits for */
	uint8_t probes; /* since the last progress */
	struct cds_list_head wait_node;
	struct {
		uint64_t at;	   /* when it may send again, ns */
		uint64_t burst_ns; /* how much unused time counts */
		uint32_t paid;	   /* PSN that has not been charged yet */
		bool waits;	   /* for that time, with work */
	} pace;			   /* with proto.attr.rate_limit; pace.h */
	unsigned full_slot;	   /* a neighbour whose ring was full; 0: none */
	struct cds_list_head full_node;
	struct cds_list_head ready_node; /* engine's list of QPs to run; self-linked if not */
	struct cds_list_head held_node;	 /* engine's list of QPs that wait for neighbours */
	uint64_t answer_at;   /* the socket was full: answers wait until then; 0: they do not */
	uint64_t probed_at;   /* the last of them */
	uint64_t progress_at; /* last time una moved, or the first packet was sent */
	uint64_t timeout_at;  /* when the QP's own timeout is over */
	uint64_t peer_ran;  /* CPU time of a neighbour at the last timeout that cost a retry, ns */
	uint64_t rnr_until; /* 0: not waiting */
	uint32_t rtt_psn;   /* the packet whose round trip is being timed */
	uint64_t rtt_start; /* 0: none */
	struct urxe_timer timer;

	/* For the process that answers when this one has died (dead_qp.h): the PSN expected, in
	 * record number `record`; NULL: it is not on record. */
	uint32_t *shown_epsn;
	uint32_t record;

	/* Direct access (direct.c). */
	struct {
		uint8_t near;	     /* is the other end on this host? */
		bool behind_packets; /* a WR went by packets */
		uint64_t ticket;     /* of urxe_direct_change(), for this QP's row; 0: none */
		uint8_t port;	     /* index of the port at the other end */
		unsigned ports;	     /* how often ports had changed when that was found out */
		uint32_t offset;     /* bytes of the WR at the cursor already copied */
		uint32_t turn;	     /* bytes copied since others had their turn */
		/*
		 * The region that was last written or read, mapped here at `at`
		 * (NULL: none). It stands for as long as the process at the other end
		 * is that one and its epoch that.
		 */
		struct {
			uint8_t *at;
			uint64_t iova, length;
			uint64_t epoch;
			uint32_t life;
			uint32_t rkey;
			uint32_t rights;
		} region;
	} direct;

	struct cds_list_head mcast; /* struct urxe_mcast of this QP */
	unsigned flows;		    /* flow rules of this QP. Engine lock. */
	struct urxe_async async;
	struct urxe_alternate *alternate; /* path_migration.h; NULL: none is loaded. Engine lock. */

	/* Last: memory for ex is there only with has_ex. */
	union {
		struct ibv_qp ibv;
		struct ibv_qp_ex ex;
	};
};

/* Attributes that a program has not given, or nowhere to put them: EINVAL. */
static inline bool urxe_missing(const void *attr)
{
	if (!attr)
		errno = EINVAL;
	return !attr;
}

/* What a verb returns that should have made something, with errno. */
static inline void *urxe_fail(int error)
{
	errno = error;
	return NULL;
}

static inline struct urxe_context *to_context(struct ibv_context *c)
{
	return caa_container_of(c, struct urxe_context, vctx.context);
}

static inline struct urxe_pd *to_pd(struct ibv_pd *pd)
{
	return caa_container_of(pd, struct urxe_pd, ibv);
}

static inline struct urxe_mr *to_mr(struct ibv_mr *mr)
{
	return caa_container_of(mr, struct urxe_mr, ibv);
}

static inline struct urxe_mw *to_mw(struct ibv_mw *mw)
{
	return caa_container_of(mw, struct urxe_mw, ibv);
}

static inline struct urxe_cq *to_cq(struct ibv_cq *cq)
{
	return caa_container_of(cq, struct urxe_cq, ibv);
}

static inline struct urxe_qp *to_qp(struct ibv_qp *qp)
{
	return caa_container_of(qp, struct urxe_qp, ibv);
}

static inline struct urxe_srq *to_srq(struct ibv_srq *srq)
{
	return caa_container_of(srq, struct urxe_srq, ibv);
}

static inline struct urxe_ah *to_ah(struct ibv_ah *ah)
{
	return caa_container_of(ah, struct urxe_ah, ibv);
}

static inline struct urxe_send_wqe *sq_wqe(const struct urxe_sq *sq, uint32_t index)
{
	return (struct urxe_send_wqe *)(sq->wqes + (size_t)(index & sq->mask) * sq->stride);
}

/* The WR at the cursor is sent. By a plain store: the engine alone writes it, and what lies between
 * two locked operations can overlap with what comes before and after. */
static inline void sq_advance(struct urxe_sq *sq)
{
	uint32_t send = atomic_load_explicit(&sq->send, memory_order_relaxed);

	atomic_store_explicit(&sq->send, send + 1, memory_order_relaxed);
}

static inline struct urxe_recv_wqe *rq_wqe(const struct urxe_rq *rq, uint32_t index)
{
	return (struct urxe_recv_wqe *)(rq->wqes + (size_t)(index & rq->mask) * rq->stride);
}

/*
 * A ring that goes round in more memory than the nearest cache has brings a line from farther away
 * with each entry, and the stores of a message reach its receiver in their order: none before these
 * lines are here. So the next entry is asked for when one was written, or read.
 */
static inline void urxe_prefetch(const void *entry, size_t size)
{
	for (size_t at = 0; at < size; at += 64)
		__builtin_prefetch((const uint8_t *)entry + at, 1);
}

/* Field by field: where a program has just written them so, a wider load would wait for the
 * stores. */
static inline void urxe_sge_copy(struct ibv_sge *to, const volatile struct ibv_sge *from)
{
	to->addr = from->addr;
	to->length = from->length;
	to->lkey = from->lkey;
}

/* How many packets a message of that length, or what a read of it brings, is. */
static inline uint32_t urxe_packets_of(const struct urxe_qp *qp, uint32_t length)
{
	return length <= qp->proto.mtu ? 1 : (length - 1) / qp->proto.mtu + 1;
}

/* The P_Key of its packets, host order: the port's table may change. */
static inline uint16_t urxe_qp_pkey(const struct urxe_qp *qp)
{
	return __atomic_load_n(qp->pkey, __ATOMIC_RELAXED);
}

/* n more objects in a protection domain, or fewer. Any thread. */
void urxe_pd_use(struct urxe_pd *pd, int n);

/*
 * context.c: an object of those kinds that its context counts, zeroed; NULL and ENOMEM as well when
 * there are as many as query_device promises.
 */
void *urxe_object_new(struct ibv_context *context, enum urxe_counted kind, size_t size);
void urxe_object_free(struct ibv_context *context, enum urxe_counted kind, void *object);

/* context.c: in the child of a fork. */
void urxe_contexts_forked(void);
/* Before an object is made: a child takes its parent's context over, if
 * it is one. False and errno. */
bool urxe_context_here(struct ibv_context *context);

/* pd.c */
int urxe_path_from_av(struct urxe_context *ctx, const struct ibv_ah_attr *attr, uint32_t hash,
		      struct urxe_path *path);
struct urxe_port *urxe_context_port(struct ibv_context *context, unsigned num);

/*
 * cq.c: adds a completion of a QP. One that the CQ has no place for is lost: the CQ reports that
 * once (11.6.3.2), and the QP, of which nobody could tell any more what it has done, goes to ERR
 * when the engine next runs it, with IBV_EVENT_QP_FATAL. Engine lock.
 */
void urxe_cq_add(struct urxe_cq *cq, struct urxe_qp *qp, const struct urxe_cqe *cqe);
/* The same in two steps, to write it where it will lie: NULL when it is lost; else all fields are
 * the caller's to write before urxe_cq_push(). */
struct urxe_cqe *urxe_cq_claim(struct urxe_cq *cq, struct urxe_qp *qp);
void urxe_cq_push(struct urxe_cq *cq, struct urxe_cqe *cqe);
void urxe_cq_disarm(struct urxe_cq *cq);
/* Its event, for completions up to that place, is being raised. cq->lock. */
void urxe_cq_told(struct urxe_cq *cq, uint32_t place);
void urxe_cq_clean(struct urxe_cq *cq, uint32_t qpn);
int urxe_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int urxe_req_notify_cq(struct ibv_cq *cq, int solicited_only);
int urxe_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
struct ibv_cq_ex *urxe_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
/* cq_ex.c */
void urxe_cq_ex_fill(struct urxe_cq *cq, uint64_t wc_flags);
int urxe_cq_take_first(struct urxe_cq *cq);
bool urxe_cq_take_next(struct urxe_cq *cq);

/* channel.c */
void urxe_channel_notify(struct urxe_cq *cq);
void urxe_channel_forget(struct urxe_cq *cq);
bool urxe_channel_inherited(struct ibv_comp_channel *channel);

/* event.c */
int urxe_events_create(struct urxe_fdqueue **events, int *fd);
void urxe_events_destroy(struct urxe_fdqueue *events, bool inherited);
void urxe_event_qp(struct urxe_qp *qp, enum ibv_event_type type);
void urxe_event_cq(struct urxe_cq *cq, enum ibv_event_type type);
void urxe_event_srq(struct urxe_srq *srq, enum ibv_event_type type);
void urxe_event_port(struct urxe_context *ctx, unsigned port, enum ibv_event_type type);
void urxe_events_forget(struct urxe_context *ctx, const struct urxe_async *async);
void urxe_events_wait(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed,
		      const uint32_t *taken);

/* mr.c, mw.c */
/* The region of an L_Key, NULL if there is none; it stays while the engine lock is held. */
struct urxe_mr *urxe_mr_find(struct urxe_context *ctx, uint32_t lkey);
void urxe_mr_revoke(struct urxe_mr *mr, bool unlist);
/* Takes its key away; the ticket is for accesses by it that are under way. Engine lock. */
uint64_t urxe_mw_revoke(struct urxe_mw *mw);
struct ibv_mw *urxe_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int urxe_dealloc_mw(struct ibv_mw *mw);
int urxe_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
/* Carry out a bind or an invalidation. Engine lock. */
enum urxe_bound {
	URXE_BOUND,	  /* or not bound any more */
	URXE_NOT_BOUND,	  /* it is not permitted */
	URXE_BOUND_LATER, /* a neighbour works by what was bound: to be called again */
};
enum urxe_bound urxe_mw_execute_bind(struct urxe_qp *qp, const struct urxe_send_wqe *wqe);
enum urxe_bound urxe_invalidate(struct urxe_qp *qp, uint32_t rkey);
/* Fills a WR's bind from what the program asks for; EINVAL. Under sq.lock. */
int urxe_mw_set_bind(struct urxe_qp *qp, struct urxe_send_wqe *wqe, struct ibv_mw *mw,
		     uint32_t rkey, const struct ibv_mw_bind_info *info);
int urxe_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		   struct ibv_sge *sges, uint32_t n);

/* rq.c */
int urxe_rq_init(struct urxe_rq *rq, struct ibv_pd *pd, enum urxe_buffer_type type, uint32_t max_wr,
		 uint32_t max_sge);
/* With the same domain and type. */
void urxe_rq_fini(struct urxe_rq *rq, struct ibv_pd *pd, enum urxe_buffer_type type);
bool urxe_rq_take(struct urxe_rq *rq, struct urxe_recv_wqe *into);
uint32_t urxe_rq_count(const struct urxe_rq *rq);
int urxe_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int urxe_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
struct ibv_srq *urxe_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);

/* send.c, wr.c */
int urxe_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
void urxe_wr_fill_ops(struct urxe_qp *qp, uint64_t ops);

/* qp.c, qp_transitions.c */
struct ibv_qp *urxe_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
/* Those of the attributes that a QP of this type has. The kernel ignores those of the other half of
 * an XRC connection, since programs give both halves the same. */
int urxe_qp_attrs_of(enum ibv_qp_type type, int mask);
bool urxe_qp_transition_ok(enum ibv_qp_state from, enum ibv_qp_state to, enum ibv_qp_type type,
			   int mask);
/* Takes a QP out of the engine: nothing arrives at it or leaves from it any more, but for
 * neighbours that qp->direct.ticket is for. Engine lock. */
void urxe_qp_retract(struct urxe_qp *qp);
/* Moves a QP to ERR: flushes its queues, as soon as no neighbour works for it any more; tells why
 * by an event (0 for none). Engine lock. */
void urxe_qp_fail(struct urxe_qp *qp, int event);
void urxe_qp_flush(struct urxe_qp *qp);
void urxe_qp_reset(struct urxe_qp *qp);
/* A QP that no handle is left of, as by ibv_destroy_qp(3). Engine lock. */
void urxe_qp_dispose(struct urxe_qp *qp);
/* qp_modify.c: as the verbs, of QPs that neighbours have no direct access to. Engine lock. */
int urxe_qp_modify(struct urxe_qp *qp, struct ibv_qp_attr *attr, int mask);
void urxe_qp_attributes(struct urxe_qp *qp, struct ibv_qp_attr *attr);
/* A connected QP's path by an address vector, and the window towards its end; an errno. */
int urxe_qp_path(struct urxe_qp *qp, const struct ibv_ah_attr *av, uint32_t dest_qpn,
		 struct urxe_path *path, struct urxe_peer **peer);
/* The QP's packets go and come by that path; the window is the QP's from now on. */
void urxe_qp_use_path(struct urxe_qp *qp, const struct urxe_path *path, struct urxe_peer *peer);
/* Takes over those attributes that need no memory, and have been checked. */
void urxe_qp_set_plain(struct urxe_qp *qp, const struct ibv_qp_attr *attr, int mask);
/* places for the answers to so many reads and atomics; ENOMEM. */
int urxe_qp_set_dest_rd_atomic(struct urxe_qp *qp, uint8_t n);

/* mcast.c */
void urxe_mcast_detach_all(struct urxe_qp *qp);

#endif
