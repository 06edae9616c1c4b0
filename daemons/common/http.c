/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * See http.h. libmicrohttpd has one epoll descriptor for all it waits for; when that or its next
 * timeout is due, the loop lets it run. Few connections, of little memory each: evhttp of libevent
 * 2.1 could not bound their number.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemons/common/http.h"
#include "daemons/common/log.h"

struct http {
	struct MHD_Daemon *daemon;
	struct event *ready, *timer;
};

static void run(evutil_socket_t fd, short what, void *arg)
{
	struct http *http = arg;
	MHD_UNSIGNED_LONG_LONG ms;

	MHD_run(http->daemon);
	if (MHD_get_timeout(http->daemon, &ms) == MHD_YES) {
		struct timeval next = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};

		event_add(http->timer, &next);
	} else {
		event_del(http->timer);
	}
}

void http_kick(struct http *http)
{
	event_active(http->timer, EV_TIMEOUT, 0);
}

/* What libmicrohttpd has to say, mostly of clients that are gone. */
static void write_log(void *arg, const char *format, va_list ap)
	__attribute__((format(printf, 2, 0)));

static void write_log(void *arg, const char *format, va_list ap)
{
	char line[256];

	vsnprintf(line, sizeof(line), format, ap);
	line[strcspn(line, "\n")] = 0;
	log_debug("http: %s", line);
}

/* A socket of our own: libmicrohttpd does not say why it could not bind one. */
static int listen_on(const struct sockaddr_storage *address, socklen_t length, unsigned waiting)
{
	int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int yes = 1, ret = 0;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (bind(fd, (const struct sockaddr *)address, length) || listen(fd, waiting))
		ret = -errno;
	if (!ret)
		return fd;
	close(fd);
	return ret;
}

static uint16_t port_of(int fd)
{
	struct sockaddr_storage address;
	socklen_t length = sizeof(address);

	/* At the same place in IPv4's and IPv6's. */
	if (getsockname(fd, (struct sockaddr *)&address, &length))
		return 0;
	return ntohs(((struct sockaddr_in *)&address)->sin_port);
}

static int start(struct http *http, struct event_base *base, const struct http_options *options,
		 int fd)
{
	const union MHD_DaemonInfo *info;

	http->daemon = MHD_start_daemon(
		MHD_USE_EPOLL | MHD_USE_ERROR_LOG | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
		options->answer, options->arg, MHD_OPTION_EXTERNAL_LOGGER, write_log, NULL,
		MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, options->connections,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)options->memory,
		MHD_OPTION_CONNECTION_TIMEOUT, options->idle_s, MHD_OPTION_NOTIFY_COMPLETED,
		options->completed, options->arg, MHD_OPTION_END);
	if (!http->daemon) {
		close(fd);
		return -ENOMEM;
	}
	info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	if (!info)
		return -ENOSYS;
	http->ready = event_new(base, info->epoll_fd, EV_READ | EV_PERSIST, run, http);
	http->timer = event_new(base, -1, 0, run, http);
	if (!http->ready || !http->timer || event_add(http->ready, NULL))
		return -ENOMEM;
	return 0;
}

int http_start(struct event_base *base, const struct http_options *options, struct http **out)
{
	struct sockaddr_storage address;
	int length = sizeof(address), fd, ret;
	struct http *http;

	if (evutil_parse_sockaddr_port(options->listen, (struct sockaddr *)&address, &length) ||
	    (!options->port && !((struct sockaddr_in *)&address)->sin_port)) {
		log_error("%s %s: write an address and a port, 127.0.0.1:9843 or [::1]:9843",
			  options->key, options->listen);
		return -EINVAL;
	}
	fd = listen_on(&address, length, options->connections);
	if (fd < 0) {
		if (fd != -EADDRINUSE)
			log_error("%s %s: %s", options->key, options->listen, strerror(-fd));
		return fd;
	}
	if (options->port)
		*options->port = port_of(fd);
	http = calloc(1, sizeof(*http));
	if (!http) {
		close(fd);
		return -ENOMEM;
	}
	ret = start(http, base, options, fd);
	if (ret) {
		log_error("%s %s: libmicrohttpd does not start", options->key, options->listen);
		http_stop(http);
		return ret;
	}
	*out = http;
	return 0;
}

void http_stop(struct http *http)
{
	if (!http)
		return;
	if (http->ready)
		event_free(http->ready);
	if (http->timer)
		event_free(http->timer);
	if (http->daemon)
		MHD_stop_daemon(http->daemon);
	free(http);
}
