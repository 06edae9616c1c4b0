/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* inbandd's answers, for people. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemons/common/client.h"
#include "daemons/inbandctl/inbandctl.h"

static struct json_object *member(struct json_object *from, const char *key)
{
	struct json_object *value = NULL;

	json_object_object_get_ex(from, key, &value);
	return value;
}

static const char *text(struct json_object *from, const char *key)
{
	struct json_object *value = member(from, key);

	return value ? json_object_get_string(value) : "";
}

static unsigned long number(struct json_object *from, const char *key)
{
	return json_object_get_uint64(member(from, key));
}

static bool flag(struct json_object *from, const char *key)
{
	return json_object_get_boolean(member(from, key));
}

static size_t length(struct json_object *list)
{
	return list ? json_object_array_length(list) : 0;
}

int print_discovery(struct json_object *answer)
{
	printf("%lu switches, %lu nodes, %lu links; %.3f ms of the network's time\n",
	       number(answer, "switches"), number(answer, "nodes"), number(answer, "links"),
	       json_object_get_double(member(answer, "seconds")) * 1e3);
	if (number(answer, "silent"))
		printf("%lu switches do not answer\n", number(answer, "silent"));
	return number(answer, "silent") ? STATUS_MAJOR : CLIENT_DONE;
}

/* By the most severe alarm. */
static int worst_of(struct json_object *counts)
{
	return number(counts, "critical")			      ? STATUS_CRITICAL
	       : number(counts, "major")			      ? STATUS_MAJOR
	       : number(counts, "minor") || number(counts, "warning") ? STATUS_WARNING
								      : CLIENT_DONE;
}

int print_status(struct json_object *answer)
{
	struct json_object *requests = member(answer, "requests"),
			   *alarms = member(answer, "alarms");

	printf("network   %s%s%s%s\n", text(answer, "network"),
	       *text(answer, "plan") ? ", plan " : "", text(answer, "plan"),
	       flag(answer, "discovering") ? ", discovering" : "");
	if (member(answer, "model")) {
		printf("found     ");
		print_discovery(member(answer, "model"));
	}
	printf("requests  %lu sent, %lu answered, %lu sent again, %lu given up, %lu refused\n",
	       number(requests, "sent"), number(requests, "answered"), number(requests, "retried"),
	       number(requests, "timed_out"), number(requests, "refused"));
	if (number(answer, "half_loaded"))
		printf("routes    a load was begun in %lu switches and not ended\n",
		       number(answer, "half_loaded"));
	printf("alarms    %lu critical, %lu major, %lu minor, %lu warnings\n",
	       number(alarms, "critical"), number(alarms, "major"), number(alarms, "minor"),
	       number(alarms, "warning"));
	return worst_of(alarms);
}

int print_findings(struct json_object *answer)
{
	struct json_object *list = member(answer, "findings");

	for (size_t i = 0; i < length(list); i++) {
		struct json_object *f = json_object_array_get_idx(list, i);

		printf("%s\n    %s\n", text(f, "finding"), text(f, "place"));
	}
	if (length(list))
		printf("%zu differences from the plan\n", length(list));
	else
		puts("as planned");
	return length(list) ? STATUS_MAJOR : CLIENT_DONE;
}

int print_device(struct json_object *answer)
{
	struct json_object *list = member(answer, "ports");

	printf("%s  %s, ID %lu, %lu hops away%s%s\n", text(answer, "name"), text(answer, "type"),
	       number(answer, "id"), number(answer, "hops"), *text(answer, "place") ? ", " : "",
	       text(answer, "place"));
	for (size_t i = 0; i < length(list); i++) {
		struct json_object *p = json_object_array_get_idx(list, i);

		printf("%4lu  %-12s %-24s %s\n", number(p, "port"), text(p, "state"), text(p, "to"),
		       text(p, "place"));
	}
	return CLIENT_DONE;
}

int print_trace(struct json_object *answer)
{
	struct json_object *list = member(answer, "path");

	for (size_t i = 0; i < length(list); i++) {
		struct json_object *h = json_object_array_get_idx(list, i);

		printf("%2zu  %-20s", i, text(h, "at"));
		if (member(h, "in"))
			printf(" in %2lu", number(h, "in"));
		if (member(h, "out") && i)
			printf(" out %2lu (one of %lu), %s, %lu lanes, %lu retries, %lu errors",
			       number(h, "out"), number(h, "ways"), text(h, "link"),
			       number(h, "lanes"), number(h, "retries"), number(h, "errors"));
		putchar('\n');
	}
	puts(text(answer, "end"));
	return flag(answer, "arrived") ? CLIENT_DONE : STATUS_MAJOR;
}

static int print_ends(struct json_object *list, const char *before)
{
	int status = CLIENT_DONE;

	for (size_t i = 0; i < length(list); i++) {
		struct json_object *end = json_object_array_get_idx(list, i);

		printf("%s%s: %s, %lu packets of %.3g bits damaged\n", before,
		       i ? "other end" : "this end ", text(end, "state"), number(end, "errors"),
		       (double)number(end, "bits"));
		if (number(end, "errors") || strcmp(text(end, "state"), "done") != 0)
			status = STATUS_MAJOR;
	}
	return status;
}

int print_bist(struct json_object *answer)
{
	struct json_object *list = member(answer, "list");

	if (member(answer, "ends"))
		return print_ends(member(answer, "ends"), "");
	for (size_t i = 0; i < length(list); i++) {
		struct json_object *link = json_object_array_get_idx(list, i);

		printf("%s%s%s\n", text(link, "port"), member(link, "error") ? ": " : "",
		       text(link, "error"));
		print_ends(member(link, "ends"), "    ");
	}
	printf("%lu links tested in %.3f s of the network's time, %lu of them bad; %lu refused, as "
	       "the server's ways or reports lead over them; %lu not tested\n",
	       number(answer, "tested"), json_object_get_double(member(answer, "seconds")),
	       number(answer, "bad"), number(answer, "refused"), number(answer, "failed"));
	return number(answer, "bad") || number(answer, "failed") ? STATUS_MAJOR : CLIENT_DONE;
}

int print_load(struct json_object *answer)
{
	printf("load %lu: %lu switches written in %.3f s of the network's time, %lu rounds\n",
	       number(answer, "number"), number(answer, "switches"),
	       json_object_get_double(member(answer, "seconds")), number(answer, "rounds"));
	if (flag(answer, "rolled_back"))
		puts("taken back: all switches have the routes of the load before, but for those "
		     "that failed");
	if (number(answer, "failed"))
		printf("%lu switches do not have their routes, one is %s\n",
		       number(answer, "failed"), text(answer, "failed_at"));
	return number(answer, "failed") ? STATUS_MAJOR : CLIENT_DONE;
}

int print_value(struct json_object *answer)
{
	puts(text(answer, "value"));
	return CLIENT_DONE;
}

int print_scan(struct json_object *answer)
{
	struct json_object *list = member(answer, "worst"), *sums = member(answer, "sums");

	printf("%lu switches in %.3f ms of the network's time; %lu packets sent, %lu retries, "
	       "%lu errors, %lu dropped\n",
	       number(answer, "switches"), json_object_get_double(member(answer, "seconds")) * 1e3,
	       number(sums, "sent"), number(sums, "retries"), number(sums, "errors"),
	       number(sums, "dropped"));
	if (number(answer, "silent"))
		printf("%lu switches do not answer\n", number(answer, "silent"));
	if (length(list))
		printf("%-26s %10s %10s %10s %10s\n", "port", "handshakes", "retries", "errors",
		       "dropped");
	for (size_t i = 0; i < length(list); i++) {
		struct json_object *p = json_object_array_get_idx(list, i);

		printf("%-26s %10lu %10lu %10lu %10lu\n", text(p, "port"), number(p, "handshakes"),
		       number(p, "retries"), number(p, "errors"), number(p, "dropped"));
	}
	if (number(answer, "bad_ports") > length(list))
		printf("and %lu ports more\n", number(answer, "bad_ports") - length(list));
	if (number(answer, "suppressed"))
		printf("%lu bad ports are suppressed\n", number(answer, "suppressed"));
	return number(answer, "silent")	     ? STATUS_MAJOR
	       : number(answer, "bad_ports") ? STATUS_WARNING
					     : CLIENT_DONE;
}

const char *output_file;

static int save_image(const char *text)
{
	FILE *file = fopen(output_file, "we");
	unsigned byte;
	int bad = !file;

	for (; file && sscanf(text, "%2x", &byte) == 1; text += 2)
		fputc(byte, file);
	if (file)
		bad = ferror(file) | fclose(file);
	if (bad)
		client_error("%s: %s", output_file, strerror(errno));
	return bad ? CLIENT_REFUSED : CLIENT_DONE;
}

int print_eeprom(struct json_object *answer)
{
	struct json_object *list = member(answer, "list");

	if (member(answer, "bytes"))
		return save_image(text(answer, "bytes"));
	for (size_t i = 0; i < length(list); i++) {
		struct json_object *e = json_object_array_get_idx(list, i);

		printf("%-20s %s is %s, should be %s\n", text(e, "chip"), text(e, "address"),
		       text(e, "is"), text(e, "expected"));
	}
	if (number(answer, "differences") > length(list))
		printf("and %lu bytes more\n", number(answer, "differences") - length(list));
	printf("%lu images in %.3f s of the network's time, %lu of them wrong in %lu bytes",
	       number(answer, "images"), json_object_get_double(member(answer, "seconds")),
	       number(answer, "wrong"), number(answer, "differences"));
	if (number(answer, "written"))
		printf("; %lu written", number(answer, "written"));
	puts("");
	if (number(answer, "failed"))
		printf("%lu are not what was written\n", number(answer, "failed"));
	if (number(answer, "silent"))
		printf("%lu chips do not answer\n", number(answer, "silent"));
	return number(answer, "silent") || number(answer, "failed") ||
			       number(answer, "wrong") > number(answer, "written")
		       ? STATUS_MAJOR
		       : CLIENT_DONE;
}

static const char *when_of(struct json_object *from, const char *key, char time[32])
{
	time_t when = number(from, key) / 1000;

	strftime(time, 32, "%F %T", localtime(&when));
	return time;
}

/* A line each, of what happened when. */
static int print_dated(struct json_object *list,
		       void (*print)(struct json_object *entry, const char *when))
{
	char time[32];

	for (size_t i = 0; i < length(list); i++) {
		struct json_object *entry = json_object_array_get_idx(list, i);

		print(entry, when_of(entry, "ms", time));
	}
	return CLIENT_DONE;
}

static void print_happened(struct json_object *e, const char *when)
{
	printf("%s  %-12s %s\n", when, text(e, "name"), text(e, "text"));
}

int print_events(struct json_object *answer)
{
	return print_dated(member(answer, "events"), print_happened);
}

static void print_done_by(struct json_object *e, const char *when)
{
	printf("%s  %-16s %s: %s\n", when, text(e, "who"), text(e, "request"),
	       member(e, "outcome") ? text(e, "outcome") : "no end of it is known");
}

int print_audit(struct json_object *answer)
{
	return print_dated(member(answer, "audit"), print_done_by);
}

static void print_baseline(struct json_object *b, const char *when)
{
	printf("%-20s %s\n", text(b, "name"), when);
}

int print_baselines(struct json_object *answer)
{
	return member(answer, "findings")
		       ? print_findings(answer)
		       : print_dated(member(answer, "baselines"), print_baseline);
}

static void print_suppression(struct json_object *p, const char *when)
{
	printf("%-26s %s by %s%s%s\n", text(p, "port"), when, text(p, "who"),
	       *text(p, "why") ? ": " : "", text(p, "why"));
}

int print_suppressed(struct json_object *answer)
{
	return print_dated(member(answer, "suppressed"), print_suppression);
}

int print_text(struct json_object *answer)
{
	FILE *file = output_file ? fopen(output_file, "we") : stdout;
	int bad = !file;

	if (file)
		bad = fputs(text(answer, "text"), file) < 0;
	if (file && output_file)
		bad |= fclose(file);
	if (bad)
		client_error("%s: %s", output_file ?: "output", strerror(errno));
	return bad ? CLIENT_REFUSED : CLIENT_DONE;
}

static void print_alarm(struct json_object *a)
{
	char time[32];

	printf("%4lu  %s  %-8s %s %s%s%s: %s%s%s\n", number(a, "id"), when_of(a, "last_ms", time),
	       text(a, "severity"), text(a, "kind"), text(a, "at"), *text(a, "to") ? " to " : "",
	       text(a, "to"), text(a, "cause"), number(a, "count") > 1 ? ", again and again" : "",
	       !flag(a, "active")	 ? " (over)"
	       : flag(a, "acknowledged") ? " (acknowledged)"
					 : "");
	if (*text(a, "place"))
		printf("      %s\n", text(a, "place"));
	if (*text(a, "place2"))
		printf("      %s\n", text(a, "place2"));
}

int print_alarms(struct json_object *answer)
{
	struct json_object *list = member(answer, "alarms");
	int worst = CLIENT_DONE;

	for (size_t i = 0; i < length(list); i++) {
		struct json_object *a = json_object_array_get_idx(list, i);
		const char *severity = text(a, "severity");
		int status = !strcmp(severity, "critical") ? STATUS_CRITICAL
			     : !strcmp(severity, "major")  ? STATUS_MAJOR
							   : STATUS_WARNING;

		print_alarm(a);
		if (flag(a, "active") && status > worst)
			worst = status;
	}
	if (!length(list))
		puts("no alarms");
	return worst;
}

/* For people alone; the rest of the line is what is left of the one before. */
static void print_progress(struct json_object *line)
{
	if (isatty(2))
		fprintf(stderr, "%s: %lu of %lu   \r", text(line, "work"), number(line, "done"),
			number(line, "of"));
}

void print_event(struct json_object *line)
{
	const char *event = text(line, "event");

	if (member(line, "work")) {
		print_progress(line);
		return;
	}
	if (!strcmp(event, "scan")) {
		print_scan(line);
		fflush(stdout);
		return;
	}
	if (member(line, "id")) {
		printf("%-12s ", event);
		print_alarm(line);
	} else {
		puts(event);
	}
	fflush(stdout);
}

int print_nothing(struct json_object *answer)
{
	return CLIENT_DONE;
}
