/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * When sacached loads and saves its state, and that its loop goes on meanwhile. Files are this
 * test's: a load or a save takes as long as it is held.
 */
#include "sacache_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "daemons/common/log.h"
#include "daemons/sacached/warm.h"

static struct sacached d;
static pthread_t loop_thread;
static atomic_bool held;
static atomic_uint loads, saves, under_way;
static uint32_t loaded, saved;
static _Atomic bool in_loop, overlapped;

/* The count comes last: the test looks at the others when it has seen that. */
static void take_time(atomic_uint *count)
{
	in_loop = pthread_equal(pthread_self(), loop_thread);
	overlapped |= under_way++ > 0;
	++*count;
	/* A loop that waits here would wait for ever. */
	while (held && !in_loop)
		usleep(100);
	under_way--;
}

int __wrap_sacache_load_ports(struct sacache *cache, uint32_t ports, const char *path,
			      struct sacache_state *report, size_t size);
int __wrap_sacache_load_ports(struct sacache *cache, uint32_t ports, const char *path,
			      struct sacache_state *report, size_t size)
{
	loaded = ports;
	take_time(&loads);
	*report = (struct sacache_state){.records = 7};
	return 0;
}

int __wrap_sacache_save_ports(struct sacache *cache, uint32_t ports, const char *path,
			      struct sacache_state *report, size_t size);
int __wrap_sacache_save_ports(struct sacache *cache, uint32_t ports, const char *path,
			      struct sacache_state *report, size_t size)
{
	saved = ports;
	take_time(&saves);
	*report = (struct sacache_state){.records = 5};
	return 0;
}

static void make_port(unsigned i, bool active)
{
	d.ports[i] = (struct sacached_port){.open = true, .number = i, .active = active};
	d.nports = i + 1 > d.nports ? i + 1 : d.nports;
}

static int set_up(void **state)
{
	log_level = LOG_EMERG;
	loop_thread = pthread_self();
	memset(&d, 0, sizeof(d));
	d.base = event_base_new();
	assert_int_equal(sacache_create(NULL, &d.cache), 0);
	strcpy(d.config.state_file, "state");
	loads = saves = 0;
	loaded = saved = 0;
	held = overlapped = false;
	make_port(0, true);
	return 0;
}

static int tear_down(void **state)
{
	held = false;
	warm_stop(d.warm);
	sacache_destroy(d.cache);
	event_base_free(d.base);
	return 0;
}

/* Turns the loop until it is so. */
#define UNTIL(what)                                          \
	for (unsigned i_ = 0; i_ < 50000 && !(what); i_++) { \
		usleep(100);                                 \
		event_base_loop(d.base, EVLOOP_NONBLOCK);    \
	}                                                    \
	assert_true(what)

static void what_was_saved_is_there_before_the_first_client(void **state)
{
	assert_int_equal(warm_start(&d, &d.warm), 0);
	assert_int_equal(loads, 1);
	assert_true(d.ports[0].loaded);
	assert_int_equal(warm_status(d.warm)->records, 7);
}

static void the_loop_goes_on_while_a_port_that_came_later_is_loaded(void **state)
{
	assert_int_equal(warm_start(&d, &d.warm), 0);
	make_port(1, true);
	held = true;
	UNTIL(loads == 2);
	assert_int_equal(loaded, 2);
	assert_false(in_loop);
	assert_false(d.ports[1].loaded);
	held = false;
	UNTIL(d.ports[1].loaded);
	assert_int_equal(warm_status(d.warm)->records, 14);
}

static void a_port_that_left_while_it_was_loaded_is_loaded_when_it_comes_back(void **state)
{
	assert_int_equal(warm_start(&d, &d.warm), 0);
	make_port(1, true);
	held = true;
	UNTIL(loads == 2);
	make_port(1, true);
	held = false;
	UNTIL(d.ports[1].loaded);
	assert_int_equal(loads, 3);
}

static unsigned told;

static void on_saved(void *arg, int status, const struct sacache_state *state)
{
	assert_int_equal(status, 0);
	assert_int_equal(state->records, 5);
	told++;
}

static void a_file_is_not_saved_while_it_is_loaded(void **state)
{
	told = 0;
	assert_int_equal(warm_start(&d, &d.warm), 0);
	make_port(1, true);
	held = true;
	UNTIL(loads == 2);
	assert_int_equal(warm_save(d.warm, on_saved, NULL), 0);
	for (unsigned i = 0; i < 10; i++)
		event_base_loop(d.base, EVLOOP_NONBLOCK);
	assert_int_equal(saves, 0);
	held = false;
	UNTIL(told == 1);
	assert_int_equal(saved, 3);
	assert_false(overlapped);
}

static void who_asks_while_it_is_saved_is_told_of_a_later_save(void **state)
{
	told = 0;
	assert_int_equal(warm_start(&d, &d.warm), 0);
	held = true;
	assert_int_equal(warm_save(d.warm, on_saved, NULL), 0);
	assert_int_equal(warm_save(d.warm, on_saved, NULL), 0);
	UNTIL(saves == 1);
	held = false;
	UNTIL(told == 2);
	assert_int_equal(saves, 2);
	assert_false(overlapped);
}

/* As often as the timer looks whether something has changed. */
static unsigned looks, stored;

void __real_sacache_stats(struct sacache *cache, struct sacache_stats *stats, size_t size);
void __wrap_sacache_stats(struct sacache *cache, struct sacache_stats *stats, size_t size);
void __wrap_sacache_stats(struct sacache *cache, struct sacache_stats *stats, size_t size)
{
	looks++;
	__real_sacache_stats(cache, stats, size);
	stats->stored += stored;
}

static void only_what_has_changed_is_saved_at_intervals(void **state)
{
	d.config.state_interval = 1;
	assert_int_equal(warm_start(&d, &d.warm), 0);
	looks = 0;
	UNTIL(looks >= 4);
	assert_int_equal(saves, 0);
	stored++;
	UNTIL(saves == 1);
	looks = 0;
	UNTIL(looks >= 4);
	assert_int_equal(saves, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_was_saved_is_there_before_the_first_client),
		TEST(the_loop_goes_on_while_a_port_that_came_later_is_loaded),
		TEST(a_port_that_left_while_it_was_loaded_is_loaded_when_it_comes_back),
		TEST(a_file_is_not_saved_while_it_is_loaded),
		TEST(only_what_has_changed_is_saved_at_intervals),
		TEST(who_asks_while_it_is_saved_is_told_of_a_later_save),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
