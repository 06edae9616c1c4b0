/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The HTTP server for Prometheus. libmicrohttpd has one epoll descriptor for all it waits for; when that
 * or its next timeout is due, the loop lets it run. Few connections, of little memory each, none for long.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemons/sacached/log.h"
#include "daemons/sacached/metrics.h"

#define MAX_CONNECTIONS 16
#define MEMORY		(16 << 10) /* of a connection, for its request */
#define IDLE_S		10

struct metrics {
	struct sacached *d;
	struct MHD_Daemon *http;
	struct event *ready, *timer;
};

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, char *text,
			      size_t length, const char *type)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(
		length, text, type ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
	enum MHD_Result ret;

	if (!response) {
		if (type)
			free(text);
		return MHD_NO;
	}
	MHD_add_response_header(response, "Content-Type", type ? type : "text/plain");
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(response, "Allow", "GET, HEAD");
	ret = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return ret;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status, const char *why)
{
	return answer(connection, status, (char *)why, strlen(why), NULL);
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url,
				  const char *method, const char *version, const char *data,
				  size_t *size, void **context)
{
	static char seen;
	struct metrics *metrics = arg;
	size_t length;
	char *text;

	/* First for the headers alone; then what comes behind them is thrown away. */
	if (!*context) {
		*context = &seen;
		return MHD_YES;
	}
	if (*size) {
		*size = 0;
		return MHD_YES;
	}
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET /metrics\n");
	if (strcmp(url, "/metrics") != 0)
		return refuse(connection, MHD_HTTP_NOT_FOUND, "There is only /metrics here.\n");
	text = metrics_text(metrics->d, &length);
	if (!text)
		return refuse(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "No memory.\n");
	return answer(connection, MHD_HTTP_OK, text, length,
		      "text/plain; version=0.0.4; charset=utf-8");
}

static void run(evutil_socket_t fd, short what, void *arg)
{
	struct metrics *metrics = arg;
	MHD_UNSIGNED_LONG_LONG ms;

	MHD_run(metrics->http);
	if (MHD_get_timeout(metrics->http, &ms) == MHD_YES) {
		struct timeval next = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};

		event_add(metrics->timer, &next);
	} else {
		event_del(metrics->timer);
	}
}

/* "127.0.0.1:9843" or "[::1]:9843" */
static bool parse_address(const char *text, struct sockaddr_storage *address, socklen_t *length)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)address;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;
	const char *colon = strrchr(text, ':');
	char host[INET6_ADDRSTRLEN + 2], *end;
	unsigned long port;

	memset(address, 0, sizeof(*address));
	if (!colon || (size_t)(colon - text) >= sizeof(host))
		return false;
	memcpy(host, text, colon - text);
	host[colon - text] = 0;
	port = strtoul(colon + 1, &end, 10);
	if (colon[1] < '0' || colon[1] > '9' || *end || !port || port > 65535)
		return false;
	if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		*length = sizeof(*v4);
		return true;
	}
	end = host + strlen(host) - 1;
	if (host[0] != '[' || *end != ']')
		return false;
	*end = 0;
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons(port);
	*length = sizeof(*v6);
	return inet_pton(AF_INET6, host + 1, &v6->sin6_addr) == 1;
}

/* What libmicrohttpd has to say, mostly of clients that are gone. */
static void http_log(void *arg, const char *format, va_list ap)
	__attribute__((format(printf, 2, 0)));

static void http_log(void *arg, const char *format, va_list ap)
{
	char line[256];

	vsnprintf(line, sizeof(line), format, ap);
	line[strcspn(line, "\n")] = 0;
	log_debug("metrics: %s", line);
}

/* A socket of our own: libmicrohttpd does not say why it could not bind one. */
static int listen_on(const struct sockaddr_storage *address, socklen_t length)
{
	int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int yes = 1, ret = 0;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (bind(fd, (const struct sockaddr *)address, length) || listen(fd, MAX_CONNECTIONS))
		ret = -errno;
	if (!ret)
		return fd;
	close(fd);
	return ret;
}

static int start(struct metrics *metrics, int fd)
{
	const union MHD_DaemonInfo *info;
	struct sacached *d = metrics->d;

	metrics->http =
		MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request,
				 metrics, MHD_OPTION_EXTERNAL_LOGGER, http_log, NULL,
				 MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
				 (unsigned)MAX_CONNECTIONS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
				 (size_t)MEMORY, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
				 MHD_OPTION_END);
	if (!metrics->http) {
		close(fd);
		return -ENOMEM;
	}
	info = MHD_get_daemon_info(metrics->http, MHD_DAEMON_INFO_EPOLL_FD);
	if (!info)
		return -ENOSYS;
	metrics->ready = event_new(d->base, info->epoll_fd, EV_READ | EV_PERSIST, run, metrics);
	metrics->timer = event_new(d->base, -1, 0, run, metrics);
	if (!metrics->ready || !metrics->timer || event_add(metrics->ready, NULL))
		return -ENOMEM;
	return 0;
}

int metrics_start(struct sacached *d, struct metrics **out)
{
	const char *listen = d->config.metrics_listen;
	struct sockaddr_storage address;
	socklen_t length;
	int fd, ret;

	if (!listen[0])
		return 0;
	if (!parse_address(listen, &address, &length)) {
		log_error("metrics_listen %s: write an address and a port, 127.0.0.1:9843 or "
			  "[::1]:9843",
			  listen);
		return -EINVAL;
	}
	fd = listen_on(&address, length);
	if (fd < 0) {
		log_error("metrics_listen %s: %s", listen, strerror(-fd));
		return fd;
	}
	*out = calloc(1, sizeof(**out));
	if (!*out) {
		close(fd);
		return -ENOMEM;
	}
	(*out)->d = d;
	ret = start(*out, fd);
	if (ret)
		log_error("metrics_listen %s: libmicrohttpd does not start", listen);
	return ret;
}

void metrics_stop(struct metrics *metrics)
{
	if (!metrics)
		return;
	if (metrics->ready)
		event_free(metrics->ready);
	if (metrics->timer)
		event_free(metrics->timer);
	if (metrics->http)
		MHD_stop_daemon(metrics->http);
	free(metrics);
}
