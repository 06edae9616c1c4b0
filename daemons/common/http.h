/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * An HTTP server in the loop: libmicrohttpd, without threads. What it answers is its user's; here
 * is where it listens, and when it runs. The loop's thread.
 */
#ifndef DAEMON_HTTP_H
#define DAEMON_HTTP_H

#include <stdint.h>

#include <event2/event.h>
#include <microhttpd.h>

struct http;

struct http_options {
	const char *listen; /* "127.0.0.1:8470", "[::1]:8470" */
	const char *key;    /* of the configuration, for errors */
	unsigned connections, idle_s;
	unsigned memory; /* of a connection, for its request's headers */
	uint16_t *port;	 /* which one it is: then listen may name none, for any; NULL */
	MHD_AccessHandlerCallback answer;
	MHD_RequestCompletedCallback completed; /* NULL: nothing to do */
	void *arg;
};

/* 0 or a negative errno after a line in the log; -EADDRINUSE is for the caller to log. */
int http_start(struct event_base *base, const struct http_options *options, struct http **http);
/* Who waits for an answer has to be resumed before. */
void http_stop(struct http *http);
/* After MHD_resume_connection(): the loop lets the server run. */
void http_kick(struct http *http);

#endif
