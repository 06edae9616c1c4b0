/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * An open rdma_cm file: what a program (librdmacm) has after opening /dev/infiniband/rdma_cm. It
 * writes commands of <rdma/rdma_user_cm.h> (ABI 4) and waits for events by polling the descriptor
 * and by the command GET_EVENT. Semantics and errno values are those of the kernel's.
 *
 * A file is counted: open gives the first reference, its descriptors and calls further ones, and
 * when urxe_ucma_close() drops the last, the ids that are still on it are destroyed. The floor
 * above holds one for each descriptor of the program and one around each write, as the kernel does.
 *
 * Any thread may call any of these; none may hold the engine lock.
 */
#ifndef URXE_CM_UCMA_H
#define URXE_CM_UCMA_H

#include <sys/types.h>

struct urxe_ucma;

/*
 * Opens a file. The first one of the process starts the engine; where that cannot be done (port
 * 4791 is taken), ids can still be created and fail later, as with no device. -errno: -EMFILE,
 * -ENFILE, -ENOMEM.
 */
int urxe_ucma_open(struct urxe_ucma **file);

/*
 * The program's descriptor, made by open: an epoll descriptor that is readable when an event
 * waits. It is close-on-exec and belongs to the caller, which closes it (and its copies).
 */
int urxe_ucma_fd(const struct urxe_ucma *file);

/*
 * Carries out a command. fd is the descriptor that the program wrote to: without O_NONBLOCK on it,
 * GET_EVENT waits (a cancellation point; -EINTR as read(2)). Returns len, or -errno: -EINVAL for
 * an unknown command or a bad length, -EFAULT, -ENOENT for an unknown id, -ENODEV in the child of a
 * fork, and others as the command has them.
 */
ssize_t urxe_ucma_write(struct urxe_ucma *file, int fd, const void *buf, size_t len);

void urxe_ucma_close(struct urxe_ucma *file);

/* In the child of a fork, before urxe_forked(): inherited files answer -ENODEV from now on, and
 * closing them disturbs nobody. */
void urxe_ucma_forked(void);

/* The program's descriptors of such files. */
extern struct urxe_fd_files urxe_ucma_fds;

#endif
