// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The lock of a completion queue: the thread that owns it, and others. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

#include "vipl/lock.h"

#define ROUNDS 20000

static struct vipl_lock lock;
static unsigned counter; /* guarded by it */
static atomic_bool over;

static int make_anew(void **state)
{
	lock = (struct vipl_lock){0};
	counter = 0;
	atomic_store(&over, false);
	return 0;
}

/* Where the kernel has no membarrier(2), nobody owns locks. */
static bool owned(void)
{
	vipl_lock_init();
	vipl_lock_often(&lock);
	vipl_unlock(&lock);
	return atomic_load(&lock.owner) == vipl_lock_self();
}

static void who_takes_it_often_owns_it(void **state)
{
	vipl_lock(&lock);
	vipl_unlock(&lock);
	assert_int_equal(lock.owner, 0);
	if (!owned())
		skip();
	vipl_lock(&lock);
	assert_int_equal(lock.held, 1);
	assert_int_equal(lock.taken, 0);
	vipl_unlock(&lock);
	assert_int_equal(lock.held, 0);
}

static void *take_once(void *ignored)
{
	vipl_lock(&lock);
	counter++;
	vipl_unlock(&lock);
	return NULL;
}

static void run(void *(*function)(void *))
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, function, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void the_owner_keeps_it_after_a_stranger(void **state)
{
	if (!owned())
		skip();
	run(take_once);
	vipl_lock(&lock);
	assert_int_equal(lock.held, 1);
	assert_int_equal(counter, 1);
	vipl_unlock(&lock);
}

static void *take_often(void *ignored)
{
	for (int i = 0; i < ROUNDS; i++) {
		vipl_lock_often(&lock);
		counter++;
		vipl_unlock(&lock);
	}
	return NULL;
}

static void after_many_strangers_nobody_owns_it(void **state)
{
	if (!owned())
		skip();
	run(take_often);
	assert_int_equal(lock.owner, 0);
	vipl_lock_often(&lock);
	assert_int_equal(lock.taken, 1);
	assert_int_equal(lock.held, 0);
	vipl_unlock(&lock);
	assert_int_equal(lock.owner, 0);
	assert_int_equal(lock.taken, 0);
	assert_int_equal(counter, ROUNDS);
}

static void *be_a_stranger(void *count)
{
	struct timespec moment = {.tv_nsec = 20000};

	for (unsigned *left = count; *left; --*left) {
		nanosleep(&moment, NULL);
		take_once(NULL);
	}
	atomic_store(&over, true);
	return NULL;
}

/* Few strangers, each of whom holds the owner off; then more than make it nobody's. */
static void one_thread_at_a_time_has_it(void **state)
{
	static const unsigned strangers[] = {50, 500};
	unsigned own = 0, all = 0;

	owned();
	for (int i = 0; i < 2; i++) {
		unsigned left = strangers[i];
		pthread_t thread;

		atomic_store(&over, false);
		assert_int_equal(pthread_create(&thread, NULL, be_a_stranger, &left), 0);
		while (!atomic_load(&over)) {
			vipl_lock_often(&lock);
			counter++;
			vipl_unlock(&lock);
			own++;
		}
		assert_int_equal(pthread_join(thread, NULL), 0);
		all += strangers[i];
		assert_int_equal(counter, own + all);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(who_takes_it_often_owns_it, make_anew),
		cmocka_unit_test_setup(the_owner_keeps_it_after_a_stranger, make_anew),
		cmocka_unit_test_setup(after_many_strangers_nobody_owns_it, make_anew),
		cmocka_unit_test_setup(one_thread_at_a_time_has_it, make_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
