// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The tables of fd_files.h: an array of files by descriptor, as large as numbers may become, of
 * which the system backs the pages that are used.
 *
 * lock guards the entries against being dropped while somebody takes a reference. Entries are read
 * without it to see that there is none.
 */
#include <errno.h>
#include <sys/mman.h>

#include "host/fd_files.h"
#include "host/libc.h"

#define MAX_FDS (1 << 20)

typedef _Atomic(void *) entry;

static entry *entry_of(struct urxe_fd_files *files, int fd)
{
	entry *entries = atomic_load_explicit(&files->entries, memory_order_acquire);

	return entries && fd >= 0 && fd < MAX_FDS ? &entries[fd] : NULL;
}

bool urxe_fd_files_listed(struct urxe_fd_files *files, int fd)
{
	entry *e = entry_of(files, fd);

	return e && atomic_load_explicit(e, memory_order_acquire);
}

static int make_table(struct urxe_fd_files *files)
{
	void *p;

	if (atomic_load(&files->entries))
		return 0;
	p = mmap(NULL, MAX_FDS * sizeof(entry), PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	atomic_store(&files->entries, p);
	return 0;
}

int urxe_fd_files_add(struct urxe_fd_files *files, int fd, void *file)
{
	void *old = NULL;
	int ret = fd < MAX_FDS ? 0 : -EMFILE;

	pthread_mutex_lock(&files->lock);
	if (!ret)
		ret = make_table(files);
	if (!ret) {
		old = atomic_exchange(entry_of(files, fd), file);
		if (!old)
			atomic_fetch_add(&files->num, 1);
		if (fd > files->highest)
			files->highest = fd;
	}
	pthread_mutex_unlock(&files->lock);
	if (ret) {
		urxe_libc.close(fd);
		old = file;
	}
	if (old)
		files->drop(old);
	return ret;
}

void *urxe_fd_files_remove(struct urxe_fd_files *files, int fd)
{
	void *file;

	if (!urxe_fd_files_has(files, fd))
		return NULL;
	pthread_mutex_lock(&files->lock);
	file = atomic_exchange(entry_of(files, fd), NULL);
	if (file)
		atomic_fetch_sub(&files->num, 1);
	pthread_mutex_unlock(&files->lock);
	return file;
}

void *urxe_fd_files_get(struct urxe_fd_files *files, int fd)
{
	void *file;

	if (!urxe_fd_files_has(files, fd))
		return NULL;
	pthread_mutex_lock(&files->lock);
	file = atomic_load(entry_of(files, fd));
	if (file)
		files->hold(file);
	pthread_mutex_unlock(&files->lock);
	return file;
}

int urxe_fd_files_copied(struct urxe_fd_files *files, int old, int fd)
{
	void *file = fd < 0 ? NULL : urxe_fd_files_get(files, old);
	int ret = file ? urxe_fd_files_add(files, fd, file) : 0;

	if (!ret)
		return fd;
	errno = -ret;
	return -1;
}

void urxe_fd_files_swept(struct urxe_fd_files *files, unsigned first, unsigned last)
{
	void *file;

	for (long fd = first; atomic_load(&files->num) && fd <= last && fd <= files->highest;
	     fd++) {
		file = urxe_fd_files_remove(files, fd);
		if (file)
			files->drop(file);
	}
}

void urxe_fd_files_forked(struct urxe_fd_files *files)
{
	pthread_mutex_init(&files->lock, NULL);
}
