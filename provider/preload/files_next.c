// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The next definitions of the libc calls on files: libc's own, or those of another preload behind
 * this one. Found all at once, by a constructor or by the first call that comes before it; threads
 * that race store the same addresses. Immutable afterwards. dlsym() of a name that exists takes the
 * loader's lock and allocates nothing.
 */
#include "preload/files.h"

struct urxe_files_next urxe_files_next_table;
atomic_bool urxe_files_next_ready;

void urxe_files_next_init(void)
{
	int saved = errno;

#define URXE_FILE_RESOLVE(name) urxe_files_next_table.name##_ = urxe_libc_next(#name);
	URXE_FILE_CALLS(URXE_FILE_RESOLVE)
#undef URXE_FILE_RESOLVE
	if (!urxe_files_next_table.fcntl64_)
		urxe_files_next_table.fcntl64_ = urxe_files_next_table.fcntl_;
	atomic_store_explicit(&urxe_files_next_ready, true, memory_order_release);
	errno = saved;
}

static __attribute__((constructor(102))) void files_next_constructor(void)
{
	urxe_files_next();
	urxe_view_init();
}

DIR *urxe_files_kernel_opendir(const char *path)
{
	return next(opendir)(path);
}

int urxe_files_kernel_lstat(const char *path, struct stat *st)
{
	return next(lstat)(path, st);
}
