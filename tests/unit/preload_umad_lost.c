// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The thread that connects umad files again (umad_lost.c), with files
 * and a fabric of the test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/fd.h"
#include "host/libc.h"
#include "preload/umad.h"

static struct urxe_umad first, second;
static atomic_uint connected;

static void lose(struct urxe_umad *file)
{
	pthread_mutex_lock(&file->lock);
	file->sock = -1;
	urxe_umad_file_lost(file);
	pthread_mutex_unlock(&file->lock);
}

int urxe_umad_file_connect(struct urxe_umad *file)
{
	file->sock = 1000;
	atomic_fetch_add(&connected, 1);
	return 0;
}

void urxe_umad_rings_end(struct urxe_umad *file)
{
}

/* The second file is lost when the thread has looked at all for what it takes for the last time. */
void urxe_umad_each(void (*fn)(struct urxe_umad *file, void *arg), void *arg)
{
	static bool lost;

	fn(&first, arg);
	fn(&second, arg);
	if (!lost)
		lose(&second);
	lost = true;
}

static void a_file_lost_while_the_thread_ends_is_connected_again(void **state)
{
	urxe_libc_init();
	pthread_mutex_init(&first.lock, NULL);
	pthread_mutex_init(&second.lock, NULL);
	first.event = second.event = -1;
	second.sock = 1000;
	lose(&first);
	for (unsigned i = 0; atomic_load(&connected) < 2 && i < 5000; i++)
		usleep(1000);
	assert_int_equal(atomic_load(&connected), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_lost_while_the_thread_ends_is_connected_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
