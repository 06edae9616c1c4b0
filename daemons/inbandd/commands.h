/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Between the files of inbandd's commands. The loop's thread. */
#ifndef INBANDD_COMMANDS_H
#define INBANDD_COMMANDS_H

#include "daemons/inbandd/events.h"
#include "daemons/inbandd/inbandd.h"

/*
 * A command whose answer comes from the network. A client that goes meanwhile leaves it behind:
 * client is NULL from then on.
 */
struct pending {
	struct inbandd *d;
	struct control_client *client;
	bool holds_model;
	uint64_t a, b;
	struct event *timer;
	const char *work; /* what inbandctl calls it */
	uint64_t told;	  /* clock_ms() of the last line about its progress */
};

/* What inbandd keeps for a client. */
struct client_state {
	struct pending *pending;
	struct listener listener; /* watch */
	struct control_client *client;
	int64_t audit; /* line of the command that runs; 0: none */
};

/* Defers the answer. NULL: the client has been told why not (no network yet, no memory). */
struct pending *pending_begin(struct control_client *client, const char *work, bool holds_model);
/* Says how far it is, now and then: to the client a line, to all an event. */
void pending_progress(struct pending *pending, uint64_t done, uint64_t of);
/* The end, with an answer, which is put; or with an error, by format and text. */
void pending_ok(struct pending *pending, struct json_object *answer);
void pending_fail(struct pending *pending, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* What an operation's status means to an operator. */
const char *pending_why(int status);
/* The device that a request names; NULL: the client has been told. */
struct device *request_device(struct control_client *client, struct json_object *request);
/* "port": CHIP:PORT. */
struct device *request_port(struct control_client *client, struct json_object *request,
			    unsigned *port);
/* Answers with what differs from a plan. */
void answer_findings(struct control_client *client, const struct machine *plan);

/* commands_records.c */
void command_events(struct control_client *client, struct json_object *request);
void command_audit(struct control_client *client, struct json_object *request);
void command_baseline(struct control_client *client, struct json_object *request);
void command_suppress(struct control_client *client, struct json_object *request);
void command_export(struct control_client *client, struct json_object *request);
void command_save(struct control_client *client, struct json_object *request);

/* commands_facts.c */
void command_status(struct control_client *client, struct json_object *request);
void command_discover(struct control_client *client, struct json_object *request);
void command_check(struct control_client *client, struct json_object *request);
void command_show(struct control_client *client, struct json_object *request);
void command_trace(struct control_client *client, struct json_object *request);
void command_routes(struct control_client *client, struct json_object *request);
void command_read(struct control_client *client, struct json_object *request);
void command_write(struct control_client *client, struct json_object *request);

/* commands_bist.c */
void command_bist(struct control_client *client, struct json_object *request);

/* commands_eeprom.c */
void command_eeprom(struct control_client *client, struct json_object *request);

/* commands_device.c */
void command_device(struct control_client *client, struct json_object *request);
void command_registers(struct control_client *client, struct json_object *request);
void command_table(struct control_client *client, struct json_object *request);

/* commands_plan.c */
void command_edit(struct control_client *client, struct json_object *request);
void command_planned(struct control_client *client, struct json_object *request);

/* commands_scan.c */
void command_scan(struct control_client *client, struct json_object *request);

#endif
