/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Server-sent events. A browser that comes back says which event it had last, and hears those after
 * it, or "missed" if they are not known any more: then it reads the model anew. One that does not
 * read what it is sent is dropped.
 */
#include <errno.h>
#include <event2/buffer.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/inbandd/web.h"

#define MOST_WAITING (4 << 20) /* bytes */
#define BEAT_S	     15	       /* a line that says nothing finds out which clients have gone */

struct stream {
	struct stream *next;
	struct web *web;
	struct MHD_Connection *connection;
	struct evbuffer *waiting;
	struct listener listener;
	bool suspended, ended;
};

static void wake(struct stream *s)
{
	if (!s->suspended)
		return;
	s->suspended = false;
	MHD_resume_connection(s->connection);
	http_kick(s->web->http);
}

static void add(struct stream *s, const char *text, size_t length)
{
	if (evbuffer_get_length(s->waiting) + length > MOST_WAITING ||
	    evbuffer_add(s->waiting, text, length))
		s->ended = true;
	wake(s);
}

static void hear(struct listener *listener, uint64_t number, struct json_object *event)
{
	struct stream *s = (struct stream *)((char *)listener - offsetof(struct stream, listener));
	const char *text = json_object_to_json_string_ext(
		event, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	char head[40];

	if (!text)
		return;
	snprintf(head, sizeof(head), "id: %lu\ndata: ", number);
	evbuffer_add(s->waiting, head, strlen(head));
	evbuffer_add(s->waiting, text, strlen(text));
	add(s, "\n\n", 2);
}

static ssize_t more(void *arg, uint64_t at, char *to, size_t room)
{
	struct stream *s = arg;
	int got = s->ended ? 0 : evbuffer_remove(s->waiting, to, room);

	if (got > 0)
		return got;
	if (s->ended)
		return MHD_CONTENT_READER_END_OF_STREAM;
	s->suspended = true;
	MHD_suspend_connection(s->connection);
	return 0;
}

static void over(void *arg)
{
	struct stream *s = arg;

	for (struct stream **at = &s->web->streams; *at; at = &(*at)->next)
		if (*at == s) {
			*at = s->next;
			break;
		}
	events_leave(s->web->d->events, &s->listener);
	evbuffer_free(s->waiting);
	free(s);
}

struct MHD_Response *stream_response(struct web *web, struct MHD_Connection *connection,
				     const char *after)
{
	static const char missed[] = "data: {\"event\":\"missed\"}\n\n", begun[] = "retry: 500\n\n";
	struct stream *s = calloc(1, sizeof(*s));
	struct MHD_Response *response;

	if (s)
		s->waiting = evbuffer_new();
	if (!s || !s->waiting) {
		free(s);
		return NULL;
	}
	s->web = web;
	s->connection = connection;
	s->listener.hear = hear;
	response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16 << 10, more, s, over);
	if (!response) {
		evbuffer_free(s->waiting);
		free(s);
		return NULL;
	}
	s->next = web->streams;
	web->streams = s;
	add(s, begun, sizeof(begun) - 1);
	if (after && !events_replay(web->d->events, strtoull(after, NULL, 10), &s->listener))
		add(s, missed, sizeof(missed) - 1);
	events_listen(web->d->events, &s->listener);
	return response;
}

static void on_beat(evutil_socket_t fd, short what, void *arg)
{
	struct web *web = arg;

	for (struct stream *s = web->streams; s; s = s->next)
		add(s, ":\n\n", 3);
}

int streams_start(struct web *web)
{
	static const struct timeval every = {.tv_sec = BEAT_S};

	web->beat = event_new(web->d->loop.base, -1, EV_PERSIST, on_beat, web);
	return web->beat && !event_add(web->beat, &every) ? 0 : -ENOMEM;
}

void streams_stop(struct web *web)
{
	if (web->beat)
		event_free(web->beat);
	for (struct stream *s = web->streams; s; s = s->next) {
		s->ended = true;
		wake(s);
	}
}
