/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The control connections: one for each worker, by plain sockets, over which the client's
 * configuration, the QPs' addresses and later grants travel. After the start each belongs to its
 * worker.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "traffic.h"

#define DIAL_SECONDS 20

void send_all(int fd, const void *buf, size_t len)
{
	const char *p = buf;

	while (len) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			fail(NULL, "control connection: %m");
		p += n;
		len -= n;
	}
}

void recv_all(int fd, void *buf, size_t len)
{
	char *p = buf;

	while (len) {
		ssize_t n = recv(fd, p, len, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			fail(NULL, "control connection: %m");
		if (!n)
			fail(NULL, "the other end is gone");
		p += n;
		len -= n;
	}
}

void tell(struct worker *w, const struct msg *msg)
{
	send_all(w->fd, msg, sizeof(*msg));
}

static void no_delay(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static void greet(struct end *end, int fd, uint32_t index)
{
	send_all(fd, &end->cfg, sizeof(end->cfg));
	send_all(fd, &index, sizeof(index));
}

static void be_greeted(struct end *end, int fd, bool first)
{
	struct config seen;
	uint32_t index;

	recv_all(fd, &seen, sizeof(seen));
	recv_all(fd, &index, sizeof(index));
	if (seen.magic != end->opt->cfg.magic || index >= seen.threads ||
	    seen.threads > MAX_THREADS)
		fail(NULL, "the client is another version of this program");
	if (!first && memcmp(&seen, &end->cfg, sizeof(seen)))
		fail(NULL, "two clients at once");
	end->cfg = seen;
	end->fds[index] = fd;
}

/* The server: the first connection brings the configuration, and with it how many follow. */
void end_listen(struct end *end, unsigned port)
{
	struct sockaddr_in6 addr = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	int one = 1, zero = 0, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), conn;
	unsigned i;

	if (fd < 0)
		fail(NULL, "socket: %m");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) || listen(fd, MAX_THREADS))
		fail(NULL, "port %u: %m", port);
	for (i = 0; !i || i < end->cfg.threads; i++) {
		conn = accept(fd, NULL, NULL);
		if (conn < 0)
			fail(NULL, "accept: %m");
		no_delay(conn);
		be_greeted(end, conn, !i);
	}
	close(fd);
}

/* The same over socket pairs that exist already. */
void end_greet(struct end *end)
{
	uint32_t i;

	for (i = 0; i < end->cfg.threads; i++)
		greet(end, end->fds[i], i);
}

void end_be_greeted(struct end *end)
{
	unsigned i, n = end->opt->cfg.threads;

	for (i = 0; i < n; i++)
		be_greeted(end, end->fds[i], !i);
}

static int dial(const char *host, unsigned port)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list, *a;
	double until = seconds_now() + DIAL_SECONDS;
	char service[8];
	int fd = -1, err;

	snprintf(service, sizeof(service), "%u", port);
	err = getaddrinfo(host, service, &hints, &list);
	if (err)
		fail(NULL, "%s: %s", host, gai_strerror(err));
	do {
		for (a = list; a && fd < 0; a = a->ai_next) {
			fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
			if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen)) {
				close(fd);
				fd = -1;
			}
		}
		if (fd < 0)
			usleep(100000);
	} while (fd < 0 && seconds_now() < until);
	if (fd < 0)
		fail(NULL, "%s port %u: %m", host, port);
	freeaddrinfo(list);
	no_delay(fd);
	return fd;
}

void end_dial(struct end *end, const char *host, unsigned port)
{
	uint32_t i;

	for (i = 0; i < end->cfg.threads; i++) {
		end->fds[i] = dial(host, port);
		greet(end, end->fds[i], i);
	}
}
