// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Agents of programs, and to which of them an arriving MAD goes: answers by the upper half of the
 * transaction ID, others by class, version and method, as the kernel's mad.c does it. fabricd's
 * thread.
 */
#include "fabric/host.h"

#include <errno.h>
#include <rdma/ib_user_mad.h>
#include <stdlib.h>

static struct host_port *host_of(struct fabric *f, uint32_t port)
{
	struct port_private *mine = &f->ports[port];

	if (!mine->host)
		mine->host = calloc(1, sizeof(*mine->host));
	return mine->host;
}

/* ---- registration ---- */

/* Vendor classes with an OUI are told apart by that too. */
static bool same_class(const struct agent *a, const struct fabric_request *r)
{
	return a->class && a->class == r->mgmt_class && a->class_version == r->class_version &&
	       (!class_is_vendor2(a->class) || a->oui == r->oui);
}

static int check(const struct fabric_request *r)
{
	bool smi = r->mgmt_class == CLASS_SUBN_LID || r->mgmt_class == CLASS_SUBN_DR;

	if (r->qpn > 1 || r->rmpp_version > 1)
		return EINVAL;
	if (!r->mgmt_class)
		return 0; /* only to send */
	if (r->class_version >= 0x83 || (r->mgmt_class > CLASS_LAST && !smi))
		return EINVAL;
	if (class_is_vendor2(r->mgmt_class) && !r->oui)
		return EINVAL;
	if (r->rmpp_version && !class_has_rmpp(r->mgmt_class))
		return EINVAL;
	return smi == !r->qpn ? 0 : EINVAL;
}

static int check_methods(const struct host_port *host, const struct fabric_request *r)
{
	for (const struct agent *a = host->agents; a; a = a->link)
		if (r->mgmt_class && same_class(a, r) &&
		    (a->methods[0] & r->method_mask[0] || a->methods[1] & r->method_mask[1]))
			return EINVAL;
	return 0;
}

int host_register(struct fabric *f, struct connection *file, uint32_t port,
		  const struct fabric_request *r, uint8_t id, struct agent **out)
{
	struct host_port *host = host_of(f, port);
	int ret = check(r);
	struct agent *a;

	if (!host)
		return ENOMEM;
	if (!ret)
		ret = check_methods(host, r);
	if (ret)
		return ret;
	a = calloc(1, sizeof(*a));
	if (!a)
		return ENOMEM;
	a->file = file;
	a->port = port;
	a->id = id;
	a->qpn = r->qpn;
	a->class = r->mgmt_class;
	a->class_version = r->class_version;
	a->rmpp_version = r->rmpp_version;
	a->user_rmpp = r->flags & IB_USER_MAD_USER_RMPP;
	a->oui = r->oui;
	memcpy(a->methods, r->method_mask, sizeof(a->methods));
	a->tid = ++f->next_agent;
	a->link = host->agents;
	host->agents = a;
	a->hashed = f->agents[a->tid % AGENT_TABLE];
	f->agents[a->tid % AGENT_TABLE] = a;
	*out = a;
	return 0;
}

void host_unregister(struct fabric *f, struct agent *agent)
{
	struct agent **at;

	host_send_all_end(f, agent);
	rmpp_receive_all_end(f, agent);
	for (at = &f->ports[agent->port].host->agents; *at != agent; at = &(*at)->link)
		;
	*at = agent->link;
	for (at = &f->agents[agent->tid % AGENT_TABLE]; *at != agent; at = &(*at)->hashed)
		;
	*at = agent->hashed;
	free(agent);
}

/* ---- arrival ---- */

static struct agent *find_by_tid(struct fabric *f, const struct packet *p)
{
	uint32_t tid = get64(p->mad + MAD_TID) >> 32;
	struct agent *a = f->agents[tid % AGENT_TABLE];

	while (a && (a->tid != tid || a->port != p->port))
		a = a->hashed;
	return a;
}

static struct agent *find_by_method(struct fabric *f, const struct packet *p)
{
	struct host_port *host = f->ports[p->port].host;
	uint8_t class = p->mad[MAD_CLASS];
	uint8_t method = p->mad[MAD_METHOD] & 0x7f;
	uint32_t oui = get32(p->mad + MAD_OUI - 1) & 0xffffff;

	for (struct agent *a = host ? host->agents : NULL; a; a = a->link)
		if (a->class == class && a->class_version == p->mad[MAD_CLASS_VERSION] &&
		    a->methods[method / 64] & 1ull << method % 64 &&
		    (!class_is_vendor2(class) || a->oui == oui))
			return a;
	return NULL;
}

/* Nobody wants it: questions are answered all the same (mad.c: generate_unmatched_resp), by
 * switches too. */
static void answer_unmatched(struct fabric *f, struct packet *p)
{
	uint8_t *mad = p->mad;
	bool directed = mad[MAD_CLASS] == CLASS_SUBN_DR;
	uint16_t to = p->slid;
	uint32_t qp = p->src_qp;

	if (mad[MAD_METHOD] != METHOD_GET && mad[MAD_METHOD] != METHOD_SET)
		return;
	if (directed && !mad[SMP_HOP_COUNT])
		return;
	mad[MAD_METHOD] = METHOD_GET_RESP;
	put16(mad + MAD_STATUS, STATUS_BAD_METHOD_ATTR | (directed ? STATUS_DIRECTION : 0));
	p->slid = fabric_port_lid(port_at(f, p->port));
	p->dlid = directed ? LID_PERMISSIVE : to;
	p->src_qp = p->dst_qp;
	p->dst_qp = qp;
	p->grh_present = 0;
	fabric_send(f, p);
}

static bool valid(struct fabric *f, const struct packet *p)
{
	uint8_t *info = port_at(f, p->port)->info;

	if (mad_is_smp(p->mad))
		return !p->dst_qp;
	if (p->dst_qp != 1 || (p->mad[MAD_CLASS] == CLASS_CM && p->mad[MAD_METHOD] != METHOD_SEND))
		return false;
	if (p->qkey == GSI_QKEY)
		return true;
	if (get16(info + PI_QKEY_VIOL) != 0xffff)
		put16(info + PI_QKEY_VIOL, get16(info + PI_QKEY_VIOL) + 1);
	trap_bad_qkey(f, port_at(f, p->port), p);
	return false;
}

static bool rmpp_active(const uint8_t *mad)
{
	return class_has_rmpp(mad[MAD_CLASS]) && mad[RMPP_FLAGS] & RMPP_ACTIVE;
}

/* Does the MAD layer do the agent's RMPP? Else the program does (mad.c: ib_mad_kernel_rmpp_agent).
 * */
static bool makes_segments(const struct agent *agent)
{
	return agent->rmpp_version && !agent->user_rmpp;
}

void host_receive(struct fabric *f, struct packet *p)
{
	bool response = mad_is_response(p->mad);
	struct agent *agent;
	struct send *send;

	if (!valid(f, p))
		return;
	agent = response ? find_by_tid(f, p) : find_by_method(f, p);
	if (!agent) {
		answer_unmatched(f, p);
		return;
	}
	send = response ? host_send_find(f, agent, p->mad) : NULL;
	if (rmpp_active(p->mad) && makes_segments(agent)) {
		if (p->mad[RMPP_TYPE] == RMPP_DATA)
			rmpp_receive(f, agent, send, p);
		else
			rmpp_send_receive(f, agent, p);
		return;
	}
	/* Too late, or nobody asked; further segments are for a program that puts them together
	 * itself. */
	if (response && !send && !rmpp_active(p->mad))
		return;
	if (send)
		host_send_end(f, send, 0);
	host_deliver(f, agent, p, NULL, MAD_LEN);
}

static unsigned pkey_index(struct fabric *f, const struct fabric_port *port, uint16_t pkey)
{
	const uint16_t *keys = (const uint16_t *)fabric_map_bytes(f->map, port->pkeys);

	for (unsigned i = 0; i < port->pkey_cap; i++)
		if (keys[i] && !((keys[i] ^ pkey) & 0x7fff))
			return i;
	return 0;
}

void host_deliver(struct fabric *f, struct agent *agent, const struct packet *p,
		  const uint8_t *data, uint32_t len)
{
	struct fabric_port *port = port_at(f, p->port);
	struct ib_user_mad_hdr hdr;

	memset(&hdr, 0, sizeof(hdr));
	hdr.id = agent->id;
	hdr.length = sizeof(hdr) + len;
	hdr.qpn = htobe32(p->src_qp);
	hdr.lid = htobe16(p->slid);
	hdr.sl = p->sl;
	hdr.path_bits = p->dlid == LID_PERMISSIVE ? 0 : p->dlid - fabric_port_lid(port);
	hdr.grh_present = p->grh_present;
	if (p->grh_present) {
		hdr.hop_limit = p->hop_limit;
		hdr.traffic_class = p->traffic_class;
		memcpy(hdr.gid, p->sgid, sizeof(hdr.gid));
		hdr.flow_label = htobe32(p->flow_label);
	}
	hdr.pkey_index = pkey_index(f, port, p->pkey);
	server_deliver(f, agent->file, (const uint8_t *)&hdr, data ? data : p->mad, len);
}

/* ---- what becomes of ports ---- */

void host_port_changed(struct fabric *f, struct fabric_port *port, bool rereg)
{
	if (f->port_changed && node_of(f, port)->type != NODE_SWITCH)
		f->port_changed(f, port, rereg);
}

void host_node_down(struct fabric *f, struct fabric_node *node)
{
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
