// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The host segment's file: where it lies, that it is really ours, how it is made, and its locks.
 *
 * It lies in $URXE_RUNTIME_DIR, else in /dev/shm, else in $XDG_RUNTIME_DIR, else in /tmp, under the
 * name urxe-<uid>-<inode of the network namespace>, or urxe-<uid>-fabric-<hash of its name>. All
 * but the first may be writable by other users, which could put something there before us: so links
 * are not followed, and a file of another owner is refused.
 *
 * The file is kept when the last process leaves (it is small, holds the retired counters, and
 * is gone at the next boot). Only that of a fabric that is down, that of a network namespace
 * that is gone, and one of another version, are removed when nobody uses them, under their lock
 * and with what is beside them; therefore a process that has waited for the lock checks that
 * the file still has its name.
 *
 * Any thread; the callers in segment.c hold their locks.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/outer_user.h"
#include "host/fabric.h"
#include "host/fd.h"
#include "host/libc.h"
#include "host/log.h"
#include "host/segment_layout.h"
#include "host/siphash.h"
#include "host/sysinfo.h"

#define MAX_RETRIES 100
#define AT_ONCE	    64 /* segments of other namespaces for which /proc is read once */
/* The kernel gives namespaces numbers from here on; below are cookies (urxe_netns_inode()). */
#define NETNS_FIRST 0xe0000000u

static int byte_lock(int fd, int cmd, short type, unsigned first, unsigned num, struct flock *fl)
{
	int ret;

	*fl = (struct flock){.l_type = type, .l_start = first, .l_len = num};
	do
		ret = urxe_libc.fcntl(fd, cmd, fl);
	while (ret < 0 && errno == EINTR);
	return ret < 0 ? -errno : 0;
}

int segment_file_lock(int fd, unsigned byte, bool try)
{
	struct flock fl;
	int ret = byte_lock(fd, try ? F_OFD_SETLK : F_OFD_SETLKW, F_WRLCK, byte, 1, &fl);

	return ret == -EACCES ? -EAGAIN : ret;
}

void segment_file_unlock(int fd, unsigned byte)
{
	struct flock fl;

	byte_lock(fd, F_OFD_SETLK, F_UNLCK, byte, 1, &fl);
}

bool segment_file_locked(int fd, unsigned first, unsigned num)
{
	struct flock fl;

	return byte_lock(fd, F_OFD_GETLK, F_WRLCK, first, num, &fl) || fl.l_type != F_UNLCK;
}

int segment_file_allocate(struct urxe_segment *seg, int fd, off_t offset, off_t len)
{
	int ret;

	do
		ret = posix_fallocate(fd, offset, len);
	while (ret == EINTR);
	if (ret == ENOSPC)
		urxe_log(URXE_LOG_ERROR,
			 "no room for %s (%ld KiB more): free some there, or name another folder "
			 "in URXE_RUNTIME_DIR",
			 seg->path, (long)len / 1024);
	else if (ret)
		urxe_log(URXE_LOG_ERROR, "cannot allocate %s: %s", seg->path, strerror(ret));
	return -ret;
}

static bool is_private(const struct urxe_stat *st)
{
	return S_ISREG(st->mode) && st->uid == geteuid() && !(st->mode & 077);
}

/* Refuses what somebody else put under the segment's name. */
static int check_owner(const struct urxe_segment *seg, const struct urxe_stat *st)
{
	if (is_private(st))
		return 0;
	urxe_log(URXE_LOG_ERROR,
		 "%s is not a private file of this user (owner %u, mode %o): have it removed, or "
		 "name another folder in URXE_RUNTIME_DIR",
		 seg->path, st->uid, st->mode & 07777);
	return -EACCES;
}

/* Opens seg->path. -ENOENT: it is not there (or cannot be made there): try the next folder. */
static int open_path(const struct urxe_segment *seg, int flags, struct urxe_stat *st)
{
	int fd = urxe_libc.open(seg->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | flags,
				0600);
	int ret = fd < 0 ? -errno : urxe_fstat(fd, st);
	bool known = !ret;

	/* Is it the folder that refuses, or a file that somebody put there? */
	if (fd < 0 && ret != -EMFILE && ret != -ENFILE && ret != -ENOMEM && ret != -ENOSPC) {
		if (urxe_stat_at(AT_FDCWD, seg->path, AT_SYMLINK_NOFOLLOW, st))
			return -ENOENT;
		known = true;
	}
	if (known && check_owner(seg, st)) {
		if (fd >= 0)
			urxe_libc.close(fd);
		return -EACCES;
	}
	if (!ret)
		return fd;
	if (fd >= 0)
		urxe_libc.close(fd);
	if (ret == -EROFS || ret == -EACCES || ret == -EPERM)
		urxe_log(
			URXE_LOG_ERROR,
			"cannot open %s: %s: let this process write there, or name another folder, "
			"the same for all that are to share the device, in URXE_RUNTIME_DIR",
			seg->path, strerror(-ret));
	else
		urxe_log(URXE_LOG_ERROR, "cannot open %s: %s", seg->path, strerror(-ret));
	return ret;
}

/* What processes that share a segment have in common: the network namespace; or the fabric, whose
 * hosts may have namespaces of their own. */
static uint64_t host_id(void)
{
	static const uint64_t key[2] = {0x75727865, 0x666162};
	const char *fabric = getenv("URXE_FABRIC");

	return urxe_fabric_wanted() ? urxe_siphash(key, fabric, strlen(fabric))
				    : urxe_netns_inode();
}

static int open_anywhere(struct urxe_segment *seg, int flags, struct urxe_stat *st)
{
	const char *named = getenv("URXE_RUNTIME_DIR");
	const char *dirs[] = {"/dev/shm", getenv("XDG_RUNTIME_DIR"), "/tmp"};
	unsigned num = sizeof(dirs) / sizeof(dirs[0]);

	if (named && *named) {
		dirs[0] = named;
		num = 1;
	}
	for (unsigned i = 0; i < num; i++) {
		int n, fd;

		if (!dirs[i] || !*dirs[i])
			continue;
		n = snprintf(seg->path, sizeof(seg->path), "%s/urxe-%u-%s%llu", dirs[i],
			     (unsigned)outer_user(), urxe_fabric_wanted() ? "fabric-" : "",
			     (unsigned long long)host_id());
		if (n >= (int)sizeof(seg->path))
			continue;
		fd = open_path(seg, flags, st);
		if (fd != -ENOENT)
			return fd;
	}
	if (flags & O_CREAT) {
		urxe_log(URXE_LOG_ERROR,
			 "cannot make the host segment in %s: name a folder that this user may "
			 "write to, with a path of %zu characters at most, in URXE_RUNTIME_DIR",
			 num == 1 ? named : "/dev/shm or /tmp",
			 sizeof(seg->path) -
				 sizeof("/urxe-4294967295-fabric-18446744073709551615"));
		return -EACCES;
	}
	return -ENOENT;
}

enum content { EMPTY, OURS, FOREIGN };

static enum content content_of(int fd, uint64_t size)
{
	struct segment_header h = {0};

	if (urxe_libc.pread(fd, &h, sizeof(h), 0) != sizeof(h) || !h.magic)
		return EMPTY;
	return h.magic == SEGMENT_MAGIC && h.version == SEGMENT_VERSION &&
			       h.num_counters == URXE_NUM_COUNTERS &&
			       h.size == sizeof(struct segment_map) && size >= h.size
		       ? OURS
		       : FOREIGN;
}

int segment_file_map(struct urxe_segment *seg, int fd)
{
	void *p = mmap(NULL, sizeof(*seg->map), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	seg->map = p;
	return 0;
}

static void unmap(struct urxe_segment *seg)
{
	munmap(seg->map, sizeof(*seg->map));
	seg->map = NULL;
}

static bool has_faults(const struct segment_map *map)
{
	for (unsigned d = 0; d < URXE_MAX_DEVICES; d++)
		if (*map->faults[d].spec[map->faults[d].generation & 1])
			return true;
	return false;
}

static DIR *open_folder(const char *path)
{
	int fd = urxe_libc.open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

	if (fd >= 0 && !dir)
		urxe_libc.close(fd);
	return dir;
}

/*
 * The segment, and what its slots have beside it: "<its name>.…", also those of another version.
 * With the segment lock held, and nobody in the segment.
 */
static int remove_all(const struct urxe_segment *seg)
{
	const char *name = strrchr(seg->path, '/') + 1;
	size_t len = strlen(name);
	char folder[sizeof(seg->path)];
	const struct dirent *e;
	DIR *dir;

	snprintf(folder, sizeof(folder), "%.*s", (int)(name - seg->path), seg->path);
	dir = open_folder(folder);
	while (dir && (e = readdir(dir)))
		if (!strncmp(e->d_name, name, len) && e->d_name[len] == '.')
			unlinkat(dirfd(dir), e->d_name, 0);
	if (dir)
		closedir(dir);
	return unlink(seg->path) < 0 ? -errno : 0;
}

/*
 * Removes the segment of a namespace that seems to be gone. Processes that cannot be seen may use
 * it, or be about to (then they have its lock): nothing is removed, nor waited for. The faults that
 * somebody has set there would be missed, too.
 */
static void remove_unused(struct urxe_segment *seg)
{
	int fd = urxe_libc.open(seg->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	struct urxe_stat st;

	if (fd < 0)
		return;
	if (!segment_file_lock(fd, SEGMENT_LOCK_BYTE, true) && !urxe_fstat(fd, &st) &&
	    is_private(&st) && st.nlink &&
	    !segment_file_locked(fd, URXE_SLOT_FIRST, URXE_WIDE_LAST - URXE_SLOT_FIRST + 1) &&
	    content_of(fd, st.size) == OURS && !segment_file_map(seg, fd)) {
		if (!has_faults(seg->map)) {
			urxe_log(URXE_LOG_INFO, "%s: its network namespace is gone", seg->path);
			remove_all(seg);
		}
		unmap(seg);
	}
	urxe_libc.close(fd);
}

/* The namespaces of this user's next segments in a folder. */
static unsigned list_segments(DIR *dir, uint64_t inodes[AT_ONCE])
{
	char prefix[sizeof("urxe-4294967295-")];
	int len = snprintf(prefix, sizeof(prefix), "urxe-%u-", (unsigned)outer_user());
	const struct dirent *e;
	unsigned num = 0;

	while (num < AT_ONCE && (e = readdir(dir))) {
		char *end;

		if (strncmp(e->d_name, prefix, len))
			continue;
		inodes[num] = strtoull(e->d_name + len, &end, 10);
		if (!*end && inodes[num] >= NETNS_FIRST)
			num++;
	}
	return num;
}

/* What the namespaces of containers and tests have left in this segment's folder. */
static void remove_those_gone(const struct urxe_segment *seg)
{
	struct urxe_segment *gone = calloc(1, sizeof(*gone));
	int len = strrchr(seg->path, '/') - seg->path;
	uint64_t inodes[AT_ONCE];
	unsigned num;
	DIR *dir;

	if (!gone)
		return;
	snprintf(gone->path, sizeof(gone->path), "%.*s/", len, seg->path);
	dir = open_folder(gone->path);
	while (dir && (num = list_segments(dir, inodes))) {
		num = urxe_netns_gone(inodes, num);
		for (unsigned i = 0; i < num; i++) {
			snprintf(gone->path, sizeof(gone->path), "%.*s/urxe-%u-%llu", len,
				 seg->path, (unsigned)outer_user(), (unsigned long long)inodes[i]);
			remove_unused(gone);
		}
	}
	if (dir)
		closedir(dir);
	free(gone);
}

/* Under the segment lock. Until the magic is there, the next one to come does it again. */
static int make_content(struct urxe_segment *seg, int fd)
{
	struct segment_header *header;
	int ret;

	remove_those_gone(seg);
	if (urxe_fd_size(fd, sizeof(struct segment_map)) < 0) {
		ret = -errno;
		if (ret == -EFBIG)
			urxe_log(URXE_LOG_ERROR,
				 "%s takes files of %zu KiB: raise the limit (ulimit -f)",
				 seg->path, sizeof(struct segment_map) / 1024);
		return ret;
	}
	ret = segment_file_allocate(seg, fd, 0, SEGMENT_FIXED_SIZE) ?: segment_file_map(seg, fd);
	if (ret)
		return ret;
	header = &seg->map->header;
	header->version = SEGMENT_VERSION;
	header->num_counters = URXE_NUM_COUNTERS;
	header->size = sizeof(struct segment_map);
	if (getrandom(header->key_secret, sizeof(header->key_secret), 0) !=
	    sizeof(header->key_secret))
		ret = -EIO;
	else
		__atomic_store_n(&header->magic, SEGMENT_MAGIC, __ATOMIC_RELEASE);
	unmap(seg);
	return ret;
}

/* -EAGAIN: the file was removed meanwhile: begin again. */
static int make_usable(struct urxe_segment *seg, int fd)
{
	struct urxe_stat st;
	int ret = segment_file_lock(fd, SEGMENT_LOCK_BYTE, false);

	if (ret) {
		urxe_log(URXE_LOG_ERROR,
			 "cannot lock %s: %s: name a folder on another file system "
			 "in URXE_RUNTIME_DIR",
			 seg->path, strerror(-ret));
		return ret;
	}
	ret = urxe_fstat(fd, &st);
	if (ret)
		return ret;
	if (!st.nlink)
		return -EAGAIN;
	switch (content_of(fd, st.size)) {
	case OURS: return 0;
	case EMPTY: return make_content(seg, fd);
	case FOREIGN: break;
	}
	if (segment_file_locked(fd, URXE_SLOT_FIRST, URXE_SLOT_LAST - URXE_SLOT_FIRST + 1) ||
	    segment_file_locked(fd, GUARDIAN_BYTE + 1, URXE_WIDE_LAST - GUARDIAN_BYTE)) {
		urxe_log(URXE_LOG_ERROR,
			 "%s is in use by programs that run another version of urxe: end them, or "
			 "use that version",
			 seg->path);
		return -EPROTO;
	}
	ret = remove_all(seg);
	return ret ? ret : -EAGAIN;
}

static void keep(struct urxe_segment *seg, int fd, const struct urxe_stat *st)
{
	seg->fd = urxe_fd_keep(fd);
	seg->dev = st->dev;
	seg->ino = st->ino;
}

static int open_for_members(struct urxe_segment *seg)
{
	struct urxe_stat st;
	int ret = -EAGAIN;

	for (int i = 0; i < MAX_RETRIES && ret == -EAGAIN; i++) {
		int fd = open_anywhere(seg, O_CREAT, &st);

		if (fd < 0)
			return fd;
		ret = make_usable(seg, fd);
		if (ret)
			urxe_libc.close(fd);
		else
			keep(seg, fd, &st);
	}
	return ret;
}

static int open_for_viewers(struct urxe_segment *seg)
{
	struct urxe_stat st;
	enum content content;
	int fd = open_anywhere(seg, 0, &st);

	if (fd < 0)
		return fd;
	content = content_of(fd, st.size);
	if (content != OURS) {
		urxe_libc.close(fd);
		return content == EMPTY ? -ENOENT : -EPROTO;
	}
	keep(seg, fd, &st);
	return segment_file_map(seg, seg->fd);
}

int segment_file_open(struct urxe_segment *seg, bool create)
{
	seg->fd = -1;
	urxe_slots = urxe_fabric_wanted() ? (struct urxe_slots){URXE_WIDE_LAST, 0x300}
					  : (struct urxe_slots){URXE_SLOT_LAST, 0};
	return create ? open_for_members(seg) : open_for_viewers(seg);
}

static bool is_used(const struct urxe_segment *seg)
{
	if (segment_file_locked(seg->fd, GUARDIAN_BYTE, 1))
		return true;
	for (unsigned s = URXE_SLOT_FIRST; s <= urxe_slots.last; s++)
		if (seg->map->slots[s].state == SLOT_USED && s != seg->slot &&
		    segment_file_locked(seg->fd, s, 1))
			return true;
	return false;
}

static bool fabric_is_down(void)
{
	struct urxe_stat st;

	return urxe_fabric_wanted() &&
	       urxe_stat_at(AT_FDCWD, getenv("URXE_FABRIC"), 0, &st) == -ENOENT;
}

void segment_file_remove(struct urxe_segment *seg)
{
	if (seg->fd < 0 || !fabric_is_down() || is_used(seg))
		return;
	remove_all(seg);
}

static bool is_file_of(const struct urxe_segment *seg, const struct urxe_stat *st)
{
	return st->dev == seg->dev && st->ino == seg->ino;
}

/* Or has the program closed it, and the number may be another file's by now? */
static bool has_fd(const struct urxe_segment *seg)
{
	struct urxe_stat st;

	return seg->fd >= 0 && !urxe_fstat(seg->fd, &st) && is_file_of(seg, &st);
}

bool segment_file_is_current(const struct urxe_segment *seg)
{
	struct urxe_stat st;

	return !urxe_stat_at(AT_FDCWD, seg->path, AT_SYMLINK_NOFOLLOW, &st) && is_file_of(seg, &st);
}

int segment_file_reopen(const struct urxe_segment *seg)
{
	struct urxe_stat st;
	int fd = open_path(seg, 0, &st);

	if (fd >= 0 && !is_file_of(seg, &st)) {
		urxe_libc.close(fd);
		fd = -ENOENT;
	}
	if (fd == -ENOENT)
		urxe_log(URXE_LOG_ERROR,
			 "%s was removed while in use: end all programs that use urxe, and start "
			 "them again",
			 seg->path);
	return fd;
}

int segment_file_fd(struct urxe_segment *seg)
{
	if (has_fd(seg))
		return seg->fd;
	if (seg->pid != getpid())
		return -1;
	seg->fd = urxe_fd_keep(segment_file_reopen(seg));
	return seg->fd;
}

void segment_file_close(struct urxe_segment *seg)
{
	if (has_fd(seg))
		urxe_fd_close(seg->fd);
	seg->fd = -1;
}

int segment_file_adopt(struct urxe_segment *seg, int fd)
{
	struct urxe_stat st;
	int ret = urxe_fstat(fd, &st);

	if (ret || !is_file_of(seg, &st))
		return ret ?: -ESTALE;
	segment_file_close(seg);
	seg->fd = urxe_fd_keep(fd);
	return 0;
}
