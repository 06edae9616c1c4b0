// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Ends of a connection that stop half-way, for tests that kill one and look at the other, or change the
 * netdev meanwhile.
 *
 *	rdmacm_halfway asked ADDRESS	a server that has a request and does not answer it
 *	rdmacm_halfway replied ADDRESS	a server that has accepted a request, and waits
 *	rdmacm_halfway late ADDRESS	a server that accepts a request once that is over, and ends
 *	rdmacm_halfway asking ADDRESS	a client: connects, accepts no reply, and says each event
 *	rdmacm_halfway resolved ADDRESS	a client that has resolved the address, and says the next event
 *
 * Each says a line when it is as far.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rdma/rdma_cma.h>

#define PORT 7190

static struct rdma_event_channel *channel;

static void need(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static struct rdma_cm_event *next(void)
{
	struct rdma_cm_event *event;

	need(!rdma_get_cm_event(channel, &event), "event");
	return event;
}

static void say(const struct rdma_cm_event *event)
{
	printf("%s %d\n", rdma_event_str(event->event), event->status);
}

static void expect(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event = next();

	if (event->event != type) {
		say(event);
		exit(1);
	}
	rdma_ack_cm_event(event);
}

/* Has an id of a request the attributes that it gives to a QP? They go with it. */
static int is_asked(struct rdma_cm_id *id)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	int mask;

	return !rdma_init_qp_attr(id, &attr, &mask);
}

static void serve(struct rdma_cm_id *listener, struct sockaddr *addr, const char *how)
{
	struct rdma_conn_param param = {.qp_num = 0x321};
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	need(!rdma_bind_addr(listener, addr) && !rdma_listen(listener, 4), "listen");
	event = next();
	need(event->event == RDMA_CM_EVENT_CONNECT_REQUEST, "request");
	id = event->id;
	rdma_ack_cm_event(event);
	if (strcmp(how, "replied"))
		puts("asked");
	while (!strcmp(how, "late") && is_asked(id))
		usleep(10000);
	if (strcmp(how, "asked"))
		puts(rdma_accept(id, &param) ? strerror(errno) : "replied");
	if (!strcmp(how, "late"))
		exit(0);
}

static void resolve(struct rdma_cm_id *id, struct sockaddr *addr)
{
	need(!rdma_resolve_addr(id, NULL, addr, 2000), "address");
	expect(RDMA_CM_EVENT_ADDR_RESOLVED);
}

static void ask(struct rdma_cm_id *id, struct sockaddr *addr)
{
	struct rdma_conn_param param = {.qp_num = 0x123};

	resolve(id, addr);
	need(!rdma_resolve_route(id, 2000), "route");
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
	need(!rdma_connect(id, &param), "connect");
	puts("asking");
	for (;;) {
		struct rdma_cm_event *event = next();

		say(event);
		if (event->event != RDMA_CM_EVENT_CONNECT_RESPONSE)
			exit(0);
		rdma_ack_cm_event(event);
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	struct rdma_cm_id *id;

	if (argc != 3 || inet_pton(AF_INET, argv[2], &addr.sin_addr) != 1)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	channel = rdma_create_event_channel();
	need(channel && !rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "id");
	if (!strcmp(argv[1], "asking")) {
		ask(id, (struct sockaddr *)&addr);
	} else if (!strcmp(argv[1], "resolved")) {
		resolve(id, (struct sockaddr *)&addr);
		puts("resolved");
		say(next());
		return 0;
	} else {
		serve(id, (struct sockaddr *)&addr, argv[1]);
	}
	pause();
	return 0;
}
