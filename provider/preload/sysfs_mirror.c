// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The directories of the sysfs view once more, as real directories of placeholders below /dev/shm.
 * An open directory is a thing of the kernel that libc and programs reach in many ways (readdir,
 * getdents, fchdir, fts, descriptors that are duplicated and handed to children): with a real one
 * behind it all of them work, where a directory stream of our own would serve only those calls that
 * are replaced. Files are not served from here, placeholders are empty: contents are made when a
 * file is opened.
 *
 *   /dev/shm/urxe-view-0-0123456789abcdef.0/sys/class/infiniband/urxe0 -> ../../devices/…
 *            urxe-view-UID-HASH.TRY
 *
 * The hash is that of everything in the tree, so that a mirror never changes: it is built under
 * another name, renamed into place and from then on shared by all processes of the user that see
 * the same devices. A user finds the name taken by somebody else (an id that another user namespace
 * maps differently) and takes the next TRY. Mirrors that nobody began to use for a day are removed
 * when a new one is built; a process that still needs one builds it again.
 *
 * Any thread. What a process knows of its mirror is an immutable structure behind an atomic
 * pointer. System calls are made directly, since another preload may redirect libc's.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "host/libc.h"
#include "preload/files.h"
#include "preload/sysfs.h"

#define PREFIX	   "urxe-view-"
#define ROOT_LEN   128
#define TRIES	   8
#define STALE_SECS (24 * 60 * 60)

struct mirror {
	_Atomic(const struct urxe_sysfs_devices *) devs; /* that it was last compared with */
	uint64_t hash;
	char root[ROOT_LEN];
};

static _Atomic(struct mirror *) current;

/*
 * Called for every entry of the view (type: DT_*), and for the kernel's entries beside them:
 * devices, and links to whatever else they are.
 */
typedef int visit_fn(const char *path, unsigned char type, const char *target, void *arg);

static unsigned char type_of(const struct urxe_sysfs_node *node)
{
	switch (node->type) {
	case URXE_SYSFS_DIR: return DT_DIR;
	case URXE_SYSFS_LINK: return DT_LNK;
	case URXE_SYSFS_CHR: return DT_CHR;
	case URXE_SYSFS_FILE: break;
	}
	return DT_REG;
}

static int visit_kernel_entries(const struct urxe_sysfs_node *dir, char *path, size_t at,
				visit_fn *visit, void *arg)
{
	DIR *d = urxe_files_kernel_opendir(path);
	struct urxe_sysfs_node ours;
	struct dirent *e;
	int ret = 0;

	while (d && !ret && (e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
		    urxe_sysfs_lookup(dir, e->d_name, &ours) ||
		    at + strlen(e->d_name) + 2 > PATH_MAX)
			continue;
		sprintf(path + at, "/%s", e->d_name);
		ret = visit(path, e->d_type == DT_CHR ? DT_CHR : DT_LNK, path, arg);
		path[at] = '\0';
	}
	if (d)
		closedir(d);
	return ret;
}

static int walk(const struct urxe_sysfs_node *dir, char *path, visit_fn *visit, void *arg)
{
	size_t at = strlen(path);
	struct urxe_sysfs_node node;
	int ret = 0;

	for (unsigned i = 0; !ret && urxe_sysfs_entry(dir, i, &node); i++) {
		char target[3 * IBV_SYSFS_NAME_MAX] = "";

		if (node.type == URXE_SYSFS_LINK)
			urxe_sysfs_show(&node, target, sizeof(target));
		sprintf(path + at, "/%s", node.name);
		ret = visit(path, type_of(&node), target, arg);
		if (!ret && node.type == URXE_SYSFS_DIR)
			ret = walk(&node, path, visit, arg);
		path[at] = '\0';
	}
	if (!ret && urxe_sysfs_merged(dir->dir))
		ret = visit_kernel_entries(dir, path, at, visit, arg);
	return ret;
}

static int walk_view(visit_fn *visit, void *arg)
{
	const struct urxe_sysfs_node root = {.type = URXE_SYSFS_DIR, .dir = &urxe_sysfs_root};
	char path[PATH_MAX] = "";
	int ret = walk(&root, path, visit, arg);

	/* Where the links below device/net lead, for programs that follow them without our help. */
	return ret ? ret : visit("/sys/class/net", DT_LNK, "/sys/class/net", arg);
}

/* FNV-1a over each entry, added up: the order in which a directory is listed does not matter. */
static int hash_entry(const char *path, unsigned char type, const char *target, void *arg)
{
	const char *const parts[] = {path, target};
	uint64_t h = 0xcbf29ce484222325 ^ type;
	uint64_t *sum = arg;

	for (unsigned i = 0; i < 2; i++) {
		for (const char *s = parts[i]; *s; s++)
			h = (h ^ (unsigned char)*s) * 0x100000001b3;
		h = (h ^ 0xff) * 0x100000001b3;
	}
	*sum += h;
	return 0;
}

/*
 * Placeholders. A character device of number 0:0 is the one that anybody may make; where even that
 * is refused, a file has to do. stat() is answered from the tables, so that modes matter to nobody
 * but the directory's owner.
 */
static int make_entry(const char *path, unsigned char type, const char *target, void *arg)
{
	const char *root = arg;
	char real[PATH_MAX];
	long ret;

	if ((size_t)snprintf(real, sizeof(real), "%s%s", root, path) >= sizeof(real))
		return -ENAMETOOLONG;
	switch (type) {
	case DT_DIR:
		ret = syscall(SYS_mkdirat, AT_FDCWD, real, 0755);
		if (!ret) /* whatever the umask says, its owner must be able to fill it */
			ret = syscall(SYS_fchmodat, AT_FDCWD, real, 0755);
		break;
	case DT_LNK: ret = syscall(SYS_symlinkat, target, AT_FDCWD, real); break;
	case DT_CHR:
		ret = syscall(SYS_mknodat, AT_FDCWD, real, S_IFCHR | 0666, 0);
		if (ret && errno == EPERM)
			ret = syscall(SYS_mknodat, AT_FDCWD, real, S_IFREG | 0444, 0);
		break;
	default: ret = syscall(SYS_mknodat, AT_FDCWD, real, S_IFREG | 0444, 0); break;
	}
	return ret ? -errno : 0;
}

/* Removes a tree of ours: directories and placeholders, nothing is followed. */
static void remove_tree(int dirfd, const char *name)
{
	int fd = urxe_libc.openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct dirent *e;
	DIR *d;

	if (fd < 0)
		return;
	d = fdopendir(fd);
	if (!d) {
		urxe_libc.close(fd);
		return;
	}
	while ((e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (e->d_type == DT_DIR)
			remove_tree(fd, e->d_name);
		else
			syscall(SYS_unlinkat, fd, e->d_name, 0);
	}
	closedir(d);
	syscall(SYS_unlinkat, dirfd, name, AT_REMOVEDIR);
}

/* Ours, and closed to others? -ENOENT if there is none, -EPERM if it is somebody else's. */
static int root_check(const char *root)
{
	struct stat st;

	if (urxe_files_kernel_lstat(root, &st))
		return -errno;
	/* Without a mapping of user ids all others' look like ours. */
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) ||
	    syscall(SYS_faccessat, AT_FDCWD, root, R_OK | W_OK | X_OK))
		return -EPERM;
	return 0;
}

/* Takes a mirror away under a name by which nobody looks for it, then removes it. */
static void discard(const char *root)
{
	char gone[PATH_MAX];
	uint32_t salt = 0;

	syscall(SYS_getrandom, &salt, sizeof(salt), 0);
	snprintf(gone, sizeof(gone), "%s.%08x", root, salt);
	if (!syscall(SYS_renameat2, AT_FDCWD, root, AT_FDCWD, gone, 0))
		remove_tree(AT_FDCWD, gone);
}

/* Those of this user whose time is over. */
static void remove_stale(const char *base)
{
	char mine[64];
	struct dirent *e;
	DIR *d = urxe_files_kernel_opendir(base);

	snprintf(mine, sizeof(mine), PREFIX "%u-", (unsigned)geteuid());
	while (d && (e = readdir(d))) {
		char path[PATH_MAX];
		struct stat st;

		if (strncmp(e->d_name, mine, strlen(mine)))
			continue;
		snprintf(path, sizeof(path), "%s/%s", base, e->d_name);
		if (!urxe_files_kernel_lstat(path, &st) && st.st_uid == geteuid() &&
		    st.st_mtime + STALE_SECS < time(NULL))
			discard(path);
	}
	if (d)
		closedir(d);
}

static int build(const char *base, const char *root)
{
	char tmp[ROOT_LEN + 16];
	uint32_t salt = 0;
	int ret;

	remove_stale(base);
	syscall(SYS_getrandom, &salt, sizeof(salt), 0);
	snprintf(tmp, sizeof(tmp), "%s.%08x", root, salt);
	if (syscall(SYS_mkdirat, AT_FDCWD, tmp, 0700))
		return -errno;
	ret = syscall(SYS_fchmodat, AT_FDCWD, tmp, 0700) ? -errno : walk_view(make_entry, tmp);
	if (!ret && syscall(SYS_renameat2, AT_FDCWD, tmp, AT_FDCWD, root, 0))
		ret = -errno;
	if (!ret)
		return 0;
	remove_tree(AT_FDCWD, tmp);
	/* Another process was faster. If it is one of this user, its mirror is the same. */
	return ret == -EEXIST || ret == -ENOTEMPTY ? root_check(root) : ret;
}

static int find_in(const char *base, uint64_t hash, char root[ROOT_LEN])
{
	for (int i = 0; i < TRIES; i++) {
		int ret;

		if (snprintf(root, ROOT_LEN - 10, "%s/" PREFIX "%u-%016llx.%d", base,
			     (unsigned)geteuid(), (unsigned long long)hash, i) >= ROOT_LEN - 10)
			return -ENAMETOOLONG;
		ret = root_check(root);
		if (ret == -ENOENT)
			ret = build(base, root);
		else if (!ret) /* it is in use: see remove_stale() */
			syscall(SYS_utimensat, AT_FDCWD, root, NULL, 0);
		if (ret != -EPERM)
			return ret;
	}
	return -EPERM;
}

static int find_root(uint64_t hash, char root[ROOT_LEN])
{
	const char *const bases[] = {"/dev/shm", getenv("XDG_RUNTIME_DIR"), "/tmp"};
	int first = 0;

	for (unsigned i = 0; i < sizeof(bases) / sizeof(bases[0]); i++) {
		int ret;

		if (!bases[i] || bases[i][0] != '/')
			continue;
		ret = find_in(bases[i], hash, root);
		if (!ret)
			return 0;
		if (!first)
			first = ret;
	}
	return first;
}

/* The mirror of the view as it is now. */
static int renew(bool again, const char **root)
{
	const struct urxe_sysfs_devices *devs = urxe_sysfs_refresh();
	struct mirror *m = atomic_load(&current), *fresh;
	uint64_t hash = 0;
	int ret;

	walk_view(hash_entry, &hash);
	if (m && m->hash == hash && !again) {
		atomic_store(&m->devs, devs);
		*root = m->root;
		return 0;
	}
	fresh = malloc(sizeof(*fresh));
	if (!fresh)
		return -ENOMEM;
	atomic_init(&fresh->devs, devs);
	fresh->hash = hash;
	ret = find_root(hash, fresh->root);
	if (ret) {
		free(fresh);
		return ret;
	}
	if (m && !strcmp(m->root, fresh->root)) {
		free(fresh);
		atomic_store(&m->devs, devs);
		*root = m->root;
		return 0;
	}
	atomic_store(&current, fresh); /* the old one may still be read, and is small */
	*root = fresh->root;
	return 0;
}

/* Something was removed from within, by a program that thought it was in sysfs. */
static void discard_broken(const char *root, const char *path)
{
	char real[PATH_MAX];
	struct stat st;

	if ((size_t)snprintf(real, sizeof(real), "%s%s", root, path) < sizeof(real) &&
	    urxe_files_kernel_lstat(real, &st) && errno == ENOENT && !root_check(root))
		discard(root);
}

int urxe_sysfs_mirror(const char *path, bool listing, bool again, char *real, size_t len)
{
	struct mirror *m = atomic_load(&current);
	const char *root;
	int ret;

	if (m && !listing && !again && atomic_load(&m->devs) == urxe_sysfs_devices()) {
		root = m->root;
	} else {
		if (m && again)
			discard_broken(m->root, path);
		ret = renew(again, &root);
		if (ret)
			return ret;
	}
	return (size_t)snprintf(real, len, "%s%s", root, path) < len ? 0 : -ENAMETOOLONG;
}

const char *urxe_sysfs_mirrored(const char *real)
{
	const char *name = strstr(real, "/" PREFIX);
	const char *path;

	if (!name)
		return NULL;
	path = strchr(name + 1, '/');
	return path ? path : "/";
}
