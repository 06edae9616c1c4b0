/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The kernel's knowledge of link-layer addresses, asked by netlink: its route to an address, and
 * then its neighbour on that route. Any thread; nothing here blocks, because the kernel has
 * answered when it has taken the question.
 */
#include "host/neigh.h"

#include <endian.h>
#include <errno.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>

#include "host/address.h"
#include "host/libc.h"
#include "host/netdev.h"

#define DISCARD_PORT 9
#define ANSWER	     4096
#define NUD_VALID    (NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY)

struct question {
	struct nlmsghdr nlh;
	union {
		struct rtmsg rtm;
		struct ndmsg ndm;
	};
	uint8_t attrs[96];
};

/* The next hop: its address, and on which netdev. */
struct hop {
	unsigned family, ifindex;
	uint8_t addr[16];
};

static unsigned size_of(unsigned family)
{
	return family == AF_INET ? 4 : 16;
}

static const void *bytes_of(unsigned family, const struct in6_addr *addr)
{
	return family == AF_INET ? &addr->s6_addr[12] : &addr->s6_addr[0];
}

static void add(struct question *q, uint16_t type, const void *data, unsigned len)
{
	struct nlattr attr = {.nla_len = NLA_HDRLEN + len, .nla_type = type};
	uint8_t *end = (uint8_t *)q + NLMSG_ALIGN(q->nlh.nlmsg_len);

	memcpy(end, &attr, sizeof(attr));
	memcpy(end + NLA_HDRLEN, data, len);
	q->nlh.nlmsg_len = NLMSG_ALIGN(q->nlh.nlmsg_len) + NLA_ALIGN(NLA_HDRLEN + len);
}

/* The answer in buf, of the type expected; or -errno. */
static int ask(int fd, const struct question *q, uint16_t expected, struct nlmsghdr *buf)
{
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	ssize_t n;

	if (urxe_libc.sendto(fd, q, q->nlh.nlmsg_len, 0, (struct sockaddr *)&kernel,
			     sizeof(kernel)) < 0)
		return -errno;
	n = urxe_netlink_read(fd, buf, ANSWER, MSG_DONTWAIT);
	if (n <= 0)
		return n ? n : -EMSGSIZE;
	if (!nlmsg_ok(buf, n))
		return -EPROTO;
	if (buf->nlmsg_type == NLMSG_ERROR)
		return ((const struct nlmsgerr *)NLMSG_DATA(buf))->error;
	return buf->nlmsg_type == expected ? 0 : -EPROTO;
}

/* 0, or -errno: also where no neighbour is needed (-ENOENT). */
static int find_hop(int fd, const struct in6_addr *src, const struct in6_addr *dst,
		    unsigned ifindex, struct hop *hop)
{
	_Alignas(8) uint8_t buf[ANSWER];
	struct nlmsghdr *nlh = (struct nlmsghdr *)buf;
	unsigned family = urxe_is_ipv4(dst) ? AF_INET : AF_INET6, size = size_of(family);
	struct question q = {
		.nlh = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
			.nlmsg_type = RTM_GETROUTE,
			.nlmsg_flags = NLM_F_REQUEST},
		.rtm = {.rtm_family = family, .rtm_dst_len = size * 8, .rtm_src_len = size * 8}};
	struct nlattr *tb[RTA_MAX + 1], *to;
	int ret;

	add(&q, RTA_DST, bytes_of(family, dst), size);
	add(&q, RTA_SRC, bytes_of(family, src), size);
	if (ifindex)
		add(&q, RTA_OIF, &ifindex, sizeof(ifindex));
	ret = ask(fd, &q, RTM_NEWROUTE, nlh);
	if (ret)
		return ret;
	if (nlmsg_parse(nlh, sizeof(struct rtmsg), tb, RTA_MAX, NULL) < 0 || !tb[RTA_OIF])
		return -EPROTO;
	if (((const struct rtmsg *)NLMSG_DATA(nlh))->rtm_type != RTN_UNICAST || tb[RTA_VIA])
		return -ENOENT;
	to = tb[RTA_GATEWAY];
	hop->family = family;
	hop->ifindex = nla_get_u32(tb[RTA_OIF]);
	memcpy(hop->addr, to && nla_len(to) == (int)size ? nla_data(to) : bytes_of(family, dst),
	       size);
	return 0;
}

/* Its state (NUD_…), 0 where there is none; or -errno. An Ethernet address,
 * if it has one, is in mac. */
static int neighbour_state(int fd, const struct hop *hop, uint8_t mac[6])
{
	_Alignas(8) uint8_t buf[ANSWER];
	struct nlmsghdr *nlh = (struct nlmsghdr *)buf;
	struct question q = {.nlh = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ndmsg)),
				     .nlmsg_type = RTM_GETNEIGH,
				     .nlmsg_flags = NLM_F_REQUEST},
			     .ndm = {.ndm_family = hop->family, .ndm_ifindex = hop->ifindex}};
	struct nlattr *tb[NDA_MAX + 1];
	int ret;

	add(&q, NDA_DST, hop->addr, size_of(hop->family));
	ret = ask(fd, &q, RTM_NEWNEIGH, nlh);
	if (ret)
		return ret == -ENOENT ? 0 : ret;
	if (nlmsg_parse(nlh, sizeof(struct ndmsg), tb, NDA_MAX, NULL) >= 0 && tb[NDA_LLADDR] &&
	    nla_len(tb[NDA_LLADDR]) == 6)
		memcpy(mac, nla_data(tb[NDA_LLADDR]), 6);
	return ((const struct ndmsg *)NLMSG_DATA(nlh))->ndm_state;
}

static bool needs_none(int fd, unsigned ifindex)
{
	struct ifreq ifr = {.ifr_ifindex = ifindex};

	return urxe_libc.ioctl(fd, SIOCGIFNAME, &ifr) || urxe_libc.ioctl(fd, SIOCGIFFLAGS, &ifr) ||
	       ifr.ifr_flags & (IFF_LOOPBACK | IFF_NOARP);
}

/* The kernel looks for a neighbour when there is something to send: an empty datagram to a port
 * that throws it away. */
static void send_something(int fd, const struct in6_addr *src, const struct in6_addr *dst,
			   unsigned ifindex)
{
	union urxe_ip_sockaddr addr;
	socklen_t len = urxe_ip_sockaddr(&addr, src, 0, ifindex);

	if (urxe_libc.bind(fd, &addr.sa, len))
		return;
	len = urxe_ip_sockaddr(&addr, dst, DISCARD_PORT, ifindex);
	urxe_libc.sendto(fd, "", 0, MSG_DONTWAIT | MSG_NOSIGNAL, &addr.sa, len);
}

static int look(int netlink, int fd, const struct in6_addr *src, const struct in6_addr *dst,
		unsigned ifindex, uint8_t mac[6])
{
	struct hop hop;
	int state;

	if (find_hop(netlink, src, dst, ifindex, &hop))
		return 0;
	state = neighbour_state(netlink, &hop, mac);
	if (state < 0 || state & NUD_VALID || needs_none(fd, hop.ifindex))
		return 0;
	memset(mac, 0, 6); /* one that it had before */
	send_something(fd, src, dst, ifindex);
	return -ENODATA;
}

int urxe_neigh_look(const struct in6_addr *src, const struct in6_addr *dst, unsigned ifindex,
		    uint8_t mac[6])
{
	int netlink = urxe_netlink_open(0, 0), fd, ret = 0;

	memset(mac, 0, 6);
	if (netlink < 0)
		return 0;
	fd = urxe_libc.socket(urxe_is_ipv4(dst) ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		ret = look(netlink, fd, src, dst, ifindex, mac);
		urxe_libc.close(fd);
	}
	urxe_libc.close(netlink);
	return ret;
}
