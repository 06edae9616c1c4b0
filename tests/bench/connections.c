/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How fast librdmacm makes connections, and what they cost, with asynchronous ids and QPs of 8 WRs
 * that share one CQ:
 *
 *	connections serve COUNT
 *		accepts; when COUNT connections are open at once, prints the bytes of resident memory
 *		by which the process has grown for each (0: never)
 *	connections rate ADDRESS COUNT
 *		opens and disconnects COUNT of them, some at a time; prints how many in a second
 *	connections hold ADDRESS COUNT
 *		opens COUNT of them and keeps them; prints bytes for each, as above, microseconds for
 *		each, and the time of the second half of them over that of the first. Ends when its
 *		input does.
 *
 * Single-threaded, both sides. What lies in shared memory counts as memory too.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "measure.h"

#define PORT	 7471
#define WINDOW	 64   /* connections on their way at once */
#define WARM_UP	 64   /* made first, so that what is made once does not count */
#define RESOLVES 2000 /* milliseconds */

static struct rdma_event_channel *channel;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void create_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1}};

	if (!pd) {
		pd = ibv_alloc_pd(id->verbs);
		cq = ibv_create_cq(id->verbs, 128, NULL, NULL, 0);
		if (!pd || !cq)
			fail("ibv_create_cq");
	}
	init.send_cq = init.recv_cq = cq;
	if (rdma_create_qp(id, pd, &init))
		fail("rdma_create_qp");
}

static void serve(long count)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1};
	struct rdma_cm_event *event;
	struct rdma_cm_id *listener;
	long open = 0, before = 0;

	if (rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(listener, (struct sockaddr *)&addr) || rdma_listen(listener, 1024))
		fail("rdma_listen");
	while (!rdma_get_cm_event(channel, &event)) {
		enum rdma_cm_event_type type = event->event;
		struct rdma_cm_id *id = event->id;

		rdma_ack_cm_event(event);
		switch (type) {
		case RDMA_CM_EVENT_CONNECT_REQUEST:
			create_qp(id);
			if (rdma_accept(id, &param))
				fail("rdma_accept");
			break;
		case RDMA_CM_EVENT_ESTABLISHED:
			open++;
			if (open == WARM_UP)
				before = resident();
			if (open != count + WARM_UP)
				break;
			printf("%ld\n", (resident() - before) / count);
			fflush(stdout);
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
			open--;
			rdma_disconnect(id);
			/* fall through */
		case RDMA_CM_EVENT_CONNECT_ERROR:
		case RDMA_CM_EVENT_REJECTED:
			rdma_destroy_qp(id);
			rdma_destroy_id(id);
			break;
		default: break;
		}
	}
	fail("rdma_get_cm_event");
}

static void start(const struct sockaddr_in *addr)
{
	struct rdma_cm_id *id;

	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(id, NULL, (struct sockaddr *)addr, RESOLVES))
		fail("rdma_resolve_addr");
}

/* Opens that many; with close, each is disconnected again when it is open, and waited for. */
static void open_all(const struct sockaddr_in *addr, long count, bool close)
{
	struct rdma_conn_param param = {.responder_resources = 1,
					.initiator_depth = 1,
					.retry_count = 7,
					.rnr_retry_count = 7};
	struct rdma_cm_event *event;
	long started = 0, done = 0;

	while (done < count) {
		while (started < count && started < done + WINDOW) {
			start(addr);
			started++;
		}
		if (rdma_get_cm_event(channel, &event))
			fail("rdma_get_cm_event");

		enum rdma_cm_event_type type = event->event;
		struct rdma_cm_id *id = event->id;
		int status = event->status;

		rdma_ack_cm_event(event);
		switch (type) {
		case RDMA_CM_EVENT_ADDR_RESOLVED:
			if (rdma_resolve_route(id, RESOLVES))
				fail("rdma_resolve_route");
			break;
		case RDMA_CM_EVENT_ROUTE_RESOLVED:
			create_qp(id);
			if (rdma_connect(id, &param))
				fail("rdma_connect");
			break;
		case RDMA_CM_EVENT_ESTABLISHED:
			if (!close)
				done++;
			else if (rdma_disconnect(id))
				fail("rdma_disconnect");
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
			if (!close) {
				fprintf(stderr, "connections: a connection was lost\n");
				exit(1);
			}
			rdma_destroy_qp(id);
			rdma_destroy_id(id);
			done++;
			break;
		case RDMA_CM_EVENT_TIMEWAIT_EXIT: break;
		default:
			fprintf(stderr, "connections: %s, status %d\n", rdma_event_str(type),
				status);
			exit(1);
		}
	}
}

static void rate(const struct sockaddr_in *addr, long count)
{
	open_all(addr, WARM_UP, true);

	double begin = now_s();

	open_all(addr, count, true);
	printf("%.0f\n", count / (now_s() - begin));
}

static void hold(const struct sockaddr_in *addr, long count)
{
	open_all(addr, WARM_UP, false);

	long before = resident();
	double begin = now_s(), half;

	open_all(addr, count / 2, false);
	half = now_s();
	open_all(addr, count - count / 2, false);

	double end = now_s();

	printf("%ld %.2f %.3f\n", (resident() - before) / count, (end - begin) / count * 1e6,
	       (end - half) / (half - begin));
	fflush(stdout);
	while (getchar() != EOF)
		;
}

int main(int argc, char **argv)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(PORT)};

	channel = rdma_create_event_channel();
	if (!channel)
		fail("rdma_create_event_channel");
	if (argc == 3 && !strcmp(argv[1], "serve")) {
		serve(atol(argv[2]));
	} else if (argc == 4 && inet_pton(AF_INET, argv[2], &addr.sin_addr) == 1 &&
		   atol(argv[3]) > 1) {
		if (!strcmp(argv[1], "rate"))
			rate(&addr, atol(argv[3]));
		else
			hold(&addr, atol(argv[3]));
	} else {
		fprintf(stderr, "usage: connections serve COUNT | rate ADDRESS COUNT | "
				"hold ADDRESS COUNT\n");
		return 2;
	}
	return 0;
}
