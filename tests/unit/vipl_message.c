// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What two ends tell each other, and what they make of anything else; addresses and names of NICs.
 * */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "vipl/device.h"
#include "vipl/message.h"

static struct vipl_message request(void)
{
	struct vipl_message message = {.kind = VIPL_PEER,
				       .level = VIP_SERVICE_RELIABLE_RECEPTION,
				       .rdma_read = true,
				       .transfer_size = 32000,
				       .nonce = 0x1122334455667788,
				       .to_length = 16,
				       .from_length = 3,
				       .to = "0123456789abcdef",
				       .from = "xyz"};

	return message;
}

static void a_request_comes_through_padded(void **state)
{
	struct vipl_message from = request(), to;
	uint8_t buffer[VIPL_MESSAGE_MAX];
	size_t length = vipl_message_write(&from, buffer);

	assert_int_equal(length, 20 + 16 + 3);
	assert_int_equal(vipl_message_read(buffer, sizeof(buffer), &to), 0);
	assert_memory_equal(&from, &to, sizeof(to));
	assert_int_equal(vipl_message_read(buffer, length, &to), 0);
	assert_int_equal(vipl_message_read(buffer, length - 1, &to), -EPROTO);
}

static void the_longest_request_fits_rdma_cm(void **state)
{
	struct vipl_message message = request();
	uint8_t buffer[VIPL_MESSAGE_MAX];

	message.from_length = 16;
	assert_true(vipl_message_write(&message, buffer) <= 56);
}

static void answers_and_refusals_come_through(void **state)
{
	struct vipl_message accept = {.kind = VIPL_ACCEPT,
				      .level = VIP_SERVICE_UNRELIABLE,
				      .rdma_write = true,
				      .transfer_size = 1};
	struct vipl_message refusal = {
		.kind = VIPL_REFUSAL, .reason = VIPL_MISMATCHED, .result = VIP_INVALID_MTU};
	uint8_t buffer[VIPL_MESSAGE_MAX];
	struct vipl_message to;

	vipl_message_write(&accept, buffer);
	assert_int_equal(vipl_message_read(buffer, 12, &to), 0);
	assert_memory_equal(&accept, &to, sizeof(to));
	vipl_message_write(&refusal, buffer);
	assert_int_equal(vipl_message_read(buffer, 8, &to), 0);
	assert_memory_equal(&refusal, &to, sizeof(to));
}

/* Each byte of each message, with each value: what is read is within bounds, or it is no message.
 * */
static void damaged_messages_are_read_safely(void **state)
{
	uint8_t good[VIPL_MESSAGE_MAX];
	struct vipl_message from = request(), to;
	size_t length = vipl_message_write(&from, good);

	for (size_t cut = 0; cut <= length; cut++) {
		uint8_t *bytes = malloc(cut + 1); /* a sanitizer sees reads beyond it */

		for (size_t at = 0; at < cut; at++) {
			for (unsigned value = 0; value < 256; value++) {
				memcpy(bytes, good, cut);
				bytes[at] = value;
				if (vipl_message_read(bytes, cut, &to))
					continue;
				assert_true(to.to_length <= VIPL_DISCRIMINATOR_MAX);
				assert_true(to.from_length <= VIPL_DISCRIMINATOR_MAX);
				assert_true(to.kind >= VIPL_CLIENT && to.kind <= VIPL_REFUSAL);
			}
		}
		free(bytes);
	}
	assert_int_equal(vipl_message_read(NULL, 0, &to), -EPROTO);
}

static void garbage_is_read_safely(void **state)
{
	struct vipl_message to;
	uint8_t bytes[256];

	srandom(1);
	for (unsigned i = 0; i < 200000; i++) {
		size_t length = random() % sizeof(bytes);

		for (size_t at = 0; at < length; at++)
			bytes[at] = random();
		if (random() % 2 && length > 3)
			memcpy(bytes, "VI\1", 3);
		if (!vipl_message_read(bytes, length, &to))
			assert_true(to.to_length <= VIPL_DISCRIMINATOR_MAX &&
				    to.from_length <= VIPL_DISCRIMINATOR_MAX);
	}
}

static void addresses_have_16_bytes_and_a_short_discriminator(void **state)
{
	union {
		VIP_NET_ADDRESS net;
		uint8_t bytes[64];
	} from, back;
	struct vipl_address to, other;

	memset(&from, 0x5a, sizeof(from));
	from.net.HostAddressLen = 16;
	from.net.DiscriminatorLen = 16;
	assert_int_equal(vipl_address_read(&from.net, &to), 0);
	memset(&back, 0x5a, sizeof(back));
	vipl_address_write(&to, &back.net);
	assert_memory_equal(&from, &back, sizeof(from));
	other = to;
	assert_true(vipl_address_equal(&to, &other));
	other.length = 15;
	assert_false(vipl_address_equal(&to, &other));
	from.net.DiscriminatorLen = 17;
	assert_int_equal(vipl_address_read(&from.net, &to), -EINVAL);
	from.net.DiscriminatorLen = 0;
	assert_int_equal(vipl_address_read(&from.net, &to), 0);
	from.net.HostAddressLen = 6;
	assert_int_equal(vipl_address_read(&from.net, &to), -EINVAL);
	from.net.HostAddressLen = 65535;
	assert_int_equal(vipl_address_read(&from.net, &to), -EINVAL);
}

static void ports_are_below_those_of_clients(void **state)
{
	for (unsigned i = 0; i < 1000; i++) {
		uint16_t first = vipl_port((uint8_t *)&i, sizeof(i), 0);

		for (unsigned probe = 0; probe < VIPL_PROBES; probe++) {
			uint16_t port = vipl_port((uint8_t *)&i, sizeof(i), probe);

			assert_in_range(port, 16384, 32767);
			assert_true(!probe || port != first);
		}
	}
}

static void names_of_nics(void **state)
{
	static const struct {
		const char *from, *name;
		int number;
		unsigned port;
	} rows[] = {
		{"urxe0", "urxe0", -1, 0},    {"mlx5_0:2", "mlx5_0", -1, 2},
		{"eth0", "eth0", -1, 0},      {"/dev/via_eth0", "eth0", -1, 0},
		{"/dev/via_lo", "lo", -1, 0}, {"/etc/via_lo", "lo", -1, 0}, /* MP_Lite */
		{"/dev/clanvi0", "", 0, 0},   {"/dev/clanvi3", "", 3, 0},
		{"nic0", "", 0, 0},	      {"nic12", "", 12, 0},
		{"VINIC", "", 0, 0},	      {"VINIC0", "", 0, 0},
		{"vinic7", "", 7, 0},	      {"nice0", "nice0", -1, 0},
		{"nic0x", "nic0x", -1, 0},    {"", "", -1, 0},
		{"/dev/", "", -1, 0},	      {"nic99999999999", "", 64, 0},
		{"eth0:1", "eth0", -1, 1},
	};
	char name[64];
	unsigned port;

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		assert_int_equal(vipl_device_parse(rows[i].from, name, &port), rows[i].number);
		if (rows[i].number >= 0)
			continue;
		assert_string_equal(name, rows[i].name);
		assert_int_equal(port, rows[i].port);
	}
	memset(name, 0, sizeof(name));
	vipl_device_parse("a-name-that-is-longer-than-any-device-or-interface-of-this-system-may-"
			  "have-in-its-kernel",
			  name, &port);
	assert_int_equal(strlen(name), 63);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_comes_through_padded),
		cmocka_unit_test(the_longest_request_fits_rdma_cm),
		cmocka_unit_test(answers_and_refusals_come_through),
		cmocka_unit_test(damaged_messages_are_read_safely),
		cmocka_unit_test(garbage_is_read_safely),
		cmocka_unit_test(addresses_have_16_bytes_and_a_short_discriminator),
		cmocka_unit_test(ports_are_below_those_of_clients),
		cmocka_unit_test(names_of_nics),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
