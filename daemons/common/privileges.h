/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Becoming an ordinary user, for a daemon that root has started without systemd. Once, when
 * everything that takes rights is open: ports, sockets, netlink.
 */
#ifndef DAEMON_PRIVILEGES_H
#define DAEMON_PRIVILEGES_H

#include <stdint.h>

/*
 * From now on this process is that user, in its groups, for good. The calling thread and those that
 * it starts keep the capabilities of the mask (1ull << CAP_NET_ADMIN), as far as they have them,
 * and no other right; other threads keep none. Nothing is done for "", or if this is not root's
 * process. 0, or a negative errno after a line in the log; the process may be neither the one nor
 * the other then, and has to end.
 */
int privileges_drop(const char *user, uint64_t capabilities);

#endif
