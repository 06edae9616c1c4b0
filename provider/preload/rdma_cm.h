/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The device /dev/infiniband/rdma_cm: opening it, and what the hooks on descriptors ask.
 *
 * Any thread.
 */
#ifndef URXE_PRELOAD_RDMA_CM_H
#define URXE_PRELOAD_RDMA_CM_H

#include <stdbool.h>
#include <sys/types.h>

#include "cm/ucma.h"
#include "host/fd_files.h"

/* A descriptor of a new rdma_cm file, or -errno. flags: of open(2). */
int urxe_rdma_cm_open(int flags);

/* The device's number: the kernel's, where the kernel has that device as well. */
dev_t urxe_rdma_cm_rdev(void);

/*
 * Is it an open rdma_cm file of the process that we live in? A descriptor of a vfork child or a
 * bare clone() is not: its table is its own, and the files are its parent's.
 */
bool urxe_rdma_cm_is_fd(int fd);

#endif
