/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Becoming an ordinary user, for a daemon that root has started without systemd. Once, when everything
 * that takes rights is open: ports, sockets, netlink.
 */
#ifndef SACACHED_PRIVILEGES_H
#define SACACHED_PRIVILEGES_H

/*
 * From now on this process is that user, in its groups, for good. The calling thread and those it
 * starts keep CAP_NET_ADMIN, without which the kernel takes no answers by netlink, and no other right; other
 * threads keep none. Nothing is done for "", or if this is not root's process. 0, or a negative errno
 * after a line in the log; the process may be neither the one nor the other then, and has to end.
 */
int privileges_drop(const char *user);

#endif
