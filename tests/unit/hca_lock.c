/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The lock of a queue; and who waits for the engine's before threads are cancelled. */
#include <setjmp.h>
#include <stdarg.h>
#include <time.h>
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

static void pause_ms(unsigned ms)
{
	const struct timespec ts = {.tv_nsec = ms * 1000000};

	nanosleep(&ts, NULL);
}

static _Atomic bool returned[2];

static void *about_to_cancel(void *which)
{
	urxe_may_cancel(true);
	atomic_store((_Atomic bool *)which, true);
	return NULL;
}

/* Whoever is at work does not know yet that he may be cancelled: the second to cancel waits as the first. */
static void all_who_cancel_wait(void **state)
{
	pthread_t threads[2];

	urxe_may_cancel(false);
	assert_int_equal(pthread_mutex_lock(&urxe_hca.lock), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(pthread_create(&threads[i], NULL, about_to_cancel, &returned[i]),
				 0);
		pause_ms(50);
	}
	assert_false(atomic_load(&returned[0]));
	assert_false(atomic_load(&returned[1]));
	pthread_mutex_unlock(&urxe_hca.lock);
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
