// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Small facts about the host and the process. The stat family is interposed by this very library
 * and has changed its names over glibc's versions, so it is called as system calls; not as statx,
 * which sandboxes older than it refuse.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "host/libc.h"
#include "host/sysinfo.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

ssize_t urxe_read_file(const char *path, char *buf, size_t max)
{
	int fd = urxe_libc.open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t n;

	if (fd < 0)
		return -errno;
	do {
		n = urxe_libc.read(fd, buf + len, max - len);
		if (n > 0)
			len += n;
		else if (n < 0 && errno != EINTR)
			break;
	} while (n != 0 && len < max);
	if (n < 0)
		n = -errno;
	else
		n = len < max ? (ssize_t)len : -EFBIG;
	urxe_libc.close(fd);
	if (n >= 0)
		buf[n] = '\0';
	return n;
}

/* ret: of the system call that has filled s. */
static int take(long ret, const struct stat *s, struct urxe_stat *st)
{
	if (ret < 0)
		return -errno;
	*st = (struct urxe_stat){
		.dev = (uint64_t)major(s->st_dev) << 32 | minor(s->st_dev),
		.ino = s->st_ino,
		.size = s->st_size,
		.mode = s->st_mode,
		.uid = s->st_uid,
		.nlink = s->st_nlink,
	};
	return 0;
}

int urxe_stat_at(int dirfd, const char *path, int flags, struct urxe_stat *st)
{
	struct stat s;

	return take(syscall(SYS_newfstatat, dirfd, path, &s, flags), &s, st);
}

/* Several times as fast as the other one with an empty path, for which that takes memory. */
int urxe_fstat(int fd, struct urxe_stat *st)
{
	struct stat s;

	return take(syscall(SYS_fstat, fd, &s), &s, st);
}

uint64_t urxe_netns_inode(void)
{
	struct urxe_stat st;
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);
	int fd;

	if (!urxe_stat_at(AT_FDCWD, "/proc/thread-self/ns/net", 0, &st) ||
	    !urxe_stat_at(AT_FDCWD, "/proc/self/ns/net", 0, &st))
		return st.ino;

	/* No /proc: a socket knows its namespace by another number, as unique. */
	fd = urxe_libc.socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return 0;
	if (urxe_libc.getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len) < 0)
		cookie = 0;
	urxe_libc.close(fd);
	return cookie;
}

static unsigned without(uint64_t *inodes, unsigned num, uint64_t inode)
{
	unsigned left = 0;

	for (unsigned i = 0; i < num; i++)
		if (inodes[i] != inode)
			inodes[left++] = inodes[i];
	return left;
}

static unsigned without_processes(uint64_t *inodes, unsigned num)
{
	DIR *proc = opendir("/proc");
	const struct dirent *e;
	struct urxe_stat st;

	if (!proc)
		return 0;
	while (num && (e = readdir(proc))) {
		char path[sizeof(e->d_name) + sizeof("/ns/net")];

		if (*e->d_name < '1' || *e->d_name > '9')
			continue;
		snprintf(path, sizeof(path), "%s/ns/net", e->d_name);
		if (!urxe_stat_at(dirfd(proc), path, 0, &st))
			num = without(inodes, num, st.ino);
	}
	closedir(proc);
	return num;
}

/* `ip netns add` keeps a namespace by a mount of it: "net:[4026532177]" in the list of mounts. */
static unsigned without_mounts(uint64_t *inodes, unsigned num)
{
	static const char root[] = " net:[";
	size_t size = 64 * 1024;
	char *mounts = NULL;
	ssize_t n;

	do {
		free(mounts);
		size *= 2;
		mounts = malloc(size);
		n = mounts ? urxe_read_file("/proc/self/mountinfo", mounts, size) : -ENOMEM;
	} while (n == -EFBIG);
	if (n < 0)
		num = 0;
	for (const char *at = num ? mounts : NULL; at && (at = strstr(at, root));) {
		at += strlen(root);
		num = without(inodes, num, strtoull(at, NULL, 10));
	}
	free(mounts);
	return num;
}

unsigned urxe_netns_gone(uint64_t *inodes, unsigned num)
{
	uint64_t own = urxe_netns_inode();
	unsigned left = without(inodes, num, own);

	return own && left ? without_mounts(inodes, without_processes(inodes, left)) : 0;
}

bool urxe_process_is_runnable(pid_t pid)
{
	char path[64], stat[512];
	bool runnable = false;
	const struct dirent *e;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = opendir(path);
	while (tasks && !runnable && (e = readdir(tasks))) {
		const char *after_name;

		snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, atoi(e->d_name));
		after_name =
			urxe_read_file(path, stat, sizeof(stat)) > 0 ? strrchr(stat, ')') : NULL;
		runnable = after_name && !strncmp(after_name, ") R", 3);
	}
	if (tasks)
		closedir(tasks);
	return runnable;
}
