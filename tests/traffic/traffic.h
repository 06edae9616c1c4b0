/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * traffic: random verbs operations of which every byte, completion, status and count is verified.
 *
 * Two ends, client and server, have the same QPs. Each QP carries two streams, one in each
 * direction; of a stream one end is the initiator, which posts its operations, and the other the
 * target, which knows from the common seed what must arrive. A stream is a sequence of rounds: up
 * to config.round operations, planned by plan_round() alike at both ends, the last of them one that
 * the target's receive queue sees. The target grants a round (over TCP) when the memory it writes
 * to is ready, and verifies all of it when the round's last message has come. With RC two rounds
 * are under way, in two areas of memory; with UC and UD, where messages may be missing, one, and
 * the initiator ends it with a marker: a small message with the round's number, sent again and
 * again until the target says (over TCP) that the round has ended. UC delivers in order, so what
 * was sent before a marker that has come was executed or is lost for good; no time decides it.
 *
 * Threads: an end has config.threads workers, each with its own TCP connection, CQs and QPs; what
 * workers share is the device context, the PD and the shared counters (atomics, bitmap lock).
 */
#ifndef TRAFFIC_H
#define TRAFFIC_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_SGE	     32
#define MAX_ROUND    64
#define MAX_THREADS  64
#define GRH_LEN	     40
#define MARKER_LEN   16
#define ROUNDS	     8 /* that a target remembers; a power of two */
#define FATAL_STATUS 1
#define HANG_STATUS  2

enum kind {
	OP_SEND,
	OP_SEND_IMM,
	OP_SEND_INV,
	OP_WRITE,
	OP_WRITE_IMM,
	OP_READ,
	OP_CAS,
	OP_FADD,
	OP_BIND_MW,
	OP_KINDS,
	OP_LOCAL_INV = OP_KINDS, /* not in the mix: comes with type 2 windows */
	OP_MARKER,		 /* nor this: ends a round of UC and UD */
	ALL_KINDS,
};

extern const char *const kind_names[ALL_KINDS];

/* What both ends must agree on: the client's word goes over to the server as it is. */
struct config {
	uint32_t magic;
	uint32_t qp_type; /* enum ibv_qp_type */
	uint64_t seed;
	uint32_t qps, threads, ops;
	uint32_t min_size, max_size, mtu; /* bytes */
	uint32_t sge_max, depth, inline_max, srq;
	uint32_t mix; /* bits of enum kind */
	uint32_t timeout, retry, rnr_retry, rnr_timer, rd_atomic;
	uint32_t no_fence; /* completions are waited for instead */
	uint32_t round;	   /* operations in a round, at most */
};

/* What is an end's own affair. */
struct options {
	const char *dev, *host;
	int gid_index; /* -1: choose */
	unsigned port, procs, time_limit;
	unsigned max_loss; /* percent */
	bool server, client, self, events, allow_dup, verbose;
	bool api_wr, cq_ex; /* the newer calls for posting and polling */
	struct config cfg;
};

/* pattern.c: all contents are functions of (key, offset). */
uint64_t mix64(uint64_t x);
uint64_t rng_next(uint64_t *state);
uint32_t rng_below(uint64_t *state, uint32_t n); /* 0 … n - 1; n > 0 */
void pattern_fill(void *buf, uint64_t key, uint64_t off, size_t len);
/* Index of the first byte that differs, or len. */
size_t pattern_check(const void *buf, uint64_t key, uint64_t off, size_t len);
/*
 * The same for memory that the peer writes to. It does so after a grant, which the thread sanitizer
 * cannot see when the peer is another process: so it does not look.
 */
#define UNORDERED __attribute__((no_sanitize("thread")))
void area_fill(void *buf, uint64_t key, uint64_t off, size_t len);
size_t area_check(const void *buf, uint64_t key, uint64_t off, size_t len);
uint8_t pattern_byte(uint64_t key, uint64_t off);

/* plan.c */
enum place { IN_AREA, IN_SOURCE, PRIVATE_WORD, SHARED_WORD };

struct op {
	enum kind kind;
	enum place place; /* what a one-sided operation names */
	uint32_t len;
	uint32_t imm;
	uint64_t key, key_off; /* content */
	uint64_t off;	       /* of the remote memory within its place */
	uint64_t value;	       /* addend or swap value */
	bool miss;	       /* CAS: the compare value is wrong on purpose */
	bool relay;	       /* sends on what the READ before it brings; fenced */
	bool fence, solicited;
};

struct round {
	uint32_t number;
	unsigned n;	   /* operations; the last one consumes a receive */
	unsigned messages; /* how many consume a receive */
	int window;	   /* 0, or type 1 or 2: remote memory is named by a window's key */
	uint64_t before;   /* operations of the rounds before */
	struct op ops[MAX_ROUND];
};

/* One stream: QP and direction (0 from the client). */
uint64_t stream_key(const struct config *cfg, unsigned q, unsigned dir);
uint64_t source_key(const struct config *cfg, unsigned q, unsigned dir);
struct op marker_op(const struct config *cfg, unsigned q, unsigned dir, uint32_t number);
void plan_round(const struct config *cfg, unsigned q, unsigned dir, uint32_t number,
		uint64_t before, struct round *round);
size_t area_size(const struct config *cfg);
size_t source_size(const struct config *cfg);
static inline bool lossy(const struct config *cfg)
{
	return cfg->qp_type != IBV_QPT_RC;
}
uint32_t receive_capacity(const struct config *cfg);
static inline bool consumes_receive(enum kind kind)
{
	return kind <= OP_SEND_INV || kind == OP_WRITE_IMM;
}

/*
 * arena.c: registered local memory for payloads. Free memory holds the guard pattern at all times;
 * a chunk is pieces with gaps between them, and when it is given back everything that nothing was
 * to be written to is verified to be unchanged.
 */
struct piece {
	uint32_t off, len; /* within the arena */
};

struct chunk {
	size_t start, end; /* within the arena */
	unsigned pieces;
	bool busy;
	uint32_t capacity;
	struct piece piece[MAX_SGE];
};

struct arena {
	uint8_t *base;
	size_t size;
	uint64_t guard;
	struct ibv_mr *mr;
	struct chunk *chunks; /* a ring in the order of their memory */
	unsigned max_chunks, head, count;
};

void arena_init(struct arena *a, struct ibv_pd *pd, size_t size, unsigned chunks, uint64_t guard);
void arena_destroy(struct arena *a);
/* NULL when there is no room. cap: bytes in all pieces together, cut into at most max_pieces. */
struct chunk *arena_alloc(struct arena *a, uint32_t cap, unsigned max_pieces, uint64_t *rng);
bool arena_fits(const struct arena *a, uint32_t cap);
void arena_fill(struct arena *a, const struct chunk *c, uint64_t key, uint64_t off);
int arena_sges(const struct arena *a, const struct chunk *c, struct ibv_sge *sge);
/* Does the chunk hold, after its first skip bytes, exactly len bytes of that content? */
bool arena_matches(const struct arena *a, const struct chunk *c, size_t skip, uint64_t key,
		   uint64_t off, size_t len, size_t *bad, uint8_t *found);
void arena_copy(const struct arena *a, const struct chunk *c, void *to, size_t len);
/* Verifies gaps and what lies behind the first used bytes, makes all of it guard, gives it back.
 * False (and where) if a guard byte has changed. */
bool arena_release(struct arena *a, struct chunk *c, size_t used, size_t *bad);

/* What an end tells the other about a QP. */
struct qp_info {
	uint32_t qpn, psn;
	uint64_t area[2], source, words, shared;
	uint32_t area_key, source_key, words_key, shared_key;
	uint8_t gid[16];
	uint32_t lid, pad;
};

/*
 * GRANT and ENDED are the target's words about a round, DONE the initiator's about its stream: all
 * is complete. BYE is a worker's last word: all its QPs are done, in both directions. Nothing is
 * taken down before both ends have said it.
 */
enum msg_type { MSG_GRANT = 1, MSG_ENDED, MSG_DONE, MSG_BYE };

struct msg {
	uint32_t type, q, round, key;
	uint64_t fadds, swaps;
};

struct end;
struct worker;

/* A work request on a send queue, until its completion is known. */
struct wqe {
	enum kind kind;
	bool signaled;
	struct op op;
	uint32_t round;
	struct chunk *chunk;
	bool keep;	  /* the chunk is handed on to the next one, which relays it */
	uint64_t compare; /* CAS: what was asked for */
	uint64_t expect;  /* atomics on a private word: what must come back */
};

struct grant {
	bool given;
	uint32_t key;
};

/* The sending half of a QP. */
struct initiator {
	struct round round;
	unsigned next; /* operation of the round */
	bool marking;  /* lossy: markers go out until the target says that the round has ended */
	uint32_t sent_round;
	double mark_at, pause; /* seconds: when the next one goes, and how long after the last */
	struct grant grants[2];
	struct arena arena;
	struct wqe *sq;
	unsigned head, tail; /* of sq; wrap by depth */
	unsigned unsignaled;
	uint64_t posted, completed;
	uint64_t fadd_word, cas_word; /* private words as they must be */
	uint64_t fadds, swaps;
	struct chunk *relay;
	bool all_sent, done;
};

/* The receiving half of a QP. */
struct target {
	struct round rounds[ROUNDS]; /* by number, modulo; the newest ones */
	bool seen[ROUNDS][MAX_ROUND];
	unsigned next;	   /* operation of the current round not yet accounted for */
	unsigned verified; /* operations of it whose writes are verified */
	unsigned arrived;  /* messages of it */
	uint32_t current;  /* round whose messages are due */
	uint32_t opened;   /* rounds 0 … opened - 1 are planned */
	uint32_t newest;   /* UC: round of the newest message or marker */
	bool opening;	   /* a window is being bound for round opened - 1 */
	bool last_opened, finished, peer_done;
	uint32_t post_round;
	unsigned post_op;
	struct arena arena;
	struct chunk **posted; /* in order: FIFO by depth */
	unsigned post_head, post_tail;
	uint8_t *area[2];
	struct ibv_mr *area_mr, *source_mr, *words_mr;
	uint8_t *source;
	uint64_t *words;
	struct ibv_mw *mw[2][2]; /* by area and type - 1 */
	uint32_t type2_key[2];	 /* the last one of the area's type 2 window */
	bool type2_bound[2];
	uint32_t window_key; /* of the round that is being opened */
	uint64_t fadd_word, cas_word;
	uint64_t messages, lost, late, duplicates;
};

#define RECEIVE_ID (1ull << 63)
#define QKEY	   0x1ee7c0de

struct qp {
	unsigned q;
	struct worker *worker;
	struct ibv_qp *qp;
	struct ibv_qp_ex *qpx; /* with --api wr */
	struct ibv_ah *ah;
	uint32_t psn;
	struct qp_info peer;
	struct initiator in;
	struct target tg;
};

struct worker {
	struct end *end;
	unsigned index, nqps;
	int fd;
	bool said_bye, peer_bye;
	bool closing; /* no more receives are posted */
	struct qp *qps;
	struct qp_info *infos; /* until connected */
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_comp_channel *channel;
	unsigned cq_events[2];
	struct ibv_srq *srq;
	struct arena srq_arena;
	unsigned srq_posted;
	unsigned receives; /* entries of a receive queue */
	uint64_t rng;
	struct msg msg_buf;
	size_t msg_len;
	pthread_t thread;
	atomic_bool up;
};

/* One side of the traffic in this process. */
struct end {
	const struct options *opt;
	struct config cfg;
	unsigned side; /* 0 client, 1 server */
	unsigned pair;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	union ibv_gid gid;
	int gid_index;
	unsigned with_inv; /* IBV_WC_WITH_INV as the device has it */
	uint64_t *shared;  /* words that all QPs of the peer work on: [0] fetch-add, [1] CAS */
	struct ibv_mr *shared_mr;
	atomic_ullong cas_seen;	     /* the peer's shared[1] as last seen */
	pthread_mutex_t bitmap_lock; /* guards bitmap */
	uint8_t *bitmap;	     /* results of shared fetch-adds */
	size_t bitmap_bytes;
	atomic_ullong fadds, swaps;	      /* ours on the peer's words */
	atomic_ullong peer_fadds, peer_swaps; /* the peer's on ours */
	atomic_ullong ops, bytes, messages, lost, late, duplicates;
	atomic_ullong kinds[ALL_KINDS];
	struct worker workers[MAX_THREADS];
	int fds[MAX_THREADS];
};

/* report.c */
void fail(const struct qp *qp, const char *fmt, ...)
	__attribute__((noreturn, format(printf, 2, 3)));
void fail_errno(const char *what, int err) __attribute__((noreturn));
void fail_byte(const struct qp *qp, const struct op *op, const char *where, uint64_t off,
	       uint8_t expected, uint8_t found) __attribute__((noreturn));
void watch(struct end *end);
void watchdog_start(unsigned seconds);
double seconds_now(void);
void report(const struct end *end, double seconds);

/* options.c */
void options_parse(int argc, char **argv, struct options *opt);
void config_finish(struct config *cfg);

/* connect.c */
void end_listen(struct end *end, unsigned port);
void end_greet(struct end *end);
void end_be_greeted(struct end *end);
void end_dial(struct end *end, const char *host, unsigned port);
void send_all(int fd, const void *buf, size_t len);
void recv_all(int fd, void *buf, size_t len);
void tell(struct worker *w, const struct msg *msg);

/* setup.c */
void end_open(struct end *end);
void end_close(struct end *end);
void worker_setup(struct worker *w);
void worker_connect(struct worker *w);
void worker_teardown(struct worker *w);

/* initiator.c */
void initiator_start(struct qp *qp);
bool initiator_step(struct qp *qp); /* true if it did something */
void initiator_ended(struct qp *qp, uint32_t round);
void initiator_completion(struct qp *qp, const struct ibv_wc *wc);
struct wqe *sq_claim(struct qp *qp, enum kind kind, bool signaled, uint64_t *wr_id);
unsigned sq_room(const struct qp *qp);

/* post.c */
uint64_t send_ops(uint32_t qp_type); /* what a QP of the program needs of --api wr */
int post_sends(struct qp *qp, struct ibv_send_wr *wr);
int poll_completions(struct worker *w, struct ibv_cq *cq, int max, struct ibv_wc *wc);

/* target.c */
void target_start(struct qp *qp);
bool target_step(struct qp *qp);
void target_receive(struct qp *qp, const struct ibv_wc *wc);
void target_bound(struct qp *qp);
void target_close(struct qp *qp);
bool target_closed(const struct qp *qp);
void target_done(struct qp *qp, const struct msg *msg);
void receive_fill(struct qp *qp);

/* verify.c */
/* One message that has come. */
struct arrival {
	struct qp *qp; /* whose stream it is */
	struct arena *arena;
	struct chunk *chunk;
	const struct ibv_wc *wc;
};
void verify_message(const struct arrival *a, const struct op *op);
bool message_fits(const struct arrival *a, const struct op *op);
void verify_grh(const struct arrival *a);
void verify_writes(struct qp *qp, const struct round *round, unsigned from, unsigned to);
unsigned verify_area(struct qp *qp, const struct round *round); /* returns writes lost */
void verify_read(struct qp *qp, const struct wqe *wqe);
void verify_atomic(struct qp *qp, const struct wqe *wqe);
void verify_qp_end(struct qp *qp);
void verify_end(struct end *end);

/* worker.c */
void *worker_run(void *arg);

#endif
