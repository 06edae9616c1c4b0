/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The control socket, by which a command line tool (client.h) looks into a daemon and directs it: a
 * unix socket, one JSON object a line both ways. A client sends
 *
 *	{"command":"lookup","gid":"fe80::1"}
 *
 * and gets one object with "ok":true and what was asked for, or "ok":false and "error":"…". A
 * command may send further objects, without "ok", before that one. Requests of a client are
 * answered one after the other.
 *
 *	static const struct control_command commands[] = {{"status", status}, {"links", links}};
 *
 * A command answers at once (control_ok(), control_fail()), or calls control_defer() and answers
 * later, or calls control_stream() for an answer of many lines. The socket's mode is 0600, or 0660
 * with a group.
 *
 * The loop's thread.
 */
#ifndef DAEMON_CONTROL_H
#define DAEMON_CONTROL_H

#include <stdbool.h>
#include <stddef.h>

#include <event2/event.h>
#include <json-c/json.h>

struct control;
struct control_client;

struct control_command {
	const char *name;
	void (*run)(struct control_client *client, struct json_object *request);
};

struct control_options {
	/*
	 * "": there is no socket, and control_call() alone. "@NAME": an abstract one, of the
	 * network namespace; the daemon's own user and root may use it.
	 */
	const char *path;
	const char *user;  /* its owner, as the daemon will run as that one; "": its own user */
	const char *group; /* whose members may use it, too; "": nobody */
	const struct control_command *commands;
	unsigned count;
	void *daemon;	   /* what control_daemon() returns */
	size_t state_size; /* of what the daemon keeps for each client; zeroed at first */
	/*
	 * Before a command runs, and when it has been answered (error: NULL, or what it was); NULL:
	 * nothing to do. False: the client has been told why it does not run.
	 */
	bool (*before)(struct control_client *client, const char *command,
		       struct json_object *request);
	void (*answered)(struct control_client *client, const char *error);
	/* The client is gone: nothing may be sent to it any more. NULL: nothing to do. */
	void (*forget)(struct control_client *client);
};

/* What options points to is kept. 0 or a negative errno after a line in the log. */
int control_start(struct event_base *base, const struct control_options *options,
		  struct control **control);
void control_stop(struct control *control);

void *control_daemon(const struct control_client *client);
void *control_state(struct control_client *client);
/* For logs: "uid 1000", or what control_call() was told. */
const char *control_who(const struct control_client *client);

/*
 * Runs a command from within the daemon, for a client that has asked by another way than the socket
 * (HTTP). line(arg, answer) is called for each line of the answer, which is borrowed, and at last
 * with NULL; it may be called before control_call() returns. The request is borrowed, who is
 * copied. 0, or -ENOMEM: line is not called.
 * *client, where client is not NULL: for control_hang_up(); NULL if it is over already.
 */
int control_call(struct control *control, struct json_object *request, const char *who,
		 void (*line)(void *arg, struct json_object *answer), void *arg,
		 struct control_client **client);
/* Whoever called has gone: line is not called any more. */
void control_hang_up(struct control_client *client);

/* Sends an object as a line, and drops it. NULL: an error for want of memory. */
void control_send(struct control_client *client, struct json_object *answer);
/* The last line of an answer. */
void control_ok(struct control_client *client, struct json_object *answer);
void control_fail(struct control_client *client, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* In a command: the answer comes later. */
void control_defer(struct control_client *client);
/* After the answer to a deferred command. The client may be gone when this returns. */
void control_end(struct control_client *client);
/*
 * In a command: more(client) is called in the loop, as often as the client reads, and sends some
 * lines, for a millisecond or two. False: it has sent the last one.
 */
void control_stream(struct control_client *client, bool (*more)(struct control_client *client));

#endif
