// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The entries of a completion queue, for programs that do not ask for them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "vipl/nic.h"

static struct vipl_nic nic;
static struct vipl_cq cq;
static struct vipl_vi vi;

static int open_cq(void **state)
{
	cq = (struct vipl_cq){.nic = &nic};
	vi.handle = vipl_handle_create(VIPL_KIND_VI, &vi);
	vi.sq.cq = vi.rq.cq = &cq;
	vi.sq.head = vi.sq.done = vi.rq.head = vi.rq.done = 0;
	return vi.handle ? 0 : -1;
}

static int close_cq(void **state)
{
	if (vi.handle)
		vipl_handle_destroy(vi.handle);
	free(cq.entries);
	return 0;
}

/* A descriptor completes. */
static void complete(struct vipl_queue *queue, bool recv)
{
	queue->done++;
	vipl_cq_push(&cq, vi.handle, recv);
}

static void entries_of_taken_descriptors_take_no_memory(void **state)
{
	for (unsigned i = 0; i < 100000; i++) {
		complete(&vi.sq, false);
		vi.sq.head++;
	}
	assert_int_equal(cq.size, 64);
}

static void entries_of_vis_that_have_gone_take_none(void **state)
{
	for (unsigned i = 0; i < 64; i++)
		complete(&vi.sq, false);
	vipl_handle_destroy(vi.handle);
	vi.handle = vipl_handle_create(VIPL_KIND_VI, &vi);
	vi.sq.head = vi.sq.done;
	complete(&vi.rq, true);
	assert_int_equal(cq.size, 64);
	assert_int_equal(cq.tail - cq.head, 1);
}

static void no_entry_of_a_descriptor_to_take_is_lost(void **state)
{
	VIP_VI_HANDLE handle;
	VIP_BOOLEAN recv;

	/* Receives are taken without their entries, sends are not. */
	for (unsigned i = 0; i < 1000; i++) {
		complete(&vi.rq, true);
		vi.rq.head++;
		complete(&vi.sq, false);
	}
	for (unsigned sends = 0; sends < 1000;) {
		assert_true(vipl_cq_take(&cq, &handle, &recv));
		assert_ptr_equal(handle, vi.handle);
		sends += !recv;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(entries_of_taken_descriptors_take_no_memory,
						open_cq, close_cq),
		cmocka_unit_test_setup_teardown(entries_of_vis_that_have_gone_take_none, open_cq,
						close_cq),
		cmocka_unit_test_setup_teardown(no_entry_of_a_descriptor_to_take_is_lost, open_cq,
						close_cq),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
