// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Agents of programs, and to which of them an arriving MAD goes: answers by the upper half of the
 * transaction ID, others by class, version and method, as the kernel's mad.c does it. One
 * thread at a time.
 */
#include "fabric/host.h"

#include <errno.h>
#include <rdma/ib_user_mad.h>
#include <stdlib.h>

int mads_create(struct mads *m, uint32_t ports, const struct mads_ops *ops)
{
	m->at_port = calloc(ports, sizeof(struct agent *));
	m->ops = ops;
	m->agent_step = 1;
	return m->at_port ? 0 : -ENOMEM;
}

void mads_destroy(struct mads *m)
{
	host_sends_free(m);
	free(m->at_port);
	m->at_port = NULL;
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

static int check_methods(const struct agent *a, const struct fabric_request *r)
{
	for (; a; a = a->link)
		if (r->mgmt_class && same_class(a, r) &&
		    (a->methods[0] & r->method_mask[0] || a->methods[1] & r->method_mask[1]))
			return EINVAL;
	return 0;
}

int host_register(struct mads *m, void *file, uint32_t port, const struct fabric_request *r,
		  uint8_t id, struct agent **out)
{
	int ret = check(r);
	struct agent *a;

	if (!ret)
		ret = check_methods(m->at_port[port], r);
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
	a->tid = m->next_agent += m->agent_step;
	a->link = m->at_port[port];
	m->at_port[port] = a;
	a->hashed = m->agents[a->tid % AGENT_TABLE];
	m->agents[a->tid % AGENT_TABLE] = a;
	*out = a;
	return 0;
}

void host_unregister(struct mads *m, struct agent *agent)
{
	struct agent **at;

	host_send_all_end(m, agent);
	rmpp_receive_all_end(m, agent);
	for (at = &m->at_port[agent->port]; *at != agent; at = &(*at)->link)
		;
	*at = agent->link;
	for (at = &m->agents[agent->tid % AGENT_TABLE]; *at != agent; at = &(*at)->hashed)
		;
	*at = agent->hashed;
	free(agent);
}

/* ---- arrival ---- */

static struct agent *find_by_tid(struct mads *m, const struct packet *p)
{
	uint32_t tid = get64(p->mad + MAD_TID) >> 32;
	struct agent *a = m->agents[tid % AGENT_TABLE];

	while (a && (a->tid != tid || a->port != p->port))
		a = a->hashed;
	return a;
}

static struct agent *find_by_method(struct mads *m, const struct packet *p)
{
	uint8_t class = p->mad[MAD_CLASS];
	uint8_t method = p->mad[MAD_METHOD] & 0x7f;
	uint32_t oui = get32(p->mad + MAD_OUI - 1) & 0xffffff;

	for (struct agent *a = m->at_port[p->port]; a; a = a->link)
		if (a->class == class && a->class_version == p->mad[MAD_CLASS_VERSION] &&
		    a->methods[method / 64] & 1ull << method % 64 &&
		    (!class_is_vendor2(class) || a->oui == oui))
			return a;
	return NULL;
}

/* Nobody wants it: questions are answered all the same (mad.c: generate_unmatched_resp), by
 * switches too. */
static void answer_unmatched(struct mads *m, struct packet *p)
{
	if (!mad_make_unmatched(p->mad))
		return;
	m->ops->turn(m, p);
	*m->ops->room(m) = *p;
	m->ops->send(m);
}

static bool valid(struct mads *m, const struct packet *p)
{
	if (mad_is_smp(p->mad))
		return !p->dst_qp;
	if (p->dst_qp != 1 || (p->mad[MAD_CLASS] == CLASS_CM && p->mad[MAD_METHOD] != METHOD_SEND))
		return false;
	if (p->qkey != GSI_QKEY)
		m->ops->bad_qkey(m, p);
	return p->qkey == GSI_QKEY;
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

void host_receive(struct mads *m, struct packet *p)
{
	bool response = mad_is_response(p->mad);
	struct agent *agent;
	struct send *send;

	if (!valid(m, p))
		return;
	agent = response ? find_by_tid(m, p) : find_by_method(m, p);
	if (!agent) {
		answer_unmatched(m, p);
		return;
	}
	send = response ? host_send_find(m, agent, p->mad) : NULL;
	if (rmpp_active(p->mad) && makes_segments(agent)) {
		if (p->mad[RMPP_VERSION] == 1 && p->mad[RMPP_TYPE] >= RMPP_ACK &&
		    p->mad[RMPP_TYPE] <= RMPP_ABORT)
			rmpp_send_receive(m, agent, p);
		else
			rmpp_receive(m, agent, send, p);
		return;
	}
	/* Too late, or nobody asked; further segments are for a program that puts them together
	 * itself. */
	if (response && !send && !rmpp_active(p->mad))
		return;
	if (send)
		host_send_end(m, send, 0);
	host_deliver(m, agent, p, NULL, MAD_LEN);
}

void host_deliver(struct mads *m, struct agent *agent, const struct packet *p, const uint8_t *data,
		  uint32_t len)
{
	struct ib_user_mad_hdr hdr;

	memset(&hdr, 0, sizeof(hdr));
	hdr.id = agent->id;
	hdr.length = sizeof(hdr) + len;
	hdr.qpn = htobe32(p->src_qp);
	hdr.grh_present = p->grh_present;
	if (p->grh_present) {
		hdr.hop_limit = p->hop_limit;
		hdr.traffic_class = p->traffic_class;
		memcpy(hdr.gid, p->sgid, sizeof(hdr.gid));
		hdr.flow_label = htobe32(p->flow_label);
	}
	m->ops->describe(m, p, &hdr);
	m->ops->deliver(m, agent->file, (const uint8_t *)&hdr, data ? data : p->mad, len);
}
