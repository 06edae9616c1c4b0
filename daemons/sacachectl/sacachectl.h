/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sacachectl, in three parts: main.c what the command line asks for, talk.c the socket, print.c the answer
 * for people. One thread.
 */
#ifndef SACACHECTL_H
#define SACACHECTL_H

#include <stdbool.h>

#include <json-c/json.h>

/* Statuses of the process. */
enum { DONE = 0, REFUSED = 1, USAGE = 2, NOT_RUNNING = 3 };

struct talk {
	const char *socket;
	unsigned timeout; /* s, for each line; 0: none */
	bool json;	  /* lines go out as they come */
	int fd;
	/* Is given each line but the last; may be NULL. */
	void (*each)(struct json_object *line);
};

/* Connects; says itself what is wrong. A status. */
int talk_open(struct talk *talk);
void talk_close(struct talk *talk);
/*
 * Asks, and waits for the answer, which is dropped: *answer, to be put, if it is wanted and was not printed
 * as JSON. An error of the daemon's is told. A status.
 */
int talk_ask(struct talk *talk, struct json_object *request, struct json_object **answer);

void print_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void print_status(struct json_object *answer);
void print_entry(struct json_object *line);
void print_entries(struct json_object *answer);
void print_lookup(struct json_object *answer);
void print_flush(struct json_object *answer);
void print_prefetch(struct json_object *answer);
void print_save(struct json_object *answer);

#endif
