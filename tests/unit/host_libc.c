// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* libc's own functions are found past those that the program puts before them; and the logger. */
#include "host_test.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/timerfd.h>

#include "host/libc.h"
#include "host/libc_tsan.h"
#include "host/log.h"
#include "host/siphash.h"

static int replaced_calls;

/* What a preload such as librspreload does: exported, and first in the linker's order. */
__attribute__((visibility("default"))) int dup(int fd)
{
	replaced_calls++;
	return -1;
}

__attribute__((visibility("default"))) int timerfd_create(int clock, int flags)
{
	replaced_calls++;
	return -1;
}

static void test_bypass(void **state)
{
	int fd;

	urxe_libc_init();
	assert_int_equal(dup(0), -1);
	assert_int_equal(replaced_calls, 1);
	fd = urxe_libc.dup(STDERR_FILENO);
	assert_true(fd >= 0);
	assert_int_equal(urxe_libc.close(fd), 0);
	fd = urxe_libc.timerfd_create(CLOCK_MONOTONIC, 0);
	assert_true(fd >= 0);
	assert_int_equal(urxe_libc.close(fd), 0);
	assert_int_equal(replaced_calls, 1);
}

/* The loader's own answers, for the versions that a program linked today gets. */
static void test_same_as_loader(void **state)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY);

	assert_non_null(libc);
#define SAME(name) assert_ptr_equal(urxe_libc.name, dlsym(libc, #name))
	SAME(open);
	SAME(openat);
	SAME(fcntl);
	SAME(ioctl);
	SAME(poll);
	SAME(socket);
	SAME(dup);
	SAME(epoll_create1);
	SAME(eventfd);
	SAME(getsockopt);
#ifndef URXE_TSAN
	SAME(read);
	SAME(write);
	SAME(close);
	SAME(sendmmsg);
	SAME(recvmmsg);
	SAME(epoll_wait);
	SAME(timerfd_settime);
#endif
	dlclose(libc);
}

/* dlsym, dlvsym and dlopen have an older version each, for programs linked before 2.34. */
static void test_dlsym(void **state)
{
	void *libc = urxe_libc.dlopen("libc.so.6", RTLD_LAZY);

	assert_non_null(libc);
	assert_ptr_equal(urxe_libc.dlsym(libc, "socket"), urxe_libc.socket);
#if defined(__x86_64__) && defined(__GLIBC__)
	assert_ptr_equal(urxe_libc.dlvsym(libc, "socket", "GLIBC_2.2.5"), urxe_libc.socket);
#endif
	dlclose(libc);
}

static int shared_data;

static void *write_then_signal(void *arg)
{
	uint64_t one = 1;

	shared_data = 42;
	return (void *)(intptr_t)urxe_libc.write(*(int *)arg, &one, sizeof(one));
}

/* Under the thread sanitizer: an eventfd orders what two threads do. */
static void test_order(void **state)
{
	int fd = urxe_libc.eventfd(0, 0);
	pthread_t thread;
	uint64_t value;

	assert_int_equal(pthread_create(&thread, NULL, write_then_signal, &fd), 0);
	assert_int_equal(urxe_libc.read(fd, &value, sizeof(value)), sizeof(value));
	assert_int_equal(shared_data, 42);
	shared_data = 43;
	pthread_join(thread, NULL);
	urxe_libc.close(fd);
}

/* What a message, said several times, writes to stderr, with URXE_LOG as given, in a
 * child (the level is kept). */
static const char *logged_times(unsigned times, const char *env, enum urxe_log_level level,
				const char *text)
{
	static char out[4096];
	ssize_t n = 0, got;
	int fds[2];
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		dup2(fds[1], STDERR_FILENO);
		if (env)
			setenv("URXE_LOG", env, 1);
		else
			unsetenv("URXE_LOG");
		errno = 4711;
		while (times--)
			urxe_log(level, "%s", text);
		_exit(errno != 4711);
	}
	close(fds[1]);
	while ((got = read(fds[0], out + n, sizeof(out) - 1 - n)) > 0)
		n += got;
	out[n] = '\0';
	close(fds[0]);
	assert_int_equal(host_test_wait(pid), 0);
	return out;
}

static const char *logged(const char *env, enum urxe_log_level level, const char *text)
{
	return logged_times(1, env, level, text);
}

static void test_log(void **state)
{
	char text[3000];
	const char *out;

	assert_string_equal(logged(NULL, URXE_LOG_ERROR, "a"), "urxe: a\n");
	assert_string_equal(logged("", URXE_LOG_ERROR, "a"), "urxe: a\n");
	assert_string_equal(logged(NULL, URXE_LOG_WARN, "a"), "");
	assert_string_equal(logged("warn", URXE_LOG_WARN, "a"), "urxe: a\n");
	assert_string_equal(logged("warn", URXE_LOG_INFO, "a"), "");
	assert_string_equal(logged("debug", URXE_LOG_DEBUG, "a"), "urxe: a\n");
	assert_non_null(strstr(logged("loud", URXE_LOG_DEBUG, "a"), "none of error, warn"));

	assert_string_equal(logged_times(100, NULL, URXE_LOG_ERROR, "a"), "urxe: a\n");
	assert_string_equal(logged_times(2, "warn", URXE_LOG_WARN, "a"), "urxe: a\nurxe: a\n");

	/* A long message is cut, and still is one line. */
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	out = logged(NULL, URXE_LOG_ERROR, text);
	assert_int_equal(strlen(out), 1023);
	assert_ptr_equal(strchr(out, '\n'), out + 1022);
}

/* The vectors of the paper's appendix: key 00 01 … 0f, messages of 0 … 63 counting bytes. */
static void test_siphash(void **state)
{
	const uint64_t key[2] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
	uint8_t data[15];

	for (unsigned i = 0; i < sizeof(data); i++)
		data[i] = i;
	assert_int_equal(urxe_siphash(key, data, 0), 0x726fdb47dd0e0e31);
	assert_int_equal(urxe_siphash(key, data, 8), 0x93f5f5799a932462);
	assert_int_equal(urxe_siphash(key, data, 15), 0xa129ca6149be45e5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bypass), cmocka_unit_test(test_same_as_loader),
		cmocka_unit_test(test_dlsym),  cmocka_unit_test(test_order),
		cmocka_unit_test(test_log),    cmocka_unit_test(test_siphash),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
