// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Windows (segment_window.h): their files. Nothing is kept here, so there is nothing to lock; a
 * slot's windows are made by its owner, and removed by it or, under the segment lock, by the
 * process that reaps it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/fd.h"
#include "host/libc.h"
#include "host/segment_layout.h"
#include "host/segment_window.h"
#include "host/sysinfo.h"

int urxe_window_create(struct urxe_segment *seg, enum urxe_window_kind kind, size_t size)
{
	char name[SEGMENT_NAME_LEN];
	int fd, ret;

	if (!seg->slot)
		return -ENODEV;
	segment_slot_file(seg, kind, seg->slot, name);
	unlink(name);
	fd = urxe_libc.open(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (!urxe_fd_size(fd, size))
		return fd;
	ret = -errno;
	urxe_libc.close(fd);
	unlink(name);
	return ret;
}

int urxe_window_open(struct urxe_segment *seg, unsigned slot, enum urxe_window_kind kind,
		     bool writable, size_t size)
{
	int flags = (writable ? O_RDWR : O_RDONLY) | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, fd, ret;
	char name[SEGMENT_NAME_LEN];
	struct urxe_stat st;

	segment_slot_file(seg, kind, slot, name);
	fd = urxe_libc.open(name, flags);
	if (fd < 0)
		return -errno;
	ret = urxe_fstat(fd, &st);
	if (!ret && (st.uid != geteuid() || !S_ISREG(st.mode)))
		ret = -EACCES;
	if (!ret && st.size < size)
		ret = -EPROTO;
	if (!ret)
		return fd;
	urxe_libc.close(fd);
	return ret;
}

int urxe_window_back(int fd, size_t offset, size_t len)
{
	return -posix_fallocate(fd, offset, len);
}

void *urxe_window_map(int fd, size_t offset, size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, offset);

	if (p == MAP_FAILED)
		return NULL;
	madvise(p, len, MADV_DONTFORK);
	return p;
}

static void remove_name(const struct urxe_segment *seg, enum urxe_window_kind kind, unsigned slot)
{
	char name[SEGMENT_NAME_LEN];

	segment_slot_file(seg, kind, slot, name);
	unlink(name);
}

void urxe_window_remove(struct urxe_segment *seg, enum urxe_window_kind kind)
{
	if (seg->slot)
		remove_name(seg, kind, seg->slot);
}

void segment_windows_forget(struct urxe_segment *seg, unsigned slot)
{
	remove_name(seg, URXE_WINDOW_RINGS, slot);
	remove_name(seg, URXE_WINDOW_TABLES, slot);
}
