// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The table of ucma_files.h: an array of files by descriptor, as large as numbers may become, of
 * which the system backs the pages that are used.
 *
 * lock guards the entries against being dropped while somebody takes a reference. Entries are read
 * without it to see that there is none.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#include "cm/ucma_files.h"

#define MAX_FDS (1 << 20)

typedef _Atomic(struct urxe_ucma *) entry;

atomic_uint urxe_ucma_num_fds;
static _Atomic(entry *) table;
static int highest = -1; /* ever listed */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static entry *entry_of(int fd)
{
	entry *entries = atomic_load_explicit(&table, memory_order_acquire);

	return entries && fd >= 0 && fd < MAX_FDS ? &entries[fd] : NULL;
}

bool urxe_ucma_listed(int fd)
{
	entry *e = entry_of(fd);

	return e && atomic_load_explicit(e, memory_order_acquire);
}

static int make_table(void)
{
	void *p;

	if (atomic_load(&table))
		return 0;
	p = mmap(NULL, MAX_FDS * sizeof(entry), PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	atomic_store(&table, p);
	return 0;
}

int urxe_ucma_fd_add(int fd, struct urxe_ucma *file)
{
	struct urxe_ucma *old = NULL;
	int ret;

	if (fd < 0 || fd >= MAX_FDS)
		return -EMFILE;
	pthread_mutex_lock(&lock);
	ret = make_table();
	if (!ret) {
		old = atomic_exchange(entry_of(fd), file);
		if (!old)
			atomic_fetch_add(&urxe_ucma_num_fds, 1);
		if (fd > highest)
			highest = fd;
	}
	pthread_mutex_unlock(&lock);
	if (old)
		urxe_ucma_close(old);
	return ret;
}

struct urxe_ucma *urxe_ucma_fd_remove(int fd)
{
	struct urxe_ucma *file;

	if (!urxe_ucma_is_fd(fd))
		return NULL;
	pthread_mutex_lock(&lock);
	file = atomic_exchange(entry_of(fd), NULL);
	if (file)
		atomic_fetch_sub(&urxe_ucma_num_fds, 1);
	pthread_mutex_unlock(&lock);
	return file;
}

struct urxe_ucma *urxe_ucma_of_fd(int fd)
{
	struct urxe_ucma *file;

	if (!urxe_ucma_is_fd(fd))
		return NULL;
	pthread_mutex_lock(&lock);
	file = atomic_load(entry_of(fd));
	if (file)
		urxe_ucma_hold(file);
	pthread_mutex_unlock(&lock);
	return file;
}

int urxe_ucma_fd_next(int first)
{
	int fd = -1;

	if (!atomic_load(&urxe_ucma_num_fds))
		return -1;
	pthread_mutex_lock(&lock);
	for (int i = first < 0 ? 0 : first; i <= highest && fd < 0; i++)
		if (atomic_load(entry_of(i)))
			fd = i;
	pthread_mutex_unlock(&lock);
	return fd;
}

void urxe_ucma_fds_forked(void)
{
	pthread_mutex_init(&lock, NULL);
}
