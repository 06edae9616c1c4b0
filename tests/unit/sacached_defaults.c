/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The configuration file that is installed: as it is, and with all that it shows as defaults.
 */
#include "sacache_test.h"

#include <ctype.h>

#include "daemons/sacached/config.h"

static struct sacached_config defaults, configured;

/* The file; with_defaults: lines "#key value" as well, without the #. */
static void parse_file(bool with_defaults)
{
	FILE *file = fopen(SACACHED_CONF_FILE, "r");
	static char text[65536];
	char line[512], error[CONFIG_ERROR_LEN] = "";
	size_t length = 0;

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		bool is_default = line[0] == '#' && islower((unsigned char)line[1]);

		length += snprintf(text + length, sizeof(text) - length, "%s",
				   line + (with_defaults && is_default));
		assert_true(length < sizeof(text));
	}
	fclose(file);
	memset(&defaults, 0, sizeof(defaults));
	memset(&configured, 0, sizeof(configured));
	sacached_config_init(&defaults);
	sacached_config_init(&configured);
	if (config_parse(&sacached_config_table, &configured, text, "sacached.conf", error))
		fail_msg("%s", error);
}

static void the_installed_file_changes_nothing(void **state)
{
	parse_file(false);
	assert_memory_equal(&configured, &defaults, sizeof(defaults));
}

static void what_it_shows_are_the_defaults(void **state)
{
	parse_file(true);
	assert_memory_equal(&configured, &defaults, sizeof(defaults));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_installed_file_changes_nothing),
		cmocka_unit_test(what_it_shows_are_the_defaults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
