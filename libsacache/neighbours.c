/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Maps IP addresses to GIDs by the kernel's neighbour table, over netlink. Runs in the calling
 * thread, each time with a new socket: the kernel answers at once.
 */
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "libsacache/cache.h"
#include "libsacache/hosts.h"

#define IPOIB_ADDRESS 20

/* The attributes of one neighbour. True: it has the address, and a GID. */
static bool match(const struct ndmsg *neighbour, size_t length, const struct in6_addr *addr,
		  uint8_t gid[16])
{
	const uint8_t *p = (const uint8_t *)neighbour + NLMSG_ALIGN(sizeof(*neighbour));
	size_t left = length - NLMSG_ALIGN(sizeof(*neighbour));
	const uint8_t *hardware = NULL;
	bool same = false;

	while (left >= sizeof(struct rtattr)) {
		struct rtattr attr;
		size_t size;

		memcpy(&attr, p, sizeof(attr));
		if (attr.rta_len < sizeof(attr) || attr.rta_len > left)
			return false;
		size = attr.rta_len - RTA_LENGTH(0);
		if (attr.rta_type == NDA_DST && size == 4 && neighbour->ndm_family == AF_INET)
			same = IN6_IS_ADDR_V4MAPPED(addr) &&
			       !memcmp(&addr->s6_addr[12], p + RTA_LENGTH(0), 4);
		else if (attr.rta_type == NDA_DST && size == 16)
			same = !memcmp(addr, p + RTA_LENGTH(0), 16);
		else if (attr.rta_type == NDA_LLADDR && size == IPOIB_ADDRESS)
			hardware = p + RTA_LENGTH(0);
		size = RTA_ALIGN(attr.rta_len);
		if (size > left)
			break;
		p += size;
		left -= size;
	}
	if (!same || !hardware || neighbour->ndm_state & (NUD_INCOMPLETE | NUD_FAILED))
		return false;
	memcpy(gid, hardware + 4, 16);
	return true;
}

enum sa_neighbours sa_neighbours_parse(const void *buf, size_t length, const struct in6_addr *addr,
				       uint8_t gid[16], bool *found)
{
	const uint8_t *p = buf;

	while (length >= sizeof(struct nlmsghdr)) {
		struct nlmsghdr header;
		size_t size;

		memcpy(&header, p, sizeof(header));
		if (header.nlmsg_len < sizeof(header) || header.nlmsg_len > length ||
		    header.nlmsg_type == NLMSG_DONE || header.nlmsg_type == NLMSG_ERROR)
			return SA_NEIGHBOURS_END;
		if (header.nlmsg_type == RTM_NEWNEIGH && !*found &&
		    header.nlmsg_len >= NLMSG_SPACE(sizeof(struct ndmsg)))
			*found = match((const struct ndmsg *)(p + NLMSG_HDRLEN),
				       header.nlmsg_len - NLMSG_HDRLEN, addr, gid);
		size = NLMSG_ALIGN(header.nlmsg_len);
		if (size > length)
			break;
		p += size;
		length -= size;
	}
	return SA_NEIGHBOURS_MORE;
}

static bool ask_kernel(const struct in6_addr *addr, uint8_t gid[16])
{
	struct {
		struct nlmsghdr header;
		struct ndmsg message;
	} request = {
		.header =
			{
				.nlmsg_len = sizeof(request),
				.nlmsg_type = RTM_GETNEIGH,
				.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
			},
		.message = {.ndm_family = IN6_IS_ADDR_V4MAPPED(addr) ? AF_INET : AF_INET6},
	};
	struct timeval patience = {.tv_sec = 1};
	uint32_t buf[8192];
	bool found = false;
	ssize_t got;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (fd < 0)
		return false;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (send(fd, &request, sizeof(request), 0) == sizeof(request)) {
		do
			got = recv(fd, buf, sizeof(buf), 0);
		while ((got < 0 && errno == EINTR) ||
		       (got > 0 &&
			sa_neighbours_parse(buf, got, addr, gid, &found) == SA_NEIGHBOURS_MORE));
	}
	close(fd);
	return found;
}

/* As IPv6, or IPv4-mapped. False: another address family. */
static bool ip_of(const struct sockaddr *addr, struct in6_addr *ip)
{
	if (addr->sa_family == AF_INET) {
		memset(ip, 0, 10);
		memset(&ip->s6_addr[10], 0xff, 2);
		memcpy(&ip->s6_addr[12], &((const struct sockaddr_in *)addr)->sin_addr, 4);
	} else if (addr->sa_family == AF_INET6) {
		*ip = ((const struct sockaddr_in6 *)addr)->sin6_addr;
	} else {
		return false;
	}
	return true;
}

int sacache_hosts_lookup(struct sacache *cache, const struct sockaddr *addr, uint8_t gid[16])
{
	const struct sa_host *host;
	struct in6_addr ip;

	if (!ip_of(addr, &ip))
		return -EAFNOSUPPORT;
	pthread_mutex_lock(&cache->hosts_lock);
	host = cache->hosts ? sa_hosts_find(cache->hosts, &ip) : NULL;
	if (host)
		memcpy(gid, host->gid, 16);
	pthread_mutex_unlock(&cache->hosts_lock);
	return host ? 0 : -ENODATA;
}

int sacache_ip_to_gid(struct sacache *cache, const struct sockaddr *addr, uint8_t gid[16])
{
	struct in6_addr ip;

	if (ip_of(addr, &ip) && ask_kernel(&ip, gid))
		return 0;
	return sacache_hosts_lookup(cache, addr, gid);
}
