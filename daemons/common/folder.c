/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Folders for the files that a daemon makes. Root makes them at the start, before the daemon
 * becomes an ordinary user, who has to be able to make files in them.
 */
#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemons/common/folder.h"

int folder_make(const char *file, mode_t mode, const char *user)
{
	const char *slash = strrchr(file, '/');
	char folder[PATH_MAX];
	struct passwd *owner;

	if (!slash || slash == file)
		return 0;
	if (slash - file >= PATH_MAX)
		return -ENAMETOOLONG;
	snprintf(folder, sizeof(folder), "%.*s", (int)(slash - file), file);
	if (mkdir(folder, mode))
		return errno == EEXIST ? 0 : -errno;
	if (!user[0] || geteuid() != 0)
		return 0;
	owner = getpwnam(user);
	return !owner || chown(folder, owner->pw_uid, owner->pw_gid) ? -EPERM : 0;
}
