// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What librdmacm's calls take and no more, both ends in one process.
 *
 *	rdmacm_limits data ADDRESS	the longest private data of each message (IBTA vol. 1, 12.6) arrives whole;
 *					longer is EINVAL
 *	rdmacm_limits backlog ADDRESS	a listener has as many requests wait for it as it said; others come again
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rdma/rdma_cma.h>

#define NEED(cond)                                                                             \
	do {                                                                                   \
		if (!(cond)) {                                                                 \
			fprintf(stderr, "line %d: not true: %s (errno %d)\n", __LINE__, #cond, \
				errno);                                                        \
			exit(1);                                                               \
		}                                                                              \
	} while (0)

/* Private data behind the header for IP addresses, which takes 36 bytes of
 * a REQ's and a SIDR_REQ's. */
#define REQ_DATA      56
#define REP_DATA      196
#define REJ_DATA      148
#define SIDR_REQ_DATA 180
#define SIDR_REP_DATA 136

static struct rdma_event_channel *ours, *theirs; /* the listener's; the clients' */
static struct sockaddr_in addr = {.sin_family = AF_INET};
static uint8_t data[256];

static struct rdma_cm_event *next(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	NEED(!rdma_get_cm_event(channel, &event));
	if (event->event != type) {
		fprintf(stderr, "%s %d\n", rdma_event_str(event->event), event->status);
		NEED(event->event == type);
	}
	return event;
}

static void expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	rdma_ack_cm_event(next(channel, type));
}

/* Its private data is the first len bytes of ours; the message has room for no more. */
static void expect_data(struct rdma_event_channel *channel, enum rdma_cm_event_type type,
			uint8_t len)
{
	struct rdma_cm_event *event = next(channel, type);

	NEED(event->param.conn.private_data_len == len);
	NEED(!memcmp(event->param.conn.private_data, data, len));
	rdma_ack_cm_event(event);
}

static struct rdma_cm_id *listen_on(struct rdma_event_channel *channel, enum rdma_port_space ps,
				    int backlog)
{
	struct rdma_cm_id *listener;

	addr.sin_port = 0;
	NEED(!rdma_create_id(channel, &listener, NULL, ps));
	NEED(!rdma_bind_addr(listener, (struct sockaddr *)&addr) &&
	     !rdma_listen(listener, backlog));
	addr.sin_port = rdma_get_src_port(listener);
	return listener;
}

static struct rdma_cm_id *client(enum rdma_port_space ps)
{
	struct rdma_cm_id *id;

	NEED(!rdma_create_id(theirs, &id, NULL, ps));
	NEED(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&addr, 2000));
	expect(theirs, RDMA_CM_EVENT_ADDR_RESOLVED);
	NEED(!rdma_resolve_route(id, 2000));
	expect(theirs, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return id;
}

/* Each message is of another QP: of one that is connected already it would be stale. */
static struct rdma_conn_param with(uint8_t len)
{
	static uint32_t qp_num = 0x321;

	return (struct rdma_conn_param){
		.private_data = data, .private_data_len = len, .qp_num = qp_num++};
}

/* A request with so many bytes, which a longer one before it does not spoil; the listener's id. */
static struct rdma_cm_id *ask(struct rdma_cm_id *id, uint8_t len)
{
	struct rdma_conn_param param = with(len + 1);
	struct rdma_cm_event *event;
	struct rdma_cm_id *asked;

	NEED(rdma_connect(id, &param) == -1 && errno == EINVAL);
	param = with(len);
	NEED(!rdma_connect(id, &param));
	event = next(ours, RDMA_CM_EVENT_CONNECT_REQUEST);
	asked = event->id;
	NEED(event->param.conn.private_data_len == len);
	NEED(!memcmp(event->param.conn.private_data, data, len));
	rdma_ack_cm_event(event);
	return asked;
}

static void end(struct rdma_cm_id *id, struct rdma_cm_id *asked)
{
	NEED(!rdma_destroy_id(asked) && !rdma_destroy_id(id));
}

static void accepted(void)
{
	struct rdma_cm_id *id = client(RDMA_PS_TCP), *asked = ask(id, REQ_DATA);
	struct rdma_conn_param param = with(REP_DATA);

	NEED(!rdma_accept(asked, &param));
	expect_data(theirs, RDMA_CM_EVENT_CONNECT_RESPONSE, REP_DATA);
	end(id, asked);
}

/* What is too long for a REP rejects the request (rdma_accept() in the kernel, too). */
static void accepted_in_vain(void)
{
	struct rdma_cm_id *id = client(RDMA_PS_TCP), *asked = ask(id, REQ_DATA);
	struct rdma_conn_param param = with(REP_DATA + 1);

	NEED(rdma_accept(asked, &param) == -1 && errno == EINVAL);
	expect(theirs, RDMA_CM_EVENT_REJECTED);
	end(id, asked);
}

static void rejected(void)
{
	struct rdma_cm_id *id = client(RDMA_PS_TCP), *asked = ask(id, REQ_DATA);

	NEED(rdma_reject(asked, data, REJ_DATA + 1) == -1 && errno == EINVAL);
	NEED(!rdma_reject(asked, data, REJ_DATA));
	expect_data(theirs, RDMA_CM_EVENT_REJECTED, REJ_DATA);
	end(id, asked);
}

static void resolved(void)
{
	struct rdma_cm_id *id = client(RDMA_PS_UDP), *asked = ask(id, SIDR_REQ_DATA);
	struct rdma_conn_param param = with(SIDR_REP_DATA);

	NEED(!rdma_accept(asked, &param));
	expect_data(theirs, RDMA_CM_EVENT_ESTABLISHED, SIDR_REP_DATA);
	end(id, asked);
}

static void private_data(void)
{
	struct rdma_cm_id *listener = listen_on(ours, RDMA_PS_TCP, 4);

	accepted();
	accepted_in_vain();
	rejected();
	rdma_destroy_id(listener);
	listener = listen_on(ours, RDMA_PS_UDP, 4);
	resolved();
	rdma_destroy_id(listener);
}

/* A request that says which it is. */
static void connect_as(uint8_t number)
{
	struct rdma_conn_param param = with(1);

	param.private_data = &number;
	NEED(!rdma_connect(client(RDMA_PS_TCP), &param));
}

static void asked_by(uint8_t number)
{
	struct rdma_cm_event *event = next(ours, RDMA_CM_EVENT_CONNECT_REQUEST);

	NEED(*(const uint8_t *)event->param.conn.private_data == number);
	rdma_ack_cm_event(event);
}

/* Until the requests before it have been looked at: one to a listener of its own. */
static void await_requests(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	in_port_t port = addr.sin_port;

	NEED(channel && listen_on(channel, RDMA_PS_TCP, 1));
	connect_as(0);
	expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	addr.sin_port = port;
}

/* The third is not answered, and so repeated when its time is over: behind one that finds room. */
static void backlog(void)
{
	NEED(listen_on(ours, RDMA_PS_TCP, 2));
	connect_as(1);
	connect_as(2);
	connect_as(3);
	await_requests();
	asked_by(1);
	connect_as(4);
	asked_by(2);
	asked_by(4);
	asked_by(3);
}

int main(int argc, char **argv)
{
	if (argc != 3 || inet_pton(AF_INET, argv[2], &addr.sin_addr) != 1)
		return 2;
	alarm(30);
	for (unsigned i = 0; i < sizeof(data); i++)
		data[i] = 7 * i + 1;
	ours = rdma_create_event_channel();
	theirs = rdma_create_event_channel();
	NEED(ours && theirs);
	if (!strcmp(argv[1], "data"))
		private_data();
	else if (!strcmp(argv[1], "backlog"))
		backlog();
	else
		return 2;
	return 0;
}
