/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * From IP addresses to GIDs: a hosts file, and the kernel's neighbours behind IPoIB. Addresses are
 * IPv6 or IPv4-mapped. The parsers are pure functions; the rest is the cache's, under hosts_lock.
 */
#ifndef SACACHE_HOSTS_H
#define SACACHE_HOSTS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sa_host {
	struct in6_addr addr;
	uint8_t gid[16];
};

struct sa_hosts {
	size_t count;
	struct sa_host host[]; /* sorted by address */
};

/* Parses a hosts file's text, which ends with 0. -EINVAL: *line (may be NULL) is wrong; -ENOMEM. */
int sa_hosts_parse(const char *text, struct sa_hosts **hosts, unsigned *line);
void sa_hosts_free(struct sa_hosts *hosts);
const struct sa_host *sa_hosts_find(const struct sa_hosts *hosts, const struct in6_addr *addr);

enum sa_neighbours { SA_NEIGHBOURS_MORE, SA_NEIGHBOURS_END };
/*
 * Searches netlink messages of an RTM_GETNEIGH dump for the neighbour with that address and a
 * link-layer address of 20 bytes: 4 of flags and QPN, then the GID (RFC 4391, 9.1.1).
 */
enum sa_neighbours sa_neighbours_parse(const void *buf, size_t length, const struct in6_addr *addr,
				       uint8_t gid[16], bool *found);

#endif
