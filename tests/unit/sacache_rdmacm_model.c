/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libsacache-rdmacm on a device that is none: rdma_cm's functions are wrapped by the linker, so
 * that a test says what happens, and a port may be an InfiniBand one. One thread.
 */
#include "sacache_test.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <rdma/ib_user_sa.h>

#include "libsacache/rdmacm.h"

/* What rdma_cm was told, and what it says next. */
static struct {
	struct rdma_event_channel channel;
	struct rdma_cm_id *ids[16];
	unsigned nids;
	struct rdma_cm_event events[16];
	struct rdma_cm_id *unacked;
	unsigned first, last;
	int link_layer;
	unsigned routes, paths, connects, accepts, rejects;
	int set_option_status, connect_status;
	struct ib_path_rec_data path;
	uint8_t said[64]; /* private data of the last request or rejection */
	uint8_t said_length;
} fake;

static struct ibv_context verbs;
static struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = 1};

struct rdma_event_channel *__wrap_rdma_create_event_channel(void);
void __wrap_rdma_destroy_event_channel(struct rdma_event_channel *channel);
int __wrap_rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
			  enum rdma_port_space ps);
int __wrap_rdma_destroy_id(struct rdma_cm_id *id);
int __wrap_rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr);
int __wrap_rdma_listen(struct rdma_cm_id *id, int backlog);
int __wrap_rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst,
			     int timeout);
int __wrap_rdma_resolve_route(struct rdma_cm_id *id, int timeout);
int __wrap_rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t length);
int __wrap_rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param);
int __wrap_rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param);
int __wrap_rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t length);
int __wrap_rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);
int __wrap_rdma_ack_cm_event(struct rdma_cm_event *event);
int __wrap_ibv_query_port(struct ibv_context *context, uint8_t port, void *attr);

struct rdma_event_channel *__wrap_rdma_create_event_channel(void)
{
	fake.channel.fd = eventfd(0, EFD_CLOEXEC);
	return &fake.channel;
}

void __wrap_rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	close(channel->fd);
}

static struct rdma_cm_id *new_id(void *context)
{
	struct rdma_cm_id *id = calloc(1, sizeof(*id));

	assert_true(id && fake.nids < 16);
	id->context = context;
	id->verbs = &verbs;
	id->port_num = 1;
	fake.ids[fake.nids++] = id;
	return id;
}

int __wrap_rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
			  enum rdma_port_space ps)
{
	*id = new_id(context);
	return 0;
}

int __wrap_rdma_destroy_id(struct rdma_cm_id *id)
{
	assert_ptr_not_equal(fake.unacked, id); /* it would wait for ever */
	for (unsigned i = 0; i < fake.nids; i++)
		if (fake.ids[i] == id) {
			fake.ids[i] = fake.ids[--fake.nids];
			free(id);
			return 0;
		}
	fail_msg("an id that is not there is destroyed");
	return -1;
}

int __wrap_rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	return 0;
}

int __wrap_rdma_listen(struct rdma_cm_id *id, int backlog)
{
	return 0;
}

int __wrap_rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst,
			     int timeout)
{
	return 0;
}

int __wrap_rdma_resolve_route(struct rdma_cm_id *id, int timeout)
{
	fake.routes++;
	return 0;
}

int __wrap_rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t length)
{
	assert_int_equal(level, RDMA_OPTION_IB);
	assert_int_equal(name, RDMA_OPTION_IB_PATH);
	assert_int_equal(length, sizeof(fake.path));
	memcpy(&fake.path, value, length);
	fake.paths++;
	errno = fake.set_option_status;
	return errno ? -1 : 0;
}

int __wrap_rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	fake.connects++;
	fake.said_length = param->private_data_len;
	memcpy(fake.said, param->private_data, fake.said_length);
	errno = fake.connect_status;
	return errno ? -1 : 0;
}

int __wrap_rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	fake.accepts++;
	return 0;
}

int __wrap_rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t length)
{
	fake.rejects++;
	fake.said_length = length;
	memcpy(fake.said, data, length);
	return 0;
}

int __wrap_rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	if (fake.first == fake.last) {
		errno = EAGAIN;
		return -1;
	}
	*event = &fake.events[fake.first++];
	fake.unacked = (*event)->id;
	return 0;
}

int __wrap_rdma_ack_cm_event(struct rdma_cm_event *event)
{
	fake.unacked = NULL;
	/* Whoever looks at it later sees nonsense. */
	memset(event, 0xff, sizeof(*event));
	return 0;
}

int __wrap_ibv_query_port(struct ibv_context *context, uint8_t port, void *attr)
{
	((struct ibv_port_attr *)attr)->link_layer = fake.link_layer;
	return 0;
}

/* A program with one peer, 1 here and 2 there. */
static struct {
	struct sacache *cache;
	struct sacache_rdmacm *cm;
	struct sacache_rdmacm_peer *peer;
	unsigned prepared, released, ups, downs, admits;
	int prepare_status;
} program;

static int prepare(void *ctx, void *user, struct rdma_cm_id *id)
{
	program.prepared += !program.prepare_status;
	return program.prepare_status;
}

static void release(void *ctx, void *user, struct rdma_cm_id *id)
{
	program.released++;
}

static void up(void *ctx, void *user, struct rdma_cm_id *id)
{
	program.ups++;
	assert_ptr_equal(sacache_rdmacm_id(program.peer), id);
}

static void down(void *ctx, void *user, struct rdma_cm_id *id, int status)
{
	program.downs++;
}

static void admit(void *ctx, uint64_t local, uint64_t remote, const struct sockaddr *from)
{
	struct sacache_rdmacm_name name = {
		.size = sizeof(name), .local = local, .remote = remote, .role = SACACHE_SERVER};
	struct sacache_rdmacm_peer *peer;

	program.admits++;
	if (remote == 77)
		assert_int_equal(sacache_rdmacm_add(program.cm, &name, NULL, &peer), 0);
}

static const struct sacache_rdmacm_ops ops = {
	.size = sizeof(ops),
	.prepare = prepare,
	.release = release,
	.up = up,
	.down = down,
	.admit = admit,
};

static void open_program(int link_layer, enum sacache_role role)
{
	struct sacache_rdmacm_name name = {
		.size = sizeof(name),
		.local = 1,
		.remote = 2,
		.address = (struct sockaddr *)&address,
		.role = role,
	};
	struct sacache_reconnect_attr reconnect;
	struct sacache_rdmacm_attr attr;

	memset(&fake, 0, sizeof(fake));
	memset(&program, 0, sizeof(program));
	fake.link_layer = link_layer;
	program.cache = test_cache(SACACHE_ALWAYS, false, 100);
	sacache_rdmacm_attr_init(&attr, sizeof(attr));
	attr.cache = program.cache;
	attr.listen = (struct sockaddr *)&address;
	attr.port = 3;
	sacache_reconnect_attr_init(&reconnect, sizeof(reconnect));
	reconnect.backoff_min = reconnect.backoff_max = 1;
	attr.reconnect = &reconnect;
	assert_int_equal(sacache_rdmacm_create(&attr, &ops, NULL, &program.cm), 0);
	assert_int_equal(sacache_rdmacm_add(program.cm, &name, NULL, &program.peer), 0);
	assert_int_equal(sacache_rdmacm_run(program.cm), 0);
}

static void close_program(void)
{
	sacache_rdmacm_destroy(program.cm);
	sacache_destroy(program.cache);
	assert_int_equal(program.prepared, program.released);
	assert_int_equal(fake.nids, 0);
}

/* The id of the attempt under way: the listener was first. */
static struct rdma_cm_id *attempt(void)
{
	assert_int_equal(fake.nids, 2);
	return fake.ids[1];
}

static void happens(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status,
		    const void *data, uint8_t length)
{
	if (fake.first == fake.last)
		fake.first = fake.last = 0;
	fake.events[fake.last++] = (struct rdma_cm_event){
		.id = id,
		.event = type,
		.status = status,
		.param.conn = {.private_data = data, .private_data_len = length},
	};
	assert_int_equal(sacache_rdmacm_run(program.cm), 0);
}

/* Until the procedure has begun the next attempt. */
static void wait_for_attempt(void)
{
	struct pollfd fd = {.fd = sacache_rdmacm_fd(program.cm), .events = POLLIN};

	while (fake.nids < 2) {
		assert_int_equal(poll(&fd, 1, 1000), 1);
		assert_int_equal(sacache_rdmacm_run(program.cm), 0);
	}
}

static struct sacache_key key_of(struct rdma_cm_id *id)
{
	struct sacache_key key = {
		.mask = SACACHE_DGID | SACACHE_SGID | SACACHE_PKEY, .pkey = 0x8001, .port = 3};
	struct rdma_ib_addr *ib = &id->route.addr.addr.ibaddr;

	test_gid(5, key.sgid);
	test_gid(6, key.dgid);
	memcpy(&ib->sgid, key.sgid, 16);
	memcpy(&ib->dgid, key.dgid, 16);
	ib->pkey = htobe16(key.pkey);
	return key;
}

static struct sacache_path store_path(const struct sacache_key *key)
{
	struct sacache_path path = test_path(6, 0x17, false);

	memcpy(path.sgid, key->sgid, 16);
	path.pkey = key->pkey;
	assert_int_equal(sacache_store(program.cache, key, &path), 0);
	return path;
}

/* What the kernel takes: ucma_set_ib_path() refuses other flags. */
static void on_infiniband_the_cached_path_is_set(void **state)
{
	struct sacache_key key;
	struct sacache_path path, decoded;

	open_program(IBV_LINK_LAYER_INFINIBAND, SACACHE_CLIENT);
	key = key_of(attempt());
	path = store_path(&key);
	happens(attempt(), RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0);
	assert_int_equal(fake.paths, 1);
	assert_int_equal(fake.routes, 0);
	assert_int_equal(fake.path.flags, IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL);
	sa_record_decode((uint8_t *)fake.path.path_rec, &decoded);
	assert_memory_equal(decoded.dgid, path.dgid, 16);
	assert_memory_equal(decoded.sgid, path.sgid, 16);
	assert_int_equal(decoded.dlid, 0x17);
	assert_int_equal(decoded.pkey, 0x8001);
	assert_true(decoded.reversible);
	happens(attempt(), RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0);
	assert_int_equal(fake.connects, 1);
	happens(attempt(), RDMA_CM_EVENT_ESTABLISHED, 0, NULL, 0);
	assert_int_equal(program.ups, 1);
	close_program();
	assert_int_equal(program.downs, 0);
}

static void elsewhere_the_route_is_resolved(void **state)
{
	open_program(IBV_LINK_LAYER_ETHERNET, SACACHE_CLIENT);
	happens(attempt(), RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0);
	assert_int_equal(fake.paths, 0);
	assert_int_equal(fake.routes, 1);
	close_program();
}

static void what_is_refused_is_tried_again(void **state)
{
	struct sacache_key key;

	open_program(IBV_LINK_LAYER_INFINIBAND, SACACHE_CLIENT);
	key = key_of(attempt());
	store_path(&key);
	fake.set_option_status = EINVAL;
	happens(attempt(), RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0);
	fake.set_option_status = 0;
	wait_for_attempt();
	key_of(attempt());
	happens(attempt(), RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0);
	program.prepare_status = -ENOMEM;
	happens(attempt(), RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0);
	program.prepare_status = 0;
	wait_for_attempt();
	key_of(attempt());
	happens(attempt(), RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0);
	fake.connect_status = ECONNREFUSED;
	happens(attempt(), RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0);
	assert_int_equal(program.released, 1);
	wait_for_attempt();
	close_program();
}

/* Whatever rdma_cm says of an attempt, it is given up, and another one begun. */
static void every_error_begins_another_attempt(void **state)
{
	static const enum rdma_cm_event_type errors[] = {
		RDMA_CM_EVENT_ADDR_ERROR,    RDMA_CM_EVENT_ROUTE_ERROR, RDMA_CM_EVENT_UNREACHABLE,
		RDMA_CM_EVENT_CONNECT_ERROR, RDMA_CM_EVENT_REJECTED,	RDMA_CM_EVENT_DISCONNECTED,
		RDMA_CM_EVENT_DEVICE_REMOVAL};
	struct sacache_reconnect_stats stats;

	open_program(IBV_LINK_LAYER_ETHERNET, SACACHE_CLIENT);
	for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		wait_for_attempt();
		happens(attempt(), errors[i], -ETIMEDOUT, NULL, 0);
		sacache_rdmacm_stats(program.cm, &stats, sizeof(stats));
		assert_int_equal(stats.failed, i + 1);
	}
	wait_for_attempt();
	close_program();
}

/* What an end sends to its peer with a request, as the peer would: from and to are the other way
 * round. */
static const void *names(uint64_t to, uint64_t from)
{
	static uint8_t data[24];

	memset(data, 0, sizeof(data));
	sa_put32(data, 0x73616361);
	sa_put64(data + 8, to);
	sa_put64(data + 16, from);
	return data;
}

static void a_request_is_matched_by_its_names(void **state)
{
	struct rdma_cm_id *id;

	open_program(IBV_LINK_LAYER_ETHERNET, SACACHE_SERVER);
	/* Names that nobody has, in the wrong order, too short, none. */
	happens(new_id(NULL), RDMA_CM_EVENT_CONNECT_REQUEST, 0, names(1, 3), 24);
	happens(new_id(NULL), RDMA_CM_EVENT_CONNECT_REQUEST, 0, names(2, 1), 24);
	happens(new_id(NULL), RDMA_CM_EVENT_CONNECT_REQUEST, 0, names(1, 2), 23);
	happens(new_id(NULL), RDMA_CM_EVENT_CONNECT_REQUEST, 0, NULL, 0);
	assert_int_equal(fake.rejects, 4);
	assert_int_equal(program.admits, 2);
	id = new_id(NULL);
	happens(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0, names(1, 2), 24);
	assert_int_equal(fake.accepts, 1);
	happens(id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, 0);
	assert_int_equal(program.ups, 1);
	/* One that is admitted when it asks. */
	happens(new_id(NULL), RDMA_CM_EVENT_CONNECT_REQUEST, 0, names(1, 77), 24);
	assert_int_equal(fake.accepts, 2);
	close_program();
}

static void requests_that_cross_are_told_as_such(void **state)
{
	struct sacache_reconnect_stats stats;
	uint8_t said[64];

	open_program(IBV_LINK_LAYER_ETHERNET, SACACHE_CLIENT);
	happens(attempt(), RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0);
	happens(attempt(), RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0);
	assert_memory_equal(fake.said, names(2, 1), 24);
	happens(new_id(NULL), RDMA_CM_EVENT_CONNECT_REQUEST, 0, names(1, 2), 24);
	assert_int_equal(fake.rejects, 1);
	sacache_rdmacm_stats(program.cm, &stats, sizeof(stats));
	assert_int_equal(stats.crossed, 1);
	/* The other end said the same. */
	memcpy(said, fake.said, sizeof(said));
	happens(attempt(), RDMA_CM_EVENT_REJECTED, 28, said, fake.said_length);
	wait_for_attempt();
	close_program();
}

static void a_listener_without_a_device_is_told(void **state)
{
	open_program(IBV_LINK_LAYER_ETHERNET, SACACHE_SERVER);
	fake.events[0] =
		(struct rdma_cm_event){.id = fake.ids[0], .event = RDMA_CM_EVENT_DEVICE_REMOVAL};
	fake.last = 1;
	assert_int_equal(sacache_rdmacm_run(program.cm), -ENODEV);
	assert_int_equal(sacache_rdmacm_wait(program.peer, 1000), -ENODEV);
	close_program();
}

static void waiting_for_a_peer_ends(void **state)
{
	open_program(IBV_LINK_LAYER_ETHERNET, SACACHE_SERVER);
	assert_int_equal(sacache_rdmacm_wait(program.peer, 20), -ETIMEDOUT);
	close_program();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(on_infiniband_the_cached_path_is_set),
		cmocka_unit_test(elsewhere_the_route_is_resolved),
		cmocka_unit_test(what_is_refused_is_tried_again),
		cmocka_unit_test(every_error_begins_another_attempt),
		cmocka_unit_test(a_request_is_matched_by_its_names),
		cmocka_unit_test(requests_that_cross_are_told_as_such),
		cmocka_unit_test(a_listener_without_a_device_is_told),
		cmocka_unit_test(waiting_for_a_peer_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
