/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Counters of a structure, by a table. No state.
 */
#include <inttypes.h>

#include "daemons/common/counters.h"
#include "daemons/common/json.h"

static uint64_t value_of(const struct counter *counter, const void *values)
{
	const char *member = (const char *)values + counter->offset;

	switch (counter->size) {
	case sizeof(bool): return *(const bool *)member;
	case sizeof(unsigned): return *(const unsigned *)member;
	default: return *(const uint64_t *)member;
	}
}

void counters_family(FILE *out, const char *metric, bool gauge, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", metric, help, metric,
		gauge ? "gauge" : "counter");
}

void counters_print(FILE *out, const struct counters *counters, const void *values)
{
	for (const struct counter *c = counters->rows; c < counters->rows + counters->count; c++) {
		if (!c->metric)
			continue;
		if (c->help)
			counters_family(out, c->metric, c->gauge, c->help);
		fprintf(out, "%s%s %" PRIu64 "\n", c->metric, c->labels ? c->labels : "",
			value_of(c, values));
	}
}

void counters_json(struct json_object *to, const struct counters *counters, const void *values)
{
	for (const struct counter *c = counters->rows; c < counters->rows + counters->count; c++) {
		if (!c->name)
			continue;
		if (c->size == sizeof(bool))
			json_add_bool(to, c->name, value_of(c, values));
		else
			json_add_number(to, c->name, value_of(c, values));
	}
}
