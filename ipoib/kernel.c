// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What the kernel knows of the interface: its addresses (getifaddrs(3)), its routes, asked for by
 * rtnetlink and kept until any route or address changes, and the groups that programs have joined
 * (/proc/net/igmp, /proc/net/igmp6: the kernel names them nowhere else for all its versions). The
 * loop's thread.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemons/common/log.h"
#include "ipoib/ipoib.h"

#define MAX_ADDRESSES 64
#define NUM_ROUTES    1024
#define LOOK_S	      5 /* for groups whose reports were lost */

struct address {
	struct in6_addr ip;
	unsigned prefix; /* of 128 */
	bool has_broadcast;
	struct in6_addr broadcast;
};

struct route {
	struct in6_addr to, hop;
	bool known, here;
};

struct ipoib_kernel {
	int ask, watch;
	uint32_t seq;
	struct event *readable, *look;
	unsigned num_addresses;
	struct address addresses[MAX_ADDRESSES];
	struct route routes[NUM_ROUTES];
};

/* ---- rtnetlink ---- */

struct message {
	struct nlmsghdr h;
	union {
		struct rtmsg route;
		struct ifaddrmsg address;
		uint8_t room[256];
	};
};

static void add_attribute(struct message *m, unsigned short type, const void *data, size_t len)
{
	struct rtattr *a = (void *)((uint8_t *)m + NLMSG_ALIGN(m->h.nlmsg_len));

	a->rta_type = type;
	a->rta_len = (unsigned short)RTA_LENGTH(len);
	memcpy(RTA_DATA(a), data, len);
	m->h.nlmsg_len = (uint32_t)(NLMSG_ALIGN(m->h.nlmsg_len) + RTA_ALIGN(a->rta_len));
}

static void add_ip(struct message *m, unsigned short type, const struct in6_addr *ip)
{
	bool ipv4 = ipoib_is_ipv4(ip);

	add_attribute(m, type, &ip->s6_addr[ipv4 ? 12 : 0], ipv4 ? 4 : 16);
}

/* The kernel answers before send() returns. */
static int ask(struct ipoib_kernel *k, struct message *m, void *answer, size_t size)
{
	struct nlmsghdr *h = answer;
	ssize_t n;

	m->h.nlmsg_seq = ++k->seq;
	if (send(k->ask, m, m->h.nlmsg_len, 0) < 0)
		return -errno;
	do {
		n = recv(k->ask, answer, size, 0);
		if (n < (ssize_t)sizeof(*h))
			return n < 0 ? -errno : -EPROTO;
	} while (h->nlmsg_seq != k->seq);
	if (h->nlmsg_type == NLMSG_ERROR)
		return ((struct nlmsgerr *)NLMSG_DATA(h))->error;
	return (int)n;
}

/* ---- addresses ---- */

static unsigned prefix_of(const struct sockaddr *mask)
{
	const uint8_t *bytes;
	unsigned len, n = 0;

	if (!mask)
		return 128;
	bytes = mask->sa_family == AF_INET
			? (const uint8_t *)&((const struct sockaddr_in *)(const void *)mask)
				  ->sin_addr
			: ((const struct sockaddr_in6 *)(const void *)mask)->sin6_addr.s6_addr;
	len = mask->sa_family == AF_INET ? 4 : 16;
	for (unsigned i = 0; i < len; i++)
		n += (unsigned)__builtin_popcount(bytes[i]);
	return n + 128 - len * 8;
}

/* All but the last address of a net that has a last one. */
static void set_broadcast(struct address *a)
{
	uint32_t host;

	if (!ipoib_is_ipv4(&a->ip) || a->prefix > 126)
		return;
	host = 0xffffffffu >> (a->prefix - 96) % 32;
	if (a->prefix == 96)
		host = 0xffffffff;
	a->has_broadcast = true;
	a->broadcast = a->ip;
	a->broadcast.s6_addr32[3] |= htobe32(host);
}

static void take_address(struct ipoib *ib, const struct ifaddrs *p)
{
	struct ipoib_kernel *k = ib->kernel;
	struct address *a = &k->addresses[k->num_addresses];

	if (!p->ifa_addr || strcmp(p->ifa_name, ib->options.name) ||
	    k->num_addresses == MAX_ADDRESSES)
		return;
	if (p->ifa_addr->sa_family == AF_INET)
		ipoib_of_ipv4(&a->ip, &((struct sockaddr_in *)(void *)p->ifa_addr)->sin_addr);
	else if (p->ifa_addr->sa_family == AF_INET6)
		a->ip = ((struct sockaddr_in6 *)(void *)p->ifa_addr)->sin6_addr;
	else
		return;
	a->prefix = prefix_of(p->ifa_netmask);
	set_broadcast(a);
	k->num_addresses++;
}

/* True: they are others than they were. */
static bool read_addresses(struct ipoib *ib)
{
	struct ipoib_kernel *k = ib->kernel;
	struct address old[MAX_ADDRESSES];
	unsigned num_old = k->num_addresses;
	struct ifaddrs *list;

	if (getifaddrs(&list))
		return false;
	memcpy(old, k->addresses, sizeof(old));
	memset(k->addresses, 0, sizeof(k->addresses));
	k->num_addresses = 0;
	for (const struct ifaddrs *p = list; p; p = p->ifa_next)
		take_address(ib, p);
	freeifaddrs(list);
	return k->num_addresses != num_old || memcmp(old, k->addresses, sizeof(old));
}

static bool shares(const struct address *a, const struct in6_addr *ip)
{
	unsigned bytes = a->prefix / 8, bits = a->prefix % 8;

	if (memcmp(&a->ip, ip, bytes))
		return false;
	return !bits || !((a->ip.s6_addr[bytes] ^ ip->s6_addr[bytes]) >> (8 - bits));
}

bool kernel_is_own(const struct ipoib *ib, const struct in6_addr *ip)
{
	for (unsigned i = 0; i < ib->kernel->num_addresses; i++)
		if (IN6_ARE_ADDR_EQUAL(&ib->kernel->addresses[i].ip, ip))
			return true;
	return false;
}

bool kernel_is_broadcast(const struct ipoib *ib, const struct in6_addr *ip)
{
	if (!ipoib_is_ipv4(ip))
		return false;
	if (ip->s6_addr32[3] == 0xffffffff)
		return true;
	for (unsigned i = 0; i < ib->kernel->num_addresses; i++) {
		const struct address *a = &ib->kernel->addresses[i];

		if (a->has_broadcast && IN6_ARE_ADDR_EQUAL(&a->broadcast, ip))
			return true;
	}
	return false;
}

bool kernel_source(const struct ipoib *ib, const struct in6_addr *ip, struct in6_addr *source)
{
	const struct address *best = NULL;

	for (unsigned i = 0; i < ib->kernel->num_addresses; i++) {
		const struct address *a = &ib->kernel->addresses[i];

		if (ipoib_is_ipv4(&a->ip) == ipoib_is_ipv4(ip) && (!best || shares(a, ip)))
			best = a;
	}
	if (best)
		*source = best->ip;
	return best;
}

void kernel_each_address(struct ipoib *ib, void (*fn)(struct ipoib *ib, const struct in6_addr *ip))
{
	for (unsigned i = 0; i < ib->kernel->num_addresses; i++)
		fn(ib, &ib->kernel->addresses[i].ip);
}

int kernel_add_address(struct ipoib *ib, const struct in6_addr *ip, unsigned prefix)
{
	bool ipv4 = ipoib_is_ipv4(ip);
	struct message m = {
		.h = {.nlmsg_len = NLMSG_LENGTH(sizeof(m.address)),
		      .nlmsg_type = RTM_NEWADDR,
		      .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE},
		.address = {.ifa_family = ipv4 ? AF_INET : AF_INET6,
			    .ifa_prefixlen = (uint8_t)prefix,
			    .ifa_index = ib->ifindex,
			    .ifa_scope =
				    IN6_IS_ADDR_LINKLOCAL(ip) ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE},
	};
	uint8_t answer[512];
	int ret;

	add_ip(&m, IFA_LOCAL, ip);
	add_ip(&m, IFA_ADDRESS, ip);
	if (ipv4 && prefix < 31) {
		uint32_t last = be32toh(ip->s6_addr32[3]) | (prefix ? 0xffffffffu >> prefix : ~0u);

		add_attribute(&m, IFA_BROADCAST, &(uint32_t){htobe32(last)}, 4);
	}
	ret = ask(ib->kernel, &m, answer, sizeof(answer));
	return ret == -EEXIST || ret > 0 ? 0 : ret;
}

/* ---- routes ---- */

/*
 * By this interface, which the kernel takes for a direct way where no route leads anywhere; or as
 * the routes say, which may be by another one: 0. 1, or -errno, with which the kernel also says
 * that there is none (says_none()).
 */
static int ask_route(struct ipoib *ib, const struct in6_addr *ip, bool by_this,
		     struct in6_addr *hop)
{
	bool ipv4 = ipoib_is_ipv4(ip);
	struct message m = {
		.h = {.nlmsg_len = NLMSG_LENGTH(sizeof(m.route)),
		      .nlmsg_type = RTM_GETROUTE,
		      .nlmsg_flags = NLM_F_REQUEST},
		.route = {.rtm_family = ipv4 ? AF_INET : AF_INET6, .rtm_dst_len = ipv4 ? 32 : 128},
	};
	union {
		struct nlmsghdr h;
		uint8_t bytes[2048];
	} answer;
	bool here = by_this;
	int len, ret;

	add_ip(&m, RTA_DST, ip);
	if (by_this)
		add_attribute(&m, RTA_OIF, &ib->ifindex, 4);
	ret = ask(ib->kernel, &m, &answer, sizeof(answer));
	if (ret <= 0)
		return ret;
	*hop = *ip;
	len = (int)RTM_PAYLOAD(&answer.h);
	for (struct rtattr *a = RTM_RTA(NLMSG_DATA(&answer.h)); RTA_OK(a, len);
	     a = RTA_NEXT(a, len)) {
		if (a->rta_type == RTA_OIF)
			here = !memcmp(RTA_DATA(a), &ib->ifindex, 4);
		if (a->rta_type != RTA_GATEWAY)
			continue;
		if (ipv4)
			ipoib_of_ipv4(hop, RTA_DATA(a));
		else
			memcpy(hop, RTA_DATA(a), 16);
	}
	return here;
}

bool kernel_leads_to(struct ipoib *ib, const struct in6_addr *ip, struct in6_addr *hop)
{
	return ask_route(ib, ip, IN6_IS_ADDR_LINKLOCAL(ip), hop) > 0;
}

/* No route, or one of type unreachable, prohibit or blackhole: not a question that failed. */
static bool says_none(int error)
{
	return error == -ENETUNREACH || error == -EHOSTUNREACH || error == -EACCES ||
	       error == -EINVAL;
}

bool kernel_next_hop(struct ipoib *ib, const struct in6_addr *ip, struct in6_addr *hop)
{
	uint32_t h = ip->s6_addr32[3] ^ ip->s6_addr32[2] ^ ip->s6_addr32[0];
	struct route *r = &ib->kernel->routes[h * 2654435761u >> 16 & (NUM_ROUTES - 1)];
	int ret;

	if (!r->known || !IN6_ARE_ADDR_EQUAL(&r->to, ip)) {
		ret = ask_route(ib, ip, true, &r->hop);
		r->to = *ip;
		r->here = ret > 0;
		r->known = ret >= 0 || says_none(ret);
	}
	*hop = r->hop;
	return r->here;
}

/* ---- groups ---- */

static void each_ipv4(struct ipoib *ib, FILE *f,
		      void (*fn)(struct ipoib *ib, const struct in6_addr *group))
{
	char line[256], name[IFNAMSIZ] = "";
	unsigned index = 0;
	struct in6_addr group;
	uint32_t word;

	while (fgets(line, sizeof(line), f)) {
		if (line[0] != '\t' && sscanf(line, "%u %15s", &index, name) != 2)
			index = 0;
		if (line[0] != '\t' || index != ib->ifindex || sscanf(line, "%x", &word) != 1)
			continue;
		ipoib_of_ipv4(&group, &word);
		fn(ib, &group);
	}
}

static void each_ipv6(struct ipoib *ib, FILE *f,
		      void (*fn)(struct ipoib *ib, const struct in6_addr *group))
{
	char line[256], text[33];
	struct in6_addr group;
	unsigned index, byte, i;

	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%u %*s %32[0-9a-f]", &index, text) != 2 || index != ib->ifindex ||
		    strlen(text) != 32)
			continue;
		for (i = 0; i < 16 && sscanf(text + 2 * i, "%2x", &byte) == 1; i++)
			group.s6_addr[i] = (uint8_t)byte;
		/* Of an interface alone (RFC 4291, 2.7). */
		if ((group.s6_addr[1] & 0xf) > 1)
			fn(ib, &group);
	}
}

void kernel_each_group(struct ipoib *ib, void (*fn)(struct ipoib *ib, const struct in6_addr *group))
{
	FILE *f = fopen("/proc/self/net/igmp", "re");

	if (f) {
		each_ipv4(ib, f, fn);
		fclose(f);
	}
	f = fopen("/proc/self/net/igmp6", "re");
	if (f) {
		each_ipv6(ib, f, fn);
		fclose(f);
	}
}

/* ---- changes ---- */

static void on_change(evutil_socket_t fd, short what, void *arg)
{
	struct ipoib *ib = arg;
	uint8_t bytes[8192];

	/* Whatever it says, also that some was lost (ENOBUFS). */
	while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0 || errno == ENOBUFS)
		;
	memset(ib->kernel->routes, 0, sizeof(ib->kernel->routes));
	if (!read_addresses(ib))
		return;
	groups_follow(ib);
	if (ib->carrier)
		neighbours_announce(ib);
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
	groups_follow(arg);
}

static int set_flag(struct ipoib *ib, unsigned long command, struct ifreq *ifr)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int ret = fd < 0 ? -errno : 0;

	memcpy(ifr->ifr_name, ib->options.name, IFNAMSIZ);
	if (!ret && ioctl(fd, command, ifr))
		ret = -errno;
	if (fd >= 0)
		close(fd);
	return ret;
}

int kernel_set_mtu(struct ipoib *ib, unsigned mtu)
{
	struct ifreq ifr = {.ifr_mtu = (int)mtu};

	ib->mtu = mtu;
	return set_flag(ib, SIOCSIFMTU, &ifr);
}

int kernel_set_up(struct ipoib *ib)
{
	struct ifreq ifr = {.ifr_flags = IFF_UP | IFF_MULTICAST | IFF_NOARP | IFF_POINTOPOINT};
	struct in6_addr own;
	int ret = kernel_set_mtu(ib, IPOIB_MTU);

	if (!ret)
		ret = set_flag(ib, SIOCSIFFLAGS, &ifr);
	for (unsigned i = 0; !ret && i < ib->options.num_addresses; i++)
		ret = kernel_add_address(ib, &ib->options.addresses[i].ip,
					 ib->options.addresses[i].prefix);
	if (ret) {
		log_error("%s: %s", ib->options.name, strerror(-ret));
		return ret;
	}
	ipoib_link_local(ib->gid.raw, &own);
	/* IPv6 may be switched off. */
	if (kernel_add_address(ib, &own, 64))
		log_info("%s has no IPv6", ib->options.name);
	read_addresses(ib);
	return 0;
}

int kernel_create(struct ipoib *ib)
{
	const struct timeval period = {.tv_sec = LOOK_S};
	struct sockaddr_nl address = {.nl_family = AF_NETLINK,
				      .nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR |
						   RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE};
	struct ipoib_kernel *k = calloc(1, sizeof(*k));

	if (!k)
		return ipoib_fail(ib, ENOMEM);
	ib->kernel = k;
	k->ask = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	k->watch = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (k->ask < 0 || k->watch < 0 ||
	    bind(k->watch, (struct sockaddr *)&address, sizeof(address))) {
		log_error("netlink: %s", strerror(errno));
		return -errno;
	}
	k->readable = event_new(ib->loop.base, k->watch, EV_READ | EV_PERSIST, on_change, ib);
	k->look = event_new(ib->loop.base, -1, EV_PERSIST, on_look, ib);
	return k->readable && k->look && !event_add(k->readable, NULL) &&
			       !event_add(k->look, &period)
		       ? 0
		       : ipoib_fail(ib, ENOMEM);
}

void kernel_destroy(struct ipoib *ib)
{
	struct ipoib_kernel *k = ib->kernel;

	if (!k)
		return;
	if (k->readable)
		event_free(k->readable);
	if (k->look)
		event_free(k->look);
	if (k->ask >= 0)
		close(k->ask);
	if (k->watch >= 0)
		close(k->watch);
	free(k);
	ib->kernel = NULL;
}
