// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Dumps of rtnetlink's links and addresses. libnl parses the messages; the socket is our own, for
 * libnl's sockets draw their port numbers from a table of the whole process, which libibverbs and
 * librdmacm draw from too, and are read through libc functions that others interpose. No state, no
 * lock, any thread.
 */
#include <netinet/in.h> /* before linux/ipv6.h */

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/if_vlan.h>
#include <linux/ipv6.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if_arp.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <stdlib.h>
#include <string.h>

#include "host/address.h"
#include "host/libc.h"
#include "host/netdev.h"

#ifndef RTEXT_FILTER_SKIP_STATS
#define RTEXT_FILTER_SKIP_STATS (1 << 3)
#endif

#define MAX_INTERRUPTED 8

typedef int message_fn(struct urxe_netdevs *nds, struct nlmsghdr *nlh);

int urxe_netlink_open(uint32_t groups, int flags)
{
	struct sockaddr_nl addr = {.nl_family = AF_NETLINK, .nl_groups = groups};
	int fd, ret;

	fd = urxe_libc.socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | flags, NETLINK_ROUTE);
	if (fd < 0)
		return -errno;
	/* Port 0: the kernel chooses one. */
	if (urxe_libc.bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		ret = -errno;
		urxe_libc.close(fd);
		return ret;
	}
	return fd;
}

ssize_t urxe_netlink_read(int fd, void *buf, size_t len, int flags)
{
	struct sockaddr_nl from;
	struct iovec iov = {buf, len};
	struct msghdr msg = {
		.msg_name = &from,
		.msg_namelen = sizeof(from),
		.msg_iov = &iov,
		.msg_iovlen = 1,
	};
	ssize_t n;

	do {
		msg.msg_namelen = sizeof(from);
		n = urxe_libc.recvmsg(fd, &msg, flags);
		/* Any process may write to a netlink socket; only the kernel's word counts. */
	} while ((n < 0 && errno == EINTR) || (n >= 0 && from.nl_pid));
	if (n < 0)
		return -errno;
	return msg.msg_flags & MSG_TRUNC ? 0 : n;
}

unsigned urxe_netlink_ifindex(const struct nlmsghdr *nlh)
{
	switch (nlh->nlmsg_type) {
	case RTM_NEWLINK:
	case RTM_DELLINK:
		if (nlh->nlmsg_len < NLMSG_LENGTH(sizeof(struct ifinfomsg)))
			return 0;
		return ((const struct ifinfomsg *)NLMSG_DATA(nlh))->ifi_index;
	case RTM_NEWADDR:
	case RTM_DELADDR:
		if (nlh->nlmsg_len < NLMSG_LENGTH(sizeof(struct ifaddrmsg)))
			return 0;
		return ((const struct ifaddrmsg *)NLMSG_DATA(nlh))->ifa_index;
	default: return 0;
	}
}

/* Makes room for one more element: arrays grow at powers of two. */
static void *grow(void *array, unsigned count, size_t size)
{
	if (count & (count - 1))
		return array;
	return realloc(array, (count ? 2 * count : 1) * size);
}

static struct nlattr *nested(struct nlattr *in, int type)
{
	return in ? nla_find(nla_data(in), nla_len(in), type) : NULL;
}

/* Not lo, nor a part of a bond, nor where it is switched off. */
static bool gets_link_local(const struct ifinfomsg *ifi, struct nlattr *families)
{
	struct nlattr *inet6 = nested(families, AF_INET6);
	struct nlattr *mode = nested(inet6, IFLA_INET6_ADDR_GEN_MODE);
	struct nlattr *conf = nested(inet6, IFLA_INET6_CONF);
	const int32_t *disabled = conf ? (int32_t *)nla_data(conf) + DEVCONF_DISABLE_IPV6 : NULL;

	return !(ifi->ifi_flags & (IFF_LOOPBACK | IFF_SLAVE)) && mode &&
	       nla_get_u8(mode) != IN6_ADDR_GEN_MODE_NONE && conf &&
	       nla_len(conf) > DEVCONF_DISABLE_IPV6 * 4 && !*disabled;
}

static int take_link(struct urxe_netdevs *nds, struct nlmsghdr *nlh)
{
	const struct ifinfomsg *ifi = NLMSG_DATA(nlh);
	struct nlattr *tb[IFLA_MAX + 1];
	struct urxe_netdev *dev;

	if (nlh->nlmsg_type != RTM_NEWLINK ||
	    nlmsg_parse(nlh, sizeof(*ifi), tb, IFLA_MAX, NULL) < 0 || !tb[IFLA_IFNAME])
		return 0;
	dev = grow(nds->devs, nds->num_devs, sizeof(*dev));
	if (!dev)
		return -ENOMEM;
	nds->devs = dev;
	dev += nds->num_devs++;
	memset(dev, 0, sizeof(*dev));
	dev->ifindex = ifi->ifi_index;
	dev->flags = ifi->ifi_flags;
	nla_strlcpy(dev->name, tb[IFLA_IFNAME], sizeof(dev->name));
	if (tb[IFLA_MTU] && nla_len(tb[IFLA_MTU]) >= 4)
		dev->mtu = nla_get_u32(tb[IFLA_MTU]);
	if (tb[IFLA_ADDRESS] && nla_len(tb[IFLA_ADDRESS]) == sizeof(dev->mac) &&
	    ifi->ifi_type != ARPHRD_LOOPBACK)
		memcpy(dev->mac, nla_data(tb[IFLA_ADDRESS]), sizeof(dev->mac));
	dev->link_local = gets_link_local(ifi, tb[IFLA_AF_SPEC]);
	return 0;
}

/* Optimistic addresses (RFC 4429) may be sent from while they are still being probed. */
static bool is_tentative(uint32_t flags)
{
	return flags & IFA_F_TENTATIVE && !(flags & IFA_F_OPTIMISTIC);
}

static struct urxe_netaddr *new_address(struct urxe_netdevs *nds)
{
	struct urxe_netaddr *addrs = grow(nds->addrs, nds->num_addrs, sizeof(*addrs));

	if (!addrs)
		return NULL;
	nds->addrs = addrs;
	return &addrs[nds->num_addrs++];
}

static int take_address(struct urxe_netdevs *nds, struct nlmsghdr *nlh)
{
	const struct ifaddrmsg *ifa = NLMSG_DATA(nlh);
	struct nlattr *tb[IFA_MAX + 1], *local;
	struct urxe_netaddr *addr;
	uint32_t flags;

	if (nlh->nlmsg_type != RTM_NEWADDR || nlmsg_parse(nlh, sizeof(*ifa), tb, IFA_MAX, NULL) < 0)
		return 0;
	flags = ifa->ifa_flags;
	if (tb[IFA_FLAGS] && nla_len(tb[IFA_FLAGS]) >= 4)
		flags = nla_get_u32(tb[IFA_FLAGS]);
	/* On a point-to-point link IFA_ADDRESS is the peer's and IFA_LOCAL ours. */
	local = tb[IFA_LOCAL] ? tb[IFA_LOCAL] : tb[IFA_ADDRESS];
	if (!local || flags & IFA_F_DADFAILED)
		return 0;
	if (nla_len(local) != (ifa->ifa_family == AF_INET ? 4 : 16) ||
	    (ifa->ifa_family != AF_INET && ifa->ifa_family != AF_INET6))
		return 0;

	addr = new_address(nds);
	if (!addr)
		return -ENOMEM;
	addr->ifindex = ifa->ifa_index;
	addr->tentative = is_tentative(flags);
	if (ifa->ifa_family == AF_INET)
		addr->addr = urxe_v4mapped(*(struct in_addr *)nla_data(local));
	else
		addr->addr = *(struct in6_addr *)nla_data(local);
	return 0;
}

/* -EAGAIN: the kernel says that it changed while it was dumped. */
static int read_dump(int fd, uint32_t seq, void *buf, struct urxe_netdevs *nds, message_fn *take)
{
	bool interrupted = false;
	int ret;

	for (;;) {
		ssize_t n = urxe_netlink_read(fd, buf, URXE_NETLINK_BUFFER, 0);
		struct nlmsghdr *nlh = buf;
		int left = n;

		if (n <= 0)
			return n ? n : -EMSGSIZE;
		for (; nlmsg_ok(nlh, left); nlh = nlmsg_next(nlh, &left)) {
			if (nlh->nlmsg_seq != seq)
				continue;
			if (nlh->nlmsg_flags & NLM_F_DUMP_INTR)
				interrupted = true;
			if (nlh->nlmsg_type == NLMSG_DONE)
				return interrupted ? -EAGAIN : 0;
			if (nlh->nlmsg_type == NLMSG_ERROR) {
				const struct nlmsgerr *e = NLMSG_DATA(nlh);

				return e->error ? e->error : -EPROTO;
			}
			ret = take(nds, nlh);
			if (ret)
				return ret;
		}
	}
}

static int dump(int fd, uint32_t seq, uint16_t type, void *buf, struct urxe_netdevs *nds,
		message_fn *take)
{
	struct {
		struct nlmsghdr nlh;
		struct ifinfomsg ifi;
		struct nlattr mask_attr;
		uint32_t mask;
	} req = {
		.nlh = {.nlmsg_len = sizeof(req),
			.nlmsg_type = type,
			.nlmsg_seq = seq,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
		.mask_attr = {.nla_len = NLA_HDRLEN + 4, .nla_type = IFLA_EXT_MASK},
		.mask = RTEXT_FILTER_SKIP_STATS,
	};
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};

	if (type == RTM_GETADDR)
		req.nlh.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifaddrmsg));
	if (urxe_libc.sendto(fd, &req, req.nlh.nlmsg_len, 0, (struct sockaddr *)&kernel,
			     sizeof(kernel)) < 0)
		return -errno;
	return read_dump(fd, seq, buf, nds, take);
}

static bool has_link_local(const struct urxe_netdevs *nds, unsigned ifindex)
{
	for (unsigned i = 0; i < nds->num_addrs; i++)
		if (nds->addrs[i].ifindex == ifindex && IN6_IS_ADDR_LINKLOCAL(&nds->addrs[i].addr))
			return true;
	return false;
}

/* The link-local addresses that are not there yet: for a second after a
 * netdev has got its carrier. */
static int add_those_to_come(struct urxe_netdevs *nds)
{
	for (unsigned i = 0; i < nds->num_devs; i++) {
		struct urxe_netaddr *addr;

		if (!nds->devs[i].link_local || has_link_local(nds, nds->devs[i].ifindex))
			continue;
		addr = new_address(nds);
		if (!addr)
			return -ENOMEM;
		*addr = (struct urxe_netaddr){
			.ifindex = nds->devs[i].ifindex,
			.tentative = true,
			.addr.s6_addr = {0xfe, 0x80},
		};
	}
	return 0;
}

static int by_ifindex(const void *a, const void *b)
{
	const struct urxe_netdev *x = a, *y = b;

	return (x->ifindex > y->ifindex) - (x->ifindex < y->ifindex);
}

static int load_once(struct urxe_netdevs *nds, void *buf)
{
	int fd = urxe_netlink_open(0, 0);
	int ret;

	if (fd < 0)
		return fd;
	ret = dump(fd, 1, RTM_GETLINK, buf, nds, take_link)
		      ?: dump(fd, 2, RTM_GETADDR, buf, nds, take_address)
		      ?: add_those_to_come(nds);
	urxe_libc.close(fd);
	return ret;
}

int urxe_netdevs_load(struct urxe_netdevs *nds)
{
	void *buf = malloc(URXE_NETLINK_BUFFER);
	int ret = -ENOMEM;

	memset(nds, 0, sizeof(*nds));
	if (!buf)
		return ret;
	for (int i = 0; i < MAX_INTERRUPTED; i++) {
		ret = load_once(nds, buf);
		if (ret != -EAGAIN)
			break;
		urxe_netdevs_free(nds);
	}
	free(buf);
	if (ret) {
		urxe_netdevs_free(nds);
		return ret;
	}
	if (nds->num_devs)
		qsort(nds->devs, nds->num_devs, sizeof(*nds->devs), by_ifindex);
	return 0;
}

void urxe_netdevs_free(struct urxe_netdevs *nds)
{
	free(nds->devs);
	free(nds->addrs);
	memset(nds, 0, sizeof(*nds));
}

const struct urxe_netdev *urxe_netdevs_by_index(const struct urxe_netdevs *nds, unsigned ifindex)
{
	for (unsigned i = 0; i < nds->num_devs; i++)
		if (nds->devs[i].ifindex == ifindex)
			return &nds->devs[i];
	return NULL;
}

const struct urxe_netdev *urxe_netdevs_by_name(const struct urxe_netdevs *nds, const char *name)
{
	for (unsigned i = 0; i < nds->num_devs; i++)
		if (!strcmp(nds->devs[i].name, name))
			return &nds->devs[i];
	return NULL;
}

bool urxe_netdev_has_address(const struct urxe_netdevs *nds, unsigned ifindex)
{
	for (unsigned i = 0; i < nds->num_addrs; i++)
		if (nds->addrs[i].ifindex == ifindex && !nds->addrs[i].tentative)
			return true;
	return false;
}

/* By ioctl and not from /sys, which may show another network namespace. */
static bool ask_driver(unsigned long request, void *arg)
{
	int fd = urxe_libc.socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool answered = fd >= 0 && !urxe_libc.ioctl(fd, request, arg);

	if (fd >= 0)
		urxe_libc.close(fd);
	return answered;
}

uint32_t urxe_netdev_speed(const char *name)
{
	struct ethtool_cmd cmd = {.cmd = ETHTOOL_GSET};
	struct ifreq ifr = {.ifr_data = (void *)&cmd};
	uint32_t speed;

	strncpy(ifr.ifr_name, name, IF_NAMESIZE - 1);
	if (!ask_driver(SIOCETHTOOL, &ifr))
		return 0;
	speed = (uint32_t)cmd.speed_hi << 16 | cmd.speed;
	return speed == (uint32_t)SPEED_UNKNOWN ? 0 : speed;
}

uint16_t urxe_netdev_vlan(const char *name)
{
	struct vlan_ioctl_args args = {.cmd = GET_VLAN_VID_CMD};

	strncpy(args.device1, name, IF_NAMESIZE - 1);
	return ask_driver(SIOCGIFVLAN, &args) ? args.u.VID : 0xffff;
}
