/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Answers of sacached for people. A member that is not there counts as 0 or "".
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "daemons/sacachectl/sacachectl.h"

static struct json_object *member(struct json_object *of, const char *key)
{
	struct json_object *value = NULL;

	json_object_object_get_ex(of, key, &value);
	return value;
}

static uint64_t number(struct json_object *of, const char *key)
{
	return json_object_get_uint64(member(of, key));
}

static const char *text(struct json_object *of, const char *key)
{
	const char *value = json_object_get_string(member(of, key));

	return value ? value : "";
}

static bool flag(struct json_object *of, const char *key)
{
	return json_object_get_boolean(member(of, key));
}

static void print_when(struct json_object *of, const char *key)
{
	time_t when = (time_t)json_object_get_int64(member(of, key));
	char line[64];
	struct tm tm;

	if (localtime_r(&when, &tm) && strftime(line, sizeof(line), "%Y-%m-%d %H:%M:%S", &tm))
		fputs(line, stdout);
}

static void print_ports(struct json_object *ports)
{
	size_t count =
		json_object_is_type(ports, json_type_array) ? json_object_array_length(ports) : 0;

	for (size_t i = 0; i < count; i++) {
		struct json_object *port = json_object_array_get_idx(ports, i);

		printf("port %" PRIu64 "      %s, %s, GID %s, LID %" PRIu64 ", SM at LID %" PRIu64
		       ", caching is %s\n",
		       number(port, "number"), text(port, "name"),
		       flag(port, "active") ? "active" : "not active", text(port, "gid"),
		       number(port, "lid"), number(port, "sm_lid"),
		       flag(port, "caching") ? "on" : "off");
	}
	if (!count)
		puts("port        there is none");
}

static void print_counters(struct json_object *counters)
{
	static const char *const reasons[][2] = {
		{"query_miss", "not in the table"},
		{"query_off", "caching is off"},
		{"query_suspect", "the path had failed too often"},
		{"query_changed", "a LID or the SM had changed"},
		{"query_past", "a program wanted the SA's own answer"},
		{"query_table", "a whole table"},
	};
	uint64_t queries = 0;

	for (unsigned i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		queries += number(counters, reasons[i][0]);
	printf("answered    %" PRIu64 " from the table, %" PRIu64 " as remembered failures\n",
	       number(counters, "hits"), number(counters, "negative_hits"));
	printf("asked       %" PRIu64 " times the SA%s\n", queries, queries ? ", because" : "");
	for (unsigned i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (number(counters, reasons[i][0]))
			printf("            %" PRIu64 ": %s\n", number(counters, reasons[i][0]),
			       reasons[i][1]);
	printf("the SA      %" PRIu64 " retries, %" PRIu64 " times busy, %" PRIu64
	       " times no answer\n",
	       number(counters, "retried"), number(counters, "busy"), number(counters, "timeouts"));
}

static void print_state(struct json_object *state)
{
	if (!*text(state, "file")) {
		puts("state       not kept: state_file is not set");
		return;
	}
	printf("state       %s: %" PRIu64 " records at the start", text(state, "file"),
	       number(state, "loaded"));
	if (number(state, "saved_at")) {
		printf(", %" PRIu64 " saved ", number(state, "saved"));
		print_when(state, "saved_at");
	}
	putchar('\n');
	if (*text(state, "problem"))
		printf("            at the start: %s\n", text(state, "problem"));
	if (*text(state, "save_error"))
		printf("            not saved the last time: %s\n", text(state, "save_error"));
	if (number(state, "imported"))
		printf("            %" PRIu64 " records from OpenSM's dump\n",
		       number(state, "imported"));
	if (number(state, "prefetched") || flag(state, "prefetching"))
		printf("            %" PRIu64 " paths asked for ahead%s\n",
		       number(state, "prefetched"),
		       flag(state, "prefetching") ? ", more are coming" : "");
}

static void print_kernel(struct json_object *kernel)
{
	if (!flag(kernel, "listening"))
		puts("kernel      asks the SA itself");
	else
		printf("kernel      %" PRIu64 " questions for paths, %" PRIu64
		       " for addresses; %" PRIu64 " left to it, %" PRIu64 " too late\n",
		       number(kernel, "paths"), number(kernel, "addresses"),
		       number(kernel, "errors"), number(kernel, "late"));
}

void print_status(struct json_object *answer)
{
	struct json_object *counters = member(answer, "counters"),
			   *clients = member(answer, "clients");

	printf("sacached    %s, pid %" PRIu64 ", since ", text(answer, "version"),
	       number(answer, "pid"));
	print_when(answer, "started");
	printf("\npolicy      %s%s\n", text(answer, "policy"),
	       flag(answer, "drop") ? ", drop" : "");
	print_ports(member(answer, "ports"));
	printf("table       %" PRIu64 " of %" PRIu64 " entries, %" PRIu64 " KiB\n",
	       number(counters, "entries"), number(answer, "max_entries"),
	       number(counters, "bytes") / 1024);
	print_counters(counters);
	printf("programs    %" PRIu64 " connected, %" PRIu64 " so far\n", number(clients, "now"),
	       number(clients, "accepted"));
	print_kernel(member(answer, "kernel"));
	print_state(member(answer, "state"));
}

static void print_keys(struct json_object *key)
{
	const char *comma = "";

	json_object_object_foreach(key, name, value)
	{
		(void)value;
		printf("%s%s", comma, name);
		comma = ",";
	}
}

static void print_columns(void)
{
	printf("%-39s %5s %5s %-6s %2s %4s %5s %-9s %s\n", "DGID", "DLID", "SLID", "P_Key", "SL",
	       "MTU", "Gb/s", "state", "asked by");
}

void print_entry(struct json_object *line)
{
	static bool begun;
	struct json_object *entry = member(line, "entry"), *path = member(entry, "path");
	struct json_object *key = member(entry, "key");

	if (!begun)
		print_columns();
	begun = true;
	if (path)
		printf("%-39s %5" PRIu64 " %5" PRIu64 " %-6s %2" PRIu64 " %4" PRIu64 " %5g %-9s ",
		       text(path, "dgid"), number(path, "dlid"), number(path, "slid"),
		       text(path, "pkey"), number(path, "sl"), number(path, "mtu"),
		       json_object_get_double(member(path, "rate")), text(entry, "state"));
	else
		printf("%-39s %5s %5s %-6s %2s %4s %5s %-9s ", text(key, "dgid"), text(key, "dlid"),
		       text(key, "slid"), text(key, "pkey"), text(key, "sl"), "", "",
		       text(entry, "state"));
	print_keys(key);
	putchar('\n');
}

void print_entries(struct json_object *answer)
{
	uint64_t count = number(answer, "entries");

	printf("%" PRIu64 " %s\n", count, count == 1 ? "entry" : "entries");
}

void print_lookup(struct json_object *answer)
{
	struct json_object *path = member(answer, "path");

	printf("from        %s, LID %" PRIu64 "\n", text(path, "sgid"), number(path, "slid"));
	printf("to          %s, LID %" PRIu64 "\n", text(path, "dgid"), number(path, "dlid"));
	printf("P_Key       %s\nSL          %" PRIu64 "\nMTU         %" PRIu64 "\n",
	       text(path, "pkey"), number(path, "sl"), number(path, "mtu"));
	printf("rate        %g Gbit/s\n", json_object_get_double(member(path, "rate")));
	printf("lifetime    %g ms\n", json_object_get_double(member(path, "lifetime_us")) / 1000);
	printf("answered by %s\n", !strcmp(text(answer, "from"), "sa") ? "the SA" : "the table");
}

void print_flush(struct json_object *answer)
{
	uint64_t count = number(answer, "flushed");

	printf("%" PRIu64 " %s forgotten\n", count, count == 1 ? "entry" : "entries");
}

void print_prefetch(struct json_object *answer)
{
	printf("%" PRIu64 " of %" PRIu64 " paths asked for%s, %" PRIu64 " were there, %" PRIu64
	       " cannot be had\n",
	       number(answer, "answered"), number(answer, "wanted"),
	       flag(answer, "by_table") ? " by one table" : "", number(answer, "present"),
	       number(answer, "failed"));
}

void print_save(struct json_object *answer)
{
	printf("%" PRIu64 " records in %s\n", number(answer, "records"), text(answer, "file"));
}
