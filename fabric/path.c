// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The folder of fabrics' sockets, which only its user may enter, and sockets that fabrics left
 * which were killed. Any thread.
 */
#include "fabric/path.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
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

int fabric_lock_folder(const char *path)
{
	char folder[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
	int fd, err;

	snprintf(folder, sizeof(folder), "%s", path);
	fd = open(dirname(folder), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	while (fd >= 0 && flock(fd, LOCK_EX)) {
		err = errno;
		if (err == EINTR)
			continue;
		close(fd);
		return -err;
	}
	return fd < 0 ? -errno : fd;
}

/* A child that was forked meanwhile may have the descriptor, too. */
void fabric_unlock_folder(int folder)
{
	flock(folder, LOCK_UN);
	close(folder);
}

bool fabric_is_abandoned(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	bool refused;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	refused = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) &&
		  errno == ECONNREFUSED;
	close(fd);
	return refused;
}

static bool was_killed(const char *path, bool remove)
{
	int folder = fabric_lock_folder(path);
	bool killed = folder >= 0 && fabric_is_abandoned(path);
	char control[sizeof(((struct sockaddr_un *)NULL)->sun_path)];

	if (killed && remove) {
		snprintf(control, sizeof(control), "%s.control", path);
		unlink(control);
		unlink(path);
	}
	if (folder >= 0)
		fabric_unlock_folder(folder);
	return killed;
}

bool fabric_was_killed(const char *path)
{
	return was_killed(path, false);
}

bool fabric_remove_killed(const char *path)
{
	return was_killed(path, true);
}
