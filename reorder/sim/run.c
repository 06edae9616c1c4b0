/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * One run: build, let events happen until all flows are done, check that nothing is missing, and
 * make the figures.
 */
#include "reorder/sim/sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct balance *const balances[] = {&balance_ecmp,	    &balance_letflow,
						 &balance_drill,    &balance_conga,
						 &balance_conweave, &balance_shared};

static void start_flows(struct sim *s)
{
	while (s->started < s->flows && s->flow[s->started].start <= s->now)
		nic_start(s, s->started++);
	if (s->started < s->flows)
		event_add(s->now, s->flow[s->started].start, START, 0);
}

static void arrive(struct sim *s, uint32_t p)
{
	if (s->node[s->port[s->packet[p].at].node].level)
		switch_receive(s, p);
	else
		nic_receive(s, p);
}

static void happen(struct sim *s, enum event_kind kind, uint32_t index)
{
	switch (kind) {
	case ARRIVE: arrive(s, index); break;
	case FREE: port_free(s, index); break;
	case PAUSE: port_pause(s, index); break;
	case RESUME: port_resume(s, index); break;
	case EXPIRE: port_expire(s, index); break;
	case PACE:
		s->flow[index].timed = false;
		nic_try(s, index);
		break;
	case WAKE: nic_wake(s, index); break;
	case RTO: nic_timeout(s, index); break;
	case DECREASE: dcqcn_decrease(s, index); break;
	case RAISE: dcqcn_raise(s, index); break;
	case START: start_flows(s); break;
	case HOLD:
	case VOQ: balance->timer(s, index); break;
	}
}

static void progress(const struct sim *s, time_t *said)
{
	time_t now = time(NULL);

	if (now == *said || s->options->quiet)
		return;
	if (*said)
		fprintf(stderr, "\r%s %s %u %%: %.3f ms simulated, %u of %u flows done ",
			s->options->method, s->options->traffic, s->options->load,
			(double)s->now / 1e9, s->done, s->flows);
	*said = now;
}

static void simulate(struct sim *s)
{
	enum event_kind kind;
	uint32_t index;
	time_t said = 0;

	event_add(0, s->flows ? s->flow[0].start : 0, START, 0);
	while (s->done < s->flows && event_next(&s->now, &kind, &index)) {
		happen(s, kind, index);
		if (!(++s->count.events & 0xfffff))
			progress(s, &said);
		if (s->now > s->stop)
			break;
	}
	if (said && !s->options->quiet)
		fputs("\r\033[K", stderr);
	/* What is still under way after the last flow's last acknowledgement. */
	while (s->done == s->flows && s->packets_out && event_next(&s->now, &kind, &index))
		if (kind != RTO && kind != RAISE && kind != DECREASE)
			happen(s, kind, index);
}

/* Conservation: with all flows done, no packet is anywhere and no byte charged. */
static void check(struct sim *s)
{
	for (uint32_t i = 0; i < s->topology.nodes; i++) {
		if (s->node[i].used_max > s->count.buffer_max)
			s->count.buffer_max = s->node[i].used_max;
		if (s->node[i].used_max > s->options->buffer)
			s->broken = "a buffer was over its size";
		if (s->done == s->flows && s->node[i].used)
			s->broken = "bytes are charged to a buffer when all packets have left";
	}
	if (s->done == s->flows && s->packets_out)
		s->broken = "packets are left when all flows are done";
	if (s->done < s->flows)
		s->broken = "flows are stuck";
}

struct done {
	uint64_t slowdown; /* thousandths */
	uint64_t bytes;
};

static int by_slowdown(const void *a, const void *b)
{
	const struct done *x = a, *y = b;

	return x->slowdown < y->slowdown ? -1 : x->slowdown > y->slowdown;
}

static int by_size(const void *a, const void *b)
{
	const struct done *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? -1 : 1;
	return by_slowdown(a, b);
}

static uint64_t percentile(const struct done *d, uint64_t n, uint64_t per_mille)
{
	return n ? d[(n - 1) * per_mille / 1000].slowdown : 0;
}

static uint64_t average(const struct done *d, uint64_t n)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum += d[i].slowdown;
	return n ? sum / n : 0;
}

static void bands(struct result *r, struct done *d, uint64_t n)
{
	for (unsigned b = 0; b < FCT_BANDS && n; b++) {
		uint64_t from = n * b / FCT_BANDS, to = n * (b + 1) / FCT_BANDS;

		if (to == from)
			continue;
		r->band_size[b] = d[to - 1].bytes;
		qsort(d + from, to - from, sizeof(*d), by_slowdown);
		r->band_average[b] = average(d + from, to - from);
		r->band_p99[b] = percentile(d + from, to - from, 990);
	}
}

static void slowdowns(struct sim *s, struct result *r)
{
	struct done *d = malloc((s->flows + 1) * sizeof(*d));
	uint64_t n = 0, bdp = (uint64_t)topology_base_rtt(s, 0, s->topology.hosts - 1) *
			      (s->options->rate / 1000000000) / 8000;
	uint64_t small = 0;

	if (!d)
		abort();
	for (uint32_t i = 0; i < s->flows; i++) {
		const struct flow *flow = &s->flow[i];
		int64_t took = flow->end - flow->start;

		if (!flow->done || flow->start < s->options->warmup)
			continue;
		d[n].bytes = flow->bytes;
		d[n++].slowdown =
			took <= flow->alone ? 1000 : (uint64_t)took * 1000 / (uint64_t)flow->alone;
	}
	qsort(d, n, sizeof(*d), by_size);
	while (small < n && d[small].bytes < bdp)
		small++;
	bands(r, d, n);
	qsort(d, small, sizeof(*d), by_slowdown);
	qsort(d + small, n - small, sizeof(*d), by_slowdown);
	r->average_small = average(d, small);
	r->p99_small = percentile(d, small, 990);
	r->average_large = average(d + small, n - small);
	r->p99_large = percentile(d + small, n - small, 990);
	qsort(d, n, sizeof(*d), by_slowdown);
	r->flows = n;
	r->average = average(d, n);
	r->p50 = percentile(d, n, 500);
	r->p95 = percentile(d, n, 950);
	r->p99 = percentile(d, n, 990);
	r->p999 = percentile(d, n, 999);
	free(d);
}

/* conweave-ns3's columns: hosts, ports, bytes, start, duration and duration alone in ns. */
static int write_fcts(const struct sim *s)
{
	FILE *out = fopen(s->options->fct_file, "w");

	if (!out) {
		fprintf(stderr, "fabric-sim: %s: %s\n", s->options->fct_file, strerror(errno));
		return -errno;
	}
	for (uint32_t i = 0; i < s->flows; i++) {
		const struct flow *f = &s->flow[i];

		if (f->done)
			fprintf(out, "%u %u %u %u %llu %llu %llu %llu\n", f->source, f->destination,
				10000 + i % 50000, 100, (unsigned long long)f->bytes,
				(unsigned long long)(2000000000 + f->start / NS),
				(unsigned long long)((f->end - f->start) / NS),
				(unsigned long long)(f->alone / NS));
	}
	return fclose(out) ? -EIO : 0;
}

static void sum_up(struct sim *s, struct result *r)
{
	const struct counters *c = &s->count;
	const struct reorder_destination_counters *d = &s->destination;

	slowdowns(s, r);
	r->unfinished = s->flows - s->done;
	r->digest = s->digest ^ c->hops * 0x9e3779b97f4a7c15u ^ c->events;
	r->duration = (uint64_t)s->now;
	r->hops = c->hops;
	r->events = c->events;
	r->data_packets = c->data_packets;
	r->drops = c->drops;
	r->retransmitted = c->retransmitted;
	r->pauses = c->pauses;
	r->marks = c->marks;
	r->nic_out_of_order = c->nic_out_of_order;
	r->nacks = c->nacks;
	r->timeouts = c->timeouts;
	r->reroutes = c->reroutes;
	r->held = c->held;
	r->timer_releases = c->timer_releases;
	r->held_packets_max = c->held_packets_max;
	r->held_bytes_max = c->held_bytes_max;
	r->queues_max = c->queues_max;
	r->buffer_max = c->buffer_max;
	r->control_bytes = c->control_bytes;
	r->predictions = d->predictions[REORDER_SAMPLE];
	if (r->predictions) {
		r->error_sample = d->error[REORDER_SAMPLE] / r->predictions;
		r->error_mg1 = d->error[REORDER_MG1] / r->predictions;
		r->early_sample = d->too_early[REORDER_SAMPLE] * 1000 / r->predictions;
		r->early_mg1 = d->too_early[REORDER_MG1] * 1000 / r->predictions;
	}
	r->by_tail = d->by_tail;
	r->by_proof = d->by_proof;
	r->by_timer = d->by_timer;
	r->by_bound = d->by_bound;
	r->shared_holds = d->shared;
	r->far = d->far;
}

static int choose(const char *method)
{
	for (size_t i = 0; i < sizeof(balances) / sizeof(balances[0]); i++) {
		if (!strcmp(balances[i]->name, method)) {
			balance = balances[i];
			return 0;
		}
	}
	fprintf(stderr,
		"fabric-sim: no method %s (ecmp, letflow, conga, drill, conweave, shared)\n",
		method);
	return -EINVAL;
}

static int go(struct sim *s, struct result *r)
{
	struct timespec a, b;
	int ret = topology_build(s);

	if (!ret)
		ret = workload_make(s);
	if (!ret && balance->init)
		ret = balance->init(s);
	if (ret)
		return ret;
	s->stop = s->options->duration + 10000 * MS;
	if (s->flows && s->flow[s->flows - 1].start > s->options->duration)
		s->stop = s->flow[s->flows - 1].start + 10000 * MS;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	simulate(s);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
	check(s);
	if (balance->finish)
		balance->finish(s);
	sum_up(s, r);
	r->cpu_us = (uint64_t)((b.tv_sec - a.tv_sec) * 1000000 + (b.tv_nsec - a.tv_nsec) / 1000);
	if (s->broken)
		snprintf(r->broken, sizeof(r->broken), "%s", s->broken);
	return s->options->fct_file ? write_fcts(s) : 0;
}

int run(const struct options *options, struct result *result)
{
	struct sim s = {.options = options, .free_packet = NONE, .digest = 0xcbf29ce484222325u};
	int ret = choose(options->method);

	if (ret)
		return ret;
	memset(result, 0, sizeof(*result));
	snprintf(result->method, sizeof(result->method), "%s", options->method);
	snprintf(result->traffic, sizeof(result->traffic), "%s", options->traffic);
	result->load = options->load;
	result->seed = options->seed;
	result->queues = options->queues;
	result->irn = options->irn;
	s.random = options->seed * 77777u + 5;
	event_init();
	ret = go(&s, result);
	if (s.balance && balance->fini)
		balance->fini(&s);
	event_fini();
	free(s.node);
	free(s.port);
	free(s.ready);
	free(s.waking);
	free(s.packet);
	free(s.flow);
	free(s.drill);
	return ret;
}
