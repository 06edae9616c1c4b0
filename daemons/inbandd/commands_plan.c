/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The plan, as it is edited: names, places, and what is to be cabled to what. What was discovered
 * is not touched. Each change is a copy of the plan that takes the other's place, in memory when it
 * is in its file. The loop's thread.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemons/common/json.h"
#include "daemons/common/log.h"
#include "daemons/inbandd/commands.h"

/* Beside the old one, which it replaces when it is whole. */
static int save(const struct machine *plan, const char *path)
{
	char beside[300];
	FILE *file;
	int ret;

	snprintf(beside, sizeof(beside), "%s.new", path);
	file = fopen(beside, "we");
	if (!file)
		return -errno;
	ret = machine_write(plan, file);
	if (!ret && (fflush(file) || fsync(fileno(file))))
		ret = -errno;
	if (fclose(file) && !ret)
		ret = -errno;
	if (!ret && rename(beside, path))
		ret = -errno;
	if (ret)
		unlink(beside);
	return ret;
}

static bool get_part(struct json_object *request, const char *key, uint64_t most, uint64_t was,
		     uint64_t *value)
{
	int given = json_get_number(request, key, most, value);

	if (!given)
		*value = was;
	return given >= 0;
}

static const char *move(struct machine *plan, uint32_t chip, struct json_object *request)
{
	struct machine_chip to = plan->chips[chip];
	uint64_t row, cabinet, frame, board, position;

	if (!get_part(request, "row", ROW_NONE, to.row, &row) ||
	    !get_part(request, "cabinet", UINT16_MAX, to.cabinet, &cabinet) ||
	    !get_part(request, "frame", UINT8_MAX, to.frame, &frame) ||
	    !get_part(request, "board", UINT8_MAX, to.board, &board) ||
	    !get_part(request, "position", UINT8_MAX, to.position, &position))
		return "a place is numbers: row (0 computers, 1 leaf, 2 root, 3 none), cabinet, "
		       "frame, board, position";
	if (row == to.row && cabinet == to.cabinet && frame == to.frame && board == to.board &&
	    position == to.position)
		return NULL;
	to.row = row;
	to.cabinet = cabinet;
	to.frame = frame;
	to.board = board;
	to.position = position;
	machine_move(plan, chip, &to);
	return NULL;
}

static const char *rename_chip(struct machine *plan, uint32_t chip, struct json_object *request)
{
	const char *name = NULL;

	if (!json_get_text(request, "name", &name))
		return "\"name\" is to be a text";
	switch (name ? machine_rename(plan, chip, name) : 0) {
	case 0: return NULL;
	case -EEXIST: return "another chip has that name";
	default: return "a name has 1 to 31 letters, digits, dots, - or _";
	}
}

static const char *recable(struct machine *plan, uint32_t chip, struct json_object *request)
{
	const char *to = NULL;
	uint32_t peer = MACHINE_NONE;
	unsigned peer_port = 0;
	uint64_t port;

	if (!json_get_text(request, "to", &to) || !to)
		return NULL;
	if (json_get_number(request, "port", plan->chips[chip].ports - 1, &port) <= 0)
		return "\"port\" is to be one of the chip's";
	if (to[0]) {
		peer = machine_find_name(plan, to, &peer_port);
		if (peer == MACHINE_NONE)
			return "\"to\" is to be CHIP:PORT of the plan, or empty for no cable";
	}
	return machine_recable(plan, chip, port, peer, peer_port) ? "both ends are on one chip"
								  : NULL;
}

static void take(struct inbandd *d, struct machine *plan)
{
	machine_destroy(d->plan);
	d->plan = plan;
	events_tell(d->events, "plan", json_object_new_object());
}

/* "chip"; "name"; "row", "cabinet", "frame", "board", "position"; "port" and "to". */
void command_edit(struct control_client *client, struct json_object *request)
{
	struct inbandd *d = control_daemon(client);
	const char *name = NULL, *why = NULL;
	struct machine *plan = NULL;
	uint32_t chip;
	int ret;

	if (!d->plan || !d->config.plan_file[0]) {
		control_fail(client, "there is no plan that may be edited: set plan and plan_file");
		return;
	}
	/* What is under way may be reading it. */
	if (d->users || d->loading) {
		control_fail(client, "something is under way: try again when it has ended");
		return;
	}
	if (!json_get_text(request, "chip", &name) || !name ||
	    (chip = machine_find_name(d->plan, name, NULL)) == MACHINE_NONE) {
		control_fail(client, "which chip of the plan?");
		return;
	}
	ret = machine_copy(d->plan, &plan);
	if (!ret)
		why = rename_chip(plan, chip, request) ?: move(plan, chip, request);
	if (!ret && !why)
		why = recable(plan, chip, request);
	if (!ret && !why)
		ret = save(plan, d->config.plan_file);
	if (ret || why) {
		machine_destroy(plan);
		control_fail(client, "%s", why ?: strerror(-ret));
		return;
	}
	take(d, plan);
	control_ok(client, json_object_new_object());
}

static void add_cable(const struct machine *plan, struct json_object *list, uint32_t chip,
		      unsigned port)
{
	char name[MACHINE_NAME_LEN], text[MACHINE_NAME_LEN + 16] = "";
	unsigned peer_port;
	uint32_t peer = machine_peer(plan, chip, port, &peer_port);

	if (peer != MACHINE_NONE)
		snprintf(text, sizeof(text), "%s:%u", machine_chip_name(plan, peer, name),
			 peer_port);
	json_object_array_add(list, json_object_new_string(text));
}

/* What the plan says of a chip. */
void command_planned(struct control_client *client, struct json_object *request)
{
	struct inbandd *d = control_daemon(client);
	const struct machine_chip *c;
	struct json_object *answer, *list;
	const char *name = NULL;
	uint32_t chip;

	if (!d->plan || !json_get_text(request, "chip", &name) || !name ||
	    (chip = machine_find_name(d->plan, name, NULL)) == MACHINE_NONE) {
		control_fail(client, "which chip of the plan?");
		return;
	}
	c = &d->plan->chips[chip];
	answer = json_object_new_object();
	list = json_object_new_array();
	json_add_text(answer, "name", name);
	json_add_number(answer, "row", c->row);
	json_add_number(answer, "cabinet", c->cabinet);
	json_add_number(answer, "frame", c->frame);
	json_add_number(answer, "board", c->board);
	json_add_number(answer, "position", c->position);
	for (unsigned p = 0; p < c->ports; p++)
		add_cable(d->plan, list, chip, p);
	json_add(answer, "cables", list);
	json_add_bool(answer, "may_edit", d->config.plan_file[0]);
	control_ok(client, answer);
}
