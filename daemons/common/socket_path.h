/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The path of a socket that a daemon is to listen at. At the start, in the loop's thread.
 */
#ifndef DAEMON_SOCKET_PATH_H
#define DAEMON_SOCKET_PATH_H

#include <sys/un.h>

/*
 * Frees it: the socket of a daemon that is gone is removed. -EADDRINUSE: one that
 * lives has it, though it may take no connection now; -EEXIST: there is something else
 * than a socket; else -errno.
 */
int socket_path_take(const struct sockaddr_un *address);

#endif
