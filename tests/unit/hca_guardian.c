// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The start of the guardian by a program with RC QPs: clone() is this test's, which lets the thread
 * that calls it wait. What is started is in tests/unit/host_guardian.c.
 */
#include "wire_test.h"
#include "qp_test.h"

#include <errno.h>
#include <sched.h>

#include "hca/engine.h"
#include "hca/verbs.h"
#include "host/guardian.h"

#define PEER_QPN 0x12303 /* of a slot that nobody has */

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static _Atomic pid_t starter; /* the thread that waits in clone() */
static atomic_bool may_start;

int __wrap_clone(int (*fn)(void *), void *stack, int flags, void *arg);
int __wrap_clone(int (*fn)(void *), void *stack, int flags, void *arg)
{
	atomic_store(&starter, gettid());
	for (int tries = 0; !atomic_load(&may_start) && tries < 5000; tries++)
		usleep(1000);
	errno = EAGAIN;
	return -1;
}

static struct ibv_qp *connected_qp(void)
{
	struct ibv_qp_attr attr = {
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = PEER_QPN,
		.ah_attr = {.is_global = 1, .port_num = 1},
	};
	struct ibv_qp *qp = small_qp(pd, cq, IBV_QPT_RC);

	attr.ah_attr.grh.dgid = gid_of("::ffff:127.0.0.9");
	enter_rtr(qp, &attr);
	return qp;
}

static int setup(void **state)
{
	atomic_store(&starter, 0);
	atomic_store(&may_start, false);
	ctx = open_lo();
	pd = urxe_alloc_pd(ctx);
	cq = urxe_create_cq(ctx, 16, NULL, NULL, 0);
	return pd && cq ? 0 : -1;
}

static int teardown(void **state)
{
	int ret;

	atomic_store(&may_start, true);
	ret = urxe_destroy_cq(cq) ?: urxe_dealloc_pd(pd);
	urxe_close_device(ctx);
	return ret;
}

/* The thread that starts it waits for the new process, which on a busy machine may take long. */
static void the_program_goes_on_meanwhile(void **state)
{
	struct ibv_qp *qp = connected_qp(), *other;
	struct ibv_wc wc;

	for (int tries = 0; !atomic_load(&starter) && tries < 10000; tries++)
		usleep(1000);
	assert_int_not_equal(starter, 0);
	assert_int_not_equal(starter, gettid());
	other = connected_qp();
	assert_int_equal(urxe_poll_cq(cq, 1, &wc), 0);
	assert_int_equal(urxe_destroy_qp(other), 0);
	assert_int_equal(urxe_destroy_qp(qp), 0);
}

/* Then the service thread keeps away from the wire, mostly. */
static void it_is_started_for_a_program_that_polls_all_the_time(void **state)
{
	struct ibv_qp *qp;
	struct ibv_wc wc;
	uint64_t begun;

	for (int i = 0; i < 100000; i++)
		assert_int_equal(urxe_poll_cq(cq, 1, &wc), 0);
	qp = connected_qp();
	begun = urxe_now();
	while (!atomic_load(&starter) && urxe_now() - begun < 10000000000ull)
		assert_int_equal(urxe_poll_cq(cq, 1, &wc), 0);
	assert_int_not_equal(starter, 0);
	assert_int_equal(urxe_destroy_qp(qp), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_program_goes_on_meanwhile, setup, teardown),
		cmocka_unit_test_setup_teardown(it_is_started_for_a_program_that_polls_all_the_time,
						setup, teardown),
	};

	if (!own_host())
		return 0;
	urxe_guardian_program("/nonexistent", "/nonexistent");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
