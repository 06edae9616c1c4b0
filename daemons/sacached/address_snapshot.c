/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Reads the kernel's tables of addresses and neighbours as a whole. Any thread.
 */
#include <errno.h>
#include <linux/if_packet.h>
#include <linux/rtnetlink.h>
#include <net/if_arp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "daemons/sacached/address_snapshot.h"

#define IPOIB_ADDRESS 20 /* flags and QPN, 4 bytes, then the GID (RFC 4391, 9.1.1) */
#define PATIENCE_S    10 /* for the next part of the kernel's answer */

static void map_v4(const void *v4, struct in6_addr *ip)
{
	memset(ip, 0, sizeof(*ip));
	memset(&ip->s6_addr[10], 0xff, 2);
	memcpy(&ip->s6_addr[12], v4, 4);
}

bool address_of(const struct sockaddr *addr, struct in6_addr *ip)
{
	if (addr && addr->sa_family == AF_INET)
		map_v4(&((const struct sockaddr_in *)addr)->sin_addr, ip);
	else if (addr && addr->sa_family == AF_INET6)
		*ip = ((const struct sockaddr_in6 *)addr)->sin6_addr;
	else
		return false;
	return true;
}

/* The link-layer entry of a netdev, if that is IPoIB. getifaddrs() gives it room for long
 * addresses. */
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

		if (!address_of(p->ifa_addr, &to->ip))
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

int addresses_read_local(struct local_address **local, unsigned *count)
{
	struct ifaddrs *list;

	if (getifaddrs(&list))
		return -errno;
	*local = addresses_of_host(list, count);
	freeifaddrs(list);
	return *local ? 0 : -ENOMEM;
}

bool neighbour_parse(const struct nlmsghdr *header, struct neighbour *neighbour)
{
	const struct ndmsg *message = NLMSG_DATA(header);
	int left = header->nlmsg_len - NLMSG_LENGTH(sizeof(*message));
	const struct rtattr *attr =
		(const void *)((const char *)message + NLMSG_ALIGN(sizeof(*message)));
	const uint8_t *hardware = NULL;
	bool has_ip = false;

	for (; RTA_OK(attr, left); attr = RTA_NEXT(attr, left)) {
		if (attr->rta_type == NDA_DST && RTA_PAYLOAD(attr) == 4)
			map_v4(RTA_DATA(attr), &neighbour->ip);
		else if (attr->rta_type == NDA_DST && RTA_PAYLOAD(attr) == 16)
			memcpy(&neighbour->ip, RTA_DATA(attr), 16);
		has_ip |= attr->rta_type == NDA_DST &&
			  (RTA_PAYLOAD(attr) == 4 || RTA_PAYLOAD(attr) == 16);
		if (attr->rta_type == NDA_LLADDR && RTA_PAYLOAD(attr) == IPOIB_ADDRESS)
			hardware = RTA_DATA(attr);
	}
	if (!has_ip)
		return false;
	neighbour->gone = !hardware || header->nlmsg_type != RTM_NEWNEIGH ||
			  message->ndm_state & (NUD_INCOMPLETE | NUD_FAILED);
	if (!neighbour->gone)
		memcpy(neighbour->gid, hardware + 4, 16);
	return true;
}

struct list {
	struct neighbour *neighbours;
	size_t count, room;
};

static int add(struct list *list, const struct neighbour *neighbour)
{
	if (list->count == list->room) {
		size_t room = list->room ? list->room * 2 : 64;
		struct neighbour *more = reallocarray(list->neighbours, room, sizeof(*more));

		if (!more)
			return -ENOMEM;
		list->neighbours = more;
		list->room = room;
	}
	list->neighbours[list->count++] = *neighbour;
	return 0;
}

/* One part of the dump. 1: it was the last; -errno; -EAGAIN: the table changed during the dump. */
static int read_part(const void *buf, ssize_t got, struct list *list)
{
	int left = (int)got, ret = 0;

	for (const struct nlmsghdr *header = buf; !ret && NLMSG_OK(header, left);
	     header = NLMSG_NEXT(header, left)) {
		struct neighbour neighbour;

		if (header->nlmsg_flags & NLM_F_DUMP_INTR)
			return -EAGAIN;
		if (header->nlmsg_type == NLMSG_DONE)
			return 1;
		if (header->nlmsg_type == NLMSG_ERROR)
			return ((const struct nlmsgerr *)NLMSG_DATA(header))->error;
		if (header->nlmsg_type == RTM_NEWNEIGH && neighbour_parse(header, &neighbour) &&
		    !neighbour.gone)
			ret = add(list, &neighbour);
	}
	return ret;
}

static int dump(int fd, struct list *list)
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
		.message = {.ndm_family = AF_UNSPEC},
	};
	uint32_t buf[8192];
	int ret = 0;

	if (send(fd, &request, sizeof(request), 0) != sizeof(request))
		return -errno;
	while (!ret) {
		ssize_t got = recv(fd, buf, sizeof(buf), 0);

		if (got < 0 && errno != EINTR)
			return -errno;
		if (got > 0)
			ret = read_part(buf, got, list);
	}
	return ret < 0 ? ret : 0;
}

int neighbours_read(struct neighbour **neighbours, size_t *count)
{
	struct timeval patience = {.tv_sec = PATIENCE_S};
	int fd = -1, ret = -EAGAIN;
	struct list list = {0};

	/* A new socket for each attempt, so that the rest of an abandoned dump is dropped with
	 * it. */
	for (unsigned tries = 0; tries < 5 && ret == -EAGAIN; tries++) {
		list.count = 0;
		fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
		if (fd < 0) {
			ret = -errno;
			break;
		}
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
		ret = dump(fd, &list);
		close(fd);
	}
	if (ret) {
		free(list.neighbours);
		return ret;
	}
	*neighbours = list.neighbours;
	*count = list.count;
	return 0;
}
