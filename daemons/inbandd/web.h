/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The page, and what it asks for, by HTTP:
 *
 *	GET /			the page; its files are in this program
 *	GET /model		all that is known, for a machine to read (web_model.c)
 *	GET /events?after=N	server-sent events: those of events.h after number N
 *	GET /api/COMMAND?…	a command that changes nothing, as inbandctl gives it
 *	POST /api/COMMAND	any command, with its members as the body; for operators
 *	GET, POST, DELETE /session	who one is; shows a token; forgets it
 *
 * The loop's thread.
 */
#ifndef INBANDD_WEB_H
#define INBANDD_WEB_H

#include <microhttpd.h>

#include "daemons/common/http.h"
#include "daemons/inbandd/events.h"
#include "daemons/inbandd/inbandd.h"
#include "daemons/inbandd/web_parse.h"

struct web {
	struct inbandd *d;
	struct http *http;
	uint16_t port;
	struct web_tokens tokens;
	struct web_request *waiting; /* suspended, for a command's answer */
	struct stream *streams;
	struct event *beat;
};

/* A file of the page: web_files.c, which is made of inband/web. */
struct web_file {
	const char *name, *type;
	const unsigned char *data;
	size_t size;
};
extern const struct web_file web_files[];

int web_start(struct inbandd *d, struct web **web);
void web_stop(struct web *web);

/* web_model.c: all that is known, malloc'ed; NULL: no memory. */
void *web_model(const struct inbandd *d, size_t *size);

/* web_events.c */
int streams_start(struct web *web);
void streams_stop(struct web *web);
/* A response that lasts. after: the number of an event, or all that were kept. NULL: no memory. */
struct MHD_Response *stream_response(struct web *web, struct MHD_Connection *connection,
				     const char *after);

#endif
