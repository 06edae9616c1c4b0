/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A daemon's control socket (control.h) from the other end, for its command line tool. One thread,
 * which waits. Errors go to stderr, with the tool's name in front.
 */
#ifndef DAEMON_CLIENT_H
#define DAEMON_CLIENT_H

#include <stdbool.h>

#include <json-c/json.h>

/* Statuses of the process. */
enum client_status { CLIENT_DONE, CLIENT_REFUSED, CLIENT_USAGE, CLIENT_NOT_RUNNING };

struct client {
	const char *daemon; /* its name, as of its manual page and its configuration file */
	const char *cure;   /* where it does not run */
	const char *socket;
	unsigned timeout; /* s, for each line; 0: none */
	bool json;	  /* print lines as they come */
	bool keep;	  /* and have the answer, too */
	int fd;		  /* -1 at first */
	/* Is given each line but the last, unless json is set; NULL: they are dropped. */
	void (*each)(struct json_object *line);
};

/* Connects, or prints what is wrong. An enum client_status, as below. */
int client_open(struct client *client);
void client_close(struct client *client);
/*
 * Sends a request, which is put, and waits for the answer: *answer, to be put, or NULL; answer may
 * be NULL. Prints an error of the daemon's.
 */
int client_ask(struct client *client, struct json_object *request, struct json_object **answer);

/* Prints a line on stderr, after all that is on stdout. */
void client_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
