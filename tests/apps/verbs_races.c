// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Two threads that do to one object what verbs permit at the same time; and the child of a fork,
 * for which other threads stand still in the middle of it.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "verbs_test.h"

/* At most: a busy machine may need a turn of all that runs there for each round. */
#define ROUNDS	  20000
#define LONGEST_S 5

static struct end e;
static _Atomic unsigned round_begun, round_ended;
static _Atomic bool last_round_over;
static _Atomic int posted;

static void spin(unsigned n)
{
	for (volatile unsigned i = 0; i < n; i++)
		;
}

/* One receive in each round, some moments after it has begun. */
static void *post_receives(void *arg)
{
	for (unsigned round = 1;; round++) {
		while (atomic_load(&round_begun) != round)
			if (atomic_load(&last_round_over))
				return arg;
		spin(round * 7 % 300);
		atomic_store(&posted, post_buffer(&e, round, NULL, 0, 0));
		atomic_store(&round_ended, round);
	}
}

/* A receive that is posted just when the QP goes to ERR is flushed. */
static void flush_late(struct ibv_pd *of)
{
	const struct setup rc = {.type = IBV_QPT_RC};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	double until = seconds() + LONGEST_S;
	unsigned lost = 0;
	struct ibv_wc wc;
	pthread_t thread;

	atomic_store(&last_round_over, false);
	atomic_store(&round_begun, 0);
	make_end(&e, &rc, of, NULL);
	NEED(!pthread_create(&thread, NULL, post_receives, NULL));
	for (unsigned round = 1; round <= ROUNDS && seconds() < until; round++) {
		attr.qp_state = IBV_QPS_RESET;
		NEED(!ibv_modify_qp(e.qp, &attr, IBV_QP_STATE));
		NEED(!to_init(e.qp, &rc));
		attr.qp_state = IBV_QPS_ERR;
		atomic_store(&round_begun, round);
		spin(round * 13 % 300);
		NEED(!ibv_modify_qp(e.qp, &attr, IBV_QP_STATE));
		while (atomic_load(&round_ended) != round)
			;
		NEED(!atomic_load(&posted));
		if (ibv_poll_cq(e.rcq, 1, &wc) == 1)
			EXPECT(wc.wr_id, round);
		else
			lost++;
	}
	atomic_store(&last_round_over, true);
	NEED(!pthread_join(thread, NULL));
	EXPECT(lost, 0);
	free_end(&e);
}

static void flushed_when_posted_late(void)
{
	flush_late(pd);
}

/* There the thread that posts takes no lock: the one that flushes makes it pass a barrier. */
static void flushed_in_a_thread_domain(void)
{
	struct ibv_td_init_attr td_attr = {0};
	struct ibv_td *td = ibv_alloc_td(ctx, &td_attr);
	struct ibv_parent_domain_init_attr attr = {.pd = pd, .td = td};
	struct ibv_pd *parent = ibv_alloc_parent_domain(ctx, &attr);

	NEED(td && parent);
	flush_late(parent);
	EXPECT(ibv_dealloc_pd(parent), 0);
	EXPECT(ibv_dealloc_td(td), 0);
}

static _Atomic bool polling;
static _Atomic unsigned received;

static void *receive_all(void *of)
{
	struct ibv_wc wc;

	while (atomic_load(&polling))
		if (ibv_poll_cq(((struct end *)of)->rcq, 1, &wc) == 1)
			atomic_fetch_add(&received, 1);
	return of;
}

/* What UC has sent is complete, whoever turns the engine: a CQ of one entry has no room for two
 * (11.2.8.3). */
static void resized_when_just_posted(void)
{
	const struct setup uc = {.type = IBV_QPT_UC};
	struct ibv_send_wr second = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr first = second;
	double until = seconds() + LONGEST_S;
	struct end a, b;
	struct ibv_wc wc;
	pthread_t thread;

	make_pair(&a, &b, &uc);
	first.next = &second;
	atomic_store(&polling, true);
	NEED(!pthread_create(&thread, NULL, receive_all, &b));
	for (unsigned round = 0; round < ROUNDS && !failures && seconds() < until; round++) {
		NEED(!post_buffer(&b, 0, NULL, 0, 0) && !post_buffer(&b, 0, NULL, 0, 0));
		NEED(!post(a.qp, &first));
		EXPECT(ibv_resize_cq(a.scq, 1), EINVAL);
		for (int n = 0; n < 2;)
			n += ibv_poll_cq(a.scq, 1, &wc);
		while (atomic_load(&received) < 2 * (round + 1))
			;
	}
	atomic_store(&polling, false);
	NEED(!pthread_join(thread, NULL));
	free_end(&a);
	free_end(&b);
}

#define EACH   128
#define LOST_S 10 /* what has not come by then is lost */

static struct ibv_cq_ex *shared;
static _Atomic unsigned seen[EACH];

/* One completion or more between start_poll and end_poll, each by its number. */
static void *poll_batches(void *arg)
{
	struct ibv_poll_cq_attr attr = {0};
	unsigned of_batch = (uintptr_t)arg;

	while (atomic_load(&polling)) {
		int ret = ibv_start_poll(shared, &attr);

		if (ret)
			continue;
		for (unsigned i = 0; !ret; i++) {
			atomic_fetch_add(&seen[shared->wr_id % EACH], 1);
			ret = i < of_batch ? ibv_next_poll(shared) : ENOENT;
		}
		ibv_end_poll(shared);
	}
	return NULL;
}

/* Until the completions of numbers from `first` on have been polled so
 * often, each by one thread. */
static void await_seen(unsigned first, unsigned times, double until)
{
	unsigned sum;

	do {
		sum = 0;
		for (unsigned i = first; i < EACH; i++)
			sum += atomic_load(&seen[i]);
	} while (sum < times * (EACH - first) && seconds() < until);
	for (unsigned i = first; i < EACH; i++)
		EXPECT(atomic_load(&seen[i]), times);
}

static void end_polling(const pthread_t threads[2])
{
	atomic_store(&polling, false);
	for (unsigned i = 0; i < 2; i++)
		NEED(!pthread_join(threads[i], NULL));
	EXPECT(ibv_destroy_qp(e.qp), 0);
	EXPECT(ibv_destroy_cq(ibv_cq_ex_to_cq(shared)), 0);
}

/* An extended CQ that was not promised to one thread: each completion is one thread's. */
static void polled_by_two(void)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = EACH};
	const struct setup rc = {.type = IBV_QPT_RC};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = EACH, .max_send_sge = 1}};
	double until = seconds() + LONGEST_S;
	pthread_t threads[2];

	NEED(shared = ibv_create_cq_ex(ctx, &attr));
	init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(shared);
	NEED(e.qp = ibv_create_qp(pd, &init));
	connect_end(&e, e.qp->qp_num, &rc);
	atomic_store(&polling, true);
	for (uintptr_t i = 0; i < 2; i++)
		NEED(!pthread_create(&threads[i], NULL, poll_batches, (void *)(i * 3)));
	for (unsigned round = 1; round < ROUNDS / 10 && !failures && seconds() < until; round++) {
		for (wr.wr_id = 0; wr.wr_id < EACH; wr.wr_id++)
			NEED(!post(e.qp, &wr));
		await_seen(0, round, until + LOST_S);
	}
	end_polling(threads);
}

/* What a batch has not come to yet, of a QP that is destroyed meanwhile, does not come any more. */
static void destroyed_within_a_batch(struct ibv_pd *parent)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = EACH,
					   .comp_mask = parent ? IBV_CQ_INIT_ATTR_MASK_PD : 0,
					   .parent_domain = parent};
	const struct setup rc = {.type = IBV_QPT_RC};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(ctx, &attr);
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC,
					.send_cq = ibv_cq_ex_to_cq(cq),
					.recv_cq = ibv_cq_ex_to_cq(cq),
					.cap = {.max_send_wr = EACH, .max_send_sge = 1}};
	struct ibv_poll_cq_attr poll = {0};
	struct end ends[2];
	struct ibv_wc wc;

	NEED(cq);
	for (unsigned i = 0; i < 2; i++) {
		NEED(ends[i].qp = ibv_create_qp(parent ? parent : pd, &init));
		connect_end(&ends[i], ends[i].qp->qp_num, &rc);
	}
	for (wr.wr_id = 0; wr.wr_id < 8; wr.wr_id++)
		NEED(!post(ends[wr.wr_id & 1].qp, &wr));
	EXPECT(ibv_start_poll(cq, &poll), 0);
	EXPECT(cq->wr_id, 0);
	/* Who waits for his own batch would wait for ever. In a thread domain nobody waits. */
	EXPECT(ibv_resize_cq(init.send_cq, 2 * EACH), parent ? 0 : EDEADLK);
	if (!parent)
		EXPECT(ibv_start_poll(cq, &poll), EDEADLK);
	EXPECT(ibv_next_poll(cq), 0);
	EXPECT(cq->wr_id, 1);
	EXPECT(ibv_destroy_qp(ends[0].qp), 0);
	for (unsigned id = 3; id < 8; id += 2) {
		EXPECT(ibv_next_poll(cq), 0);
		EXPECT(cq->wr_id, id);
		EXPECT(cq->status, IBV_WC_SUCCESS);
	}
	EXPECT(ibv_next_poll(cq), ENOENT);
	NEED(!post(ends[1].qp, &wr));
	if (!parent)
		EXPECT(ibv_poll_cq(init.send_cq, 1, &wc), 0); /* it is the batch's */
	EXPECT(ibv_next_poll(cq), 0);
	EXPECT(cq->wr_id, 8);
	NEED(!post(ends[1].qp, &wr));
	EXPECT(ibv_destroy_qp(ends[1].qp), 0);
	EXPECT(ibv_next_poll(cq), ENOENT);
	ibv_end_poll(cq);
	EXPECT(ibv_poll_cq(init.send_cq, 1, &wc), 0);
	EXPECT(ibv_destroy_cq(init.send_cq), 0);
}

static void destroyed_while_polled(void)
{
	struct ibv_td_init_attr td_attr = {0};
	struct ibv_parent_domain_init_attr attr = {.pd = pd};
	struct ibv_pd *parent;

	destroyed_within_a_batch(NULL);
	NEED(attr.td = ibv_alloc_td(ctx, &td_attr));
	NEED(parent = ibv_alloc_parent_domain(ctx, &attr));
	destroyed_within_a_batch(parent);
	EXPECT(ibv_dealloc_pd(parent), 0);
	EXPECT(ibv_dealloc_td(attr.td), 0);
}

static void *poll_all_batches(void *arg)
{
	return poll_batches((void *)(uintptr_t)EACH);
}

/* Two threads poll, and others resize the CQ, and destroy QPs that complete to it. */
static void changed_while_polled(void)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 2 * EACH};
	const struct setup rc = {.type = IBV_QPT_RC};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = EACH, .max_send_sge = 1}};
	double until = seconds() + LONGEST_S;
	pthread_t threads[2];
	struct end lost;

	NEED(shared = ibv_create_cq_ex(ctx, &attr));
	init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(shared);
	NEED(e.qp = ibv_create_qp(pd, &init));
	connect_end(&e, e.qp->qp_num, &rc);
	for (unsigned i = 0; i < EACH; i++)
		atomic_store(&seen[i], 0);
	atomic_store(&polling, true);
	for (unsigned i = 0; i < 2; i++)
		NEED(!pthread_create(&threads[i], NULL, poll_all_batches, NULL));
	for (unsigned round = 1; round < ROUNDS / 40 && !failures && seconds() < until; round++) {
		NEED(lost.qp = ibv_create_qp(pd, &init));
		connect_end(&lost, lost.qp->qp_num, &rc);
		/* Its completions are those of number 0, which nobody counts. */
		for (wr.wr_id = 1; wr.wr_id < EACH; wr.wr_id++) {
			struct ibv_send_wr other = wr;

			other.wr_id = 0;
			NEED(!post(e.qp, &wr));
			NEED(!post(lost.qp, &other));
		}
		EXPECT(ibv_destroy_qp(lost.qp), 0);
		EXPECT(ibv_resize_cq(init.send_cq, 2 * EACH + round % 2 * EACH), 0);
		await_seen(1, round, until + LOST_S);
	}
	end_polling(threads);
}

/* The child makes objects of its own in its parent's context and domain,
 * and none with its parent's. */
static void make_own(const struct end *a, const struct end *b, struct ibv_comp_channel *channel)
{
	struct setup s = {.type = IBV_QPT_RC};
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = cap_of(&s)};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct end c, d;

	EXPECT_TRUE(!ibv_create_cq(ctx, 16, NULL, channel, 0) && errno == EIO);
	make_pair(&c, &d, &s);
	init.send_cq = a->scq;
	init.recv_cq = c.rcq;
	EXPECT_TRUE(!ibv_create_qp(pd, &init) && errno == EIO);
	init.send_cq = c.scq;
	init.srq = b->srq;
	EXPECT_TRUE(!ibv_create_qp(pd, &init) && errno == EIO);
	EXPECT(post_buffer(&d, 1, NULL, 0, 0), 0);
	EXPECT(post(c.qp, &wr), 0);
	EXPECT_WC(d.rcq, 1, IBV_WC_SUCCESS);
	EXPECT_WC(c.scq, 0, IBV_WC_SUCCESS);
	EXPECT(post(a->qp, &wr), EIO);
	EXPECT(ibv_destroy_qp(a->qp), 0);
	EXPECT(ibv_destroy_cq(a->scq), 0);
	free_end(&c);
	free_end(&d);
}

/* In the child: neither does it wait for a thread that is not there, nor does its parent notice. */
static void use_inherited(const struct end *a, const struct end *b,
			  struct ibv_comp_channel *channel)
{
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND};
	struct ibv_srq_attr limit = {.srq_limit = 1};
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(a->qp);
	struct ibv_async_event event;
	struct ibv_wc wc;
	struct ibv_cq *cq;
	void *context;

	alarm(5);
	ibv_wr_start(ex);
	ex->wr_flags = 0;
	ibv_wr_send(ex);
	EXPECT(ibv_wr_complete(ex), EIO);
	EXPECT(post(a->qp, &send), EIO);
	EXPECT(post_buffer(b, 0, NULL, 0, 0), EIO);
	EXPECT(ibv_modify_srq(b->srq, &limit, IBV_SRQ_LIMIT), EIO);
	EXPECT(ibv_poll_cq(b->rcq, 1, &wc), 0);
	EXPECT(ibv_req_notify_cq(b->rcq, 0), EIO);
	EXPECT(ibv_resize_cq(b->rcq, 10), EIO);
	EXPECT(ibv_get_cq_event(channel, &cq, &context), -1);
	EXPECT(errno, EIO);
	EXPECT(ibv_get_async_event(ctx, &event), -1);
	EXPECT(errno, EIO);
	make_own(a, b, channel);
	_exit(failures != 0);
}

static void inherited(void)
{
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct setup s = {.type = IBV_QPT_RC, .srq_b = ibv_create_srq(pd, &srq_attr)};
	struct ibv_qp_init_attr_ex init = {.qp_type = IBV_QPT_RC, .cap = cap_of(&s), .pd = pd};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct pollfd pfd = {.events = POLLIN};
	struct end a, b;
	int status;
	pid_t pid;

	s.channel = ibv_create_comp_channel(ctx);
	NEED(s.srq_b && s.channel);
	pfd.fd = s.channel->fd;
	make_end(&b, &s, pd, s.srq_b);
	a.scq = init.send_cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	a.rcq = init.recv_cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	NEED(a.scq && a.rcq);
	init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	init.send_ops_flags = IBV_QP_EX_WITH_SEND;
	a.qp = ibv_create_qp_ex(ctx, &init);
	NEED(a.qp);
	connect_end(&a, b.qp->qp_num, &s);
	connect_end(&b, a.qp->qp_num, &s);
	EXPECT(post_buffer(&b, 1, NULL, 0, 0), 0);
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS); /* so b has received */
	/* As if another thread were posting. */
	ibv_wr_start(ibv_qp_to_qp_ex(a.qp));
	pid = fork();
	NEED(pid >= 0);
	if (!pid)
		use_inherited(&a, &b, s.channel);
	ibv_wr_abort(ibv_qp_to_qp_ex(a.qp));
	NEED(waitpid(pid, &status, 0) == pid);
	EXPECT(status, 0);
	EXPECT(poll(&pfd, 1, 20), 0);
	EXPECT_WC(b.rcq, 1, IBV_WC_SUCCESS);
	free_end(&a);
	free_end(&b);
	EXPECT(ibv_destroy_srq(s.srq_b), 0);
	EXPECT(ibv_destroy_comp_channel(s.channel), 0);
}

/* The groups of a parent's QP are the parent's. */
static void groups_inherited(void)
{
	struct setup ud = {.type = IBV_QPT_UD};
	union ibv_gid group = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3}};
	int status;
	pid_t pid;

	make_end(&e, &ud, pd, NULL);
	NEED(!to_init(e.qp, &ud));
	NEED(!ibv_attach_mcast(e.qp, &group, 0));
	pid = fork();
	NEED(pid >= 0);
	if (!pid)
		_exit(ibv_detach_mcast(e.qp, &group, 0) != EIO || ibv_destroy_qp(e.qp) != 0);
	NEED(waitpid(pid, &status, 0) == pid);
	EXPECT(status, 0);
	EXPECT(ibv_detach_mcast(e.qp, &group, 0), 0);
	free_end(&e);
}

/* ---- buffers of ibv_alloc_buf(), which the installed verbs.h does not know ---- */

struct ibv_buf;

static int (*export_fd)(struct ibv_buf *);
static struct ibv_buf *buf;
static _Atomic bool over;

static void *ask(void *arg)
{
	while (!atomic_load(&over))
		export_fd(buf);
	return arg;
}

static void buffers_inherited(void)
{
	void *(*alloc_buf)(struct ibv_pd *, size_t, struct ibv_buf **) =
		dlsym(RTLD_DEFAULT, "ibv_alloc_buf");
	void (*free_buf)(struct ibv_buf *) = dlsym(RTLD_DEFAULT, "ibv_free_buf");
	pthread_t thread;

	export_fd = dlsym(RTLD_DEFAULT, "ibv_export_buf_dmabuf_fd");
	NEED(alloc_buf && free_buf && export_fd && alloc_buf(pd, 1, &buf));
	NEED(!pthread_create(&thread, NULL, ask, NULL));
	for (int i = 0; i < 100 && !failures; i++) {
		pid_t pid = fork();
		int status;

		NEED(pid >= 0);
		if (!pid) {
			alarm(5);
			_exit(export_fd(buf) != -1);
		}
		NEED(waitpid(pid, &status, 0) == pid);
		EXPECT(status, 0);
	}
	atomic_store(&over, true);
	NEED(!pthread_join(thread, NULL));
	free_buf(buf);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"flushed_when_posted_late", flushed_when_posted_late},
		{"flushed_in_a_thread_domain", flushed_in_a_thread_domain},
		{"resized_when_just_posted", resized_when_just_posted},
		{"polled_by_two", polled_by_two},
		{"destroyed_while_polled", destroyed_while_polled},
		{"changed_while_polled", changed_while_polled},
		{"inherited", inherited},
		{"groups_inherited", groups_inherited},
		{"buffers_inherited", buffers_inherited},
	};

	return run_cases(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
