/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The connections of ibacm's clients; acm_server.h draws what becomes of a message. All in the
 * loop's thread.
 */
#include <errno.h>
#include <event2/event_struct.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <urcu/list.h>

#include "daemons/sacached/acm_listener.h"
#include "daemons/sacached/acm_pending.h"
#include "daemons/sacached/acm_server.h"
#include "daemons/common/clock.h"
#include "daemons/common/log.h"
#include "daemons/common/notify.h"
#include "daemons/sacached/resolve.h"

#define ACCEPT_AT_ONCE	      64
#define DESCRIPTORS_OF_OTHERS 128 /* ports, sockets of the other modules, files */

static const char client_name[] = "acm-client"; /* for systemd */

struct client {
	struct cds_list_head node;
	struct acm_server *server;
	struct event event;
	short events; /* what event waits for; 0: it is not added */
	int fd;
	unsigned
		have; /* bytes of a message that is incomplete, or that arrived while an answer is pending */
	uint8_t *in;
	size_t left; /* bytes of an answer that did not fit into the socket */
	uint8_t *out;
	/* A request that waits for the SA. */
	struct acm_work *work;
	struct resolve *resolve;
	uint64_t deadline; /* ms */
	int pending;	   /* its place in acm_pending, or -1 */
};

struct acm_server {
	struct sacached *d;
	struct acm_listener listener;
	struct acm_pending *pending;
	struct event *accept, *accept_tcp;
	struct event *again; /* resumes accepting after a pause */
	unsigned limit;
	bool said_full;
	struct cds_list_head clients;
	struct acm_stats stats;
	uint8_t out[ACM_MAX_ANSWER];
};

static bool process(struct client *client, const uint8_t *data, size_t have);

const struct acm_stats *acm_server_stats(const struct acm_server *server)
{
	return &server->stats;
}

static unsigned client_limit(const struct acm_server *server)
{
	unsigned limit = server->d->config.max_clients, room = 1;
	struct rlimit files;

	if (!getrlimit(RLIMIT_NOFILE, &files) &&
	    files.rlim_cur > LISTEN_BACKLOG + DESCRIPTORS_OF_OTHERS)
		room = files.rlim_cur < 1 << 30
			       ? files.rlim_cur - LISTEN_BACKLOG - DESCRIPTORS_OF_OTHERS
			       : 1 << 30;
	return limit && limit < room ? limit : room;
}

static void listen_to_tcp(struct acm_server *server);

/* Pauses the listener at the limit of clients, and resumes it when enough have disconnected. */
static void check_limit(struct acm_server *server)
{
	uint64_t clients = server->stats.clients;

	server->limit = client_limit(server);
	if (!server->listener.paused && clients >= server->limit) {
		if (!server->said_full)
			log_warning("%llu clients: no more are let in until some leave "
				    "(max_clients, LimitNOFILE)",
				    (unsigned long long)clients);
		server->said_full = true;
		server->stats.full++;
		if (server->accept_tcp)
			event_free(server->accept_tcp);
		server->accept_tcp = NULL;
		if (!acm_listener_pause(&server->listener, true))
			listen_to_tcp(server);
	} else if (server->listener.paused && clients < server->limit - server->limit / 64) {
		acm_listener_pause(&server->listener, false);
		listen_to_tcp(server);
	}
}

/* shutdown() also takes effect on the descriptor that systemd keeps of it. */
static void client_close(struct client *client)
{
	struct acm_server *server = client->server;

	if (client->events)
		event_del(&client->event);
	if (client->resolve)
		resolve_cancel(client->resolve);
	acm_pending_remove(server->pending, client->pending);
	shutdown(client->fd, SHUT_RDWR);
	close(client->fd);
	cds_list_del(&client->node);
	free(client->work);
	free(client->in);
	free(client->out);
	free(client);
	server->stats.clients--;
}

static void client_drop(struct client *client, const char *why)
{
	log_debug("a client is disconnected: %s", why);
	client->server->stats.dropped++;
	client_close(client);
}

static void client_ready(evutil_socket_t fd, short what, void *arg);

/* Waits for input, for room to write, or for the SA, as the client's state requires. The caller
 * must not use the client afterwards. */
static void client_update(struct client *client)
{
	short wanted = client->out ? EV_WRITE : client->work ? 0 : EV_READ;

	if (wanted == client->events)
		return;
	if (client->events)
		event_del(&client->event);
	client->events = 0;
	if (!wanted)
		return;
	event_assign(&client->event, client->server->d->base, client->fd, wanted | EV_PERSIST,
		     client_ready, client);
	if (event_add(&client->event, NULL))
		client_drop(client, "the loop takes no more");
	else
		client->events = wanted;
}

/* Sends what the socket takes and keeps the rest. False: the client was freed. */
static bool client_send(struct client *client, const uint8_t *data, size_t length)
{
	ssize_t sent = send(client->fd, data, length, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (sent == (ssize_t)length)
		return true;
	if (sent < 0 && errno != EAGAIN && errno != EINTR) {
		client_close(client);
		return false;
	}
	if (sent < 0)
		sent = 0;
	client->left = length - sent;
	client->out = malloc(client->left);
	if (!client->out) {
		client_drop(client, "no memory for its answer");
		return false;
	}
	memcpy(client->out, data + sent, client->left);
	return true;
}

static void client_flush(struct client *client)
{
	uint8_t *out = client->out;
	bool alive;

	client->out = NULL;
	alive = client_send(client, out, client->left);
	free(out);
	if (alive && !client->out)
		alive = process(client, NULL, 0);
	if (alive)
		client_update(client);
}

static void resolved(void *arg, int status, const struct sacache_path *path);

/* Queries work->key with the time that is left. False: the answer is ENOMEM. */
static bool client_ask(struct client *client)
{
	struct sacached *d = client->server->d;
	uint64_t now = clock_ms();
	unsigned left = client->deadline > now ? client->deadline - now : 1;

	client->resolve =
		client->work->request.query_sa
			? resolve_past_table(d, &client->work->key, left, resolved, client)
			: resolve_path(d, &client->work->key, left, resolved, client);
	return client->resolve;
}

/* The SA's answer, or the deadline. */
static bool client_answer(struct client *client, size_t length)
{
	struct acm_server *server = client->server;

	acm_pending_remove(server->pending, client->pending);
	client->pending = -1;
	free(client->work);
	client->work = NULL;
	return client_send(client, server->out, length);
}

static void resolved(void *arg, int status, const struct sacache_path *path)
{
	struct client *client = arg;
	struct acm_server *server = client->server;
	size_t length;

	client->resolve = NULL;
	length = acm_continue(server->d, &server->stats, client->work, status, path, server->out);
	if (!length && !client_ask(client))
		length = acm_continue(server->d, &server->stats, client->work, -ENOMEM, NULL,
				      server->out);
	if (!length)
		return;
	if (client_answer(client, length) && process(client, NULL, 0))
		client_update(client);
	if (server->listener.paused)
		check_limit(server);
}

static bool client_wait(struct client *client, struct acm_work *work)
{
	struct acm_server *server = client->server;

	client->deadline = clock_ms() + server->d->config.deadline;
	client->work = malloc(sizeof(*work));
	if (client->work)
		*client->work = *work;
	if (client->work && client_ask(client)) {
		client->pending =
			acm_pending_add(server->pending, client->fd, work->request.header);
		return true;
	}
	free(client->work);
	client->work = NULL;
	return client_send(client, server->out,
			   acm_continue(server->d, &server->stats, work, -ENOMEM, NULL,
					server->out));
}

/* Keeps what cannot be served yet. */
static bool client_keep(struct client *client, const uint8_t *data, size_t have)
{
	uint8_t *in = NULL;

	if (have) {
		in = malloc(have);
		if (!in) {
			client_drop(client, "no memory for its message");
			return false;
		}
		memcpy(in, data, have);
	}
	free(client->in);
	client->in = in;
	client->have = have;
	return true;
}

/*
 * Serves the messages in data (NULL: those that were kept) until one has to wait for the SA. False:
 * the client was freed.
 */
static bool process(struct client *client, const uint8_t *data, size_t have)
{
	struct acm_server *server = client->server;
	struct acm_work work;

	if (!data) {
		data = client->in;
		have = client->have;
	}
	while (have >= ACM_HEADER_SIZE && !client->work && !client->out) {
		int length = acm_length(data);
		size_t answer;
		bool alive;

		if (length < 0) {
			client_drop(client, "what it sent is no message");
			return false;
		}
		if (have < (size_t)length)
			break;
		answer = acm_begin(server->d, &server->stats, data, length, &work, server->out);
		alive = answer ? client_send(client, server->out, answer)
			       : client_wait(client, &work);
		if (!alive)
			return false;
		data += length;
		have -= length;
	}
	return have || client->in ? client_keep(client, data, have) : true;
}

static void client_read(struct client *client)
{
	uint8_t data[ACM_MAX_REQUEST];
	size_t have = client->have;
	ssize_t got;

	if (have)
		memcpy(data, client->in, have);
	got = recv(client->fd, data + have, sizeof(data) - have, MSG_DONTWAIT);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0)
		client_close(client);
	else if (process(client, data, have + got))
		client_update(client);
}

static void client_ready(evutil_socket_t fd, short what, void *arg)
{
	struct client *client = arg;
	struct acm_server *server = client->server;

	if (what & EV_WRITE)
		client_flush(client);
	else
		client_read(client);
	if (server->listener.paused)
		check_limit(server);
}

/* NULL: no memory. Takes ownership of the descriptor. */
static struct client *client_add(struct acm_server *server, int fd)
{
	struct client *client = calloc(1, sizeof(*client));

	if (!client) {
		close(fd);
		return NULL;
	}
	client->server = server;
	client->fd = fd;
	client->pending = -1;
	cds_list_add(&client->node, &server->clients);
	server->stats.clients++;
	server->stats.accepted++;
	return client;
}

static void pause_accepting(struct acm_server *server)
{
	struct timeval pause = {.tv_usec = 100000};

	event_del(server->accept);
	if (server->accept_tcp)
		event_del(server->accept_tcp);
	event_add(server->again, &pause);
}

static void accept_again(evutil_socket_t fd, short what, void *arg)
{
	struct acm_server *server = arg;

	event_add(server->accept, NULL);
	if (server->accept_tcp)
		event_add(server->accept_tcp, NULL);
}

static void accept_some(evutil_socket_t listener, short what, void *arg)
{
	struct acm_server *server = arg;
	struct client *client;
	int one = 1;

	for (unsigned i = 0; i < ACCEPT_AT_ONCE; i++) {
		int fd;

		/* If the listener cannot be paused, connections wait in the queue. */
		if (server->stats.clients >= (uint64_t)server->limit + LISTEN_BACKLOG) {
			pause_accepting(server);
			break;
		}
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0 && (errno == ECONNABORTED || errno == EINTR))
			continue;
		if (fd < 0 && errno != EAGAIN)
			pause_accepting(server);
		if (fd < 0)
			break;
		if (listener == server->listener.tcp_fd)
			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		client = client_add(server, fd);
		if (!client)
			continue;
		notify_keep_fds(server->d->notify, client_name, &fd, 1);
		client_update(client);
	}
	check_limit(server);
}

static void listen_to_tcp(struct acm_server *server)
{
	if (server->listener.tcp_fd < 0)
		return;
	server->accept_tcp = event_new(server->d->base, server->listener.tcp_fd,
				       EV_READ | EV_PERSIST, accept_some, server);
	if (server->accept_tcp)
		event_add(server->accept_tcp, NULL);
}

/* Clients of before the restart. Those that were waiting for an answer get an error. */
static void take_kept(struct acm_server *server)
{
	struct acm_request request = {.kind = ACM_RESOLVE_ADDRESS};
	int fds[64];
	size_t count;

	do {
		count = notify_take_fds(server->d->notify, client_name, fds, 64);
		for (size_t i = 0; i < count; i++) {
			struct client *client = client_add(server, fds[i]);

			server->stats.kept += client != NULL;
			if (client &&
			    (!acm_pending_find(server->pending, fds[i], request.header) ||
			     client_send(client, server->out,
					 acm_answer_error(&request, ACM_ETIMEDOUT, server->out))))
				client_update(client);
		}
	} while (count == 64);
	acm_pending_clear(server->pending);
	if (server->stats.kept)
		log_info("%llu clients of before the restart are still there",
			 (unsigned long long)server->stats.kept);
}

int acm_server_start(struct sacached *d, struct acm_server **out)
{
	struct acm_server *server = calloc(1, sizeof(*server));
	int ret;

	if (!server)
		return -ENOMEM;
	server->d = d;
	CDS_INIT_LIST_HEAD(&server->clients);
	server->limit = client_limit(server);
	ret = acm_listener_open(d, &server->listener);
	if (ret) {
		free(server);
		return ret;
	}
	server->accept =
		event_new(d->base, server->listener.fd, EV_READ | EV_PERSIST, accept_some, server);
	server->again = event_new(d->base, -1, 0, accept_again, server);
	server->pending = acm_pending_open(d);
	if (!server->accept || !server->again || event_add(server->accept, NULL)) {
		log_error("no memory to take connections with");
		acm_server_stop(server);
		return -ENOMEM;
	}
	listen_to_tcp(server);
	take_kept(server);
	*out = server;
	return 0;
}

/* Clients wait without a limit of their own, so each gets an error. */
static void end_wait(struct client *client)
{
	struct acm_server *server = client->server;

	resolve_cancel(client->resolve);
	client->resolve = NULL;
	client_answer(client, acm_continue(server->d, &server->stats, client->work, -ECANCELED,
					   NULL, server->out));
}

/* systemd keeps these sockets, so they must not be shut down. */
void acm_server_stop(struct acm_server *server)
{
	struct client *client, *next;

	if (!server)
		return;
	cds_list_for_each_entry_safe (client, next, &server->clients, node)
		if (client->resolve)
			end_wait(client);
	cds_list_for_each_entry_safe (client, next, &server->clients, node) {
		if (client->events)
			event_del(&client->event);
		/* The next run cannot continue in the middle of a message. */
		if (client->have || client->out)
			shutdown(client->fd, SHUT_RDWR);
		close(client->fd);
		free(client->in);
		free(client->out);
		free(client);
	}
	if (server->accept)
		event_free(server->accept);
	if (server->accept_tcp)
		event_free(server->accept_tcp);
	if (server->again)
		event_free(server->again);
	acm_listener_close(&server->listener);
	acm_pending_close(server->pending);
	free(server);
}
