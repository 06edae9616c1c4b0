// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The configuration file and URXE_DEVICES: tables of good and bad ones. */
#include "host_test.h"

#include <endian.h>

#include "host/config.h"

static const struct {
	const char *text;
	const char *expect; /* name:netdev:guid … as describe() writes them */
	bool named;
} good[] = {
	{"", "", false},
	{"# nothing\n\n ; nothing\n", "", false},
	{"[urxe0]\nnetdev = eth0\n", "urxe0:eth0:0 ", true},
	{"[urxe0]\nnetdev=eth0\n[urxe1]\n  netdev =lo\t# last\n", "urxe0:eth0:0 urxe1:lo:0 ", true},
	{"[ urxe0 ]\r\nnetdev = eth0\r\n", "urxe0:eth0:0 ", true},
	{"[a]\nguid = 0200:00ff:fe00:0001", "a::20000fffe000001 ", false},
	{"[a]\nguid = 02:00:00:ff:fe:00:00:01", "a::20000fffe000001 ", false},
	{"[a]\nguid = 0x020000FFFE000001\nnetdev = x.100", "a:x.100:20000fffe000001 ", true},
	{"[a]\nguid = 1111111111111111\n[b]\nnetdev = lo\n", "a::1111111111111111 b:lo:0 ", true},
	{"[rdma-0_x.y]\nnetdev = br-1a2b3c4d5e6f\n", "rdma-0_x.y:br-1a2b3c4d5e6f:0 ", true},
};

static const struct {
	const char *text;
	const char *error; /* the message begins with the place and contains the cure */
	const char *cure;
} bad[] = {
	{"netdev = eth0\n", "f:1: ", "section like [urxe0]"},
	{"\n[urxe0\n", "f:2: ", "write [urxe0]"},
	{"[]\n", "f:1: ", "1 to 63 characters"},
	{"[a b]\n", "f:1: ", "use letters"},
	{"[../x]\n", "f:1: ", "use letters"},
	{"[..]\n", "f:1: ", "begin it with a letter"},
	{"[urxe0]\nnetdev eth0\n", "f:2: ", "key = value"},
	{"[urxe0]\nnetdev =\n", "f:2: ", "ip link"},
	{"[urxe0]\nnetdev = a/b\n", "f:2: ", "ip link"},
	{"[urxe0]\nnetdev = sixteen-letters-\n", "f:2: ", "ip link"},
	{"[urxe0]\nnetdev = a\nnetdev = b\n", "f:3: ", "keep one"},
	{"[urxe0]\nmtu = 1\n", "f:2: ", "the keys are netdev and guid"},
	{"[urxe0]\nnetdev = a\n[urxe0]\nnetdev = b\n", "f:3: ", "line 1 already"},
	{"[urxe0]\nnetdev = a\n[urxe1]\nnetdev = a\n", "f:4: ", "each netdev once"},
	{"[a]\nguid = 0\n", "f:2: ", "16 hexadecimal digits"},
	{"[a]\nguid = 0000000000000000\n", "f:2: ", "not all 0"},
	{"[a]\nguid = 02000000000000011\n", "f:2: ", "16 hexadecimal digits"},
	{"[a]\nguid = 020000000000000g\n", "f:2: ", "16 hexadecimal digits"},
	{"[a]\nguid = :0200000000000001\n", "f:2: ", "16 hexadecimal digits"},
	{"[a]\nguid = 0200000000000001:\n", "f:2: ", "16 hexadecimal digits"},
	{"[a]\nguid = 1111111111111111\nguid = 2111111111111111\n", "f:3: ", "keep one"},
	{"[a]\nguid = 1111111111111111\n[b]\nguid = 1111111111111111\n", "f:4: ", "its own"},
};

static const struct {
	const char *value;
	const char *expect; /* NULL: -EINVAL */
} variable[] = {
	{"urxe0=eth0", "urxe0:eth0:5500000000000000 "},
	{" urxe1 = eth0 , urxe7=lo", "urxe1:eth0:0 urxe7:lo:0 "},
	{"urxe1=eth0,urxe0=lo", "urxe1:eth0:0 urxe0:lo:5500000000000000 "},
	{"urxe0", NULL},
	{"urxe0=", NULL},
	{"=lo", NULL},
	{"urxe0=lo,", NULL},
	{"urxe0=lo,urxe0=eth0", NULL},
	{"urxe0=lo,urxe1=lo", NULL},
	{"urxe0=a b", NULL},
};

static const char *describe(const struct urxe_config *cfg)
{
	static char text[4096];
	size_t len = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < cfg->count; i++)
		len += snprintf(text + len, sizeof(text) - len, "%s:%s:%llx ", cfg->devices[i].name,
				cfg->devices[i].netdev,
				(unsigned long long)be64toh(cfg->devices[i].guid));
	return text;
}

static void test_good(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		char error[URXE_CONFIG_ERROR_LEN] = "";
		struct urxe_config cfg = {0};

		assert_int_equal(urxe_config_parse(&cfg, good[i].text, "f", error), 0);
		assert_string_equal(error, "");
		assert_string_equal(describe(&cfg), good[i].expect);
		assert_int_equal(cfg.named, good[i].named);
	}
}

static void test_bad(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		char error[URXE_CONFIG_ERROR_LEN] = "";
		struct urxe_config cfg = {0};

		if (urxe_config_parse(&cfg, bad[i].text, "f", error) != -EINVAL)
			fail_msg("accepted: %s", bad[i].text);
		if (strncmp(error, bad[i].error, strlen(bad[i].error)) ||
		    !strstr(error, bad[i].cure))
			fail_msg("\"%s\" gives \"%s\"", bad[i].text, error);
	}
}

static void test_variable(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(variable); i++) {
		char error[URXE_CONFIG_ERROR_LEN] = "";
		struct urxe_config cfg = {0};
		int ret;

		/* The file's netdevs are overridden, its GUIDs are kept. */
		assert_int_equal(urxe_config_parse(&cfg,
						   "[urxe0]\nnetdev = x\nguid=5500000000000000\n"
						   "[urxe9]\nnetdev = y\n",
						   "f", error),
				 0);
		ret = urxe_config_parse_devices(&cfg, variable[i].value, error);
		if (!variable[i].expect) {
			if (ret != -EINVAL || strncmp(error, "URXE_DEVICES: ", 14))
				fail_msg("\"%s\": %d \"%s\"", variable[i].value, ret, error);
			continue;
		}
		assert_int_equal(ret, 0);
		assert_string_equal(describe(&cfg), variable[i].expect);
		assert_true(cfg.named);
	}
}

/* One device more than there is room for; and a name of the greatest length and one more. */
static void test_limits(void **state)
{
	char text[8192] = "", error[URXE_CONFIG_ERROR_LEN], name[IBV_SYSFS_NAME_MAX + 1];
	struct urxe_config cfg = {0};
	size_t len = 0;

	for (int i = 0; i < URXE_MAX_DEVICES; i++)
		len += snprintf(text + len, sizeof(text) - len, "[d%d]\nnetdev=n%d\n", i, i);
	assert_int_equal(urxe_config_parse(&cfg, text, "f", error), 0);
	assert_int_equal(cfg.count, URXE_MAX_DEVICES);
	snprintf(text + len, sizeof(text) - len, "[d%d]\n", URXE_MAX_DEVICES);
	memset(&cfg, 0, sizeof(cfg));
	assert_int_equal(urxe_config_parse(&cfg, text, "f", error), -EINVAL);
	assert_non_null(strstr(error, "more than 32 devices"));

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 2] = '\0';
	memset(&cfg, 0, sizeof(cfg));
	snprintf(text, sizeof(text), "[%s]\nnetdev=lo\n", name);
	assert_int_equal(urxe_config_parse(&cfg, text, "f", error), 0);
	assert_string_equal(cfg.devices[0].name, name);
	memset(&cfg, 0, sizeof(cfg));
	snprintf(text, sizeof(text), "[%sx]\nnetdev=lo\n", name);
	assert_int_equal(urxe_config_parse(&cfg, text, "f", error), -EINVAL);
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

/* Which file is read, and that a missing one that was named is an error. */
static void test_places(void **state)
{
	char named[128], xdg[128], home[160];
	struct urxe_config cfg;

	snprintf(named, sizeof(named), "%s/named.conf", host_test_dir);
	snprintf(xdg, sizeof(xdg), "%s/urxe.conf", host_test_dir);
	snprintf(home, sizeof(home), "%s/.config/urxe.conf", host_test_dir);
	unsetenv("URXE_DEVICES");
	unsetenv("XDG_CONFIG_HOME");
	setenv("HOME", host_test_dir, 1);
	setenv("URXE_LOG", "error", 1);

	host_test_sh("mkdir -p %s/.config", host_test_dir);
	write_file(home, "[h]\nnetdev = lo\n");
	unsetenv("URXE_CONFIG");
	assert_int_equal(urxe_config_load(&cfg), 0);
	assert_string_equal(describe(&cfg), "h:lo:0 ");

	write_file(xdg, "[x]\nnetdev = lo\n");
	setenv("XDG_CONFIG_HOME", host_test_dir, 1);
	assert_int_equal(urxe_config_load(&cfg), 0);
	assert_string_equal(describe(&cfg), "x:lo:0 ");

	setenv("URXE_CONFIG", named, 1);
	assert_int_equal(urxe_config_load(&cfg), -EINVAL);
	write_file(named, "[n]\nnetdev = lo\n");
	assert_int_equal(urxe_config_load(&cfg), 0);
	assert_string_equal(describe(&cfg), "n:lo:0 ");

	setenv("URXE_DEVICES", "e=eth0", 1);
	assert_int_equal(urxe_config_load(&cfg), 0);
	assert_string_equal(describe(&cfg), "e:eth0:0 ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),	 cmocka_unit_test(test_bad),
		cmocka_unit_test(test_variable), cmocka_unit_test(test_limits),
		cmocka_unit_test(test_places),
	};

	return cmocka_run_group_tests(tests, host_test_dir_make, host_test_dir_remove);
}
