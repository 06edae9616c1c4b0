/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The lock of a queue; and who waits for the engine's before threads are cancelled. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#include "hca/engine.h"

#define THREADS 4
#define ROUNDS	20000

static struct urxe_lock lock;
static unsigned count;

static void *count_on(void *arg)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		urxe_lock(&lock);
		count++;
		urxe_unlock(&lock);
	}
	return arg;
}

static void one_at_a_time(void **state)
{
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, count_on, NULL), 0);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(count, THREADS * ROUNDS);
}

static struct {
	_Atomic pid_t tid;
	_Atomic bool returned;
} canceller[2];

static void *about_to_cancel(void *which)
{
	atomic_store(&canceller[*(int *)which].tid, gettid());
	urxe_may_cancel(true);
	atomic_store(&canceller[*(int *)which].returned, true);
	return NULL;
}

/* Until a thread sleeps before it asks for the engine's lock again, as proc(5) has it: the
 * number of its system call. */
static void until_it_waits(unsigned i)
{
	unsigned long long number;
	char path[64], text[128];

	for (;;) {
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", canceller[i].tid);
		file = fopen(path, "re");
		assert_non_null(file);
		if (fgets(text, sizeof(text), file) && sscanf(text, "%llu", &number) == 1 &&
		    number == SYS_clock_nanosleep) {
			fclose(file);
			return;
		}
		fclose(file);
		assert_false(canceller[i].returned);
		sched_yield();
	}
}

/* Whoever is at work does not know yet that he may be cancelled: the second to cancel waits as the
 * first. */
static void all_who_cancel_wait(void **state)
{
	static int which[2] = {0, 1};
	pthread_t threads[2];

	urxe_may_cancel(false);
	urxe_engine_take();
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(pthread_create(&threads[i], NULL, about_to_cancel, &which[i]), 0);
		while (!canceller[i].tid)
			sched_yield();
		until_it_waits(i);
	}
	assert_false(canceller[0].returned);
	assert_false(canceller[1].returned);
	urxe_engine_give();
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_at_a_time),
		cmocka_unit_test(all_who_cancel_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
