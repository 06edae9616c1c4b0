/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Tables of counters: which member of a structure is which metric of Prometheus, and which member
 * of a JSON object. Several rows in succession may be one metric with different labels:
 *
 *	static const struct counter rows[] = {
 *		{COUNTER(struct stats, sent), "sent", "fabricd_packets_total", "{way=\"out\"}", "Packets."},
 *		{COUNTER(struct stats, got), "received", "fabricd_packets_total", "{way=\"in\"}"},
 *		{COUNTER(struct stats, up), "up", "fabricd_links_up", .help = "Links that are up.", .gauge = true},
 *	};
 *	static const struct counters counters = {rows, 3};
 *
 * Constant tables and pure functions; the caller holds what guards the structure.
 */
#ifndef DAEMON_COUNTERS_H
#define DAEMON_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <json-c/json.h>

struct counter {
	size_t offset,
		size; /* of the member: bool, unsigned, uint64_t, or an int64_t that is not negative */
	const char *name;   /* in JSON; NULL: not there */
	const char *metric; /* NULL: not there */
	const char *labels; /* NULL: none */
	const char *help;   /* of the first row of a metric, else NULL */
	bool gauge;	    /* the value also falls */
};

struct counters {
	const struct counter *rows;
	unsigned count;
};

#define COUNTER(type, member) offsetof(type, member), sizeof(((type *)0)->member)

/* In Prometheus' exposition format: the values that the structure has now. */
void counters_print(FILE *out, const struct counters *counters, const void *values);
/* As members of an object; a bool is true or false. */
void counters_json(struct json_object *to, const struct counters *counters, const void *values);

/* The lines in front of a metric's values, for those that no table can describe. */
void counters_family(FILE *out, const char *metric, bool gauge, const char *help);

#endif
