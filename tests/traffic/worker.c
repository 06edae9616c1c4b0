/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A worker: one thread that turns its QPs. It polls its CQs, reads what the other end says and lets
 * each QP take a step, until both halves of all of them are done. With --events it sleeps on the
 * completion channel and the control connection when there is nothing to do.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>

#include "traffic.h"

#define POLL_BATCH 16
#define IDLE_LOOPS 64

static struct qp *qp_of(struct worker *w, const struct ibv_wc *wc)
{
	uint64_t n = (wc->wr_id & ~RECEIVE_ID) >> 32;
	unsigned i;

	if (wc->wr_id & RECEIVE_ID && w->srq) {
		for (i = 0; i < w->nqps; i++)
			if (w->qps[i].qp->qp_num == wc->qp_num)
				return &w->qps[i];
		fail(NULL, "a completion of QP %#x, which is none of this thread's", wc->qp_num);
	}
	if (n >= w->nqps)
		fail(NULL, "a completion with id %#llx, which was never posted",
		     (unsigned long long)wc->wr_id);
	return &w->qps[n];
}

static bool drain_cq(struct worker *w, struct ibv_cq *cq)
{
	struct ibv_wc wc[POLL_BATCH];
	int n = poll_completions(w, cq, POLL_BATCH, wc), i;

	if (n < 0 || n > POLL_BATCH)
		fail(NULL, "ibv_poll_cq returned %d", n);
	for (i = 0; i < n; i++) {
		struct qp *qp = qp_of(w, &wc[i]);
		bool receive = wc[i].wr_id & RECEIVE_ID;

		if (w->send_cq != w->recv_cq && receive != (cq == w->recv_cq))
			fail(qp, "a completion came to the wrong CQ");
		if (receive)
			target_receive(qp, &wc[i]);
		else
			initiator_completion(qp, &wc[i]);
	}
	return n;
}

static bool drain_cqs(struct worker *w)
{
	bool some = drain_cq(w, w->recv_cq);

	if (w->send_cq != w->recv_cq)
		some |= drain_cq(w, w->send_cq);
	return some;
}

static void take_msg(struct worker *w, const struct msg *msg)
{
	struct qp *qp;

	if (msg->q >= w->nqps)
		fail(NULL, "the other end speaks of QP %u", msg->q);
	qp = &w->qps[msg->q];
	switch (msg->type) {
	case MSG_GRANT:
		qp->in.grants[msg->round & 1].given = true;
		qp->in.grants[msg->round & 1].key = msg->key;
		break;
	case MSG_ENDED: initiator_ended(qp, msg->round); break;
	case MSG_DONE: target_done(qp, msg); break;
	case MSG_BYE: w->peer_bye = true; break;
	default: fail(qp, "the other end says %u", msg->type);
	}
}

static bool read_msgs(struct worker *w)
{
	bool some = false;

	while (!w->peer_bye) {
		ssize_t n = recv(w->fd, (char *)&w->msg_buf + w->msg_len,
				 sizeof(w->msg_buf) - w->msg_len, MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return some;
		if (n < 0)
			fail(NULL, "control connection: %m");
		if (!n)
			fail(NULL, "the other end is gone, without a word");
		w->msg_len += n;
		if (w->msg_len < sizeof(w->msg_buf))
			continue;
		w->msg_len = 0;
		take_msg(w, &w->msg_buf);
		some = true;
	}
	return some;
}

/* Every receive that the open rounds need is posted, so only the last of a round, which is sent
 * solicited, has to wake anybody. */
static bool solicited_suffices(const struct worker *w)
{
	unsigned i;

	if (w->srq || lossy(&w->end->cfg) || w->send_cq == w->recv_cq)
		return false;
	for (i = 0; i < w->nqps; i++)
		if (w->qps[i].tg.post_round < w->qps[i].tg.opened)
			return false;
	return true;
}

static void arm(struct worker *w)
{
	if (ibv_req_notify_cq(w->recv_cq, solicited_suffices(w)))
		fail(NULL, "ibv_req_notify_cq: %m");
	if (w->send_cq != w->recv_cq && ibv_req_notify_cq(w->send_cq, 0))
		fail(NULL, "ibv_req_notify_cq: %m");
}

static bool marking(const struct worker *w)
{
	unsigned i;

	for (i = 0; i < w->nqps; i++)
		if (w->qps[i].in.marking)
			return true;
	return false;
}

/* Sleeps until a CQ or the other end has something, or a marker may be due. */
static void wait_events(struct worker *w)
{
	struct pollfd fds[2] = {{.fd = w->channel->fd, .events = POLLIN},
				{.fd = w->fd, .events = POLLIN}};
	int timeout = marking(w) ? 2 : -1, n;
	struct ibv_cq *cq;
	void *context;

	arm(w);
	if (drain_cqs(w))
		return;
	n = poll(fds, 2, timeout);
	if (n < 0 && errno != EINTR)
		fail(NULL, "poll: %m");
	if (n <= 0 || !fds[0].revents)
		return;
	if (ibv_get_cq_event(w->channel, &cq, &context))
		fail(NULL, "ibv_get_cq_event: %m");
	if ((cq != w->send_cq && cq != w->recv_cq) || context != w)
		fail(NULL, "an event of an unknown CQ");
	w->cq_events[cq == w->recv_cq]++;
}

static void ack_events(struct worker *w)
{
	if (w->cq_events[0])
		ibv_ack_cq_events(w->send_cq, w->cq_events[0]);
	if (w->cq_events[1])
		ibv_ack_cq_events(w->recv_cq, w->cq_events[1]);
}

static bool step_all(struct worker *w, bool *done)
{
	bool some = false;
	unsigned i;

	*done = true;
	for (i = 0; i < w->nqps; i++) {
		struct qp *qp = &w->qps[i];

		some |= target_step(qp);
		some |= initiator_step(qp);
		*done &= qp->in.done && qp->tg.finished && qp->tg.peer_done;
	}
	return some;
}

static void say_bye(struct worker *w)
{
	struct msg msg = {.type = MSG_BYE};

	w->said_bye = true;
	tell(w, &msg);
}

/* Until both ends are. */
static void run_until_done(struct worker *w)
{
	unsigned idle = 0, loops = 0;
	bool done = false, some;

	while (!w->said_bye || !w->peer_bye) {
		some = drain_cqs(w);
		if (some && w->said_bye && !lossy(&w->end->cfg))
			fail(NULL, "completions after the last one");
		if (idle || !(loops++ % 16))
			some |= read_msgs(w);
		some |= step_all(w, &done);
		if (done && !w->said_bye) {
			say_bye(w);
			some = true;
		}
		idle = some ? 0 : idle + 1;
		if (!idle)
			continue;
		if (w->channel)
			wait_events(w);
		else if (idle > IDLE_LOOPS)
			sched_yield();
	}
}

/* Markers may still be on the way: from here on none is received, and every receive that was posted
 * comes back flushed (10.3.1.7). */
static void close_receives(struct worker *w)
{
	bool closed = false;
	unsigned i;

	w->closing = true;
	for (i = 0; i < w->nqps; i++)
		target_close(&w->qps[i]);
	while (!closed) {
		bool some = drain_cqs(w);

		if (!some)
			sched_yield();
		closed = !some;
		for (i = 0; i < w->nqps; i++)
			closed &= target_closed(&w->qps[i]);
	}
}

void *worker_run(void *arg)
{
	struct worker *w = arg;
	unsigned i;

	worker_setup(w);
	worker_connect(w);
	for (i = 0; i < w->nqps; i++) {
		initiator_start(&w->qps[i]);
		target_start(&w->qps[i]);
	}
	run_until_done(w);
	if (lossy(&w->end->cfg))
		close_receives(w);
	else if (drain_cqs(w))
		fail(NULL, "completions after the last one");
	for (i = 0; i < w->nqps; i++)
		verify_qp_end(&w->qps[i]);
	ack_events(w);
	worker_teardown(w);
	return NULL;
}
