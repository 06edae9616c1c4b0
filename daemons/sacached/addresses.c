/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * IP addresses: the host's own, and a table of what was asked about others; addresses.h draws it. All
 * in the loop's thread.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if_arp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemons/sacached/addresses.h"
#include "daemons/sacached/log.h"

#define SETS	      8192
#define WAYS	      4
#define IPOIB_ADDRESS 20 /* flags and QPN, 4 bytes, then the GID (RFC 4391, 9.1.1) */

enum known { UNKNOWN, HAS_GID, HAS_NONE };

struct entry {
	struct in6_addr ip;
	uint8_t gid[16];
	uint32_t generation; /* of another one: unknown */
	uint8_t known;
};

struct addresses {
	struct sacached *d;
	int fd; /* the kernel's news */
	struct event *news;
	struct local_address *local;
	unsigned count;
	bool local_stale;
	uint32_t generation;
	uint64_t seed;
	uint8_t victim; /* the way that goes next */
	struct entry table[SETS][WAYS];
};

static struct entry *set_of(struct addresses *addresses, const struct in6_addr *ip)
{
	uint64_t a, b, hash;

	memcpy(&a, ip->s6_addr, 8);
	memcpy(&b, ip->s6_addr + 8, 8);
	hash = (a ^ addresses->seed) * 0x9e3779b97f4a7c15ull;
	hash = (hash ^ (hash >> 32) ^ b) * 0x9e3779b97f4a7c15ull;
	return addresses->table[hash >> 51];
}

static struct entry *find(struct addresses *addresses, const struct in6_addr *ip)
{
	struct entry *set = set_of(addresses, ip);

	for (unsigned i = 0; i < WAYS; i++)
		if (set[i].known && set[i].generation == addresses->generation &&
		    !memcmp(&set[i].ip, ip, sizeof(*ip)))
			return &set[i];
	return NULL;
}

static void keep(struct addresses *addresses, const struct in6_addr *ip, const uint8_t *gid)
{
	struct entry *entry = find(addresses, ip), *set = set_of(addresses, ip);

	for (unsigned i = 0; i < WAYS && !entry; i++)
		if (!set[i].known || set[i].generation != addresses->generation)
			entry = &set[i];
	if (!entry)
		entry = &set[addresses->victim++ % WAYS];
	*entry = (struct entry){.ip = *ip, .generation = addresses->generation};
	entry->known = gid ? HAS_GID : HAS_NONE;
	if (gid)
		memcpy(entry->gid, gid, 16);
}

void addresses_forget(struct addresses *addresses)
{
	addresses->generation++;
}

static void map_v4(const void *v4, struct in6_addr *ip)
{
	memset(ip, 0, sizeof(*ip));
	memset(&ip->s6_addr[10], 0xff, 2);
	memcpy(&ip->s6_addr[12], v4, 4);
}

static bool ip_of(const struct sockaddr *addr, struct in6_addr *ip)
{
	if (addr && addr->sa_family == AF_INET)
		map_v4(&((const struct sockaddr_in *)addr)->sin_addr, ip);
	else if (addr && addr->sa_family == AF_INET6)
		*ip = ((const struct sockaddr_in6 *)addr)->sin6_addr;
	else
		return false;
	return true;
}

/* The link-layer entry of a netdev, if that is IPoIB. getifaddrs() gives it room for long addresses. */
static const struct ifaddrs *ipoib_of(const struct ifaddrs *list, const char *name)
{
	for (; list; list = list->ifa_next) {
		const struct sockaddr_ll *link = (const void *)list->ifa_addr;

		if (link && link->sll_family == AF_PACKET && !strcmp(list->ifa_name, name))
			return link->sll_hatype == ARPHRD_INFINIBAND &&
					       link->sll_halen == IPOIB_ADDRESS
				       ? list
				       : NULL;
	}
	return NULL;
}

/* A link-layer address; sll_addr itself has room for 8 bytes only. */
static const uint8_t *hardware_of(const struct sockaddr *addr)
{
	return (const uint8_t *)addr + offsetof(struct sockaddr_ll, sll_addr);
}

/* The broadcast group's MGID has the partition in its bytes 4 and 5 (RFC 4391, 4). */
static uint16_t partition_of(const struct ifaddrs *ipoib)
{
	const struct sockaddr_ll *link = (const void *)ipoib->ifa_broadaddr;
	const uint8_t *mgid;

	if (!link || link->sll_halen != IPOIB_ADDRESS)
		return 0;
	mgid = hardware_of(ipoib->ifa_broadaddr) + 4;
	return mgid[4] << 8 | mgid[5];
}

struct local_address *addresses_of_host(const struct ifaddrs *list, unsigned *count)
{
	struct local_address *local;
	unsigned most = 0;

	*count = 0;
	for (const struct ifaddrs *p = list; p; p = p->ifa_next)
		most++;
	local = calloc(most + 1, sizeof(*local));
	for (const struct ifaddrs *p = list; p && local; p = p->ifa_next) {
		struct local_address *to = &local[*count];
		const struct ifaddrs *ipoib;

		if (!ip_of(p->ifa_addr, &to->ip))
			continue;
		ipoib = ipoib_of(list, p->ifa_name);
		if (!ipoib)
			continue;
		memcpy(to->gid, hardware_of(ipoib->ifa_addr) + 4, 16);
		to->pkey = partition_of(ipoib);
		++*count;
	}
	return local;
}

static void read_local(struct addresses *addresses)
{
	struct ifaddrs *list;

	if (getifaddrs(&list))
		return;
	free(addresses->local);
	addresses->local = addresses_of_host(list, &addresses->count);
	addresses->local_stale = !addresses->local;
	freeifaddrs(list);
}

static const struct local_address *find_local(struct addresses *addresses,
					      const struct in6_addr *ip)
{
	if (addresses->local_stale)
		read_local(addresses);
	for (unsigned i = 0; i < addresses->count; i++)
		if (!memcmp(&addresses->local[i].ip, ip, sizeof(*ip)))
			return &addresses->local[i];
	return NULL;
}

const struct local_address *addresses_local(struct addresses *addresses, const uint8_t gid[16],
					    uint16_t pkey, unsigned n)
{
	if (addresses->local_stale)
		read_local(addresses);
	for (unsigned i = 0; i < addresses->count; i++) {
		const struct local_address *local = &addresses->local[i];

		if (!memcmp(local->gid, gid, 16) &&
		    (!pkey || !local->pkey || (local->pkey & 0x7fff) == (pkey & 0x7fff)) && !n--)
			return local;
	}
	return NULL;
}

int addresses_gid(struct addresses *addresses, const struct in6_addr *ip, uint8_t gid[16],
		  bool *kept)
{
	const struct local_address *local = find_local(addresses, ip);
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = *ip};
	struct entry *entry;
	int ret;

	*kept = true;
	if (local) {
		memcpy(gid, local->gid, 16);
		return 0;
	}
	entry = find(addresses, ip);
	if (entry && entry->known == HAS_GID)
		memcpy(gid, entry->gid, 16);
	if (entry)
		return entry->known == HAS_GID ? 0 : -ENODATA;
	*kept = false;
	ret = sacache_ip_to_gid(addresses->d->cache, (struct sockaddr *)&v6, gid);
	keep(addresses, ip, ret ? NULL : gid);
	return ret;
}

const struct sacached_port *addresses_port(struct addresses *addresses, const struct in6_addr *ip,
					   uint16_t *pkey)
{
	const struct local_address *local = find_local(addresses, ip);
	uint8_t gid[16];
	bool kept;

	*pkey = local ? local->pkey : 0;
	if (local)
		return sacached_port_by_gid(addresses->d, local->gid);
	if (addresses_gid(addresses, ip, gid, &kept))
		return NULL;
	return sacached_port_by_gid(addresses->d, gid);
}

int addresses_source(const struct in6_addr *destination, struct in6_addr *source)
{
	bool v4 = IN6_IS_ADDR_V4MAPPED(destination);
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(9)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(9)};
	struct sockaddr *to = v4 ? (struct sockaddr *)&in : (struct sockaddr *)&in6;
	socklen_t length = v4 ? sizeof(in) : sizeof(in6);
	int fd = socket(to->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), ret = 0;

	if (fd < 0)
		return -errno;
	memcpy(&in.sin_addr, &destination->s6_addr[12], 4);
	in6.sin6_addr = *destination;
	if (connect(fd, to, length) || getsockname(fd, to, &length))
		ret = -errno;
	close(fd);
	if (!ret)
		ip_of(to, source);
	return ret;
}

static bool parse_ip(const char *text, struct in6_addr *ip)
{
	struct in_addr v4;

	if (inet_pton(AF_INET, text, &v4) != 1)
		return inet_pton(AF_INET6, text, ip) == 1;
	map_v4(&v4, ip);
	return true;
}

/* An address as text, too. Not by getaddrinfo(), which may wait for a name server. */
int addresses_of_name(const char *name, struct in6_addr *ip)
{
	int ret = parse_ip(name, ip) ? 0 : -ENODATA;
	FILE *file = ret ? fopen("/etc/hosts", "re") : NULL;
	char line[1024];

	while (ret && file && fgets(line, sizeof(line), file)) {
		char *rest = line, *address, *word;

		line[strcspn(line, "#\r\n")] = 0;
		address = strsep(&rest, " \t");
		while (ret && (word = strsep(&rest, " \t")))
			if (*word && !strcasecmp(word, name) && parse_ip(address, ip))
				ret = 0;
	}
	if (file)
		fclose(file);
	return ret;
}

/* A neighbour that changed: its GID is kept, or forgotten. */
static void neighbour(struct addresses *addresses, const struct nlmsghdr *header)
{
	const struct ndmsg *message = NLMSG_DATA(header);
	int left = header->nlmsg_len - NLMSG_LENGTH(sizeof(*message));
	const struct rtattr *attr =
		(const void *)((const char *)message + NLMSG_ALIGN(sizeof(*message)));
	const uint8_t *hardware = NULL;
	struct in6_addr ip;
	struct entry *entry;
	bool has_ip = false;

	for (; RTA_OK(attr, left); attr = RTA_NEXT(attr, left)) {
		if (attr->rta_type == NDA_DST && RTA_PAYLOAD(attr) == 4)
			map_v4(RTA_DATA(attr), &ip);
		else if (attr->rta_type == NDA_DST && RTA_PAYLOAD(attr) == 16)
			memcpy(&ip, RTA_DATA(attr), 16);
		has_ip |= attr->rta_type == NDA_DST;
		if (attr->rta_type == NDA_LLADDR && RTA_PAYLOAD(attr) == IPOIB_ADDRESS)
			hardware = RTA_DATA(attr);
	}
	if (!has_ip)
		return;
	if (hardware && header->nlmsg_type == RTM_NEWNEIGH &&
	    !(message->ndm_state & (NUD_INCOMPLETE | NUD_FAILED)))
		keep(addresses, &ip, hardware + 4);
	else if ((entry = find(addresses, &ip)))
		entry->known = UNKNOWN;
}

static void news(evutil_socket_t fd, short what, void *arg)
{
	struct addresses *addresses = arg;
	uint32_t buf[4096];
	ssize_t got = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
	int left = got;

	/* Some were lost: it may have been any. */
	if (got < 0 && errno == ENOBUFS) {
		addresses->local_stale = true;
		addresses_forget(addresses);
	}
	for (struct nlmsghdr *header = (void *)buf; got > 0 && NLMSG_OK(header, left);
	     header = NLMSG_NEXT(header, left)) {
		if (header->nlmsg_type == RTM_NEWNEIGH || header->nlmsg_type == RTM_DELNEIGH)
			neighbour(addresses, header);
		else
			addresses->local_stale = true;
	}
}

static int listen_to_kernel(struct addresses *addresses)
{
	struct sockaddr_nl addr = {.nl_family = AF_NETLINK,
				   .nl_groups = RTMGRP_LINK | RTMGRP_NEIGH | RTMGRP_IPV4_IFADDR |
						RTMGRP_IPV6_IFADDR};

	addresses->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (addresses->fd < 0 || bind(addresses->fd, (struct sockaddr *)&addr, sizeof(addr)))
		return -errno;
	addresses->news =
		event_new(addresses->d->base, addresses->fd, EV_READ | EV_PERSIST, news, addresses);
	return addresses->news && !event_add(addresses->news, NULL) ? 0 : -ENOMEM;
}

int addresses_start(struct sacached *d, struct addresses **out)
{
	struct addresses *addresses = calloc(1, sizeof(*addresses));
	int ret;

	if (!addresses)
		return -ENOMEM;
	addresses->d = d;
	addresses->local_stale = true;
	if (getrandom(&addresses->seed, sizeof(addresses->seed), 0) < 0)
		addresses->seed = (uintptr_t)addresses;
	ret = listen_to_kernel(addresses);
	if (ret) {
		log_error("no news of addresses from the kernel (netlink): %s", strerror(-ret));
		addresses_stop(addresses);
		return ret;
	}
	*out = addresses;
	return 0;
}

void addresses_stop(struct addresses *addresses)
{
	if (!addresses)
		return;
	if (addresses->news)
		event_free(addresses->news);
	if (addresses->fd >= 0)
		close(addresses->fd);
	free(addresses->local);
	free(addresses);
}
