// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Threads that post and poll are cancelled, again and again, at a random moment. A cancelled one
 * has left nothing locked: the others go on.
 */
#include <pthread.h>

#include "verbs_test.h"

#define ROUNDS 300

static struct end a, b;
static uint64_t words[2];
static struct ibv_mr *mr;

static void post_one(void)
{
	struct ibv_sge sge = {.addr = (uintptr_t)&words[0], .length = 8, .lkey = mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
	struct ibv_send_wr *bad;
	int ret;

	wr.wr.rdma.remote_addr = (uintptr_t)&words[1];
	wr.wr.rdma.rkey = mr->rkey;
	ret = ibv_post_send(a.qp, &wr, &bad);
	EXPECT_TRUE(!ret || ret == ENOMEM);
}

static void *post_and_poll(void *arg)
{
	struct ibv_wc wc;

	for (;;) {
		post_one();
		for (int i = 0; i < 4; i++)
			if (ibv_poll_cq(a.scq, 1, &wc) > 0)
				EXPECT(wc.status, IBV_WC_SUCCESS);
		pthread_testcancel();
	}
	return arg;
}

static void cancel_one(void *(*work)(void *), unsigned usec)
{
	struct timespec ts = {.tv_nsec = usec * 1000};
	pthread_t thread;
	void *result;

	NEED(!pthread_create(&thread, NULL, work, NULL));
	nanosleep(&ts, NULL);
	NEED(!pthread_cancel(thread));
	NEED(!pthread_join(thread, &result));
	EXPECT_TRUE(result == PTHREAD_CANCELED);
}

static void cancelled_at_any_moment(void)
{
	const struct setup rc = {.type = IBV_QPT_RC};

	make_pair(&a, &b, &rc);
	mr = ibv_reg_mr(pd, words, sizeof(words), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	NEED(mr);
	for (unsigned i = 0; i < ROUNDS; i++)
		cancel_one(post_and_poll, i * 37 % 400);
	/* These take the lock that nobody must have been left with. */
	free_end(&a);
	free_end(&b);
	EXPECT(ibv_dereg_mr(mr), 0);
}

/* ---- who is told of completions ---- */

static void *be_told(void *arg)
{
	struct ibv_wc wc;

	for (;;) {
		post_one();
		EXPECT(ibv_req_notify_cq(a.scq, 0), 0);
		ibv_poll_cq(a.scq, 1, &wc);
		pthread_testcancel();
	}
	return arg;
}

/* Threads that ask for an event, which is there at once, are cancelled: the next event can be
 * taken. */
static void cancelled_while_told(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(ctx);
	const struct setup rc = {.type = IBV_QPT_RC};
	struct pollfd pfd = {.events = POLLIN};
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .sq_sig_all = 1, .cap = cap_of(&rc)};
	struct ibv_cq *cq;
	unsigned events = 0;
	void *context;

	NEED(channel);
	make_end(&b, &rc, pd, NULL);
	a.scq = ibv_create_cq(ctx, 256, NULL, channel, 0);
	a.rcq = ibv_create_cq(ctx, 256, NULL, NULL, 0);
	init.send_cq = a.scq;
	init.recv_cq = a.rcq;
	a.qp = ibv_create_qp(pd, &init);
	NEED(a.scq && a.rcq && a.qp);
	connect_end(&a, b.qp->qp_num, &rc);
	connect_end(&b, a.qp->qp_num, &rc);
	mr = ibv_reg_mr(pd, words, sizeof(words), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	NEED(mr);
	pfd.fd = channel->fd;
	alarm(30); /* for one who waits for a lock for ever */
	for (unsigned i = 0; i < ROUNDS / 3; i++) {
		cancel_one(be_told, i * 37 % 400);
		while (poll(&pfd, 1, 0) == 1) {
			NEED(!ibv_get_cq_event(channel, &cq, &context));
			events++;
		}
	}
	EXPECT_TRUE(events > 0);
	ibv_ack_cq_events(a.scq, events);
	free_end(&a);
	free_end(&b);
	alarm(0);
	EXPECT(ibv_dereg_mr(mr), 0);
	EXPECT(ibv_destroy_comp_channel(channel), 0);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"cancelled_at_any_moment", cancelled_at_any_moment},
		{"cancelled_while_told", cancelled_while_told},
	};

	return run_cases(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
