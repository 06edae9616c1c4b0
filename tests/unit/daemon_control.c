// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The control socket of a daemon that has no memory or no descriptors left. */
#include <errno.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemons/common/client.h"
#include "daemons/common/control.h"
#include "daemons/common/json.h"
#include "daemons/common/log.h"

static struct event_base *base;
static struct control *control;
static char path[64];
static bool no_object, no_text, no_event;

struct json_object *__real_json_object_new_object(void);
struct json_object *__wrap_json_object_new_object(void);
struct json_object *__wrap_json_object_new_object(void)
{
	return no_object ? NULL : __real_json_object_new_object();
}

const char *__real_json_object_to_json_string_ext(struct json_object *object, int flags);
const char *__wrap_json_object_to_json_string_ext(struct json_object *object, int flags);
const char *__wrap_json_object_to_json_string_ext(struct json_object *object, int flags)
{
	return no_text ? NULL : __real_json_object_to_json_string_ext(object, flags);
}

/* What libevent answers where it has no memory for an event. */
int __real_bufferevent_enable(struct bufferevent *stream, short what);
int __wrap_bufferevent_enable(struct bufferevent *stream, short what);
int __wrap_bufferevent_enable(struct bufferevent *stream, short what)
{
	return no_event ? -1 : __real_bufferevent_enable(stream, what);
}

int __real_evconnlistener_enable(struct evconnlistener *listener);
int __wrap_evconnlistener_enable(struct evconnlistener *listener);
int __wrap_evconnlistener_enable(struct evconnlistener *listener)
{
	return no_event ? -1 : __real_evconnlistener_enable(listener);
}

static unsigned errors; /* of accept(2) */
static unsigned lines;	/* of errors */

void __wrap_log_line(int priority, const char *format, ...);
void __wrap_log_line(int priority, const char *format, ...)
{
	errors += !strncmp(format, "control socket", 14);
	lines += priority == LOG_ERR;
	if (errors > 10)
		event_base_loopbreak(base);
}

static void status(struct control_client *client, struct json_object *request)
{
	struct json_object *answer = json_object_new_object();

	json_add_text(answer, "name", "it");
	json_add_number(answer, "count", 7);
	json_add_bool(answer, "up", true);
	json_add_hex(answer, "guid", 1, 16);
	control_ok(client, answer);
}

static const struct control_command commands[] = {{"status", status}};
static const struct control_options options = {
	.path = path, .user = "", .group = "", .commands = commands, .count = 1};

static int start(void **state)
{
	no_object = no_text = no_event = false;
	snprintf(path, sizeof(path), "/tmp/daemon-control-%d", (int)getpid());
	base = event_base_new();
	return control_start(base, &options, &control);
}

static int stop(void **state)
{
	control_stop(control);
	event_base_free(base);
	return 0;
}

static int connect_client(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	strcpy(address.sun_path, path);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static void check_answer(int fd, const char *expected)
{
	static const char question[] = "{\"command\":\"status\"}\n";
	char answer[256];
	ssize_t n = -1;

	assert_int_equal(write(fd, question, strlen(question)), strlen(question));
	for (unsigned i = 0; n < 0 && i < 5000; i++) {
		event_base_loop(base, EVLOOP_NONBLOCK);
		n = read(fd, answer, sizeof(answer) - 1);
		if (n < 0)
			usleep(1000);
	}
	assert_true(n > 0);
	answer[n] = '\0';
	assert_string_equal(answer, expected);
}

#define NO_MEMORY "{\"ok\":false,\"error\":\"no memory\"}\n"

static void without_memory_a_client_is_told_so(void **state)
{
	int fd = connect_client();

	no_object = true;
	check_answer(fd, NO_MEMORY);
	no_object = false;
	no_text = true;
	check_answer(fd, NO_MEMORY);
	no_text = false;
	check_answer(fd, "{\"name\":\"it\",\"count\":7,\"up\":true,\"guid\":"
			 "\"0x0000000000000001\",\"ok\":true}\n");
	close(fd);
}

static void a_client_that_cannot_be_accepted_waits(void **state)
{
	int fd = connect_client(), next = dup(0);
	struct rlimit before, limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	close(next);
	limit = (struct rlimit){(rlim_t)next, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	errors = 0;
	log_level = LOG_DEBUG;
	event_base_loop(base, EVLOOP_NONBLOCK);
	setrlimit(RLIMIT_NOFILE, &before);
	assert_int_equal(errors, 1);
	check_answer(fd, "{\"name\":\"it\",\"count\":7,\"up\":true,\"guid\":"
			 "\"0x0000000000000001\",\"ok\":true}\n");
	close(fd);
}

static void a_client_that_libevent_has_no_memory_for_is_closed(void **state)
{
	int fd = connect_client();
	ssize_t n = -1;
	char byte;

	no_event = true;
	for (unsigned i = 0; n < 0 && i < 1000; i++) {
		event_base_loop(base, EVLOOP_NONBLOCK);
		n = read(fd, &byte, 1);
		if (n < 0)
			usleep(1000);
	}
	assert_int_equal(n, 0);
	close(fd);
}

static void a_socket_that_libevent_has_no_memory_for_is_an_error_with_one_line(void **state)
{
	control_stop(control);
	control = NULL;
	no_event = true;
	lines = 0;
	assert_int_equal(control_start(base, &options, &control), -ENOMEM);
	assert_int_equal(lines, 1);
	assert_int_not_equal(access(path, F_OK), 0);
}

/* 64 clients are the most; the next one waits until one of them has gone. */
static void clients_are_accepted_again_where_libevent_had_no_memory_for_a_moment(void **state)
{
	int fds[65];

	for (unsigned i = 0; i < 65; i++) {
		fds[i] = connect_client();
		event_base_loop(base, EVLOOP_NONBLOCK);
	}
	no_event = true;
	close(fds[0]);
	event_base_loop(base, EVLOOP_NONBLOCK);
	no_event = false;
	check_answer(fds[64], "{\"name\":\"it\",\"count\":7,\"up\":true,\"guid\":"
			      "\"0x0000000000000001\",\"ok\":true}\n");
	for (unsigned i = 1; i < 65; i++)
		close(fds[i]);
}

/* The other end of the control socket: urxe ipoib show and others. */
static void a_question_that_there_is_no_memory_for_is_not_asked(void **state)
{
	struct client client = {.daemon = "it", .socket = path, .fd = connect_client()};
	struct json_object *request = json_object_new_object(), *answer;

	json_add_text(request, "command", "status");
	no_text = true;
	assert_int_equal(client_ask(&client, request, &answer), CLIENT_REFUSED);
	assert_int_equal(client_ask(&client, NULL, &answer), CLIENT_REFUSED);
	assert_null(answer);
	client_close(&client);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
	const struct CMUnitTest tests[] = {
		TEST(without_memory_a_client_is_told_so),
		TEST(a_client_that_cannot_be_accepted_waits),
		TEST(a_client_that_libevent_has_no_memory_for_is_closed),
		TEST(a_socket_that_libevent_has_no_memory_for_is_an_error_with_one_line),
		TEST(clients_are_accepted_again_where_libevent_had_no_memory_for_a_moment),
		TEST(a_question_that_there_is_no_memory_for_is_not_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
