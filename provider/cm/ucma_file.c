/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Open rdma_cm files: making and closing them, and what becomes of them in a forked child, which
 * finds files of another generation than its own and leaves everything behind them alone. Any
 * thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cm/address.h"
#include "cm/id.h"
#include "cm/kernel.h"
#include "cm/manager.h"
#include "cm/ucma_command.h"
#include "hca/adapter.h"
#include "host/fd.h"
#include "host/fd_files.h"
#include "host/libc.h"

typedef _Atomic unsigned number;

/* Of this process, on a page that is zero in a child: not every fork calls its handlers. */
static _Atomic(number *) generation;
static unsigned generations;

bool urxe_ucma_is_stale(const struct urxe_ucma *file)
{
	return file->generation != atomic_load(atomic_load(&generation));
}

static int make_generation(void)
{
	number *none = NULL, *page;

	if (atomic_load(&generation))
		return 0;
	page = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return -ENOMEM;
	madvise(page, sysconf(_SC_PAGESIZE), MADV_WIPEONFORK);
	atomic_store(page, 1);
	generations = 1;
	if (!atomic_compare_exchange_strong(&generation, &none, page))
		munmap(page, sysconf(_SC_PAGESIZE));
	return 0;
}

static int open_descriptors(struct urxe_ucma *file)
{
	struct epoll_event event = {.events = EPOLLIN};
	int ret;

	file->event_fd = urxe_fd_keep(urxe_libc.eventfd(0, EFD_CLOEXEC));
	if (file->event_fd < 0)
		return -errno;
	file->fd = urxe_libc.epoll_create1(EPOLL_CLOEXEC);
	if (file->fd >= 0 && !urxe_libc.epoll_ctl(file->fd, EPOLL_CTL_ADD, file->event_fd, &event))
		return 0;
	ret = -errno;
	if (file->fd >= 0)
		urxe_libc.close(file->fd);
	urxe_fd_close(file->event_fd);
	return ret;
}

/* Where the manager cannot run now, it is tried again when an id is made. */
void urxe_ucma_hold_manager(struct urxe_ucma *file)
{
	bool had;

	if (file->manager || urxe_manager_get())
		return;
	urxe_engine_lock();
	had = file->manager;
	file->manager = true;
	urxe_engine_unlock();
	if (had)
		urxe_manager_put();
}

int urxe_ucma_open(struct urxe_ucma **out)
{
	struct urxe_ucma *file;
	int ret = make_generation();

	if (ret)
		return ret;
	file = calloc(1, sizeof(*file));
	if (!file)
		return -ENOMEM;
	/* A process that only listens on any address may have to end the connections of a dead
	 * one. */
	urxe_address_prepare();
	file->generation = atomic_load(atomic_load(&generation));
	atomic_store(&file->users, 1);
	CDS_INIT_LIST_HEAD(&file->ids);
	CDS_INIT_LIST_HEAD(&file->events);
	file->kernel_fd = -1;
	pthread_mutex_init(&file->fetching, NULL);
	ret = open_descriptors(file);
	if (ret) {
		free(file);
		return ret;
	}
	urxe_ucma_hold_manager(file);
	*out = file;
	return 0;
}

int urxe_ucma_fd(const struct urxe_ucma *file)
{
	return file->fd;
}

static void hold(void *file)
{
	atomic_fetch_add(&((struct urxe_ucma *)file)->users, 1);
}

static void drop(void *file)
{
	urxe_ucma_close(file);
}

struct urxe_fd_files urxe_ucma_fds = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.hold = hold,
	.drop = drop,
};

static void destroy_ids(struct urxe_ucma *file)
{
	urxe_engine_lock();
	/* A listener may take others with it: begin anew each time. */
	while (!cds_list_empty(&file->ids))
		urxe_id_destroy(cds_list_first_entry(&file->ids, struct urxe_id, node));
	urxe_engine_unlock();
}

void urxe_ucma_close(struct urxe_ucma *file)
{
	if (atomic_fetch_sub(&file->users, 1) != 1)
		return;
	if (!urxe_ucma_is_stale(file)) {
		urxe_kernel_close(file);
		destroy_ids(file);
		if (file->manager)
			urxe_manager_put();
	} else {
		urxe_fd_close(file->kernel_fd);
	}
	urxe_fd_close(file->event_fd);
	free(file);
}

void urxe_ucma_forked(void)
{
	urxe_fd_files_forked(&urxe_ucma_fds);
	if (atomic_load(&generation))
		atomic_store(atomic_load(&generation), ++generations);
	urxe_id_forked();
	urxe_kernel_forked();
	urxe_manager_forked();
}
