// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Who starts the guardian of a host segment: one of all processes that need it, and another one
 * when it is gone. A script stands for the guardian; what it does is in tests/apps/guardian.bats.
 */
#include "host_test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "host/guardian.h"
#include "host/segment_layout.h"

#define NUM_PROCESSES 16
#define SECOND	      1000000000ull

static struct shared {
	uint32_t ready, go, reported;
} * shared;
static char program[128], fifo[128];

/* How many guardians live; *pid: one of them. Of one that has ended and was not waited
 * for yet there is no command. */
static unsigned guardians(pid_t *pid)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	unsigned num = 0;

	assert_non_null(d);
	while ((e = readdir(d))) {
		char path[300], command[256];
		size_t len;
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%s/cmdline", e->d_name);
		f = atoi(e->d_name) ? fopen(path, "r") : NULL;
		if (!f)
			continue;
		len = fread(command, 1, sizeof(command), f);
		if (memmem(command, len, program, strlen(program))) {
			*pid = atoi(e->d_name);
			num++;
		}
		fclose(f);
	}
	closedir(d);
	return num;
}

/* It stays until something has its pipe open for writing. */
static int setup(void **state)
{
	FILE *f;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED || host_test_dir_make(state))
		return -1;
	snprintf(program, sizeof(program), "%s/guardian", host_test_dir);
	snprintf(fifo, sizeof(fifo), "%s/fifo", host_test_dir);
	f = fopen(program, "w");
	if (!f || mkfifo(fifo, 0600))
		return -1;
	fprintf(f, "#!/bin/sh\nread line <%s\n", fifo);
	if (fchmod(fileno(f), 0700) || fclose(f))
		return -1;
	urxe_guardian_program(program, "/nonexistent");
	return 0;
}

static int teardown(void **state)
{
	pid_t pid;

	while (guardians(&pid))
		kill(pid, SIGKILL);
	munmap(shared, sizeof(*shared));
	return host_test_dir_remove(state);
}

static struct urxe_segment *join(void)
{
	struct urxe_segment *seg = NULL;

	CHECK(urxe_segment_join(&seg) == 0);
	return seg;
}

#ifndef __SANITIZE_THREAD__ /* There none is started: host/guardian.c. */
static bool locked(struct urxe_segment *seg)
{
	return segment_file_locked(seg->fd, GUARDIAN_BYTE, 1);
}

/* As the process and its service thread. */
static void need(struct urxe_segment *seg)
{
	urxe_guardian_want(seg);
	CHECK(urxe_guardian_is_wanted(seg));
	urxe_guardian_keep(seg, SECOND);
	CHECK(!urxe_guardian_is_wanted(seg));
}

static void needs_one(void *arg)
{
	struct urxe_segment *seg = join();

	CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
	host_test_add(&shared->ready);
	CHECK_SOON(host_test_load(&shared->go));
	need(seg);
	host_test_add(&shared->reported);
	pause();
}

static void test_of_many_that_need_one_at_once_one_starts_it(void **state)
{
	pid_t pids[NUM_PROCESSES], pid = 0;
	struct urxe_segment *seg = join();

	for (unsigned i = 0; i < NUM_PROCESSES; i++)
		pids[i] = host_test_fork(needs_one, NULL);
	CHECK_SOON(host_test_load(&shared->ready) == NUM_PROCESSES);
	__atomic_store_n(&shared->go, 1, __ATOMIC_RELEASE);
	CHECK_SOON(host_test_load(&shared->reported) == NUM_PROCESSES);
	/* It has no command yet when they return; others would have one a moment later. */
	CHECK_SOON(guardians(&pid) == 1);
	usleep(200000);
	assert_int_equal(guardians(&pid), 1);
	assert_true(locked(seg));
	for (unsigned i = 0; i < NUM_PROCESSES; i++) {
		kill(pids[i], SIGKILL);
		host_test_wait(pids[i]);
	}
	assert_true(locked(seg));
	kill(pid, SIGKILL);
	CHECK_SOON(!locked(seg));
	urxe_segment_leave(seg);
}

static void test_one_that_was_killed_is_replaced(void **state)
{
	struct urxe_segment *seg = join();
	pid_t first = 0, second = 0;

	need(seg);
	CHECK_SOON(guardians(&first) == 1);
	urxe_guardian_keep(seg, 2 * SECOND);
	assert_int_equal(guardians(&first), 1);
	kill(first, SIGKILL);
	CHECK_SOON(!locked(seg));
	urxe_guardian_keep(seg, 3 * SECOND - 1); /* not before another second is over */
	assert_false(locked(seg));
	urxe_guardian_keep(seg, 3 * SECOND);
	assert_true(locked(seg));
	CHECK_SOON(guardians(&second) == 1 && second != first);
	kill(second, SIGKILL);
	CHECK_SOON(!locked(seg));
	urxe_segment_leave(seg);
}

static void test_one_that_cannot_be_executed_keeps_no_lock(void **state)
{
	struct urxe_segment *seg = join();

	urxe_guardian_program("/nonexistent", "/nonexistent");
	need(seg);
	CHECK_SOON(!locked(seg));
	urxe_guardian_program(program, "/nonexistent");
	urxe_guardian_keep(seg, 2 * SECOND);
	assert_true(locked(seg));
	close(open(fifo, O_WRONLY));
	CHECK_SOON(!locked(seg));
	urxe_segment_leave(seg);
}
#endif

static void begins(void *arg)
{
	struct urxe_segment *seg = join();
	int other = open("/dev/null", O_RDWR), mine;

	CHECK(dup2(other, 3) == 3);
	CHECK(urxe_guardian_begin(seg) == -ESTALE);
	mine = segment_file_reopen(seg);
	CHECK(mine >= 0 && dup2(mine, 3) == 3);
	close(mine);
	CHECK(urxe_guardian_begin(seg) == 0);
	CHECK(fcntl(3, F_GETFD) < 0); /* it has a high number now */
	CHECK(urxe_guardian_begin(seg) == -EBADF);
}

static void test_it_begins_with_the_descriptor_that_it_was_given(void **state)
{
	host_test_in_child(begins, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_it_begins_with_the_descriptor_that_it_was_given, setup, teardown),
#ifndef __SANITIZE_THREAD__
		cmocka_unit_test_setup_teardown(test_of_many_that_need_one_at_once_one_starts_it,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_that_was_killed_is_replaced, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_one_that_cannot_be_executed_keeps_no_lock,
						setup, teardown),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
