/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The parts of fabricd. One thread.
 */
#ifndef FABRICD_H
#define FABRICD_H

#include "daemons/common/control.h"
#include "daemons/common/loop.h"
#include "fabric/server.h"

struct fabricd {
	struct server server;
	struct loop loop;
	struct event *programs; /* the server's epoll descriptor */
	struct event *due;	/* its timers */
	uint64_t due_at;	/* ms, by clock_ms(); UINT64_MAX: not set */
	struct control *control;
};

/* Serves what has come in; after each change from outside as well. */
void fabricd_serve(struct fabricd *d);

/* commands.c: what urxe fabric may ask for. */
extern const struct control_command fabricd_commands[];
extern const unsigned fabricd_num_commands;
extern const size_t fabricd_client_state; /* bytes, for each client */

#endif
