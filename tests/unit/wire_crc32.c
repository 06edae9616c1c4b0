/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* CRC-32 of Ethernet (IEEE 802.3, 3.2.9): both ways to compute it, beside one bit after the other.
 * */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "wire/crc32.h"

static urxe_crc32_fn *const ways[] = {urxe_crc32_isal, urxe_crc32_shifts};

static int setup(void **state)
{
	urxe_crc32_choose();
	return 0;
}

static uint32_t bit_by_bit(uint32_t crc, const uint8_t *bytes, size_t len)
{
	crc = ~crc;
	for (size_t k = 0; k < len; k++) {
		crc ^= bytes[k];
		for (unsigned bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
	}
	return ~crc;
}

static void check_value(void **state)
{
	for (unsigned w = 0; w < 2; w++)
		assert_int_equal(ways[w](0, "123456789", 9), 0xcbf43926);
	assert_int_equal(urxe_crc32(0, "123456789", 9), 0xcbf43926);
}

static void any_length_at_any_address(void **state)
{
	uint8_t bytes[300];

	for (unsigned k = 0; k < sizeof(bytes); k++)
		bytes[k] = random();
	for (unsigned at = 0; at < 9; at++)
		for (unsigned len = 0; at + len <= sizeof(bytes); len++)
			for (unsigned w = 0; w < 2; w++)
				assert_int_equal(ways[w](len * 0x01234567u, bytes + at, len),
						 bit_by_bit(len * 0x01234567u, bytes + at, len));
}

static void continues_from_its_own_result(void **state)
{
	for (unsigned w = 0; w < 2; w++)
		for (unsigned cut = 0; cut <= 9; cut++)
			assert_int_equal(ways[w](ways[w](0, "123456789", cut), "123456789" + cut,
						 9 - cut),
					 0xcbf43926);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(check_value),
		cmocka_unit_test(any_length_at_any_address),
		cmocka_unit_test(continues_from_its_own_result),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
