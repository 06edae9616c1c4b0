// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The lock that a thread may own: that thread, others, and handlers of signals. */
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <cmocka.h>

#include "common/owned_lock.h"

#define ROUNDS 20000

static struct owned_lock lock;
static unsigned counter; /* guarded by it */
static atomic_bool over;

static atomic_int sleeps; /* until the shared lock is given back */
static atomic_int yields;

static atomic_bool barriers_forbidden;
static atomic_int barriers; /* that were asked for */
static void (*at_barrier)(int number);

/* In place of libc's. */
long syscall(long number, ...)
{
	static long (*real)(long, ...);
	long a[6];
	va_list args;

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (number == SYS_membarrier && a[0] == MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
		int before = atomic_fetch_add(&barriers, 1);

		if (at_barrier)
			at_barrier(before + 1);
		if (atomic_load(&barriers_forbidden)) {
			errno = EPERM;
			return -1;
		}
	}
	if (number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT)
		atomic_fetch_add(&sleeps, 1);
	if (number == SYS_sched_yield)
		atomic_fetch_add(&yields, 1);
	if (!real)
		real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static int make_anew(void **state)
{
	atomic_store(&barriers_forbidden, false);
	atomic_store(&barriers, 0);
	atomic_store(&sleeps, 0);
	atomic_store(&yields, 0);
	at_barrier = NULL;
	lock = (struct owned_lock){0};
	counter = 0;
	atomic_store(&over, false);
	return 0;
}

/* Where the kernel has no membarrier(2), nobody owns locks. */
static bool owned(void)
{
	owned_lock_init();
	owned_lock_often(&lock);
	owned_unlock(&lock);
	return atomic_load(&lock.owner) == owned_lock_self();
}

static void who_takes_it_often_owns_it(void **state)
{
	owned_lock(&lock);
	owned_unlock(&lock);
	assert_int_equal(lock.owner, 0);
	if (!owned())
		skip();
	owned_lock(&lock);
	assert_int_equal(lock.held, OWNED_LOCK_OWN);
	assert_int_equal(lock.taken, OWNED_LOCK_FREE);
	owned_unlock(&lock);
	assert_int_equal(lock.held, OWNED_LOCK_NOT);
}

static void *take_once(void *ignored)
{
	owned_lock(&lock);
	counter++;
	owned_unlock(&lock);
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
	owned_lock(&lock);
	assert_int_equal(lock.held, OWNED_LOCK_OWN);
	assert_int_equal(counter, 1);
	owned_unlock(&lock);
}

/* Several do, and each is woken. */
static void waiters_sleep_until_it_is_given_back(void **state)
{
	pthread_t threads[3];

	owned_lock(&lock);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, take_once, NULL), 0);
	while (atomic_load(&sleeps) < 3)
		sched_yield();
	assert_int_equal(counter, 0);
	owned_unlock(&lock);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(counter, 3);
	assert_int_equal(yields, 0);
	assert_int_equal(lock.taken, OWNED_LOCK_FREE);
}

static void *take_often(void *ignored)
{
	for (int i = 0; i < ROUNDS; i++) {
		owned_lock_often(&lock);
		counter++;
		owned_unlock(&lock);
	}
	return NULL;
}

static void after_many_strangers_it_is_shared(void **state)
{
	if (!owned())
		skip();
	run(take_often);
	owned_lock_often(&lock);
	assert_int_equal(lock.taken, OWNED_LOCK_TAKEN);
	assert_int_equal(lock.held, OWNED_LOCK_SHARED);
	owned_unlock(&lock);
	assert_int_equal(lock.taken, OWNED_LOCK_FREE);
	assert_int_equal(lock.held, OWNED_LOCK_NOT);
	assert_int_equal(counter, ROUNDS);
}

/* As soon as a while has passed without strangers. */
static void the_owner_gets_it_back(void **state)
{
	if (!owned())
		skip();
	run(take_often);
	do {
		owned_lock_often(&lock);
		counter = lock.held;
		owned_unlock(&lock);
	} while (counter != OWNED_LOCK_OWN);
	run(take_once);
	owned_lock(&lock);
	assert_int_equal(lock.held, OWNED_LOCK_OWN);
	owned_unlock(&lock);
}

static atomic_int tried;

static void try_in_a_handler(int number)
{
	atomic_store(&tried, owned_trylock(&lock, true) ? 1 : -1);
}

static void raise_while_it_is_held(void)
{
	atomic_store(&tried, 0);
	owned_lock_often(&lock);
	raise(SIGUSR1);
	owned_unlock(&lock);
	assert_int_equal(tried, -1);
}

/* By its own way, by the shared lock, and by that after it was given back. */
static void a_handler_does_not_take_it_from_the_thread_that_it_interrupts(void **state)
{
	signal(SIGUSR1, try_in_a_handler);
	raise_while_it_is_held(); /* becomes the owner */
	raise_while_it_is_held();
	run(take_often);
	raise_while_it_is_held();
	owned_lock_often(&lock);
	atomic_store(&lock.revoked, 0);
	raise(SIGUSR1);
	assert_int_equal(tried, -1);
	owned_unlock(&lock);
	assert_true(owned_trylock(&lock, true));
	owned_unlock(&lock);
}

/* Work that is left to the holder when it has the lock is done: by it, or by who has left it. */
static atomic_uint work, done;

static void do_work(void)
{
	unsigned seen;

	do {
		seen = atomic_exchange(&work, 0);
		atomic_fetch_add(&done, seen);
		owned_unlock(&lock);
	} while (atomic_load(&work) && owned_trylock(&lock, true));
}

static void *leave_work(void *ignored)
{
	for (int i = 0; i < ROUNDS; i++) {
		atomic_fetch_add(&work, 1);
		if (owned_trylock(&lock, true))
			do_work();
	}
	return NULL;
}

static void no_work_is_left(void **state)
{
	pthread_t threads[2];

	atomic_store(&work, 0);
	atomic_store(&done, 0);
	owned();
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, leave_work, NULL), 0);
	leave_work(NULL);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(work, 0);
	assert_int_equal(done, 3 * ROUNDS);
}

static atomic_bool is_back;

/* The one that tries has found the owner at work, and has given the shared lock back. */
static void wait_for_the_owner(int number)
{
	if (number != 2)
		return;
	atomic_store(&over, true);
	while (!atomic_load(&is_back))
		sched_yield();
}

static void *try_and_leave_work(void *ignored)
{
	atomic_fetch_add(&work, 1);
	if (owned_trylock(&lock, true))
		do_work();
	atomic_store(&over, true);
	return NULL;
}

/* The owner may have found it taken by the one that tried, and have left its work to that. */
static void who_tried_in_vain_looks_again(void **state)
{
	pthread_t thread;

	if (!owned())
		skip();
	atomic_store(&work, 0);
	atomic_store(&is_back, false);
	at_barrier = wait_for_the_owner;
	owned_lock_often(&lock);
	assert_int_equal(pthread_create(&thread, NULL, try_and_leave_work, NULL), 0);
	while (!atomic_load(&over))
		sched_yield();
	owned_unlock(&lock);
	atomic_store(&is_back, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(work, 0);
}

/* By a filter of system calls that the program has set up later. */
static void without_barriers_it_is_shared(void **state)
{
	if (!owned())
		skip();
	atomic_store(&barriers_forbidden, true);
	run(take_once);
	owned_lock(&lock);
	assert_int_equal(lock.held, OWNED_LOCK_SHARED);
	owned_unlock(&lock);
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
			owned_lock_often(&lock);
			counter++;
			owned_unlock(&lock);
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
		cmocka_unit_test_setup(waiters_sleep_until_it_is_given_back, make_anew),
		cmocka_unit_test_setup(after_many_strangers_it_is_shared, make_anew),
		cmocka_unit_test_setup(the_owner_gets_it_back, make_anew),
		cmocka_unit_test_setup(
			a_handler_does_not_take_it_from_the_thread_that_it_interrupts, make_anew),
		cmocka_unit_test_setup(no_work_is_left, make_anew),
		cmocka_unit_test_setup(who_tried_in_vain_looks_again, make_anew),
		cmocka_unit_test_setup(without_barriers_it_is_shared, make_anew),
		cmocka_unit_test_setup(one_thread_at_a_time_has_it, make_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
