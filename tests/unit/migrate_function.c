/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Providers of functions: mlx5's messages byte for byte as iproute2 6.1 sends them, what the kernel
 * answers; mlx4's files, as drivers/infiniband/hw/mlx4/sysfs.c has them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "migrate/function_mlx4.h"
#include "migrate/function_mlx5.h"

#define GUID 0x0255525800010007

/* ---- mlx5 ---- */

/* ip link set dev lo vf 3 node_guid 02:55:52:58:00:01:00:07 port_guid 02:55:52:58:00:01:00:07 state
 * auto */
static const uint8_t recorded[] = {
	0x5c, 0x00, 0x00, 0x00, 0x10, 0x00, 0x05, 0x00, 0x5e, 0x36, 0x03, 0x6b, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x3c, 0x00, 0x16, 0x00, 0x38, 0x00, 0x01, 0x00, 0x14, 0x00,
	0x0a, 0x00, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x07, 0x00, 0x01, 0x00,
	0x58, 0x52, 0x55, 0x02, 0x14, 0x00, 0x0b, 0x00, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x07, 0x00, 0x01, 0x00, 0x58, 0x52, 0x55, 0x02, 0x0c, 0x00, 0x05, 0x00,
	0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
};

static void mlx5_sets_guids_as_iproute2_does(void **state)
{
	_Alignas(8) uint8_t message[MLX5_MESSAGE_LEN];

	assert_int_equal(mlx5_set_message(message, 1, 3, GUID, 0x6b03365e), sizeof(recorded));
	assert_memory_equal(message, recorded, sizeof(recorded));
}

static void mlx5_takes_the_link_down_with_the_guid(void **state)
{
	_Alignas(8) uint8_t message[MLX5_MESSAGE_LEN];
	uint8_t expected[sizeof(recorded)];

	memcpy(expected, recorded, sizeof(recorded));
	memset(expected + 52, 0, 8);
	memset(expected + 72, 0, 8);
	expected[88] = 2; /* IFLA_VF_LINK_STATE_DISABLE */
	assert_int_equal(mlx5_set_message(message, 1, 3, 0, 0x6b03365e), sizeof(recorded));
	assert_memory_equal(message, expected, sizeof(expected));
}

static void mlx5_reads_what_the_kernel_says(void **state)
{
	_Alignas(8) uint8_t message[sizeof(recorded)];
	struct function functions[4];

	/* The kernel's list has the form of the one that sets. */
	memcpy(message, recorded, sizeof(recorded));
	assert_int_equal(mlx5_parse(message, sizeof(message), functions, 4), 1);
	assert_int_equal(functions[0].number, 3);
	assert_int_equal(functions[0].guid, GUID);
	/* Cut anywhere, it is no more than it says. */
	for (size_t len = 0; len < sizeof(message); len++)
		assert_int_equal(mlx5_parse(message, len, functions, 4), -EPROTO);
	for (size_t len = 32; len < sizeof(message); len++) {
		message[0] = (uint8_t)len;
		assert_true(mlx5_parse(message, len, functions, 4) <= 1);
	}
}

/* What a kernel before 5.5 says, or of an interface that is not InfiniBand's: a
 * function without its GUID. */
static void mlx5_takes_no_function_for_free_whose_guid_is_not_told(void **state)
{
	_Alignas(8) uint8_t message[sizeof(recorded)];
	struct function functions[4];

	memcpy(message, recorded, sizeof(recorded));
	message[62] = 1; /* IFLA_VF_MAC in the place of the port's GUID */
	assert_int_equal(mlx5_parse(message, sizeof(message), functions, 4), -EOPNOTSUPP);
}

static void mlx5_takes_no_list_that_lacks_a_function(void **state)
{
	static const uint8_t number[] = {0x08, 0x00, 0x15, 0x00, 0x01, 0x00, 0x00, 0x00};
	_Alignas(8) uint8_t message[sizeof(recorded) + sizeof(number)];
	struct function functions[4];

	memcpy(message, recorded, sizeof(recorded));
	memcpy(message + sizeof(recorded), number, sizeof(number)); /* IFLA_NUM_VF 1 */
	message[0] = sizeof(message);
	assert_int_equal(mlx5_parse(message, sizeof(message), functions, 4), 1);
	message[sizeof(recorded) + 4] = 2;
	assert_int_equal(mlx5_parse(message, sizeof(message), functions, 4), -EPROTO);
}

/* ---- mlx4 ---- */

static char root[64];

__attribute__((format(printf, 2, 3))) static void put(const char *value, const char *format, ...)
{
	char path[PATH_MAX], command[PATH_MAX + 32];
	va_list args;
	FILE *f;
	int len = snprintf(path, sizeof(path), "%s/class/infiniband/mlx4_0/", root);

	va_start(args, format);
	vsnprintf(path + len, sizeof(path) - len, format, args);
	va_end(args);
	snprintf(command, sizeof(command), "mkdir -p $(dirname %s)", path);
	assert_int_equal(system(command), 0);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(value, f);
	fclose(f);
}

static const char *got(const char *name)
{
	static char text[64];
	char path[PATH_MAX];
	FILE *f;

	snprintf(path, sizeof(path), "%s/class/infiniband/mlx4_0/%s", root, name);
	f = fopen(path, "r");
	assert_non_null(f);
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	fclose(f);
	return text;
}

/* Two functions of port 1, of which the second has a GUID. */
static int setup(void **state)
{
	char path[PATH_MAX], target[64];

	strcpy(root, "/tmp/mlx4.XXXXXX");
	assert_non_null(mkdtemp(root));
	put("0xffff\n", "ports/1/pkeys/0");
	put("0x0000\n", "ports/1/pkeys/1");
	put("0x8001\n", "ports/1/pkeys/2");
	put("", "device/x");
	for (int n = 0; n < 2; n++) {
		snprintf(path, sizeof(path), "%s/class/infiniband/mlx4_0/device/virtfn%d", root, n);
		snprintf(target, sizeof(target), "../0000:04:00.%d", n + 1);
		assert_int_equal(symlink(target, path), 0);
		put(n ? "2\n" : "1\n", "iov/0000:04:00.%d/ports/1/gid_idx/0", n + 1);
		put("0\n", "iov/0000:04:00.%d/ports/1/pkey_idx/0", n + 1);
		put("none\n", "iov/0000:04:00.%d/ports/1/pkey_idx/1", n + 1);
	}
	put("ffffffffffffffff\n", "iov/ports/1/admin_guids/1");
	put("255525800010009\n", "iov/ports/1/admin_guids/2");
	return 0;
}

static int teardown(void **state)
{
	char command[96];

	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command);
}

static struct record sample(void)
{
	return (struct record){.guid = GUID, .pkeys = {0x8001, 0xffff}, .num_pkeys = 2};
}

static void mlx4_lists_functions_by_their_admin_guids(void **state)
{
	struct function functions[4];

	assert_int_equal(mlx4_list(root, "mlx4_0:1", functions, 4), 2);
	assert_int_equal(functions[0].guid, 0);
	assert_int_equal(functions[1].guid, 0x255525800010009);
	assert_int_equal(mlx4_list(root, "mlx4_0:2", functions, 4), -ENODEV);
	assert_int_equal(mlx4_list(root, "../x", functions, 4), -EINVAL);
}

static void mlx4_takes_what_cannot_be_read_for_no_free_function(void **state)
{
	static const char *const bad[] = {"", "\n", "x\n", "255525800010009z\n", "-1\n"};
	struct function functions[4];
	char path[PATH_MAX];

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		put(bad[i], "iov/ports/1/admin_guids/2");
		assert_int_equal(mlx4_list(root, "mlx4_0:1", functions, 4), -EIO);
	}
	put("255525800010009\n", "iov/ports/1/admin_guids/2");
	put("none\n", "iov/0000:04:00.2/ports/1/gid_idx/0");
	assert_int_equal(mlx4_list(root, "mlx4_0:1", functions, 4), -EIO);
	assert_int_equal(mlx4_clear(root, "mlx4_0:1", 1), -EIO);
	put("2\n", "iov/0000:04:00.2/ports/1/gid_idx/0");
	snprintf(path, sizeof(path), "%s/class/infiniband/mlx4_0/iov/ports/1/admin_guids/2", root);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mlx4_list(root, "mlx4_0:1", functions, 4), -EIO);
}

/* num_vfs=1,1,0: each function is of one port. */
static void mlx4_passes_over_functions_of_the_other_port(void **state)
{
	struct function functions[4];
	char command[2 * PATH_MAX];

	snprintf(command, sizeof(command),
		 "cd %s/class/infiniband/mlx4_0/iov/0000:04:00.1/ports && mv 1 2", root);
	assert_int_equal(system(command), 0);
	assert_int_equal(mlx4_list(root, "mlx4_0:1", functions, 4), 1);
	assert_int_equal(functions[0].number, 1);
	assert_int_equal(functions[0].guid, 0x255525800010009);
}

static void mlx4_leaves_no_p_key_of_the_guest_before(void **state)
{
	struct record r = sample();

	assert_int_equal(mlx4_set(root, "mlx4_0:1", 0, &r), 0);
	assert_int_equal(mlx4_clear(root, "mlx4_0:1", 0), 0);
	assert_string_equal(got("iov/0000:04:00.1/ports/1/pkey_idx/0"), "0\n");
	assert_string_equal(got("iov/0000:04:00.1/ports/1/pkey_idx/1"), "none\n");
	assert_int_equal(mlx4_set(root, "mlx4_0:1", 0, &r), 0);
	r.num_pkeys = 1;
	assert_int_equal(mlx4_set(root, "mlx4_0:1", 0, &r), 0);
	assert_string_equal(got("iov/0000:04:00.1/ports/1/pkey_idx/1"), "none\n");
}

static void mlx4_writes_p_keys_by_their_index_and_then_the_guid(void **state)
{
	struct record r = sample();

	assert_int_equal(mlx4_set(root, "mlx4_0:1", 0, &r), 0);
	/* A file that is no sysfs keeps what a shorter value does not cover. */
	assert_string_equal(got("iov/0000:04:00.1/ports/1/pkey_idx/0"), "2\n");
	assert_int_equal(got("iov/0000:04:00.1/ports/1/pkey_idx/1")[0], '0');
	assert_memory_equal(got("iov/ports/1/admin_guids/1"), "0x0255525800010007", 18);
	assert_int_equal(mlx4_clear(root, "mlx4_0:1", 0), 0);
	assert_memory_equal(got("iov/ports/1/admin_guids/1"), "0xffffffffffffffff", 18);
}

static void mlx4_refuses_p_keys_that_the_port_does_not_have(void **state)
{
	struct record r = sample();
	char reason[128];

	assert_int_equal(mlx4_fits(root, "mlx4_0:1", &r, reason, sizeof(reason)), 0);
	r.pkeys[1] = 0x0001; /* limited membership is another key */
	assert_int_equal(mlx4_fits(root, "mlx4_0:1", &r, reason, sizeof(reason)), -ENOENT);
	assert_string_equal(reason, "port 1 of mlx4_0 does not have P_Key 0x0001");
	assert_int_equal(mlx4_set(root, "mlx4_0:1", 0, &r), -ENOENT);
	assert_memory_equal(got("iov/ports/1/admin_guids/1"), "ffffffffffffffff", 16);
}

/* ---- file ---- */

static int read_as_functions(const char *text, struct function *functions)
{
	char path[PATH_MAX];

	put(text, "functions");
	snprintf(path, sizeof(path), "%s/class/infiniband/mlx4_0/functions", root);
	return function_file.list(path, functions, FUNCTION_MAX);
}

static void a_file_of_functions_is_read_whole_or_not_at_all(void **state)
{
	static const char *const bad[] = {
		"-\n0x0255", "-\nx\n", "\n-\n", "-\n-1\n", "0x0255525800010007 -\n",
		"--\n",	     "0x\n"};
	struct function functions[FUNCTION_MAX];
	struct record r = sample();
	char many[2 * (FUNCTION_MAX + 1) + 1] = "", path[PATH_MAX];

	assert_int_equal(read_as_functions("-\n0x0255525800010007\n", functions), 2);
	assert_int_equal(functions[0].guid, 0);
	assert_int_equal(functions[1].guid, GUID);
	assert_int_equal(read_as_functions("", functions), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(read_as_functions(bad[i], functions), -EBADMSG);
	for (int i = 0; i <= FUNCTION_MAX; i++)
		strcat(many, "-\n");
	assert_int_equal(read_as_functions(many, functions), -E2BIG);
	/* What cannot be read is not written over. */
	snprintf(path, sizeof(path), "%s/class/infiniband/mlx4_0/functions", root);
	assert_int_equal(function_file.set(path, 1, &r), -E2BIG);
	assert_int_equal(strlen(got("functions")), 63);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mlx5_sets_guids_as_iproute2_does),
		cmocka_unit_test(mlx5_takes_the_link_down_with_the_guid),
		cmocka_unit_test(mlx5_reads_what_the_kernel_says),
		cmocka_unit_test(mlx5_takes_no_function_for_free_whose_guid_is_not_told),
		cmocka_unit_test(mlx5_takes_no_list_that_lacks_a_function),
		cmocka_unit_test_setup_teardown(mlx4_takes_what_cannot_be_read_for_no_free_function,
						setup, teardown),
		cmocka_unit_test_setup_teardown(mlx4_passes_over_functions_of_the_other_port, setup,
						teardown),
		cmocka_unit_test_setup_teardown(mlx4_leaves_no_p_key_of_the_guest_before, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_file_of_functions_is_read_whole_or_not_at_all,
						setup, teardown),
		cmocka_unit_test_setup_teardown(mlx4_lists_functions_by_their_admin_guids, setup,
						teardown),
		cmocka_unit_test_setup_teardown(mlx4_writes_p_keys_by_their_index_and_then_the_guid,
						setup, teardown),
		cmocka_unit_test_setup_teardown(mlx4_refuses_p_keys_that_the_port_does_not_have,
						setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
