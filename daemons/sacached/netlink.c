/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Answers the kernel's path queries. local_service.c parses and builds the messages; this file has
 * the socket, the queries that wait for the SA, and their deadlines. The loop's thread.
 */
#include "daemons/sacached/addresses.h"
#include "daemons/sacached/netlink.h"

#include <errno.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemons/common/clock.h"
#include "daemons/sacached/local_service.h"
#include "daemons/common/log.h"
#include "daemons/sacached/resolve.h"

#define KERNEL_TIMEOUT 2000    /* ms, the kernel's default */
#define RECEIVE_BUFFER 4194304 /* a few thousand queries */
#define MAX_WAITING \
	16384		/* queries that wait for the SA; the kernel asks the SA itself about more */
#define BATCH	     64 /* datagrams in one iteration of the loop */
#define LOOK_AGAIN_S 60 /* for a kernel without RDMA, whose module may be loaded later */
#define COMPLAIN_MS  60000

/* A query that waits for the SA. */
struct question {
	struct netlink *netlink;
	struct question *next, **link;
	struct resolve *resolve;
	uint64_t asked; /* when the kernel asked, ms */
	struct ls_message message;
};

struct netlink {
	struct sacached *d;
	int fd;
	struct event *readable;
	struct event *again;
	unsigned timeout; /* ms that the kernel waits */
	struct question *waiting;
	unsigned nwaiting;
	uint64_t complained;
	struct netlink_stats stats;
};

/* Leaves the group, so that the kernel does not wait any more. Pending queries are dropped: the
 * kernel asks the SA for them. */
static void leave(struct netlink *netlink)
{
	for (struct question *question = netlink->waiting, *next; question; question = next) {
		next = question->next;
		resolve_cancel(question->resolve);
		free(question);
	}
	netlink->waiting = NULL;
	netlink->nwaiting = 0;
	if (netlink->readable)
		event_free(netlink->readable);
	netlink->readable = NULL;
	if (netlink->fd >= 0)
		close(netlink->fd);
	netlink->fd = -1;
}

static int send_message(struct netlink *netlink, const uint8_t *buf, size_t length)
{
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};

	if (sendto(netlink->fd, buf, length, MSG_DONTWAIT, (const struct sockaddr *)&kernel,
		   sizeof(kernel)) < 0)
		return -errno;
	return 0;
}

/* Sends an answer, or (failed) an error. If it cannot be sent, the kernel's own timeout ends the
 * query. */
static void send_answer(struct netlink *netlink, bool failed, const uint8_t *buf, size_t length)
{
	int ret = send_message(netlink, buf, length);

	if (ret)
		log_debug("netlink: an answer was not sent: %s", strerror(-ret));
	else if (failed)
		netlink->stats.errors++;
	else
		netlink->stats.answered++;
}

static void answer_path(struct netlink *netlink, const struct ls_message *message,
			const struct sacache_path *path)
{
	uint8_t buf[LS_MESSAGE_SIZE];
	size_t length = ls_answer_path(message, path, buf);

	send_answer(netlink, length == NLMSG_HDRLEN, buf, length);
}

static void answer_error(struct netlink *netlink, const struct ls_message *message)
{
	uint8_t buf[LS_MESSAGE_SIZE];

	send_answer(netlink, true, buf, ls_answer_error(message, buf));
}

static void question_free(struct question *question)
{
	*question->link = question->next;
	if (question->next)
		question->next->link = question->link;
	question->netlink->nwaiting--;
	free(question);
}

static void resolved(void *arg, int status, const struct sacache_path *path)
{
	struct question *question = arg;
	struct netlink *netlink = question->netlink;

	/* The kernel has asked the SA itself by now and dropped the sequence number of this
	 * query. */
	if (clock_ms() - question->asked >= netlink->timeout)
		netlink->stats.late++;
	else
		answer_path(netlink, &question->message, status ? NULL : path);
	question_free(question);
}

static const struct sacached_port *find_port(const struct sacached *d,
					     const struct ls_message *message)
{
	for (unsigned i = 0; i < d->nports; i++)
		if (d->ports[i].active && d->ports[i].portnum == message->port &&
		    !strcmp(d->ports[i].ca, message->device))
			return &d->ports[i];
	return NULL;
}

/* Queries the SA for three quarters of the time: the rest is for the way to the kernel and back. */
static int ask(struct netlink *netlink, const struct ls_message *message)
{
	unsigned deadline = netlink->timeout / 4 * 3;
	struct question *question;

	if (netlink->nwaiting == MAX_WAITING)
		return -EAGAIN;
	question = calloc(1, sizeof(*question));
	if (!question)
		return -ENOMEM;
	question->netlink = netlink;
	question->message = *message;
	question->asked = clock_ms();
	if (netlink->d->config.deadline < deadline)
		deadline = netlink->d->config.deadline;
	question->resolve = resolve_path(netlink->d, &message->key, deadline, resolved, question);
	if (!question->resolve) {
		free(question);
		return -ENOMEM;
	}
	question->link = &netlink->waiting;
	question->next = netlink->waiting;
	if (question->next)
		question->next->link = &question->next;
	netlink->waiting = question;
	netlink->nwaiting++;
	return 0;
}

static void path_asked(struct netlink *netlink, struct ls_message *message)
{
	const struct sacached_port *port = find_port(netlink->d, message);
	struct sacache_path path;
	int ret;

	netlink->stats.paths++;
	if (!port) {
		answer_error(netlink, message);
		return;
	}
	message->key.port = port->number;
	ret = resolve_lookup(netlink->d, &message->key, &path);
	if (!ret)
		answer_path(netlink, message, &path);
	else if ((ret != -ENOENT && ret != -ESTALE) || ask(netlink, message))
		answer_error(netlink, message);
}

static void address_asked(struct netlink *netlink, const struct ls_message *message)
{
	uint8_t gid[16], buf[LS_MESSAGE_SIZE];
	struct in6_addr ip;
	int ret = -ENODATA;

	if (address_of((const struct sockaddr *)&message->address, &ip))
		ret = addresses_gid(netlink->d->addresses, &ip, gid);

	netlink->stats.addresses++;
	send_answer(netlink, ret != 0, buf, ls_answer_address(message, ret ? NULL : gid, buf));
}

/* The kernel's acknowledgement. Only SET_TIMEOUT requests one, but the kernel also sends one for
 * what it refuses. */
static void acknowledged(struct netlink *netlink, const struct ls_message *message)
{
	bool timeout = RDMA_NL_GET_OP(message->type) == RDMA_NL_LS_OP_SET_TIMEOUT;

	if (message->error == -EPERM) {
		log_error("netlink: the kernel does not take answers from this process and is not "
			  "served: run it with CAP_NET_ADMIN, outside of user namespaces");
		leave(netlink);
	} else if (message->error) {
		log_warning("netlink: the kernel refuses %s: %s",
			    timeout ? "kernel_timeout" : "an answer", strerror(-message->error));
	} else if (timeout) {
		netlink->timeout = netlink->d->config.kernel_timeout;
		log_info("netlink: the kernel waits %u ms for an answer", netlink->timeout);
	}
}

static void take_message(struct netlink *netlink, enum ls_kind kind, struct ls_message *message)
{
	switch (kind) {
	case LS_PATH: path_asked(netlink, message); break;
	case LS_ADDRESS: address_asked(netlink, message); break;
	case LS_ACKNOWLEDGE: acknowledged(netlink, message); break;
	case LS_INVALID:
		netlink->stats.invalid++;
		answer_error(netlink, message);
		break;
	case LS_IGNORE: break;
	}
}

/* Queries were lost (ENOBUFS). The kernel asks the SA for them after its timeout. */
static void overrun(struct netlink *netlink)
{
	uint64_t now = clock_ms();

	netlink->stats.overruns++;
	if (netlink->complained && now - netlink->complained < COMPLAIN_MS)
		return;
	netlink->complained = now;
	log_warning("netlink: the kernel asks faster than it is answered; it asks the SA itself");
}

/* Reads one datagram; false: there is none. */
static bool receive(struct netlink *netlink)
{
	uint32_t buf[1024];
	struct sockaddr_nl from = {.nl_family = AF_NETLINK};
	socklen_t size = sizeof(from);
	ssize_t got = recvfrom(netlink->fd, buf, sizeof(buf), MSG_DONTWAIT,
			       (struct sockaddr *)&from, &size);
	const uint8_t *p = (const uint8_t *)buf;

	if (got < 0) {
		if (errno == ENOBUFS)
			overrun(netlink);
		return errno == ENOBUFS || errno == EINTR;
	}
	/* A process with CAP_NET_ADMIN may also send to the group; only the kernel is served. */
	while (from.nl_pid == 0 && got > 0 && netlink->fd >= 0) {
		struct ls_message message;
		size_t length;
		enum ls_kind kind = ls_parse(p, got, &message, &length);

		if (!length)
			break;
		take_message(netlink, kind, &message);
		p += length;
		got -= length;
	}
	return netlink->fd >= 0;
}

static void readable(evutil_socket_t fd, short what, void *arg)
{
	for (unsigned i = 0; i < BATCH && receive(arg); i++)
		;
}

/* Joins the group. -EPROTONOSUPPORT: the kernel has no RDMA. */
static int join(struct netlink *netlink)
{
	struct sockaddr_nl address = {.nl_family = AF_NETLINK,
				      .nl_groups = 1u << (RDMA_NL_GROUP_LS - 1)};
	const int size = RECEIVE_BUFFER;
	uint8_t buf[LS_MESSAGE_SIZE];
	unsigned timeout = netlink->d->config.kernel_timeout;

	netlink->timeout = KERNEL_TIMEOUT;
	netlink->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_RDMA);
	if (netlink->fd < 0)
		return -errno;
	if (setsockopt(netlink->fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)))
		setsockopt(netlink->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	if (bind(netlink->fd, (struct sockaddr *)&address, sizeof(address)))
		return -errno;
	netlink->readable =
		event_new(netlink->d->base, netlink->fd, EV_READ | EV_PERSIST, readable, netlink);
	if (!netlink->readable || event_add(netlink->readable, NULL))
		return -ENOMEM;
	if (timeout)
		return send_message(netlink, buf, ls_set_timeout(1, timeout, buf));
	return 0;
}

static void try_to_join(struct netlink *netlink)
{
	struct timeval again = {.tv_sec = LOOK_AGAIN_S};
	int ret = join(netlink);

	if (!ret) {
		log_info("netlink: listens to the kernel's questions");
		return;
	}
	leave(netlink);
	if (ret == -EPROTONOSUPPORT || ret == -EAFNOSUPPORT)
		event_add(netlink->again, &again);
	else if (ret == -EPERM)
		log_warning("netlink: the kernel is not served: needs CAP_NET_ADMIN, or "
			    "\"netlink no\"");
	else
		log_warning("netlink: the kernel is not served: %s", strerror(-ret));
}

static void look_again(evutil_socket_t fd, short what, void *arg)
{
	try_to_join(arg);
}

int netlink_start(struct sacached *d, struct netlink **out)
{
	struct netlink *netlink;

	if (!d->config.netlink)
		return 0;
	netlink = calloc(1, sizeof(*netlink));
	if (netlink) {
		netlink->d = d;
		netlink->fd = -1;
		netlink->again = evtimer_new(d->base, look_again, netlink);
	}
	if (!netlink || !netlink->again) {
		log_error("no memory");
		free(netlink);
		return -ENOMEM;
	}
	try_to_join(netlink);
	if (event_pending(netlink->again, EV_TIMEOUT, NULL))
		log_notice("netlink: this kernel has no RDMA; looking again every %d s",
			   LOOK_AGAIN_S);
	*out = netlink;
	return 0;
}

void netlink_stop(struct netlink *netlink)
{
	if (!netlink)
		return;
	leave(netlink);
	event_free(netlink->again);
	free(netlink);
}

void netlink_stats(const struct netlink *netlink, struct netlink_stats *stats)
{
	memset(stats, 0, sizeof(*stats));
	if (!netlink)
		return;
	*stats = netlink->stats;
	stats->listening = netlink->fd >= 0;
}
