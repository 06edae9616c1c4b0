// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * fabricd's beginning and end: reads the description of a fabric, makes it, and serves programs of
 * its hosts and the operator until it is told to end. `urxe fabric up` starts it in the background
 * and waits at a pipe for the word that it serves. One thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/command.h"
#include "common/whole_file.h"
#include "daemons/common/clock.h"
#include "daemons/common/log.h"
#include "daemons/common/startup.h"
#include "daemons/fabricd/fabricd.h"
#include "fabric/path.h"

static const char usage[] =
	"usage: fabricd [-n NAME] [-l LOG] [-r FD] [-V | --version] [-h | --help] FILE\n"
	"  FILE      the fabric, as ibnetdiscover prints it; - is standard input\n"
	"  -n NAME   the fabric's name, \"" FABRIC_DEFAULT_NAME "\" without it\n"
	"  -l LOG    a file for messages once it serves\n"
	"  -r FD     a pipe to be told that it serves, or why not\n"
	"A virtual InfiniBand fabric; see urxe-fabric(1), which starts and ends it.\n";

/* A description of 200,000 nodes has 50 MB. */
#define MOST_TEXT (256 << 20)

struct options {
	const char *name, *file;
	const char *log; /* a file for messages once it serves; NULL: stderr */
	int ready;	 /* -1: none */
};

static void wait_for_due(struct fabricd *d)
{
	int wait = server_wait(&d->server);
	uint64_t at = wait < 0 ? UINT64_MAX : clock_ms() + wait;
	struct timeval tv = {wait / 1000, wait % 1000 * 1000};

	if (at >= d->due_at)
		return; /* it wakes earlier, and sees then */
	d->due_at = at;
	evtimer_add(d->due, &tv);
}

void fabricd_serve(struct fabricd *d)
{
	server_serve(&d->server, 0);
	wait_for_due(d);
}

/* As long as programs go on asking it waits at their descriptors alone, which is the shorter way to
 * wake up, and goes back to the loop every millisecond. */
static void on_programs(evutil_socket_t fd, short what, void *arg)
{
	struct fabricd *d = arg;
	uint64_t end = clock_us() + 1000;

	while (server_serve(&d->server, 1) && clock_us() < end)
		;
	wait_for_due(d);
}

static void on_due(evutil_socket_t fd, short what, void *arg)
{
	struct fabricd *d = arg;

	d->due_at = UINT64_MAX;
	fabricd_serve(d);
}

/* All of it, or NULL after a line in the log: of half a file another fabric would be made. */
static char *read_file(const char *path, size_t *len)
{
	int fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
	char *text = NULL;
	int ret = fd < 0 ? -errno : whole_file(fd, MOST_TEXT, &text, len);

	if (ret)
		log_error("%s: %s", path, strerror(-ret));
	if (fd > STDIN_FILENO)
		close(fd);
	else if (!freopen("/dev/null", "r", stdin)) /* it may be the user's terminal */
		log_warning("/dev/null: %s", strerror(errno));
	return text;
}

static int make_fabric(struct fabricd *d, const struct options *o)
{
	char error[TOPOLOGY_ERROR_LEN];
	struct topology t;
	size_t len;
	char *text = read_file(o->file, &len);
	int ret;

	if (!text)
		return -ENOENT;
	ret = topology_read(&t, text, len, error);
	free(text);
	if (ret) {
		log_error("%s: %s", o->file, error);
		return ret;
	}
	if (t.ignored)
		log_notice(
			"%s: %u lines are not of the form of ibnetdiscover's output and are passed "
			"over, the first is line %u",
			o->file, t.ignored, t.first_ignored);
	if (topology_lids(&t) >= LID_FIRST_MULTICAST)
		log_warning("%s: it needs %u LIDs, and a subnet has %u: a subnet manager leaves "
			    "ports without one",
			    o->file, topology_lids(&t), LID_FIRST_MULTICAST - 1);
	ret = fabric_create(&d->server.fabric, &t, o->name);
	topology_free(&t);
	if (ret)
		log_error("%s: %s", o->file, strerror(-ret));
	return ret;
}

static int serve_programs(struct fabricd *d, const struct options *o, char *path, size_t len)
{
	int ret = fabric_path(o->name, true, path, len);

	if (ret == -EPERM)
		log_error("the folder of the fabric's socket must belong to this user alone");
	else if (ret)
		log_error("\"%s\" cannot name a fabric: %s", o->name, strerror(-ret));
	if (ret)
		return ret;
	ret = server_open(&d->server, path);
	if (ret == -EADDRINUSE)
		log_error("the fabric \"%s\" is up already; urxe fabric down ends it", o->name);
	else if (ret)
		log_error("%s: %s", path, strerror(-ret));
	return ret;
}

static int start(struct fabricd *d, const struct options *o, char *control_path, size_t len)
{
	struct control_options control = {
		.path = control_path,
		.user = "",
		.group = "",
		.commands = fabricd_commands,
		.count = fabricd_num_commands,
		.daemon = d,
		.state_size = fabricd_client_state,
	};
	char path[108];
	int ret;

	ret = serve_programs(d, o, path, sizeof(path));
	if (!ret)
		ret = make_fabric(d, o);
	if (!ret)
		ret = loop_init(&d->loop, NULL, d);
	if (ret)
		return ret;
	snprintf(control_path, len, "%s.control", path);
	ret = control_start(d->loop.base, &control, &d->control);
	if (ret)
		return ret;
	d->programs =
		event_new(d->loop.base, d->server.epoll, EV_READ | EV_PERSIST, on_programs, d);
	d->due = evtimer_new(d->loop.base, on_due, d);
	if (d->programs && d->due && !event_add(d->programs, NULL))
		return 0;
	log_error("%s: %s", path, strerror(ENOMEM));
	return -ENOMEM;
}

/* Whoever started it may have been interrupted since, and wants no fabric. */
static int tell_starter(int ready)
{
	if (ready < 0)
		return 0;
	if (write(ready, "up\n", 3) != 3) {
		log_warning("urxe fabric up has ended before this fabric was up");
		return -ECANCELED;
	}
	close(ready);
	return 0;
}

static void finish(struct fabricd *d)
{
	if (d->programs)
		event_free(d->programs);
	if (d->due)
		event_free(d->due);
	if (d->control)
		control_stop(d->control);
	server_close(&d->server);
	if (d->loop.base)
		loop_destroy(&d->loop);
}

/* 0, or the status to end with. */
static int options(int argc, char **argv, struct options *o)
{
	static const struct option words[] = {
		{"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {}};
	int c;

	while ((c = getopt_long(argc, argv, "n:l:r:hV", words, NULL)) != -1) {
		switch (c) {
		case 'n': o->name = optarg; break;
		case 'l': o->log = optarg; break;
		case 'r': o->ready = atoi(optarg); break;
		case 'h': fputs(usage, stdout); exit(0);
		case 'V': puts("fabricd " URXE_VERSION); exit(0);
		default: return command_bad_option(argv);
		}
	}
	o->file = argv[optind];
	return optind + 1 == argc ? 0 : command_misused("one FILE is wanted");
}

int main(int argc, char **argv)
{
	static struct fabricd d = {.due_at = UINT64_MAX};
	struct options o = {.name = FABRIC_DEFAULT_NAME, .ready = -1};
	char control_path[128];
	int ret;

	command_begin();
	log_init("fabricd");
	ret = options(argc, argv, &o);
	if (ret)
		return ret;
	startup_limits();
	d.server.epoll = d.server.listener = d.server.fabric.map_fd = -1;
	ret = start(&d, &o, control_path, sizeof(control_path));
	if (!ret) {
		if (o.log && (!freopen(o.log, "ae", stderr) || !freopen(o.log, "ae", stdout)))
			log_warning("%s: %s", o.log, strerror(errno));
		ret = tell_starter(o.ready);
	}
	if (!ret) {
		fabricd_serve(&d);
		loop_run(&d.loop, NULL, NULL);
	}
	finish(&d);
	return ret ? 1 : 0;
}
