/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A port in its subnet: libibumad and libibverbs are replaced by what is below, a port whose
 * PortInfo the tests change, an SA at a LID, and asynchronous events.
 */
#ifndef SACACHE_NET_H
#define SACACHE_NET_H

#include "sacache_umad.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <unistd.h>
#include <infiniband/verbs.h>

enum { HOSTS = 12 };

static struct {
	/* PortInfo. */
	unsigned state, lid, sm_lid;
	uint8_t prefix;
	/* The SA. */
	uint16_t sa_lid, answers_from, peers_lid;
	uint16_t lids[HOSTS + 1]; /* of the peer with that number; 0: peers_lid */
	unsigned sets, cancelled, paths, tables, responses;
	bool has_no_table, holds_table;
	bool two_paths;		   /* a table has two to each, and the first is what a query gets */
	uint8_t held[SA_MAD_SIZE]; /* the question */
	/* libibverbs. */
	bool has_verbs, taken;
	enum ibv_event_type events[8];
	unsigned nevents, event_port, opened;
	unsigned lid_when_watched; /* 0: the same */
} net;
static struct ibv_device device = {.name = "fake"};
static struct ibv_context context;
static struct sacache *cache;
static unsigned port;
static uint32_t response_timeout = 20;

struct ibv_device **ibv_get_device_list(int *num)
{
	static struct ibv_device *list[2];

	list[0] = net.has_verbs ? &device : NULL;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
}

const char *ibv_get_device_name(struct ibv_device *dev)
{
	return dev->name;
}

struct ibv_context *ibv_open_device(struct ibv_device *dev)
{
	net.opened++;
	net.lid = net.lid_when_watched ? net.lid_when_watched : net.lid;
	context.async_fd = open("/dev/null", O_RDONLY);
	return &context;
}

int ibv_close_device(struct ibv_context *ctx)
{
	net.opened--;
	return close(ctx->async_fd);
}

int ibv_get_async_event(struct ibv_context *ctx, struct ibv_async_event *event)
{
	int ret = -1;

	pthread_mutex_lock(&lock);
	errno = EAGAIN;
	if (net.nevents) {
		event->event_type = net.events[--net.nevents];
		event->element.port_num = net.event_port;
		ret = 0;
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
}

int umad_get_port(const char *ca_name, int portnum, umad_port_t *attr)
{
	memset(attr, 0, sizeof(*attr));
	snprintf(attr->ca_name, sizeof(attr->ca_name), "%s", ca_name);
	attr->portnum = portnum;
	pthread_mutex_lock(&lock);
	attr->state = net.state;
	attr->base_lid = net.lid;
	attr->sm_lid = net.sm_lid;
	attr->gid_prefix = htobe64(0xfe80000000000000 | net.prefix);
	pthread_mutex_unlock(&lock);
	return 0;
}

int umad_open_port(const char *ca_name, int portnum)
{
	return 3;
}

int umad_register(int portid, int mgmt_class, int version, uint8_t rmpp,
		  long mask[16 / sizeof(long)])
{
	/* Only reports are unasked for. */
	assert_true(!mask || (mask[0] == 1 << 6 && !mask[1]));
	return mask && net.taken ? -EPERM : 0;
}

int umad_set_addr(void *umad, int lid, int qp, int sl, int qkey)
{
	((struct ib_user_mad *)umad)->addr.lid = htobe16(lid);
	return 0;
}

/* Under lock: what the SA says of a path, from the LID that the port has now. */
static void fill_path(uint8_t *record)
{
	uint32_t peer = sa_get32(record + 20);
	uint16_t lid = peer <= HOSTS ? net.lids[peer] : 0;

	sa_put16(record + 40, lid ? lid : net.peers_lid);
	sa_put16(record + 42, net.lid);
	record[49] = 1 << 7 | 1;
}

static void answer_path(struct sa_mad *mad)
{
	uint8_t data[SA_MAD_DATA_SIZE], buf[SA_MAD_SIZE];

	net.paths++;
	memcpy(data, mad->data, sizeof(data));
	fill_path(data);
	mad->method = SA_GET_RESP;
	mad->data = data;
	sa_mad_encode(mad, buf);
	deliver(buf, net.answers_from);
}

/* The paths to all HOSTS, in segments that are not acknowledged. */
static void answer_table(struct sa_mad *mad)
{
	uint8_t records[2 * HOSTS * SA_RECORD_SIZE + SA_MAD_DATA_SIZE] = {0}, buf[SA_MAD_SIZE];
	unsigned count = net.two_paths ? 2 * HOSTS : HOSTS;
	unsigned last = (count * SA_RECORD_SIZE - 1) / SA_MAD_DATA_SIZE + 1;

	for (unsigned i = 0; i < count; i++) {
		uint8_t *record = records + i * SA_RECORD_SIZE;

		memcpy(record, mad->data, SA_RECORD_SIZE);
		test_gid(i % HOSTS + 1, record + 8);
		fill_path(record);
		sa_put16(record + 40, sa_get16(record + 40) + i / HOSTS);
	}
	mad->method = SA_GET_TABLE_RESP;
	mad->rmpp_type = SA_RMPP_DATA;
	mad->attr_offset = SA_RECORD_SIZE / 8;
	for (mad->segment = 1; mad->segment <= last; mad->segment++) {
		mad->rmpp_flags = SA_RMPP_ACTIVE | (mad->segment == 1 ? SA_RMPP_FIRST : 0) |
				  (mad->segment == last ? SA_RMPP_LAST : 0);
		mad->paylen =
			SA_RMPP_HEADER + count * SA_RECORD_SIZE - (last - 1) * SA_MAD_DATA_SIZE;
		mad->data = records + (mad->segment - 1) * SA_MAD_DATA_SIZE;
		sa_mad_encode(mad, buf);
		deliver(buf, net.answers_from);
	}
}

static void ask_for_table(struct sa_mad *mad, const uint8_t *buf)
{
	if (mad->rmpp_flags & SA_RMPP_ACTIVE)
		return;
	net.tables++;
	if (net.holds_table)
		memcpy(net.held, buf, SA_MAD_SIZE);
	else if (!net.has_no_table)
		answer_table(mad);
}

static void answer_set(const struct sa_mad *mad, uint8_t *buf)
{
	net.sets += mad->data[23];
	net.cancelled += !mad->data[23];
	buf[3] = SA_GET_RESP;
	deliver(buf, net.answers_from);
}

int umad_send(int portid, int agent, void *umad, int length, int timeout, int retries)
{
	struct ib_user_mad *out = umad;
	uint8_t buf[SA_MAD_SIZE];
	struct sa_mad mad;

	memcpy(buf, out->data, SA_MAD_SIZE);
	assert_int_equal(sa_mad_decode(buf, length, &mad), 0);
	pthread_mutex_lock(&lock);
	if (be16toh(out->addr.lid) == net.sa_lid) {
		if (mad.method == SA_REPORT_RESP)
			net.responses++;
		else if (mad.method == SA_GET_TABLE)
			ask_for_table(&mad, buf);
		else if (mad.attribute == SA_ATTR_PATH_RECORD)
			answer_path(&mad);
		else if (mad.method == SA_SET)
			answer_set(&mad, buf);
	}
	pthread_mutex_unlock(&lock);
	return 0;
}

static void begin(bool verbs, bool notices)
{
	struct sacache_attr attr;

	memset(&net, 0, sizeof(net));
	queue.first = queue.last = 0;
	net.state = 4;
	net.lid = 5;
	net.sm_lid = net.sa_lid = net.answers_from = 1;
	net.peers_lid = 10;
	net.has_verbs = verbs;
	net.event_port = 1;
	sacache_attr_init(&attr, sizeof(attr));
	attr.policy = SACACHE_ALWAYS;
	attr.response_timeout = response_timeout;
	attr.seed = 3;
	attr.notices = notices ? 400 : 0; /* and spread over a quarter of that */
	assert_int_equal(sacache_create(&attr, &cache), 0);
	assert_int_equal(sacache_port_open(cache, "fake", 1, &port), 0);
}

static int teardown(void **state)
{
	sacache_destroy(cache);
	assert_int_equal(net.opened, 0);
	return 0;
}

/* A change of the port, and the event that libibverbs has for it. */
#define CHANGE(change, event)                              \
	do {                                               \
		pthread_mutex_lock(&lock);                 \
		change;                                    \
		if (net.has_verbs)                         \
			net.events[net.nevents++] = event; \
		pthread_mutex_unlock(&lock);               \
	} while (0)

static struct sacache_stats stats(void)
{
	struct sacache_stats s;

	sacache_stats(cache, &s, sizeof(s));
	return s;
}

/* Waits for something that happens soon. */
#define AWAIT(condition)                                                         \
	do {                                                                     \
		for (unsigned tries = 0; !(condition) && tries < 2000; tries++)  \
			nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL); \
		assert_true(condition);                                          \
	} while (0)

static unsigned of_net(const unsigned *what)
{
	unsigned value;

	pthread_mutex_lock(&lock);
	value = *what;
	pthread_mutex_unlock(&lock);
	return value;
}

static int ask(unsigned n)
{
	struct sacache_key key = test_key(n);
	struct sacache_path path;

	return sacache_resolve(cache, &key, &path, -1);
}

static int look(unsigned n)
{
	struct sacache_key key = test_key(n);
	struct sacache_path path;

	return sacache_lookup(cache, &key, &path);
}

#endif
