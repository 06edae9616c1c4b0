// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * lidtrackd's beginning and end. The process stays in the foreground.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/command.h"
#include "daemons/common/counters.h"
#include "daemons/common/folder.h"
#include "daemons/common/log.h"
#include "daemons/common/startup.h"
#include "daemons/lidtrackd/lidtrackd.h"

static struct config_source source = {.standard = LIDTRACKD_CONF};

static const char usage[] =
	"usage: lidtrackd [-c FILE] [-o \"KEY VALUE\"]... [-d] [-V | --version] [-h | --help]\n"
	"  -c FILE         configuration, instead of " LIDTRACKD_CONF "\n"
	"  -o \"KEY VALUE\"  a line of it, after the file: -o \"host h1\"\n"
	"  -d              says more (log_level debug)\n"
	"  -V              version\n"
	"Keeps the InfiniBand addresses of guests that move; see lidtrackd(8).\n";

static const struct counter rows[] = {
	{COUNTER(struct lidtrackd_counts, moved_in), "moved_in", "lidtrackd_guests_total",
	 "{what=\"arrived\"}",
	 "Guests that came, went, were returned by a failed move or refused."},
	{COUNTER(struct lidtrackd_counts, moved_out), "moved_out", "lidtrackd_guests_total",
	 "{what=\"left\"}"},
	{COUNTER(struct lidtrackd_counts, returned), "returned", "lidtrackd_guests_total",
	 "{what=\"returned\"}"},
	{COUNTER(struct lidtrackd_counts, refused), "refused", "lidtrackd_guests_total",
	 "{what=\"refused\"}"},
	{COUNTER(struct lidtrackd_counts, lid_changed), "lid_changed",
	 "lidtrackd_lid_changes_total", NULL, "Guests that the subnet manager gave another LID."},
	{COUNTER(struct lidtrackd_counts, follows), "follows", "lidtrackd_guid2lid_updates_total",
	 NULL, "Changes of a master's guid2lid that were brought into the standby's."},
	{COUNTER(struct lidtrackd_counts, follow_errors), "follow_errors",
	 "lidtrackd_guid2lid_errors_total", NULL, "Tries of that which failed."},
	{COUNTER(struct lidtrackd_counts, libvirt_orders), "libvirt_orders",
	 "lidtrackd_libvirt_orders_total", NULL,
	 "Guests that were ordered here, since libvirt runs their domains here."},
	{COUNTER(struct lidtrackd_counts, steps), "steps", "lidtrackd_steps_total", NULL,
	 "Steps of moves that were tried."},
	{COUNTER(struct lidtrackd_counts, retries), "retries", "lidtrackd_retries_total", NULL,
	 "Steps that were not done at the first try."},
	{COUNTER(struct lidtrackd_counts, journal_errors), "journal_errors",
	 "lidtrackd_journal_errors_total", NULL, "Changes that could not be put down."},
	{COUNTER(struct lidtrackd_counts, requests), "requests", "lidtrackd_requests_total", NULL,
	 "Requests of other agents."},
	{COUNTER(struct lidtrackd_counts, bad_requests), "bad_requests",
	 "lidtrackd_bad_requests_total", NULL, "Requests that were none, or of nobody known."},
};

static void write_metrics(FILE *out, void *arg)
{
	const struct counters counters = {rows, sizeof(rows) / sizeof(*rows)};
	struct lidtrackd *d = arg;
	unsigned states[MOVE_STATES] = {0};

	counters_print(out, &counters, &d->counts);
	for (const struct guest *g = d->guests; g; g = g->next)
		states[g->r.state]++;
	counters_family(out, "lidtrackd_journal_writable", true,
			"1: the journal has room for a move; 0: orders are refused.");
	fprintf(out, "lidtrackd_journal_writable %d\n", !journal_ready(d));
	counters_family(out, "lidtrackd_guests", true, "Guests of this host by their state.");
	for (int s = 0; s < MOVE_GONE; s++)
		fprintf(out, "lidtrackd_guests{state=\"%s\"} %u\n", move_state_name(s), states[s]);
}

static void write_status(void *arg, char *line, size_t size)
{
	const struct lidtrackd *d = arg;
	unsigned here = 0, others = 0;

	for (const struct guest *g = d->guests; g; g = g->next)
		*(g->r.state == MOVE_HERE ? &here : &others) += 1;
	snprintf(line, size, "%u guests, %u under way", here, others);
}

static void on_reload(void *arg)
{
	struct lidtrackd *d = arg;
	struct lidtrackd_config fresh;

	notify_reloading(d->notify);
	lidtrackd_config_init(&fresh);
	if (!config_load(&lidtrackd_config_table, &fresh, &source)) {
		config_update(&lidtrackd_config_table, &d->config, &fresh);
		log_level = d->config.log_level;
	}
	/* What is in these files may be new; else the line in the log is all there is to do. */
	link_identity_load(&d->identity, d->config.tls_ca, d->config.tls_certificate,
			   d->config.tls_key);
	notify_reloaded(d->notify);
}

static int start_all(struct lidtrackd *d)
{
	int ret = notify_start(d->loop.base, write_status, d, &d->notify);

	if (!ret)
		ret = link_identity_load(&d->identity, d->config.tls_ca, d->config.tls_certificate,
					 d->config.tls_key);
	if (!ret)
		ret = folder_make(d->config.journal, 0700, "");
	if (!ret)
		ret = reconcile_start(d);
	if (!ret)
		ret = tracker_start(d);
	if (!ret)
		ret = follower_start(d);
	if (!ret)
		ret = server_start(d);
	if (!ret)
		ret = libvirt_start(d);
	if (!ret)
		ret = commands_start(d);
	if (!ret)
		ret = metrics_start(d->loop.base, d->config.metrics_listen, write_metrics, d,
				    &d->metrics);
	return ret;
}

/* They may come later: what needs them is tried again. */
static void look_around(const struct lidtrackd *d)
{
	struct function functions[FUNCTION_MAX];
	int n = d->provider->list(d->where, functions, FUNCTION_MAX);

	if (n < 0)
		log_warning("%s %s: functions cannot be seen: %s; tried again when one is needed",
			    d->provider->name, d->where, function_strerror(n));
	if (d->config.guest_command[0] && access(d->config.guest_command, X_OK))
		log_warning("guest_command %s: %s; tried again when it is needed",
			    d->config.guest_command, strerror(errno));
}

static int run(struct lidtrackd *d)
{
	int ret = loop_init(&d->loop, on_reload, d);

	if (ret)
		return ret;
	d->journal.fd = -1;
	pthread_mutex_init(&d->functions, NULL);
	link_identity_init(&d->identity);
	sa_init(&d->sa, d->config.ca_name, (int)d->config.port, d->config.sm_key);
	ret = start_all(d);
	if (!ret) {
		look_around(d);
		log_info("ready: host %s, functions of %s", d->config.host, d->where);
		notify_ready(d->notify);
		loop_run(&d->loop, NULL, NULL);
		notify_stopping(d->notify);
		log_info("ending");
	}
	metrics_stop(d->metrics);
	commands_stop(d);
	libvirt_stop(d);
	server_stop(d);
	reconcile_stop(d);
	tracker_stop(d);
	follower_stop(d);
	sa_destroy(&d->sa);
	link_identity_free(&d->identity);
	pthread_mutex_destroy(&d->functions);
	notify_stop(d->notify);
	loop_destroy(&d->loop);
	return ret;
}

int main(int argc, char **argv)
{
	static struct lidtrackd daemon;
	int words = startup_options(argc, argv, "lidtrackd", usage, &source);

	if (words != argc)
		return words < 0 ? 2 : command_bad_word(argv[words]);
	lidtrackd_config_init(&daemon.config);
	if (config_load(&lidtrackd_config_table, &daemon.config, &source) ||
	    lidtrackd_config_check(&daemon))
		return 2;
	log_level = daemon.config.log_level;
	startup_limits();
	return run(&daemon) ? 1 : 0;
}
