// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The UD queue pair. Each packet of the kernel's, of up to 64 KiB, is read into a slot of the send
 * ring and leaves as one work request or, cut, as several (segment.c):
 *
 *	slot:	headers of IPOIB_MAX_SEGMENTS segments | a gap | IPoIB header | packet
 *
 * Requests are collected and posted as a list; the last one of a packet is signaled and frees its
 * slot. When too few slots or requests are left, packets stay in the kernel's queue until some
 * complete. The loop's thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "daemons/common/log.h"
#include "ipoib/ipoib.h"

#define SLOTS	   256
#define SEND_DEPTH 1024
#define RECV_DEPTH 2048
#define RECV_SIZE  4352 /* GRH, IPoIB header, and the largest MTU */
#define BATCH	   32
#define TURN	   8 /* batches until others have their turn */
#define GRH	   40
#define LIST	   128
#define HEADERS	   (IPOIB_MAX_SEGMENTS * IPOIB_MAX_HEADERS)
#define SLOT_SIZE  ((HEADERS + 64 + IPOIB_HEADER + IPOIB_PACKET_MAX + 4095) & ~4095)
#define SCARCE	   64 /* slots that waiting packets leave to others */

/* An address handle. One that is dropped stays until the requests that
 * may need it are completed. */
struct ipoib_handle {
	struct ibv_ah *ah;
	struct ipoib_handle *next; /* dropped later */
	uint64_t until;		   /* so many requests are completed */
};

struct ipoib_queue {
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_comp_channel *channel;
	struct event *readable;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *memory; /* slots to send, then buffers to receive */
	struct ipoib_packet packets[SLOTS], *free;
	unsigned num_free;
	unsigned outstanding; /* requests on the QP and in the list, */
	uint64_t added;	      /* of so many ever */
	unsigned num_list, num_recv;
	struct ipoib_handle *dead, **last_dead;
	struct ibv_send_wr list[LIST];
	struct ibv_sge sges[LIST][2];
	struct ibv_recv_wr recv[BATCH];
	struct ibv_sge recv_sges[BATCH];
};

static uint8_t *recv_buffer(const struct ipoib_queue *q, uint64_t n)
{
	return q->memory + (size_t)SLOTS * SLOT_SIZE + n * RECV_SIZE;
}

bool queue_is_scarce(const struct ipoib *ib)
{
	return ib->queue->num_free < SCARCE;
}

struct ipoib_packet *queue_packet(struct ipoib *ib)
{
	struct ipoib_packet *packet = ib->queue->free;

	if (!packet)
		return NULL;
	ib->queue->free = packet->next;
	ib->queue->num_free--;
	packet->segment_size = 0;
	return packet;
}

void queue_free(struct ipoib *ib, struct ipoib_packet *packet)
{
	packet->posted = 0;
	packet->next = ib->queue->free;
	ib->queue->free = packet;
	ib->queue->num_free++;
}

/* ---- sending ---- */

static void post(struct ipoib *ib)
{
	struct ipoib_queue *q = ib->queue;
	struct ibv_send_wr *bad = NULL;
	unsigned n = q->num_list;

	q->num_list = 0;
	if (!n)
		return;
	q->list[n - 1].next = NULL;
	if (!ibv_post_send(q->qp, q->list, &bad))
		return;
	/* Those from the bad one on are not under way. */
	for (; bad; bad = bad->next) {
		struct ipoib_packet *packet = (void *)(uintptr_t)bad->wr_id;

		ib->stats.send_errors++;
		q->outstanding--;
		q->added--;
		if (bad->send_flags & IBV_SEND_SIGNALED)
			queue_free(ib, packet);
	}
}

/* Requests complete in their order. */
static void bury(struct ipoib_queue *q)
{
	struct ipoib_handle *h;

	while ((h = q->dead) && (!q->outstanding || q->added - q->outstanding >= h->until)) {
		q->dead = h->next;
		ibv_destroy_ah(h->ah);
		free(h);
	}
	if (!q->dead)
		q->last_dead = &q->dead;
}

/* A request that fails stops the send queue of a UD QP (10.3.1): it is made anew. */
static void fail(struct ipoib *ib)
{
	ib->stats.send_errors++;
	port_restart(ib);
}

/* Takes completions. */
static void complete(struct ipoib *ib)
{
	struct ipoib_queue *q = ib->queue;
	struct ibv_wc wc[BATCH];
	int n;

	do {
		n = ibv_poll_cq(q->send_cq, BATCH, wc);
		for (int i = 0; i < n; i++) {
			struct ipoib_packet *packet = (void *)(uintptr_t)wc[i].wr_id;

			if (wc[i].status)
				fail(ib);
			/* Segments that fail complete one by one, though the last alone is
			 * signaled: the first of them has freed the packet. */
			if (!packet->posted)
				continue;
			q->outstanding -= packet->posted;
			queue_free(ib, packet);
		}
	} while (n == BATCH);
	bury(q);
}

static bool is_full(const struct ipoib_queue *q)
{
	return !q->free || q->outstanding + IPOIB_MAX_SEGMENTS > SEND_DEPTH;
}

bool queue_is_full(struct ipoib *ib)
{
	if (!is_full(ib->queue))
		return false;
	post(ib);
	complete(ib);
	return is_full(ib->queue);
}

void queue_flush(struct ipoib *ib)
{
	struct ipoib_queue *q = ib->queue;

	if (!q->qp)
		return;
	post(ib);
	complete(ib);
	if (!is_full(q)) {
		tun_stop(ib, false);
		return;
	}
	tun_stop(ib, true);
	/* A completion that came before this would raise no event. */
	ibv_req_notify_cq(q->send_cq, 0);
	complete(ib);
	if (!is_full(q))
		tun_stop(ib, false);
}

static struct ibv_send_wr *add(struct ipoib *ib, struct ipoib_packet *packet,
			       const struct ipoib_way *way, uint32_t qpn)
{
	struct ipoib_queue *q = ib->queue;
	struct ibv_send_wr *wr;

	if (q->num_list == LIST)
		post(ib);
	wr = &q->list[q->num_list];
	*wr = (struct ibv_send_wr){
		.wr_id = (uintptr_t)packet,
		.next = wr + 1,
		.sg_list = q->sges[q->num_list],
		.opcode = IBV_WR_SEND,
		.wr.ud = {.ah = way->ah->ah, .remote_qpn = qpn, .remote_qkey = ib->qkey},
	};
	q->num_list++;
	q->outstanding++;
	q->added++;
	ib->stats.sent++;
	return wr;
}

static void add_segment(struct ipoib *ib, struct ipoib_packet *packet, const struct ipoib_way *way,
			uint32_t qpn, unsigned n)
{
	struct ibv_send_wr *wr = add(ib, packet, way, qpn);
	struct segment segment;

	segment_make(packet, n, &segment);
	wr->sg_list[0] = (struct ibv_sge){
		.addr = (uintptr_t)(packet->headers + (size_t)n * IPOIB_MAX_HEADERS),
		.length = segment.header_len,
		.lkey = ib->queue->mr->lkey};
	wr->sg_list[1] = (struct ibv_sge){.addr = (uintptr_t)segment.payload,
					  .length = segment.payload_len,
					  .lkey = ib->queue->mr->lkey};
	wr->num_sge = 2;
	wr->send_flags = n + 1 == packet->posted ? IBV_SEND_SIGNALED : 0;
	ib->stats.sent_bytes += segment.header_len + segment.payload_len;
}

void queue_send(struct ipoib *ib, struct ipoib_packet *packet, const struct ipoib_way *way,
		uint32_t qpn)
{
	struct ipoib_queue *q = ib->queue;
	unsigned count = segment_count(packet, ib->mtu);
	struct ibv_send_wr *wr;

	if (q->outstanding + count > SEND_DEPTH) {
		post(ib);
		complete(ib);
	}
	if (!count) {
		ib->stats.malformed++;
		queue_free(ib, packet);
		return;
	}
	if (!q->qp || !way->ah || q->outstanding + count > SEND_DEPTH) {
		ib->stats.drop_queue++;
		queue_free(ib, packet);
		return;
	}
	packet->posted = (uint16_t)count;
	if (packet->segment_size) {
		ib->stats.segments += count;
		for (unsigned n = 0; n < count; n++)
			add_segment(ib, packet, way, qpn, n);
		return;
	}
	wr = add(ib, packet, way, qpn);
	wr->sg_list[0] = (struct ibv_sge){
		.addr = (uintptr_t)packet->data, .length = packet->len, .lkey = q->mr->lkey};
	wr->num_sge = 1;
	wr->send_flags = IBV_SEND_SIGNALED;
	ib->stats.sent_bytes += packet->len;
}

/* ---- receiving ---- */

static void post_recv(struct ipoib_queue *q, bool all)
{
	struct ibv_recv_wr *bad;

	if (!q->num_recv || (!all && q->num_recv < BATCH))
		return;
	q->recv[q->num_recv - 1].next = NULL;
	q->num_recv = 0;
	ibv_post_recv(q->qp, q->recv, &bad);
}

static void give_back(struct ipoib_queue *q, uint64_t n)
{
	struct ibv_recv_wr *wr = &q->recv[q->num_recv];

	q->recv_sges[q->num_recv] = (struct ibv_sge){
		.addr = (uintptr_t)recv_buffer(q, n), .length = RECV_SIZE, .lkey = q->mr->lkey};
	*wr = (struct ibv_recv_wr){
		.wr_id = n, .next = wr + 1, .sg_list = &q->recv_sges[q->num_recv], .num_sge = 1};
	q->num_recv++;
	post_recv(q, false);
}

/* A copy of what we sent to a group ourselves. */
static bool is_own(const struct ipoib *ib, const struct ibv_wc *wc, const uint8_t *grh)
{
	return wc->src_qp == ib->qpn && wc->wc_flags & IBV_WC_GRH && !memcmp(grh + 8, &ib->gid, 16);
}

static void take(struct ipoib *ib, const struct ibv_wc *wc)
{
	uint8_t *buffer = recv_buffer(ib->queue, wc->wr_id);

	if (wc->status || wc->byte_len < GRH)
		return;
	if (is_own(ib, wc, buffer))
		return;
	ib->stats.received++;
	ib->stats.received_bytes += wc->byte_len - GRH;
	receive(ib, buffer + GRH, wc->byte_len - GRH, wc->slid);
}

/* How many there were. */
static int receive_batch(struct ipoib *ib)
{
	struct ipoib_queue *q = ib->queue;
	struct ibv_wc wc[BATCH];
	int n = ibv_poll_cq(q->recv_cq, BATCH, wc);

	if (n <= 0)
		return 0;
	for (int i = 0; i < n; i++)
		take(ib, &wc[i]);
	receive_end(ib);
	for (int i = 0; i < n; i++)
		give_back(q, wc[i].wr_id);
	post_recv(q, true);
	return n;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct ipoib *ib = arg;
	struct ipoib_queue *q = ib->queue;
	struct ibv_cq *cq;
	void *context;
	unsigned turns = 0;

	while (!ibv_get_cq_event(q->channel, &cq, &context)) {
		ibv_ack_cq_events(cq, 1);
		if (cq == q->recv_cq)
			ibv_req_notify_cq(cq, 0);
	}
	if (!q->qp)
		return;
	while (receive_batch(ib))
		if (++turns == TURN) {
			event_active(q->readable, EV_READ, 0);
			break;
		}
	queue_flush(ib);
}

/* ---- the queue pair ---- */

static int set_state(struct ipoib *ib)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .pkey_index = ib->pkey_index,
				   .port_num = (uint8_t)ib->options.port,
				   .qkey = ib->qkey};
	int ret = ibv_modify_qp(ib->queue->qp, &attr,
				IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);

	attr.qp_state = IBV_QPS_RTR;
	if (!ret)
		ret = ibv_modify_qp(ib->queue->qp, &attr, IBV_QP_STATE);
	attr.qp_state = IBV_QPS_RTS;
	if (!ret)
		ret = ibv_modify_qp(ib->queue->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
	return -ret;
}

static void destroy_qp(struct ipoib *ib)
{
	struct ipoib_queue *q = ib->queue;

	if (q->qp)
		ibv_destroy_qp(q->qp);
	q->qp = NULL;
}

/* What is under way ends. Slots that wait for a neighbour or a group go on waiting. */
static void abandon(struct ipoib *ib)
{
	struct ipoib_queue *q = ib->queue;

	post(ib);
	complete(ib);
	destroy_qp(ib);
	complete(ib);
	for (unsigned i = 0; i < SLOTS; i++)
		if (q->packets[i].posted)
			queue_free(ib, &q->packets[i]);
	q->outstanding = q->num_list = q->num_recv = 0;
	bury(q);
}

int queue_set_partition(struct ipoib *ib)
{
	struct ipoib_queue *q = ib->queue;
	struct ibv_qp_init_attr init = {
		.send_cq = q->send_cq,
		.recv_cq = q->recv_cq,
		.cap = {.max_send_wr = SEND_DEPTH,
			.max_recv_wr = RECV_DEPTH,
			.max_send_sge = 2,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_UD,
	};
	int ret;

	abandon(ib);
	q->qp = ibv_create_qp(ib->pd, &init);
	if (!q->qp)
		return -errno;
	ib->qpn = q->qp->qp_num;
	ret = set_state(ib);
	if (ret)
		return ret;
	for (unsigned i = 0; i < RECV_DEPTH; i++)
		give_back(q, i);
	post_recv(q, true);
	return 0;
}

int queue_set_qkey(struct ipoib *ib, uint32_t qkey)
{
	struct ibv_qp_attr attr = {.qkey = qkey};

	if (ib->qkey == qkey)
		return 0;
	ib->qkey = qkey;
	return -ibv_modify_qp(ib->queue->qp, &attr, IBV_QP_QKEY);
}

int queue_attach(struct ipoib *ib, const uint8_t mgid[16], uint16_t mlid)
{
	union ibv_gid gid;

	memcpy(&gid, mgid, 16);
	return -ibv_attach_mcast(ib->queue->qp, &gid, mlid);
}

void queue_detach(struct ipoib *ib, const uint8_t mgid[16], uint16_t mlid)
{
	union ibv_gid gid;

	memcpy(&gid, mgid, 16);
	if (ib->queue->qp)
		ibv_detach_mcast(ib->queue->qp, &gid, mlid);
}

int queue_set_way(struct ipoib *ib, struct ipoib_way *way, struct ibv_ah_attr *attr)
{
	struct ipoib_handle *h = calloc(1, sizeof(*h));
	int ret;

	if (!h)
		return -ENOMEM;
	h->ah = ibv_create_ah(ib->pd, attr);
	if (!h->ah) {
		ret = -errno;
		free(h);
		return ret;
	}
	queue_drop_way(ib, way);
	*way = (struct ipoib_way){.ah = h, .lid = attr->dlid};
	return 0;
}

void queue_drop_way(struct ipoib *ib, struct ipoib_way *way)
{
	struct ipoib_queue *q = ib->queue;

	if (!way->ah)
		return;
	way->ah->until = q->added;
	way->ah->next = NULL;
	*q->last_dead = way->ah;
	q->last_dead = &way->ah->next;
	way->ah = NULL;
	complete(ib);
}

static void init_slots(struct ipoib_queue *q)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		struct ipoib_packet *packet = &q->packets[i];

		packet->headers = q->memory + (size_t)i * SLOT_SIZE;
		packet->data = packet->headers + HEADERS + 64 - IPOIB_HEADER;
		packet->next = q->free;
		q->free = packet;
	}
	q->num_free = SLOTS;
}

int queue_create(struct ipoib *ib)
{
	size_t size = (size_t)SLOTS * SLOT_SIZE + (size_t)RECV_DEPTH * RECV_SIZE;
	struct ipoib_queue *q = calloc(1, sizeof(*q));

	if (!q)
		return ipoib_fail(ib, ENOMEM);
	ib->queue = q;
	q->last_dead = &q->dead;
	q->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (q->memory == MAP_FAILED) {
		q->memory = NULL;
		return ipoib_fail(ib, ENOMEM);
	}
	init_slots(q);
	q->mr = ibv_reg_mr(ib->pd, q->memory, size, IBV_ACCESS_LOCAL_WRITE);
	q->channel = ibv_create_comp_channel(ib->context);
	if (!q->mr || !q->channel)
		return ipoib_fail(ib, errno);
	q->send_cq = ibv_create_cq(ib->context, SEND_DEPTH, NULL, q->channel, 0);
	q->recv_cq = ibv_create_cq(ib->context, RECV_DEPTH, NULL, q->channel, 0);
	if (!q->send_cq || !q->recv_cq || ibv_req_notify_cq(q->recv_cq, 0))
		return ipoib_fail(ib, errno);
	fcntl(q->channel->fd, F_SETFL, fcntl(q->channel->fd, F_GETFL) | O_NONBLOCK);
	q->readable =
		event_new(ib->loop.base, q->channel->fd, EV_READ | EV_PERSIST, on_readable, ib);
	return q->readable && !event_add(q->readable, NULL) ? 0 : ipoib_fail(ib, ENOMEM);
}

void queue_destroy(struct ipoib *ib)
{
	size_t size = (size_t)SLOTS * SLOT_SIZE + (size_t)RECV_DEPTH * RECV_SIZE;
	struct ipoib_queue *q = ib->queue;

	if (!q)
		return;
	if (q->send_cq)
		abandon(ib);
	if (q->readable)
		event_free(q->readable);
	if (q->send_cq)
		ibv_destroy_cq(q->send_cq);
	if (q->recv_cq)
		ibv_destroy_cq(q->recv_cq);
	if (q->channel)
		ibv_destroy_comp_channel(q->channel);
	if (q->mr)
		ibv_dereg_mr(q->mr);
	if (q->memory)
		munmap(q->memory, size);
	free(q);
	ib->queue = NULL;
}
