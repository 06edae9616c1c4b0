/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A port and those who wait for its answers, with many threads. libibumad is replaced by what is
 * below: an SA that answers at once, in the thread that asks, unless it is silent. Watched by the
 * sanitizers.
 */
#include "sacache_umad.h"

#include <stdatomic.h>

enum { THREADS = 8, PEERS = 200, TABLE = 3 };

static _Atomic bool silent;
static _Atomic unsigned asked;
static _Atomic uint64_t asked_for; /* the component mask of the last question */
static struct sacache *cache;
static unsigned port;

int umad_get_port(const char *ca_name, int portnum, umad_port_t *attr)
{
	memset(attr, 0, sizeof(*attr));
	snprintf(attr->ca_name, sizeof(attr->ca_name), "%s", ca_name);
	attr->sm_lid = 1;
	attr->gid_prefix = htobe64(0xfe80000000000000);
	attr->port_guid = htobe64(!strcmp(ca_name, "other"));
	return 0;
}

int umad_open_port(const char *ca_name, int portnum)
{
	return ca_name && !strcmp(ca_name, "none") ? -ENODEV : 3;
}

int umad_register(int portid, int mgmt_class, int version, uint8_t rmpp,
		  long mask[16 / sizeof(long)])
{
	return 0;
}

int umad_set_addr(void *umad, int lid, int qp, int sl, int qkey)
{
	assert_int_equal(qp, 1);
	return 0;
}

int umad_send(int portid, int agent, void *umad, int length, int timeout, int retries)
{
	uint8_t data[SA_MAD_DATA_SIZE] = {0}, buf[SA_MAD_SIZE];
	struct sa_mad mad;

	assert_int_equal(sa_mad_decode(umad_get_mad(umad), length, &mad), 0);
	if (mad.rmpp_flags & SA_RMPP_ACTIVE)
		return 0;
	atomic_store(&asked_for, mad.comp_mask);
	atomic_fetch_add(&asked, 1);
	if (atomic_load(&silent))
		return 0;
	for (unsigned i = 0; i < (mad.method == SA_GET_TABLE ? TABLE : 1); i++) {
		memcpy(data + i * SA_RECORD_SIZE, mad.data, SA_RECORD_SIZE);
		sa_put16(data + i * SA_RECORD_SIZE + 40, sa_get16(mad.data + 22) + i);
	}
	if (mad.method == SA_GET_TABLE) {
		mad.rmpp_type = SA_RMPP_DATA;
		mad.rmpp_flags = SA_RMPP_ACTIVE | SA_RMPP_FIRST | SA_RMPP_LAST;
		mad.segment = 1;
		mad.paylen = SA_RMPP_HEADER + TABLE * SA_RECORD_SIZE;
		mad.attr_offset = SA_RECORD_SIZE / 8;
	}
	mad.method |= 0x80;
	mad.data = data;
	sa_mad_encode(&mad, buf);
	pthread_mutex_lock(&lock);
	deliver(buf, 1);
	pthread_mutex_unlock(&lock);
	return 0;
}

static int setup(void **state)
{
	struct sacache_attr attr;

	sacache_attr_init(&attr, sizeof(attr));
	attr.policy = SACACHE_ALWAYS;
	attr.response_timeout = 20;
	queue.first = queue.last = 0;
	atomic_store(&silent, false);
	atomic_store(&asked, 0);
	assert_int_equal(sacache_create(&attr, &cache), 0);
	assert_int_equal(sacache_port_open(cache, "fake", 1, &port), 0);
	return 0;
}

static int teardown(void **state)
{
	sacache_destroy(cache);
	return 0;
}

static void *resolve_all(void *arg)
{
	uintptr_t mistakes = 0;

	for (unsigned n = 1; n <= PEERS; n++) {
		struct sacache_key key = test_key(n);
		struct sacache_path path;

		if (sacache_resolve(cache, &key, &path, -1) || path.dlid != n)
			mistakes++;
	}
	return (void *)mistakes;
}

static void many_threads_make_one_query_for_each_peer(void **state)
{
	struct sacache_stats stats;
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, resolve_all, NULL), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		void *mistakes;

		pthread_join(threads[i], &mistakes);
		assert_null(mistakes);
	}
	sacache_stats(cache, &stats, sizeof(stats));
	assert_int_equal(stats.query_miss, PEERS);
	assert_int_equal(stats.sent, PEERS);
	assert_int_equal(stats.entries, PEERS);
}

static void a_caller_that_leaves_gets_the_answer_into_the_table(void **state)
{
	struct sacache_key key = test_key(1);
	struct sacache_path path;
	int tries = 1000;

	atomic_store(&silent, true);
	assert_int_equal(sacache_resolve(cache, &key, &path, 1), -ETIMEDOUT);
	atomic_store(&silent, false);
	while (sacache_lookup(cache, &key, &path) && tries--)
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	assert_int_equal(sacache_lookup(cache, &key, &path), 0);
}

static void *resolve_one(void *arg)
{
	struct sacache_key key = test_key(1);
	struct sacache_path path;

	return (void *)(intptr_t)sacache_resolve(cache, &key, &path, -1);
}

static void closing_a_port_ends_what_waits(void **state)
{
	struct sacache_key key = test_key(1);
	struct sacache_path path;
	pthread_t threads[THREADS];

	atomic_store(&silent, true);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, resolve_one, NULL), 0);
	while (!atomic_load(&asked))
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	assert_int_equal(sacache_port_close(cache, port), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		void *status;

		pthread_join(threads[i], &status);
		/* Whoever came too late found no port. */
		assert_true((intptr_t)status == -ECANCELED || (intptr_t)status == -ENODEV);
	}
	/* And it is not remembered as a failure of the SA. */
	assert_int_equal(sacache_lookup(cache, &key, &path), -ENOENT);
	assert_int_equal(sacache_resolve(cache, &key, &path, -1), -ENODEV);
	assert_int_equal(sacache_port_close(cache, port), -ENODEV);
	assert_int_equal(sacache_port_open(cache, "none", 1, &port), -ENODEV);
}

/* Of a device that took the number of one that was unplugged. */
static void a_number_that_is_used_again_has_no_records(void **state)
{
	struct sacache_key key = test_key(1);
	struct sacache_path path;
	unsigned again;

	atomic_store(&cache->subnets[port].caching, true);
	assert_int_equal(sacache_resolve(cache, &key, &path, -1), 0);
	assert_int_equal(sacache_port_close(cache, port), 0);
	assert_int_equal(sacache_lookup(cache, &key, &path), 0);
	assert_int_equal(sacache_port_open(cache, "other", 1, &again), 0);
	assert_int_equal(again, port);
	assert_false(atomic_load(&cache->subnets[port].caching));
	assert_int_equal(sacache_lookup(cache, &key, &path), -ENOENT);
	assert_int_equal(sacache_resolve(cache, &key, &path, -1), 0);
}

static void a_table_is_copied_as_far_as_there_is_room(void **state)
{
	struct sacache_key key = test_key(5);
	struct sacache_path paths[TABLE];
	struct sacache_stats stats;
	size_t count = TABLE;

	assert_int_equal(sacache_query_table(cache, &key, paths, &count, -1), 0);
	assert_int_equal(count, TABLE);
	for (unsigned i = 0; i < TABLE; i++)
		assert_int_equal(paths[i].dlid, 5 + i);
	count = 1;
	assert_int_equal(sacache_query_table(cache, &key, paths, &count, -1), -ENOSPC);
	assert_int_equal(count, TABLE);
	atomic_store(&silent, true);
	assert_int_equal(sacache_query_table(cache, &key, paths, &count, 1), -ETIMEDOUT);
	sacache_stats(cache, &stats, sizeof(stats));
	assert_int_equal(stats.query_table, 3);
	assert_int_equal(stats.entries, 0);
}

/* From this port, reversible, any number of paths; nothing about where to (15.2.5.16). */
static void a_table_without_a_destination_is_of_all_paths(void **state)
{
	const struct sacache_key all = {.port = port};
	struct sacache_path paths[TABLE];
	size_t count = TABLE;

	assert_int_equal(sacache_query_table(cache, &all, paths, &count, -1), 0);
	assert_int_equal(count, TABLE);
	assert_int_equal(atomic_load(&asked_for), 1 << 3 | 1 << 11 | 1 << 12);
	assert_int_equal(sacache_resolve(cache, &all, paths, -1), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(many_threads_make_one_query_for_each_peer, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_caller_that_leaves_gets_the_answer_into_the_table,
						setup, teardown),
		cmocka_unit_test_setup_teardown(closing_a_port_ends_what_waits, setup, teardown),
		cmocka_unit_test_setup_teardown(a_number_that_is_used_again_has_no_records, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_table_is_copied_as_far_as_there_is_room, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_table_without_a_destination_is_of_all_paths,
						setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
