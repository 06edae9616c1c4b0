// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The folder of fabrics' sockets, which only its user may enter. Any thread.
 */
#include "fabric/path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/outer_user.h"

int fabric_path(const char *name, bool make, char *path, size_t len)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	char folder[80];
	struct stat st;
	int n;

	if (!*name || strchr(name, '/') || *name == '.' || strlen(name) > 32)
		return -EINVAL;
	if (runtime && *runtime == '/' && strlen(runtime) < 48)
		snprintf(folder, sizeof(folder), "%s/urxe-fabric", runtime);
	else
		snprintf(folder, sizeof(folder), "/tmp/urxe-fabric-%u", outer_user());
	if (make && mkdir(folder, 0700) && errno != EEXIST)
		return -errno;
	if (lstat(folder, &st))
		return -errno;
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 077)
		return -EPERM;
	n = snprintf(path, len, "%s/%s", folder, name);
	return n < 0 || (size_t)n >= len ? -ENAMETOOLONG : 0;
}
