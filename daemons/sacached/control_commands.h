/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sacached's side of the control socket: its commands (control_commands.c) and their output
 * (control_json.c). The loop's thread.
 */
#ifndef SACACHED_CONTROL_COMMANDS_H
#define SACACHED_CONTROL_COMMANDS_H

#include <json-c/json.h>

#include "daemons/sacached/sacached.h"

/* Opens the socket that the configuration names. */
int control_commands_start(struct sacached *d);

/* JSON output. */
struct json_object *control_json_path(const struct sacache_path *path);
struct json_object *control_json_entry(const struct sacache_key *key,
				       const struct sacache_path *path, unsigned flags);
struct json_object *control_json_status(struct sacached *d);

#endif
