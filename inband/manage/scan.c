/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* See scan.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inband/manage/scan.h"

struct scanner {
	struct fabric *fabric;
	struct scan *scan;
	scan_done *done;
	void *arg;
	uint32_t open;
	int status;
};

struct question {
	struct scanner *scanner;
	struct scan_device *device;
};

static void end(struct scanner *s)
{
	s->scan->time = s->fabric->ops->now(s->fabric) - s->scan->begun;
	if (s->status) {
		scan_destroy(s->scan);
		s->scan = NULL;
	}
	s->done(s->arg, s->status, s->scan);
	free(s);
}

static void answered(void *arg, int status, const struct facts *facts)
{
	struct question *q = arg;
	struct scanner *s = q->scanner;
	struct scan_device *d = q->device;

	free(q);
	if (status == -ETIMEDOUT || status == -EREMOTEIO) {
		s->scan->silent++;
	} else if (status) {
		s->status = status;
	} else {
		d->ports = facts->ports;
		d->port = malloc(facts->ports * sizeof(*d->port));
		if (d->port) {
			memcpy(d->port, facts->counters, facts->ports * sizeof(*d->port));
			d->valid = true;
		} else {
			s->status = -ENOMEM;
		}
	}
	if (!--s->open)
		end(s);
}

int scan_begin(struct fabric *fabric, struct model *model, scan_done *done, void *arg)
{
	struct scanner *s = calloc(1, sizeof(*s));
	struct scan *made = calloc(1, sizeof(*made));

	if (made)
		made->devices = calloc(model->switches + 1, sizeof(*made->devices));
	if (!s || !made || !made->devices) {
		free(s);
		scan_destroy(made);
		return -ENOMEM;
	}
	*s = (struct scanner){.fabric = fabric, .scan = made, .done = done, .arg = arg, .open = 1};
	made->begun = fabric->ops->now(fabric);
	for (uint32_t i = 0; i < model->count && !s->status; i++) {
		struct device *d = model->devices[i];
		struct question *q;

		if (d->target.type != NMP_NRC || d->state != DEVICE_KNOWN)
			continue;
		q = malloc(sizeof(*q));
		if (!q) {
			s->status = -ENOMEM;
			break;
		}
		*q = (struct question){s, &made->devices[made->count]};
		made->devices[made->count++].device = i;
		s->open++;
		s->status = fabric->ops->counters(fabric, &d->target, answered, q);
		if (s->status) {
			s->open--;
			free(q);
		}
	}
	if (!--s->open)
		end(s);
	return 0;
}

void scan_destroy(struct scan *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; s->devices && i < s->count; i++)
		free(s->devices[i].port);
	free(s->devices);
	free(s);
}

struct waiting {
	bool done;
	int status;
	struct scan *scan;
};

static void wait_done(void *arg, int status, struct scan *made)
{
	*(struct waiting *)arg = (struct waiting){true, status, made};
}

int scan(struct fabric *fabric, struct model *model, struct scan **made)
{
	struct waiting w = {0};
	int ret = scan_begin(fabric, model, wait_done, &w);

	if (ret)
		return ret;
	ret = fabric_finish(fabric);
	if (!w.done)
		return ret ?: -EIO;
	*made = w.scan;
	return w.status;
}

static bool is_counter(unsigned n)
{
	return n != PORT_LINK;
}

/* Those of 32 bits in the chip. */
static bool is_short(unsigned n)
{
	return n == PORT_HANDSHAKES || n == PORT_RETRIES || n == PORT_ERRORS || n == PORT_WAITS ||
	       n == PORT_DROPPED;
}

uint64_t scan_delta(unsigned n, uint64_t before, uint64_t after)
{
	if (!is_counter(n))
		return 0;
	if (after >= before)
		return after - before;
	if (is_short(n) && before > UINT32_MAX / 2 && after < UINT32_MAX / 2)
		return after + (1ull << 32) - before;
	return after; /* since the reset */
}

const char *scan_counter_name(unsigned n)
{
	static const char *const names[FABRIC_COUNTERS] = {
		[PORT_LINK] = "link",
		[PORT_HANDSHAKES] = "handshakes",
		[PORT_RETRIES] = "retries",
		[PORT_ERRORS] = "errors",
		[PORT_SENT] = "sent",
		[PORT_RECEIVED] = "received",
		[PORT_SENT_FLITS] = "sent flits",
		[PORT_RECEIVED_FLITS] = "received flits",
		[PORT_WAITS] = "waits",
		[PORT_DROPPED] = "dropped",
	};

	return names[n];
}
