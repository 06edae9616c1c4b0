/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* See verdict.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/common/json.h"
#include "daemons/inbandd/store.h"
#include "daemons/inbandd/verdict.h"

static bool set_threshold(const char *word, struct thresholds *t)
{
	const char *equals = strchr(word, '=');
	char *end;
	uint64_t least;

	if (!equals || equals[1] < '0' || equals[1] > '9')
		return false;
	least = strtoull(equals + 1, &end, 10);
	for (unsigned n = PORT_HANDSHAKES; n < FABRIC_COUNTERS; n++) {
		const char *name = scan_counter_name(n);

		if (strlen(name) != (size_t)(equals - word) || strncmp(name, word, equals - word))
			continue;
		t->least[n] = least;
		return !*end;
	}
	return false;
}

bool thresholds_parse(const char *text, struct thresholds *t, char *error, size_t length)
{
	char copy[256], *rest = copy, *word;

	memset(t, 0, sizeof(*t));
	t->least[PORT_HANDSHAKES] = t->least[PORT_RETRIES] = t->least[PORT_ERRORS] =
		t->least[PORT_DROPPED] = 1;
	snprintf(copy, sizeof(copy), "%s", text ?: "");
	while ((word = strsep(&rest, ",")))
		if (*word && !set_threshold(word, t)) {
			snprintf(error, length,
				 "thresholds: \"%.40s\" is not COUNTER=NUMBER, of handshakes, "
				 "retries, errors, dropped, waits, sent, received",
				 word);
			return false;
		}
	return true;
}

/* How many times over their thresholds its counters are. */
static uint64_t badness_of(const scan_port c, const struct thresholds *t)
{
	uint64_t sum = 0;

	for (unsigned n = PORT_HANDSHAKES; n < FABRIC_COUNTERS; n++)
		if (t->least[n] && c[n] >= t->least[n])
			sum += (n == PORT_HANDSHAKES ? 100 : 1) * (c[n] / t->least[n]);
	return sum;
}

/*
 * Growth since the scan before, or all but for the handshake that every link begins with. Scans of
 * one model have their devices in one order.
 */
static void growth_of(const struct scan *now, const struct scan *before, uint32_t i, unsigned p,
		      scan_port growth)
{
	const uint64_t *c = now->devices[i].port[p];

	memcpy(growth, c, sizeof(scan_port));
	growth[PORT_LINK] = 0;
	if (!before && c[PORT_HANDSHAKES])
		growth[PORT_HANDSHAKES]--;
	for (unsigned n = 0; before && n < FABRIC_COUNTERS; n++)
		growth[n] = before->devices[i].valid
				    ? scan_delta(n, before->devices[i].port[p][n], c[n])
				    : 0;
}

static int add_bad(const struct inbandd *d, struct verdict *v, const struct bad_port *port)
{
	char name[PORT_NAME_LEN];

	if (store_is_suppressed(d->store, port_name(d, port->device, port->port, name))) {
		v->suppressed++;
		return 0;
	}
	if (v->count == v->size) {
		size_t size = v->size ? 2 * v->size : 256;
		struct bad_port *more = realloc(v->bad, size * sizeof(*more));

		if (!more)
			return -ENOMEM;
		v->bad = more;
		v->size = size;
	}
	v->bad[v->count++] = *port;
	return 0;
}

static int worst_first(const void *a, const void *b)
{
	const struct bad_port *x = a, *y = b;

	if (x->badness != y->badness)
		return x->badness < y->badness ? 1 : -1;
	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	return (int)x->port - (int)y->port;
}

int verdict_make(const struct inbandd *d, const struct scan *now, const struct scan *before,
		 const struct thresholds *thresholds,
		 void (*changed)(void *arg, uint32_t device, unsigned port, const scan_port growth),
		 void *arg, struct verdict *v)
{
	int ret = 0;

	memset(v, 0, sizeof(*v));
	for (uint32_t i = 0; i < now->count; i++) {
		const struct scan_device *device = &now->devices[i];

		for (unsigned p = 0; device->valid && p < device->ports && !ret; p++) {
			struct bad_port port = {.device = device->device, .port = p};

			growth_of(now, before, i, p, port.counters);
			for (unsigned n = 0; n < FABRIC_COUNTERS; n++)
				v->sum[n] += port.counters[n];
			if (changed)
				changed(arg, port.device, p, port.counters);
			port.badness = badness_of(port.counters, thresholds);
			if (port.badness)
				ret = add_bad(d, v, &port);
		}
	}
	if (v->count)
		qsort(v->bad, v->count, sizeof(*v->bad), worst_first);
	return ret;
}

void verdict_free(struct verdict *v)
{
	free(v->bad);
	memset(v, 0, sizeof(*v));
}

static struct json_object *port_json(const struct inbandd *d, const struct bad_port *port)
{
	struct json_object *to = json_object_new_object();
	char name[PORT_NAME_LEN];

	json_add_text(to, "port", port_name(d, port->device, port->port, name));
	for (unsigned i = PORT_HANDSHAKES; i < FABRIC_COUNTERS; i++)
		json_add_number(to, scan_counter_name(i), port->counters[i]);
	return to;
}

void verdict_json(const struct inbandd *d, const struct verdict *v, unsigned worst,
		  struct json_object *to)
{
	struct json_object *list = json_object_new_array(), *sums = json_object_new_object();

	for (unsigned n = PORT_HANDSHAKES; n < FABRIC_COUNTERS; n++)
		json_add_number(sums, scan_counter_name(n), v->sum[n]);
	for (size_t i = 0; i < v->count && i < worst; i++)
		json_object_array_add(list, port_json(d, &v->bad[i]));
	json_add(to, "sums", sums);
	json_add_number(to, "bad_ports", v->count);
	json_add_number(to, "suppressed", v->suppressed);
	json_add(to, "worst", list);
}
