/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Small facts about the host and the process. Any thread; nothing is kept.
 */
#ifndef URXE_HOST_SYSINFO_H
#define URXE_HOST_SYSINFO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Reads a file of at most max - 1 bytes whole and ends it with a NUL. Returns its length, or
 * -errno (-EFBIG when it is longer).
 */
ssize_t urxe_read_file(const char *path, char *buf, size_t max);

/* The calling thread's network namespace: its inode as in /proc/self/ns/net; 0 if unknown. */
uint64_t urxe_netns_inode(void);

/* What fstat(2) says, past every interposed function: -errno on failure. */
struct urxe_stat {
	uint64_t dev, ino, size;
	uint32_t mode, uid, nlink;
};
int urxe_fstat(int fd, struct urxe_stat *st);

#endif
