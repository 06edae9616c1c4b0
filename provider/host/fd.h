/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The library's own descriptors. They live at high numbers, so that the program finds the low ones
 * it expects, and are listed, so that a program which closes "all" descriptors does not take them.
 * Any thread; no lock.
 */
#ifndef URXE_HOST_FD_H
#define URXE_HOST_FD_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Makes a descriptor just opened one of ours: moves it to a high number where the limit on open
 * files allows it, sets close-on-exec, lists it. Returns its number; a negative fd is passed
 * through with errno untouched.
 */
int urxe_fd_keep(int fd);
/* Closes one of ours; -1 is accepted and ignored. */
void urxe_fd_close(int fd);
bool urxe_fd_is_ours(int fd);

/*
 * Gives a file its size: 0, or -1 with errno. EFBIG: RLIMIT_FSIZE forbids it, for which the kernel
 * would send a signal that ends the program.
 */
int urxe_fd_size(int fd, size_t bytes);

/* A memfd of that many zeros, sealed against another size, as one of ours: -1 with errno, as
 * above. */
int urxe_fd_memfd(const char *name, size_t bytes);

#endif
