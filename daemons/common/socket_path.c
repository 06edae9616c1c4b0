/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The path of a socket that a daemon is to listen at. A connection tells whether another daemon
 * listens there: ECONNREFUSED has no other cause.
 */
#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemons/common/socket_path.h"

int socket_path_take(const struct sockaddr_un *address)
{
	struct stat stat;
	int probe, ret;

	if (lstat(address->sun_path, &stat))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(stat.st_mode))
		return -EEXIST;
	probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (probe < 0)
		return -errno;
	ret = connect(probe, (const struct sockaddr *)address, sizeof(*address)) ? errno : 0;
	close(probe);
	if (ret != ECONNREFUSED)
		return -EADDRINUSE;
	return unlink(address->sun_path) ? -errno : 0;
}
