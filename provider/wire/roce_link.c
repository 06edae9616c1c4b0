/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * RoCEv2 as a link layer (IBTA annex A17): an address is an IP address, which is a GID; in front of
 * the BTH there are an IP and a UDP header, which completions show as a GRH. Sockets are in udp.c,
 * send.c and receive.c. What takes a wire is under the engine's lock; the rest may be called by any
 * thread.
 */
#include <errno.h>
#include <netinet/ip.h>
#include <string.h>

#include "wire/private.h"

#define DEVS_AGE 1000000000ull /* ns after which an unknown address makes us look for new devices */

/* IPv4 groups come in two dresses: ::ffff:239.1.2.3 (RoCEv2) and ff0e::ffff:239.1.2.3 (RoCEv1). */
static const uint8_t v4_group_prefix[12] = {0xff, 0x0e, [10] = 0xff, [11] = 0xff};

static void group(struct urxe_link_addr *addr, const union ibv_gid *gid)
{
	memcpy(&addr->gid, gid->raw, sizeof(addr->gid));
	if (!memcmp(gid->raw, v4_group_prefix, sizeof(v4_group_prefix)) &&
	    gid->raw[12] >> 4 == 0xe) {
		addr->gid.s6_addr[0] = 0;
		addr->gid.s6_addr[1] = 0;
	}
}

static unsigned ifindex_of(const struct urxe_path *path)
{
	const struct urxe_port *port = urxe_port(path->port);

	return port ? urxe_port_ifindex(port) : 0;
}

/* ---- to a destination ---- */

/* Asks the kernel's routing for a way from here to there. What hinders the asking (no descriptor
 * left) is no answer: the packets will tell. */
static int probe_route(const struct urxe_path *path)
{
	union urxe_ip_sockaddr from, to;
	socklen_t from_len, to_len;
	unsigned ifindex = ifindex_of(path);
	int domain = urxe_is_ipv4(&path->src.gid) ? AF_INET : AF_INET6;
	int fd = urxe_libc.socket(domain, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int ret = 0;

	if (fd < 0)
		return 0;
	from_len = urxe_ip_sockaddr(&from, &path->src.gid, 0, ifindex);
	to_len = urxe_ip_sockaddr(&to, &path->dst.gid, URXE_UDP_PORT, ifindex);
	if (urxe_libc.bind(fd, &from.sa, from_len) || urxe_libc.connect(fd, &to.sa, to_len))
		ret = -EINVAL;
	urxe_libc.close(fd);
	return ret;
}

/* The same link-local address can be a neighbouring host's on another link. */
static bool on_this_host(const struct urxe_path *path, const struct in6_addr *addr)
{
	bool scoped = IN6_IS_ADDR_LINKLOCAL(addr);

	return urxe_netdev_port_has(addr, scoped ? ifindex_of(path) : 0);
}

static bool is_here(const struct urxe_path *path)
{
	return on_this_host(path, &path->dst.gid);
}

int urxe_roce_path(struct urxe_path *path, const struct urxe_port *port, const union ibv_gid *sgid,
		   const struct ibv_global_route *grh, uint32_t hash)
{
	const struct in6_addr *src = &path->src.gid, *dst = &path->dst.gid;

	memset(path, 0, sizeof(*path));
	path->link = URXE_LINK_ROCE;
	path->port = port->index;
	path->roce_own.flow_label = grh->flow_label & 0xfffff;
	path->roce.traffic_class = grh->traffic_class;
	path->roce.hop_limit = grh->hop_limit ? grh->hop_limit : 64;
	path->roce_own.socket = (hash * 0x9e3779b1u) >> 28;
	static_assert(URXE_SEND_SOCKETS == 1 << 4, "the hash has 4 bits");
	memcpy(&path->src.gid, sgid->raw, sizeof(path->src.gid));
	group(&path->dst, &grh->dgid);
	path->multicast = urxe_is_multicast(dst);
	if (urxe_is_ipv4(src) != urxe_is_ipv4(dst) || IN6_IS_ADDR_UNSPECIFIED(src) ||
	    IN6_IS_ADDR_UNSPECIFIED(dst) || urxe_is_multicast(src))
		return -EINVAL;
	if (path->multicast)
		return 0;
	path->here = is_here(path);
	return path->here && on_this_host(path, src) ? 0 : probe_route(path);
}

/*
 * RoCE has no address handles without a GRH, since there are no LIDs: an adapter refuses them. But
 * rsockets make one, by the LID of their port (0), for datagrams to their own QP, and do not work
 * without. So it names this port, and goes out and comes in by the first GID.
 */
static int path_to_self(struct urxe_path *path, const struct urxe_port *port)
{
	struct ibv_global_route grh = {0};
	bool found = false;

	for (unsigned i = 0; i < port->gid_len && !found; i++)
		found = urxe_port_gid(port, i, &grh.dgid);
	return found ? urxe_roce_path(path, port, &grh.dgid, &grh, 0) : -EINVAL;
}

/* A17.4.1: with a GRH, whose source GID is one that the port has. */
static int resolve(struct urxe_path *path, const struct urxe_port *port,
		   const struct ibv_ah_attr *attr, uint32_t hash)
{
	union ibv_gid sgid;

	if (!attr->is_global)
		return attr->dlid ? -EINVAL : path_to_self(path, port);
	if (!urxe_port_gid(port, attr->grh.sgid_index, &sgid))
		return -EINVAL;
	return urxe_roce_path(path, port, &sgid, &attr->grh, hash);
}

static void gids(const struct urxe_path *path, union ibv_gid *src, union ibv_gid *dst)
{
	memcpy(src, &path->src, sizeof(*src));
	memcpy(dst, &path->dst, sizeof(*dst));
}

static int describe(const struct urxe_path *path, struct ibv_ah_attr *attr)
{
	const struct urxe_port *port = urxe_port(path->port);
	union ibv_gid sgid, dgid;
	int index;

	gids(path, &sgid, &dgid);
	index = port ? urxe_port_gid_index(port, &sgid) : -1;
	*attr = (struct ibv_ah_attr){
		.grh =
			{
				.dgid = dgid,
				.flow_label = path->roce_own.flow_label,
				.sgid_index = index < 0 ? 0 : index,
				.hop_limit = path->roce.hop_limit,
				.traffic_class = path->roce.traffic_class,
			},
		.is_global = 1,
		.port_num = port ? port->num : 0,
	};
	return index < 0 ? -EINVAL : 0;
}

static void adjust(struct urxe_path *path, const struct ibv_ah_attr *attr)
{
	path->roce_own.flow_label = attr->grh.flow_label;
	path->roce.traffic_class = attr->grh.traffic_class;
	path->roce.hop_limit = attr->grh.hop_limit;
}

/* ---- IP addresses ---- */

static int gid_of_ip(const struct urxe_port *port, const struct in6_addr *ip, union ibv_gid *gid)
{
	memcpy(gid, ip, sizeof(*gid));
	return 0;
}

/* The first one that packets to anywhere can come from. */
static bool own_ip(const struct urxe_port *port, bool ipv4, struct in6_addr *ip)
{
	bool found = false;

	urxe_device_lock();
	for (unsigned i = 0; i < port->gid_len && !found; i++) {
		memcpy(ip, &port->gids[i], sizeof(*ip));
		found = urxe_is_ipv4(ip) == ipv4 && !IN6_IS_ADDR_UNSPECIFIED(ip) &&
			!IN6_IS_ADDR_LINKLOCAL(ip);
	}
	urxe_device_unlock();
	return found;
}

static uint32_t host(const struct urxe_path *path)
{
	return 0;
}

static bool is_named(const struct urxe_link_addr *addr, const union ibv_gid *gid, uint16_t lid)
{
	return !memcmp(addr, gid, sizeof(*addr));
}

/* ---- from a sender ---- */

static void reverse(struct urxe_path *back, const struct urxe_path *came)
{
	*back = (struct urxe_path){
		.src = came->dst,
		.dst = came->src,
		.link = came->link,
		.port = came->port,
		.roce.traffic_class = came->roce.traffic_class & ~3, /* not its congestion mark */
	};
}

/* The same link-local address may be on several ports: the interface decides. Any other one is on
 * one port, whatever interface the kernel says it came by (lo, for packets of this host). */
static unsigned search(const struct in6_addr *addr, unsigned ifindex)
{
	unsigned by_addr = URXE_NO_PORT, by_ifindex = URXE_NO_PORT;

	urxe_device_lock();
	for (unsigned k = 0; k < URXE_MAX_PORTS; k++) {
		const struct urxe_port *port = urxe_port(k);
		bool same;

		if (!port || port->kind->link != URXE_LINK_ROCE)
			continue;
		same = port->netdev.ifindex == ifindex;
		if (same && by_ifindex == URXE_NO_PORT)
			by_ifindex = k;
		if (urxe_port_has(port, addr) && (by_addr == URXE_NO_PORT || same))
			by_addr = k;
	}
	urxe_device_unlock();
	return by_addr != URXE_NO_PORT ? by_addr : by_ifindex;
}

unsigned urxe_roce_port_at(struct urxe_wire *wire, const struct in6_addr *addr, unsigned ifindex)
{
	unsigned known = wire->memos < URXE_PORT_MEMOS ? wire->memos : URXE_PORT_MEMOS, port;
	struct urxe_device *devs[URXE_MAX_DEVICES];
	uint64_t now;

	for (unsigned k = 0; k < known; k++)
		if (wire->memo[k].ifindex == ifindex &&
		    IN6_ARE_ADDR_EQUAL(&wire->memo[k].addr, addr))
			return wire->memo[k].port;
	port = search(addr, ifindex);
	now = urxe_now();
	if (port == URXE_NO_PORT && now - wire->devs_read > DEVS_AGE) {
		urxe_devices(devs, URXE_MAX_DEVICES);
		wire->devs_read = now;
		port = search(addr, ifindex);
	}
	known = wire->memos++ % URXE_PORT_MEMOS;
	wire->memo[known].addr = *addr;
	wire->memo[known].ifindex = ifindex;
	wire->memo[known].port = port;
	return port;
}

static unsigned port_at(struct urxe_wire *wire, const struct urxe_path *path)
{
	return urxe_roce_port_at(wire, &path->dst.gid, 0);
}

static void arrive(struct urxe_wire *wire, struct urxe_path *path)
{
	path->port = urxe_roce_port_at(wire, &path->dst.gid, ifindex_of(path));
	path->multicast = urxe_is_multicast(&path->dst.gid);
}

static bool adopt(struct urxe_wire *wire, struct urxe_path *path)
{
	path->port = urxe_roce_port_at(wire, &path->src.gid, ifindex_of(path));
	return urxe_port(path->port);
}

/* ---- completions ---- */

/* RFC 1071, over a header of 20 bytes whose checksum field is zero. */
static uint16_t ip_checksum(const uint8_t *header)
{
	uint32_t sum = 0;

	for (unsigned i = 0; i < 20; i += 2)
		sum += header[i] << 8 | header[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

/*
 * RoCE has no SL. What stands in its place says of which kind the header before the payload is
 * (A17.4.5.1 asks for that, and ibv_wc has no field for it): these are the values of mlx5 and hns,
 * and UCX up to 1.17 drops what does not have them.
 */
#define WC_SL_IPV6 1
#define WC_SL_IPV4 2

/* The 40 bytes before a UD payload: a GRH, or an IPv4 header in the last 20 of them (A17.4.3). */
static void received(const struct urxe_rx_packet *rx, uint8_t grh[40], struct urxe_link_wc *wc)
{
	const struct urxe_path *path = &rx->path;
	uint16_t udp_len = 8 + rx->len + URXE_ICRC_LEN;
	struct urxe_grh *h = (struct urxe_grh *)grh;

	*wc = (struct urxe_link_wc){.grh = true};
	memset(grh, 0, 40);
	if (urxe_is_ipv4(&path->src.gid)) {
		struct iphdr ip = {
			.version = 4,
			.ihl = sizeof(ip) / 4,
			.tos = path->roce.traffic_class,
			.tot_len = htobe16(sizeof(ip) + udp_len),
			.frag_off = htobe16(IP_DF),
			.ttl = path->roce.hop_limit,
			.protocol = IPPROTO_UDP,
			.saddr = path->src.gid.s6_addr32[3],
			.daddr = path->dst.gid.s6_addr32[3],
		};

		ip.check = htobe16(ip_checksum((const uint8_t *)&ip));
		memcpy(grh + 20, &ip, sizeof(ip));
		wc->sl = WC_SL_IPV4;
		return;
	}
	urxe_grh_set_class(h, path->roce.traffic_class, 0);
	h->payload_len = htobe16(udp_len);
	h->next_header = IPPROTO_UDP;
	h->hop_limit = path->roce.hop_limit;
	h->sgid = path->src.gid;
	h->dgid = path->dst.gid;
	wc->sl = WC_SL_IPV6;
}

/* The GIDs of a UD receive: its GRH area holds a GRH or, in its last 20 bytes, an IPv4 header. */
static void gids_of_grh(const struct ibv_grh *grh, union ibv_gid *sgid, union ibv_gid *dgid,
			uint8_t *tclass, uint32_t *flow)
{
	const uint8_t *ip = (const uint8_t *)grh + 20;
	uint32_t word = be32toh(grh->version_tclass_flow);

	*flow = 0;
	if (word >> 28 == 6) {
		*sgid = grh->sgid;
		*dgid = grh->dgid;
		*tclass = word >> 20;
		*flow = word & 0xfffff;
		return;
	}
	*(struct in6_addr *)sgid = urxe_v4mapped(*(const struct in_addr *)(ip + 12));
	*(struct in6_addr *)dgid = urxe_v4mapped(*(const struct in_addr *)(ip + 16));
	*tclass = ip[1];
}

/* The first GID of a group's family. */
static int first_of_family(const struct urxe_port *port, bool ipv4)
{
	union ibv_gid gid;

	for (unsigned i = 0; i < port->gid_len; i++)
		if (urxe_port_gid(port, i, &gid) &&
		    urxe_is_ipv4((const struct in6_addr *)&gid) == ipv4)
			return i;
	return -1;
}

static int answer(const struct urxe_port *port, const struct ibv_wc *wc, const struct ibv_grh *grh,
		  struct ibv_ah_attr *attr)
{
	union ibv_gid sgid, dgid;
	const struct in6_addr *to = (const struct in6_addr *)&dgid;
	uint8_t tclass;
	uint32_t flow;
	int index;

	if (!(wc->wc_flags & IBV_WC_GRH))
		return -EINVAL;
	gids_of_grh(grh, &sgid, &dgid, &tclass, &flow);
	index = urxe_is_multicast(to) ? first_of_family(port, urxe_is_ipv4(to))
				      : urxe_port_gid_index(port, &dgid);
	if (index < 0)
		return -EINVAL;
	attr->port_num = port->num; /* and no SL: wc->sl says something else */
	attr->is_global = 1;
	attr->grh.dgid = sgid;
	attr->grh.sgid_index = index;
	attr->grh.hop_limit = 0xff;
	attr->grh.traffic_class = tclass;
	attr->grh.flow_label = flow;
	return 0;
}

const struct urxe_link_ops urxe_roce_link = {
	.has_other_ways = true,
	.open = urxe_udp_open,
	.close = urxe_udp_close,
	.housekeep = urxe_steer_renew,
	.resolve = resolve,
	.describe = describe,
	.reverse = reverse,
	.adjust = adjust,
	.adopt = adopt,
	.arrive = arrive,
	.is_here = is_here,
	.port_at = port_at,
	.host = host,
	.gid_of_ip = gid_of_ip,
	.own_ip = own_ip,
	.ethernet = urxe_roce_ethernet,
	.gids = gids,
	.is_named = is_named,
	.received = received,
	.answer = answer,
	.group = group,
	.join = urxe_roce_join,
	.leave = urxe_roce_leave,
	.send = urxe_roce_send,
	.send_raw = urxe_roce_send_raw,
};
