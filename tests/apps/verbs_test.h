/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * For the verbs_*.c programs: plain libibverbs programs that know nothing of urxe. A device, QPs
 * connected with each other in one process, and expectations that are counted. A program runs the
 * cases whose names begin with one of its arguments, or all of them, prints what was not as it
 * should be, and ends with status 1 if there was any.
 */
#ifndef VERBS_TEST_H
#define VERBS_TEST_H

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <infiniband/verbs.h>

static const char *current_case;
static int failures;
static struct ibv_context *ctx;
static struct ibv_pd *pd;
static union ibv_gid gid;

/* What was got must be what was expected; goes on after a failure, for the rest of the case. */
#define EXPECT(got, expected)                                                                     \
	do {                                                                                      \
		long long got_ = (long long)(got), expected_ = (long long)(expected);             \
		if (got_ != expected_) {                                                          \
			printf("%s:%d: %s: %s is %lld, expected %lld (%s)\n", __FILE__, __LINE__, \
			       current_case, #got, got_, expected_, #expected);                   \
			failures++;                                                               \
		}                                                                                 \
	} while (0)
#define EXPECT_TRUE(condition) EXPECT(!!(condition), 1)
/* Without this the case cannot go on. */
#define NEED(condition)                                                                          \
	do {                                                                                     \
		if (!(condition)) {                                                              \
			printf("%s:%d: %s: failed: %s (%s)\n", __FILE__, __LINE__, current_case, \
			       #condition, strerror(errno));                                     \
			exit(1);                                                                 \
		}                                                                                \
	} while (0)
/* A verb that returns a pointer must fail with this errno. */
#define EXPECT_NULL(call, error)        \
	do {                            \
		errno = 0;              \
		void *object_ = (call); \
		int errno_ = errno;     \
		EXPECT_TRUE(!object_);  \
		EXPECT(errno_, error);  \
	} while (0)

/* A verb must return this errno, and leave it in errno. */
#define EXPECT_ERRNO(call, error)     \
	do {                          \
		errno = 0;            \
		EXPECT(call, error);  \
		EXPECT(errno, error); \
	} while (0)

struct test_case {
	const char *name;
	void (*fn)(void);
};

static inline double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec * 1e-9;
}

static inline void open_urxe(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; list && list[i] && !ctx; i++)
		if (!strcmp(ibv_get_device_name(list[i]), "urxe0"))
			ctx = ibv_open_device(list[i]);
	NEED(ctx);
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(ctx);
	NEED(pd);
	NEED(!ibv_query_gid(ctx, 1, 0, &gid));
}

static inline int run_cases(const struct test_case *cases, size_t n, int argc, char **argv)
{
	unsigned ran = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	current_case = "start";
	open_urxe();
	for (size_t i = 0; i < n; i++) {
		bool wanted = argc < 2;

		for (int k = 1; k < argc; k++)
			wanted |= !strncmp(cases[i].name, argv[k], strlen(argv[k]));
		if (!wanted)
			continue;
		current_case = cases[i].name;
		cases[i].fn();
		ran++;
	}
	current_case = "end";
	EXPECT(ibv_dealloc_pd(pd), 0);
	EXPECT(ibv_close_device(ctx), 0);
	printf("%u cases, %d failures\n", ran, failures);
	return failures || !ran;
}

/* ---- QPs ---- */

struct end {
	struct ibv_pd *pd;
	struct ibv_cq *scq, *rcq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
};

/* How a pair is made; what is zero is filled in. */
struct setup {
	enum ibv_qp_type type;
	struct ibv_qp_cap cap;
	int cqe;
	struct ibv_pd *pd_b;
	struct ibv_srq *srq_b;
	int access; /* of the QPs, when has_access */
	bool has_access;
	int timeout, retry, rnr_retry, rnr_timer; /* 0: 14, 7, 7, 1; -1: 0 */
	int rd_atomic;
	uint32_t psn; /* the first of both directions; 0: 100 */
	enum ibv_mtu mtu;
	bool quiet;			  /* completions only of those that ask */
	struct ibv_comp_channel *channel; /* of the receive CQs */
};

static inline int or_default(int value, int standard)
{
	return value < 0 ? 0 : value ? value : standard;
}

static inline struct ibv_qp_cap cap_of(const struct setup *s)
{
	struct ibv_qp_cap cap = s->cap;

	cap.max_send_wr = cap.max_send_wr ? cap.max_send_wr : 16;
	cap.max_recv_wr = cap.max_recv_wr ? cap.max_recv_wr : 16;
	cap.max_send_sge = cap.max_send_sge ? cap.max_send_sge : 4;
	cap.max_recv_sge = cap.max_recv_sge ? cap.max_recv_sge : 4;
	return cap;
}

static inline void make_end(struct end *e, const struct setup *s, struct ibv_pd *of,
			    struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = {.qp_type = s->type, .cap = cap_of(s), .srq = srq};

	e->pd = of;
	e->srq = srq;
	e->scq = ibv_create_cq(ctx, s->cqe ? s->cqe : 256, NULL, NULL, 0);
	e->rcq = ibv_create_cq(ctx, s->cqe ? s->cqe : 256, NULL, s->channel, 0);
	NEED(e->scq && e->rcq);
	init.send_cq = e->scq;
	init.recv_cq = e->rcq;
	init.sq_sig_all = !s->quiet;
	e->qp = ibv_create_qp(of, &init);
	NEED(e->qp);
}

static inline int to_init(struct ibv_qp *qp, const struct setup *s)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x11111111};

	attr.qp_access_flags = s->has_access ? s->access
					     : IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
						       IBV_ACCESS_REMOTE_ATOMIC;
	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				     (s->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

static inline struct ibv_ah_attr av(void)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};

	attr.grh.dgid = gid;
	attr.grh.hop_limit = 1;
	return attr;
}

static inline int to_rtr(struct ibv_qp *qp, uint32_t peer, const struct setup *s)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .dest_qp_num = peer};
	int mask = IBV_QP_STATE;

	attr.path_mtu = s->mtu ? s->mtu : IBV_MTU_1024;
	attr.rq_psn = s->psn ? s->psn : 100;
	attr.max_dest_rd_atomic = or_default(s->rd_atomic, 4);
	attr.min_rnr_timer = or_default(s->rnr_timer, 1);
	attr.ah_attr = av();
	if (s->type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (s->type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return ibv_modify_qp(qp, &attr, mask);
}

static inline int to_rts(struct ibv_qp *qp, const struct setup *s)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .sq_psn = s->psn ? s->psn : 100};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	attr.timeout = or_default(s->timeout, 14);
	attr.retry_cnt = or_default(s->retry, 7);
	attr.rnr_retry = or_default(s->rnr_retry, 7);
	attr.max_rd_atomic = or_default(s->rd_atomic, 4);
	if (s->type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	return ibv_modify_qp(qp, &attr, mask);
}

static inline void connect_end(struct end *e, uint32_t peer, const struct setup *s)
{
	NEED(!to_init(e->qp, s));
	NEED(!to_rtr(e->qp, peer, s));
	NEED(!to_rts(e->qp, s));
}

static inline void make_pair(struct end *a, struct end *b, const struct setup *s)
{
	make_end(a, s, pd, NULL);
	make_end(b, s, s->pd_b ? s->pd_b : pd, s->srq_b);
	connect_end(a, b->qp->qp_num, s);
	connect_end(b, a->qp->qp_num, s);
}

static inline void free_end(struct end *e)
{
	EXPECT(ibv_destroy_qp(e->qp), 0);
	EXPECT(ibv_destroy_cq(e->scq), 0);
	EXPECT(ibv_destroy_cq(e->rcq), 0);
}

static inline enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	NEED(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	return attr.qp_state;
}

/* The next completion, for which up to limit seconds are waited; false if there is none. */
static inline bool next_wc(struct ibv_cq *cq, struct ibv_wc *wc, double limit)
{
	double until = seconds() + limit;
	int n;

	do {
		n = ibv_poll_cq(cq, 1, wc);
		if (!n)
			usleep(20);
	} while (!n && seconds() < until);
	return n == 1;
}

#define EXPECT_WC(cq, id, want)                      \
	do {                                         \
		struct ibv_wc wc_ = {.status = 999}; \
		EXPECT_TRUE(next_wc(cq, &wc_, 5));   \
		EXPECT(wc_.status, want);            \
		if (wc_.status == (want))            \
			EXPECT(wc_.wr_id, id);       \
	} while (0)

#define EXPECT_QUIET(cq)                                \
	do {                                            \
		struct ibv_wc wc_;                      \
		EXPECT(next_wc(cq, &wc_, 0.02), false); \
	} while (0)

/* The next asynchronous event within a second: its type, or -1. It is acknowledged. */
static inline int next_event(void)
{
	struct pollfd pfd = {.fd = ctx->async_fd, .events = POLLIN};
	struct ibv_async_event event;

	if (poll(&pfd, 1, 1000) != 1 || ibv_get_async_event(ctx, &event))
		return -1;
	ibv_ack_async_event(&event);
	return event.event_type;
}

static inline bool event_waits(void)
{
	struct pollfd pfd = {.fd = ctx->async_fd, .events = POLLIN};

	return poll(&pfd, 1, 20) == 1;
}

static inline int post(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;

	return ibv_post_send(qp, wr, &bad);
}

static inline int post_buffer(const struct end *e, uint64_t id, void *addr, uint32_t length,
			      uint32_t lkey)
{
	struct ibv_sge sge = {.addr = (uintptr_t)addr, .length = length, .lkey = lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	return e->srq ? ibv_post_srq_recv(e->srq, &wr, &bad) : ibv_post_recv(e->qp, &wr, &bad);
}

#endif
