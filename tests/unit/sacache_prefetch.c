/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Asking ahead: how many questions, how many at a time, and when it is given up. The SA is made up
 * here, in place of sacache_query() and sacache_query_table(): it answers in a thread, as a port's
 * does.
 */
#include "sacache_test.h"

#include <pthread.h>
#include <unistd.h>

#include "libsacache/hosts.h"

enum { MOST = 2000 };

int __wrap_sa_port_identify(struct sacache *cache, unsigned number,
			    struct sa_port_identity *identity);
int __wrap_sacache_query(struct sacache *cache, const struct sacache_key *key,
			 struct sacache_path *path, sacache_done done, void *arg);
int __wrap_sacache_query_table(struct sacache *cache, const struct sacache_key *key,
			       struct sacache_path *paths, size_t *count, int timeout);

struct question {
	struct sacache_key key;
	sacache_done done;
	void *arg;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	pthread_t thread;
	bool stop;
	struct question question[MOST];
	unsigned head, tail, most;
	/* How it is. */
	bool raised, silent, full;
	int table_status;
	unsigned tables, first_lid;
	bool reregisters; /* the port, while the table is on its way */
} sa = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};

static struct sacache *cache;
static uint8_t gids[MOST][16];
static struct sacache_prefetch report;

int __wrap_sa_port_identify(struct sacache *whose, unsigned number,
			    struct sa_port_identity *identity)
{
	*identity = (struct sa_port_identity){.lid = 1, .sm_lid = 1, .pkey = 0xffff};
	test_gid(0, identity->gid);
	return number ? -ENODEV : 0;
}

int __wrap_sacache_query(struct sacache *whose, const struct sacache_key *key,
			 struct sacache_path *path, sacache_done done, void *arg)
{
	int ret = sacache_lookup(cache, key, path);

	if (ret != -ENOENT && ret != -ESTALE)
		return ret;
	pthread_mutex_lock(&sa.lock);
	if (sa.full && sa.tail - sa.head > 3) {
		pthread_mutex_unlock(&sa.lock);
		return -EAGAIN;
	}
	sa.question[sa.tail++ % MOST] = (struct question){*key, done, arg};
	if (sa.tail - sa.head > sa.most)
		sa.most = sa.tail - sa.head;
	pthread_cond_signal(&sa.cond);
	pthread_mutex_unlock(&sa.lock);
	return -EINPROGRESS;
}

/* Two LIDs to each, and one path that begins elsewhere. */
int __wrap_sacache_query_table(struct sacache *whose, const struct sacache_key *key,
			       struct sacache_path *paths, size_t *count, int timeout)
{
	sa.tables++;
	assert_int_equal(key->mask, 0);
	if (sa.table_status)
		return sa.table_status;
	if (sa.reregisters)
		sacache_event(cache, 0, SACACHE_REREGISTER, NULL);
	for (unsigned i = 0; i < 21; i++) {
		paths[i] = test_path(1 + i / 2, sa.first_lid + i, sa.raised);
		if (i == 20)
			test_gid(5, paths[i].sgid);
	}
	*count = 21;
	return 0;
}

static void *answer(void *arg)
{
	pthread_mutex_lock(&sa.lock);
	while (!sa.stop) {
		struct question question;
		struct sacache_path path;
		uint32_t n;

		if (sa.head == sa.tail) {
			pthread_cond_wait(&sa.cond, &sa.lock);
			continue;
		}
		question = sa.question[sa.head % MOST];
		pthread_mutex_unlock(&sa.lock);
		n = sa_get32(question.key.dgid + 12);
		path = test_path(n, n, sa.raised);
		if (!sa.silent && n % 10)
			test_answer(cache, &question.key, &path);
		pthread_mutex_lock(&sa.lock);
		sa.head++;
		pthread_mutex_unlock(&sa.lock);
		question.done(question.arg,
			      sa.silent ? -ETIMEDOUT
			      : n % 10	? 0
					: -EHOSTUNREACH,
			      sa.silent || !(n % 10) ? NULL : &path);
		pthread_mutex_lock(&sa.lock);
	}
	pthread_mutex_unlock(&sa.lock);
	return NULL;
}

static int setup(void **state)
{
	sa.stop = sa.silent = sa.full = sa.reregisters = false;
	sa.raised = true;
	sa.table_status = -ETIMEDOUT;
	sa.head = sa.tail = sa.most = sa.tables = 0;
	sa.first_lid = 100;
	for (unsigned i = 0; i < MOST; i++)
		test_gid(i + 1, gids[i]);
	cache = test_cache(SACACHE_AUTO, false, 100000);
	return pthread_create(&sa.thread, NULL, answer, NULL);
}

static int teardown(void **state)
{
	pthread_mutex_lock(&sa.lock);
	sa.stop = true;
	pthread_cond_signal(&sa.cond);
	pthread_mutex_unlock(&sa.lock);
	pthread_join(sa.thread, NULL);
	sacache_destroy(cache);
	return 0;
}

static int prefetch(unsigned count,
		    int (*progress)(void *, const struct sacache_prefetch *, size_t))
{
	static const uint32_t masks[] = {SACACHE_DGID | SACACHE_SGID, SACACHE_DGID,
					 SACACHE_DLID | SACACHE_SLID};
	struct sacache_prefetch_attr attr = {
		.size = sizeof(attr),
		.gids = count ? (const uint8_t(*)[16])gids : NULL,
		.count = count,
		.masks = masks,
		.nmasks = 3,
		.progress = progress,
	};

	return sacache_prefetch(cache, &attr, &report, sizeof(report));
}

static int found(uint32_t n, uint32_t mask, uint16_t lid)
{
	struct sacache_key key = test_key(n);
	struct sacache_path path;

	test_gid(0, key.sgid);
	key.dlid = lid;
	key.slid = 1;
	key.mask = mask;
	return sacache_lookup(cache, &key, &path);
}

static void each_gid_is_asked_for_once_and_found_by_each_mask(void **state)
{
	assert_int_equal(prefetch(1000, NULL), 0);
	assert_int_equal(sa.tail, 1000);
	assert_int_equal(sa.tables, 0);
	assert_int_equal(report.wanted, 1000);
	assert_int_equal(report.answered, 900);
	assert_int_equal(report.failed, 100);
	assert_in_range(sa.most, 1, 32); /* half of the window */
	for (unsigned n = 1; n <= 1000; n++) {
		if (n % 10 == 0)
			continue;
		assert_int_equal(found(n, SACACHE_DGID, 0), 0);
		assert_int_equal(found(n, SACACHE_DGID | SACACHE_SGID, 0), 0);
		assert_int_equal(found(n, SACACHE_DLID | SACACHE_SLID, n), 0);
	}
}

static void what_is_there_is_not_asked_for(void **state)
{
	struct sacache_path path = test_path(3, 3, true);
	struct sacache_key key = test_key(3);

	test_gid(0, key.sgid);
	key.mask |= SACACHE_SGID;
	test_answer(cache, &key, &path);
	assert_int_equal(prefetch(5, NULL), 0);
	assert_int_equal(sa.tail, 4);
	assert_int_equal(report.present, 1);
	assert_int_equal(found(3, SACACHE_DGID, 0), 0);
}

static void an_sm_that_takes_no_part_is_asked_once(void **state)
{
	sa.raised = false;
	assert_int_equal(prefetch(1000, NULL), -EOPNOTSUPP);
	assert_int_equal(sa.tail, 1);
	sacache_destroy(cache);
	cache = test_cache(SACACHE_NEVER, false, 1000);
	assert_int_equal(prefetch(1000, NULL), -EOPNOTSUPP);
	assert_int_equal(sa.tail, 1);
}

static void a_silent_sa_is_given_up(void **state)
{
	sa.silent = true;
	assert_int_equal(prefetch(1000, NULL), -ETIMEDOUT);
	assert_in_range(sa.tail, 16, 48);
}

static void all_there_is_by_one_table(void **state)
{
	sa.table_status = 0;
	assert_int_equal(prefetch(0, NULL), 0);
	assert_int_equal(sa.tables, 1);
	assert_int_equal(sa.tail, 0);
	assert_true(report.by_table);
	assert_int_equal(report.wanted, 10);
	assert_int_equal(report.answered, 10);
	for (unsigned n = 1; n <= 10; n++)
		assert_int_equal(found(n, SACACHE_DGID, 0), 0);
	assert_int_equal(found(11, SACACHE_DGID, 0), -ENOENT);
}

/* 15.2.5.16: instead of a query for each when it is used. */
static void after_a_reregistration_one_table_confirms_all(void **state)
{
	struct sacache_stats stats;

	sa.table_status = 0;
	assert_int_equal(prefetch(0, NULL), 0);
	assert_int_equal(sacache_event(cache, 0, SACACHE_REREGISTER, NULL), 0);
	assert_int_equal(found(1, SACACHE_DGID, 0), -ESTALE);
	assert_int_equal(prefetch(0, NULL), 0);
	for (unsigned n = 1; n <= 10; n++)
		assert_int_equal(found(n, SACACHE_DGID | SACACHE_SGID, 0), 0);
	sacache_stats(cache, &stats, sizeof(stats));
	assert_int_equal(stats.confirmed, 30);
	assert_int_equal(sa.tables, 2);
	assert_int_equal(sa.tail, 0);
}

static void after_a_reregistration_a_table_has_the_lids_of_now(void **state)
{
	struct sacache_key key = test_key(1);
	struct sacache_path path;

	sa.table_status = 0;
	assert_int_equal(prefetch(0, NULL), 0);
	assert_int_equal(sacache_event(cache, 0, SACACHE_REREGISTER, NULL), 0);
	sa.first_lid = 200;
	assert_int_equal(prefetch(0, NULL), 0);
	assert_int_equal(sacache_lookup(cache, &key, &path), 0);
	assert_int_equal(path.dlid, 200);
	assert_int_equal(found(1, SACACHE_DLID | SACACHE_SLID, 100), -ESTALE);
}

static void a_table_from_before_a_reregistration_confirms_nothing(void **state)
{
	sa.table_status = 0;
	sa.reregisters = true;
	assert_int_equal(prefetch(0, NULL), 0);
	assert_int_equal(found(1, SACACHE_DGID, 0), -ESTALE);
}

/* As over ibsim: no table can be had. */
static void without_tables_those_who_are_known(void **state)
{
	struct sacache_path path = test_path(2, 2, true);
	struct sacache_key key = test_key(2);
	struct sa_hosts *hosts;

	sa.table_status = -EPROTO;
	assert_int_equal(sa_hosts_parse("10.0.0.1 fe80::1\n10.0.0.2 fe80::2\n10.0.0.3 fe80::3\n"
					"10.0.0.4 fe81::4\n",
					&hosts, NULL),
			 0);
	cache->hosts = hosts;
	test_answer(cache, &key, &path);
	assert_int_equal(prefetch(0, NULL), 0);
	assert_int_equal(report.wanted, 3);
	assert_int_equal(report.answered, 3);
	assert_false(report.by_table);
}

static void a_full_queue_is_waited_for(void **state)
{
	sa.full = true;
	assert_int_equal(prefetch(100, NULL), 0);
	assert_int_equal(report.answered, 90);
}

static int stop_soon(void *arg, const struct sacache_prefetch *so_far, size_t size)
{
	assert_int_equal(size, sizeof(*so_far));
	return so_far->answered > 50;
}

static void progress_can_end_it(void **state)
{
	assert_int_equal(prefetch(MOST - 100, stop_soon), -ECANCELED);
	assert_in_range(report.answered, 51, 500);
}

static void bad_arguments_are_refused(void **state)
{
	const uint32_t wrong[] = {SACACHE_DGID | SACACHE_TCLASS, SACACHE_SGID, 0};
	struct sacache_prefetch_attr attr = {.size = sizeof(attr), .nmasks = 1};

	for (unsigned i = 0; i < 3; i++) {
		attr.masks = &wrong[i];
		assert_int_equal(sacache_prefetch(cache, &attr, NULL, 0), -EINVAL);
	}
	attr.nmasks = 0;
	assert_int_equal(sacache_prefetch(cache, &attr, NULL, 0), -EINVAL);
	attr.port = 1;
	assert_int_equal(sacache_prefetch(cache, &attr, NULL, 0), -ENODEV);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(each_gid_is_asked_for_once_and_found_by_each_mask),
		TEST(what_is_there_is_not_asked_for),
		TEST(an_sm_that_takes_no_part_is_asked_once),
		TEST(a_silent_sa_is_given_up),
		TEST(all_there_is_by_one_table),
		TEST(after_a_reregistration_one_table_confirms_all),
		TEST(after_a_reregistration_a_table_has_the_lids_of_now),
		TEST(a_table_from_before_a_reregistration_confirms_nothing),
		TEST(without_tables_those_who_are_known),
		TEST(a_full_queue_is_waited_for),
		TEST(progress_can_end_it),
		TEST(bad_arguments_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
