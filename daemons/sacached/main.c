/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sacached's main program: options, the order in which modules start and stop, signals. The process
 * stays in the foreground.
 */
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>

#include "common/command.h"
#include "daemons/common/control.h"
#include "daemons/common/folder.h"
#include "daemons/common/log.h"
#include "daemons/common/metrics.h"
#include "daemons/common/notify.h"
#include "daemons/common/privileges.h"
#include "daemons/common/startup.h"
#include "daemons/sacached/acm_server.h"
#include "daemons/sacached/addresses.h"
#include "daemons/sacached/control_commands.h"
#include "daemons/sacached/metrics_text.h"
#include "daemons/sacached/names.h"
#include "daemons/sacached/netlink.h"
#include "daemons/sacached/ports.h"
#include "daemons/sacached/reload.h"
#include "daemons/sacached/resolve.h"
#include "daemons/sacached/sacached.h"
#include "daemons/sacached/warm.h"

/* For reading the configuration again. */
static struct config_source source = {.standard = SACACHED_CONF};

static const char usage[] =
	"usage: sacached [-c FILE] [-o \"KEY VALUE\"]... [-d] [-V | --version] [-h | --help]\n"
	"  -c FILE         configuration, instead of " SACACHED_CONF "\n"
	"  -o \"KEY VALUE\"  a line of it, after the file: -o \"policy always\"\n"
	"  -d              says more (log_level debug)\n"
	"  -V              version\n"
	"One cache of path records for the programs of this host; see sacached(8).\n";

static void on_reload(void *arg)
{
	struct sacached *d = arg;

	reload_begin(d->reload);
}

/* The status line for systemd. */
static void write_status(void *arg, char *line, size_t size)
{
	const struct sacached *d = arg;
	struct sacache_stats stats = {.entries = 0};
	unsigned open = 0, active = 0;

	for (unsigned i = 0; i < d->nports; i++) {
		open += d->ports[i].open;
		active += d->ports[i].active;
	}
	if (d->cache)
		sacache_stats(d->cache, &stats, sizeof(stats));
	snprintf(line, size, "%u of %u ports active, %llu records", active, open,
		 (unsigned long long)stats.entries);
}

/* For the sockets. Owned by the user that the daemon will run as, so that it can remove them. */
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

/* Each module finds those that it needs already started; stop_all() stops what was started. */
static int start_all(struct sacached *d)
{
	int ret = sacache_create(&d->config.cache, &d->cache);

	if (ret)
		log_error("no cache: %s", strerror(-ret));
	if (!ret)
		ret = reload_start(d, &source, &d->reload);
	if (!ret)
		ret = notify_start(d->base, write_status, d, &d->notify);
	if (!ret)
		ret = resolver_start(d, &d->resolver);
	if (!ret)
		ret = addresses_start(d, &d->addresses);
	if (!ret)
		ret = names_start(d->base, "/etc/hosts", &d->names);
	if (!ret)
		ret = ports_start(d, &d->port_watch);
	if (!ret)
		ret = make_run_dir(&d->config);
	if (!ret)
		ret = acm_server_start(d, &d->acm);
	if (!ret)
		ret = netlink_start(d, &d->netlink);
	if (!ret)
		ret = control_commands_start(d);
	if (!ret)
		ret = metrics_start(d->base, d->config.metrics_listen, metrics_write, d,
				    &d->metrics);
	/* Not if another daemon is running: its state is its own. */
	if (!ret)
		ret = warm_start(d, &d->warm);
	/*
	 * Last: what takes root's rights is open now. What still takes rights afterwards, and how
	 * it goes without:
	 *
	 *	answers by netlink	CAP_NET_ADMIN at each of them: kept
	 *	a port that comes back	opens /dev/infiniband/umadN anew: the user's groups have to allow it
	 *	the state file		its directory has to be the user's
	 *	sockets in /run		are not unlinked at the end; the next start as root does it
	 */
	if (!ret)
		ret = privileges_drop(d->config.user, 1ull << CAP_NET_ADMIN);
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
	reload_stop(d->reload);
	sacache_destroy(d->cache);
	resolver_stop(d->resolver);
	addresses_stop(d->addresses);
	names_stop(d->names);
	notify_stop(d->notify);
}

static int run(struct sacached *d)
{
	int ret = loop_init(&d->loop, on_reload, d);

	if (ret)
		return ret;
	d->base = d->loop.base;
	ret = start_all(d);
	if (!ret) {
		log_info("ready");
		notify_ready(d->notify);
		loop_run(&d->loop, &acm_server_stats(d->acm)->requests[ACM_OP_RESOLVE],
			 &d->config.spin);
		notify_stopping(d->notify);
		log_info("ending");
	}
	stop_all(d);
	loop_destroy(&d->loop);
	return ret;
}

int main(int argc, char **argv)
{
	static struct sacached daemon;
	int words = startup_options(argc, argv, "sacached", usage, &source);

	if (words != argc)
		return words < 0 ? 2 : command_bad_word(argv[words]);
	sacached_config_init(&daemon.config);
	if (config_load(&sacached_config_table, &daemon.config, &source))
		return 2;
	log_level = daemon.config.log_level;
	startup_limits();
	return run(&daemon) ? 1 : 0;
}
