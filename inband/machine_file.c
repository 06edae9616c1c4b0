/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Machines from a file, and small ones made for tests. A file is JSON:
 *
 *	{"machine": "th2"}					one that is built in, or
 *	{"machine": "mine",
 *	 "chips": [{"type": "nrc", "id": 0, "name": "sw0", "ports": 24},
 *		   {"type": "nic", "id": 0, "layer": 0, "place": [0, 7, 2, 1, 0]}, {"type": "server", "id": 1}],
 *	 "cables": [["sw0:0", "nic:0:0"], ["nrc:0:1", "nic:1:0", "optical"]]}
 *
 * A place is row (0 computers, 1 leaf, 2 root cabinets), cabinet, frame, board, position on it.
 * A chip's name is what it says, or nrc:ID, or nic:ID. Any thread.
 */
#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "inband/machine.h"
#include "inband/registers.h"

#define MAX_CHIPS (1u << 20)

struct reader {
	struct machine *m;
	struct hsearch_data names;
	char *error;
	size_t length;
};

static int fail(struct reader *r, const char *format, const char *what, size_t at)
{
	snprintf(r->error, r->length, format, what, at);
	return -EINVAL;
}

static const char *text_of(struct json_object *object, const char *key)
{
	struct json_object *value = json_object_object_get(object, key);

	return json_object_is_type(value, json_type_string) ? json_object_get_string(value) : NULL;
}

/* An unsigned number below limit; otherwise < 0. */
static int64_t number_of(struct json_object *object, const char *key, int64_t absent, int64_t limit)
{
	struct json_object *value = json_object_object_get(object, key);
	int64_t number;

	if (!value)
		return absent;
	if (!json_object_is_type(value, json_type_int))
		return -1;
	number = json_object_get_int64(value);
	return number < limit ? number : -1;
}

bool machine_is_name(const char *text)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

	return *text && strlen(text) < MACHINE_NAME_LEN && !text[strspn(text, letters)];
}

/* "place": [row, cabinet, frame, board, position], and "layer". */
static bool place_of(struct json_object *entry, struct machine_chip *chip)
{
	struct json_object *place = json_object_object_get(entry, "place");
	static const int64_t most[5] = {ROW_NONE, UINT16_MAX, UINT8_MAX, UINT8_MAX, UINT8_MAX};
	int64_t layer = number_of(entry, "layer", LAYER_OTHER, LAYERS), value[5];

	chip->layer = layer;
	if (!place)
		return layer >= 0;
	if (layer < 0 || !json_object_is_type(place, json_type_array) ||
	    json_object_array_length(place) != 5)
		return false;
	for (unsigned i = 0; i < 5; i++) {
		value[i] = json_object_get_int64(json_object_array_get_idx(place, i));
		if (value[i] < 0 || value[i] > most[i])
			return false;
	}
	chip->row = value[0];
	chip->cabinet = value[1];
	chip->frame = value[2];
	chip->board = value[3];
	chip->position = value[4];
	return true;
}

static int add_chip(struct reader *r, struct json_object *entry, size_t at, bool servers)
{
	const char *type = text_of(entry, "type"), *name = text_of(entry, "name");
	int64_t id = number_of(entry, "id", -1, NMP_NO_ID);
	struct machine_chip chip = {.row = ROW_NONE, .layer = LAYER_OTHER, .ports = 1};
	ENTRY item = {.key = (char *)(uintptr_t)name}, *found;
	bool server = type && !strcmp(type, "server");
	int64_t ports;

	if (!type || (strcmp(type, "nrc") && strcmp(type, "nic") && !server))
		return fail(r, "%s %zu: \"type\" is to be nrc, nic or server", "chips", at);
	if (server != servers)
		return 0;
	chip.type = !strcmp(type, "nrc") ? NMP_NRC : NMP_NIC;
	ports = number_of(entry, "ports", chip.type == NMP_NRC ? MACHINE_NRC_PORTS : 1,
			  MACHINE_NRC_PORTS + 1);
	if (id < 0 || ports < 1 || (chip.type == NMP_NIC && ports != 1))
		return fail(r, "%s %zu: \"id\" below 1048575 and 1 to 24 ports are needed", "chips",
			    at);
	chip.id = id;
	chip.ports = ports;
	if (!place_of(entry, &chip))
		return fail(
			r,
			"%s %zu: \"place\" is [row, cabinet, frame, board, position], \"layer\" a "
			"number",
			"chips", at);
	if (name) {
		if (!machine_is_name(name))
			return fail(r, "%s %zu: a name has 1 to 31 letters, digits, dots, - or _",
				    "chips", at);
		chip.name = name;
		item.data = (void *)(uintptr_t)(r->m->chip_count + 1);
		if (!hsearch_r(item, ENTER, &found, &r->names) || found->data != item.data)
			return fail(r, "%s %zu: that name has been given before", "chips", at);
	}
	machine_add(r->m, &chip);
	r->m->servers += server;
	r->m->nics -= server;
	return 0;
}

static uint32_t end_of(struct reader *r, const char *text, unsigned *port)
{
	char name[64];
	const char *colon = text ? strrchr(text, ':') : NULL;
	ENTRY item = {.key = name}, *found;
	unsigned id;
	uint32_t chip = MACHINE_NONE;
	char type[4];
	int end = 0;

	if (!colon || colon == text || colon - text >= 64 ||
	    sscanf(colon + 1, "%u%n", port, &end) != 1 || colon[1 + end])
		return MACHINE_NONE;
	memcpy(name, text, colon - text);
	name[colon - text] = 0;
	if (hsearch_r(item, FIND, &found, &r->names))
		chip = (uintptr_t)found->data - 1;
	else if (sscanf(name, "%3[a-z]:%u%n", type, &id, &end) == 2 && !name[end])
		chip = machine_find(r->m, strcmp(type, "nrc") ? NMP_NIC : NMP_NRC, id);
	return chip != MACHINE_NONE && *port < r->m->chips[chip].ports ? chip : MACHINE_NONE;
}

static int add_cable(struct reader *r, struct json_object *entry, size_t at)
{
	unsigned port[2];
	uint32_t chip[2];

	if (!json_object_is_type(entry, json_type_array) || json_object_array_length(entry) < 2)
		return fail(r, "%s %zu: two ends are needed, [\"a:0\", \"b:0\"]", "cables", at);
	for (unsigned i = 0; i < 2; i++) {
		struct json_object *end = json_object_array_get_idx(entry, i);

		chip[i] = end_of(r,
				 json_object_is_type(end, json_type_string)
					 ? json_object_get_string(end)
					 : NULL,
				 &port[i]);
		if (chip[i] == MACHINE_NONE)
			return fail(r, "%s %zu: an end is no CHIP:PORT of this machine", "cables",
				    at);
		if (r->m->ports[machine_port_of(r->m, chip[i], port[i])].peer != MACHINE_NONE)
			return fail(r, "%s %zu: a port has a cable already", "cables", at);
	}
	if (chip[0] == chip[1])
		return fail(r, "%s %zu: both ends are on one chip", "cables", at);
	machine_cable(r->m, chip[0], port[0], chip[1], port[1],
		      json_object_array_length(entry) > 2);
	return 0;
}

static int build(struct reader *r, struct json_object *root)
{
	struct json_object *chips = json_object_object_get(root, "chips"),
			   *cables = json_object_object_get(root, "cables");
	size_t nchips, ncables;
	const char *name;
	int ret;

	if (!json_object_is_type(chips, json_type_array) ||
	    !json_object_is_type(cables, json_type_array))
		return fail(r, "%s%.0zu", "\"chips\" and \"cables\" are to be arrays", 0);
	nchips = json_object_array_length(chips);
	ncables = json_object_array_length(cables);
	if (nchips > MAX_CHIPS)
		return fail(r, "%s of at most %zu", "chips", (size_t)MAX_CHIPS);
	if (!hcreate_r(2 * nchips + 8, &r->names))
		return -ENOMEM;
	name = text_of(root, "machine");
	ret = machine_begin(name && machine_is_name(name) ? name : "file", nchips + 1, &r->m);
	if (!ret) {
		int64_t nodes = number_of(root, "frame_nodes", TABLE_LOCAL, TABLE_LOCAL + 1);

		if (nodes < 1)
			ret = fail(r, "%s%.0zu", "\"frame_nodes\" is to be 1 to 32", 0);
		r->m->frame_nodes = nodes;
	}
	/* Management NICs come last. */
	for (unsigned servers = 0; servers < 2 && !ret; servers++)
		for (size_t i = 0; i < nchips && !ret; i++)
			ret = add_chip(r, json_object_array_get_idx(chips, i), i, servers);
	if (!ret && machine_end(r->m))
		ret = fail(r, "%s%.0zu", "two chips of a type have one ID", 0);
	for (size_t i = 0; i < ncables && !ret; i++)
		ret = add_cable(r, json_object_array_get_idx(cables, i), i);
	hdestroy_r(&r->names);
	return ret;
}

/* The chips' names belong to the JSON until now. */
static int keep_names(struct machine *m)
{
	char *at = m->texts = calloc(m->chip_count + 1, MACHINE_NAME_LEN);

	if (!at)
		return -ENOMEM;
	for (uint32_t i = 0; i < m->chip_count; i++, at += MACHINE_NAME_LEN)
		if (m->chips[i].name)
			m->chips[i].name = strcpy(at, m->chips[i].name);
	return 0;
}

int machine_read(FILE *file, struct machine **machine, char *error, size_t length)
{
	struct reader reader = {.error = error, .length = length};
	struct json_tokener *tokener = json_tokener_new_ex(8);
	struct json_object *root = NULL;
	const char *builtin;
	char text[65536];
	size_t n;
	int ret = tokener ? 0 : -ENOMEM;

	snprintf(error, length, "no memory");
	while (!ret && !root && (n = fread(text, 1, sizeof(text), file))) {
		root = json_tokener_parse_ex(tokener, text, n);
		if (!root && json_tokener_get_error(tokener) != json_tokener_continue)
			ret = fail(&reader, "%s%.0zu",
				   json_tokener_error_desc(json_tokener_get_error(tokener)), 0);
	}
	if (!ret && !json_object_is_type(root, json_type_object))
		ret = fail(&reader, "%s%.0zu", "no JSON object in it", 0);
	builtin = ret ? NULL : text_of(root, "machine");
	if (builtin && !json_object_object_get(root, "chips"))
		ret = strcmp(builtin, "th2") && strncmp(builtin, "tree:", 5)
			      ? fail(&reader, "machine %s is not built in%.0zu", builtin, 0)
			      : machine_load(builtin, 1, &reader.m, error, length);
	else if (!ret) {
		ret = build(&reader, root);
		if (!ret)
			ret = keep_names(reader.m);
	}
	json_object_put(root);
	if (tokener)
		json_tokener_free(tokener);
	if (ret)
		machine_destroy(reader.m);
	else
		*machine = reader.m;
	return ret;
}

int machine_load(const char *what, unsigned servers, struct machine **machine, char *error,
		 size_t length)
{
	unsigned g, f, l, r;
	FILE *file;
	int ret;

	if (!strcmp(what, "th2") || sscanf(what, "tree:%u,%u,%u,%u", &g, &f, &l, &r) == 4) {
		ret = what[1] == 'h' ? machine_th2(servers, machine)
				     : machine_tree(g, f, l, r, servers, machine);
		if (ret)
			snprintf(error, length, "%s",
				 ret == -EINVAL ? "tree:GROUPS,FRAMES,LEAVES,ROOTS goes up to "
						  "24,12,10,120, "
						  "servers to 8 and the nodes of a frame"
						: strerror(-ret));
		return ret;
	}
	file = fopen(what, "re");
	if (!file) {
		ret = -errno;
		snprintf(error, length,
			 "%s: %s; built in are th2 and tree:GROUPS,FRAMES,LEAVES,ROOTS", what,
			 strerror(errno));
		return ret;
	}
	ret = machine_read(file, machine, error, length);
	fclose(file);
	return ret;
}

int machine_write(const struct machine *m, FILE *file)
{
	char name[MACHINE_NAME_LEN], peer_name[MACHINE_NAME_LEN];
	const char *comma = "";

	fprintf(file, "{\"machine\": \"%s\", \"frame_nodes\": %u,\n \"chips\": [", m->name,
		m->frame_nodes);
	for (uint32_t i = 0; i < m->chip_count; i++) {
		const struct machine_chip *c = &m->chips[i];
		const char *type = i >= m->chip_count - m->servers ? "server"
				   : c->type == NMP_NRC		   ? "nrc"
								   : "nic";

		fprintf(file, "%s\n  {\"type\": \"%s\", \"id\": %u, \"ports\": %u", comma, type,
			c->id, c->ports);
		if (!strchr(machine_chip_name(m, i, name), ':'))
			fprintf(file, ", \"name\": \"%s\"", machine_chip_name(m, i, name));
		if (c->layer != LAYER_OTHER)
			fprintf(file, ", \"layer\": %u", c->layer);
		if (c->row != ROW_NONE)
			fprintf(file, ", \"place\": [%u, %u, %u, %u, %u]", c->row, c->cabinet,
				c->frame, c->board, c->position);
		fputs("}", file);
		comma = ",";
	}
	fputs("],\n \"cables\": [", file);
	comma = "";
	for (uint32_t i = 0; i < m->port_count; i++) {
		const struct machine_port *a = &m->ports[i];
		unsigned port;
		uint32_t peer;

		if (a->peer == MACHINE_NONE || a->peer < i)
			continue;
		peer = machine_peer(m, a->chip, i - m->chips[a->chip].first_port, &port);
		fprintf(file, "%s\n  [\"%s:%u\", \"%s:%u\"%s]", comma,
			machine_chip_name(m, a->chip, name), i - m->chips[a->chip].first_port,
			machine_chip_name(m, peer, peer_name), port,
			a->optical ? ", \"optical\"" : "");
		comma = ",";
	}
	fputs("]}\n", file);
	return ferror(file) ? -EIO : 0;
}
