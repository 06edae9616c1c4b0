/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sacached's beginning and end: options, the order in which modules start and stop, signals. The
 * process stays in the foreground.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "daemons/sacached/acm_server.h"
#include "daemons/sacached/addresses.h"
#include "daemons/sacached/control.h"
#include "daemons/sacached/folder.h"
#include "daemons/sacached/log.h"
#include "daemons/sacached/loop.h"
#include "daemons/sacached/metrics.h"
#include "daemons/sacached/netlink.h"
#include "daemons/sacached/notify.h"
#include "daemons/sacached/ports.h"
#include "daemons/sacached/privileges.h"
#include "daemons/sacached/resolve.h"
#include "daemons/sacached/sacached.h"
#include "daemons/sacached/warm.h"

#define MAX_OPTIONS 64

/* What the command line said, for reading the configuration again. */
static const char *config_file;
static char *options[MAX_OPTIONS];
static unsigned noptions;

static const char usage[] =
	"usage: sacached [-c FILE] [-o \"KEY VALUE\"]... [-d] [-V | --version] [-h | --help]\n"
	"  -c FILE         configuration, instead of " SACACHED_CONF "\n"
	"  -o \"KEY VALUE\"  a line of it, after the file: -o \"policy always\"\n"
	"  -d              says more (log_level debug)\n"
	"  -V              version\n"
	"One cache of path records for the programs of this host; see sacached(8).\n";

void sacached_quit(struct sacached *d)
{
	event_base_loopbreak(d->base);
}

/* A missing file is nothing to complain of if it is the default one. */
static int load_hosts(struct sacached *d)
{
	const char *path = d->config.hosts;
	unsigned line = 0;
	int ret = path[0] ? sacache_hosts_load(d->cache, path, &line) : 0;

	if (d->addresses)
		addresses_forget(d->addresses);
	if (ret == -ENOENT && !strcmp(path, SACACHED_HOSTS))
		return 0;
	if (ret == -EINVAL)
		log_error("%s:%u: write an IP address and a GID; the file is not used", path, line);
	else if (ret)
		log_error("%s: %s; the file is not used", path, strerror(-ret));
	return ret;
}

int sacached_reload(struct sacached *d)
{
	struct sacached_config fresh;
	int ret;

	notify_reloading(d->notify);
	ret = config_load(&fresh, config_file, options, noptions);
	if (!ret) {
		config_update(&d->config, &fresh);
		sacached_log_level = d->config.log_level;
		ret = load_hosts(d);
	}
	if (ret)
		log_error("not reloaded as a whole: the old settings stay");
	else
		log_info("reloaded");
	notify_reloaded(d->notify);
	return ret;
}

static void on_signal(evutil_socket_t number, short what, void *arg)
{
	if (number == SIGHUP)
		sacached_reload(arg);
	else
		sacached_quit(arg);
}

/* As many clients as the hard limit allows. */
static void raise_descriptors(void)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* For the sockets; of the user that it will run as, so that it can remove them. */
static int make_run_dir(const struct sacached_config *config)
{
	char file[sizeof(config->run_dir) + 8];
	int ret;

	snprintf(file, sizeof(file), "%s/lock", config->run_dir);
	ret = folder_make(file, 0755, config->user);
	if (ret)
		log_error("%s: %s", config->run_dir, strerror(-ret));
	return ret;
}

/* In an order in which each finds what it needs; stop_all() ends what was started. */
static int start_all(struct sacached *d)
{
	int ret = sacache_create(&d->config.cache, &d->cache);

	if (ret)
		log_error("no cache: %s", strerror(-ret));
	else
		load_hosts(d);
	if (!ret)
		ret = notify_start(d, &d->notify);
	if (!ret)
		ret = resolver_start(d, &d->resolver);
	if (!ret)
		ret = addresses_start(d, &d->addresses);
	if (!ret)
		ret = ports_start(d, &d->port_watch);
	if (!ret)
		ret = make_run_dir(&d->config);
	if (!ret)
		ret = acm_server_start(d, &d->acm);
	if (!ret)
		ret = netlink_start(d, &d->netlink);
	if (!ret)
		ret = control_start(d, &d->control);
	if (!ret)
		ret = metrics_start(d, &d->metrics);
	/* Not in place of another that lives: its state is its own. */
	if (!ret)
		ret = warm_start(d, &d->warm);
	/* Last: what takes root's rights is open now. */
	if (!ret)
		ret = privileges_drop(d->config.user);
	return ret;
}

static void stop_all(struct sacached *d)
{
	metrics_stop(d->metrics);
	control_stop(d->control);
	warm_stop(d->warm);
	netlink_stop(d->netlink);
	acm_server_stop(d->acm);
	ports_stop(d->port_watch);
	sacache_destroy(d->cache);
	resolver_stop(d->resolver);
	addresses_stop(d->addresses);
	notify_stop(d->notify);
}

static int run(struct sacached *d)
{
	static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
	struct event *signals[3] = {NULL};
	int ret = 0;

	d->base = event_base_new();
	if (!d->base) {
		log_error("no event loop");
		return -ENOMEM;
	}
	for (unsigned i = 0; i < 3 && !ret; i++) {
		signals[i] = evsignal_new(d->base, numbers[i], on_signal, d);
		if (!signals[i] || event_add(signals[i], NULL))
			ret = -ENOMEM;
	}
	if (!ret)
		ret = start_all(d);
	if (!ret) {
		log_info("ready");
		notify_ready(d->notify);
		loop_run(d);
		notify_stopping(d->notify);
		log_info("ending");
	}
	stop_all(d);
	for (unsigned i = 0; i < 3; i++)
		if (signals[i])
			event_free(signals[i]);
	event_base_free(d->base);
	return ret;
}

static bool parse_options(int argc, char **argv)
{
	static const struct option words[] = {
		{"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {}};
	int option;

	while ((option = getopt_long(argc, argv, "c:o:dVh", words, NULL)) >= 0) {
		if (option == 'V' || option == 'h') {
			fputs(option == 'V' ? "sacached " URXE_VERSION "\n" : usage, stdout);
			exit(0);
		}
		if (option == 'c')
			config_file = optarg;
		else if (option == '?' || noptions == MAX_OPTIONS)
			return false;
		else
			options[noptions++] = option == 'd' ? "log_level debug" : optarg;
	}
	return optind == argc;
}

int main(int argc, char **argv)
{
	static struct sacached daemon;

	if (!parse_options(argc, argv)) {
		fputs(usage, stderr);
		return 2;
	}
	sacached_log_init();
	if (config_load(&daemon.config, config_file, options, noptions))
		return 2;
	sacached_log_level = daemon.config.log_level;
	/* A client that is gone is an error of write(), not an end. */
	signal(SIGPIPE, SIG_IGN);
	/* So is a limit of file sizes. */
	signal(SIGXFSZ, SIG_IGN);
	raise_descriptors();
	return run(&daemon) ? 1 : 0;
}
