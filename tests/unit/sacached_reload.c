/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Reloads of sacached: its loop goes on while files are read. The files are this test's: to read
 * one takes as long as it is held.
 */
#include "sacache_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "daemons/common/log.h"
#include "daemons/common/notify.h"
#include "daemons/sacached/names.h"
#include "daemons/sacached/reload.h"

static struct sacached d;
static const struct config_source source = {.standard = "/nowhere"};
static pthread_t loop_thread;
static atomic_bool held, in_loop;
static atomic_uint configs, hosts;
static unsigned names, begun, ended, deadline;
static int config_error, hosts_error;
static char hosts_path[CONFIG_PATH_LEN];

static void take_time(void)
{
	bool loops = pthread_equal(pthread_self(), loop_thread);

	in_loop |= loops;
	/* A loop that waits here would wait for ever. */
	while (held && !loops)
		usleep(100);
}

int __wrap_config_load(const struct config_table *table, void *config,
		       const struct config_source *from);
int __wrap_config_load(const struct config_table *table, void *config,
		       const struct config_source *from)
{
	struct sacached_config *fresh = config;

	assert_ptr_equal(from, &source);
	configs++;
	take_time();
	fresh->deadline = deadline;
	strcpy(fresh->hosts, "/the/new/hosts");
	return config_error;
}

int __wrap_sacache_hosts_load(struct sacache *cache, const char *path, unsigned *line);
int __wrap_sacache_hosts_load(struct sacache *cache, const char *path, unsigned *line)
{
	hosts++;
	take_time();
	strcpy(hosts_path, path);
	return hosts_error;
}

void __wrap_names_reload(struct names *all);
void __wrap_names_reload(struct names *all)
{
	names++;
}

void __wrap_notify_reloading(struct notify *notify);
void __wrap_notify_reloading(struct notify *notify)
{
	begun++;
}

void __wrap_notify_reloaded(struct notify *notify);
void __wrap_notify_reloaded(struct notify *notify)
{
	ended++;
}

static int set_up(void **state)
{
	loop_thread = pthread_self();
	memset(&d, 0, sizeof(d));
	sacached_config_init(&d.config);
	strcpy(d.config.hosts, "/the/old/hosts");
	d.base = event_base_new();
	config_error = hosts_error = 0;
	deadline = 77;
	assert_int_equal(reload_start(&d, &source, &d.reload), 0);
	assert_string_equal(hosts_path, "/the/old/hosts");
	configs = hosts = names = begun = ended = 0;
	held = in_loop = false;
	return 0;
}

static int tear_down(void **state)
{
	reload_stop(d.reload);
	event_base_free(d.base);
	return 0;
}

/* Runs the loop, which must not wait, until so many reloads have ended. */
static void until_ended(unsigned n)
{
	for (unsigned i = 0; i < 100000 && ended < n; i++) {
		usleep(100);
		event_base_loop(d.base, EVLOOP_NONBLOCK);
	}
	assert_int_equal(ended, n);
}

static void the_loop_goes_on_while_files_are_read(void **state)
{
	held = true;
	reload_begin(d.reload);
	while (!configs)
		event_base_loop(d.base, EVLOOP_NONBLOCK);
	assert_int_equal(begun, 1);
	assert_int_equal(ended, 0);
	assert_int_not_equal(d.config.deadline, deadline);
	held = false;
	until_ended(1);
	assert_int_equal(d.config.deadline, 77);
	assert_string_equal(hosts_path, "/the/new/hosts");
	assert_string_equal(d.config.hosts, "/the/new/hosts");
	assert_int_equal(names, 1);
	assert_false(in_loop);
}

static void signals_during_a_reload_are_followed_by_one_more(void **state)
{
	held = true;
	reload_begin(d.reload);
	while (!configs)
		event_base_loop(d.base, EVLOOP_NONBLOCK);
	reload_begin(d.reload);
	reload_begin(d.reload);
	deadline = 78;
	held = false;
	until_ended(2);
	assert_int_equal(configs, 2);
	assert_int_equal(begun, 2);
	assert_int_equal(d.config.deadline, 78);
	assert_false(in_loop);
}

static void a_configuration_with_an_error_changes_nothing(void **state)
{
	config_error = -EINVAL;
	reload_begin(d.reload);
	until_ended(1);
	assert_int_not_equal(d.config.deadline, deadline);
	assert_int_equal(hosts, 0);
	assert_int_equal(names, 0);
}

static void a_hosts_file_with_an_error_keeps_no_key_back(void **state)
{
	hosts_error = -EINVAL;
	reload_begin(d.reload);
	until_ended(1);
	assert_int_equal(d.config.deadline, 77);
	assert_int_equal(names, 1);
}

static void the_end_waits_for_the_thread(void **state)
{
	held = true;
	reload_begin(d.reload);
	while (!configs)
		event_base_loop(d.base, EVLOOP_NONBLOCK);
	held = false;
	reload_stop(d.reload);
	d.reload = NULL;
	assert_int_equal(hosts, 1);
	assert_int_equal(ended, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_loop_goes_on_while_files_are_read),
		TEST(signals_during_a_reload_are_followed_by_one_more),
		TEST(a_configuration_with_an_error_changes_nothing),
		TEST(a_hosts_file_with_an_error_keeps_no_key_back),
		TEST(the_end_waits_for_the_thread),
	};

	log_level = LOG_EMERG;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
