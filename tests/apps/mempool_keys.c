/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The keys of a pool's buffers, used by a peer: mempool_keys ADDRESS, on the device that has the
 * address, whichever it is (RoCE or iWARP). For each case the two ends of a new connection live in
 * this process: a thread offers a buffer that it has registered, main() reads, writes or adds, and
 * then both look at the memory. What is refused breaks the connection and changes nothing; over
 * iWARP, which does not acknowledge writes, only the second of these is seen by a writer.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "mempool/mempool.h"

#define LENGTH 1000u /* of the region; around it lies more of the buffer */
#define MARGIN 64u
#define TOTAL  (LENGTH + 2 * MARGIN)
#define LW     IBV_ACCESS_LOCAL_WRITE
#define RW     IBV_ACCESS_REMOTE_WRITE
#define RR     IBV_ACCESS_REMOTE_READ
#define RA     IBV_ACCESS_REMOTE_ATOMIC

#define NEED(condition)                                                            \
	do {                                                                       \
		if (!(condition)) {                                                \
			printf("%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, \
			       strerror(errno));                                   \
			exit(1);                                                   \
		}                                                                  \
	} while (0)

enum end {
	KEEP,  /* the registration lives */
	FREED, /* the buffer has been freed */
	DEREGISTERED,
	SHARED, /* the keys of the block */
};

static const struct test_case {
	const char *what;
	enum ibv_wr_opcode opcode;
	int access;
	int at; /* from the region's first byte */
	unsigned length;
	enum end end;
	bool works;
} cases[] = {
	{"write all of it", IBV_WR_RDMA_WRITE, LW | RW, 0, LENGTH, KEEP, true},
	{"read all of it", IBV_WR_RDMA_READ, RR, 0, LENGTH, KEEP, true},
	{"add at its end", IBV_WR_ATOMIC_FETCH_AND_ADD, LW | RA, LENGTH - 8, 8, KEEP, true},
	{"write one byte before", IBV_WR_RDMA_WRITE, LW | RW, -1, 2, KEEP, false},
	{"write one byte behind", IBV_WR_RDMA_WRITE, LW | RW, LENGTH - 1, 2, KEEP, false},
	{"read one byte before", IBV_WR_RDMA_READ, RR, -1, 2, KEEP, false},
	{"read one byte behind", IBV_WR_RDMA_READ, RR, LENGTH - 1, 2, KEEP, false},
	{"add beyond its end", IBV_WR_ATOMIC_FETCH_AND_ADD, LW | RA, LENGTH, 8, KEEP, false},
	{"write after free", IBV_WR_RDMA_WRITE, LW | RW, 0, 8, FREED, false},
	{"read after free", IBV_WR_RDMA_READ, RR, 0, 8, FREED, false},
	{"add after free", IBV_WR_ATOMIC_FETCH_AND_ADD, LW | RA, 0, 8, FREED, false},
	{"write after deregistering", IBV_WR_RDMA_WRITE, LW | RW, 0, 8, DEREGISTERED, false},
	{"write without the right", IBV_WR_RDMA_WRITE, LW | RR | RA, 0, 8, KEEP, false},
	{"read without the right", IBV_WR_RDMA_READ, LW | RW | RA, 0, 8, KEEP, false},
	{"add without the right", IBV_WR_ATOMIC_FETCH_AND_ADD, LW | RW | RR, 0, 8, KEEP, false},
	{"write with shared keys", IBV_WR_RDMA_WRITE, LW | RW | RR, 0, LENGTH, SHARED, true},
	{"read with shared keys", IBV_WR_RDMA_READ, LW | RW | RR, 0, LENGTH, SHARED, true},
};

/* What the server tells the client of. */
struct offer {
	uint64_t addr;
	uint32_t rkey;
};

static struct rdma_addrinfo *info;
static struct rmempool *pool; /* made when a device is known */
static struct rmempool *shared;
static struct rdma_cm_id *served; /* the server's end of the connection */
static unsigned char *target;	  /* the buffer that was offered; pool memory stays mapped */
/* The server's end is: the kernel's siw does not notice what comes while it still accepts. */
static sem_t established;

static struct rdma_cm_event *await(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	NEED(!rdma_get_cm_event(channel, &event));
	if (event->event != type)
		printf("# %s instead of %s\n", rdma_event_str(event->event), rdma_event_str(type));
	NEED(event->event == type);
	return event;
}

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 2, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.sq_sig_all = 1,
	};

	NEED(!rdma_create_qp(id, NULL, &attr));
}

static void make_pools(struct ibv_pd *pd)
{
	struct rmempool_attr attr;

	if (pool)
		return;
	rmempool_attr_init(&attr, sizeof(attr));
	attr.bytes = 4 << 20;
	NEED(!rmempool_create(&attr, &pool));
	attr.shared_pd = pd;
	attr.shared_access = LW | RW | RR;
	NEED(!rmempool_create(&attr, &shared));
}

/* A buffer for a case, registered as it says. */
static struct offer make_offer(const struct test_case *c, struct ibv_pd *pd)
{
	struct rmempool_buffer buffer;
	struct rmempool_mr *mr;
	struct offer offer;

	make_pools(pd);
	NEED(!rmempool_alloc(c->end == SHARED ? shared : pool, TOTAL, 64, &buffer, sizeof(buffer)));
	target = buffer.addr;
	for (unsigned i = 0; i < TOTAL; i++)
		target[i] = i;
	offer.addr = (uintptr_t)target + MARGIN;
	offer.rkey = buffer.rkey;
	if (c->end == SHARED)
		return offer;
	NEED(!rmempool_register(pool, pd, target + MARGIN, LENGTH, c->access, &mr));
	offer.rkey = mr->rkey;
	if (c->end == FREED)
		NEED(!rmempool_free(pool, target));
	if (c->end == DEREGISTERED)
		NEED(!rmempool_deregister(pool, mr));
	return offer;
}

/* Serves one connection after the other; the case comes with the request. */
static void *serve(void *arg)
{
	struct rdma_cm_id *listener = arg;
	struct rdma_cm_event *event;

	for (;;) {
		struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1};
		struct offer offer;
		uint8_t number;

		event = await(listener->channel, RDMA_CM_EVENT_CONNECT_REQUEST);
		served = event->id;
		number = *(const uint8_t *)event->param.conn.private_data;
		rdma_ack_cm_event(event);
		make_qp(served);
		offer = make_offer(&cases[number], served->pd);
		param.private_data = &offer;
		param.private_data_len = sizeof(offer);
		NEED(!rdma_accept(served, &param));
		rdma_ack_cm_event(await(listener->channel, RDMA_CM_EVENT_ESTABLISHED));
		NEED(!sem_post(&established));
		rdma_ack_cm_event(await(listener->channel, RDMA_CM_EVENT_DISCONNECTED));
		rdma_disconnect(served);
		rdma_destroy_qp(served);
		rdma_destroy_id(served);
	}
}

static struct rdma_cm_id *connect_to(struct rdma_event_channel *channel, uint8_t number,
				     struct offer *offer)
{
	struct rdma_conn_param param = {
		.private_data = &number,
		.private_data_len = 1,
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 7,
	};
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	NEED(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	NEED(!rdma_resolve_addr(id, NULL, info->ai_dst_addr, 5000));
	rdma_ack_cm_event(await(channel, RDMA_CM_EVENT_ADDR_RESOLVED));
	NEED(!rdma_resolve_route(id, 5000));
	rdma_ack_cm_event(await(channel, RDMA_CM_EVENT_ROUTE_RESOLVED));
	make_qp(id);
	NEED(!rdma_connect(id, &param));
	event = await(channel, RDMA_CM_EVENT_ESTABLISHED);
	NEED(event->param.conn.private_data_len >= sizeof(*offer));
	memcpy(offer, event->param.conn.private_data, sizeof(*offer));
	rdma_ack_cm_event(event);
	NEED(!sem_wait(&established));
	return id;
}

static enum ibv_wc_status perform(struct rdma_cm_id *id, const struct test_case *c,
				  const struct offer *offer, const struct rmempool_mr *mr)
{
	struct ibv_sge sge = {(uintptr_t)mr->addr, c->length, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = c->opcode}, *bad;
	struct ibv_wc wc;
	int n;

	if (c->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = offer->addr + c->at;
		wr.wr.atomic.rkey = offer->rkey;
		wr.wr.atomic.compare_add = 0x0101010101010101;
	} else {
		wr.wr.rdma.remote_addr = offer->addr + c->at;
		wr.wr.rdma.rkey = offer->rkey;
	}
	NEED(!ibv_post_send(id->qp, &wr, &bad));
	while (!(n = ibv_poll_cq(id->send_cq, 1, &wc)))
		;
	NEED(n == 1);
	return wc.status;
}

/* What a byte of the buffer must be afterwards. */
static unsigned char expected(const struct test_case *c, unsigned i)
{
	int at = (int)i - (int)MARGIN - c->at;

	if (!c->works || at < 0 || at >= (int)c->length || c->opcode == IBV_WR_RDMA_READ)
		return i;
	return c->opcode == IBV_WR_RDMA_WRITE ? 0xa0 ^ (unsigned)at : i + 1;
}

/* iWARP: that a write is complete does not mean that it has arrived. Waits a while for its last
 * byte. */
static void await_write(const struct test_case *c)
{
	unsigned last = MARGIN + c->at + c->length - 1;

	for (unsigned i = 0;
	     i < 5000 && *(volatile unsigned char *)&target[last] != expected(c, last); i++)
		usleep(1000);
}

static bool run_case(struct rdma_event_channel *channel, unsigned number, bool iwarp)
{
	const struct test_case *c = &cases[number];
	enum ibv_wc_status status;
	struct rmempool_buffer local;
	unsigned char *bytes;
	struct rdma_cm_id *id;
	struct rmempool_mr *mr;
	struct offer offer;
	bool ok = true;

	id = connect_to(channel, number, &offer);
	NEED(!rmempool_alloc(pool, LENGTH, 0, &local, sizeof(local)));
	/* iWARP: what a read brings is written by the peer. */
	NEED(!rmempool_register(pool, id->pd, local.addr, LENGTH, LW | (iwarp ? RW : 0), &mr));
	bytes = local.addr;
	for (unsigned i = 0; i < LENGTH; i++)
		bytes[i] = 0xa0 ^ i;
	status = perform(id, c, &offer, mr);
	if (iwarp && c->works && c->opcode == IBV_WR_RDMA_WRITE)
		await_write(c);
	rdma_disconnect(id);
	rdma_ack_cm_event(await(channel, RDMA_CM_EVENT_DISCONNECTED));
	/* The kernel's siw lets any region be read. */
	if (iwarp && c->opcode == IBV_WR_RDMA_READ && !(c->access & RR) &&
	    status == IBV_WC_SUCCESS) {
		printf("# %s: the device does not ask for it\n", c->what);
		goto out;
	}
	if (c->works ? status != IBV_WC_SUCCESS
		     : status == IBV_WC_SUCCESS && !(iwarp && c->opcode == IBV_WR_RDMA_WRITE)) {
		printf("%s: %s\n", c->what, ibv_wc_status_str(status));
		ok = false;
	}
	if (!c->works && !iwarp && status != IBV_WC_REM_ACCESS_ERR) {
		printf("%s: %s\n", c->what, ibv_wc_status_str(status));
		ok = false;
	}
	for (unsigned i = 0; i < TOTAL && ok; i++)
		if (target[i] != expected(c, i)) {
			printf("%s: byte %d is %#x\n", c->what, (int)i - (int)MARGIN, target[i]);
			ok = false;
		}
	for (unsigned i = 0; c->opcode == IBV_WR_RDMA_READ && i < c->length && ok; i++)
		if (bytes[i] !=
		    (c->works ? (unsigned char)(i + MARGIN + c->at) : (unsigned char)(0xa0 ^ i))) {
			printf("%s: read %#x as byte %u\n", c->what, bytes[i], i);
			ok = false;
		}
out:
	NEED(!rmempool_free(pool, local.addr));
	if (c->end != FREED)
		NEED(!rmempool_free(c->end == SHARED ? shared : pool, target));
	rdma_destroy_qp(id);
	rdma_destroy_id(id);
	return ok;
}

int main(int argc, char **argv)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = RAI_PASSIVE};
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_event_channel *server_channel = rdma_create_event_channel();
	struct ibv_device_attr device;
	struct rdma_cm_id *listener;
	unsigned failed = 0;
	pthread_t thread;
	bool iwarp;

	if (argc != 2) {
		fprintf(stderr, "usage: mempool_keys ADDRESS\n");
		return 2;
	}
	NEED(channel && server_channel);
	NEED(!rdma_getaddrinfo(argv[1], "7472", &hints, &info));
	NEED(!rdma_create_id(server_channel, &listener, NULL, RDMA_PS_TCP));
	NEED(!rdma_bind_addr(listener, info->ai_src_addr));
	NEED(!rdma_listen(listener, 8));
	NEED(listener->verbs && !ibv_query_device(listener->verbs, &device));
	iwarp = listener->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
	info->ai_dst_addr = info->ai_src_addr;
	NEED(!sem_init(&established, 0, 0));
	NEED(!pthread_create(&thread, NULL, serve, listener));
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (cases[i].opcode == IBV_WR_ATOMIC_FETCH_AND_ADD &&
		    device.atomic_cap == IBV_ATOMIC_NONE)
			printf("# %s: the device has no atomics\n", cases[i].what);
		else
			failed += !run_case(channel, i, iwarp);
	}
	NEED(!rmempool_destroy(pool));
	NEED(!rmempool_destroy(shared));
	printf("%u cases failed\n", failed);
	return failed != 0;
}
