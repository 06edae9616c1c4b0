/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The control socket of a daemon, from the tool's end: a line of JSON to it, lines from it, the
 * last of which has "ok". One thread.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemons/common/client.h"

void client_error(const char *format, ...)
{
	va_list ap;

	fflush(stdout);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
}

static int not_running(const struct client *client, int error)
{
	if (error == EACCES || error == EPERM)
		client_error("%s: may not be used by you: be root, or in the group that "
			     "control_group names in %s.conf",
			     client->socket, client->daemon);
	else if (error == EAGAIN || error == EWOULDBLOCK)
		client_error("%s does not answer at %s within %u s", client->daemon, client->socket,
			     client->timeout);
	else if (error == ENOENT || error == ECONNREFUSED)
		client_error("%s does not answer at %s: is it running? %s", client->daemon,
			     client->socket, client->cure);
	else
		client_error("%s: %s", client->socket, strerror(error));
	return CLIENT_NOT_RUNNING;
}

/* An abstract name is anybody's to take (control.h): is it the user's own daemon, or root's? */
static bool is_trusted(const struct client *client)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	return client->socket[0] != '@' ||
	       (!getsockopt(client->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) &&
		(!peer.uid || peer.uid == geteuid()));
}

int client_open(struct client *client)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval limit = {.tv_sec = client->timeout};

	if (strlen(client->socket) >= sizeof(address.sun_path)) {
		client_error("%s: too long for the name of a socket", client->socket);
		return CLIENT_USAGE;
	}
	strcpy(address.sun_path, client->socket);
	if (client->socket[0] == '@') /* control.h */
		address.sun_path[0] = '\0';
	client->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (client->fd < 0)
		return not_running(client, errno);
	setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(client->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(client->fd, (struct sockaddr *)&address, sizeof(address)))
		return not_running(client, errno);
	if (is_trusted(client))
		return CLIENT_DONE;
	client_error("%s: another user listens there, who is not believed", client->socket);
	return CLIENT_NOT_RUNNING;
}

void client_close(struct client *client)
{
	if (client->fd >= 0)
		close(client->fd);
}

static int send_all(const struct client *client, const char *text, size_t length)
{
	while (length) {
		ssize_t done = send(client->fd, text, length, MSG_NOSIGNAL);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return not_running(client, errno);
		text += done;
		length -= done;
	}
	return CLIENT_DONE;
}

/* A line that came; true: it was the last. */
static bool take(struct client *client, const char *line, struct json_object **answer, int *status)
{
	struct json_object *object = json_tokener_parse(line), *ok, *error;

	if (client->json)
		fputs(line, stdout);
	if (!json_object_is_type(object, json_type_object)) {
		client_error("%s's answer makes no sense", client->daemon);
		json_object_put(object);
		*status = CLIENT_REFUSED;
		return true;
	}
	if (!json_object_object_get_ex(object, "ok", &ok)) {
		if (!client->json && client->each)
			client->each(object);
		json_object_put(object);
		return false;
	}
	*status = json_object_get_boolean(ok) ? CLIENT_DONE : CLIENT_REFUSED;
	if (*status == CLIENT_REFUSED && !client->json) {
		if (!json_object_object_get_ex(object, "error", &error))
			error = NULL;
		client_error("%s", error ? json_object_get_string(error) : "refused");
	}
	if (*status == CLIENT_DONE && answer && (client->keep || !client->json))
		*answer = object;
	else
		json_object_put(object);
	return true;
}

/* A FILE of its own for the time of an answer: what comes is one, and nothing behind it. */
static int receive(struct client *client, struct json_object **answer)
{
	int copy = dup(client->fd), status = CLIENT_DONE;
	FILE *in = copy < 0 ? NULL : fdopen(copy, "r");
	char *line = NULL;
	size_t room = 0;

	if (!in) {
		if (copy >= 0)
			close(copy);
		client_error("%s", strerror(errno));
		return CLIENT_REFUSED;
	}
	for (;;) {
		errno = 0;
		if (getline(&line, &room, in) < 0) {
			if (errno == EINTR) {
				clearerr(in); /* the process was stopped, and goes on */
				continue;
			}
			if (errno)
				not_running(client, errno);
			else
				client_error("%s ended before it answered", client->daemon);
			status = CLIENT_NOT_RUNNING;
			break;
		}
		if (take(client, line, answer, &status))
			break;
	}
	free(line);
	fclose(in);
	return status;
}

int client_ask(struct client *client, struct json_object *request, struct json_object **answer)
{
	const char *text =
		request ? json_object_to_json_string_ext(request, JSON_C_TO_STRING_PLAIN) : NULL;
	int status = CLIENT_REFUSED;

	if (answer)
		*answer = NULL;
	if (text)
		status = send_all(client, text, strlen(text));
	else
		client_error("%s", strerror(ENOMEM));
	if (status == CLIENT_DONE)
		status = send_all(client, "\n", 1);
	json_object_put(request);
	return status == CLIENT_DONE ? receive(client, answer) : status;
}
