/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * inbandd's beginning and end. The process stays in the foreground.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/command.h"
#include "daemons/common/counters.h"
#include "daemons/common/folder.h"
#include "daemons/common/json.h"
#include "daemons/common/log.h"
#include "daemons/common/startup.h"
#include "daemons/inbandd/alarms.h"
#include "daemons/inbandd/events.h"
#include "daemons/inbandd/monitor.h"
#include "daemons/inbandd/store.h"
#include "daemons/inbandd/inbandd.h"
#include "daemons/inbandd/web.h"
#include "inband/manage/th2.h"

static struct config_source source = {.standard = INBANDD_CONF};

static const char usage[] =
	"usage: inbandd [-c FILE] [-o \"KEY VALUE\"]... [-d] [-V | --version] [-h | --help]\n"
	"  -c FILE         configuration, instead of " INBANDD_CONF "\n"
	"  -o \"KEY VALUE\"  a line of it, after the file: -o \"window 1\"\n"
	"  -d              says more (log_level debug)\n"
	"  -V              version\n"
	"Manages an interconnect through its own links; see inbandd(8).\n";

static void on_reload(void *arg)
{
	struct inbandd *d = arg;
	struct inbandd_config fresh;

	notify_reloading(d->notify);
	inbandd_config_init(&fresh);
	if (!config_load(&inbandd_config_table, &fresh, &source)) {
		config_update(&inbandd_config_table, &d->config, &fresh);
		log_level = d->config.log_level;
	}
	monitor_reopen(d->monitor);
	notify_reloaded(d->notify);
}

static void write_status(void *arg, char *line, size_t size)
{
	const struct inbandd *d = arg;

	snprintf(line, size, "%u switches, %u links", d->model ? d->model->switches : 0,
		 d->model ? d->model->links : 0);
}

static void write_metrics(FILE *out, void *arg)
{
	const struct inbandd *d = arg;
	const struct fabric_counts *c = d->fabric->ops->counts(d->fabric);
	unsigned counts[SEVERITIES];

	alarms_count(d->alarms, counts);
	counters_family(out, "inbandd_requests_total", false, "Requests to chips.");
	fprintf(out, "inbandd_requests_total{what=\"sent\"} %lu\n", c->sent);
	fprintf(out, "inbandd_requests_total{what=\"answered\"} %lu\n", c->answered);
	fprintf(out, "inbandd_requests_total{what=\"retried\"} %lu\n", c->retried);
	fprintf(out, "inbandd_requests_total{what=\"timed_out\"} %lu\n", c->timed_out);
	fprintf(out, "inbandd_requests_total{what=\"refused\"} %lu\n", c->refused);
	counters_family(out, "inbandd_stale_answers_total", false,
			"Answers that matched no request under way.");
	fprintf(out, "inbandd_stale_answers_total %lu\n", c->stale);
	counters_family(out, "inbandd_reports_total", false, "Fault reports of chips.");
	fprintf(out, "inbandd_reports_total %lu\n", c->reports);
	counters_family(out, "inbandd_devices", true, "Devices that were found.");
	fprintf(out, "inbandd_devices{type=\"switch\"} %u\n", d->model ? d->model->switches : 0);
	fprintf(out, "inbandd_devices{type=\"node\"} %u\n", d->model ? d->model->nodes : 0);
	counters_family(out, "inbandd_links", true, "Links that were found.");
	fprintf(out, "inbandd_links %u\n", d->model ? d->model->links : 0);
	counters_family(out, "inbandd_alarms", true, "Alarms that are active.");
	for (unsigned i = 0; i < SEVERITIES; i++)
		fprintf(out, "inbandd_alarms{severity=\"%s\"} %u\n", severity_name(i), counts[i]);
	monitor_metrics(d->monitor, out);
}

static int load_plan(struct inbandd *d)
{
	const char *edited = d->config.plan_file;
	char error[256];
	int ret;

	if (!d->config.plan[0])
		return 0;
	ret = machine_load(edited[0] && !access(edited, F_OK) ? edited : d->config.plan, 1,
			   &d->plan, error, sizeof(error));
	if (ret)
		log_error("plan: %s", error);
	return ret;
}

static void hear(struct listener *listener, uint64_t number, struct json_object *event)
{
	struct inbandd *d =
		(struct inbandd *)((char *)listener - offsetof(struct inbandd, listener));
	const char *name = NULL;

	/* How far work has come is of no use afterwards. */
	if (json_get_text(event, "event", &name) && name && strcmp(name, "progress") != 0)
		store_event(d->store, name, event);
}

static int start_records(struct inbandd *d)
{
	int ret = events_start(&d->events);

	if (!ret)
		ret = store_open(d->loop.base, d->config.database, d->config.keep, &d->store);
	if (!ret) {
		d->listener.hear = hear;
		events_listen(d->events, &d->listener);
	}
	return ret;
}

static int start_all(struct inbandd *d)
{
	int ret = notify_start(d->loop.base, write_status, d, &d->notify);

	if (!ret)
		ret = load_plan(d);
	if (!ret)
		ret = start_records(d);
	if (!ret)
		ret = alarms_start(d, &d->alarms);
	if (!ret)
		ret = network_start(d);
	if (!ret)
		ret = monitor_start(d, &d->monitor);
	if (!ret && d->config.control_socket[0])
		ret = folder_make(d->config.control_socket, 0755, "");
	if (!ret)
		ret = commands_start(d);
	if (!ret)
		ret = metrics_start(d->loop.base, d->config.metrics_listen, write_metrics, d,
				    &d->metrics);
	if (!ret)
		ret = web_start(d, &d->web);
	if (!ret && d->config.discover)
		ret = network_discover(d, NULL, NULL);
	return ret;
}

static int run(struct inbandd *d)
{
	int ret = loop_init(&d->loop, on_reload, d);

	if (ret)
		return ret;
	ret = start_all(d);
	if (!ret) {
		log_info("ready");
		notify_ready(d->notify);
		loop_run(&d->loop, NULL, NULL);
		notify_stopping(d->notify);
		log_info("ending");
		ret = d->failed;
	}
	web_stop(d->web);
	metrics_stop(d->metrics);
	control_stop(d->control);
	monitor_stop(d->monitor);
	network_stop(d);
	alarms_stop(d->alarms);
	events_stop(d->events);
	store_close(d->store);
	machine_destroy(d->plan);
	notify_stop(d->notify);
	loop_destroy(&d->loop);
	return ret;
}

int main(int argc, char **argv)
{
	static struct inbandd daemon;
	int words = startup_options(argc, argv, "inbandd", usage, &source);

	if (words != argc)
		return words < 0 ? 2 : command_bad_word(argv[words]);
	inbandd_config_init(&daemon.config);
	if (config_load(&inbandd_config_table, &daemon.config, &source))
		return 2;
	log_level = daemon.config.log_level;
	startup_limits();
	return run(&daemon) ? 1 : 0;
}
