// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The way of a MAD through the fabric, link by link, as the hardware takes it: by LID through the
 * switches' linear tables (14.2.2), or by the directed route in the SMP itself, with a part by LID
 * in front of it and behind it (14.2.2.2, C14-9 and C14-13; the kernel's smi.c is the model). SMPs
 * use VL 15 and cross every trained link; others need Active ports and meet P_Key checks. Every
 * port on the way counts.
 *
 * fabricd's thread.
 */
#include <stdlib.h>

#include "fabric/fabric.h"
#include "fabric/member.h"
#include "fabric/route.h"

/* ---- the queue of what is under way ---- */

struct packet *fabric_send_room(struct fabric *f)
{
	uint32_t used = f->tail - f->head;

	if (used > f->queue_mask) {
		struct packet *larger = malloc(2 * used * sizeof(*larger));

		if (!larger) { /* lost, as in a full buffer */
			f->head++;
			return &f->queue[f->tail & f->queue_mask];
		}
		for (uint32_t i = 0; i < used; i++)
			larger[i] = f->queue[(f->head + i) & f->queue_mask];
		free(f->queue);
		f->queue = larger;
		f->queue_mask = 2 * used - 1;
		f->head = 0;
		f->tail = used;
	}
	return &f->queue[f->tail & f->queue_mask];
}

void fabric_send_done(struct fabric *f)
{
	f->tail++;
}

/* ---- one link ---- */

static unsigned words_of(const struct packet *p)
{
	return MAD_WORDS + (p->grh_present ? MAD_GRH_WORDS : 0);
}

/* Can data leave by this port, and enter at that one? */
static bool data_passes(struct fabric *f, struct fabric_port *out, struct fabric_port *in)
{
	if (fabric_port_state(out) != PORT_ACTIVE)
		return false;
	link_takes_data(f, in);
	return fabric_port_state(in) == PORT_ACTIVE;
}

/* Over the cable of a port; where the packet comes in, or NULL. */
static struct fabric_port *cross(struct fabric *f, struct packet *p, struct fabric_port *out)
{
	struct counters *c = count_of(f, out);
	bool data = !mad_is_smp(p->mad);
	enum fabric_loss loss = FABRIC_ARRIVES;
	struct fabric_port *in;
	uint32_t at;

	if (!link_up(out)) {
		c->xmit_discards++;
		return NULL;
	}
	if (link_loses(f, out, p))
		return NULL;
	in = port_at(f, out->peer);
	if (data && !data_passes(f, out, in)) {
		c->xmit_discards++;
		return NULL;
	}
	if (data)
		loss = fabric_link_pkey(f->map, index_of(f, out), p->pkey, &at);
	if (loss == FABRIC_LOST_XMIT_PKEY) {
		c->xmit_constraint++;
		return NULL;
	}
	p->delay += out->delay;
	c->xmit_pkts++;
	c->ucast_xmit_pkts++;
	c->xmit_data += words_of(p);
	f->ports[index_of(f, in)].bad_packets -= f->ports[index_of(f, in)].bad_packets != 0;
	c = count_of(f, in);
	c->rcv_pkts++;
	c->ucast_rcv_pkts++;
	c->rcv_data += words_of(p);
	if (data)
		pma_count_sl(f, out, p->sl, words_of(p));
	if (loss == FABRIC_LOST_RCV_PKEY) {
		c->rcv_constraint++;
		return NULL;
	}
	return in;
}

/* ---- by LID ---- */

/* Which port a switch sends a packet to that came in at in; NULL if to none. */
static struct fabric_port *switch_port(struct fabric *f, struct packet *p, struct fabric_node *node,
				       struct fabric_port *in)
{
	uint8_t out = fabric_lft(f->map, node, p->dlid);
	struct counters *c = count_of(f, in);

	if (out > node->num_ports) {
		c->switch_relay++;
		c->no_lft++;
		return NULL;
	}
	if (out && out == in->num) {
		c->switch_relay++;
		c->looping++;
		return NULL;
	}
	return fabric_node_port(f->map, node, out);
}

/* From a port where the packet is, or has come in (arrived), to the port that has the LID; NULL:
 * lost. */
static struct fabric_port *walk_lid(struct fabric *f, struct packet *p, struct fabric_port *port,
				    bool arrived)
{
	for (int hops = 0; hops < FABRIC_HOPS_MAX; hops++) {
		struct fabric_node *node = node_of(f, port);
		struct fabric_port *end = end_port(f, port);

		if (fabric_port_has_lid(end, p->dlid) ||
		    (p->dlid == LID_PERMISSIVE && arrived && mad_is_smp(p->mad))) {
			p->in_port = port->num;
			return end;
		}
		if (node->type == NODE_SWITCH) {
			port = switch_port(f, p, node, port);
			if (!port)
				return NULL;
			if (!port->num)
				return port;
		} else if (arrived) {
			count_of(f, port)->rcv_errors++;
			return NULL;
		}
		port = cross(f, p, port);
		if (!port)
			return NULL;
		arrived = true;
	}
	count_of(f, port)->xmit_discards++;
	return NULL;
}

/* ---- by directed route ---- */

/* Out of a node by the port that a path names; NULL: there is none, or the packet is lost there. */
static struct fabric_port *leave(struct fabric *f, struct packet *p, struct fabric_port *at,
				 uint8_t num)
{
	struct fabric_node *node = node_of(f, at);

	if (!num || num > node->num_ports)
		return NULL;
	/* An adapter's ports have agents of their own: one does not send through another. */
	if (node->type != NODE_SWITCH && num != at->num)
		return NULL;
	return cross(f, p, fabric_node_port(f->map, node, num));
}

enum step { STEP_ON, STEP_HERE, STEP_LOST };

/* One node on the way out. *at: the port where the SMP is; then where it comes in at the next node.
 * */
static enum step step_out(struct fabric *f, struct packet *p, struct fabric_port **at, bool origin)
{
	uint8_t *mad = p->mad, ptr = mad[SMP_HOP_PTR], count = mad[SMP_HOP_COUNT];
	bool is_switch = node_of(f, *at)->type == NODE_SWITCH;

	if (ptr == count + 1)
		return origin ? STEP_LOST : STEP_HERE;
	if (ptr > count)
		return STEP_LOST;
	if (ptr == count) { /* the end of the directed part */
		if (!origin && ptr)
			mad[SMP_RET_PATH + ptr] = (*at)->num;
		mad[SMP_HOP_PTR]++;
		if (get16(mad + SMP_DR_DLID) == LID_PERMISSIVE)
			return STEP_HERE;
		if (!is_switch && !origin)
			return STEP_LOST;
		p->dlid = get16(mad + SMP_DR_DLID);
		p->slid = fabric_port_lid(end_port(f, *at));
		/* The switch itself sends it: out of the port by which it came in, if need be. */
		*at = walk_lid(f, p, end_port(f, *at), false);
		return *at ? STEP_HERE : STEP_LOST;
	}
	if (!origin && !is_switch)
		return STEP_LOST;
	if (ptr)
		mad[SMP_RET_PATH + ptr] = (*at)->num;
	mad[SMP_HOP_PTR]++;
	*at = leave(f, p, *at, mad[SMP_INIT_PATH + ptr + 1]);
	return *at ? STEP_ON : STEP_LOST;
}

/* One node on the way back. */
static enum step step_back(struct fabric *f, struct packet *p, struct fabric_port **at, bool origin)
{
	uint8_t *mad = p->mad, ptr = mad[SMP_HOP_PTR], count = mad[SMP_HOP_COUNT];

	if (ptr > count + 1 ||
	    (ptr == count + 1 && !origin && node_of(f, *at)->type != NODE_SWITCH))
		return STEP_LOST;
	if (!ptr)
		return STEP_HERE;
	mad[SMP_HOP_PTR]--;
	if (ptr == 1) {
		if (get16(mad + SMP_DR_SLID) == LID_PERMISSIVE)
			return STEP_HERE;
		p->dlid = get16(mad + SMP_DR_SLID);
		/* The switch itself sends it: out of the port by which it came in, if need be. */
		*at = walk_lid(f, p, end_port(f, *at), false);
		return *at ? STEP_HERE : STEP_LOST;
	}
	if (!origin && node_of(f, *at)->type != NODE_SWITCH)
		return STEP_LOST;
	*at = leave(f, p, *at, mad[SMP_RET_PATH + ptr - 1]);
	return *at ? STEP_ON : STEP_LOST;
}

/* Does the SMP go by LID to where its directed part begins? */
static bool begins_by_lid(const struct packet *p)
{
	const uint8_t *mad = p->mad;

	if (get16(mad + MAD_STATUS) & STATUS_DIRECTION)
		return get16(mad + SMP_DR_DLID) != LID_PERMISSIVE &&
		       mad[SMP_HOP_PTR] == mad[SMP_HOP_COUNT] + 1;
	return get16(mad + SMP_DR_SLID) != LID_PERMISSIVE && !mad[SMP_HOP_PTR];
}

static struct fabric_port *walk_directed(struct fabric *f, struct packet *p)
{
	struct fabric_port *at = port_at(f, p->port);
	bool back = get16(p->mad + MAD_STATUS) & STATUS_DIRECTION, origin = true;
	enum step step = STEP_ON;

	if (p->mad[SMP_HOP_COUNT] > SMP_MAX_HOPS)
		return NULL;
	if (begins_by_lid(p)) {
		at = walk_lid(f, p, at, false);
		origin = false;
		if (!at)
			return NULL;
	}
	while (step == STEP_ON) {
		step = back ? step_back(f, p, &at, origin) : step_out(f, p, &at, origin);
		origin = false;
	}
	if (step == STEP_LOST)
		return NULL;
	if (at->num)
		p->in_port = at->num;
	return end_port(f, at);
}

bool fabric_route_begins(const struct fabric_port *port, const uint8_t *smp)
{
	uint8_t ptr = smp[SMP_HOP_PTR], count = smp[SMP_HOP_COUNT];
	bool back = get16(smp + MAD_STATUS) & STATUS_DIRECTION;

	if (get16(smp + SMP_DR_SLID) != LID_PERMISSIVE || count > SMP_MAX_HOPS)
		return count <= SMP_MAX_HOPS;
	if (!back)
		return count ? !ptr && smp[SMP_INIT_PATH + 1] == port->num : !ptr;
	return count ? ptr == count + 1 && smp[SMP_RET_PATH + count] == port->num : ptr <= 1;
}

/* ---- arrival ---- */

/* Do sender's and receiver's P_Keys match (10.9.1.1)? Full and limited do, limited and limited do
 * not. */
static bool pkey_accepted(struct fabric *f, const struct fabric_port *port, uint16_t pkey)
{
	const uint16_t *keys = (const uint16_t *)fabric_map_bytes(f->map, port->pkeys);

	for (unsigned i = 0; i < port->pkey_cap; i++)
		if (keys[i] & 0x7fff && !((keys[i] ^ pkey) & 0x7fff) && (keys[i] | pkey) & 0x8000)
			return true;
	return false;
}

void fabric_turn(struct fabric *f, struct packet *p)
{
	const struct fabric_port *port = port_at(f, p->port);
	uint16_t to = p->slid;
	uint32_t qp = p->src_qp;

	p->slid = p->dlid == LID_PERMISSIVE ? fabric_port_lid(port) : p->dlid;
	p->dlid =
		p->mad[MAD_CLASS] == CLASS_SUBN_DR && get16(p->mad + SMP_DR_DLID) == LID_PERMISSIVE
			? LID_PERMISSIVE
			: to;
	p->src_qp = p->dst_qp;
	p->dst_qp = qp;
	if (p->grh_present) {
		uint8_t gid[16];

		memcpy(gid, p->sgid, 16);
		memcpy(p->sgid, p->dgid, 16);
		memcpy(p->dgid, gid, 16);
	}
}

static bool answer_smp(struct fabric *f, struct packet *p)
{
	bool answer;

	if (p->dst_qp)
		return false;
	f->smps++;
	if (!sma_receive(f, p, &answer)) {
		host_receive(&f->mads, p);
		return false;
	}
	if (answer)
		fabric_turn(f, p);
	return answer;
}

static bool answer_other(struct fabric *f, struct packet *p)
{
	struct fabric_port *port = port_at(f, p->port);

	if (!pkey_accepted(f, port, p->pkey)) {
		uint16_t seen = get16(port->info + PI_PKEY_VIOL);

		put16(port->info + PI_PKEY_VIOL, seen == 0xffff ? seen : seen + 1);
		trap_bad_pkey(f, port, p);
		return false;
	}
	if (p->dst_qp == 1 && p->mad[MAD_CLASS] == CLASS_PERF && !mad_is_response(p->mad)) {
		if (!pma_receive(f, p))
			return false;
		fabric_turn(f, p);
		return true;
	}
	host_receive(&f->mads, p);
	return false;
}

/* At the port where it arrives. True: the packet is the answer now. */
static bool arrive(struct fabric *f, struct packet *p)
{
	return mad_is_smp(p->mad) ? answer_smp(f, p) : answer_other(f, p);
}

/* ---- links with a delay ---- */

#define MAX_LATE 16384 /* packets; what comes on top is lost */

/* A packet that has crossed all of its links, which counted it, and is not there yet. */
struct late_packet {
	struct late_packet *next;
	uint64_t due; /* ms */
	struct packet packet;
};

static void arrive_late(struct timer *timer, void *arg);

/* Behind those that arrive no later. */
static void add_late(struct fabric *f, struct late_packet *late)
{
	struct late_packet **at = &f->late;

	if (f->late && f->last_late->due <= late->due)
		at = &f->last_late->next;
	while (*at && (*at)->due <= late->due)
		at = &(*at)->next;
	late->next = *at;
	*at = late;
	if (!late->next)
		f->last_late = late;
	f->num_late++;
}

static void drop_first_late(struct fabric *f)
{
	struct late_packet *late = f->late;

	f->late = late->next;
	f->num_late--;
	free(late);
}

/* A clock of milliseconds may be one behind: so none arrives too early. */
static void delay_arrival(struct fabric *f, const struct packet *p)
{
	struct late_packet *late = f->num_late < MAX_LATE ? malloc(sizeof(*late)) : NULL;

	if (!late) /* lost, as in a full buffer */
		return;
	late->due = (f->clock ? f->clock() : f->mads.now) + (p->delay + 999999) / 1000000 + 1;
	late->packet = *p;
	add_late(f, late);
	if (f->late == late)
		timer_start(&f->mads.timers, &f->arrival, late->due, arrive_late);
}

/* One packet, and the answer to it, and so on. */
static void carry(struct fabric *f, struct packet *p)
{
	bool more = true;

	while (more) {
		struct fabric_port *to;

		p->delay = 0;
		to = p->mad[MAD_CLASS] == CLASS_SUBN_DR
			     ? walk_directed(f, p)
			     : walk_lid(f, p, port_at(f, p->port), false);
		if (!to || p->mad[MAD_BASE_VERSION] != 1)
			return;
		p->port = index_of(f, to);
		if (p->delay) {
			delay_arrival(f, p);
			return;
		}
		more = arrive(f, p);
	}
}

static void arrive_late(struct timer *timer, void *arg)
{
	struct fabric *f = arg;

	while (f->late && f->late->due <= f->mads.now) {
		struct packet p = f->late->packet;

		drop_first_late(f);
		if (arrive(f, &p))
			carry(f, &p);
	}
	if (f->late)
		timer_start(&f->mads.timers, &f->arrival, f->late->due, arrive_late);
}

void fabric_forget_late(struct fabric *f)
{
	timer_stop(&f->mads.timers, &f->arrival);
	while (f->late)
		drop_first_late(f);
}

void fabric_run(struct fabric *f)
{
	while (f->head != f->tail) {
		struct packet p = f->queue[f->head++ & f->queue_mask];

		carry(f, &p);
	}
	if (f->members_over)
		member_reap(f);
}
