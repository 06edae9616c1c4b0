/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Commands about all of one device at once, for a page that shows it: what it says of itself with
 * its ports' counters, its registers by name, and where its tables lead. The loop's thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/common/json.h"
#include "daemons/inbandd/commands.h"

/* Many operations of one command; the answer is ready when all have ended. */
struct gathering {
	struct pending *pending;
	struct device *device;
	struct json_object *answer, *list;
	unsigned open;
	int status;
	/* of tables: */
	unsigned in_port, frame_nodes;
	uint32_t next; /* device that is asked for */
	uint64_t last_frame;
};

struct part {
	struct gathering *all;
	const char *name;
	uint32_t address;
};

static struct gathering *begin(struct control_client *client, struct json_object *request)
{
	struct inbandd *d = control_daemon(client);
	struct gathering *g;
	struct pending *p;
	struct device *device;

	device = request_device(client, request);
	if (!device)
		return NULL;
	g = calloc(1, sizeof(*g));
	p = g ? pending_begin(client, "device", true) : NULL;
	if (!p) {
		free(g);
		return NULL;
	}
	*g = (struct gathering){.pending = p,
				.device = device,
				.answer = json_object_new_object(),
				.list = json_object_new_array(),
				.open = 1};
	network_kick(d);
	return g;
}

/* One of its operations is over, or could not be begun. */
static void end(struct gathering *g, int status)
{
	if (status && !g->status)
		g->status = status;
	if (--g->open)
		return;
	if (g->status && !json_object_array_length(g->list)) {
		json_object_put(g->answer);
		json_object_put(g->list);
		pending_fail(g->pending, "%s", pending_why(g->status));
	} else {
		json_add(g->answer, "list", g->list);
		pending_ok(g->pending, g->answer);
	}
	free(g);
}

/* ---- what it says of itself, and its counters ---- */

static void have_counters(void *arg, int status, const struct facts *facts)
{
	struct gathering *g = arg;

	for (unsigned p = 0; !status && p < facts->ports; p++) {
		struct json_object *port = json_object_new_array();

		for (unsigned i = 0; i < FABRIC_COUNTERS; i++)
			json_object_array_add(port, json_object_new_uint64(facts->counters[p][i]));
		json_object_array_add(g->list, port);
	}
	end(g, status);
}

static void have_identity(void *arg, int status, const struct facts *facts)
{
	struct gathering *g = arg;

	if (!status) {
		json_add(g->answer, "temperature",
			 json_object_new_double(facts->identity.temperature / 1000.0));
		json_add_number(g->answer, "uptime_us", facts->identity.uptime);
		json_add_hex(g->answer, "status", facts->identity.status, 1);
	}
	/* Not every device has what there is in identity: the counters say whether it answers. */
	end(g, 0);
}

void command_device(struct control_client *client, struct json_object *request)
{
	struct inbandd *d = control_daemon(client);
	const struct fabric_ops *ops = d->fabric->ops;
	struct gathering *g = begin(client, request);
	struct json_object *names = json_object_new_array();

	if (!g) {
		json_object_put(names);
		return;
	}
	for (unsigned i = 0; i < FABRIC_COUNTERS; i++)
		json_object_array_add(names, json_object_new_string(network_counter(d, i)));
	json_add(g->answer, "counters", names);
	json_add_number(g->answer, "now_us", ops->now(d->fabric) / 1000000);
	if (ops->identify) {
		g->open++;
		if (ops->identify(d->fabric, &g->device->target, have_identity, g))
			end(g, -ENOMEM);
	}
	g->open++;
	if (ops->counters(d->fabric, &g->device->target, have_counters, g))
		end(g, -ENOMEM);
	end(g, 0);
}

/* ---- registers by name ---- */

static const struct {
	const char *name;
	uint32_t address;
	bool switches; /* NRCs alone have it */
} registers[] = {
	{"id", REG_ID},
	{"status", REG_STATUS},
	{"temperature", REG_TEMPERATURE},
	{"uptime", REG_UPTIME},
	{"scratch 0", REG_SCRATCH0},
	{"scratch 1", REG_SCRATCH1},
	{"frame", REG_FRAME, true},
	{"fault enable", REG_FAULT_ENABLE},
	{"fault mask", REG_FAULT_MASK},
	{"fault status", REG_FAULT_STATUS},
	{"report to", REG_REPORT_TO},
	{"report route 0", REG_REPORT_ROUTE0},
	{"report route 1", REG_REPORT_ROUTE1},
	{"NMA requests", REG_NMA_REQUESTS},
	{"NMA errors", REG_NMA_ERRORS},
	{"NMA dropped", REG_NMA_DROPPED},
	{"NMA reports", REG_NMA_REPORTS},
	{"table index", REG_TABLE_INDEX, true},
};

static void have_register(void *arg, int status, const struct facts *facts)
{
	struct part *part = arg;
	struct json_object *entry;

	if (!status) {
		entry = json_object_new_object();
		json_add_text(entry, "name", part->name);
		json_add_number(entry, "address", part->address);
		json_add_hex(entry, "value", facts->value[0], 16);
		json_object_array_add(part->all->list, entry);
	}
	end(part->all, status);
	free(part);
}

static struct part *part_of(struct gathering *g)
{
	struct part *part = calloc(1, sizeof(*part));

	g->open++;
	if (part)
		part->all = g;
	else
		end(g, -ENOMEM);
	return part;
}

static void ask_register(struct gathering *g, const char *name, uint32_t address)
{
	struct fabric *f = g->pending->d->fabric;
	struct part *part = part_of(g);

	if (!part)
		return;
	part->name = name;
	part->address = address;
	if (f->ops->register_read(f, &g->device->target, address, 1, have_register, part)) {
		free(part);
		end(g, -ENOMEM);
	}
}

/* "port": the registers of that port, instead of the chip's. */
void command_registers(struct control_client *client, struct json_object *request)
{
	static const char *const of_port[] = {"link",		"handshakes",	  "retries",
					      "errors",		"sent",		  "received",
					      "sent flits",	"received flits", "waits",
					      "dropped",	"BIST control",	  "BIST time",
					      "BIST intensity", "BIST result",	  "BIST bits",
					      "control"};
	struct gathering *g;
	uint64_t port;
	int given = json_get_number(request, "port", FABRIC_PORTS - 1, &port);

	if (given < 0) {
		control_fail(client, "\"port\" is to be the number of a port");
		return;
	}
	g = begin(client, request);
	if (!g)
		return;
	for (unsigned i = 0; given && i < sizeof(of_port) / sizeof(of_port[0]); i++)
		ask_register(g, of_port[i], REG_PORT(port, i));
	for (unsigned i = 0; !given && i < sizeof(registers) / sizeof(registers[0]); i++)
		if (!registers[i].switches || g->device->target.type == NMP_NRC)
			ask_register(g, registers[i].name, registers[i].address);
	end(g, 0);
}

/* ---- where tables lead ---- */

static void ask_next(struct gathering *g);

static void have_route(void *arg, int status, const struct facts *facts)
{
	struct gathering *g = arg;
	struct json_object *entry = json_object_new_array(), *ports = json_object_new_array();

	for (unsigned p = 0; !status && p < g->device->nports; p++)
		if (port_set_has(&facts->output_ports, p))
			json_object_array_add(ports, json_object_new_int(p));
	json_object_array_add(entry, json_object_new_uint64(g->next++));
	json_object_array_add(entry, ports);
	json_object_array_add(g->list, entry);
	if (!status || status == -ENOENT)
		ask_next(g);
	end(g, status == -ENOENT ? 0 : status);
}

/* A node of each frame of the plan, since tables have an entry a frame; without frames, every node.
 * */
static bool is_asked_for(struct gathering *g, const struct device *to)
{
	uint64_t frame = g->frame_nodes ? to->target.id / g->frame_nodes : UINT64_MAX;

	if (to->target.type != NMP_NIC || (g->frame_nodes && frame == g->last_frame))
		return false;
	g->last_frame = frame;
	return true;
}

/* One after the other: they share the chip's index register. */
static void ask_next(struct gathering *g)
{
	const struct model *model = g->pending->d->model;
	struct fabric *f = g->pending->d->fabric;

	while (g->next < model->count && !is_asked_for(g, model->devices[g->next]))
		g->next++;
	if (g->next == model->count)
		return;
	g->open++;
	if (f->ops->route(f, &g->device->target, g->in_port, model->devices[g->next]->target.id,
			  have_route, g))
		end(g, -ENOMEM);
}

/* "port": by which packets come in. The list has the numbers of nodes in the page's model, and
 * their ports. */
void command_table(struct control_client *client, struct json_object *request)
{
	struct inbandd *d = control_daemon(client);
	uint64_t port = 0;
	struct gathering *g;

	if (json_get_number(request, "port", FABRIC_PORTS - 1, &port) < 0) {
		control_fail(client, "\"port\" is to be the number of a port");
		return;
	}
	g = begin(client, request);
	if (!g)
		return;
	g->in_port = port;
	g->frame_nodes = d->plan ? d->plan->frame_nodes : 0;
	g->last_frame = UINT64_MAX;
	json_add_number(g->answer, "frame_nodes", g->frame_nodes);
	if (g->device->target.type == NMP_NRC && port < g->device->nports)
		ask_next(g);
	end(g, 0);
}
