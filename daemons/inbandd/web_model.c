/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * All that is known, for the page: columns that JavaScript uses as typed arrays without looking at
 * each number, since a machine has 24,000 devices and 160,000 ports. Least byte first:
 *
 *	4 bytes		length of the head
 *	the head	JSON: what there is, and for each column its name, type, length and place
 *	columns		each at a multiple of 8 from the beginning
 *
 * Devices are those of the model by their numbers, then the plan's that were not found. Ports are
 * those of the first device, of the second and so on.
 */
#include <stdlib.h>
#include <string.h>

#include "daemons/common/json.h"
#include "daemons/inbandd/web.h"

#define DEVICE_MISSING 4 /* after enum device_state: the plan has it, and it was not found */

/* A port's state: enum neighbour_state, and these. */
#define PORT_LOST    4
#define PORT_TESTING 8
#define PORT_OPTICAL 16

enum column_id {
	TYPE,
	LAYER,
	ROW,
	FRAME,
	BOARD,
	POSITION,
	STATE,
	PORTS,
	CABINET,
	HOPS,
	ID,
	PEER,
	PEER_PORT,
	PORT_STATE,
	NAMES,
	COLUMNS
};

static const struct {
	const char *name, *type;
	uint8_t size;
	bool port;
} columns[COLUMNS] = {
	[TYPE] = {"type", "Uint8", 1},
	[LAYER] = {"layer", "Uint8", 1},
	[ROW] = {"row", "Uint8", 1},
	[FRAME] = {"frame", "Uint8", 1},
	[BOARD] = {"board", "Uint8", 1},
	[POSITION] = {"position", "Uint8", 1},
	[STATE] = {"state", "Uint8", 1},
	[PORTS] = {"ports", "Uint8", 1},
	[CABINET] = {"cabinet", "Uint16", 2},
	[HOPS] = {"hops", "Uint16", 2},
	[ID] = {"id", "BigUint64", 8},
	[PEER] = {"peer", "Uint32", 4, true},
	[PEER_PORT] = {"peerPort", "Uint8", 1, true},
	[PORT_STATE] = {"portState", "Uint8", 1, true},
	[NAMES] = {"names", "text", 1},
};

struct writing {
	const struct inbandd *d;
	uint32_t devices, ports;
	uint32_t device, port; /* that are written next */
	uint8_t *column[COLUMNS];
};

static bool is_found(const struct inbandd *d, uint32_t chip)
{
	return chip_device(d, chip) != NULL;
}

static void count(struct writing *w)
{
	const struct machine *plan = w->d->plan;

	for (uint32_t i = 0; w->d->model && i < w->d->model->count; i++) {
		w->devices++;
		w->ports += w->d->model->devices[i]->nports;
	}
	for (uint32_t i = 0; plan && i < plan->chip_count; i++)
		if (!is_found(w->d, i)) {
			w->devices++;
			w->ports += plan->chips[i].ports;
		}
}

static void put(struct writing *w, enum column_id id, uint64_t value)
{
	uint32_t at = columns[id].port ? w->port : w->device;

	memcpy(w->column[id] + (size_t)at * columns[id].size, &value, columns[id].size);
}

static void put_name(struct writing *w, const char *name)
{
	uint8_t *to = w->column[NAMES];
	size_t length = strlen(name);

	memcpy(to, name, length);
	to[length] = '\n';
	w->column[NAMES] = to + length + 1;
}

static void put_chip(struct writing *w, const struct machine_chip *c)
{
	static const struct machine_chip nowhere = {.layer = LAYER_OTHER, .row = ROW_NONE};

	c = c ?: &nowhere;
	put(w, LAYER, c->layer);
	put(w, ROW, c->row);
	put(w, FRAME, c->frame);
	put(w, BOARD, c->board);
	put(w, POSITION, c->position);
	put(w, CABINET, c->cabinet);
}

static void put_device(struct writing *w, const struct device *device)
{
	const struct machine *plan = w->d->plan;
	uint32_t chip = device_chip(w->d, device->number);
	const struct machine_chip *c = chip == MACHINE_NONE ? NULL : &plan->chips[chip];
	char name[MACHINE_NAME_LEN];

	put_chip(w, c);
	put(w, TYPE, device->target.type);
	put(w, ID, device->target.id);
	put(w, STATE, device->state);
	put(w, PORTS, device->nports);
	put(w, HOPS, device->hops);
	put_name(w, device_name(w->d, device->number, name));
	for (unsigned p = 0; p < device->nports; p++, w->port++) {
		const struct model_port *port = &device->port[p];
		bool optical = c && p < c->ports && plan->ports[c->first_port + p].optical;

		put(w, PEER, port->peer);
		put(w, PEER_PORT, port->peer_port);
		put(w, PORT_STATE,
		    port->state | (port->lost ? PORT_LOST : 0) |
			    (port->testing ? PORT_TESTING : 0) | (optical ? PORT_OPTICAL : 0));
	}
	w->device++;
}

static void put_missing(struct writing *w, uint32_t chip)
{
	const struct machine *plan = w->d->plan;
	const struct machine_chip *c = &plan->chips[chip];
	char name[MACHINE_NAME_LEN];

	put_chip(w, c);
	put(w, TYPE, c->type);
	put(w, ID, c->id);
	put(w, STATE, DEVICE_MISSING);
	put(w, PORTS, c->ports);
	put(w, HOPS, UINT16_MAX);
	put_name(w, machine_chip_name(plan, chip, name));
	for (unsigned p = 0; p < c->ports; p++, w->port++) {
		unsigned peer_port = 0;
		uint32_t peer = machine_peer(plan, chip, p, &peer_port);
		const struct device *at = peer == MACHINE_NONE ? NULL : chip_device(w->d, peer);

		put(w, PEER, at ? at->number : MODEL_NONE);
		put(w, PEER_PORT, peer_port);
		put(w, PORT_STATE, plan->ports[c->first_port + p].optical ? PORT_OPTICAL : 0);
	}
	w->device++;
}

/* What the back end can do: what it cannot, the page hides. */
static struct json_object *abilities(const struct fabric_ops *ops)
{
	const struct {
		const char *name;
		bool is;
	} all[] = {
		{"counters", ops->counters},	{"route", ops->route},
		{"tables", ops->tables_write},	{"registers", ops->register_read},
		{"write", ops->register_write}, {"eeprom", ops->eeprom_read},
		{"identify", ops->identify},
	};
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i].is)
			json_object_array_add(list, json_object_new_string(all[i].name));
	return list;
}

static struct json_object *head_json(const struct writing *w, const size_t *length,
				     const size_t *place)
{
	struct json_object *head = json_object_new_object(), *list = json_object_new_array();
	const struct inbandd *d = w->d;

	json_add_text(head, "network", d->fabric->ops->name);
	json_add_text(head, "plan", d->plan ? d->plan->name : "");
	json_add_number(head, "generation", d->generation);
	json_add_number(head, "event", events_latest(d->events));
	json_add_bool(head, "discovering", d->discovering);
	json_add_number(head, "devices", w->devices);
	json_add_number(head, "found", d->model ? d->model->count : 0);
	json_add_number(head, "switches", d->model ? d->model->switches : 0);
	json_add_number(head, "nodes", d->model ? d->model->nodes : 0);
	json_add_number(head, "links", d->model ? d->model->links : 0);
	json_add(head, "seconds", json_object_new_double(d->discovered.time / 1e12));
	json_add(head, "can", abilities(d->fabric->ops));
	for (unsigned i = 0; i < COLUMNS; i++) {
		struct json_object *column = json_object_new_object();

		json_add_text(column, "name", columns[i].name);
		json_add_text(column, "type", columns[i].type);
		json_add_number(column, "length", length[i]);
		json_add_number(column, "at", place[i]);
		json_object_array_add(list, column);
	}
	json_add(head, "columns", list);
	return head;
}

static void write_all(struct writing *w)
{
	const struct inbandd *d = w->d;

	for (uint32_t i = 0; d->model && i < d->model->count; i++)
		put_device(w, d->model->devices[i]);
	for (uint32_t i = 0; d->plan && i < d->plan->chip_count; i++)
		if (!is_found(d, i))
			put_missing(w, i);
}

void *web_model(const struct inbandd *d, size_t *size)
{
	struct writing w = {.d = d};
	size_t length[COLUMNS], place[COLUMNS], end = 0, text;
	struct json_object *head;
	const char *json;
	uint8_t *data, *names;
	uint32_t head_length;

	count(&w);
	for (unsigned i = 0; i < COLUMNS; i++) {
		length[i] = columns[i].port ? w.ports
			    : i == NAMES    ? (size_t)w.devices * MACHINE_NAME_LEN
					    : w.devices;
		place[i] = end;
		end = (end + length[i] * columns[i].size + 7) & ~7ul;
	}
	data = calloc(1, end + 8);
	if (!data)
		return NULL;
	for (unsigned i = 0; i < COLUMNS; i++)
		w.column[i] = data + place[i];
	names = w.column[NAMES];
	write_all(&w);
	length[NAMES] = w.column[NAMES] - names;
	end = place[NAMES] + length[NAMES];

	/* The head knows its columns' places from its own end. */
	head = head_json(&w, length, place);
	json = json_object_to_json_string_ext(head, JSON_C_TO_STRING_PLAIN);
	text = json ? strlen(json) : 0;
	head_length = (text + 4 + 7) / 8 * 8 - 4;
	names = json ? malloc(4 + head_length + end) : NULL;
	if (names) {
		memcpy(names, &head_length, 4);
		memcpy(names + 4, json, text);
		memset(names + 4 + text, ' ', head_length - text);
		memcpy(names + 4 + head_length, data, end);
		*size = 4 + head_length + end;
	}
	json_object_put(head);
	free(data);
	return names;
}
