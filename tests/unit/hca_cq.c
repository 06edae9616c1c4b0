// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Polling a completion queue: which polls take a turn of the engine. */
#include "wire_test.h"
#include "qp_test.h"

#include "hca/engine.h"
#include "hca/verbs.h"

#define POLLS 100000

static struct ibv_context *ctx;

static void push(struct urxe_cq *cq)
{
	const struct urxe_cqe cqe = {.wr_id = 7};

	urxe_engine_lock();
	urxe_cq_add(cq, NULL, &cqe);
	urxe_engine_unlock();
}

/* How many turns a batch took that found nothing behind its first completion. */
static unsigned turns_of_batch(struct urxe_cq *cq)
{
	struct ibv_poll_cq_attr attr = {0};
	unsigned turns;

	assert_int_equal(ibv_start_poll(&cq->ex, &attr), 0);
	assert_int_equal(cq->ex.wr_id, 7);
	for (unsigned i = 0; i < POLLS; i++)
		assert_int_equal(ibv_next_poll(&cq->ex), ENOENT);
	turns = atomic_load(&cq->idle);
	ibv_end_poll(&cq->ex);
	return turns;
}

/*
 * A turn brings completions, for which an armed CQ has an event. A batch that takes them would
 * leave the event and an empty CQ.
 */
static void a_batch_of_an_armed_cq_takes_no_turn(void **unused)
{
	struct ibv_comp_channel *channel = urxe_create_comp_channel(ctx);
	struct ibv_cq_init_attr_ex attr = {.cqe = 8, .channel = channel};
	struct ibv_cq_ex *ex;
	struct ibv_cq *cq;
	void *context;

	assert_non_null(channel);
	ex = urxe_create_cq_ex(ctx, &attr);
	assert_non_null(ex);
	cq = ibv_cq_ex_to_cq(ex);
	push(to_cq(cq));
	assert_true(turns_of_batch(to_cq(cq)));
	assert_int_equal(urxe_req_notify_cq(cq, 0), 0);
	push(to_cq(cq));
	assert_int_equal(urxe_get_cq_event(channel, &cq, &context), 0);
	assert_int_equal(urxe_req_notify_cq(cq, 0), 0);
	assert_int_equal(turns_of_batch(to_cq(cq)), 0);
	urxe_ack_cq_events(cq, 1);
	assert_int_equal(urxe_destroy_cq(cq), 0);
	assert_int_equal(urxe_destroy_comp_channel(channel), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_batch_of_an_armed_cq_takes_no_turn)};
	int ret;

	if (!own_host())
		return 0;
	ctx = open_lo();
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	urxe_close_device(ctx);
	return leave_host(ret);
}
