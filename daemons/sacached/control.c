/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The control socket: clients, lines, and that none of them holds up the daemon. A client is bounded in
 * what it may send before it is answered and in what waits for it to read, and is dropped when it does
 * nothing for a while.
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

#include "daemons/sacached/control.h"
#include "daemons/sacached/control_client.h"
#include "daemons/sacached/folder.h"
#include "daemons/sacached/log.h"

#define MAX_CLIENTS 64
#define MAX_LINE    (1 << 20)
#define LOW_WATER   (64 << 10) /* of what waits to be read, below which a list goes on */
#define IDLE_S	    60
#define LOOK_S	    1 /* between two looks whether somebody still waits for an answer */

struct control {
	struct sacached *d;
	struct evconnlistener *listener;
	struct control_client *clients;
	unsigned nclients;
	char path[108];
};

static void client_close(struct control_client *client)
{
	struct control *control = client->d->control;
	struct control_client **link = &control->clients;

	while (*link != client)
		link = &(*link)->next;
	*link = client->next;
	if (control->nclients-- == MAX_CLIENTS)
		evconnlistener_enable(control->listener);
	control_forget(client);
	event_free(client->later);
	bufferevent_free(client->stream);
	free(client);
}

void control_send(struct control_client *client, struct json_object *answer)
{
	const char *text =
		answer ? json_object_to_json_string_ext(
				 answer, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)
		       : "{\"ok\":false,\"error\":\"no memory\"}";

	bufferevent_write(client->stream, text, strlen(text));
	bufferevent_write(client->stream, "\n", 1);
	json_object_put(answer);
}

void control_ok(struct control_client *client, struct json_object *answer)
{
	if (answer)
		json_object_object_add(answer, "ok", json_object_new_boolean(true));
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
		json_object_object_add(answer, "ok", json_object_new_boolean(false));
		json_object_object_add(answer, "error", json_object_new_string(text));
	}
	control_send(client, answer);
}

/* Whether nobody reads either: the other end is closed, and has not just said all it has to say. */
static bool is_gone(struct bufferevent *stream)
{
	struct pollfd fd = {.fd = bufferevent_getfd(stream)};

	return poll(&fd, 1, 0) == 1 && fd.revents & POLLHUP;
}

/*
 * The stream tells no more of a client that has said all it has to say and waits, unless something is written
 * to it.
 */
static void look_later(struct control_client *client)
{
	const struct timeval delay = {.tv_sec = LOOK_S};

	if (client->eof && client->busy && !client->listing)
		event_add(client->later, &delay);
}

/* The next lines, as long as they are answered at once. The client may be closed then. */
static void serve(struct control_client *client)
{
	struct evbuffer *in = bufferevent_get_input(client->stream);

	while (!client->busy) {
		size_t length;
		char *line = evbuffer_readln(in, &length, EVBUFFER_EOL_LF);

		if (line) {
			control_command(client, line, length);
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

void control_end(struct control_client *client)
{
	client->busy = false;
	serve(client);
}

static void on_read(struct bufferevent *stream, void *arg)
{
	serve(arg);
}

static void on_written(struct bufferevent *stream, void *arg)
{
	struct control_client *client = arg;

	if (client->listing)
		control_list_more(client);
	else
		serve(client);
}

static void on_later(evutil_socket_t fd, short what, void *arg)
{
	struct control_client *client = arg;

	if (client->listing)
		control_list_more(client);
	else if (client->eof && client->busy && is_gone(client->stream))
		client_close(client);
	else
		look_later(client);
}

void control_later(struct control_client *client)
{
	event_active(client->later, EV_TIMEOUT, 0);
}

static void on_event(struct bufferevent *stream, short what, void *arg)
{
	struct control_client *client = arg;

	if (what & BEV_EVENT_EOF && !is_gone(stream)) {
		client->eof = true;
		serve(client);
	} else if (what & BEV_EVENT_TIMEOUT && what & BEV_EVENT_READING && client->busy) {
		bufferevent_enable(stream, EV_READ);
	} else {
		client_close(client);
	}
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address,
		      int length, void *arg)
{
	const struct timeval idle = {.tv_sec = IDLE_S};
	struct control *control = arg;
	struct control_client *client = calloc(1, sizeof(*client));

	if (client) {
		client->stream =
			bufferevent_socket_new(control->d->base, fd, BEV_OPT_CLOSE_ON_FREE);
		client->later = event_new(control->d->base, -1, 0, on_later, client);
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
	client->d = control->d;
	client->next = control->clients;
	control->clients = client;
	if (++control->nclients == MAX_CLIENTS)
		evconnlistener_disable(listener);
	bufferevent_setcb(client->stream, on_read, on_written, on_event, client);
	bufferevent_setwatermark(client->stream, EV_READ, 0, MAX_LINE);
	bufferevent_setwatermark(client->stream, EV_WRITE, LOW_WATER, 0);
	bufferevent_set_timeouts(client->stream, &idle, &idle);
	bufferevent_enable(client->stream, EV_READ | EV_WRITE);
}

/* Out of descriptors: those who wait are served when there are some again. */
static void on_accept_error(struct evconnlistener *listener, void *arg)
{
	log_debug("control socket: %s", strerror(errno));
}

/* The socket of a daemon that is gone is in the way, that of one that lives is not. */
static int take_path(const struct sockaddr_un *address)
{
	struct stat stat;
	int probe, ret;

	if (lstat(address->sun_path, &stat))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(stat.st_mode))
		return -EEXIST;
	probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (probe < 0)
		return -errno;
	ret = connect(probe, (const struct sockaddr *)address, sizeof(*address)) ? errno : 0;
	close(probe);
	if (ret != ECONNREFUSED)
		return -EADDRINUSE;
	return unlink(address->sun_path) ? -errno : 0;
}

/* The socket belongs to whom the daemon runs as, and to those who may use it beside. */
static int set_owner(const char *path, const struct sacached_config *config)
{
	struct passwd *user = config->user[0] && !geteuid() ? getpwnam(config->user) : NULL;
	struct group *group = config->control_group[0] ? getgrnam(config->control_group) : NULL;

	if (config->control_group[0] && !group) {
		log_error("control_group: there is no group %s", config->control_group);
		return -EINVAL;
	}
	if ((user || group) &&
	    lchown(path, user ? user->pw_uid : (uid_t)-1, group ? group->gr_gid : (gid_t)-1)) {
		log_error("%s: %s", path, strerror(errno));
		return -EPERM;
	}
	return 0;
}

static int open_socket(struct control *control)
{
	const struct sacached_config *config = &control->d->config;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd, ret = folder_make(control->path, 0755, config->user);
	mode_t mask;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", control->path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (!ret)
		ret = take_path(&address);
	mask = umask(config->control_group[0] ? 0117 : 0177);
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

int control_start(struct sacached *d, struct control **out)
{
	struct control *control;
	int fd, ret;

	if (!d->config.control_socket[0])
		return 0;
	control = calloc(1, sizeof(*control));
	if (!control)
		return -ENOMEM;
	control->d = d;
	snprintf(control->path, sizeof(control->path), "%s", d->config.control_socket);
	fd = open_socket(control);
	if (fd == -EADDRINUSE)
		log_error("%s: another sacached listens there", control->path);
	else if (fd == -EEXIST)
		log_error("%s: there is something else than a socket", control->path);
	else if (fd < 0)
		log_error("%s: %s", control->path, strerror(-fd));
	if (fd < 0) {
		free(control);
		return fd;
	}
	*out = control;
	ret = set_owner(control->path, &d->config);
	if (ret)
		return ret;
	control->listener = evconnlistener_new(
		d->base, on_accept, control, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, fd);
	if (!control->listener) {
		close(fd);
		return -ENOMEM;
	}
	evconnlistener_set_error_cb(control->listener, on_accept_error);
	return 0;
}

void control_stop(struct control *control)
{
	if (!control)
		return;
	while (control->clients)
		client_close(control->clients);
	if (control->listener)
		evconnlistener_free(control->listener);
	unlink(control->path);
	free(control);
}
