/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Helpers of the tests of provider/host: checks that work in forked children, namespaces of their
 * own, and a folder for the host segment.
 */
#ifndef URXE_TESTS_HOST_TEST_H
#define URXE_TESTS_HOST_TEST_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HOST_TEST_SANITIZED 1
#else
#define HOST_TEST_SANITIZED 0
#endif

/* Like assert_true(), also in a forked child, which ends with status 1. */
#define CHECK(cond)                                                                               \
	do {                                                                                      \
		if (!(cond)) {                                                                    \
			fprintf(stderr, "# %s:%d: not true: %s (errno %d)\n", __FILE__, __LINE__, \
				#cond, errno);                                                    \
			_exit(1);                                                                 \
		}                                                                                 \
	} while (0)

/* Runs fn in a child, so that it has lists and memberships of its own; fails if that fails. */
static inline pid_t host_test_fork(void (*fn)(void *arg), void *arg)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		fn(arg);
		_exit(0);
	}
	assert_true(pid > 0);
	return pid;
}

static inline int host_test_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		assert_int_equal(errno, EINTR);
	return status;
}

static inline void host_test_in_child(void (*fn)(void *arg), void *arg)
{
	assert_int_equal(host_test_wait(host_test_fork(fn, arg)), 0);
}

/*
 * Starts this program again inside `unshare <flags>` (by exec, since a sanitizer's threads forbid
 * a new user namespace to a running program). Returns true inside; false where namespaces cannot
 * be made, after saying so.
 */
static inline bool host_test_unshare(char **argv, const char *flags)
{
	char probe[128];

	if (getenv("HOST_TEST_UNSHARED"))
		return true;
	snprintf(probe, sizeof(probe), "unshare %s true 2>/dev/null", flags);
	if (system(probe)) {
		printf("# unshare %s is not permitted here\n", flags);
		return false;
	}
	setenv("HOST_TEST_UNSHARED", "1", 1);
	execlp("unshare", "unshare", flags, argv[0], NULL);
	return false;
}

__attribute__((format(printf, 1, 2))) static inline void host_test_sh(const char *fmt, ...)
{
	char command[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(command, sizeof(command), fmt, ap);
	va_end(ap);
	if (system(command)) {
		fprintf(stderr, "# failed: %s\n", command);
		_exit(1);
	}
}

static inline uint64_t host_test_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000ULL + ts.tv_nsec / 1000000;
}

/* Waits until cond is true, at most 5 s. */
#define CHECK_SOON(cond)                                      \
	do {                                                  \
		uint64_t end__ = host_test_now_ms() + 5000;   \
		while (!(cond) && host_test_now_ms() < end__) \
			usleep(1000);                         \
		CHECK(cond);                                  \
	} while (0)

/* Counters in memory that a test's processes share. */
static inline uint32_t host_test_load(const uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static inline void host_test_add(uint32_t *p)
{
	__atomic_fetch_add(p, 1, __ATOMIC_ACQ_REL);
}

static char host_test_dir[64];

/* A new empty folder, named in URXE_RUNTIME_DIR. */
static inline int host_test_dir_make(void **state)
{
	strcpy(host_test_dir, "/tmp/urxe-test-XXXXXX");
	if (!mkdtemp(host_test_dir))
		return -1;
	return setenv("URXE_RUNTIME_DIR", host_test_dir, 1);
}

static inline int host_test_dir_remove(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", host_test_dir);
	return system(command);
}

#endif
