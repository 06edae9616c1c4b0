/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The SA client; client.h has the picture. The owner serializes all calls; nothing here waits or
 * takes a lock.
 */
#include <errno.h>
#include <stdlib.h>

#include "libsacache/client.h"
#include "libsacache/random.h"

#define ACK_REPEATS   3
#define MAX_DOUBLINGS 6

void sa_client_init(struct sa_client *client, const struct sacache_attr *attr,
		    const uint8_t port_gid[16], const struct sa_client_ops *ops, void *ctx,
		    uint64_t now)
{
	memset(client, 0, sizeof(*client));
	client->ops = ops;
	client->ctx = ctx;
	client->attr = *attr;
	memcpy(client->port_gid, port_gid, 16);
	client->random = attr->seed ? attr->seed : 1;
	client->counter = (uint32_t)sa_random(&client->random);
	client->credit = 1000;
	client->credited = now;
	client->tail = &client->head;
}

static struct sa_query **bucket_of(struct sa_client *client, const struct sacache_key *key)
{
	return &client->buckets[sa_key_hash(key, client->attr.seed) % SA_BUCKETS];
}

/* Normalized keys have zeroes in unused components, and no padding. */
static bool same_question(const struct sa_query *query, const struct sacache_key *key, bool table)
{
	_Static_assert(sizeof(*key) == 8 * 7, "no padding");
	return query->table == table && !memcmp(&query->key, key, sizeof(*key));
}

struct sa_query *sa_client_find(struct sa_client *client, const struct sacache_key *key, bool table)
{
	struct sa_query *query = *bucket_of(client, key);

	while (query && !same_question(query, key, table))
		query = query->next_same_bucket;
	return query;
}

/* done may read the query, but it is no longer in the tables. */
static void finish(struct sa_client *client, struct sa_query *query, int status,
		   const uint8_t *records, size_t count, size_t stride)
{
	struct sa_query **link = bucket_of(client, &query->key);

	while (*link != query)
		link = &(*link)->next_same_bucket;
	*link = query->next_same_bucket;
	client->ops->done(client->ctx, query, status, records, count, stride);
	free(query);
}

static void finish_slot(struct sa_client *client, struct sa_slot *slot, int status,
			const uint8_t *records, size_t count, size_t stride)
{
	struct sa_query *query = slot->query;

	slot->state = SA_SLOT_FREE;
	slot->query = NULL;
	client->active--;
	finish(client, query, status, records, count, stride);
	sa_rmpp_reset(&slot->rmpp);
}

void sa_client_cancel(struct sa_client *client, int status)
{
	for (unsigned i = 0; i < client->attr.window; i++)
		if (client->slots[i].state != SA_SLOT_FREE)
			finish_slot(client, &client->slots[i], status, NULL, 0, 0);
	while (client->head) {
		struct sa_query *query = client->head;

		client->head = query->next_queued;
		client->queued--;
		finish(client, query, status, NULL, 0, 0);
	}
	client->tail = &client->head;
}

/* The rate limit: `rate` thousandths of a query are added in each ms, up to 10 ms' worth. */
static bool take_credit(struct sa_client *client, uint64_t now)
{
	uint64_t most = client->attr.rate * 10 > 1000 ? client->attr.rate * 10 : 1000;
	uint64_t passed = now - client->credited;

	if (!client->attr.rate)
		return true;
	if (passed > 1000000)
		passed = 1000000;
	client->credited = now;
	client->credit += passed * client->attr.rate;
	if (client->credit > most)
		client->credit = most;
	if (client->credit < 1000)
		return false;
	client->credit -= 1000;
	return true;
}

static uint64_t credit_time(const struct sa_client *client)
{
	uint64_t missing = client->credit < 1000 ? 1000 - client->credit : 0;

	if (!client->attr.rate)
		return client->credited;
	return client->credited + (missing + client->attr.rate - 1) / client->attr.rate;
}

/* base doubled for each try before, and up to half of that more, at random. */
static uint64_t wait_time(struct sa_client *client, uint64_t base, unsigned tries)
{
	uint64_t wait = base << (tries < MAX_DOUBLINGS ? tries : MAX_DOUBLINGS);

	return wait + sa_random(&client->random) % (wait / 2 + 1);
}

static void transmit(struct sa_client *client, struct sa_slot *slot, uint64_t now)
{
	uint8_t data[SA_MAD_DATA_SIZE] = {0}, buf[SA_MAD_SIZE];
	struct sa_query *query = slot->query;
	struct sa_mad mad = {
		.method = query->table ? SA_GET_TABLE : SA_GET,
		.tid = slot->tid,
		.attribute = SA_ATTR_PATH_RECORD,
		.data = data,
	};

	mad.comp_mask = sa_record_ask(&query->key, client->port_gid, data);
	if (query->table) {
		/* All paths, up to 127, the field's maximum (15.2.5.16). */
		data[49] = 1 << 7 | 127;
	}
	sa_mad_encode(&mad, buf);
	client->ops->count(client->ctx, slot->tries ? SA_RETRIED : SA_SENT);
	slot->state = SA_SLOT_SENT;
	slot->deadline = now + wait_time(client, client->attr.response_timeout, slot->tries);
	slot->tries++;
	client->ops->send(client->ctx, buf, slot->deadline - now);
}

/* A new transaction, so that late segments of the one before do not mix with it. */
static void renew(struct sa_client *client, struct sa_slot *slot)
{
	slot->tid = (client->counter++ << 8 & ~SA_TID_NOTICES) | (uint32_t)(slot - client->slots);
	sa_rmpp_reset(&slot->rmpp);
}

static void start(struct sa_client *client, uint64_t now)
{
	for (unsigned i = 0; i < client->attr.window && client->head; i++) {
		struct sa_slot *slot = &client->slots[i];

		if (slot->state != SA_SLOT_FREE)
			continue;
		if (!take_credit(client, now))
			return;
		slot->query = client->head;
		client->head = client->head->next_queued;
		if (!client->head)
			client->tail = &client->head;
		client->queued--;
		client->active++;
		slot->tries = 0;
		renew(client, slot);
		transmit(client, slot, now);
	}
}

struct sa_query *sa_client_submit(struct sa_client *client, const struct sacache_key *key,
				  bool table, uint64_t now, int *error)
{
	struct sa_query *query, **bucket;

	if (client->queued >= client->attr.queue) {
		*error = -EAGAIN;
		return NULL;
	}
	query = calloc(1, sizeof(*query));
	if (!query) {
		*error = -ENOMEM;
		return NULL;
	}
	query->key = *key;
	query->table = table;
	bucket = bucket_of(client, key);
	query->next_same_bucket = *bucket;
	*bucket = query;
	*client->tail = query;
	client->tail = &query->next_queued;
	client->queued++;
	if (client->active < client->attr.window)
		start(client, now);
	return query;
}

static void send_mad(struct sa_client *client, const struct sa_mad *mad)
{
	uint8_t buf[SA_MAD_SIZE];

	sa_mad_encode(mad, buf);
	client->ops->send(client->ctx, buf, 0);
}

static void acknowledge(struct sa_client *client, struct sa_slot *slot)
{
	struct sa_mad ack;

	sa_rmpp_ack(&slot->rmpp, slot->tid, &ack);
	send_mad(client, &ack);
}

/* No answer in time, or the SA was busy. */
static void expire(struct sa_client *client, struct sa_slot *slot, uint64_t now)
{
	bool busy = slot->state == SA_SLOT_BACKOFF;

	if (slot->rmpp.next && slot->rmpp.repeats < ACK_REPEATS) {
		slot->rmpp.repeats++;
		slot->deadline = now + wait_time(client, client->attr.response_timeout, 0);
		acknowledge(client, slot);
		return;
	}
	if (slot->tries > client->attr.retries) {
		client->ops->count(client->ctx, SA_TIMEOUTS);
		finish_slot(client, slot, busy ? -EBUSY : -ETIMEDOUT, NULL, 0, 0);
		return;
	}
	if (!take_credit(client, now)) {
		slot->deadline = credit_time(client);
		return;
	}
	/* A late answer to an earlier try is used as well, unless it has several segments. */
	if (slot->query->table)
		renew(client, slot);
	transmit(client, slot, now);
}

void sa_client_ask_again(struct sa_client *client, struct sa_query *table, uint64_t now)
{
	for (unsigned i = 0; i < client->attr.window; i++) {
		struct sa_slot *slot = &client->slots[i];

		if (slot->query != table)
			continue;
		/* Also if that has to wait for credit. */
		renew(client, slot);
		slot->tries = 0;
		expire(client, slot, now);
	}
}

uint64_t sa_client_run(struct sa_client *client, uint64_t now)
{
	uint64_t next = SA_NEVER;

	for (unsigned i = 0; i < client->attr.window && client->active; i++) {
		struct sa_slot *slot = &client->slots[i];

		if (slot->state != SA_SLOT_FREE && slot->deadline <= now)
			expire(client, slot, now);
	}
	if (client->active < client->attr.window)
		start(client, now);
	for (unsigned i = 0; i < client->attr.window; i++)
		if (client->slots[i].state != SA_SLOT_FREE && client->slots[i].deadline < next)
			next = client->slots[i].deadline;
	/* A query is queued and the window has room: it waits for credit. */
	if (client->head && client->active < client->attr.window && credit_time(client) < next)
		next = credit_time(client);
	return next;
}

static void busy(struct sa_client *client, struct sa_slot *slot, uint64_t now)
{
	uint64_t base = client->attr.response_timeout / 8 + 1;

	client->ops->count(client->ctx, SA_BUSY);
	slot->state = SA_SLOT_BACKOFF;
	slot->deadline = now + wait_time(client, base, slot->tries);
}

static void finish_table(struct sa_client *client, struct sa_slot *slot)
{
	size_t stride = slot->rmpp.attr_offset * 8u;

	if (!slot->rmpp.length)
		finish_slot(client, slot, -EHOSTUNREACH, NULL, 0, 0);
	else if (stride < SA_RECORD_SIZE || slot->rmpp.length < SA_RECORD_SIZE)
		finish_slot(client, slot, -EPROTO, NULL, 0, 0);
	else /* the last record may be shorter than its stride */
		finish_slot(client, slot, 0, slot->rmpp.data,
			    (slot->rmpp.length - SA_RECORD_SIZE) / stride + 1, stride);
}

static void receive_segment(struct sa_client *client, struct sa_slot *slot,
			    const struct sa_mad *mad, uint64_t now)
{
	size_t limit = (size_t)client->attr.max_records * SA_RECORD_SIZE + SA_MAD_DATA_SIZE;
	uint32_t before = slot->rmpp.next;
	enum sa_rmpp_verdict verdict = sa_rmpp_receive(&slot->rmpp, mad, limit);
	struct sa_mad abort = {
		.method = SA_GET_TABLE,
		.tid = slot->tid,
		.attribute = SA_ATTR_PATH_RECORD,
		.rmpp_type = SA_RMPP_ABORT,
		.rmpp_flags = SA_RMPP_ACTIVE,
		.rmpp_status = SA_RMPP_TOO_LARGE,
	};

	if (slot->rmpp.next != before)
		slot->deadline = now + wait_time(client, client->attr.response_timeout, 0);
	switch (verdict) {
	case SA_RMPP_IGNORE: client->ops->count(client->ctx, SA_MALFORMED); break;
	case SA_RMPP_PROGRESS: break;
	case SA_RMPP_ANSWER: acknowledge(client, slot); break;
	case SA_RMPP_COMPLETE:
		acknowledge(client, slot);
		finish_table(client, slot);
		break;
	case SA_RMPP_OVERFLOW:
	case SA_RMPP_NO_MEMORY:
		send_mad(client, &abort);
		finish_slot(client, slot, verdict == SA_RMPP_OVERFLOW ? -EFBIG : -ENOMEM, NULL, 0,
			    0);
		break;
	case SA_RMPP_ENDED:
		/* The SA aborted this transfer: start a new one later. */
		renew(client, slot);
		busy(client, slot, now);
		break;
	}
}

static void receive_answer(struct sa_client *client, struct sa_slot *slot, const struct sa_mad *mad,
			   uint64_t now)
{
	int status = sa_mad_status(mad->status);

	if (status == -EBUSY)
		busy(client, slot, now);
	else if (status)
		finish_slot(client, slot, status, NULL, 0, 0);
	else if (mad->rmpp_flags & SA_RMPP_ACTIVE)
		receive_segment(client, slot, mad, now);
	else if (slot->query->table)
		client->ops->count(client->ctx, SA_MALFORMED);
	else if (!sa_record_answers(mad->data, &slot->query->key))
		finish_slot(client, slot, -EPROTO, NULL, 0, 0);
	else
		finish_slot(client, slot, 0, mad->data, 1, SA_RECORD_SIZE);
}

/* The ACK of a last segment may be lost; its sender then repeats that until it gives up. */
static void stray(struct sa_client *client, const struct sa_mad *mad)
{
	struct sa_rmpp complete = {.next = mad->segment + 1};
	struct sa_mad ack;

	client->ops->count(client->ctx, SA_STRAYS);
	if (mad->method != SA_GET_TABLE_RESP || mad->rmpp_type != SA_RMPP_DATA ||
	    !(mad->rmpp_flags & SA_RMPP_LAST))
		return;
	sa_rmpp_ack(&complete, (uint32_t)mad->tid, &ack);
	send_mad(client, &ack);
}

void sa_client_receive(struct sa_client *client, const uint8_t *buf, size_t length, uint64_t now)
{
	struct sa_slot *slot;
	struct sa_mad mad;
	uint8_t method;

	client->ops->count(client->ctx, SA_RECEIVED);
	if (sa_mad_decode(buf, length, &mad) || !(mad.method & 0x80) ||
	    mad.attribute != SA_ATTR_PATH_RECORD) {
		client->ops->count(client->ctx, SA_MALFORMED);
		return;
	}
	slot = &client->slots[mad.tid & 0xff];
	if (slot->state == SA_SLOT_FREE || slot->tid != (uint32_t)mad.tid) {
		stray(client, &mad);
		return;
	}
	/* A duplicate of a busy response, or the answer to an earlier try: the latter is used. */
	if (slot->state == SA_SLOT_BACKOFF && sa_mad_status(mad.status) == -EBUSY)
		return;
	method = slot->query->table ? SA_GET_TABLE_RESP : SA_GET_RESP;
	if (mad.method != method || (mad.rmpp_flags & SA_RMPP_ACTIVE && !slot->query->table)) {
		client->ops->count(client->ctx, SA_MALFORMED);
		return;
	}
	receive_answer(client, slot, &mad, now);
	/* The next query in the queue gets the slot that became free. */
	if (client->head && client->active < client->attr.window)
		start(client, now);
}
