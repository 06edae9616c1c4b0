// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The libc calls that list directories. A directory of the view is a real one in the mirror, so
 * that opendir() and scandir() are given its path there, and readdir(), dirfd(), fdopendir(),
 * getdents and the rest need no replacement. glob() and ftw() walk with libc's own calls, which do
 * not come through here: glob() is made to walk with ours, ftw() on a path of the view walks by the
 * code below. (fts(3) is not served; the programs that use it bring their own copy.)
 *
 * Any thread, as the calls themselves.
 */
#include "preload/files.h"

static DIR *open_directory(const char *path, const void *caller)
{
	char real[PATH_MAX];
	int ret;

	if (!urxe_view_maybe(path) || !urxe_view_directory(AT_FDCWD, path, caller, real, &ret))
		return next(opendir)(path);
	return ret ? NULL : next(opendir)(real);
}

URXE_EXPORT DIR *opendir(const char *path)
{
	return open_directory(path, URXE_CALLER);
}

#define SCANDIR(name, at, params, head)                                         \
	URXE_EXPORT int name params                                             \
	{                                                                       \
		char real[PATH_MAX];                                            \
		int ret;                                                        \
                                                                                \
		if (!urxe_view_maybe(path) ||                                   \
		    !urxe_view_directory(at, path, URXE_CALLER, real, &ret))    \
			return next(name)(head path, list, filter, compare);    \
		return ret ? -1 : next(name)(head real, list, filter, compare); \
	}
#define COMMA ,

SCANDIR(scandir, AT_FDCWD,
	(const char *path, struct dirent ***list, int (*filter)(const struct dirent *),
	 int (*compare)(const struct dirent **, const struct dirent **)), )
SCANDIR(scandir64, AT_FDCWD,
	(const char *path, struct dirent64 ***list, int (*filter)(const struct dirent64 *),
	 int (*compare)(const struct dirent64 **, const struct dirent64 **)), )
SCANDIR(scandirat, dirfd,
	(int dirfd, const char *path, struct dirent ***list, int (*filter)(const struct dirent *),
	 int (*compare)(const struct dirent **, const struct dirent **)),
	dirfd COMMA)
SCANDIR(scandirat64, dirfd,
	(int dirfd, const char *path, struct dirent64 ***list,
	 int (*filter)(const struct dirent64 *),
	 int (*compare)(const struct dirent64 **, const struct dirent64 **)),
	dirfd COMMA)

/*
 * glob(3) with GLOB_ALTDIRFUNC walks with the functions it is given. A caller that brings its own
 * decides itself what there is to see.
 */
static void *glob_opendir(const char *path)
{
	return open_directory(path, NULL);
}

static void *glob_readdir(void *dir)
{
	return readdir(dir);
}

static void glob_closedir(void *dir)
{
	closedir(dir);
}

static int glob_stat(const char *path, void *st)
{
	int ret;

	if (urxe_view_maybe(path) && urxe_view_stat(AT_FDCWD, path, 0, st, NULL, &ret))
		return ret;
	return next(stat)(path, st);
}

static int glob_lstat(const char *path, void *st)
{
	int ret;

	if (urxe_view_maybe(path) &&
	    urxe_view_stat(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, st, NULL, &ret))
		return ret;
	return next(lstat)(path, st);
}

_Static_assert(sizeof(struct dirent) == sizeof(struct dirent64),
	       "struct dirent64 is struct dirent");

#define GLOB(name, type)                                                                     \
	URXE_EXPORT int name(const char *pattern, int flags, int (*fail)(const char *, int), \
			     type *found)                                                    \
	{                                                                                    \
		int ret;                                                                     \
                                                                                             \
		if (flags & GLOB_ALTDIRFUNC || !urxe_view_maybe(pattern) ||                  \
		    urxe_view_hidden_from(URXE_CALLER))                                      \
			return next(name)(pattern, flags, fail, found);                      \
		found->gl_opendir = glob_opendir;                                            \
		found->gl_readdir = (__typeof__(found->gl_readdir))glob_readdir;             \
		found->gl_closedir = glob_closedir;                                          \
		found->gl_stat = (__typeof__(found->gl_stat))glob_stat;                      \
		found->gl_lstat = (__typeof__(found->gl_lstat))glob_lstat;                   \
		ret = next(name)(pattern, flags | GLOB_ALTDIRFUNC, fail, found);             \
		found->gl_flags &= ~GLOB_ALTDIRFUNC;                                         \
		return ret;                                                                  \
	}

GLOB(glob, glob_t)
GLOB(glob64, glob64_t)

/*
 * ftw(3) and nftw(3) walk the mirror; the function of the caller sees paths and attributes as they
 * are in the view. What it asks for is kept per thread: it may walk another tree from within.
 */
struct ftw_call {
	int (*ftw)(const char *path, const struct stat *st, int type);
	int (*nftw)(const char *path, const struct stat *st, int type, struct FTW *ftw);
	const char *asked; /* the path that the caller gave */
	size_t real_len;   /* of that path in the mirror */
};

static __thread const struct ftw_call *ftw_call __attribute__((tls_model("initial-exec")));

static int ftw_shim(const char *real, const struct stat *st, int type, struct FTW *ftw)
{
	const struct ftw_call *call = ftw_call;
	const char *rest = real + call->real_len;
	struct FTW seen = *ftw;
	char path[PATH_MAX];
	struct stat now;
	int ret;

	if ((size_t)snprintf(path, sizeof(path), "%s%s", call->asked, rest) >= sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	seen.base = rest > real && *rest ? (int)(ftw->base - call->real_len + strlen(call->asked))
					 : (int)(strlen(call->asked) - (strlen(real) - ftw->base));
	if (seen.base < 0)
		seen.base = 0;
	if (type != FTW_NS &&
	    urxe_view_stat(AT_FDCWD, path,
			   type == FTW_SL || type == FTW_SLN ? AT_SYMLINK_NOFOLLOW : 0, &now, NULL,
			   &ret) &&
	    !ret)
		st = &now;
	return call->ftw ? call->ftw(path, st, type) : call->nftw(path, st, type, &seen);
}

static bool view_ftw(const char *path, struct ftw_call *call, int fds, int flags,
		     const void *caller, int *ret)
{
	const struct ftw_call *outer = ftw_call;
	struct urxe_sysfs_found f;
	char real[PATH_MAX];

	if (flags & FTW_PHYS &&
	    urxe_view_find(AT_FDCWD, path, true, caller, &f) == URXE_SYSFS_NODE &&
	    f.node.type == URXE_SYSFS_LINK) {
		if (urxe_sysfs_mirror(f.path, true, false, real, sizeof(real)))
			return false;
	} else if (!urxe_view_directory(AT_FDCWD, path, caller, real, ret)) {
		return false;
	} else if (*ret) {
		return true;
	}
	call->asked = path;
	call->real_len = strlen(real);
	ftw_call = call;
	*ret = next(nftw)(real, ftw_shim, fds, flags);
	ftw_call = outer;
	return true;
}

/* flags: of nftw(); 0 for ftw(), which has none. */
#define FTW(name, member, flags, params, ...)                                                      \
	URXE_EXPORT int name params                                                                \
	{                                                                                          \
		struct ftw_call call = {.member = (__typeof__(call.member))fn};                    \
		int ret;                                                                           \
                                                                                                   \
		if (urxe_view_maybe(path) && view_ftw(path, &call, fds, flags, URXE_CALLER, &ret)) \
			return ret;                                                                \
		return next(name)(__VA_ARGS__);                                                    \
	}

FTW(ftw, ftw, 0, (const char *path, __ftw_func_t fn, int fds), path, fn, fds)
FTW(ftw64, ftw, 0, (const char *path, __ftw64_func_t fn, int fds), path, fn, fds)
FTW(nftw, nftw, how, (const char *path, __nftw_func_t fn, int fds, int how), path, fn, fds, how)
FTW(nftw64, nftw, how, (const char *path, __nftw64_func_t fn, int fds, int how), path, fn, fds, how)

/*
 * A process in a directory of the view is really in the mirror. Programs that it starts there find
 * out when they are loaded (urxe_view_init()).
 */
URXE_EXPORT int chdir(const char *path)
{
	char real[PATH_MAX];
	int ret;

	if (!urxe_view_maybe(path) || !urxe_view_directory(AT_FDCWD, path, URXE_CALLER, real, &ret))
		return next(chdir)(path);
	return ret ? -1 : next(chdir)(real);
}

static char *view_cwd(char *cwd)
{
	const char *path = cwd ? urxe_sysfs_mirrored(cwd) : NULL;

	if (path)
		memmove(cwd, path, strlen(path) + 1);
	return cwd;
}

/* The name in the mirror is the longer one, and may not fit where the name in the view does. */
static char *view_getcwd(char *buf, size_t size)
{
	char cwd[PATH_MAX];

	if (!buf || size >= sizeof(cwd))
		return view_cwd(next(getcwd)(buf, size));
	if (!view_cwd(next(getcwd)(cwd, sizeof(cwd))))
		return NULL;
	if (strlen(cwd) >= size) {
		errno = size ? ERANGE : EINVAL;
		return NULL;
	}
	return strcpy(buf, cwd);
}

URXE_EXPORT char *getcwd(char *buf, size_t size)
{
	if (!atomic_load_explicit(&urxe_view_opened, memory_order_relaxed))
		return next(getcwd)(buf, size);
	return view_getcwd(buf, size);
}

URXE_EXPORT char *__getcwd_chk(char *buf, size_t size, size_t buflen)
{
	if (!atomic_load_explicit(&urxe_view_opened, memory_order_relaxed) || size > buflen)
		return next(__getcwd_chk)(buf, size, buflen);
	return view_getcwd(buf, size);
}

URXE_EXPORT char *get_current_dir_name(void)
{
	if (!atomic_load_explicit(&urxe_view_opened, memory_order_relaxed))
		return next(get_current_dir_name)();
	return view_cwd(next(get_current_dir_name)());
}
