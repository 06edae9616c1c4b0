// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What urxe fabric may ask for: {"command":"show"}, "link", "node", "vf", "down". The loop's
 * thread.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/common/json.h"
#include "daemons/fabricd/fabricd.h"
#include "fabric/ip.h"
#include "fabric/names.h"

#define ERROR_LEN 192

static struct fabricd *daemon_of(struct control_client *client)
{
	return control_daemon(client);
}

/* ---- show ---- */

static const char *state_name(const struct fabric_port *port)
{
	static const char *const names[] = {"?", "Down", "Init", "Armed", "Active"};
	uint8_t state = fabric_port_state(port);

	return port->disabled ? "off" : names[state <= PORT_ACTIVE ? state : 0];
}

static void add_desc(struct json_object *to, const char *key, const struct fabric_node *node)
{
	char desc[FABRIC_DESC_LEN + 1];

	memcpy(desc, node->desc, FABRIC_DESC_LEN);
	desc[FABRIC_DESC_LEN] = '\0';
	json_add_text(to, key, desc);
}

static const char *type_name(const struct fabric_node *node)
{
	return node->type == NODE_SWITCH   ? "switch"
	       : node->type == NODE_ROUTER ? "router"
					   : "adapter";
}

static unsigned lanes(uint8_t width)
{
	static const struct {
		uint8_t bit, lanes;
	} widths[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};

	for (unsigned i = 0; i < sizeof(widths) / sizeof(*widths); i++)
		if (widths[i].bit == width)
			return widths[i].lanes;
	return 4;
}

static void add_ip(struct json_object *o, const struct fabric_map *map, uint32_t port)
{
	struct in_addr ip = {htobe32(fabric_ip_of_port(map, port))};
	char text[INET_ADDRSTRLEN];

	if (ip.s_addr && inet_ntop(AF_INET, &ip, text, sizeof(text)))
		json_add_text(o, "ip", text);
}

/* Of what leaves there. */
static void add_faults(struct json_object *o, const struct fabric_port *port)
{
	if (port->loss)
		json_add(o, "loss", json_object_new_double(port->loss / 4294967296.0));
	if (port->corruption)
		json_add(o, "symbol", json_object_new_double(port->corruption / 4294967296.0));
	if (port->delay)
		json_add(o, "delay", json_object_new_int64((int64_t)port->delay));
}

static struct json_object *show_port(struct fabric *f, const struct fabric_port *port)
{
	struct json_object *o = json_object_new_object();
	const struct fabric_port *peer = port_at(f, port->peer);

	json_add_number(o, "port", port->num);
	json_add_number(o, "lid", fabric_port_lid(port));
	add_ip(o, f->map, index_of(f, port));
	json_add_text(o, "state", state_name(port));
	json_add_number(o, "width", lanes(port->info[PI_WIDTH_ACTIVE]));
	json_add_text(o, "speed", topology_speeds[fabric_port_speed(port)]);
	add_desc(o, "peer", node_of(f, peer));
	json_add_hex(o, "peer_guid", node_of(f, peer)->guid, 16);
	json_add_number(o, "peer_port", peer->num);
	add_faults(o, port);
	return o;
}

static struct json_object *show_node(struct fabric *f, const struct fabric_node *node)
{
	struct json_object *o = json_object_new_object(), *ports = json_object_new_array();
	char host[FABRIC_DESC_LEN + 1];

	add_desc(o, "node", node);
	json_add_text(o, "type", type_name(node));
	json_add_hex(o, "guid", node->guid, 16);
	json_add_number(o, "ports", node->num_ports);
	if (node->type == NODE_SWITCH) {
		json_add_number(o, "lid", fabric_port_lid(fabric_node_port(f->map, node, 0)));
	} else {
		names_host_of(node, host);
		json_add_text(o, "host", host);
		if (node->function)
			json_add_number(o, "function", node->function);
	}
	for (int i = 1; i <= node->num_ports; i++) {
		const struct fabric_port *port = fabric_node_port(f->map, node, i);

		if (port->peer != FABRIC_NONE && ports)
			json_object_array_add(ports, show_port(f, port));
	}
	json_add(o, "cables", ports);
	return o;
}

struct client_state {
	uint32_t next_node;
	const struct fabric_node *virtual_switch; /* functions of this one only; NULL: all */
};

static bool more_nodes(struct control_client *client)
{
	struct fabric *f = &daemon_of(client)->server.fabric;
	struct client_state *state = control_state(client);

	for (int i = 0; i < 16 && state->next_node < f->map->num_nodes; i++)
		control_send(client, show_node(f, fabric_map_node(f->map, state->next_node++)));
	if (state->next_node < f->map->num_nodes)
		return true;
	control_ok(client, json_object_new_object());
	return false;
}

static void show(struct control_client *client, struct json_object *request)
{
	struct fabric *f = &daemon_of(client)->server.fabric;
	const char *name = NULL;
	char error[ERROR_LEN];
	struct fabric_node *node;

	if (!json_get_text(request, "node", &name)) {
		control_fail(client, "node: a text");
		return;
	}
	if (name) {
		node = names_node(f->map, name, error, sizeof(error));
		if (!node) {
			control_fail(client, "%s", error);
			return;
		}
		control_send(client, show_node(f, node));
		control_ok(client, json_object_new_object());
		return;
	}
	((struct client_state *)control_state(client))->next_node = 0;
	control_stream(client, more_nodes);
}

/* ---- changes ---- */

static struct fabric_node *asked_node(struct control_client *client, struct json_object *request)
{
	const char *name = NULL;
	char error[ERROR_LEN] = "node: its name is missing";
	struct fabric_node *node = NULL;

	if (json_get_text(request, "node", &name) && name)
		node = names_node(daemon_of(client)->server.fabric.map, name, error, sizeof(error));
	if (!node)
		control_fail(client, "%s", error);
	return node;
}

/* 1: up, 0: down, -1 after an error. */
static int asked_state(struct control_client *client, struct json_object *request)
{
	const char *state = NULL;

	if (json_get_text(request, "state", &state) && state) {
		if (!strcmp(state, "up"))
			return 1;
		if (!strcmp(state, "down"))
			return 0;
	}
	control_fail(client, "state: \"up\" or \"down\"");
	return -1;
}

static struct fabric_port *asked_port(struct control_client *client, struct json_object *request,
				      struct fabric_node *node)
{
	struct fabric *f = &daemon_of(client)->server.fabric;
	uint64_t num;

	if (json_get_number(request, "port", node->num_ports, &num) != 1 || !num) {
		control_fail(client, "port: a number from 1 to %u", node->num_ports);
		return NULL;
	}
	return fabric_node_port(f->map, node, num);
}

static void done(struct control_client *client)
{
	struct fabricd *d = daemon_of(client);

	fabric_run(&d->server.fabric);
	fabricd_serve(d);
	control_ok(client, json_object_new_object());
}

static void link_command(struct control_client *client, struct json_object *request)
{
	struct fabric *f = &daemon_of(client)->server.fabric;
	struct fabric_node *node = asked_node(client, request);
	struct fabric_port *port = node ? asked_port(client, request, node) : NULL;
	int up = port ? asked_state(client, request) : -1;

	if (up < 0)
		return;
	if (port->peer == FABRIC_NONE) {
		control_fail(client, "there is no cable at that port");
		return;
	}
	link_set(f, port, up);
	if (up) /* whichever end it was taken down at */
		link_set(f, port_at(f, port->peer), up);
	done(client);
}

static void node_command(struct control_client *client, struct json_object *request)
{
	struct fabric *f = &daemon_of(client)->server.fabric;
	struct fabric_node *node = asked_node(client, request);
	int up = node ? asked_state(client, request) : -1;

	if (up < 0)
		return;
	link_node_set(f, node, up);
	done(client);
}

/* ---- virtual functions ---- */

static struct json_object *show_function(struct fabric *f, const struct fabric_node *node)
{
	const struct fabric_port *port = fabric_node_port(f->map, node, 1);
	struct json_object *o = json_object_new_object();

	add_desc(o, "node", node);
	if (port->peer != FABRIC_NONE)
		add_desc(o, "switch", node_of(f, port_at(f, port->peer)));
	json_add_number(o, "function", node->function);
	json_add_hex(o, "guid", port->guid, 16);
	json_add_number(o, "lid", fabric_port_lid(port));
	json_add_text(o, "state", state_name(port));
	return o;
}

static bool more_functions(struct control_client *client)
{
	struct fabric *f = &daemon_of(client)->server.fabric;
	struct client_state *state = control_state(client);

	for (int i = 0; i < 64 && state->next_node < f->map->num_nodes; i++) {
		const struct fabric_node *node = fabric_map_node(f->map, state->next_node++);

		if (node->function &&
		    (!state->virtual_switch || function_switch(f, node) == state->virtual_switch))
			control_send(client, show_function(f, node));
	}
	if (state->next_node < f->map->num_nodes)
		return true;
	control_ok(client, json_object_new_object());
	return false;
}

/* All functions, or those of a host. */
static void list_functions(struct control_client *client, struct json_object *request)
{
	struct client_state *state = control_state(client);
	struct fabric_node *node;

	state->next_node = 0;
	state->virtual_switch = NULL;
	if (json_object_object_get_ex(request, "node", NULL)) {
		node = asked_node(client, request);
		if (!node)
			return;
		state->virtual_switch = function_switch(&daemon_of(client)->server.fabric, node);
	}
	control_stream(client, more_functions);
}

/* The function that a request names: by its number at a host or virtual switch, or as a node
 * itself. */
static struct fabric_node *asked_function(struct control_client *client,
					  struct json_object *request)
{
	struct fabric *f = &daemon_of(client)->server.fabric;
	struct fabric_node *node = asked_node(client, request), *found;
	uint64_t num = 0;

	if (!node)
		return NULL;
	if (json_get_number(request, "function", FABRIC_MAX_PORTS, &num) < 0) {
		control_fail(client, "function: a number from 1 to %d", FABRIC_MAX_PORTS);
		return NULL;
	}
	found = num || !node->function ? function_find(f, node, num) : node;
	if (!found)
		control_fail(client, "there is no virtual function of that number: "
				     "urxe fabric vf lists them");
	return found;
}

/* 0: set or left alone, -1 after an error. */
static int asked_guid(struct control_client *client, struct json_object *request,
		      struct fabric_node *node, uint64_t *guid)
{
	struct fabric *f = &daemon_of(client)->server.fabric;
	const struct fabric_port *other;
	const char *text = NULL;
	char name[FABRIC_DESC_LEN + 1], *end;

	*guid = node->guid;
	if (!json_get_text(request, "guid", &text)) {
		control_fail(client, "guid: a text");
		return -1;
	}
	if (!text)
		return 0;
	*guid = strtoull(text, &end, 16);
	if (*end || end == text) {
		control_fail(client, "guid: 64 bits in hexadecimal, 0 for none");
		return -1;
	}
	other = *guid ? function_other(f, node, *guid) : NULL;
	if (!other || json_get_flag(request, "force"))
		return 0;
	names_host_of(node_of(f, other), name);
	control_fail(client, "a port of %s has that GUID; clear it there first, or use --force",
		     name);
	return -1;
}

static bool changes_function(struct json_object *request)
{
	static const char *const changes[] = {"function", "guid", "name", "state"};

	for (unsigned i = 0; i < sizeof(changes) / sizeof(*changes); i++)
		if (json_object_object_get_ex(request, changes[i], NULL))
			return true;
	return false;
}

static void change_function(struct control_client *client, struct json_object *request)
{
	struct fabric *f = &daemon_of(client)->server.fabric;
	struct fabric_node *node = asked_function(client, request);
	const char *name = NULL;
	uint64_t guid;
	int up = -1;

	if (!node || asked_guid(client, request, node, &guid))
		return;
	if (!json_get_text(request, "name", &name) || (name && !*name)) {
		control_fail(client, "name: a text that is not empty");
		return;
	}
	if (json_object_object_get_ex(request, "state", NULL) &&
	    (up = asked_state(client, request)) < 0)
		return;
	if (name)
		function_set_desc(f, node, name);
	if (up == 0)
		function_enable(f, node, false);
	function_set_guid(f, node, guid);
	if (up == 1)
		function_enable(f, node, true);
	fabric_run(f);
	fabricd_serve(daemon_of(client));
	control_send(client, show_function(f, node));
	control_ok(client, json_object_new_object());
}

static void function_command(struct control_client *client, struct json_object *request)
{
	if (changes_function(request))
		change_function(client, request);
	else
		list_functions(client, request);
}

static bool asked_share(struct json_object *request, const char *key, double *share)
{
	struct json_object *v;

	*share = 0;
	if (!json_object_object_get_ex(request, key, &v))
		return true;
	*share = json_object_get_double(v);
	return *share >= 0 && *share <= 1;
}

static bool asked_delay(struct json_object *request, uint64_t *delay)
{
	struct json_object *v;
	int64_t ns;

	*delay = 0;
	if (!json_object_object_get_ex(request, "delay", &v))
		return true;
	ns = json_object_get_int64(v);
	*delay = ns;
	return json_object_is_type(v, json_type_int) && ns >= 0 && ns <= (int64_t)LINK_MAX_DELAY;
}

static void errors(struct control_client *client, struct json_object *request)
{
	struct fabric_node *node = asked_node(client, request);
	struct fabric_port *port = node ? asked_port(client, request, node) : NULL;
	double loss, symbol;
	uint64_t delay;

	if (!port)
		return;
	if (!asked_share(request, "loss", &loss) || !asked_share(request, "symbol", &symbol)) {
		control_fail(client, "loss, symbol: a share from 0 to 1 of the packets");
		return;
	}
	if (!asked_delay(request, &delay)) {
		control_fail(client, "delay: nanoseconds, at most 10000000000");
		return;
	}
	if (port->peer == FABRIC_NONE) {
		control_fail(client, "there is no cable at that port");
		return;
	}
	link_set_faults(&daemon_of(client)->server.fabric, port, loss, symbol, delay);
	done(client);
}

static void status(struct control_client *client, struct json_object *request)
{
	struct server *s = &daemon_of(client)->server;
	struct json_object *o = json_object_new_object();

	json_add_text(o, "name", s->fabric.map->name);
	json_add_number(o, "nodes", s->fabric.map->num_nodes);
	json_add_number(o, "smps", s->fabric.smps);
	json_add_number(o, "reregistered", s->fabric.reregistered);
	json_add_number(o, "mads_of_programs", s->mads);
	control_ok(client, o);
}

static void quit(evutil_socket_t fd, short what, void *arg)
{
	loop_quit(&((struct fabricd *)arg)->loop);
}

static void down(struct control_client *client, struct json_object *request)
{
	struct fabricd *d = daemon_of(client);
	const struct timeval soon = {.tv_usec = 20000}; /* when the answer is on its way */

	control_ok(client, json_object_new_object());
	event_base_once(d->loop.base, -1, EV_TIMEOUT, quit, d, &soon);
}

const struct control_command fabricd_commands[] = {
	{"show", show},	    {"link", link_command},   {"node", node_command},
	{"errors", errors}, {"vf", function_command}, {"status", status},
	{"down", down},
};
const unsigned fabricd_num_commands = sizeof(fabricd_commands) / sizeof(*fabricd_commands);
const size_t fabricd_client_state = sizeof(struct client_state);
