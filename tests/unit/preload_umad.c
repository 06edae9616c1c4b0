// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The table of umad files (umad.c), with files of the test's, which do nothing. */
#include <dlfcn.h>
#include <fcntl.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/libc.h"
#include "preload/files.h"
#include "preload/umad.h"

atomic_bool urxe_attached;
pid_t urxe_owner_pid;

static atomic_uint num_closed;
static sem_t begun, may_end;

struct urxe_files_next urxe_files_next_table;
atomic_bool urxe_files_next_ready;

void urxe_files_next_init(void)
{
	urxe_files_next_table.read_ = dlsym(RTLD_NEXT, "read");
	urxe_files_next_table.ioctl_ = dlsym(RTLD_NEXT, "ioctl");
}

void urxe_agents_forked(void)
{
}

void urxe_umad_lost_forked(void)
{
}

int urxe_umad_file_open(const struct urxe_umad_port *port, struct urxe_umad **file)
{
	*file = calloc(1, sizeof(**file));
	atomic_init(&(*file)->refs, 1);
	(*file)->fd = open("/dev/null", O_RDONLY);
	return 0;
}

void urxe_umad_file_close(struct urxe_umad *file)
{
	close(file->fd);
	free(file);
	atomic_fetch_add(&num_closed, 1);
}

ssize_t urxe_umad_file_read(struct urxe_umad *file, void *buf, size_t len)
{
	return 7;
}

ssize_t urxe_umad_file_write(struct urxe_umad *file, const void *buf, size_t len)
{
	return 8;
}

int urxe_umad_file_ioctl(struct urxe_umad *file, unsigned long request, void *arg)
{
	return 0;
}

void urxe_umad_file_forked(struct urxe_umad *file)
{
}

/* As a fabric that is stopped keeps a file waiting that connects. */
static void wait_at(struct urxe_umad *file, void *arg)
{
	atomic_fetch_add((atomic_uint *)arg, 1);
	sem_post(&begun);
	sem_wait(&may_end);
}

static void *look_at_all(void *arg)
{
	urxe_umad_each(wait_at, arg);
	return NULL;
}

static void files_can_be_used_and_closed_while_one_waits_for_the_fabric(void **state)
{
	const struct urxe_umad_port port = {};
	atomic_uint looked_at = 0;
	pthread_t thread;
	int first, second;
	char byte;

	alarm(20); /* it stands still otherwise */
	first = urxe_umad_open(&port, 0);
	second = urxe_umad_open(&port, 0);
	assert_int_equal(pthread_create(&thread, NULL, look_at_all, &looked_at), 0);
	sem_wait(&begun);
	assert_int_equal(read(first, &byte, 1), 7);
	assert_int_equal(urxe_umad_write(second, &byte, 1), 8);
	urxe_umad_fds.drop(urxe_fd_files_remove(&urxe_umad_fds, first));
	urxe_umad_fds.drop(urxe_fd_files_remove(&urxe_umad_fds, second));
	/* That which is being looked at is closed later; the other is not looked at any more. */
	assert_int_equal(atomic_load(&num_closed), 1);
	sem_post(&may_end);
	pthread_join(thread, NULL);
	assert_int_equal(atomic_load(&looked_at), 1);
	assert_int_equal(atomic_load(&num_closed), 2);
	close(first);
	close(second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_can_be_used_and_closed_while_one_waits_for_the_fabric),
	};

	urxe_libc_init();
	urxe_owner_pid = getpid();
	sem_init(&begun, 0, 0);
	sem_init(&may_end, 0, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
