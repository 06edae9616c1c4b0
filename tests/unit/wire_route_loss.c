/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The rows of the ledger that lost packets are counted in, where there is no ledger and where it is
 * full.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "wire/route.c"

static struct urxe_fabric_host here;

int __wrap_urxe_fabric_connect(uint32_t kind, uint32_t port, int fd, struct fabric_welcome *welcome,
			       int *fds);
int __wrap_urxe_fabric_connect(uint32_t kind, uint32_t port, int fd, struct fabric_welcome *welcome,
			       int *fds)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void nothing_is_kept_of_losses_without_a_ledger(void **state)
{
	struct urxe_route r = {.way.num_links = 1};

	assert_null(lost_row(&r, 1, FABRIC_LOST_DISCARD, 5));
	assert_null(lost_row(&r, 1, FABRIC_LOST_DISCARD, 5));
	assert_null(r.lost);
}

static void a_row_that_begins_a_ledger_is_the_only_one(void **state)
{
	struct urxe_route r = {.way.num_links = 1};

	urxe_routes[num_routes++] = &r;
	ledger_begin(&here);
	assert_non_null(lost_row(&r, 1, FABRIC_LOST_DISCARD, 5));
	assert_ptr_equal(lost_row(&r, 1, FABRIC_LOST_DISCARD, 5), ledger.bytes);
	ledger.used = FABRIC_LEDGER_LEN;
	assert_ptr_equal(lost_row(&r, 1, FABRIC_LOST_DISCARD, 6), ledger.bytes);
	assert_int_equal(r.lost->at, 6);
	assert_null(r.lost->next);
	urxe_routes_close(false);
	assert_null(r.lost);
	num_routes--;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_kept_of_losses_without_a_ledger),
		cmocka_unit_test(a_row_that_begins_a_ledger_is_the_only_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
