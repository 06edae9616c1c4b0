/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The control socket's commands ("show", "ports", "reroute", "spine"), the metrics, and the command
 * line that asks: urxe-switch -s SOCKET. The loop's thread, but for the command line.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/common/client.h"
#include "daemons/common/counters.h"
#include "daemons/common/json.h"
#include "daemons/urxe-switch/switch.h"

/* Sums over leaves, links and ports. */
struct totals {
	struct reorder_source_counters source;
	struct reorder_destination_counters destination;
	uint64_t link_frames, marks, drops, pauses, in, out, port_drops;
	uint64_t held, flooded, unknown, not_ours, no_frame, frames_out;
	unsigned spines_up;
};

#define ROW(member, name, metric, help)                                  \
	{                                                                \
		COUNTER(struct totals, member), name, metric, NULL, help \
	}
#define GAUGE(member, name, metric, help)                                      \
	{                                                                      \
		COUNTER(struct totals, member), name, metric, NULL, help, true \
	}

static const struct counter rows[] = {
	ROW(in, "frames_in", "urxe_switch_frames_in_total", "Frames from hosts."),
	ROW(out, "frames_out", "urxe_switch_frames_out_total", "Frames to hosts."),
	ROW(port_drops, "port_drops", "urxe_switch_port_drops_total", "Frames hosts did not take."),
	ROW(source.packets, "roce", "urxe_switch_roce_total", "RoCE frames from leaf to leaf."),
	ROW(source.flows, "flows", "urxe_switch_flows_total", "Flows seen."),
	ROW(source.no_entry, "no_entry", "urxe_switch_no_entry_total",
	    "Frames without a flow entry."),
	ROW(source.reroutes, "reroutes", "urxe_switch_reroutes_total", "Flows moved."),
	ROW(source.forced, "forced", "urxe_switch_forced_total", "Of these, on command."),
	ROW(source.escapes, "escapes", "urxe_switch_escapes_total", "Of these, from a dead spine."),
	ROW(source.clears, "clears", "urxe_switch_clears_total", "Reroutes that are over."),
	ROW(destination.held, "held", "urxe_switch_held_total", "Frames that had to wait."),
	ROW(destination.holds, "holds", "urxe_switch_holds_total", "Times a flow began to wait."),
	ROW(destination.by_tail, "by_tail", "urxe_switch_by_tail_total",
	    "Ended by the last frame."),
	ROW(destination.by_proof, "by_proof", "urxe_switch_by_proof_total",
	    "Ended by a later frame."),
	ROW(destination.by_timer, "by_timer", "urxe_switch_by_timer_total", "Ended by a timer."),
	ROW(destination.by_bound, "by_bound", "urxe_switch_by_bound_total",
	    "Ended by the PFC bound."),
	ROW(destination.late, "late", "urxe_switch_late_total",
	    "Frames later than the wait for them."),
	GAUGE(held, "held_now", "urxe_switch_held_bytes", "Bytes in reorder queues."),
	ROW(link_frames, "link_frames", "urxe_switch_link_frames_total", "Frames on links."),
	ROW(marks, "marks", "urxe_switch_marks_total", "Frames marked CE."),
	ROW(pauses, "pauses", "urxe_switch_pauses_total", "Links paused."),
	ROW(drops, "drops", "urxe_switch_link_drops_total", "Frames lost on links."),
	ROW(flooded, "flooded", "urxe_switch_flooded_total", "Frames to all ports."),
	ROW(unknown, "unknown", "urxe_switch_unknown_total", "Frames to a port that has moved."),
	ROW(not_ours, "malformed", "urxe_switch_malformed_total", "Frames that make no sense."),
	ROW(no_frame, "no_frame", "urxe_switch_no_frame_total", "Times all frames were in use."),
	GAUGE(frames_out, "frames_used", "urxe_switch_frames_used", "Frames in use."),
	GAUGE(spines_up, "spines_up", "urxe_switch_spines_up", "Spines that are up."),
};
static const struct counters counters = {rows, sizeof(rows) / sizeof(rows[0])};

/* Structures of uint64_t alone, but for the queues' maximum. */
static void add(void *to, const void *from, size_t size)
{
	uint64_t *sum = to;
	const uint64_t *one = from;

	for (size_t i = 0; i < size / sizeof(*sum); i++)
		sum[i] += one[i];
}

static void sum_up(struct daemon *d, struct totals *t)
{
	memset(t, 0, sizeof(*t));
	for (unsigned i = 0; i < d->settings.num_leaves; i++) {
		struct reorder_source_counters s;
		struct reorder_destination_counters c;

		reorder_source_counters(d->leaves[i].source, &s, sizeof(s));
		reorder_destination_counters(d->leaves[i].destination, &c, sizeof(c));
		add(&t->source, &s, sizeof(s));
		add(&t->destination, &c, sizeof(c));
		t->held += reorder_held_bytes(d->leaves[i].destination);
		for (unsigned n = 0; n < d->settings.num_spines * 2; n++) {
			const struct link *link = link_of(d, i, n / 2, n % 2);

			t->link_frames += link->frames;
			t->marks += link->marks;
			t->drops += link->drops;
			t->pauses += link->pauses;
		}
	}
	for (unsigned i = 0; i < d->settings.num_ports; i++) {
		t->in += d->ports[i].in_frames;
		t->out += d->ports[i].out_frames;
		t->port_drops += d->ports[i].drops;
	}
	for (unsigned i = 0; i < d->settings.num_spines; i++)
		t->spines_up += d->spine_up[i];
	t->flooded = d->flooded;
	t->unknown = d->unknown;
	t->not_ours = d->not_ours;
	t->no_frame = d->no_frame;
	t->frames_out = d->frames_out;
}

void switch_metrics(FILE *out, void *arg)
{
	struct totals t;

	sum_up(arg, &t);
	counters_print(out, &counters, &t);
}

static void show(struct control_client *client, struct json_object *request)
{
	struct json_object *answer = json_object_new_object();
	struct totals t;

	sum_up(control_daemon(client), &t);
	counters_json(answer, &counters, &t);
	control_ok(client, answer);
}

static void ports(struct control_client *client, struct json_object *request)
{
	struct daemon *d = control_daemon(client);

	for (unsigned i = 0; i < d->settings.num_ports; i++) {
		struct json_object *o = json_object_new_object();
		const struct port *port = &d->ports[i];

		json_add_text(o, "port", d->settings.ports[i].name);
		json_add_text(o, "leaf", d->settings.leaves[port->leaf]);
		json_add_number(o, "frames_in", port->in_frames);
		json_add_number(o, "bytes_in", port->in_bytes);
		json_add_number(o, "frames_out", port->out_frames);
		json_add_number(o, "bytes_out", port->out_bytes);
		json_add_number(o, "drops", port->drops);
		control_send(client, o);
	}
	control_ok(client, json_object_new_object());
}

static void reroute(struct control_client *client, struct json_object *request)
{
	struct daemon *d = control_daemon(client);
	uint64_t every;

	if (json_get_number(request, "every", 1000000, &every) != 1) {
		control_fail(client, "\"every\" is a number of packets, 0 for none");
		return;
	}
	d->settings.reroute_every = (unsigned)every;
	control_ok(client, json_object_new_object());
}

static void spine(struct control_client *client, struct json_object *request)
{
	struct daemon *d = control_daemon(client);
	const char *name = NULL;

	if (!json_get_text(request, "spine", &name) || !name) {
		control_fail(client, "\"spine\" is missing");
		return;
	}
	for (unsigned i = 0; i < d->settings.num_spines; i++) {
		if (strcmp(d->settings.spines[i], name))
			continue;
		spine_set(d, i, json_get_flag(request, "up"));
		control_ok(client, json_object_new_object());
		return;
	}
	control_fail(client, "there is no spine %s", name);
}

const struct control_command switch_commands[] = {
	{"show", show}, {"ports", ports}, {"reroute", reroute}, {"spine", spine}};
const unsigned switch_num_commands = sizeof(switch_commands) / sizeof(switch_commands[0]);

/* The command line. */

static void print_members(struct json_object *o)
{
	json_object_object_foreach(o, key, value)
	{
		if (strcmp(key, "ok"))
			printf("%-14s %s\n", key, json_object_get_string(value));
	}
}

static void print_line(struct json_object *o)
{
	json_object_object_foreach(o, key, value)
		printf("%s %s  ", key, json_object_get_string(value));
	printf("\n");
}

static int usage(void)
{
	fprintf(stderr, "usage: urxe-switch -s SOCKET show | ports | reroute EVERY | down SPINE | "
			"up SPINE [--json]\n");
	return CLIENT_USAGE;
}

static struct json_object *request_of(int argc, char **argv)
{
	struct json_object *o = json_object_new_object();
	const char *word = argv[0];

	if (argc == 1 && (!strcmp(word, "show") || !strcmp(word, "ports"))) {
		json_add_text(o, "command", word);
		return o;
	}
	if (argc == 2 && !strcmp(word, "reroute")) {
		char *end;
		unsigned long every = strtoul(argv[1], &end, 10);

		if (*argv[1] && !*end) {
			json_add_text(o, "command", word);
			json_add_number(o, "every", every);
			return o;
		}
	}
	if (argc == 2 && (!strcmp(word, "up") || !strcmp(word, "down"))) {
		json_add_text(o, "command", "spine");
		json_add_text(o, "spine", argv[1]);
		json_add_bool(o, "up", word[0] == 'u');
		return o;
	}
	json_object_put(o);
	return NULL;
}

int command_line(int argc, char **argv)
{
	struct client client = {
		.daemon = "urxe-switch", .cure = "see urxe-switch(8)", .timeout = 10, .fd = -1};
	struct json_object *request, *answer = NULL;
	int ret;

	if (argc > 3 && !strcmp(argv[argc - 1], "--json")) {
		client.json = true;
		argc--;
	}
	if (argc < 4)
		return usage();
	client.socket = argv[2];
	request = request_of(argc - 3, argv + 3);
	if (!request)
		return usage();
	if (!client.json)
		client.each = print_line;
	ret = client_open(&client);
	if (ret == CLIENT_DONE) {
		ret = client_ask(&client, request, &answer);
		if (answer && !client.json)
			print_members(answer);
		json_object_put(answer);
		client_close(&client);
	}
	return ret;
}
