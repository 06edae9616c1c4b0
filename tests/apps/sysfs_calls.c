// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Goes through every libc entry point by which a program can look at the sysfs view, under the
 * preload and with urxe0 on lo. Run by sysfs.bats, one section a time: sysfs_calls SECTION. Prints
 * what is wrong, a line each, and exits with 1 if anything was.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "sysfs_calls.h"

#define IB     "/sys/class/infiniband"
#define DEV    IB "/urxe0"
#define HOME   "/sys/devices/virtual/urxe/urxe0/infiniband/urxe0"
#define PORT   DEV "/ports/1"
#define STATE  PORT "/state"
#define ACTIVE "4: ACTIVE\n"
#define SLOTS  128 /* of the GID table */

static int failures;
static const char *volatile no_path;

#define CHECK(cond)                                                         \
	do {                                                                \
		if (!(cond)) {                                              \
			printf("line %d: %s (errno %s)\n", __LINE__, #cond, \
			       strerrorname_np(errno));                     \
			__atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED); \
		}                                                           \
	} while (0)

static bool reads(int fd, const char *text)
{
	char buf[4096];
	ssize_t n;
	bool same;

	if (fd < 0)
		return false;
	n = read(fd, buf, sizeof(buf));
	same = n == (ssize_t)strlen(text) && !memcmp(buf, text, n);
	close(fd);
	return same;
}

static bool file_is(const char *path, const char *text)
{
	return reads(open(path, O_RDONLY), text);
}

/* Whatever is opened, errno of an earlier failure survives a success. */
static void test_open(void)
{
	int dir, root, fd;

	errno = EXDEV;
	CHECK(reads(open(STATE, O_RDONLY), ACTIVE));
	CHECK(reads(open64(STATE, O_RDONLY), ACTIVE));
	CHECK(reads(openat(AT_FDCWD, STATE, O_RDONLY), ACTIVE));
	CHECK(reads(openat64(AT_FDCWD, STATE, O_RDONLY), ACTIVE));
	CHECK(reads(__open_2(STATE, O_RDONLY), ACTIVE));
	CHECK(reads(__open64_2(STATE, O_RDONLY), ACTIVE));
	CHECK(reads(__openat_2(AT_FDCWD, STATE, O_RDONLY), ACTIVE));
	CHECK(reads(__openat64_2(AT_FDCWD, STATE, O_RDONLY), ACTIVE));
	CHECK(errno == EXDEV);

	dir = open(DEV, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(dir >= 0 && fcntl(dir, F_GETFD) == FD_CLOEXEC);
	CHECK(reads(openat(dir, "ports/1/state", O_RDONLY), ACTIVE));
	CHECK(reads(openat64(dir, "./ports//1/../1/state", O_RDONLY), ACTIVE));
	CHECK(reads(__openat_2(dir, "device/infiniband/urxe0/ports/1/state", O_RDONLY), ACTIVE));
	CHECK(reads(__openat64_2(dir, "../urxe0/ports/1/state", O_RDONLY), ACTIVE));
	CHECK(openat(dir, "ports/2/state", O_RDONLY) < 0 && errno == ENOENT);
	/* A duplicate, and a directory opened from it, as fts does. */
	fd = openat(dup(dir), "ports", O_RDONLY | O_DIRECTORY);
	CHECK(reads(openat(fd, "1/state", O_RDONLY), ACTIVE));
	/* A relative path elsewhere is nobody's but the kernel's. */
	root = open("/", O_RDONLY | O_DIRECTORY);
	CHECK((fd = openat(root, "proc/self/status", O_RDONLY)) >= 0 && !close(fd));
	CHECK(reads(openat(root, "sys/class/infiniband/urxe0/ports/1/state", O_RDONLY), ACTIVE));
	CHECK(openat(dir, "sys/class/infiniband/urxe0/node_type", O_RDONLY) < 0 && errno == ENOENT);

	CHECK(!fchdir(dir));
	CHECK(file_is("ports/1/state", ACTIVE));
	CHECK(!access("node_type", R_OK));
	CHECK(!chdir("/"));
	CHECK(file_is("sys/class/infiniband/urxe0/ports/1/state", ACTIVE));
}

static void test_descriptor(void)
{
	int fd = open(STATE, O_RDONLY | O_CLOEXEC);
	struct stat st, named;
	struct stat64 st64;
	struct statx stx;
	char buf[16];
	char *map;
	FILE *f;

	CHECK(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	CHECK((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY);
	CHECK(write(fd, "x", 1) < 0 && errno == EBADF);
	CHECK(pread(fd, buf, 4, 3) == 4 && !memcmp(buf, "ACTI", 4));
	CHECK(lseek(fd, 3, SEEK_SET) == 3 && read(fd, buf, 16) == 7);
	CHECK(read(fd, buf, 16) == 0);
	map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	CHECK(map != MAP_FAILED && !memcmp(map, ACTIVE, strlen(ACTIVE)));

	/* As sysfs describes it, and as the same file that its name is. */
	CHECK(!stat(STATE, &named) && !fstat(fd, &st));
	CHECK(st.st_mode == (S_IFREG | 0444) && st.st_size == 4096 && st.st_uid == 0);
	CHECK(st.st_dev == named.st_dev && st.st_ino == named.st_ino);
	CHECK(!fstat64(fd, &st64) && st64.st_size == 4096 && st64.st_ino == named.st_ino);
	CHECK(!__fxstat(1, fd, &st) && st.st_ino == named.st_ino);
	CHECK(!__fxstat64(1, fd, &st64) && st64.st_ino == named.st_ino);
	CHECK(!fstatat(fd, "", &st, AT_EMPTY_PATH) && st.st_ino == named.st_ino);
	CHECK(!statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &stx) && stx.stx_size == 4096 &&
	      stx.stx_ino == named.st_ino);
	/* Not every file of memory is ours. */
	CHECK(!fstat(memfd_create("urxe", 0), &st) && st.st_size == 0);

	lseek(fd, 0, SEEK_SET);
	f = fdopen(fd, "r");
	CHECK(f && fgets(buf, sizeof(buf), f) && !strcmp(buf, ACTIVE));
	fclose(f);

	fd = open(DEV "/ports", O_PATH | O_DIRECTORY);
	CHECK(reads(openat(fd, "1/state", O_RDONLY), ACTIVE));
	fd = open(STATE, O_PATH);
	CHECK(fd >= 0 && read(fd, buf, 1) < 0 && errno == EBADF);
	fd = open(DEV, O_PATH | O_NOFOLLOW);
	CHECK(fd >= 0 && !fstat(fd, &st) && S_ISLNK(st.st_mode));
}

static bool stream_is(FILE *f, const char *text)
{
	char buf[64];
	bool same;

	if (!f)
		return false;
	same = fgets(buf, sizeof(buf), f) && !strcmp(buf, text);
	fclose(f);
	return same;
}

static void test_stdio(void)
{
	CHECK(stream_is(fopen(STATE, "r"), ACTIVE));
	CHECK(stream_is(fopen64(STATE, "re"), ACTIVE));
	CHECK(stream_is(fopen(STATE, "rb"), ACTIVE));
	CHECK(stream_is(freopen(STATE, "r", fopen("/dev/null", "r")), ACTIVE));
	CHECK(stream_is(freopen64(STATE, "r", fopen64("/dev/null", "r")), ACTIVE));
	CHECK(!fopen(STATE, "w") && errno == EACCES);
	CHECK(!fopen(STATE, "r+") && errno == EACCES);
	CHECK(!fopen64(STATE, "a") && errno == EACCES);
	CHECK(!fopen(PORT "/none", "r") && errno == ENOENT);
	CHECK(!fopen(STATE, "q") && errno == EINVAL);
	CHECK(!freopen(PORT "/none", "r", fopen("/dev/null", "r")) && errno == ENOENT);
}

/* What the kernel says about paths and flags like these; 0 is success. */
static void test_errors(void)
{
	static const struct {
		const char *path;
		int flags;
		int err;
	} rows[] = {
		{STATE, O_RDONLY, 0},
		{"//sys/class//infiniband///urxe0/ports/1/state", O_RDONLY, 0},
		{"/sys/./class/../class/infiniband/urxe0/./ports/1/../1/state", O_RDONLY, 0},
		{"/../sys/class/infiniband/urxe0/ports/1/state", O_RDONLY, 0},
		{DEV "/device/infiniband/urxe0/subsystem/urxe0/node_type", O_RDONLY, 0},
		{DEV "/device/net/lo/mtu", O_RDONLY, 0},
		{DEV "/device/net/lo/", O_RDONLY | O_DIRECTORY, 0},
		{HOME "/node_guid", O_RDONLY, 0},
		{"/sys/class/infiniband_verbs/uverbs0/device/net/lo/address", O_RDONLY, 0},
		{STATE, O_RDONLY | O_CREAT, 0},
		{STATE, O_RDONLY | O_NOFOLLOW, 0},
		{IB, O_RDONLY | O_DIRECTORY, 0},
		{IB "/", O_RDONLY, 0},
		{DEV "/.", O_RDONLY, 0},
		{DEV "/..", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0},
		{PORT "/none", O_RDONLY, ENOENT},
		{PORT "/none/state", O_RDONLY, ENOENT},
		{IB "/urxe9", O_RDONLY, ENOENT},
		{IB "/urxe0x/ports", O_RDONLY, ENOENT},
		{PORT "/gids/128", O_RDONLY, ENOENT},
		{PORT "/gids/00", O_RDONLY, ENOENT},
		{STATE "/", O_RDONLY, ENOTDIR},
		{STATE "/x", O_RDONLY, ENOTDIR},
		{STATE "/..", O_RDONLY, ENOTDIR},
		{STATE, O_RDONLY | O_DIRECTORY, ENOTDIR},
		{STATE, O_WRONLY, EACCES},
		{STATE, O_RDWR, EACCES},
		{STATE, O_RDONLY | O_TRUNC, EACCES},
		{STATE, O_WRONLY | O_CREAT | O_TRUNC, EACCES},
		{STATE, O_RDONLY | O_CREAT | O_EXCL, EEXIST},
		{DEV, O_RDONLY | O_CREAT | O_EXCL, EEXIST},
		{PORT "/new", O_WRONLY | O_CREAT, EACCES},
		{PORT "/none/new", O_WRONLY | O_CREAT, ENOENT},
		{PORT, O_WRONLY, EISDIR},
		{PORT, O_RDONLY | O_CREAT, EISDIR},
		{PORT, O_RDWR | O_TMPFILE, EOPNOTSUPP},
		{DEV, O_RDONLY | O_NOFOLLOW, ELOOP},
		{DEV, O_RDONLY | O_NOFOLLOW | O_DIRECTORY, ENOTDIR},
		{"/dev/infiniband/uverbs0", O_RDWR, ENXIO},
		{"/dev/infiniband/uverbs0/x", O_RDONLY, ENOTDIR},
		{"/dev/infiniband/uverbs1", O_RDWR, ENOENT},
	};
	char longer[PATH_MAX + 64] = IB "/";

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int fd, err;

		errno = 0;
		fd = open(rows[i].path, rows[i].flags, 0600);
		err = fd < 0 ? errno : 0;
		if (fd >= 0)
			close(fd);
		if (err != rows[i].err) {
			printf("open(%s, %#o): %s\n", rows[i].path, rows[i].flags,
			       strerrorname_np(err));
			failures++;
		}
	}
	CHECK(creat(STATE, 0600) < 0 && errno == EACCES);
	CHECK(creat64(PORT "/new", 0600) < 0 && errno == EACCES);
	memset(longer + strlen(longer), 'x', NAME_MAX + 1);
	CHECK(open(longer, O_RDONLY) < 0 && errno == ENAMETOOLONG);
	CHECK(stat(PORT "/none", &(struct stat){0}) < 0 && errno == ENOENT);
	CHECK(open(no_path, O_RDONLY) < 0 && errno == EFAULT);
	CHECK(open("", O_RDONLY) < 0 && errno == ENOENT);
}

static bool is_link(const struct stat *st)
{
	return S_ISLNK(st->st_mode);
}

static void test_stat(void)
{
	const char *uverbs = "/dev/infiniband/uverbs0";
	int ports = open(DEV "/ports", O_RDONLY | O_DIRECTORY);
	struct stat st, other;
	struct stat64 st64;
	struct statx stx;

	errno = EXDEV;
	CHECK(!stat(STATE, &st) && st.st_mode == (S_IFREG | 0444) && st.st_size == 4096);
	CHECK(!stat64(STATE, &st64) && st64.st_ino == st.st_ino);
	CHECK(!__xstat(1, STATE, &other) && other.st_ino == st.st_ino);
	CHECK(!__xstat64(1, STATE, &st64) && st64.st_size == 4096);
	CHECK(!fstatat(ports, "1/state", &other, 0) && other.st_ino == st.st_ino);
	CHECK(!fstatat64(ports, "1/state", &st64, 0) && st64.st_ino == st.st_ino);
	CHECK(!__fxstatat(1, ports, "1/state", &other, 0) && other.st_ino == st.st_ino);
	CHECK(!__fxstatat64(1, ports, "1/state", &st64, 0) && st64.st_ino == st.st_ino);
	CHECK(!statx(ports, "1/state", 0, STATX_BASIC_STATS, &stx) && stx.stx_ino == st.st_ino &&
	      stx.stx_mode == (S_IFREG | 0444) && stx.stx_size == 4096);
	CHECK(errno == EXDEV);

	CHECK(!lstat(DEV, &st) && is_link(&st));
	CHECK(!lstat64(DEV, &st64) && S_ISLNK(st64.st_mode));
	CHECK(!__lxstat(1, DEV, &st) && is_link(&st));
	CHECK(!__lxstat64(1, DEV, &st64) && S_ISLNK(st64.st_mode));
	CHECK(!fstatat(AT_FDCWD, DEV, &st, AT_SYMLINK_NOFOLLOW) && is_link(&st));
	CHECK(!lstat(DEV "/", &st) && S_ISDIR(st.st_mode));
	CHECK(!stat(DEV, &st) && st.st_mode == (S_IFDIR | 0755));
	CHECK(!stat(HOME, &other) && other.st_ino == st.st_ino && other.st_dev == st.st_dev);
	CHECK(!stat(DEV "/ports", &st) && !fstat(ports, &other) && st.st_ino == other.st_ino &&
	      st.st_dev == other.st_dev);
	CHECK(!stat(DEV "/device/net/lo", &st) && !stat("/sys/class/net/lo", &other) &&
	      st.st_ino == other.st_ino && st.st_dev == other.st_dev);

	CHECK(!stat(uverbs, &st) && S_ISCHR(st.st_mode) && st.st_rdev == makedev(231, 192));
	CHECK(!statx(AT_FDCWD, uverbs, 0, STATX_BASIC_STATS, &stx) && S_ISCHR(stx.stx_mode) &&
	      stx.stx_rdev_major == 231 && stx.stx_rdev_minor == 192);
	CHECK(file_is("/sys/class/infiniband_verbs/uverbs0/dev", "231:192\n"));
}

static void test_access(void)
{
	int dir = open(DEV, O_RDONLY | O_DIRECTORY);

	errno = EXDEV;
	CHECK(!access(STATE, F_OK) && !access(STATE, R_OK) && !access(PORT, R_OK | X_OK));
	CHECK(!access("/dev/infiniband/uverbs0", R_OK | W_OK));
	CHECK(!euidaccess(STATE, R_OK) && !eaccess(STATE, R_OK));
	CHECK(!faccessat(dir, "ports/1/state", R_OK, 0));
	CHECK(!faccessat(dir, "device", F_OK, AT_SYMLINK_NOFOLLOW | AT_EACCESS));
	CHECK(errno == EXDEV);
	CHECK(access(STATE, W_OK) < 0 && errno == EACCES);
	CHECK(access(STATE, X_OK) < 0 && errno == EACCES);
	CHECK(eaccess(PORT, W_OK) < 0 && errno == EACCES);
	CHECK(access(PORT "/none", F_OK) < 0 && errno == ENOENT);
	CHECK(faccessat(dir, "none", F_OK, 0) < 0 && errno == ENOENT);
}

static void test_links(void)
{
	static const char target[] = "../../devices/virtual/urxe/urxe0/infiniband/urxe0";
	ssize_t len = sizeof(target) - 1;
	int dir = open(DEV, O_RDONLY | O_DIRECTORY);
	char buf[PATH_MAX];
	char *p;

	errno = EXDEV;
	CHECK(readlink(DEV, buf, sizeof(buf)) == len && !memcmp(buf, target, len));
	CHECK(readlink(DEV, buf, 5) == 5 && !memcmp(buf, "../..", 5));
	CHECK(readlinkat(AT_FDCWD, DEV, buf, sizeof(buf)) == len);
	CHECK(readlinkat(dir, "device", buf, sizeof(buf)) == 14 &&
	      !memcmp(buf, "../../../urxe0", 14));
	CHECK(__readlink_chk(DEV, buf, sizeof(buf), sizeof(buf)) == len);
	CHECK(__readlinkat_chk(dir, "subsystem", buf, sizeof(buf), sizeof(buf)) == 34);

	CHECK(realpath(DEV, buf) == buf && !strcmp(buf, HOME));
	CHECK((p = realpath(DEV "/device", NULL)) && !strcmp(p, "/sys/devices/virtual/urxe/urxe0"));
	CHECK(__realpath_chk("/sys/class/infiniband_verbs/uverbs0/device/infiniband/", buf,
			     sizeof(buf)) &&
	      !strcmp(buf, "/sys/devices/virtual/urxe/urxe0/infiniband"));
	CHECK((p = canonicalize_file_name(STATE)) && !strcmp(p, HOME "/ports/1/state"));
	CHECK(errno == EXDEV);
	CHECK((p = realpath(DEV "/device/net/lo", NULL)) &&
	      !strcmp(p, "/sys/devices/virtual/net/lo"));
	CHECK(readlink(STATE, buf, sizeof(buf)) < 0 && errno == EINVAL);
	CHECK(readlink(DEV "/", buf, sizeof(buf)) < 0 && errno == EINVAL);
	CHECK(readlink(PORT "/none", buf, sizeof(buf)) < 0 && errno == ENOENT);
	CHECK(!realpath(PORT "/none", buf) && errno == ENOENT);
}

static int count(DIR *dir)
{
	int n = 0;

	while (dir && readdir(dir))
		n++;
	return n;
}

/* Whoever looks into the place behind the view finds that place, and is not led out of it. */
static void check_place(void)
{
	char link[PATH_MAX], proc[64];
	struct stat st, root_st;
	int fd = open(IB, O_RDONLY | O_DIRECTORY);
	ssize_t n;
	int root;

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	n = readlink(proc, link, sizeof(link) - 1);
	CHECK(n > (ssize_t)strlen(IB));
	if (n <= (ssize_t)strlen(IB))
		return;
	link[n - strlen(IB)] = '\0';
	root = open(link, O_RDONLY | O_DIRECTORY);
	CHECK(!fstat(root, &root_st));
	CHECK(!fstatat(root, "sys", &st, 0) && st.st_dev == root_st.st_dev);
	CHECK(!fstatat(root, "dev", &st, 0) && st.st_dev == root_st.st_dev);
	CHECK(!fstatat(root, "sys/class/net", &st, AT_SYMLINK_NOFOLLOW) && S_ISLNK(st.st_mode));
	CHECK(!fstatat(root, "dev/infiniband", &st, 0) && st.st_dev == root_st.st_dev);
	CHECK(openat(root, "dev/null", O_RDONLY) < 0 && errno == ENOENT);
}

static int named_types(const struct dirent *e)
{
	return !strcmp(e->d_name, "types") && e->d_type == DT_DIR;
}

static int named_types64(const struct dirent64 *e)
{
	return !strcmp(e->d_name, "types") && e->d_type == DT_DIR;
}

static int files, dirs, links, wrong;

static int seen(const char *path, const struct stat *st, int type)
{
	files += type == FTW_F;
	dirs += type == FTW_D;
	links += type == FTW_SL;
	if (strncmp(path, "/sys/", 5) || (type == FTW_F && st->st_size != 4096))
		wrong++;
	return 0;
}

static int seen_at(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	if (ftw->level && path[ftw->base - 1] != '/')
		wrong++;
	return seen(path, st, type);
}

static int seen64(const char *path, const struct stat64 *st, int type)
{
	return seen(path, (const struct stat *)st, type);
}

static int seen_at64(const char *path, const struct stat64 *st, int type, struct FTW *ftw)
{
	return seen_at(path, (const struct stat *)st, type, ftw);
}

static void test_lists(void)
{
	int dir = open(PORT, O_RDONLY | O_DIRECTORY);
	struct dirent **list;
	struct dirent64 **list64;
	struct dirent *e;
	DIR *d;
	long at = 0;

	d = opendir(PORT "/gids");
	CHECK(count(d) == SLOTS + 2);
	rewinddir(d);
	CHECK((e = readdir(d)) && (at = telldir(d)) >= 0 && (e = readdir(d)));
	seekdir(d, at);
	CHECK(count(d) == SLOTS + 1);
	CHECK(reads(openat(dirfd(d), "127", O_RDONLY),
		    "0000:0000:0000:0000:0000:0000:0000:0000\n"));
	CHECK(!closedir(d));
	d = fdopendir(openat(dir, "gid_attrs", O_RDONLY | O_DIRECTORY));
	CHECK(count(d) == 4 && !closedir(d));
	CHECK(!opendir(STATE) && errno == ENOTDIR);
	CHECK(!opendir(PORT "/none") && errno == ENOENT);
	d = opendir("/dev/infiniband");
	while (d && (e = readdir(d)) && strcmp(e->d_name, "uverbs0"))
		;
	CHECK(d && e && e->d_type == DT_CHR);

	CHECK(scandir(PORT "/gid_attrs", &list, named_types, alphasort) == 1);
	CHECK(scandir64(PORT "/gid_attrs", &list64, named_types64, alphasort64) == 1);
	CHECK(scandirat(dir, "gid_attrs", &list, named_types, alphasort) == 1);
	CHECK(scandirat64(dir, "gid_attrs", &list64, named_types64, NULL) == 1);
	CHECK(scandir(PORT "/none", &list, NULL, NULL) < 0 && errno == ENOENT);
	check_place();
}

static void test_trees(void)
{
	glob_t g = {0};
	glob64_t g64 = {0};

	CHECK(!glob(IB "/*/ports/*/state", 0, NULL, &g) && g.gl_pathc == 1 &&
	      !strcmp(g.gl_pathv[0], STATE));
	CHECK(!glob(IB "/urxe?/ports/1/gids/*", GLOB_APPEND, NULL, &g) && g.gl_pathc == 1 + SLOTS);
	globfree(&g);
	CHECK(!glob64("/dev/infiniband/uverbs[0-9]", 0, NULL, &g64) && g64.gl_pathc == 1);
	CHECK(glob(PORT "/nothing*", 0, NULL, &g) == GLOB_NOMATCH);
	CHECK(!glob("/sys/class/net/l?", 0, NULL, &g) && g.gl_pathc == 1);

	CHECK(!nftw(PORT "/gid_attrs", seen_at, 8, FTW_PHYS) && files == 2 * SLOTS && dirs == 3);
	CHECK(!nftw64(PORT "/gid_attrs", seen_at64, 8, FTW_PHYS | FTW_DEPTH) && files == 4 * SLOTS);
	CHECK(!ftw(PORT "/gid_attrs", seen, 8) && files == 6 * SLOTS && dirs == 6);
	CHECK(!ftw64(PORT "/gid_attrs", seen64, 8) && files == 8 * SLOTS);
	CHECK(!nftw(DEV, seen_at, 8, FTW_PHYS) && links == 1);
	links = 0;
	CHECK(!nftw(DEV "/", seen_at, 8, FTW_PHYS) && links == 2);
	CHECK(nftw(PORT "/none", seen_at, 8, FTW_PHYS) < 0 && errno == ENOENT);
	CHECK(!wrong);
}

static void test_other(void)
{
	struct statfs fs, sys;
	struct statfs64 fs64;
	struct statvfs vfs;
	struct statvfs64 vfs64;
	char buf[64];

	CHECK(getxattr(STATE, "system.posix_acl_access", buf, sizeof(buf)) < 0 && errno == ENOTSUP);
	CHECK(lgetxattr(DEV, "security.selinux", buf, sizeof(buf)) < 0 && errno == ENOTSUP);
	CHECK(listxattr(STATE, buf, sizeof(buf)) < 0 && errno == ENOTSUP);
	CHECK(llistxattr(DEV, buf, sizeof(buf)) < 0 && errno == ENOTSUP);
	CHECK(getxattr(PORT "/none", "user.x", buf, sizeof(buf)) < 0 && errno == ENOENT);
	CHECK(!statfs(STATE, &fs) && !statfs("/sys", &sys) && fs.f_type == sys.f_type);
	CHECK(!statfs64(STATE, &fs64) && fs64.f_type == sys.f_type);
	CHECK(!statvfs(STATE, &vfs) && !statvfs64(PORT, &vfs64));
	CHECK(statfs(PORT "/none", &fs) < 0 && errno == ENOENT);
}

static void test_contents(void)
{
	char path[128], buf[64];
	int fd;

	CHECK(file_is(DEV "/node_type", "1: CA\n"));
	CHECK(file_is(PORT "/phys_state", "5: LinkUp\n"));
	CHECK(file_is(PORT "/link_layer", "Ethernet\n"));
	CHECK(file_is(PORT "/lid", "0x0\n"));
	CHECK(file_is(PORT "/pkeys/0", "0xffff\n"));
	CHECK(file_is(PORT "/hw_counters/lifespan", "10\n"));
	CHECK(file_is(DEV "/device/net/lo/mtu", "65536\n"));
	CHECK(file_is("/sys/class/infiniband_verbs/uverbs0/ibdev", "urxe0\n"));
	CHECK(file_is("/sys/class/infiniband_verbs/abi_version", "6\n"));

	/* The attributes of a slot can be read if there is a GID in it, and give EINVAL if not. */
	for (int i = 0; i < SLOTS; i++) {
		bool empty;

		snprintf(path, sizeof(path), PORT "/gids/%d", i);
		empty = file_is(path, "0000:0000:0000:0000:0000:0000:0000:0000\n");
		snprintf(path, sizeof(path), PORT "/gid_attrs/types/%d", i);
		fd = open(path, O_RDONLY);
		CHECK(fd >= 0);
		if (empty)
			CHECK(read(fd, buf, sizeof(buf)) < 0 && errno == EINVAL);
		else
			CHECK(read(fd, buf, sizeof(buf)) == 8 && !memcmp(buf, "RoCE v2\n", 8));
		close(fd);
		snprintf(path, sizeof(path), PORT "/gid_attrs/ndevs/%d", i);
		CHECK(file_is(path, "lo\n") == !empty);
		if (!i)
			CHECK(!empty);
	}
}

/* libibverbs must not see the view, or it would look for a driver for what it finds. */
static void test_verbs(void)
{
	char path[PATH_MAX];
	int (*sees)(const char *file, const char *dir);
	void *lib;

	snprintf(path, sizeof(path), "%s/libibverbs.so.blind", getenv("URXE_BIN"));
	lib = dlopen(path, RTLD_NOW);
	CHECK(lib);
	sees = lib ? (int (*)(const char *, const char *))dlsym(lib, "blind_sees") : NULL;
	CHECK(sees);
	if (!sees)
		return;
	CHECK(file_is(STATE, ACTIVE));
	CHECK(sees(STATE, PORT) == 0);
	CHECK(sees(HOME "/node_guid", IB) == 0);
	CHECK(sees("/dev/infiniband/uverbs0", "/dev/infiniband") == 0);
	CHECK(sees("/sys/class/net/lo/mtu", "/sys/class/net") == 6);
}

static void *read_much(void *arg)
{
	for (int i = 0; i < 100; i++) {
		DIR *d;

		CHECK(file_is(STATE, ACTIVE));
		d = opendir(DEV);
		CHECK(count(d) == 15);
		if (d)
			closedir(d);
		if (i % 25 == 0) {
			pid_t pid = fork();

			if (!pid)
				_exit(!file_is(STATE, ACTIVE));
			CHECK(pid > 0 && waitpid(pid, arg, 0) == pid);
		}
	}
	return NULL;
}

static void test_directory(void)
{
	char buf[PATH_MAX], small[32];
	struct stat st;
	char *p;

	CHECK(!chdir(DEV));
	CHECK(getcwd(buf, sizeof(buf)) == buf && !strcmp(buf, HOME));
	CHECK((p = getcwd(NULL, 0)) && !strcmp(p, HOME));
	CHECK(__getcwd_chk(buf, sizeof(buf), sizeof(buf)) && !strcmp(buf, HOME));
	CHECK(!getcwd(small, 16) && errno == ERANGE);
	CHECK(file_is("ports/1/state", ACTIVE) && !stat("ports", &st) && S_ISDIR(st.st_mode));
	CHECK((p = realpath("device", NULL)) && !strcmp(p, "/sys/devices/virtual/urxe/urxe0"));
	CHECK(system("cat ports/1/state >/dev/null && [ `wc -c <node_type` = 6 ]") == 0);
	CHECK(!chdir("ports/1") && file_is("state", ACTIVE));
	CHECK(!chdir("../../device/net/lo") && file_is("mtu", "65536\n"));
	CHECK(getcwd(buf, sizeof(buf)) && !strcmp(buf, "/sys/devices/virtual/net/lo"));
	CHECK(!chdir(IB) && getcwd(small, sizeof(small)) && !strcmp(small, IB));
	CHECK(file_is("../net/lo/mtu", "65536\n"));
	CHECK(!chdir("..") && getcwd(buf, sizeof(buf)) && !strcmp(buf, "/sys/class"));
	CHECK(chdir(STATE) < 0 && errno == ENOTDIR);
	CHECK(chdir(IB "/urxe9") < 0 && errno == ENOENT);
}

/* Many threads at once, and children of a threaded process. */
static void test_threads(void)
{
	pthread_t threads[8];
	int status[8] = {0};

	for (int i = 0; i < 8; i++)
		CHECK(!pthread_create(&threads[i], NULL, read_much, &status[i]));
	for (int i = 0; i < 8; i++) {
		pthread_join(threads[i], NULL);
		CHECK(!status[i]);
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} sections[] = {
		{"open", test_open},	     {"descriptor", test_descriptor},
		{"stdio", test_stdio},	     {"errors", test_errors},
		{"stat", test_stat},	     {"access", test_access},
		{"links", test_links},	     {"lists", test_lists},
		{"trees", test_trees},	     {"other", test_other},
		{"contents", test_contents}, {"verbs", test_verbs},
		{"threads", test_threads},   {"directory", test_directory},
	};
	bool found = false;

	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++)
		if (argc == 2 && !strcmp(argv[1], sections[i].name)) {
			sections[i].run();
			found = true;
		}
	if (!found) {
		printf("no such section\n");
		return 2;
	}
	return failures ? 1 : 0;
}
