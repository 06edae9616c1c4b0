/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Small facts about the host and the process. Any thread; nothing is kept.
 */
#ifndef URXE_HOST_SYSINFO_H
#define URXE_HOST_SYSINFO_H

#include <stdbool.h>
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

/*
 * Which of these network namespaces, named by their inodes, are gone? Leaves those in the list in
 * which no process can be seen, and that no mount can be seen to keep; returns how many: none
 * where that cannot be found out. One kept by processes of a pid namespace beside ours, or by a
 * mount or a descriptor of theirs, cannot be seen. The caller's is never among them.
 */
unsigned urxe_netns_gone(uint64_t *inodes, unsigned num);

/* Has a process a thread that runs or waits for a processor? Some system calls a thread. */
bool urxe_process_is_runnable(pid_t pid);

/* What fstatat(2) and fstat(2) say, past every interposed function: -errno on failure. */
struct urxe_stat {
	uint64_t dev, ino, size;
	uint32_t mode, uid, nlink;
};
int urxe_stat_at(int dirfd, const char *path, int flags, struct urxe_stat *st);
int urxe_fstat(int fd, struct urxe_stat *st);

#endif
