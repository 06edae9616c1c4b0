// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Cables and the states of the ports at their ends (7.2.7, 14.2.5.6). A link is trained, and its
 * ports are in state Init, as soon as both ends look for each other: both are in state Polling,
 * neither was disabled by a subnet manager nor by the operator, nor is one of them a virtual
 * function without a GUID, and they have a width in common. It is Down otherwise. Training finds
 * the largest width and the highest speed that both ends have enabled and the cable has. A
 * fabric begins with what its description says of each end, for in those of real fabrics the two
 * differ now and then. Whatever changes there is told to the subnet manager by the switch that
 * sees it. fabricd's thread.
 */
#include "fabric/fabric.h"
#include "fabric/route.h"

static bool wants_link(const struct fabric_port *port)
{
	uint8_t phys = hi4(port->info[PI_PHYS]);

	return port->num && port->guid && !port->disabled &&
	       (phys == PHYS_POLLING || phys == PHYS_LINK_UP);
}

/* A switch notes it in its PortStateChange and tells the subnet manager; a host's programs get an
 * event. */
static void state_changed(struct fabric *f, struct fabric_port *port)
{
	struct fabric_node *n = node_of(f, port);

	if (n->type == NODE_SWITCH && port->num) {
		n->switch_info[11] |= 4;
		trap_link_state(f, n);
	}
	host_port_changed(f, port, false);
}

void link_set_state(struct fabric *f, struct fabric_port *port, uint8_t state)
{
	uint8_t old = fabric_port_state(port);

	if (old == state)
		return;
	map_begin(f);
	put_lo4(port->info + PI_SPEED_STATE, state);
	map_end(f);
	/* Between Init, Armed and Active it is the subnet manager that changes it. */
	if (state == PORT_DOWN || old == PORT_DOWN)
		state_changed(f, port);
	else
		host_port_changed(f, port, false);
}

void link_takes_data(struct fabric *f, struct fabric_port *port)
{
	if (fabric_port_state(port) == PORT_ARMED)
		link_set_state(f, port, PORT_ACTIVE);
}

static void go_down(struct fabric *f, struct fabric_port *port)
{
	if (hi4(port->info[PI_PHYS]) == PHYS_LINK_UP) {
		count_of(f, port)->link_downed++;
		put_hi4(port->info + PI_PHYS,
			port->disabled ? PHYS_POLLING : lo4(port->info[PI_PHYS]));
	}
	link_set_state(f, port, PORT_DOWN);
}

/* ---- training ---- */

/* Bits of LinkWidthEnabled, the widest first. */
static const uint8_t widths[] = {8, 4, 2, 16, 1};

static unsigned rank_of(uint8_t width)
{
	unsigned i = 0;

	while (i < sizeof(widths) - 1 && widths[i] != width)
		i++;
	return i;
}

/* The most lanes that both ends have enabled and the cable has; 0: there are none in common. */
static uint8_t common_width(const struct fabric_port *a, const struct fabric_port *b)
{
	uint8_t enabled = a->info[PI_WIDTH_ENABLED] & b->info[PI_WIDTH_ENABLED];
	unsigned i = rank_of(a->width), other = rank_of(b->width);

	for (i = i > other ? i : other; i < sizeof(widths); i++)
		if (enabled & widths[i])
			return widths[i];
	return 0;
}

static uint8_t highest_bit(uint8_t bits)
{
	return bits ? 1u << (31 - __builtin_clz(bits)) : 0;
}

/* What LinkSpeedExtEnabled allows; 30 is the code of "none" (14.2.5.6). */
static uint8_t extended_enabled(const struct fabric_port *port)
{
	return port->info[PI_EXT_ENABLED] == EXT_SPEEDS_DISABLED ? 0 : port->info[PI_EXT_ENABLED];
}

/* What LinkSpeedEnabled allows and the cable can do. */
static uint8_t basic_enabled(const struct fabric_port *port)
{
	uint8_t cable = port->speed < FABRIC_SPEED_QDR ? (2u << port->speed) - 1 : 7;

	return lo4(port->info[PI_SPEED]) & cable;
}

/* The highest speeds that both ends have enabled; links begin to train at 2.5 Gb/s a lane. An end
 * supports no extended speed that its cable has not. */
static void set_speed(struct fabric_port *port, const struct fabric_port *peer)
{
	uint8_t both = basic_enabled(port) & basic_enabled(peer);
	uint8_t extended = highest_bit(extended_enabled(port) & extended_enabled(peer));
	bool fdr10 = port->fdr10 & peer->fdr10 & FABRIC_FDR10_ENABLED && both & 4 && !extended;

	port->fdr10 = (port->fdr10 & FABRIC_FDR10_ENABLED) | (fdr10 ? FABRIC_FDR10_ACTIVE : 0);
	put_hi4(port->info + PI_SPEED, extended ? 4 : both ? highest_bit(both) : 1);
	put_hi4(port->info + PI_EXT_SPEED, extended);
}

static void go_up(struct fabric *f, struct fabric_port *port, const struct fabric_port *peer,
		  bool train)
{
	if (hi4(port->info[PI_PHYS]) == PHYS_LINK_UP)
		return;
	map_begin(f);
	if (train) {
		port->info[PI_WIDTH_ACTIVE] = common_width(port, peer);
		set_speed(port, peer);
	}
	put_hi4(port->info + PI_PHYS, PHYS_LINK_UP);
	map_end(f);
	link_set_state(f, port, PORT_INIT);
}

static void update(struct fabric *f, struct fabric_port *port, bool train)
{
	struct fabric_port *peer;

	if (!port->num)
		return;
	if (port->peer == FABRIC_NONE) {
		go_down(f, port);
		return;
	}
	peer = port_at(f, port->peer);
	if (wants_link(port) && wants_link(peer) && common_width(port, peer)) {
		go_up(f, port, peer, train);
		go_up(f, peer, port, train);
	} else {
		go_down(f, port);
		go_down(f, peer);
	}
}

void link_begin(struct fabric *f, struct fabric_port *port)
{
	update(f, port, false);
}

void link_update(struct fabric *f, struct fabric_port *port)
{
	update(f, port, true);
}

void link_retrain(struct fabric *f, struct fabric_port *port)
{
	uint8_t phys = hi4(port->info[PI_PHYS]);

	if (port->peer == FABRIC_NONE)
		return;
	go_down(f, port_at(f, port->peer));
	put_hi4(port->info + PI_PHYS, PHYS_LINK_UP);
	go_down(f, port);
	put_hi4(port->info + PI_PHYS, phys);
	link_update(f, port);
}

void link_set(struct fabric *f, struct fabric_port *port, bool up)
{
	port->disabled = !up;
	link_update(f, port);
}

void link_set_faults(struct fabric *f, struct fabric_port *port, double loss, double corruption,
		     uint64_t delay)
{
	map_begin(f);
	port->loss = loss >= 1 ? UINT32_MAX : loss * 4294967296.0;
	port->corruption = corruption >= 1 ? UINT32_MAX : corruption * 4294967296.0;
	port->delay = delay;
	map_end(f);
	f->ports[index_of(f, port)].packets = 0;
}

void link_damaged(struct fabric *f, struct fabric_port *port)
{
	uint8_t *bad = &f->ports[index_of(f, port)].bad_packets;

	/* LocalPhyErrors: beyond it the link is trained again, which succeeds at once (7.12.2). */
	if (++*bad <= hi4(port->info[PI_ERRORS]))
		return;
	*bad = 0;
	count_of(f, port)->integrity++;
	count_of(f, port)->link_recovered++;
	trap_link_integrity(f, port);
}

bool link_loses(struct fabric *f, struct fabric_port *port, const struct packet *p)
{
	struct port_private *mine = &f->ports[index_of(f, port)];
	uint64_t flow = (uint64_t)p->slid << 48 | (uint64_t)p->dlid << 32 | p->dst_qp;
	struct counters *c;

	if (!(port->loss | port->corruption))
		return false;
	switch (fabric_link_fault(f->map, index_of(f, port), flow, mine->packets++)) {
	case FABRIC_LOST_DISCARD: count_of(f, port)->xmit_discards++; return true;
	case FABRIC_LOST_CORRUPTED:
		c = count_of(f, port_at(f, port->peer));
		c->symbol_errors++;
		c->rcv_errors++;
		link_damaged(f, port_at(f, port->peer));
		return true;
	default: return false;
	}
}

void link_node_set(struct fabric *f, struct fabric_node *node, bool up)
{
	for (int i = 1; i <= node->num_ports; i++)
		link_set(f, fabric_node_port(f->map, node, i), up);
	if (!up) {
		trap_forget(f, node);
		fabric_node_reset(f, node);
	}
}
