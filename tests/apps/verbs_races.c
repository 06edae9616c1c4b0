// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Two threads that do to one object what verbs permit at the same time.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "verbs_test.h"

#define ROUNDS 20000

static struct end e;
static _Atomic unsigned round_begun, round_ended;
static _Atomic int posted;

static void spin(unsigned n)
{
	for (volatile unsigned i = 0; i < n; i++)
		;
}

/* One receive in each round, some moments after it has begun. */
static void *post_receives(void *arg)
{
	for (unsigned round = 1; round <= ROUNDS; round++) {
		while (atomic_load(&round_begun) != round)
			;
		spin(round * 7 % 300);
		atomic_store(&posted, post_buffer(&e, round, NULL, 0, 0));
		atomic_store(&round_ended, round);
	}
	return arg;
}

/* A receive that is posted just when the QP goes to ERR is flushed. */
static void flushed_when_posted_late(void)
{
	const struct setup rc = {.type = IBV_QPT_RC};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	unsigned lost = 0;
	struct ibv_wc wc;
	pthread_t thread;

	make_end(&e, &rc, pd, NULL);
	NEED(!pthread_create(&thread, NULL, post_receives, NULL));
	for (unsigned round = 1; round <= ROUNDS; round++) {
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
	NEED(!pthread_join(thread, NULL));
	EXPECT(lost, 0);
	free_end(&e);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"flushed_when_posted_late", flushed_when_posted_late},
	};

	return run_cases(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
