/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Host names in memory: when the file is read, and what is found.
 */
#include "sacache_test.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "daemons/sacached/names.h"

static struct event_base *base;
static struct names *names;
static char folder[] = "/tmp/names-XXXXXX", path[64];
static pthread_t loop_thread;
static atomic_uint opened, opened_in_loop;

FILE *__real_fopen64(const char *name, const char *mode);
FILE *__wrap_fopen64(const char *name, const char *mode);
FILE *__wrap_fopen64(const char *name, const char *mode)
{
	if (!strcmp(name, path)) {
		opened++;
		opened_in_loop += pthread_equal(pthread_self(), loop_thread);
	}
	return __real_fopen64(name, mode);
}

static void write_file(const char *to, const char *text)
{
	FILE *file = __real_fopen64(to, "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static int set_up(void **state)
{
	loop_thread = pthread_self();
	strcpy(folder, "/tmp/names-XXXXXX");
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/hosts", folder);
	write_file(path, "# a comment\n10.0.0.1\tnode1 node1.example  alias # and why\n"
			 "fd00::2 node2\nnonsense node3\n10.0.0.4 Node1\n  10.0.0.5 node5\n");
	base = event_base_new();
	opened = 0;
	assert_int_equal(names_start(base, path, &names), 0);
	opened_in_loop = 0;
	return 0;
}

static int tear_down(void **state)
{
	names_stop(names);
	event_base_free(base);
	unlink(path);
	rmdir(folder);
	return 0;
}

/* The address of a name as text, "" if there is none. */
static const char *find(const char *name)
{
	static char text[INET6_ADDRSTRLEN];
	struct in6_addr ip;

	return names_find(names, name, &ip) ? inet_ntop(AF_INET6, &ip, text, sizeof(text)) : "";
}

static void names_have_the_address_of_their_first_line(void **state)
{
	assert_string_equal(find("node1"), "::ffff:10.0.0.1");
	assert_string_equal(find("NODE1"), "::ffff:10.0.0.1");
	assert_string_equal(find("node1.example"), "::ffff:10.0.0.1");
	assert_string_equal(find("alias"), "::ffff:10.0.0.1");
	assert_string_equal(find("node2"), "fd00::2");
	assert_string_equal(find("node5"), "::ffff:10.0.0.5");
	assert_string_equal(find("node3"), "");
	assert_string_equal(find("and"), "");
}

static void an_address_in_text_is_one(void **state)
{
	assert_string_equal(find("10.1.2.3"), "::ffff:10.1.2.3");
	assert_string_equal(find("fe80::1"), "fe80::1");
}

static void a_name_takes_no_look_at_the_file(void **state)
{
	for (unsigned i = 0; i < 1000; i++) {
		find("node1");
		find("nobody");
	}
	assert_int_equal(opened, 1);
}

static void until_found(const char *name, const char *address)
{
	for (unsigned i = 0; i < 20000 && strcmp(find(name), address) != 0; i++) {
		usleep(100);
		event_base_loop(base, EVLOOP_NONBLOCK);
	}
	assert_string_equal(find(name), address);
}

static void a_file_that_was_written_is_read_again_by_a_thread(void **state)
{
	write_file(path, "10.0.0.9 node1\n");
	until_found("node1", "::ffff:10.0.0.9");
	assert_string_equal(find("node2"), "");
	assert_int_equal(opened_in_loop, 0);
}

static void a_file_that_took_its_place_is_read_and_watched(void **state)
{
	char other[80];

	snprintf(other, sizeof(other), "%s.new", path);
	for (unsigned i = 1; i < 4; i++) {
		char line[64], address[32];

		snprintf(line, sizeof(line), "10.0.1.%u node1\n", i);
		snprintf(address, sizeof(address), "::ffff:10.0.1.%u", i);
		write_file(other, line);
		assert_int_equal(rename(other, path), 0);
		until_found("node1", address);
	}
}

static void a_file_that_is_gone_has_no_names(void **state)
{
	assert_int_equal(unlink(path), 0);
	until_found("node1", "");
	write_file(path, "10.0.0.7 node1\n");
	until_found("node1", "::ffff:10.0.0.7");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(names_have_the_address_of_their_first_line),
		TEST(an_address_in_text_is_one),
		TEST(a_name_takes_no_look_at_the_file),
		TEST(a_file_that_was_written_is_read_again_by_a_thread),
		TEST(a_file_that_took_its_place_is_read_and_watched),
		TEST(a_file_that_is_gone_has_no_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
