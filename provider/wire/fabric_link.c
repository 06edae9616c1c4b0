// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A virtual InfiniBand fabric as a link layer. An address is a LID and, where packets have a GRH,
 * the GUID of a GID; of a multicast group it is the MGID. All processes of all hosts share memory,
 * so packets go by rings and direct access as between processes of one host, if the route through
 * the fabric lets them (route.h); there is no other way. The receiver looks whether the address is
 * one of its host's ports, and drops what is not. What takes a wire is under the engine's lock; the
 * rest may be called by any thread.
 */
#include <errno.h>
#include <string.h>

#include "host/fabric_device.h"
#include "host/fabric_sa.h"
#include "wire/fabric_ip.h"
#include "wire/private.h"
#include "wire/route.h"
#include "wire/shm.h"

static bool is_group(const union ibv_gid *gid)
{
	return gid->raw[0] == 0xff;
}

/* ---- to a destination ---- */

/* Of the path bits, those that the port's LMC has count (4.1.3): programs give the whole LID. */
static bool find_source(struct urxe_path *path, const struct urxe_port *port,
			const struct ibv_ah_attr *attr)
{
	union ibv_gid gid;

	if (attr->is_global && !urxe_port_gid(port, attr->grh.sgid_index, &gid))
		return false;
	urxe_device_lock();
	path->src.fabric.lid = port->lid | (attr->src_path_bits & ((1u << port->lmc) - 1));
	urxe_device_unlock();
	path->src.fabric.global = attr->is_global;
	if (attr->is_global)
		path->src.fabric.guid = gid.global.interface_id;
	return true;
}

/* 10.2.2.2, 11.2.2.1: a GRH is needed to multicast groups only. */
static int resolve(struct urxe_path *path, const struct urxe_port *port,
		   const struct ibv_ah_attr *attr, uint32_t hash)
{
	bool group = attr->is_global && is_group(&attr->grh.dgid);

	memset(path, 0, sizeof(*path));
	path->link = URXE_LINK_FABRIC;
	path->port = port->index;
	path->multicast = group;
	path->here = !group;
	path->fabric.sl = attr->sl;
	if (!attr->dlid || attr->dlid == LID_PERMISSIVE || attr->sl > 15 ||
	    group != (attr->dlid >= LID_FIRST_MULTICAST) || !find_source(path, port, attr))
		return -EINVAL;
	if (group) {
		memcpy(&path->dst, &attr->grh.dgid, sizeof(path->dst));
	} else {
		path->dst.fabric.lid = attr->dlid;
		path->dst.fabric.global = attr->is_global;
		path->dst.fabric.guid = attr->is_global ? attr->grh.dgid.global.interface_id : 0;
	}
	if (attr->is_global) {
		path->fabric.traffic_class = attr->grh.traffic_class;
		path->fabric.hop_limit = attr->grh.hop_limit;
		path->fabric.flow_label = attr->grh.flow_label & 0xfffff;
	}
	return urxe_route_get(port, FABRIC_NONE, path->src.fabric.lid, attr->dlid, attr->sl,
			      attr->is_global, &path->route);
}

/* The GID of an address: of one without, the first of the port that has the LID. */
static void gid_of(const struct urxe_link_addr *addr, uint32_t at, union ibv_gid *gid)
{
	const struct urxe_fabric_host *host = urxe_fabric_powered();

	memset(gid, 0, sizeof(*gid));
	gid->global.subnet_prefix = htobe64(0xfe80000000000000ull);
	gid->global.interface_id = addr->fabric.guid;
	if (!host || at >= host->map->num_ports)
		return;
	memcpy(gid, fabric_map_port(host->map, at)->info + PI_PREFIX, 8);
	if (!addr->fabric.global)
		gid->global.interface_id = htobe64(fabric_map_port(host->map, at)->guid);
}

static void gids(const struct urxe_path *path, union ibv_gid *src, union ibv_gid *dst)
{
	const struct urxe_port *port = urxe_port(path->port);
	uint32_t own = port ? port->fabric_port : FABRIC_NONE;
	const struct urxe_route *r = path->multicast ? NULL : urxe_route_of(path);

	gid_of(&path->src, own, src);
	if (path->multicast)
		memcpy(dst, &path->dst, sizeof(*dst));
	else
		gid_of(&path->dst, r && r->open ? r->way.to : FABRIC_NONE, dst);
}

/* What a LID has that the first one of its port has not. */
static uint8_t path_bits(const struct urxe_port *port, uint16_t lid)
{
	const struct urxe_fabric_host *host = urxe_fabric_powered();
	uint32_t index = port ? __atomic_load_n(&port->fabric_port, __ATOMIC_RELAXED) : 0;

	return host && port ? lid & ((1u << fabric_port_lmc(fabric_map_port(host->map, index))) - 1)
			    : 0;
}

static int describe(const struct urxe_path *path, struct ibv_ah_attr *attr)
{
	const struct urxe_port *port = urxe_port(path->port);
	const struct urxe_route *r = urxe_route_of(path);
	union ibv_gid sgid, dgid;
	int index;

	gids(path, &sgid, &dgid);
	index = port ? urxe_port_gid_index(port, &sgid) : -1;
	*attr = (struct ibv_ah_attr){
		.dlid = path->multicast ? (r ? r->dlid : 0) : path->dst.fabric.lid,
		.sl = path->fabric.sl,
		.src_path_bits = path_bits(port, path->src.fabric.lid),
		.is_global = path->src.fabric.global,
		.port_num = port ? port->num : 0,
	};
	if (!attr->is_global)
		return port ? 0 : -EINVAL;
	attr->grh = (struct ibv_global_route){
		.dgid = dgid,
		.flow_label = path->fabric.flow_label,
		.sgid_index = index < 0 ? 0 : index,
		.hop_limit = path->fabric.hop_limit,
		.traffic_class = path->fabric.traffic_class,
	};
	return index < 0 ? -EINVAL : 0;
}

static void adjust(struct urxe_path *path, const struct ibv_ah_attr *attr)
{
	path->fabric.flow_label = attr->grh.flow_label;
	path->fabric.traffic_class = attr->grh.traffic_class;
	path->fabric.hop_limit = attr->grh.hop_limit;
}

static bool is_named(const struct urxe_link_addr *addr, const union ibv_gid *gid, uint16_t lid)
{
	return addr->fabric.lid == lid &&
	       (!addr->fabric.global || addr->fabric.guid == gid->global.interface_id);
}

static bool is_here(const struct urxe_path *path)
{
	return !path->multicast;
}

/* ---- from a sender ---- */

/* Without a route packets go nowhere. */
static void set_route(struct urxe_path *path)
{
	const struct urxe_port *port = urxe_port(path->port);
	uint16_t dlid = path->dst.fabric.lid;

	path->route = 0;
	if (port && !path->multicast)
		urxe_route_get(port, FABRIC_NONE, path->src.fabric.lid, dlid, path->fabric.sl,
			       path->src.fabric.global, &path->route);
}

static void reverse(struct urxe_path *back, const struct urxe_path *came)
{
	*back = (struct urxe_path){
		.src = came->dst,
		.dst = came->src,
		.link = came->link,
		.port = came->port,
		.here = true,
		.fabric.sl = came->fabric.sl,
		.fabric.traffic_class = came->fabric.traffic_class,
		.fabric.hop_limit = 64,
	};
	set_route(back);
}

static bool has_guid(const struct fabric_map *map, const struct fabric_port *port, uint64_t guid)
{
	const uint64_t *guids = (const uint64_t *)fabric_map_bytes(map, port->guids);

	if (be64toh(guid) == port->guid)
		return true;
	for (unsigned i = 1; i < FABRIC_GUIDS && i < port->info[PI_GUID_CAP]; i++)
		if (guids[i] && guids[i] == be64toh(guid))
			return true;
	return false;
}

/* The map has a LID before the event of its change reaches this process. */
static bool is_at(const struct fabric_map *map, const struct urxe_port *port,
		  const struct urxe_link_addr *addr)
{
	uint32_t index = __atomic_load_n(&port->fabric_port, __ATOMIC_RELAXED);
	const struct fabric_port *mine = fabric_map_port(map, index);

	return fabric_port_has_lid(mine, addr->fabric.lid) &&
	       (!addr->fabric.global || has_guid(map, mine, addr->fabric.guid));
}

static unsigned port_of(const struct urxe_link_addr *addr)
{
	const struct urxe_fabric_host *host = urxe_fabric_powered();

	for (unsigned i = 0; host && i < URXE_MAX_PORTS; i++) {
		const struct urxe_port *port = urxe_port(i);

		if (port && port->kind->link == URXE_LINK_FABRIC && is_at(host->map, port, addr))
			return i;
	}
	return URXE_NO_PORT;
}

/*
 * All hosts share the segment, and the survivor may be on another one than the dead process: then
 * it speaks from the dead one's port, whose LID it finds as it would send there.
 */
static bool adopt(struct urxe_wire *wire, struct urxe_path *path)
{
	uint16_t lid = path->src.fabric.lid;
	const struct urxe_port *own = urxe_port(0);
	const struct urxe_route *there;
	uint32_t route;

	path->port = port_of(&path->src);
	if (path->port != URXE_NO_PORT) {
		set_route(path);
		return true;
	}
	path->port = 0;
	if (!own || path->multicast ||
	    urxe_route_get(own, FABRIC_NONE, own->lid, lid, path->fabric.sl, false, &route))
		return false;
	there = urxe_route_now(urxe_routes[route]);
	return there->open &&
	       !urxe_route_get(NULL, there->way.to, lid, path->dst.fabric.lid, path->fabric.sl,
			       path->src.fabric.global, &path->route);
}

static uint32_t host(const struct urxe_path *path)
{
	return urxe_route_now(urxe_route_of(path))->host;
}

static unsigned port_at(struct urxe_wire *wire, const struct urxe_path *path)
{
	return port_of(&path->dst);
}

/* On a host with several ports a group is of none: all QPs that are attached to it get the
 * packet. */
static void arrive(struct urxe_wire *wire, struct urxe_path *path)
{
	path->route = 0;
	path->multicast = is_group((const union ibv_gid *)&path->dst);
	if (path->multicast)
		path->port = urxe_port(1) ? URXE_NO_PORT : 0;
	else
		path->port = port_of(&path->dst);
}

/* ---- completions ---- */

static void received(const struct urxe_rx_packet *rx, uint8_t grh[40], struct urxe_link_wc *wc)
{
	const struct urxe_path *path = &rx->path;
	const struct urxe_port *port = urxe_port(path->port);
	uint32_t own = port ? port->fabric_port : FABRIC_NONE;
	struct urxe_grh *h = (struct urxe_grh *)grh;
	union ibv_gid gid;

	*wc = (struct urxe_link_wc){
		.grh = path->src.fabric.global,
		.sl = path->fabric.sl,
		.slid = path->src.fabric.lid,
		.dlid_path_bits = path->multicast ? 0 : path_bits(port, path->dst.fabric.lid),
	};
	memset(grh, 0, 40);
	if (!wc->grh)
		return;
	urxe_grh_set_class(h, path->fabric.traffic_class, path->fabric.flow_label);
	h->payload_len = htobe16(rx->len + URXE_ICRC_LEN);
	h->next_header = 0x1b; /* a BTH follows (8.3) */
	h->hop_limit = path->fabric.hop_limit;
	gid_of(&path->src, own, &gid);
	memcpy(&h->sgid, &gid, sizeof(gid));
	if (path->multicast)
		memcpy(&gid, &path->dst, sizeof(gid));
	else
		gid_of(&path->dst, own, &gid);
	memcpy(&h->dgid, &gid, sizeof(gid));
}

static int answer(const struct urxe_port *port, const struct ibv_wc *wc, const struct ibv_grh *grh,
		  struct ibv_ah_attr *attr)
{
	uint32_t word;
	int index;

	attr->dlid = wc->slid;
	attr->sl = wc->sl;
	attr->src_path_bits = wc->dlid_path_bits;
	attr->port_num = port->num;
	if (!(wc->wc_flags & IBV_WC_GRH))
		return 0;
	word = be32toh(grh->version_tclass_flow);
	index = is_group(&grh->dgid) ? 0 : urxe_port_gid_index(port, &grh->dgid);
	if (index < 0)
		return -EINVAL;
	attr->is_global = 1;
	attr->grh.dgid = grh->sgid;
	attr->grh.sgid_index = index;
	attr->grh.hop_limit = 0xff;
	attr->grh.traffic_class = word >> 20;
	attr->grh.flow_label = word & 0xfffff;
	return 0;
}

/* ---- multicast ---- */

static void group(struct urxe_link_addr *addr, const union ibv_gid *mgid)
{
	memcpy(addr, mgid, sizeof(*addr));
}

static int join(struct urxe_wire *wire, const struct urxe_port *port,
		const struct urxe_link_addr *addr)
{
	urxe_segment_count_groups(wire->seg, 1);
	return 0;
}

static void leave(struct urxe_wire *wire, const struct urxe_port *port,
		  const struct urxe_link_addr *addr)
{
	urxe_segment_count_groups(wire->seg, -1);
}

static void send_copies(struct urxe_wire *wire, const struct urxe_path *path,
			const struct urxe_tx_packet *pkt)
{
	urxe_route_take_group(path, pkt);
	for (unsigned slot = URXE_SLOT_FIRST; slot <= urxe_slots.last; slot++) {
		struct urxe_lag *lag = NULL;
		struct urxe_link *link = NULL;

		if (urxe_segment_slot_has_groups(wire->seg, slot))
			lag = urxe_route_reaches(path, urxe_segment_slot_host(wire->seg, slot));
		if (lag)
			link = urxe_shm_link(wire, slot);
		if (link)
			urxe_shm_send_copy(wire, link, path, pkt, lag);
	}
}

static int send_group(struct urxe_wire *wire, const struct urxe_path *path,
		      const struct urxe_tx_packet *pkts, unsigned n)
{
	for (unsigned k = 0; k < n; k++)
		send_copies(wire, path, &pkts[k]);
	return n;
}

/* ---- sending ---- */

/* A process of the destination's host that serves QP 1, or the one that a MAD names. */
static struct urxe_link *gsi_link(struct urxe_wire *wire, const struct urxe_path *path,
				  const struct urxe_tx_packet *pkt)
{
	static unsigned last;
	uint32_t host = urxe_route_of(path)->host;
	unsigned slot = 0;

	if (pkt->iovcnt && pkt->iov[0].iov_len >= 256)
		slot = urxe_steer_mad(pkt->iov[0].iov_base);
	if (slot < URXE_SLOT_FIRST || slot > urxe_slots.last ||
	    urxe_segment_slot_host(wire->seg, slot) != host ||
	    !urxe_segment_slot_alive(wire->seg, slot))
		slot = last = urxe_segment_gsi_of(wire->seg, host, last);
	return slot ? urxe_shm_link(wire, slot) : NULL;
}

/* What no ring takes: to QP 1, to multicast groups, and to QPs that are not there. */
static int send_rest(struct urxe_wire *wire, const struct urxe_path *path,
		     struct urxe_tx_packet *pkts, unsigned n)
{
	if (path->multicast)
		return send_group(wire, path, pkts, n);
	for (unsigned k = 0; k < n; k++) {
		const struct urxe_bth *bth = (const struct urxe_bth *)pkts[k].header;
		struct urxe_link *link = NULL;

		if (urxe_bth_qpn(bth) == URXE_QPN_GSI && urxe_route_is_open(path))
			link = gsi_link(wire, path, &pkts[k]);
		if (link && !urxe_shm_send(wire, link, path, &pkts[k], 1))
			return k;
		if (!link)
			urxe_route_take(path, pkts[k].header, urxe_packet_bytes(&pkts[k]),
					pkts[k].payload_len, pkts[k].span ? pkts[k].span : 1);
	}
	return n;
}

/* ---- refusals ---- */

#define REPORT_EVERY 1000000ull /* ns: refused packets must not keep fabricd busy */

/* Those not yet reported to fabricd, by kind of key. */
static struct {
	struct fabric_violation last;
	uint64_t reported_at;
} refusals[2];

static void report_refusals(bool qkey, uint64_t now)
{
	struct fabric_violation *v = &refusals[qkey].last;

	if (!v->count || now - refusals[qkey].reported_at < REPORT_EVERY)
		return;
	urxe_fabric_report(v);
	refusals[qkey].reported_at = now;
	v->count = 0;
}

static void refused(const struct urxe_rx_packet *rx, bool qkey)
{
	const struct urxe_port *port = urxe_port(rx->path.port);
	const struct urxe_bth *bth = (const struct urxe_bth *)rx->bth;
	const struct urxe_deth *deth = NULL;

	if (!port)
		return;
	if ((bth->opcode & URXE_SERVICE_MASK) == URXE_SERVICE_UD &&
	    rx->len >= sizeof(*bth) + sizeof(*deth))
		deth = (const struct urxe_deth *)(bth + 1);
	refusals[qkey].last = (struct fabric_violation){
		.port = port->fabric_port,
		.key = qkey && deth ? urxe_deth_qkey(deth) : urxe_bth_pkey(bth),
		.src_qpn = deth ? urxe_deth_sqp(deth) : 0,
		.dst_qpn = urxe_bth_qpn(bth),
		.slid = rx->path.src.fabric.lid,
		.dlid = rx->path.dst.fabric.lid,
		.sl = rx->path.fabric.sl,
		.of_qkey = qkey,
		.count = refusals[qkey].last.count + 1,
	};
	report_refusals(qkey, urxe_now());
}

/* ---- the wire ---- */

static int open_fabric(struct urxe_wire *wire)
{
	/* Without rings there is no way at all. */
	return wire->shm && wire->shm->window ? 0 : -ENOSPC;
}

static void close_fabric(struct urxe_wire *wire, bool forked)
{
	urxe_routes_close(forked);
}

static void housekeep(struct urxe_wire *wire)
{
	report_refusals(false, urxe_now());
	report_refusals(true, urxe_now());
}

static void ports_changed(struct urxe_wire *wire)
{
	const struct urxe_fabric_host *host = urxe_fabric_powered();

	urxe_routes_renew();
	if (host)
		urxe_segment_set_host(wire->seg, urxe_fabric_host_number());
}

const struct urxe_link_ops urxe_fabric_link = {
	.has_af_ib = true,
	.open = open_fabric,
	.close = close_fabric,
	.housekeep = housekeep,
	.ports_changed = ports_changed,
	.resolve = resolve,
	.describe = describe,
	.reverse = reverse,
	.adjust = adjust,
	.adopt = adopt,
	.arrive = arrive,
	.is_here = is_here,
	.port_at = port_at,
	.host = host,
	.gid_of_ip = urxe_fabric_gid_of_ip,
	.own_ip = urxe_fabric_own_ip,
	.ask = urxe_fabric_sa_ask,
	.gids = gids,
	.is_named = is_named,
	.received = received,
	.answer = answer,
	.group = group,
	.join = join,
	.leave = leave,
	.refused = refused,
	.send = send_rest,
};
