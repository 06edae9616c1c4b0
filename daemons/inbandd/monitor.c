/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* See monitor.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/common/counters.h"
#include "daemons/common/folder.h"
#include "daemons/common/log.h"
#include "daemons/inbandd/alarms.h"
#include "daemons/inbandd/events.h"
#include "daemons/inbandd/monitor.h"
#include "daemons/inbandd/verdict.h"

struct monitor {
	struct inbandd *d;
	struct event *timer;
	struct thresholds thresholds;
	struct scan *before;
	struct verdict last;
	FILE *file;
	uint64_t now; /* ms, of the lines that are written */
	bool scanning;
	/* For metrics. */
	uint64_t scans, failed, sum[FABRIC_COUNTERS];
	uint32_t silent;
	uint64_t time; /* ps, of the last one */
};

static void wait_for_next(struct monitor *m)
{
	const struct timeval pause = {.tv_sec = m->d->config.scan ?: 1};

	event_add(m->timer, &pause);
}

static bool is_traffic(unsigned n)
{
	return n >= PORT_SENT && n <= PORT_WAITS;
}

/* A line, if something has grown that the file is to have. */
static void note(void *arg, uint32_t device, unsigned port, const scan_port growth)
{
	struct monitor *m = arg;
	char name[PORT_NAME_LEN];
	bool begun = false;

	for (unsigned n = PORT_HANDSHAKES; m->file && n < FABRIC_COUNTERS; n++) {
		if (!growth[n] || (is_traffic(n) && !m->d->config.counters_traffic))
			continue;
		if (!begun)
			fprintf(m->file, "%" PRIu64 " %s", m->now,
				port_name(m->d, device, port, name));
		begun = true;
		fprintf(m->file, " %s=%" PRIu64, scan_counter_name(n), growth[n]);
	}
	if (begun)
		fputc('\n', m->file);
}

/* Alarms of the ports that are bad now, and the end of those that are not any more. */
static void raise_alarms(struct monitor *m, const struct verdict *fresh)
{
	struct inbandd *d = m->d;

	for (size_t i = 0; i < m->last.count; i++)
		d->model->devices[m->last.bad[i].device]->port[m->last.bad[i].port].noisy = false;
	for (size_t i = 0; i < fresh->count; i++)
		d->model->devices[fresh->bad[i].device]->port[fresh->bad[i].port].noisy = true;
	for (size_t i = 0; i < fresh->count; i++)
		alarms_noisy(d, fresh->bad[i].device, fresh->bad[i].port);
	alarms_look(d);
}

static void compare(struct monitor *m, const struct scan *scan)
{
	struct verdict verdict;

	m->now = real_ms();
	if (verdict_make(m->d, scan, m->before, &m->thresholds, note, m, &verdict)) {
		verdict_free(&verdict);
		return;
	}
	if (m->file && fflush(m->file))
		log_error("counters %s: %s", m->d->config.counters, strerror(errno));
	for (unsigned n = 0; n < FABRIC_COUNTERS; n++)
		m->sum[n] += verdict.sum[n];
	raise_alarms(m, &verdict);
	verdict_free(&m->last);
	m->last = verdict;
}

static void scanned(void *arg, int status, struct scan *scan)
{
	struct monitor *m = arg;

	m->scanning = false;
	m->d->users--;
	wait_for_next(m);
	if (status) {
		m->failed++;
		return;
	}
	m->scans++;
	m->silent = scan->silent;
	m->time = scan->time;
	if (m->before)
		compare(m, scan);
	scan_destroy(m->before);
	m->before = scan;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct monitor *m = arg;
	struct inbandd *d = m->d;

	if (!d->config.scan || !d->model || d->discovering || !d->fabric->ops->counters ||
	    scan_begin(d->fabric, d->model, scanned, m)) {
		wait_for_next(m);
		return;
	}
	m->scanning = true;
	d->users++;
	network_kick(d);
}

void monitor_reopen(struct monitor *m)
{
	const char *path = m->d->config.counters;

	if (m->file)
		fclose(m->file);
	m->file = NULL;
	if (!*path)
		return;
	m->file = folder_make(path, 0755, "") ? NULL : fopen(path, "ae");
	if (!m->file)
		log_error("counters %s: %s", path, strerror(errno));
}

int monitor_start(struct inbandd *d, struct monitor **monitor)
{
	struct monitor *m = calloc(1, sizeof(*m));
	char error[256];

	if (!m)
		return -ENOMEM;
	m->d = d;
	m->timer = evtimer_new(d->loop.base, on_timer, m);
	if (!m->timer ||
	    !thresholds_parse(d->config.thresholds, &m->thresholds, error, sizeof(error))) {
		if (m->timer)
			log_error("%s", error);
		monitor_stop(m);
		return -EINVAL;
	}
	monitor_reopen(m);
	wait_for_next(m);
	*monitor = m;
	return 0;
}

void monitor_forget(struct monitor *m)
{
	scan_destroy(m->before);
	m->before = NULL;
	verdict_free(&m->last);
}

void monitor_stop(struct monitor *m)
{
	if (!m)
		return;
	monitor_forget(m);
	if (m->timer)
		event_free(m->timer);
	if (m->file)
		fclose(m->file);
	free(m);
}

void monitor_metrics(const struct monitor *m, FILE *out)
{
	char name[PORT_NAME_LEN];

	counters_family(out, "inbandd_scans_total", false,
			"Scans that inbandd has done by itself.");
	fprintf(out, "inbandd_scans_total{end=\"done\"} %" PRIu64 "\n", m->scans);
	fprintf(out, "inbandd_scans_total{end=\"failed\"} %" PRIu64 "\n", m->failed);
	counters_family(out, "inbandd_scan_seconds", true, "Of the network's time, the last scan.");
	fprintf(out, "inbandd_scan_seconds %.6f\n", m->time / 1e12);
	counters_family(out, "inbandd_scan_silent", true, "Switches that did not answer it.");
	fprintf(out, "inbandd_scan_silent %u\n", m->silent);
	counters_family(out, "inbandd_ports_total", false,
			"Growth of the ports' counters, of all ports together.");
	for (unsigned n = PORT_HANDSHAKES; n < FABRIC_COUNTERS; n++)
		fprintf(out, "inbandd_ports_total{counter=\"%s\"} %" PRIu64 "\n",
			scan_counter_name(n), m->sum[n]);
	counters_family(out, "inbandd_bad_ports", true, "Ports at a threshold, in the last scan.");
	fprintf(out, "inbandd_bad_ports %zu\n", m->last.count);
	counters_family(out, "inbandd_worst_port", true, "Growth in the last scan, of the worst.");
	for (size_t i = 0; i < m->last.count && i < MONITOR_WORST; i++) {
		const struct bad_port *bad = &m->last.bad[i];

		port_name(m->d, bad->device, bad->port, name);
		for (unsigned n = PORT_HANDSHAKES; n < FABRIC_COUNTERS; n++)
			if (!is_traffic(n))
				fprintf(out,
					"inbandd_worst_port{port=\"%s\",counter=\"%s\"} %" PRIu64
					"\n",
					name, scan_counter_name(n), bad->counters[n]);
	}
}
