/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A process on a host of a virtual InfiniBand fabric (fabric/protocol.h): URXE_FABRIC names the
 * fabric's socket and URXE_HOST the host; `urxe run --host` sets both. Such a process has the
 * host's adapters and no others.
 *
 * Any thread; a lock of its own guards the process's connection. Maps stay for the life of the
 * process.
 */
#ifndef URXE_HOST_FABRIC_H
#define URXE_HOST_FABRIC_H

#include <stdbool.h>

#include "fabric/map.h"
#include "fabric/protocol.h"

struct urxe_fabric_host {
	const struct fabric_map *map;
	unsigned num_adapters;
	uint32_t adapters[FABRIC_HOST_ADAPTERS]; /* indices of nodes */
};

/* Is this a process on a host of a fabric? */
bool urxe_fabric_wanted(void);
/*
 * The host, as of now: attaches at the first call, and again when the fabric has gone and come
 * back. NULL while there is no fabric, after one line of the log that says why. What it returns
 * stays valid.
 */
const struct urxe_fabric_host *urxe_fabric_host(void);
/* Is the fabric of that host still on? */
bool urxe_fabric_alive(const struct urxe_fabric_host *host);
/*
 * A connection of that kind, for a port where it is about one, with a descriptor to hand over (-1:
 * none): a descriptor of ours, or -errno. fds: for those that come with the welcome (-1: there is
 * none), which are not ours yet; NULL: they are not wanted.
 */
int urxe_fabric_connect(uint32_t kind, uint32_t port, int fd, struct fabric_welcome *welcome,
			int fds[FABRIC_UMAD_FDS]);
/* The number of the host in its fabric; 0: there is none. */
uint32_t urxe_fabric_host_number(void);
/* A command of the process: 0 or -errno of the connection; the answer's error is in the reply. */
int urxe_fabric_request(const struct fabric_request *request, struct fabric_reply *reply);
/* FABRIC_COUNTERS: 0 or -errno. */
int urxe_fabric_counters(uint32_t port, uint16_t attribute, struct fabric_counters *counters);
/* In the child of a fork: the connection is its parent's. */
void urxe_fabric_forked(void);

#endif
