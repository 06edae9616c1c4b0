/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Which of the program's descriptors are open files of a device of ours (rdma_cm, umad). A
 * descriptor holds a reference to its file, as in the kernel; copies of it (dup) hold one each.
 *
 * Looking at a descriptor that is none of them takes one load, without a lock, so that this can
 * stand in front of every write() and close(), in a signal handler as well. A lock guards what is
 * in the table; it is held for a few instructions.
 */
#ifndef URXE_HOST_FD_FILES_H
#define URXE_HOST_FD_FILES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* A table: zeros, but the lock and what takes and drops a reference to a file. */
struct urxe_fd_files {
	pthread_mutex_t lock;
	void (*hold)(void *file);
	void (*drop)(void *file);
	atomic_uint num; /* descriptors */
	_Atomic(_Atomic(void *) *) entries;
	int highest; /* ever listed */
};

bool urxe_fd_files_listed(struct urxe_fd_files *files, int fd);

/* Is it one? Any thread. */
static inline bool urxe_fd_files_has(struct urxe_fd_files *files, int fd)
{
	return __builtin_expect(atomic_load_explicit(&files->num, memory_order_relaxed) != 0, 0) &&
	       urxe_fd_files_listed(files, fd);
}

/*
 * Lists a descriptor; takes over the caller's reference. What stood there before is dropped (it was
 * closed without our notice). When it cannot be listed, it is closed and the file dropped: -EMFILE:
 * a number too high for the table; -ENOMEM.
 */
int urxe_fd_files_add(struct urxe_fd_files *files, int fd, void *file);
/*
 * Takes a descriptor out before it is closed; the caller drops the file that is returned, once the
 * descriptor is closed. NULL: it was none.
 */
void *urxe_fd_files_remove(struct urxe_fd_files *files, int fd);
/* The file behind it, with a reference held that the caller drops; NULL. */
void *urxe_fd_files_get(struct urxe_fd_files *files, int fd);
/* fd is a copy of old, just made, or negative for none: lists it, if old is listed. Returns fd,
 * or -1 with errno when it could not be listed. */
int urxe_fd_files_copied(struct urxe_fd_files *files, int old, int fd);
/* For the functions that close descriptors by ranges: takes all files out that have been closed. */
void urxe_fd_files_swept(struct urxe_fd_files *files, unsigned first, unsigned last);
/* In the child of a fork: the lock may have been held by a thread that is not here. */
void urxe_fd_files_forked(struct urxe_fd_files *files);

#endif
