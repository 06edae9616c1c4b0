/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Reliable datagrams; see datagrams.h. Each node has a window of slots:
 *
 *	 acked		     posted			     last
 *	   ▼		       ▼			       ▼
 *	───┬───────────────────┬───────────────────────────────┬───
 *	   │ sent, may be lost │ waits for the send queue      │ free
 *	───┴───────────────────┴───────────────────────────────┴───
 *
 * A datagram keeps its slot until the other end says that it was delivered. With a new connection
 * "posted" goes back to "acked". One thread has all of this.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "datagrams.h"

enum {
	WINDOW = 64,
	RECEIVES = 2 * WINDOW,
	SENDS = WINDOW + 16, /* some are acknowledgements without a datagram */
	ACK_AFTER = WINDOW / 4,
};

struct message {
	uint64_t life;	   /* of the process that sends */
	uint64_t sequence; /* from 1 on; 0: no datagram */
	uint64_t ack;	   /* all up to this one were delivered */
	uint8_t data[DATAGRAM_SIZE];
};
#define HEADER offsetof(struct message, data)

struct node {
	struct datagrams *owner;
	unsigned number;
	struct sacache_rdmacm_peer *peer;
	struct rdma_cm_id *id; /* prepared */
	struct ibv_mr *mr;
	bool up;
	unsigned connection; /* counts them: completions of an earlier one are not heeded */
	unsigned on_wire;    /* sends whose completions have not come */
	uint64_t acked, posted, last;
	uint64_t delivered, told; /* the other's; told: that it knows */
	uint64_t life;		  /* of the other process; 0: not met */
	uint16_t sizes[WINDOW];
	struct message slots[WINDOW];
	struct message out_ack;
	struct message in[RECEIVES];
};

struct datagrams {
	struct sacache_rdmacm *cm;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	datagrams_deliver deliver;
	void *ctx;
	uint64_t life;
	int error;
	struct datagrams_stats stats;
	unsigned self, count;
	struct node *nodes[];
};

/* wr_id: node 16, connection 32, receive 1, its number 15. */
static uint64_t wr_id(const struct node *node, bool receive, unsigned number)
{
	return (uint64_t)node->number << 48 | (uint64_t)node->connection << 16 |
	       (uint64_t)receive << 15 | number;
}

static int post_receive(struct node *node, unsigned number)
{
	struct ibv_sge sge = {(uintptr_t)&node->in[number], sizeof(struct message), node->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id(node, true, number), .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;

	return ibv_post_recv(node->id->qp, &wr, &bad) ? -EIO : 0;
}

static void post_message(struct node *node, struct message *message, unsigned size)
{
	struct ibv_sge sge = {(uintptr_t)message, HEADER + size, node->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = wr_id(node, false, 0),
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;

	message->life = node->owner->life;
	message->ack = node->told = node->delivered;
	/* A queue pair that takes none is broken, and its completions say so. */
	if (!ibv_post_send(node->id->qp, &wr, &bad))
		node->on_wire++;
}

/* What waits, as far as the send queue has room. */
static void post_waiting(struct node *node)
{
	while (node->up && node->posted < node->last && node->on_wire < SENDS) {
		unsigned slot = ++node->posted % WINDOW;

		post_message(node, &node->slots[slot], node->sizes[slot]);
	}
}

/* An acknowledgement by itself. They share their memory: a later one that overtakes is as good. */
static void post_ack(struct node *node, bool now)
{
	uint64_t owed = node->delivered - node->told;

	if (!node->up || node->on_wire == SENDS || !(owed >= ACK_AFTER || (now && owed)))
		return;
	node->out_ack.sequence = 0;
	post_message(node, &node->out_ack, 0);
}

/* Connections. */

static int make_queues(struct datagrams *d, struct ibv_context *verbs)
{
	if (d->cq)
		return 0;
	d->channel = ibv_create_comp_channel(verbs);
	if (!d->channel)
		return -ENOMEM;
	d->cq = ibv_create_cq(verbs, (int)d->count * (RECEIVES + SENDS), NULL, d->channel, 0);
	return d->cq && !ibv_req_notify_cq(d->cq, 0) ? 0 : -ENOMEM;
}

static int prepare(void *ctx, void *user, struct rdma_cm_id *id)
{
	struct datagrams *d = ctx;
	struct node *node = user;
	struct ibv_qp_init_attr attr = {.cap = {SENDS, RECEIVES, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	int ret = make_queues(d, id->verbs);

	if (ret)
		return ret;
	attr.send_cq = attr.recv_cq = d->cq;
	if (rdma_create_qp(id, NULL, &attr))
		return -errno;
	node->id = id;
	node->connection++;
	node->on_wire = 0;
	if (!node->mr)
		node->mr = ibv_reg_mr(id->pd, node, sizeof(*node), IBV_ACCESS_LOCAL_WRITE);
	ret = node->mr ? 0 : -ENOMEM;
	for (unsigned i = 0; !ret && i < RECEIVES; i++)
		ret = post_receive(node, i);
	if (ret) {
		rdma_destroy_qp(id);
		node->id = NULL;
	}
	return ret;
}

static void release(void *ctx, void *user, struct rdma_cm_id *id)
{
	struct node *node = user;

	rdma_destroy_qp(id);
	node->id = NULL;
	node->up = false;
}

static void up(void *ctx, void *user, struct rdma_cm_id *id)
{
	struct datagrams *d = ctx;
	struct node *node = user;

	node->up = true;
	d->stats.again += node->posted - node->acked;
	node->posted = node->acked;
	/* First what the other need not send again. */
	node->told = 0;
	post_ack(node, true);
	post_waiting(node);
}

static void down(void *ctx, void *user, struct rdma_cm_id *id, int status)
{
	((struct node *)user)->up = false;
}

static const struct sacache_rdmacm_ops ops = {
	.size = sizeof(ops),
	.prepare = prepare,
	.release = release,
	.up = up,
	.down = down,
};

/* What arrives. */

static void receive(struct datagrams *d, struct node *node, const struct message *message,
		    size_t size)
{
	if (size < HEADER || (node->life && node->life != message->life)) {
		d->error = size < HEADER ? -EPROTO : -ESTALE;
		return;
	}
	node->life = message->life;
	if (message->ack > node->last || message->sequence > node->delivered + 1) {
		d->error = -EPROTO;
		return;
	}
	if (message->ack > node->acked)
		node->acked = message->ack;
	if (node->posted < node->acked)
		node->posted = node->acked;
	if (!message->sequence)
		return;
	if (message->sequence <= node->delivered) {
		d->stats.dropped++;
		node->told = 0; /* it seems not to know */
		return;
	}
	node->delivered = message->sequence;
	d->stats.delivered++;
	d->deliver(d->ctx, node->number, message->data, size - HEADER);
}

static void complete(struct datagrams *d, const struct ibv_wc *wc)
{
	struct node *node = d->nodes[wc->wr_id >> 48];
	unsigned number = wc->wr_id & 0x7fff;

	if (!node->id || (uint32_t)(wc->wr_id >> 16) != node->connection)
		return;
	if (wc->status) {
		/* Before it is up, rdma_cm finds out. */
		sacache_rdmacm_failed(node->peer, -EIO);
		return;
	}
	if (!(wc->wr_id & 1 << 15)) {
		node->on_wire--;
		return;
	}
	receive(d, node, &node->in[number], wc->byte_len);
	if (post_receive(node, number))
		sacache_rdmacm_failed(node->peer, -EIO);
}

static unsigned poll_completions(struct datagrams *d)
{
	struct ibv_wc wc[32];
	int n = d->cq ? ibv_poll_cq(d->cq, 32, wc) : 0;

	for (int i = 0; i < n; i++)
		complete(d, &wc[i]);
	return n > 0 ? n : 0;
}

/* Waits for a completion or for what rdma_cm has to say. Whoever asks for a notice has to look
 * again. */
static void wait_for_something(struct datagrams *d, int ms)
{
	struct pollfd fds[2] = {
		{.fd = sacache_rdmacm_fd(d->cm), .events = POLLIN},
		{.fd = d->channel ? d->channel->fd : -1, .events = POLLIN},
	};
	struct ibv_cq *cq;
	void *ctx;

	poll(fds, 2, ms);
	if (fds[1].revents && !ibv_get_cq_event(d->channel, &cq, &ctx)) {
		ibv_ack_cq_events(cq, 1);
		ibv_req_notify_cq(cq, 0);
	}
}

int datagrams_run(struct datagrams *d, int ms)
{
	int ret = sacache_rdmacm_run(d->cm);
	unsigned found = poll_completions(d);

	if (!found && !ret && ms) {
		wait_for_something(d, ms);
		ret = sacache_rdmacm_run(d->cm);
	}
	while (found)
		found = poll_completions(d);
	poll_completions(d);
	for (unsigned i = 0; i < d->count; i++) {
		if (i == d->self)
			continue;
		post_waiting(d->nodes[i]);
		post_ack(d->nodes[i], true);
	}
	return ret ? ret : d->error;
}

int datagrams_send(struct datagrams *d, unsigned to, const void *data, size_t size)
{
	struct node *node = to < d->count ? d->nodes[to] : NULL;
	unsigned slot;

	if (!node || to == d->self || size > DATAGRAM_SIZE)
		return -EINVAL;
	if (node->last - node->acked == WINDOW)
		return -EAGAIN;
	slot = ++node->last % WINDOW;
	node->slots[slot].sequence = node->last;
	node->sizes[slot] = size;
	memcpy(node->slots[slot].data, data, size);
	d->stats.sent++;
	post_waiting(node);
	return 0;
}

unsigned datagrams_under_way(const struct datagrams *d, unsigned to)
{
	return d->nodes[to]->last - d->nodes[to]->acked;
}

struct rdma_cm_id *datagrams_connection(const struct datagrams *d, unsigned to)
{
	return sacache_rdmacm_id(d->nodes[to]->peer);
}

void datagrams_stats(const struct datagrams *d, struct datagrams_stats *stats)
{
	*stats = d->stats;
	sacache_rdmacm_stats(d->cm, &stats->connections, sizeof(stats->connections));
}

static int add_node(struct datagrams *d, unsigned number, const struct sockaddr_in *address)
{
	struct sacache_rdmacm_name name = {
		.size = sizeof(name),
		.local = d->self,
		.remote = number,
		.address = (const struct sockaddr *)address,
		.role = d->self < number ? SACACHE_CLIENT : SACACHE_SERVER,
	};
	struct node *node = calloc(1, sizeof(*node));

	if (!node)
		return -ENOMEM;
	d->nodes[number] = node;
	node->owner = d;
	node->number = number;
	return number == d->self ? 0 : sacache_rdmacm_add(d->cm, &name, node, &node->peer);
}

int datagrams_open(unsigned self, const struct sockaddr_in *nodes, unsigned count,
		   struct sacache *cache, datagrams_deliver deliver, void *ctx,
		   struct datagrams **out)
{
	struct datagrams *d = calloc(1, sizeof(*d) + count * sizeof(d->nodes[0]));
	struct sacache_reconnect_attr reconnect;
	struct sacache_rdmacm_attr attr;
	int ret;

	if (!d)
		return -ENOMEM;
	d->self = self;
	d->count = count;
	d->deliver = deliver;
	d->ctx = ctx;
	if (getrandom(&d->life, sizeof(d->life), 0) != sizeof(d->life))
		d->life = (uintptr_t)d;
	d->life |= 1;
	sacache_rdmacm_attr_init(&attr, sizeof(attr));
	attr.cache = cache;
	attr.listen = (const struct sockaddr *)&nodes[self];
	sacache_reconnect_attr_init(&reconnect, sizeof(reconnect));
	reconnect.backoff_min = 10;
	reconnect.backoff_max = 2000;
	attr.reconnect = &reconnect;
	ret = sacache_rdmacm_create(&attr, &ops, d, &d->cm);
	for (unsigned i = 0; !ret && i < count; i++)
		ret = add_node(d, i, &nodes[i]);
	if (ret)
		datagrams_close(d);
	else
		*out = d;
	return ret;
}

void datagrams_close(struct datagrams *d)
{
	sacache_rdmacm_destroy(d->cm);
	for (unsigned i = 0; i < d->count; i++) {
		if (d->nodes[i] && d->nodes[i]->mr)
			ibv_dereg_mr(d->nodes[i]->mr);
		free(d->nodes[i]);
	}
	if (d->cq)
		ibv_destroy_cq(d->cq);
	if (d->channel)
		ibv_destroy_comp_channel(d->channel);
	free(d);
}
