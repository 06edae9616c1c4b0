/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Where the processes of a host segment reach each other: a datagram socket of each, beside the
 * segment's file, "<segment>.s<slot>-<8 hexadecimal digits>", with mode 0600. The digits are random
 * and stand in the segment, so that no other user can take the name first, and each owner of a slot
 * has a name of its own. The name goes with its slot, as a window's does.
 *
 * Any thread.
 */
#ifndef URXE_HOST_SEGMENT_SOCKET_H
#define URXE_HOST_SEGMENT_SOCKET_H

#include <sys/socket.h>
#include <sys/un.h>

#include "host/segment.h"

/* Binds a new socket of the unix domain to this process's name. 0, or -errno after a line on
 * stderr. */
int urxe_segment_socket_bind(struct urxe_segment *seg, int fd);
/* The address of a slot's socket, and its length; 0: it has none. It may have died since. */
socklen_t urxe_segment_socket_name(const struct urxe_segment *seg, unsigned slot,
				   struct sockaddr_un *name);
/* Removes the name of this process's. */
void urxe_segment_socket_remove(struct urxe_segment *seg);

#endif
