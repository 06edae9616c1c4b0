/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A client of the control socket, between what reads and writes lines (control.c) and what they mean
 * (control_commands.c, control_json.c). The loop's thread.
 */
#ifndef SACACHED_CONTROL_CLIENT_H
#define SACACHED_CONTROL_CLIENT_H

#include <json-c/json.h>

#include "daemons/sacached/resolve.h"
#include "daemons/sacached/sacached.h"

struct control_filter {
	bool by_gid, by_lid, by_guid;
	uint8_t gid[16];
	uint8_t guid[8];
	uint16_t lid;
	unsigned flags; /* enum sacache_entry_flags: only those with one of them; 0: all */
};

struct control_client {
	struct control_client *next;
	struct sacached *d;
	struct bufferevent *stream;
	struct event *later; /* goes on with a list, or looks whether the client is there */
	bool eof;	     /* it will not say more; what it asked is answered */
	bool busy;	     /* with a command whose answer comes later */
	/* What that waits for. */
	struct resolve *resolve;
	bool listing;
	uint32_t list_at;
	uint64_t listed;
	struct control_filter filter;
};

/* Sends an object as a line, and drops it. */
void control_send(struct control_client *client, struct json_object *answer);
void control_ok(struct control_client *client, struct json_object *answer);
void control_fail(struct control_client *client, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The command of a client that was busy has been answered. */
void control_end(struct control_client *client);

/* Goes on with its list in the loop's next round. */
void control_later(struct control_client *client);

/* Does what a line says: answers it, or leaves the client busy. */
void control_command(struct control_client *client, const char *line, size_t length);
void control_list_more(struct control_client *client);
/* The client is gone: nobody calls it any more. */
void control_forget(struct control_client *client);

/* JSON of what there is. */
struct json_object *control_json_path(const struct sacache_path *path);
struct json_object *control_json_entry(const struct sacache_key *key,
				       const struct sacache_path *path, unsigned flags);
struct json_object *control_json_status(struct sacached *d);
/* The name of an enum acm_status; NULL: there is none of that number. */
const char *control_acm_status(unsigned status);
/* The name of an enum acm_operation. */
const char *control_acm_operation(unsigned operation);

#endif
