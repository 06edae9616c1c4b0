/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a daemon tells systemd, heard by a socket that stands for systemd's; and descriptors passed
 * as it passes them.
 */
#include "sacache_test.h"

#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemons/common/log.h"
#include "daemons/common/notify.h"

static struct event_base *base;
static struct notify *notify;
static const char *busy_with = "idle";
static int systemd = -1;

static void write_status(void *arg, char *line, size_t size)
{
	assert_ptr_equal(arg, &busy_with);
	snprintf(line, size, "%s", busy_with);
}

/* NOTIFY_SOCKET is abstract, so that nothing is left behind. */
static int setup(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	socklen_t size = sizeof(address);
	char name[sizeof(address.sun_path) + 1];

	notify = NULL;
	base = event_base_new();
	log_level = LOG_EMERG;
	systemd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	/* An address of its own accord. */
	assert_int_equal(bind(systemd, (struct sockaddr *)&address, sizeof(sa_family_t)), 0);
	assert_int_equal(getsockname(systemd, (struct sockaddr *)&address, &size), 0);
	size -= offsetof(struct sockaddr_un, sun_path);
	memcpy(name, address.sun_path, size);
	name[0] = '@';
	name[size] = 0;
	setenv("NOTIFY_SOCKET", name, 1);
	return 0;
}

static int teardown(void **state)
{
	notify_stop(notify);
	event_base_free(base);
	close(systemd);
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
	return 0;
}

/* The next message, "" if there is none; and up to count descriptors that came with it. */
static const char *heard_with(int *fds, unsigned *count)
{
	static char text[512];
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(253 * sizeof(int))];
	} control;
	struct iovec iov = {text, sizeof(text) - 1};
	struct msghdr message = {.msg_iov = &iov,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	ssize_t got = recvmsg(systemd, &message, MSG_CMSG_CLOEXEC);

	*count = 0;
	text[got > 0 ? got : 0] = 0;
	if (got > 0)
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
			if (c->cmsg_type != SCM_RIGHTS)
				continue;
			*count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
			memcpy(fds, CMSG_DATA(c), *count * sizeof(int));
		}
	return text;
}

static const char *heard(void)
{
	int fds[253];
	unsigned count;
	const char *text = heard_with(fds, &count);

	assert_int_equal(count, 0);
	return text;
}

static void start(void)
{
	assert_int_equal(notify_start(base, write_status, &busy_with, &notify), 0);
}

static void systemd_hears_of_the_daemons_life(void **state)
{
	start();
	assert_string_equal(heard(), "");
	notify_ready(notify);
	assert_string_equal(heard(), "STATUS=idle");
	assert_string_equal(heard(), "READY=1");
	notify_reloading(notify);
	assert_memory_equal(heard(), "RELOADING=1\nMONOTONIC_USEC=", 27);
	notify_reloaded(notify);
	assert_string_equal(heard(), "READY=1");
	notify_stopping(notify);
	assert_string_equal(heard(), "STOPPING=1");
	assert_string_equal(heard(), "");
}

static void the_status_is_what_is_true_when_it_is_said(void **state)
{
	start();
	busy_with = "a question";
	notify_ready(notify);
	busy_with = "idle";
	assert_string_equal(heard(), "STATUS=a question");
}

static void until_heard(const char *text)
{
	const char *said = "";

	for (unsigned i = 0; i < 1000 && strcmp(said, text) != 0; i++) {
		usleep(1000);
		event_base_loop(base, EVLOOP_NONBLOCK);
		said = heard();
	}
	assert_string_equal(said, text);
}

static void the_watchdog_hears_from_the_loop(void **state)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", getpid());
	setenv("WATCHDOG_PID", pid, 1);
	setenv("WATCHDOG_USEC", "20000", 1);
	start();
	until_heard("WATCHDOG=1");
	until_heard("WATCHDOG=1");
}

static void another_process_watchdog_is_left_alone(void **state)
{
	setenv("WATCHDOG_PID", "1", 1);
	setenv("WATCHDOG_USEC", "2000", 1);
	start();
	usleep(3000);
	event_base_loop(base, EVLOOP_NONBLOCK);
	assert_string_equal(heard(), "");
}

static void descriptors_are_kept_under_their_name(void **state)
{
	int ends[2], fds[253];
	unsigned count;

	start();
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	assert_int_equal(notify_keep_fds(notify, "client", ends, 1), 0);
	assert_string_equal(heard_with(fds, &count), "FDSTORE=1\nFDNAME=client");
	assert_int_equal(count, 1);
	/* It is that connection. */
	assert_int_equal(write(ends[1], "x", 1), 1);
	close(ends[0]);
	assert_int_equal(read(fds[0], (char[1]){0}, 1), 1);
	close(fds[0]);
	close(ends[1]);
}

static void more_than_one_message_takes_are_kept_in_several(void **state)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), fds[253];
	int many[300];
	unsigned count;

	assert_true(fd >= 0);
	for (unsigned i = 0; i < 300; i++)
		many[i] = fd;
	start();
	assert_int_equal(notify_keep_fds(notify, "client", many, 300), 0);
	heard_with(fds, &count);
	assert_int_equal(count, 253);
	while (count)
		close(fds[--count]);
	heard_with(fds, &count);
	assert_int_equal(count, 47);
	while (count)
		close(fds[--count]);
	close(fd);
}

static void a_systemd_that_does_not_read_holds_nobody_up(void **state)
{
	char expected[64];
	int fds[253], ends[2];
	unsigned count;
	int i;

	start();
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	/* More than the kernel keeps for it, with fewer descriptors than a user has. */
	for (i = 0; i < 700; i++) {
		snprintf(expected, sizeof(expected), "client-%d", i);
		assert_int_equal(notify_keep_fds(notify, expected, ends, 1), 0);
	}
	notify_stopping(notify);
	close(ends[0]);
	for (i = 0; i < 700; i++) {
		snprintf(expected, sizeof(expected), "FDSTORE=1\nFDNAME=client-%d", i);
		event_base_loop(base, EVLOOP_NONBLOCK);
		assert_string_equal(heard_with(fds, &count), expected);
		assert_int_equal(count, 1);
		close(fds[0]);
	}
	event_base_loop(base, EVLOOP_NONBLOCK);
	assert_string_equal(heard(), "STOPPING=1");
	/* Nobody has a copy of the connection any more. */
	assert_int_equal(read(ends[1], (char[1]){0}, 1), 0);
	close(ends[1]);
}

#define LATE 1000

static void *read_all(void *arg)
{
	unsigned *got = arg;

	for (unsigned i = 0; i < 50000 && *got < LATE; i++) {
		if (!strcmp(heard(), "READY=1"))
			++*got;
		else
			usleep(100);
	}
	return NULL;
}

static void what_waits_at_the_end_is_sent(void **state)
{
	pthread_t reader;
	unsigned got = 0;

	start();
	for (unsigned i = 0; i < LATE; i++)
		notify_reloaded(notify);
	assert_int_equal(pthread_create(&reader, NULL, read_all, &got), 0);
	notify_stop(notify);
	notify = NULL;
	pthread_join(reader, NULL);
	assert_int_equal(got, LATE);
}

static void without_systemd_nothing_is_said_or_kept(void **state)
{
	int fd = 0;

	unsetenv("NOTIFY_SOCKET");
	start();
	notify_ready(notify);
	notify_reloading(notify);
	notify_reloaded(notify);
	notify_stopping(notify);
	assert_int_equal(notify_keep_fds(notify, "client", &fd, 1), -ENOTCONN);
	assert_string_equal(heard(), "");
	assert_int_equal(event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED), 0);
}

/* systemd passes descriptors from 3 on, and says so in the environment. */
static int setup_passed(void **state)
{
	char pid[16];

	for (int fd = 3; fd < 7; fd++)
		assert_int_equal(dup2(STDERR_FILENO, fd), fd);
	snprintf(pid, sizeof(pid), "%d", getpid());
	setenv("LISTEN_PID", pid, 1);
	setenv("LISTEN_FDS", "4", 1);
	setenv("LISTEN_FDNAMES", "client:acm:client:client", 1);
	return setup(state);
}

static int teardown_passed(void **state)
{
	for (int fd = 3; fd < 7; fd++)
		close(fd);
	return teardown(state);
}

static void descriptors_are_taken_by_name(void **state)
{
	int fds[4];

	start();
	assert_null(getenv("LISTEN_FDS"));
	assert_int_equal(notify_take_fds(notify, "nothing", fds, 4), 0);
	assert_int_equal(notify_take_fds(notify, "client", fds, 2), 2);
	assert_int_equal(fds[0], 3);
	assert_int_equal(fds[1], 5);
	assert_int_equal(fcntl(5, F_GETFD), FD_CLOEXEC);
	assert_int_equal(notify_take_fds(notify, "client", fds, 4), 1);
	assert_int_equal(fds[0], 6);
	assert_int_equal(notify_take_fds(notify, "client", fds, 4), 0);
}

static void descriptors_that_nobody_takes_are_closed(void **state)
{
	int fd;

	start();
	assert_int_equal(notify_take_fds(notify, "acm", &fd, 1), 1);
	notify_ready(notify);
	assert_int_equal(fcntl(3, F_GETFD), -1);
	assert_int_equal(fcntl(4, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(5, F_GETFD), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(systemd_hears_of_the_daemons_life, setup, teardown),
		cmocka_unit_test_setup_teardown(the_status_is_what_is_true_when_it_is_said, setup,
						teardown),
		cmocka_unit_test_setup_teardown(the_watchdog_hears_from_the_loop, setup, teardown),
		cmocka_unit_test_setup_teardown(another_process_watchdog_is_left_alone, setup,
						teardown),
		cmocka_unit_test_setup_teardown(descriptors_are_kept_under_their_name, setup,
						teardown),
		cmocka_unit_test_setup_teardown(more_than_one_message_takes_are_kept_in_several,
						setup, teardown),
		cmocka_unit_test_setup_teardown(a_systemd_that_does_not_read_holds_nobody_up, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_waits_at_the_end_is_sent, setup, teardown),
		cmocka_unit_test_setup_teardown(without_systemd_nothing_is_said_or_kept, setup,
						teardown),
		cmocka_unit_test_setup_teardown(descriptors_are_taken_by_name, setup_passed,
						teardown_passed),
		cmocka_unit_test_setup_teardown(descriptors_that_nobody_takes_are_closed,
						setup_passed, teardown_passed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
