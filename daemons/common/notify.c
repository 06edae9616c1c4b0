/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Messages to the socket named by NOTIFY_SOCKET, and descriptors from systemd. libsystemd's
 * sd_notify() waits where systemd does not read for a while, as during its daemon-reload; here such
 * messages wait in a queue, in their order, until the socket takes more. A queued message has
 * descriptors of its own. The loop's thread.
 */
#include "daemons/common/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "daemons/common/clock.h"
#include "daemons/common/log.h"

#define STATUS_S 10   /* how often the status is looked at; it is sent if it has changed */
#define MAX_SENT 253  /* descriptors in one message: the kernel's SCM_MAX_FD */
#define END_MS	 5000 /* for what is still in the queue at the end */

struct passed {
	int fd; /* -1: taken */
	char *name;
};

struct message {
	struct message *next;
	char text[160];
	size_t count;
	int fds[];
};

struct notify {
	struct event_base *base;
	notify_status status;
	void *status_arg;
	int fd; /* connected to systemd's socket; -1: there is no systemd */
	struct event *writable;
	struct message *queue, **queue_end;
	struct event *watchdog_timer;
	struct event *status_timer;
	char sent[128]; /* the last status */
	struct passed *passed;
	size_t npassed;
};

static void message_free(struct message *message)
{
	for (size_t i = 0; i < message->count; i++)
		close(message->fds[i]);
	free(message);
}

/* A new socket: systemd's may be another than before. */
static int connect_socket(struct notify *notify)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t length = path ? strlen(path) : 0;
	int fd;

	if (length < 2 || length >= sizeof(address.sun_path) || !strchr("/@", path[0]))
		return -EINVAL;
	memcpy(address.sun_path, path, length);
	if (path[0] == '@')
		address.sun_path[0] = 0;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&address,
		    offsetof(struct sockaddr_un, sun_path) + length)) {
		int ret = -errno;

		close(fd);
		return ret;
	}
	/* Under the number of the old one, by which the loop knows it. */
	if (notify->fd < 0) {
		notify->fd = fd;
	} else {
		event_del(notify->writable);
		dup3(fd, notify->fd, O_CLOEXEC);
		close(fd);
	}
	return 0;
}

static int try_send(const struct notify *notify, const char *text, const int *fds, size_t count)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(MAX_SENT * sizeof(int))];
	} control = {.space = {0}};
	struct iovec iov = {(char *)text, strlen(text)};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};

	if (count) {
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
	}
	while (sendmsg(notify->fd, &message, MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

/* 0 or a negative errno; -EAGAIN: not now. */
static int send_message(struct notify *notify, const char *text, const int *fds, size_t count)
{
	int ret = try_send(notify, text, fds, count);

	if ((ret == -ECONNREFUSED || ret == -ENOTCONN) && !connect_socket(notify))
		ret = try_send(notify, text, fds, count);
	return ret;
}

static int enqueue(struct notify *notify, const char *text, const int *fds, size_t count)
{
	struct message *message = calloc(1, sizeof(*message) + count * sizeof(int));

	if (!message)
		return -ENOMEM;
	snprintf(message->text, sizeof(message->text), "%s", text);
	while (message->count < count) {
		int copy = fcntl(fds[message->count], F_DUPFD_CLOEXEC, 0);

		if (copy < 0) {
			int ret = -errno;

			message_free(message);
			return ret;
		}
		message->fds[message->count++] = copy;
	}
	*notify->queue_end = message;
	notify->queue_end = &message->next;
	event_add(notify->writable, NULL);
	return 0;
}

/* Sends, or keeps for later. -ENOTCONN: there is no systemd. */
static int tell(struct notify *notify, const char *text, const int *fds, size_t count)
{
	int ret = -EAGAIN;

	if (notify->fd < 0)
		return -ENOTCONN;
	if (!notify->queue)
		ret = send_message(notify, text, fds, count);
	return ret == -EAGAIN ? enqueue(notify, text, fds, count) : ret;
}

/* As much of the queue as the socket takes; what it refuses is lost. */
static void send_queue(struct notify *notify)
{
	while (notify->queue) {
		struct message *message = notify->queue;
		int ret = send_message(notify, message->text, message->fds, message->count);

		if (ret == -EAGAIN) {
			event_add(notify->writable, NULL);
			return;
		}
		if (ret)
			log_warning("systemd does not take a message: %s", strerror(-ret));
		notify->queue = message->next;
		if (!notify->queue)
			notify->queue_end = &notify->queue;
		message_free(message);
	}
	event_del(notify->writable);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	send_queue(arg);
}

/* The rest, at the end; but not for ever. */
static void drain_queue(struct notify *notify)
{
	uint64_t end = clock_ms() + END_MS, now;

	while (notify->queue && (now = clock_ms()) < end) {
		struct pollfd fd = {.fd = notify->fd, .events = POLLOUT};

		poll(&fd, 1, (int)(end - now));
		send_queue(notify);
	}
	while (notify->queue) {
		struct message *message = notify->queue;

		notify->queue = message->next;
		message_free(message);
	}
}

static void watchdog(evutil_socket_t fd, short what, void *arg)
{
	tell(arg, "WATCHDOG=1", NULL, 0);
}

static void send_status(struct notify *notify)
{
	char line[sizeof(notify->sent)] = "STATUS=";

	if (!notify->status)
		return;
	notify->status(notify->status_arg, line + 7, sizeof(line) - 7);
	if (!strcmp(line, notify->sent))
		return;
	memcpy(notify->sent, line, sizeof(line));
	tell(notify, line, NULL, 0);
}

static void on_status(evutil_socket_t fd, short what, void *arg)
{
	send_status(arg);
}

/* A timer that repeats. */
static int start_timer(struct notify *notify, struct event **timer, event_callback_fn fn,
		       uint64_t usec)
{
	struct timeval interval = {.tv_sec = usec / 1000000, .tv_usec = usec % 1000000};

	*timer = event_new(notify->base, -1, EV_PERSIST, fn, notify);
	return *timer && !event_add(*timer, &interval) ? 0 : -ENOMEM;
}

/* The environment is cleared, so that nobody takes these descriptors for his own. */
static int take_over_passed(struct notify *notify)
{
	char **names = NULL;
	int count = sd_listen_fds_with_names(1, &names);

	if (count <= 0)
		return count;
	notify->passed = calloc(count, sizeof(*notify->passed));
	if (!notify->passed)
		return -ENOMEM;
	notify->npassed = count;
	for (int i = 0; i < count; i++) {
		notify->passed[i].fd = SD_LISTEN_FDS_START + i;
		notify->passed[i].name = names[i];
	}
	free(names);
	return 0;
}

static int start_timers(struct notify *notify)
{
	uint64_t usec;
	int ret = 0;

	if (notify->fd >= 0 && notify->status)
		ret = start_timer(notify, &notify->status_timer, on_status, STATUS_S * 1000000ull);
	/* Twice in its time, as sd_watchdog_enabled(3) recommends. */
	if (!ret && sd_watchdog_enabled(0, &usec) > 0 && usec > 1)
		ret = start_timer(notify, &notify->watchdog_timer, watchdog, usec / 2);
	return ret;
}

static int start_socket(struct notify *notify)
{
	int ret = connect_socket(notify);

	if (ret) {
		log_warning("systemd is told nothing: %s: %s", getenv("NOTIFY_SOCKET"),
			    strerror(-ret));
		return 0;
	}
	notify->writable =
		event_new(notify->base, notify->fd, EV_WRITE | EV_PERSIST, on_writable, notify);
	return notify->writable ? 0 : -ENOMEM;
}

int notify_start(struct event_base *base, notify_status status, void *arg, struct notify **out)
{
	struct notify *notify = calloc(1, sizeof(*notify));
	int ret = -ENOMEM;

	if (notify) {
		notify->base = base;
		notify->status = status;
		notify->status_arg = arg;
		notify->fd = -1;
		notify->queue_end = &notify->queue;
		ret = take_over_passed(notify);
		if (!ret && getenv("NOTIFY_SOCKET"))
			ret = start_socket(notify);
		if (!ret)
			ret = start_timers(notify);
	}
	if (ret) {
		log_error("what systemd passed cannot be taken over: %s", strerror(-ret));
		notify_stop(notify);
		return ret;
	}
	*out = notify;
	return 0;
}

/* Such as the second of a socket that both its unit and the store have. */
static void close_passed(struct notify *notify)
{
	for (size_t i = 0; i < notify->npassed; i++) {
		if (notify->passed[i].fd >= 0) {
			log_debug("systemd passed a descriptor named \"%s\" that is of no use",
				  notify->passed[i].name);
			close(notify->passed[i].fd);
		}
		free(notify->passed[i].name);
	}
	free(notify->passed);
	notify->passed = NULL;
	notify->npassed = 0;
}

void notify_stop(struct notify *notify)
{
	if (!notify)
		return;
	close_passed(notify);
	drain_queue(notify);
	if (notify->writable)
		event_free(notify->writable);
	if (notify->fd >= 0)
		close(notify->fd);
	if (notify->watchdog_timer)
		event_free(notify->watchdog_timer);
	if (notify->status_timer)
		event_free(notify->status_timer);
	free(notify);
}

void notify_ready(struct notify *notify)
{
	close_passed(notify);
	send_status(notify);
	tell(notify, "READY=1", NULL, 0);
	if (notify->watchdog_timer)
		tell(notify, "WATCHDOG=1", NULL, 0);
}

void notify_reloading(struct notify *notify)
{
	char text[64];

	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, clock_us());
	tell(notify, text, NULL, 0);
}

void notify_reloaded(struct notify *notify)
{
	tell(notify, "READY=1", NULL, 0);
}

void notify_stopping(struct notify *notify)
{
	tell(notify, "STOPPING=1", NULL, 0);
}

size_t notify_take_fds(struct notify *notify, const char *name, int *fds, size_t count)
{
	size_t taken = 0;

	for (size_t i = 0; i < notify->npassed && taken < count; i++) {
		struct passed *passed = &notify->passed[i];

		if (passed->fd < 0 || strcmp(passed->name, name) != 0)
			continue;
		fds[taken++] = passed->fd;
		passed->fd = -1;
	}
	return taken;
}

int notify_keep_fds(struct notify *notify, const char *name, const int *fds, size_t count)
{
	char state[128];

	snprintf(state, sizeof(state), "FDSTORE=1\nFDNAME=%s", name);
	while (count) {
		size_t now = count < MAX_SENT ? count : MAX_SENT;
		int ret = tell(notify, state, fds, now);

		if (ret)
			return ret;
		fds += now;
		count -= now;
	}
	return 0;
}
