// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The ports of a fabric's hosts below their MAD layer (host.h): addresses of packets, P_Keys,
 * violations, and what becomes of ports. fabricd's thread.
 */
#include "fabric/fabric.h"
#include "fabric/member.h"
#include "fabric/server.h"

#include <errno.h>

/* ---- packets ---- */

static int check(struct mads *m, const struct agent *agent, const struct ib_user_mad_hdr *h,
		 const uint8_t *mad)
{
	const struct fabric_port *port = port_at(fabric_of(m), agent->port);

	return mad[MAD_CLASS] == CLASS_SUBN_DR && !fabric_route_begins(port, mad) ? EINVAL : 0;
}

static uint16_t pkey_at(struct fabric *f, const struct fabric_port *port, unsigned index)
{
	return ((const uint16_t *)fabric_map_bytes(f->map, port->pkeys))[index % port->pkey_cap];
}

void host_packet(struct fabric *f, const struct agent *agent, const uint8_t *umad, struct packet *p)
{
	const struct ib_user_mad_hdr *h = (const struct ib_user_mad_hdr *)umad;
	struct fabric_port *port = port_at(f, agent->port);

	p->port = agent->port;
	p->in_port = 0;
	p->dlid = be16toh(h->lid);
	p->slid = fabric_port_lid(port) | (h->path_bits & ((1u << fabric_port_lmc(port)) - 1));
	p->sl = h->sl & 15;
	p->src_qp = agent->qpn;
	p->dst_qp = be32toh(h->qpn);
	p->qkey = be32toh(h->qkey);
	p->pkey = agent->qpn ? pkey_at(f, port, h->pkey_index) : 0xffff;
	p->grh_present = h->grh_present != 0;
	if (p->grh_present) {
		memcpy(p->dgid, h->gid, 16);
		memcpy(p->sgid, port->info + PI_PREFIX, 8);
		put64(p->sgid + 8, port->guid);
		p->flow_label = be32toh(h->flow_label);
		p->traffic_class = h->traffic_class;
		p->hop_limit = h->hop_limit;
	}
}

static void address(struct mads *m, const struct agent *agent, const struct ib_user_mad_hdr *h,
		    struct packet *p)
{
	host_packet(fabric_of(m), agent, (const uint8_t *)h, p);
}

static unsigned pkey_index(struct fabric *f, const struct fabric_port *port, uint16_t pkey)
{
	const uint16_t *keys = (const uint16_t *)fabric_map_bytes(f->map, port->pkeys);

	for (unsigned i = 0; i < port->pkey_cap; i++)
		if (keys[i] && !((keys[i] ^ pkey) & 0x7fff))
			return i;
	return 0;
}

static void describe(struct mads *m, const struct packet *p, struct ib_user_mad_hdr *h)
{
	struct fabric *f = fabric_of(m);
	struct fabric_port *port = port_at(f, p->port);

	h->lid = htobe16(p->slid);
	h->sl = p->sl;
	h->path_bits = p->dlid == LID_PERMISSIVE ? 0 : p->dlid - fabric_port_lid(port);
	h->pkey_index = pkey_index(f, port, p->pkey);
}

static void turn(struct mads *m, struct packet *p)
{
	fabric_turn(fabric_of(m), p);
}

static struct packet *room(struct mads *m)
{
	return fabric_send_room(fabric_of(m));
}

static void send_done(struct mads *m)
{
	fabric_send_done(fabric_of(m));
}

static void deliver(struct mads *m, void *file, const uint8_t *hdr, const uint8_t *mad,
		    uint32_t len)
{
	member_answered(fabric_of(m), ((const struct ib_user_mad_hdr *)hdr)->status, mad);
	if (file)
		server_deliver(fabric_of(m), file, hdr, mad, len);
}

static void bad_qkey(struct mads *m, const struct packet *p)
{
	struct fabric *f = fabric_of(m);
	uint8_t *info = port_at(f, p->port)->info;

	if (get16(info + PI_QKEY_VIOL) != 0xffff)
		put16(info + PI_QKEY_VIOL, get16(info + PI_QKEY_VIOL) + 1);
	trap_bad_qkey(f, port_at(f, p->port), p);
}

static void dropped(struct mads *m, const struct packet *p)
{
	struct fabric *f = fabric_of(m);

	count_of(f, port_at(f, p->port))->qp1_dropped++;
}

const struct mads_ops host_port_ops = {
	.check = check,
	.address = address,
	.describe = describe,
	.turn = turn,
	.room = room,
	.send = send_done,
	.deliver = deliver,
	.bad_qkey = bad_qkey,
	.dropped = dropped,
};

/* ---- what becomes of ports ---- */

void host_port_changed(struct fabric *f, struct fabric_port *port, bool rereg)
{
	if (f->port_changed && node_of(f, port)->type != NODE_SWITCH)
		f->port_changed(f, port, rereg);
}

void host_violation(struct fabric *f, const struct fabric_violation *v)
{
	struct packet p = {.port = v->port,
			   .slid = v->slid,
			   .dlid = v->dlid,
			   .sl = v->sl,
			   .pkey = v->key,
			   .qkey = v->key,
			   .src_qp = v->src_qpn,
			   .dst_qp = v->dst_qpn};
	struct fabric_port *port = port_at(f, v->port);
	uint8_t *seen = port->info + (v->of_qkey ? PI_QKEY_VIOL : PI_PKEY_VIOL);

	if (v->count < 0xffffu - get16(seen))
		put16(seen, get16(seen) + v->count);
	else
		put16(seen, 0xffff);
	if (v->of_qkey)
		trap_bad_qkey(f, port, &p);
	else
		trap_bad_pkey(f, port, &p);
}
