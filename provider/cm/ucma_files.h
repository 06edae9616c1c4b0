/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Which of the program's descriptors are open rdma_cm files. A descriptor holds a reference to its
 * file, as in the kernel; copies of it (dup) hold one each.
 *
 * Looking at a descriptor that is none of them takes one load, without a lock, so that this can
 * stand in front of every write() and close(), in a signal handler as well. A lock guards what is
 * in the table; it is held for a few instructions.
 */
#ifndef URXE_CM_UCMA_FILES_H
#define URXE_CM_UCMA_FILES_H

#include <stdatomic.h>
#include <stdbool.h>

#include "cm/ucma.h"

/* How many descriptors are; read by the inline function alone. */
extern atomic_uint urxe_ucma_num_fds;
bool urxe_ucma_listed(int fd);

/* Is it one? Any thread. */
static inline bool urxe_ucma_is_fd(int fd)
{
	return __builtin_expect(atomic_load_explicit(&urxe_ucma_num_fds, memory_order_relaxed) != 0,
				0) &&
	       urxe_ucma_listed(fd);
}

/* Lists a descriptor; takes over the caller's reference. What stood there before is dropped (it was
 * closed without our notice). -EMFILE: a number too high for the table; -ENOMEM. */
int urxe_ucma_fd_add(int fd, struct urxe_ucma *file);
/*
 * Takes a descriptor out before it is closed; the caller closes the file that is returned, once the
 * descriptor is closed. NULL: it was none.
 */
struct urxe_ucma *urxe_ucma_fd_remove(int fd);
/* The lowest listed descriptor at or above first; -1: none. */
int urxe_ucma_fd_next(int first);
/* In the child of a fork: the lock may have been held by a thread that is not here. */
void urxe_ucma_fds_forked(void);

#endif
