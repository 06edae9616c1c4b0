/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The control socket: clients, lines, and that none of them holds up the daemon. A client is
 * bounded in what it may send before it is answered and in what waits for it to read, and is
 * dropped when it does nothing for a while. The loop's thread.
 */
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemons/common/control.h"
#include "daemons/common/folder.h"
#include "daemons/common/json.h"
#include "daemons/common/log.h"
#include "daemons/common/socket_path.h"

#define MAX_CLIENTS	64
#define MAX_LINE	(1 << 20)
#define MAX_DEPTH	4	    /* of objects and arrays in a request */
#define HIGH_WATER	(256 << 10) /* of what waits to be read, above which a stream rests */
#define LOW_WATER	(64 << 10)  /* and below which it goes on */
#define IDLE_S		60
#define ACCEPT_AGAIN_US 100000
#define LOOK_S		1 /* between two looks whether somebody still waits for an answer */

struct control {
	struct event_base *base;
	struct control_options options;
	struct evconnlistener *listener;
	struct event *accept; /* waits where no client can be accepted */
	struct control_client *clients;
	unsigned nclients;
};

struct control_client {
	struct control_client *next;
	struct control *control;
	struct bufferevent *stream; /* NULL: a call from within */
	struct event *later;	    /* goes on with more(), or looks whether the client is there */
	struct ucred peer;
	char who[64];
	void (*line)(void *arg, struct json_object *answer); /* of a call */
	void *arg;
	bool eof;     /* it will not say more; what it asked is answered */
	bool busy;    /* with a command whose answer comes later */
	bool running; /* a call whose command has not returned */
	bool (*more)(struct control_client *client);
	uint64_t state[]; /* the daemon's */
};

void *control_daemon(const struct control_client *client)
{
	return client->control->options.daemon;
}

void *control_state(struct control_client *client)
{
	return client->state;
}

const char *control_who(const struct control_client *client)
{
	return client->who;
}

/* Where libevent has no memory for that, a little later. */
static void listen_again(struct control *control)
{
	const struct timeval delay = {.tv_usec = ACCEPT_AGAIN_US};

	if (evconnlistener_enable(control->listener))
		event_add(control->accept, &delay);
}

static void client_close(struct control_client *client)
{
	struct control *control = client->control;
	struct control_client **link = &control->clients;

	while (*link != client)
		link = &(*link)->next;
	*link = client->next;
	if (client->stream && control->nclients-- == MAX_CLIENTS)
		listen_again(control);
	if (control->options.forget)
		control->options.forget(client);
	event_free(client->later);
	if (client->stream)
		bufferevent_free(client->stream);
	free(client);
}

static const char *const no_memory = "{\"ok\":false,\"error\":\"no memory\"}";

static void send_inside(struct control_client *client, struct json_object *answer)
{
	struct json_object *line = answer ?: json_tokener_parse(no_memory);

	if (line)
		client->line(client->arg, line);
	json_object_put(line);
}

void control_send(struct control_client *client, struct json_object *answer)
{
	const char *text = NULL;

	if (!client->stream) {
		send_inside(client, answer);
		return;
	}
	if (answer)
		text = json_object_to_json_string_ext(
			answer, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	if (!text)
		text = no_memory;
	bufferevent_write(client->stream, text, strlen(text));
	bufferevent_write(client->stream, "\n", 1);
	json_object_put(answer);
}

void control_ok(struct control_client *client, struct json_object *answer)
{
	if (answer)
		json_add_bool(answer, "ok", true);
	if (client->control->options.answered)
		client->control->options.answered(client, NULL);
	control_send(client, answer);
}

void control_fail(struct control_client *client, const char *format, ...)
{
	struct json_object *answer = json_object_new_object();
	char text[512];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	if (answer) {
		json_add_bool(answer, "ok", false);
		json_add_text(answer, "error", text);
	}
	if (client->control->options.answered)
		client->control->options.answered(client, text);
	control_send(client, answer);
}

/* Whether nobody reads either: the other end is closed, and has not just said all it has to say. */
static bool is_gone(struct bufferevent *stream)
{
	struct pollfd fd = {.fd = bufferevent_getfd(stream)};

	return poll(&fd, 1, 0) == 1 && fd.revents & POLLHUP;
}

/*
 * The stream tells no more of a client that has said all it has to say and waits, unless something
 * is written to it.
 */
static void look_later(struct control_client *client)
{
	const struct timeval delay = {.tv_sec = LOOK_S};

	if (client->eof && client->busy && !client->more)
		event_add(client->later, &delay);
}

static void run(struct control_client *client, struct json_object *request)
{
	const struct control_options *options = &client->control->options;
	const char *name;

	if (!json_get_text(request, "command", &name) || !name) {
		control_fail(client, "\"command\" is missing");
		return;
	}
	log_debug("control: %.64s, for pid %d of uid %u", name, (int)client->peer.pid,
		  client->peer.uid);
	for (unsigned i = 0; i < options->count; i++) {
		if (!strcmp(options->commands[i].name, name)) {
			if (!options->before || options->before(client, name, request))
				options->commands[i].run(client, request);
			return;
		}
	}
	control_fail(client, "there is no command \"%.64s\"", name);
}

static void run_line(struct control_client *client, const char *line, size_t length)
{
	struct json_tokener *tokener = json_tokener_new_ex(MAX_DEPTH);
	struct json_object *request = NULL;

	if (tokener) {
		json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
		/* With the 0 at its end, or a number there would not be complete. */
		request = json_tokener_parse_ex(tokener, line, (int)length + 1);
		json_tokener_free(tokener);
	}
	if (json_object_is_type(request, json_type_object))
		run(client, request);
	else
		control_fail(client, "a request is a JSON object in one line");
	json_object_put(request);
}

/* The next lines, as long as they are answered at once. The client may be closed then. */
static void serve(struct control_client *client)
{
	struct evbuffer *in = bufferevent_get_input(client->stream);

	while (!client->busy) {
		size_t length;
		char *line = evbuffer_readln(in, &length, EVBUFFER_EOL_LF);

		if (line) {
			run_line(client, line, length);
			free(line);
		} else if (evbuffer_get_length(in) >= MAX_LINE) {
			client_close(client);
			return;
		} else {
			break;
		}
	}
	if (client->eof && !client->busy &&
	    !evbuffer_get_length(bufferevent_get_output(client->stream)))
		client_close(client);
	else
		look_later(client);
}

/* The last line has been said. */
static void end_call(struct control_client *client)
{
	void (*line)(void *arg, struct json_object *answer) = client->line;
	void *arg = client->arg;

	client_close(client);
	line(arg, NULL);
}

void control_defer(struct control_client *client)
{
	client->busy = true;
}

void control_end(struct control_client *client)
{
	client->busy = false;
	if (client->stream)
		serve(client);
	else if (!client->running)
		end_call(client);
}

/* Goes on with a stream in the loop's next round, so that others have their turn. */
static void stream_later(struct control_client *client)
{
	event_active(client->later, EV_TIMEOUT, 0);
}

static void stream_more(struct control_client *client)
{
	if (client->stream &&
	    evbuffer_get_length(bufferevent_get_output(client->stream)) >= HIGH_WATER)
		return;
	if (client->more(client)) {
		stream_later(client);
	} else {
		client->more = NULL;
		control_end(client);
	}
}

void control_stream(struct control_client *client, bool (*more)(struct control_client *client))
{
	client->busy = true;
	client->more = more;
	stream_later(client);
}

static void on_read(struct bufferevent *stream, void *arg)
{
	serve(arg);
}

static void on_written(struct bufferevent *stream, void *arg)
{
	struct control_client *client = arg;

	if (client->more)
		stream_more(client);
	else
		serve(client);
}

static void on_later(evutil_socket_t fd, short what, void *arg)
{
	struct control_client *client = arg;

	if (client->more)
		stream_more(client);
	else if (client->eof && client->busy && is_gone(client->stream))
		client_close(client);
	else
		look_later(client);
}

static void on_event(struct bufferevent *stream, short what, void *arg)
{
	struct control_client *client = arg;

	if (what & BEV_EVENT_EOF && !is_gone(stream)) {
		client->eof = true;
		serve(client);
	} else if (!(what & BEV_EVENT_TIMEOUT && what & BEV_EVENT_READING && client->busy) ||
		   bufferevent_enable(stream, EV_READ)) {
		client_close(client);
	}
}

int control_call(struct control *control, struct json_object *request, const char *who,
		 void (*line)(void *arg, struct json_object *answer), void *arg,
		 struct control_client **out)
{
	struct control_client *client = calloc(1, sizeof(*client) + control->options.state_size);

	if (client)
		client->later = event_new(control->base, -1, 0, on_later, client);
	if (!client || !client->later) {
		free(client);
		return -ENOMEM;
	}
	client->control = control;
	client->line = line;
	client->arg = arg;
	client->peer = (struct ucred){getpid(), geteuid(), getegid()};
	snprintf(client->who, sizeof(client->who), "%s", who);
	client->next = control->clients;
	control->clients = client;
	client->running = true;
	run(client, request);
	client->running = false;
	if (out)
		*out = client->busy ? client : NULL;
	if (!client->busy)
		end_call(client);
	return 0;
}

void control_hang_up(struct control_client *client)
{
	client_close(client);
}

/* A name of the network namespace's, which no file stands for. */
static bool is_abstract(const struct control_options *options)
{
	return options->path[0] == '@';
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address,
		      int length, void *arg)
{
	const struct timeval idle = {.tv_sec = IDLE_S};
	struct control *control = arg;
	socklen_t size = sizeof(struct ucred);
	struct control_client *client = calloc(1, sizeof(*client) + control->options.state_size);

	if (client) {
		client->stream = bufferevent_socket_new(control->base, fd, BEV_OPT_CLOSE_ON_FREE);
		client->later = event_new(control->base, -1, 0, on_later, client);
	}
	if (!client || !client->stream || !client->later) {
		if (client && client->later)
			event_free(client->later);
		if (client && client->stream)
			bufferevent_free(client->stream);
		else
			close(fd);
		free(client);
		return;
	}
	client->control = control;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &client->peer, &size) ||
	    (is_abstract(&control->options) && client->peer.uid && client->peer.uid != geteuid())) {
		event_free(client->later);
		bufferevent_free(client->stream);
		free(client);
		return;
	}
	snprintf(client->who, sizeof(client->who), "uid %u", client->peer.uid);
	client->next = control->clients;
	control->clients = client;
	if (++control->nclients == MAX_CLIENTS)
		evconnlistener_disable(listener);
	bufferevent_setcb(client->stream, on_read, on_written, on_event, client);
	bufferevent_setwatermark(client->stream, EV_READ, 0, MAX_LINE);
	bufferevent_setwatermark(client->stream, EV_WRITE, LOW_WATER, 0);
	bufferevent_set_timeouts(client->stream, &idle, &idle);
	if (bufferevent_enable(client->stream, EV_READ | EV_WRITE))
		client_close(client);
}

/* Out of descriptors: clients that wait are served when there are some again. */
static void on_accept_error(struct evconnlistener *listener, void *arg)
{
	const struct timeval delay = {.tv_usec = ACCEPT_AGAIN_US};
	struct control *control = arg;

	log_debug("control socket: %s", strerror(errno));
	evconnlistener_disable(listener);
	event_add(control->accept, &delay);
}

static void accept_again(evutil_socket_t fd, short what, void *arg)
{
	struct control *control = arg;

	if (control->nclients < MAX_CLIENTS)
		listen_again(control);
}

/* The socket belongs to the daemon's user, and to the group that may use it beside. */
static int set_owner(const struct control_options *options)
{
	struct passwd *user = options->user[0] && !geteuid() ? getpwnam(options->user) : NULL;
	struct group *group = options->group[0] ? getgrnam(options->group) : NULL;

	if (options->group[0] && !group) {
		log_error("control_group: there is no group %s", options->group);
		return -EINVAL;
	}
	if ((user || group) && lchown(options->path, user ? user->pw_uid : (uid_t)-1,
				      group ? group->gr_gid : (gid_t)-1)) {
		log_error("%s: %s", options->path, strerror(errno));
		return -EPERM;
	}
	return 0;
}

/* A descriptor that listens, or a negative errno. */
static int open_socket(const struct control_options *options)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd, ret = is_abstract(options) ? 0 : folder_make(options->path, 0755, options->user);
	mode_t mask;

	if (strlen(options->path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, options->path);
	if (is_abstract(options))
		address.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (!ret && !is_abstract(options))
		ret = socket_path_take(&address);
	mask = umask(options->group[0] ? 0117 : 0177);
	if (!ret && bind(fd, (struct sockaddr *)&address, sizeof(address)))
		ret = -errno;
	umask(mask);
	if (!ret && listen(fd, MAX_CLIENTS))
		ret = -errno;
	if (!ret)
		return fd;
	close(fd);
	return ret;
}

static int listen_on(struct control *control, int fd)
{
	control->accept = evtimer_new(control->base, accept_again, control);
	control->listener =
		evconnlistener_new(control->base, on_accept, control,
				   LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_DISABLED,
				   0, fd);
	if (!control->listener)
		close(fd);
	/* Its own attempt to listen would tell nobody that it failed. */
	if (!control->listener || !control->accept || evconnlistener_enable(control->listener)) {
		log_error("%s: %s", control->options.path, strerror(ENOMEM));
		return -ENOMEM;
	}
	evconnlistener_set_error_cb(control->listener, on_accept_error);
	return is_abstract(&control->options) ? 0 : set_owner(&control->options);
}

int control_start(struct event_base *base, const struct control_options *options,
		  struct control **out)
{
	struct control *control;
	int fd = options->path[0] ? open_socket(options) : 0, ret;

	if (fd == -EADDRINUSE)
		log_error("%s: another %s listens there", options->path, log_name());
	else if (fd == -EEXIST)
		log_error("%s: there is something else than a socket", options->path);
	else if (fd < 0)
		log_error("%s: %s", options->path, strerror(-fd));
	if (fd < 0)
		return fd;
	control = calloc(1, sizeof(*control));
	if (!control) {
		log_error("%s: %s", options->path, strerror(ENOMEM));
		if (options->path[0])
			close(fd);
		if (options->path[0] && !is_abstract(options))
			unlink(options->path);
		return -ENOMEM;
	}
	control->base = base;
	control->options = *options;
	ret = options->path[0] ? listen_on(control, fd) : 0;
	if (ret)
		control_stop(control);
	else
		*out = control;
	return ret;
}

void control_stop(struct control *control)
{
	if (!control)
		return;
	while (control->clients)
		client_close(control->clients);
	if (control->listener)
		evconnlistener_free(control->listener);
	if (control->accept)
		event_free(control->accept);
	if (control->options.path[0] && !is_abstract(&control->options))
		unlink(control->options.path);
	free(control);
}
