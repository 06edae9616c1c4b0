/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The window towards a peer address: what it is after an answer that did not come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "hca/engine.h"
#include "hca/peer.h"

#define INITIAL	  (64u << 10)
#define LARGEST	  (1u << 20)
#define DOUBLINGS 8 /* from the smallest window to the largest are seven */

static struct urxe_qp qp;

static int setup(void **state)
{
	struct urxe_link_addr addr = {.gid = IN6ADDR_LOOPBACK_INIT};

	for (unsigned i = 0; i < 64; i++)
		CDS_INIT_LIST_HEAD(&urxe_hca.peers[i]);
	urxe_hca.now = 1000000000;
	memset(&qp, 0, sizeof(qp));
	qp.peer = urxe_peer_get(&addr);
	return qp.peer ? 0 : -1;
}

static int teardown(void **state)
{
	urxe_peer_put(qp.peer);
	return 0;
}

static void round_trips(unsigned n)
{
	while (n--) {
		uint32_t window = qp.peer->window;

		urxe_peer_sent(&qp, window);
		urxe_peer_acked(&qp, window);
	}
}

static void slow_first_answer(void **state)
{
	urxe_peer_lost(&qp, true);
	assert_true(qp.peer->window < INITIAL);
	round_trips(DOUBLINGS);
	assert_int_equal(qp.peer->window, LARGEST);
}

static void lost_later(void **state)
{
	qp.peer->rtt = 1000;
	urxe_peer_lost(&qp, true);
	assert_true(qp.peer->window < INITIAL);
	round_trips(DOUBLINGS);
	assert_true(qp.peer->window < INITIAL);
}

static void reported_first(void **state)
{
	urxe_peer_lost(&qp, false);
	assert_int_equal(qp.peer->window, INITIAL / 2);
	round_trips(DOUBLINGS);
	assert_true(qp.peer->window < 2 * INITIAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(slow_first_answer, setup, teardown),
		cmocka_unit_test_setup_teardown(lost_later, setup, teardown),
		cmocka_unit_test_setup_teardown(reported_first, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
