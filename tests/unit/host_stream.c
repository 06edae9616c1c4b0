/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Copies past the caches (host/stream.h). */
#include "host/stream.h"
#include "tests/unit/host_test.h"

static void a_copy_has_the_bytes_and_no_others(void **state)
{
	uint8_t from[256], to[256];

	for (unsigned i = 0; i < sizeof(from); i++)
		from[i] = i + 1;
	for (unsigned at = 0; at < 32; at++)
		for (unsigned source = 0; source < 3; source++)
			for (unsigned len = 0; len < 100; len++) {
				memset(to, 0, sizeof(to));
				urxe_stream(to + at, from + source, len);
				urxe_stream_fence();
				for (unsigned i = 0; i < sizeof(to); i++)
					assert_int_equal(to[i], i >= at && i < at + len
									? from[source + i - at]
									: 0);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_has_the_bytes_and_no_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
