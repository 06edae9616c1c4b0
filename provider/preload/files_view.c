// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What calls on the sysfs view return: files.c and files_list.c ask here when a path may lie in it.
 *
 * A file is opened as a memfd that holds what it contained at that moment, read-only, so that every
 * call on a descriptor works without being replaced. stat() describes it as sysfs does (size 4096,
 * mode 0444), and so does fstat() on such a descriptor, with the same inode number; programs like
 * cp compare the two. An attribute that cannot be read (of an empty GID slot) opens as an epoll
 * descriptor: the one kind whose read() says EINVAL, as the kernel's attribute does.
 *
 * A directory is opened in the mirror (sysfs_mirror.c). From then on relative paths are checked:
 * the descriptor's name in /proc tells whether it is a directory of a mirror, also when it was
 * duplicated. The device /dev/infiniband/rdma_cm is opened as rdma_cm.c says. Those called
 * /dev/infiniband/uverbsN can be seen, but open() says ENXIO: verbs go through libibverbs'
 * functions, and a program that speaks the kernel's command ABI itself would get no answer from any
 * descriptor we could give it.
 *
 * Any thread. No lock of its own; `busy` keeps what liburxe does itself meanwhile out of the view.
 */
#include "preload/files.h"

#include <execinfo.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "host/libc.h"
#include "preload/rdma_cm.h"
#include "preload/umad.h"

#define MEMFD_NAME  "urxe:"
#define FD_PATH_LEN 64

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

atomic_bool urxe_view_opened;
atomic_bool urxe_view_read;
static _Atomic(dev_t) memfd_dev;
static __thread bool busy __attribute__((tls_model("initial-exec")));

bool urxe_view_absolute(const char *path)
{
	return strstr(path, "infiniband") || strstr(path, "/urxe") || strstr(path, "/misc/rdma_cm");
}

static bool begins(const char *name, const char *prefix)
{
	return !strncmp(name, prefix, strlen(prefix));
}

static bool is_sanitizer(const char *name)
{
	return begins(name, "libasan.so") || begins(name, "libtsan.so") ||
	       begins(name, "libubsan.so") || begins(name, "libclang_rt.");
}

/* A sanitizer's runtime stands in front of some calls: whose calls they are is further up. */
static const char *object_behind(const void *caller)
{
	void *frames[24];
	int n = backtrace(frames, 24);
	int i = 0;

	while (i < n && frames[i] != caller)
		i++;
	while (i < n && is_sanitizer(urxe_object_of(frames[i])))
		i++;
	return i < n ? urxe_object_of(frames[i]) : "";
}

bool urxe_view_hidden_from(const void *caller)
{
	const char *name = urxe_object_of(caller);

	if (is_sanitizer(name))
		name = object_behind(caller);
	return begins(name, "libibverbs.so") || begins(name, "liburxe.so");
}

static bool is_root(int dirfd)
{
	struct stat a, b;

	return !next(fstatat)(dirfd, ".", &a, 0) && !next(stat)("/", &b) && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

/* What a descriptor (or AT_FDCWD) is called in /proc. */
static bool fd_link(int fd, char *link, size_t len)
{
	char proc[FD_PATH_LEN] = "/proc/self/cwd";
	char *end;
	ssize_t n;

	if (fd != AT_FDCWD)
		snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	n = next(readlink)(proc, link, len - 1);
	if (n < 0)
		return false;
	link[n] = '\0';
	end = strstr(link, " (deleted)");
	if (end)
		*end = '\0';
	return true;
}

/* A program that a shell starts in a directory of the view begins there. */
void urxe_view_init(void)
{
	char cwd[PATH_MAX];

	if (syscall(SYS_getcwd, cwd, sizeof(cwd)) > 0 && urxe_sysfs_mirrored(cwd))
		atomic_store(&urxe_view_opened, true);
}

/* The name of a directory of the view, if that is what the descriptor is. */
static bool view_base(int dirfd, char *link, size_t len, const char **base,
		      struct urxe_sysfs_found *found)
{
	if (!atomic_load(&urxe_view_opened) || !fd_link(dirfd, link, len))
		return false;
	*base = urxe_sysfs_mirrored(link);
	/* What only leads to the view in a mirror (its "/dev", say) stands for nothing: a program
	 * that removes a mirror must not find itself in the real one. */
	return *base && urxe_sysfs_find(*base, true, found) == URXE_SYSFS_NODE;
}

/*
 * A relative path. From a directory of the view a name that is not ours is the kernel's: it leads
 * up and out of the view, or to something that the kernel has beside ours.
 */
static int find_relative(int dirfd, const char *path, bool nofollow, struct urxe_sysfs_found *found)
{
	char link[PATH_MAX], abs[PATH_MAX];
	const char *base;
	int ret;

	if (!strncmp(path, "sys/", 4) || !strncmp(path, "dev/", 4)) {
		if ((size_t)snprintf(abs, sizeof(abs), "/%s", path) >= sizeof(abs))
			return URXE_SYSFS_NONE;
		ret = urxe_sysfs_find(abs, nofollow, found);
		if (ret != URXE_SYSFS_NONE && is_root(dirfd))
			return ret;
	}
	if (!view_base(dirfd, link, sizeof(link), &base, found))
		return URXE_SYSFS_NONE;
	if ((size_t)snprintf(abs, sizeof(abs), "%s/%s", base, path) >= sizeof(abs))
		return -ENAMETOOLONG;
	ret = urxe_sysfs_find(abs, nofollow, found);
	if (ret != URXE_SYSFS_NONE)
		return ret;
	found->beside = !strstr(path, "..");
	return URXE_SYSFS_KERNEL;
}

int urxe_view_find(int dirfd, const char *path, bool nofollow, const void *caller,
		   struct urxe_sysfs_found *found)
{
	int saved = errno;
	int ret;

	if (busy || !*path)
		return URXE_SYSFS_NONE;
	busy = true;
	ret = *path == '/' ? urxe_sysfs_find(path, nofollow, found)
			   : find_relative(dirfd, path, nofollow, found);
	if (ret != URXE_SYSFS_NONE && urxe_view_hidden_from(caller))
		ret = URXE_SYSFS_NONE;
	busy = false;
	errno = saved;
	return ret;
}

/*
 * Whether a call on a path was answered, by the verdict on that: with what the kernel says of the
 * path that was found, or what is to be said of a node of ours (-errno).
 */
#define ANSWERED(ret, verdict, by_kernel, of_node)                                           \
	({                                                                                   \
		int saved_ = errno, verdict_ = (verdict);                                    \
                                                                                             \
		if (verdict_ == URXE_SYSFS_KERNEL)                                           \
			*(ret) = (by_kernel);                                                \
		else if (verdict_ != URXE_SYSFS_NONE)                                        \
			*(ret) = urxe_view_result(                                           \
				verdict_ == URXE_SYSFS_NODE ? (of_node) : verdict_, saved_); \
		verdict_ != URXE_SYSFS_NONE;                                                 \
	})

/* Contents are shown with the devices as they are now. */
static ssize_t show_now(const struct urxe_sysfs_node *node, char *buf, size_t len)
{
	ssize_t n;

	busy = true;
	urxe_sysfs_refresh();
	n = urxe_sysfs_show(node, buf, len);
	busy = false;
	return n < (ssize_t)len ? n : (ssize_t)len - 1;
}

static int mirror(const char *path, bool listing, bool again, char *real)
{
	int ret;

	busy = true;
	ret = urxe_sysfs_mirror(path, listing, again, real, PATH_MAX);
	busy = false;
	return ret;
}

/* The attributes of an entry's counterpart in the mirror, which is made again if it went away. */
static int mirror_stat(const char *path, bool listing, char *real, struct stat *st)
{
	int ret = 0;

	for (int again = 0; again < 2; again++) {
		ret = mirror(path, listing, again, real);
		if (ret)
			return ret;
		if (!next(lstat)(real, st))
			return 0;
		ret = -errno;
	}
	return ret;
}

/* A memfd, open for reading only and at its start, as the flags of the open() say. */
static int memfd_of(const char *path, const char *text, size_t len, int flags)
{
	char name[NAME_MAX], proc[FD_PATH_LEN];
	struct stat st;
	int fd, ro, ret;

	/* 249 bytes are allowed; a longer path than that has none of our directories */
	snprintf(name, sizeof(name), MEMFD_NAME "%.*s", 249 - (int)sizeof(MEMFD_NAME), path);
	fd = syscall(SYS_memfd_create, name, MFD_CLOEXEC | MFD_NOEXEC_SEAL);
	if (fd < 0 &&
	    errno == EINVAL) /* before Linux 6.3, which some systems tell to insist on it */
		fd = syscall(SYS_memfd_create, name, MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (urxe_libc.write(fd, text, len) != (ssize_t)len || next(fstat)(fd, &st)) {
		ret = -errno;
		urxe_libc.close(fd);
		return ret;
	}
	atomic_store(&memfd_dev, st.st_dev);
	atomic_store(&urxe_view_read, true);
	syscall(SYS_fchmod, fd, 0444);
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	ro = urxe_libc.open(proc, flags & ~(O_CREAT | O_NOFOLLOW));
	if (ro < 0) { /* without /proc a descriptor that can be written to as well must do */
		lseek(fd, 0, SEEK_SET);
		if (!(flags & O_CLOEXEC))
			urxe_libc.fcntl(fd, F_SETFD, 0);
		return fd;
	}
	urxe_libc.close(fd);
	return ro;
}

static int open_file(const struct urxe_sysfs_found *f, int flags)
{
	char text[URXE_SYSFS_FILE_SIZE];
	ssize_t n;

	if (flags & O_DIRECTORY)
		return -ENOTDIR;
	if (!(flags & O_PATH) && ((flags & O_ACCMODE) != O_RDONLY || flags & O_TRUNC))
		return -EACCES;
	n = show_now(&f->node, text, sizeof(text));
	if (n >= 0)
		return memfd_of(f->path, text, n, flags);
	n = urxe_libc.epoll_create1(flags & O_CLOEXEC ? EPOLL_CLOEXEC : 0);
	return n < 0 ? -errno : n;
}

static int open_mirrored(const struct urxe_sysfs_found *f, int flags)
{
	char real[PATH_MAX];
	struct stat st;
	int fd, ret;

	ret = mirror_stat(f->path, f->node.type == URXE_SYSFS_DIR, real, &st);
	if (ret)
		return ret;
	fd = urxe_libc.open(real, flags & ~O_CREAT);
	if (fd < 0)
		return -errno;
	atomic_store(&urxe_view_opened, true);
	return fd;
}

static int open_device(const struct urxe_sysfs_found *f, int flags)
{
	int fd;

	busy = true;
	fd = f->node.open(&f->node, flags);
	busy = false;
	atomic_store(&urxe_view_read, true);
	return fd;
}

static int open_node(const struct urxe_sysfs_found *f, int flags)
{
	bool dir = f->node.type == URXE_SYSFS_DIR;

	if (flags & O_PATH)
		return f->node.type == URXE_SYSFS_FILE ? open_file(f, flags)
						       : open_mirrored(f, flags);
	if ((flags & O_TMPFILE) == O_TMPFILE)
		return dir ? -EOPNOTSUPP : -ENOTDIR;
	if ((flags & O_CREAT) && (flags & O_EXCL))
		return -EEXIST;
	switch (f->node.type) {
	case URXE_SYSFS_FILE: return open_file(f, flags);
	case URXE_SYSFS_LINK: return flags & O_DIRECTORY ? -ENOTDIR : -ELOOP;
	case URXE_SYSFS_CHR:
		if (flags & O_DIRECTORY)
			return -ENOTDIR;
		return f->node.open ? open_device(f, flags) : -ENXIO;
	case URXE_SYSFS_DIR: break;
	}
	if ((flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC))
		return -EISDIR;
	return open_mirrored(f, flags);
}

/*
 * A directory of the kernel's beside ours is entered through the link to it in the mirror: what
 * removes a mirror, without following links, must not be shown the real one instead.
 */
static bool is_directory(const char *path)
{
	struct stat st;

	return !next(lstat)(path, &st) && S_ISDIR(st.st_mode);
}

static int find_to_open(int dirfd, const char *path, int flags, const void *caller,
			struct urxe_sysfs_found *f)
{
	bool create = flags & O_CREAT && !(flags & O_PATH);
	int v = urxe_view_find(dirfd, path, flags & O_NOFOLLOW || (create && flags & O_EXCL),
			       caller, f);

	if (v == URXE_SYSFS_KERNEL && f->beside && is_directory(f->path))
		return URXE_SYSFS_NONE;
	if (v == -ENOENT && create && f->in_directory)
		return -EACCES; /* nothing can be made in sysfs */
	return v;
}

bool urxe_view_open(int dirfd, const char *path, int flags, const void *caller, int *ret)
{
	struct urxe_sysfs_found f;

	return ANSWERED(ret, find_to_open(dirfd, path, flags, caller, &f),
			next(openat)(AT_FDCWD, f.path, flags, 0), open_node(&f, flags));
}

static int stat_node(const struct urxe_sysfs_found *f, struct stat *st)
{
	char real[PATH_MAX];

	if (mirror_stat(f->path, false, real, st)) {
		/* No place for a mirror. Numbers that at least differ. */
		memset(st, 0, sizeof(*st));
		st->st_nlink = 1;
		st->st_blksize = URXE_SYSFS_FILE_SIZE;
		for (const char *s = f->path; *s; s++)
			st->st_ino = st->st_ino * 31 + (unsigned char)*s;
	}
	st->st_uid = 0;
	st->st_gid = 0;
	st->st_rdev = 0;
	switch (f->node.type) {
	case URXE_SYSFS_DIR: st->st_mode = S_IFDIR | 0755; break;
	case URXE_SYSFS_LINK: st->st_mode = S_IFLNK | 0777; break;
	case URXE_SYSFS_FILE:
		st->st_mode = S_IFREG | 0444;
		st->st_size = URXE_SYSFS_FILE_SIZE;
		break;
	case URXE_SYSFS_CHR:
		st->st_mode = S_IFCHR | 0666;
		st->st_rdev = urxe_sysfs_rdev(&f->node);
		break;
	}
	return 0;
}

bool urxe_view_stat(int dirfd, const char *path, int flags, struct stat *st, const void *caller,
		    int *ret)
{
	struct urxe_sysfs_found f;

	return ANSWERED(ret, urxe_view_find(dirfd, path, flags & AT_SYMLINK_NOFOLLOW, caller, &f),
			next(fstatat)(AT_FDCWD, f.path, st, flags), stat_node(&f, st));
}

bool urxe_view_fstat(int fd, struct stat *st)
{
	static const char prefix[] = "/memfd:" MEMFD_NAME;
	struct urxe_sysfs_found f;
	char link[PATH_MAX];
	int saved = errno;
	bool ours = false;

	if (!(st->st_mode & S_IFMT) && (urxe_rdma_cm_is_fd(fd) || urxe_umad_is_fd(fd))) {
		st->st_mode = S_IFCHR | 0666;
		st->st_uid = 0;
		st->st_gid = 0;
		st->st_rdev = urxe_rdma_cm_rdev();
		errno = saved;
		return true;
	}
	if (!S_ISREG(st->st_mode) || st->st_dev != atomic_load(&memfd_dev) || busy)
		return false;
	if (fd_link(fd, link, sizeof(link)) && !strncmp(link, prefix, sizeof(prefix) - 1)) {
		busy = true;
		ours = urxe_sysfs_find(link + sizeof(prefix) - 1, true, &f) == URXE_SYSFS_NODE;
		busy = false;
		if (ours)
			stat_node(&f, st);
	}
	errno = saved;
	return ours;
}

void urxe_view_to_statx(const struct stat *st, struct statx *stx)
{
	memset(stx, 0, sizeof(*stx));
	stx->stx_mask = STATX_BASIC_STATS;
	stx->stx_blksize = st->st_blksize;
	stx->stx_nlink = st->st_nlink;
	stx->stx_uid = st->st_uid;
	stx->stx_gid = st->st_gid;
	stx->stx_mode = st->st_mode;
	stx->stx_ino = st->st_ino;
	stx->stx_size = st->st_size;
	stx->stx_blocks = st->st_blocks;
	stx->stx_atime.tv_sec = st->st_atim.tv_sec;
	stx->stx_atime.tv_nsec = st->st_atim.tv_nsec;
	stx->stx_ctime.tv_sec = st->st_ctim.tv_sec;
	stx->stx_ctime.tv_nsec = st->st_ctim.tv_nsec;
	stx->stx_mtime.tv_sec = st->st_mtim.tv_sec;
	stx->stx_mtime.tv_nsec = st->st_mtim.tv_nsec;
	stx->stx_rdev_major = major(st->st_rdev);
	stx->stx_rdev_minor = minor(st->st_rdev);
	stx->stx_dev_major = major(st->st_dev);
	stx->stx_dev_minor = minor(st->st_dev);
}

static int access_node(const struct urxe_sysfs_node *node, int mode)
{
	if (mode & ~(R_OK | W_OK | X_OK))
		return -EINVAL;
	switch (node->type) {
	case URXE_SYSFS_LINK: return 0;
	case URXE_SYSFS_DIR: return mode & W_OK ? -EACCES : 0;
	case URXE_SYSFS_CHR: return mode & X_OK ? -EACCES : 0;
	case URXE_SYSFS_FILE: break;
	}
	return mode & (W_OK | X_OK) ? -EACCES : 0;
}

bool urxe_view_access(int dirfd, const char *path, int mode, int flags, const void *caller,
		      int *ret)
{
	struct urxe_sysfs_found f;

	return ANSWERED(ret, urxe_view_find(dirfd, path, flags & AT_SYMLINK_NOFOLLOW, caller, &f),
			next(faccessat)(AT_FDCWD, f.path, mode, flags), access_node(&f.node, mode));
}

static ssize_t readlink_node(const struct urxe_sysfs_node *node, char *buf, size_t len)
{
	char target[3 * IBV_SYSFS_NAME_MAX];
	size_t n;

	if (node->type != URXE_SYSFS_LINK || !len)
		return -EINVAL;
	n = urxe_sysfs_show(node, target, sizeof(target));
	if (n > len)
		n = len;
	memcpy(buf, target, n);
	return n;
}

bool urxe_view_readlink(int dirfd, const char *path, char *buf, size_t len, const void *caller,
			ssize_t *ret)
{
	struct urxe_sysfs_found f;

	return ANSWERED(ret, urxe_view_find(dirfd, path, true, caller, &f),
			next(readlinkat)(AT_FDCWD, f.path, buf, len),
			readlink_node(&f.node, buf, len));
}

bool urxe_view_realpath(const char *path, char *resolved, const void *caller, char **ret)
{
	struct urxe_sysfs_found f;
	int saved = errno;
	int v = urxe_view_find(AT_FDCWD, path, false, caller, &f);

	if (v == URXE_SYSFS_NONE)
		return false;
	if (v == URXE_SYSFS_KERNEL) {
		*ret = next(realpath)(f.path, resolved);
	} else if (v < 0) {
		errno = -v;
		*ret = NULL;
	} else {
		*ret = resolved ? strcpy(resolved, f.path) : strdup(f.path);
		if (*ret)
			errno = saved;
	}
	return true;
}

static int directory_of(const struct urxe_sysfs_found *f, char *real)
{
	struct stat st;
	int ret = f->node.type == URXE_SYSFS_DIR ? mirror_stat(f->path, true, real, &st) : -ENOTDIR;

	if (!ret)
		atomic_store(&urxe_view_opened, true);
	return ret;
}

bool urxe_view_directory(int dirfd, const char *path, const void *caller, char *real, int *ret)
{
	struct urxe_sysfs_found f;

	return ANSWERED(ret, urxe_view_find(dirfd, path, false, caller, &f),
			(strcpy(real, f.path), 0), directory_of(&f, real));
}
