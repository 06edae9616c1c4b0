/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a port sees of its subnet: libibumad and libibverbs are replaced by what is below, a port
 * whose PortInfo the tests change, an SA at a LID, and asynchronous events. Watched by the
 * sanitizers.
 */
#include "sacache_test.h"

#include <endian.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>
#include <infiniband/umad.h>
#include <infiniband/verbs.h>

#include "libsacache/mad.h"

enum { QUEUE = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static struct {
	/* PortInfo. */
	unsigned state, lid, sm_lid;
	uint8_t prefix;
	/* The SA. */
	uint16_t sa_lid, answers_from, peers_lid;
	unsigned sets, cancelled, paths, responses;
	/* What is on its way to the port. */
	uint8_t queue[QUEUE][SA_MAD_SIZE];
	uint16_t from[QUEUE];
	unsigned first, last;
	/* libibverbs. */
	bool has_verbs, taken;
	enum ibv_event_type events[8];
	unsigned nevents, event_port, opened;
} net;
static struct ibv_device device = {.name = "fake"};
static struct ibv_context context;
static struct sacache *cache;
static unsigned port;

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

int umad_init(void)
{
	return 0;
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

int umad_release_port(umad_port_t *attr)
{
	return 0;
}

int umad_open_port(const char *ca_name, int portnum)
{
	return 3;
}

int umad_close_port(int portid)
{
	return 0;
}

int umad_register(int portid, int mgmt_class, int version, uint8_t rmpp,
		  long mask[16 / sizeof(long)])
{
	/* Only reports are unasked for. */
	assert_true(!mask || (mask[0] == 1 << 6 && !mask[1]));
	return mask && net.taken ? -EPERM : 0;
}

int umad_unregister(int portid, int agent)
{
	return 0;
}

size_t umad_size(void)
{
	return sizeof(struct ib_user_mad);
}

void *umad_get_mad(void *umad)
{
	return ((struct ib_user_mad *)umad)->data;
}

int umad_status(void *umad)
{
	return 0;
}

int umad_set_addr(void *umad, int lid, int qp, int sl, int qkey)
{
	((struct ib_user_mad *)umad)->addr.lid = htobe16(lid);
	return 0;
}

/* Under lock. */
static void deliver(const uint8_t *mad, uint16_t from)
{
	net.from[net.last % QUEUE] = from;
	memcpy(net.queue[net.last++ % QUEUE], mad, SA_MAD_SIZE);
	pthread_cond_signal(&arrived);
}

/* Under lock: paths from the LID that the port has now. */
static void answer_path(struct sa_mad *mad)
{
	uint8_t data[SA_MAD_DATA_SIZE], buf[SA_MAD_SIZE];

	net.paths++;
	memcpy(data, mad->data, sizeof(data));
	sa_put16(data + 40, net.peers_lid);
	sa_put16(data + 42, net.lid);
	mad->method = SA_GET_RESP;
	mad->data = data;
	sa_mad_encode(mad, buf);
	deliver(buf, net.answers_from);
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
		else if (mad.attribute == SA_ATTR_PATH_RECORD)
			answer_path(&mad);
		else if (mad.method == SA_SET)
			answer_set(&mad, buf);
	}
	pthread_mutex_unlock(&lock);
	return 0;
}

int umad_recv(int portid, void *umad, int *length, int timeout)
{
	struct ib_user_mad *in = umad;
	struct timespec until;
	int ret = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += timeout * 1000000l;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	memset(umad, 0, sizeof(*in));
	pthread_mutex_lock(&lock);
	while (net.first == net.last && ret != ETIMEDOUT)
		ret = pthread_cond_timedwait(&arrived, &lock, &until);
	ret = -ETIMEDOUT;
	if (net.first != net.last) {
		in->addr.lid = htobe16(net.from[net.first % QUEUE]);
		memcpy(in->data, net.queue[net.first++ % QUEUE], SA_MAD_SIZE);
		*length = SA_MAD_SIZE;
		ret = 0;
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

static void begin(bool verbs, bool notices)
{
	struct sacache_attr attr;

	memset(&net, 0, sizeof(net));
	net.state = 4;
	net.lid = 5;
	net.sm_lid = net.sa_lid = net.answers_from = 1;
	net.peers_lid = 10;
	net.has_verbs = verbs;
	net.event_port = 1;
	sacache_attr_init(&attr);
	attr.policy = SACACHE_ALWAYS;
	attr.response_timeout = 20;
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

static void an_sm_that_moves_is_followed_and_all_is_asked_again(void **state)
{
	begin(true, false);
	assert_int_equal(ask(1), 0);
	CHANGE(net.sm_lid = net.sa_lid = net.answers_from = 2, IBV_EVENT_SM_CHANGE);
	AWAIT(look(1) == -ESTALE);
	assert_int_equal(ask(1), 0);
	assert_int_equal(look(1), 0);
	assert_int_equal(stats().sm_changes, 1);
	assert_int_equal(stats().confirmed, 1);
	assert_int_equal(of_net(&net.paths), 2);
}

/* A query that is under way when the SM moves ends well. */
static void an_sm_that_moves_is_looked_for_when_it_does_not_answer(void **state)
{
	begin(false, false);
	assert_int_equal(ask(1), 0);
	CHANGE(net.sm_lid = net.sa_lid = net.answers_from = 2, 0);
	assert_int_equal(ask(2), 0);
	assert_int_equal(look(1), -ESTALE);
	assert_true(stats().retried > 0);
}

static void answers_from_elsewhere_are_dropped(void **state)
{
	struct sacache_key key = test_key(1);
	struct sacache_path path;

	begin(true, false);
	CHANGE(net.answers_from = 7, IBV_EVENT_PORT_ACTIVE);
	assert_int_equal(sacache_resolve(cache, &key, &path, 50), -ETIMEDOUT);
	assert_int_equal(look(1), -ENOENT);
	assert_true(stats().foreign > 0);
	/* Until the port says that the SM is there. */
	CHANGE(net.sm_lid = net.sa_lid = 7, IBV_EVENT_SM_CHANGE);
	assert_int_equal(ask(1), 0);
}

static void another_lid_of_the_port_makes_paths_from_it_asked_again(void **state)
{
	begin(true, false);
	assert_int_equal(ask(1), 0);
	CHANGE(net.lid = 6, IBV_EVENT_LID_CHANGE);
	AWAIT(look(1) == -ESTALE);
	assert_int_equal(ask(1), 0);
	assert_int_equal(look(1), 0);
	assert_int_equal(stats().lid_changes, 1);
	assert_int_equal(stats().changed, 1);
}

static void client_reregister_makes_all_asked_again_and_subscribes(void **state)
{
	begin(true, true);
	assert_int_equal(ask(1), 0);
	AWAIT(stats().subscribed == 4);
	/* Of another port: none of our business. */
	CHANGE(net.event_port = 2, IBV_EVENT_CLIENT_REREGISTER);
	AWAIT(!of_net(&net.nevents));
	CHANGE(net.event_port = 1, IBV_EVENT_CLIENT_REREGISTER);
	AWAIT(look(1) == -ESTALE);
	AWAIT(stats().subscribed == 8);
	assert_int_equal(stats().reregisters, 1);
}

static void a_port_that_goes_down_and_up_keeps_its_records(void **state)
{
	unsigned asked;

	begin(true, true);
	assert_int_equal(ask(1), 0);
	asked = of_net(&net.paths); /* once, or again on a busy machine */
	AWAIT(stats().subscribed == 4);
	CHANGE(net.state = 1, IBV_EVENT_PORT_ERR);
	AWAIT(stats().port_downs == 1);
	assert_int_equal(look(1), 0);
	CHANGE(net.state = 4, IBV_EVENT_PORT_ACTIVE);
	AWAIT(stats().subscribed == 8);
	assert_int_equal(look(1), 0);
	assert_int_equal(of_net(&net.paths), asked);
}

/*
 * 14.4.11: the SM of that LID was restarted, or read other LIDs from its file, while the port was
 * away. Nothing else says so: no notice is about another LID, and those of the absence are lost.
 */
static void a_port_that_comes_up_and_reregisters_has_no_path_of_before(void **state)
{
	struct sacache_key key = test_key(1);
	struct sacache_path path;

	begin(true, true);
	assert_int_equal(sacache_resolve(cache, &key, &path, -1), 0);
	assert_int_equal(path.dlid, 10);
	AWAIT(stats().subscribed == 4);
	CHANGE(net.state = 1, IBV_EVENT_PORT_ERR);
	AWAIT(stats().port_downs == 1);
	CHANGE((net.state = 4, net.peers_lid = 11), IBV_EVENT_CLIENT_REREGISTER);
	AWAIT(look(1) == -ESTALE);
	assert_int_equal(sacache_resolve(cache, &key, &path, -1), 0);
	assert_int_equal(path.dlid, 11);
	assert_int_equal(stats().sm_changes + stats().lid_changes, 0);
}

static void another_subnet_makes_all_asked_again(void **state)
{
	begin(true, false);
	assert_int_equal(ask(1), 0);
	CHANGE(net.prefix = 1, IBV_EVENT_GID_CHANGE);
	AWAIT(look(1) == -ESTALE);
}

static void without_libibverbs_the_port_is_read_now_and_then(void **state)
{
	begin(false, false);
	assert_int_equal(ask(1), 0);
	CHANGE(net.lid = 6, 0);
	AWAIT(look(1) == -ESTALE);
}

static void a_device_that_is_gone_is_closed(void **state)
{
	begin(true, false);
	assert_int_equal(ask(1), 0);
	AWAIT(of_net(&net.opened) == 1);
	CHANGE(, IBV_EVENT_DEVICE_FATAL);
	AWAIT(of_net(&net.opened) == 0);
	assert_int_equal(look(1), 0);
}

static void a_report_reaches_the_table_and_is_answered(void **state)
{
	uint8_t data[SA_MAD_DATA_SIZE] = {0x84, 0, 0, 4, 0, 65}, buf[SA_MAD_SIZE];
	struct sa_mad report = {
		.method = SA_REPORT, .tid = 1, .attribute = SA_ATTR_NOTICE, .data = data};
	struct sacache_stats s;

	begin(true, true);
	assert_int_equal(ask(1), 0);
	test_gid(1, data + 16);
	sa_mad_encode(&report, buf);
	pthread_mutex_lock(&lock);
	deliver(buf, 9);
	deliver(buf, 1);
	deliver(buf, 1);
	pthread_mutex_unlock(&lock);
	AWAIT(of_net(&net.responses) == 2);
	s = stats();
	assert_int_equal(s.notices_gid_out, 1);
	assert_int_equal(s.notices_forged, 1);
	assert_int_equal(s.notices_repeated, 1);
	assert_int_equal(s.failures_counted, 1);
	assert_int_equal(look(1), 0);
}

static void a_port_unsubscribes_when_it_is_closed(void **state)
{
	begin(true, true);
	AWAIT(stats().subscribed == 4);
	assert_int_equal(sacache_port_close(cache, port), 0);
	assert_int_equal(net.cancelled, 4);
}

static void an_sa_that_is_gone_does_not_hold_up_the_end(void **state)
{
	struct timespec begun, ended;

	begin(true, true);
	AWAIT(stats().subscribed == 4);
	CHANGE(net.sa_lid = 99, IBV_EVENT_PORT_ACTIVE);
	clock_gettime(CLOCK_MONOTONIC, &begun);
	assert_int_equal(sacache_port_close(cache, port), 0);
	clock_gettime(CLOCK_MONOTONIC, &ended);
	assert_true(ended.tv_sec - begun.tv_sec <= 5);
	assert_int_equal(net.cancelled, 0);
}

/* The kernel gives the reports of a port to one program. */
static void where_another_has_the_reports_queries_work(void **state)
{
	begin(true, false);
	sacache_destroy(cache);
	net.taken = true;
	{
		struct sacache_attr attr;

		sacache_attr_init(&attr);
		attr.policy = SACACHE_ALWAYS;
		attr.notices = 1000;
		assert_int_equal(sacache_create(&attr, &cache), 0);
		assert_int_equal(sacache_port_open(cache, "fake", 1, &port), 0);
	}
	assert_int_equal(ask(1), 0);
	assert_int_equal(stats().refused, 1);
	assert_int_equal(of_net(&net.sets), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, teardown)
	const struct CMUnitTest tests[] = {
		TEST(an_sm_that_moves_is_followed_and_all_is_asked_again),
		TEST(an_sm_that_moves_is_looked_for_when_it_does_not_answer),
		TEST(answers_from_elsewhere_are_dropped),
		TEST(another_lid_of_the_port_makes_paths_from_it_asked_again),
		TEST(client_reregister_makes_all_asked_again_and_subscribes),
		TEST(a_port_that_goes_down_and_up_keeps_its_records),
		TEST(a_port_that_comes_up_and_reregisters_has_no_path_of_before),
		TEST(another_subnet_makes_all_asked_again),
		TEST(without_libibverbs_the_port_is_read_now_and_then),
		TEST(a_device_that_is_gone_is_closed),
		TEST(a_report_reaches_the_table_and_is_answered),
		TEST(a_port_unsubscribes_when_it_is_closed),
		TEST(an_sa_that_is_gone_does_not_hold_up_the_end),
		TEST(where_another_has_the_reports_queries_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
