/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The daemon's control socket: a line of JSON to it, lines from it, the last of which has "ok".
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemons/sacachectl/sacachectl.h"

static int not_running(const struct talk *talk, int error)
{
	if (error == EACCES || error == EPERM)
		print_error("%s: may not be used by you: be root, or in the group that "
			    "control_group names in sacached.conf",
			    talk->socket);
	else if (error == EAGAIN || error == EWOULDBLOCK)
		print_error("sacached does not answer at %s within %u s", talk->socket,
			    talk->timeout);
	else if (error == ENOENT || error == ECONNREFUSED)
		print_error("sacached does not answer at %s: is it running? systemctl status "
			    "sacached",
			    talk->socket);
	else
		print_error("%s: %s", talk->socket, strerror(error));
	return NOT_RUNNING;
}

int talk_open(struct talk *talk)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval limit = {.tv_sec = talk->timeout};

	if (strlen(talk->socket) >= sizeof(address.sun_path)) {
		print_error("%s: too long for the name of a socket", talk->socket);
		return USAGE;
	}
	strcpy(address.sun_path, talk->socket);
	talk->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (talk->fd < 0)
		return not_running(talk, errno);
	setsockopt(talk->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(talk->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(talk->fd, (struct sockaddr *)&address, sizeof(address)))
		return not_running(talk, errno);
	return DONE;
}

void talk_close(struct talk *talk)
{
	if (talk->fd >= 0)
		close(talk->fd);
}

static int send_all(const struct talk *talk, const char *text, size_t length)
{
	while (length) {
		ssize_t done = send(talk->fd, text, length, MSG_NOSIGNAL);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return not_running(talk, errno);
		text += done;
		length -= done;
	}
	return DONE;
}

/* A line that came; true: it was the last. */
static bool take(struct talk *talk, const char *line, struct json_object **answer, int *status)
{
	struct json_object *object = json_tokener_parse(line), *ok, *error;

	if (talk->json)
		fputs(line, stdout);
	if (!json_object_is_type(object, json_type_object)) {
		print_error("sacached's answer makes no sense");
		json_object_put(object);
		*status = REFUSED;
		return true;
	}
	if (!json_object_object_get_ex(object, "ok", &ok)) {
		if (!talk->json && talk->each)
			talk->each(object);
		json_object_put(object);
		return false;
	}
	*status = json_object_get_boolean(ok) ? DONE : REFUSED;
	if (*status == REFUSED && !talk->json)
		print_error("%s", json_object_object_get_ex(object, "error", &error)
					  ? json_object_get_string(error)
					  : "sacached refuses");
	if (*status == DONE && answer && !talk->json)
		*answer = object;
	else
		json_object_put(object);
	return true;
}

/* A FILE of its own for the time of an answer: what comes is one, and nothing behind it. */
static int receive(struct talk *talk, struct json_object **answer)
{
	int copy = dup(talk->fd), status = DONE;
	FILE *in = copy < 0 ? NULL : fdopen(copy, "r");
	char *line = NULL;
	size_t room = 0;

	if (!in) {
		if (copy >= 0)
			close(copy);
		print_error("%s", strerror(errno));
		return REFUSED;
	}
	for (;;) {
		errno = 0;
		if (getline(&line, &room, in) < 0) {
			if (errno == EINTR)
				continue;
			if (errno)
				not_running(talk, errno);
			else
				print_error("sacached ended before it answered");
			status = NOT_RUNNING;
			break;
		}
		if (take(talk, line, answer, &status))
			break;
	}
	free(line);
	fclose(in);
	return status;
}

int talk_ask(struct talk *talk, struct json_object *request, struct json_object **answer)
{
	const char *text = json_object_to_json_string_ext(request, JSON_C_TO_STRING_PLAIN);
	int status;

	if (answer)
		*answer = NULL;
	status = send_all(talk, text, strlen(text));
	if (status == DONE)
		status = send_all(talk, "\n", 1);
	json_object_put(request);
	return status == DONE ? receive(talk, answer) : status;
}
