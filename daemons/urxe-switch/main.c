/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * urxe-switch's beginning and end. One thread.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/command.h"
#include "daemons/common/log.h"
#include "daemons/common/startup.h"
#include "daemons/urxe-switch/switch.h"

static const char usage[] =
	"usage: urxe-switch [-c FILE | FILE] [-o \"KEY VALUE\"]... [--no-reorder] [-d] [-V] [-h]\n"
	"       urxe-switch -s SOCKET show | ports | reroute EVERY | down SPINE | up SPINE "
	"[--json]\n"
	"Leaf and spine switches that spread RoCE flows over several paths and hand them on in "
	"order;\n"
	"see urxe-switch(8).\n";

static int start(struct daemon *d)
{
	struct control_options control = {
		.path = d->settings.control_socket,
		.user = "",
		.group = "",
		.commands = switch_commands,
		.count = switch_num_commands,
		.daemon = d,
	};
	int ret = frames_create(d);

	if (!ret)
		ret = loop_init(&d->loop, NULL, d);
	if (!ret)
		ret = schedule_start(d);
	if (!ret)
		ret = leaves_create(d);
	if (!ret)
		ret = ports_open(d);
	if (!ret)
		ret = control_start(d->loop.base, &control, &d->control);
	if (!ret)
		ret = metrics_start(d->loop.base, d->settings.metrics_listen, switch_metrics, d,
				    &d->metrics);
	return ret;
}

static void finish(struct daemon *d)
{
	if (d->metrics)
		metrics_stop(d->metrics);
	if (d->control)
		control_stop(d->control);
	ports_close(d);
	leaves_destroy(d);
	schedule_stop(d);
	if (d->loop.base)
		loop_destroy(&d->loop);
}

/* --no-reorder is a word of its own, because it is what one compares with. */
static bool take_word(int *argc, char **argv, const char *word)
{
	for (int i = 1; i < *argc; i++) {
		if (strcmp(argv[i], word))
			continue;
		memmove(&argv[i], &argv[i + 1], (size_t)(*argc - i) * sizeof(*argv));
		--*argc;
		return true;
	}
	return false;
}

int main(int argc, char **argv)
{
	static struct daemon d;
	struct config_source source = {.standard = "/etc/urxe-switch.conf"};
	bool no_reorder;
	int words, ret;

	if (argc > 1 && !strcmp(argv[1], "-s"))
		return command_line(argc, argv);
	no_reorder = take_word(&argc, argv, "--no-reorder");
	words = startup_options(argc, argv, "urxe-switch", usage, &source);
	if (words < 0)
		return 2;
	if (words + 1 == argc && !source.file) {
		source.file = argv[words];
	} else if (words < argc) {
		return command_bad_word(argv[words]);
	}
	startup_limits();
	ret = settings_load(&d.settings, &source);
	if (ret)
		return 1;
	log_level = d.settings.log_level;
	if (no_reorder)
		d.settings.reorder = false;
	ret = start(&d);
	if (!ret) {
		log_info("%u leaves, %u spines, %u ports%s", d.settings.num_leaves,
			 d.settings.num_spines, d.settings.num_ports,
			 d.settings.reorder ? "" : ", without reordering");
		loop_run(&d.loop, NULL, NULL);
	} else {
		log_error("not started: %s", strerror(-ret));
	}
	finish(&d);
	return ret ? 1 : 0;
}
