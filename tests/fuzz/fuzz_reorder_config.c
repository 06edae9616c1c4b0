/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libFuzzer target for configurations of urxe-switch: what is accepted has to be in its bounds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/common/config_file.h"
#include "daemons/common/log.h"
#include "daemons/urxe-switch/switch.h"

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

static void configuration(const char *text)
{
	static struct settings settings;
	char error[CONFIG_ERROR_LEN];

	settings_defaults(&settings);
	if (config_parse(settings_table(), &settings, text, "input", error) ||
	    settings_check(&settings))
		return;
	CHECK(settings.num_leaves && settings.num_leaves <= MAX_LEAVES);
	CHECK(settings.num_spines && settings.num_spines <= MAX_SPINES);
	CHECK(settings.num_ports && settings.num_ports <= MAX_PORTS);
	for (unsigned i = 0; i < settings.num_ports; i++)
		CHECK(settings.ports[i].leaf < settings.num_leaves);
	CHECK(settings.queues <= REORDER_QUEUES && settings.hold);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	log_level = -1;
	memcpy(text, data, size);
	text[size] = '\0';
	configuration(text);
	free(text);
	return 0;
}
