// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * PortInfo (14.2.5.6): what a subnet manager may set, and to what. A Set is checked as a whole
 * first; one field that cannot be as it asks makes it do nothing and answers "invalid field".
 * fabricd's thread.
 */
#include "fabric/fabric.h"

/* Who asks knows extended speeds; the rest of the modifier is the port. */
#define SM_EXT_SPEEDS 0x80000000u

/* The port that an attribute modifier names; NULL: none. */
static struct fabric_port *named_port(struct fabric *f, struct fabric_port *in, uint32_t modifier)
{
	struct fabric_node *n = node_of(f, in);
	uint32_t num = modifier & ~SM_EXT_SPEEDS;

	if (n->type != NODE_SWITCH && !num)
		return in;
	return num <= n->num_ports ? fabric_node_port(f->map, n, num) : NULL;
}

/* Is a change of the logical state one that a subnet manager may ask for? */
static bool state_possible(uint8_t now, uint8_t asked)
{
	switch (asked) {
	case PORT_NOP: return true;
	case PORT_DOWN: return true;
	case PORT_ARMED: return now == PORT_INIT || now == PORT_ARMED;
	case PORT_ACTIVE: return now == PORT_ARMED || now == PORT_ACTIVE;
	default: return false;
	}
}

/* Widths and speeds that are not supported are not enabled. */
static bool link_possible(const struct fabric_port *port, const uint8_t *d)
{
	uint8_t width = d[PI_WIDTH_ENABLED], speed = lo4(d[PI_SPEED]);
	uint8_t extended = d[PI_EXT_ENABLED] & 0x1f;

	if (width != 0xff && width & ~port->info[PI_WIDTH_SUPPORTED])
		return false;
	if (speed != SPEEDS_SUPPORTED && speed & ~hi4(port->info[PI_SPEED_STATE]))
		return false;
	return extended >= EXT_SPEEDS_DISABLED || !(extended & ~lo4(port->info[PI_EXT_SPEED]));
}

static bool valid(struct fabric *f, const struct fabric_port *port, bool is_end, const uint8_t *d)
{
	uint8_t state = lo4(d[PI_SPEED_STATE]), phys = hi4(d[PI_PHYS]);
	uint8_t mtu = hi4(d[PI_MTU_SMSL]), vls = hi4(d[PI_VLS_ENF]);
	uint16_t lid = get16(d + PI_LID), sm_lid = get16(d + PI_SM_LID);
	uint8_t lmc = d[PI_PROTECT_LMC] & 7;

	if (!state_possible(fabric_port_state(port), state) && port->num)
		return false;
	if (phys > PHYS_DISABLED || (phys && state > PORT_DOWN))
		return false;
	if (lo4(d[PI_PHYS]) > PHYS_POLLING)
		return false;
	if (!link_possible(port, d))
		return false;
	if (port->num && (!mtu || mtu > lo4(port->info[PI_MTU_CAP])))
		return false;
	if (vls > hi4(port->info[PI_VLCAP]))
		return false;
	if (!is_end)
		return true;
	/* A base port 0 has one LID (14.2.5.6). */
	if (!port->num && !node_of(f, port)->enhanced_port0 && lmc)
		return false;
	if (lid >= LID_FIRST_MULTICAST || lid & ((1u << lmc) - 1))
		return false;
	/* 0 is no LID: a port that has one does not lose it by a Set. */
	if ((!lid && fabric_port_lid(port)) || (!sm_lid && get16(port->info + PI_SM_LID)))
		return false;
	return sm_lid < LID_FIRST_MULTICAST || sm_lid == LID_PERMISSIVE;
}

/* Fields of the end port: an adapter's, and port 0 of a switch. */
static void set_end(struct fabric_port *port, const uint8_t *d)
{
	uint8_t *have = port->info;

	memcpy(have + PI_MKEY, d + PI_MKEY, 8);
	memcpy(have + PI_PREFIX, d + PI_PREFIX, 8);
	memcpy(have + PI_LID, d + PI_LID, 2);
	memcpy(have + PI_SM_LID, d + PI_SM_LID, 2);
	memcpy(have + PI_LEASE, d + PI_LEASE, 2);
	have[PI_PROTECT_LMC] = d[PI_PROTECT_LMC];
	put_lo4(have + PI_MTU_SMSL, lo4(d[PI_MTU_SMSL]));
	have[PI_REREG_TIMEOUT] = d[PI_REREG_TIMEOUT] & 0x7f;
	for (int at = PI_MKEY_VIOL; at <= PI_QKEY_VIOL; at += 2)
		if (!get16(d + at))
			put16(have + at, 0);
}

/* Fields of the link. */
static void set_link(struct fabric_port *port, const uint8_t *d)
{
	uint8_t *have = port->info;

	if (d[PI_WIDTH_ENABLED])
		have[PI_WIDTH_ENABLED] = d[PI_WIDTH_ENABLED] == 0xff ? have[PI_WIDTH_SUPPORTED]
								     : d[PI_WIDTH_ENABLED];
	if (lo4(d[PI_SPEED]))
		put_lo4(have + PI_SPEED, lo4(d[PI_SPEED]) == SPEEDS_SUPPORTED
						 ? hi4(have[PI_SPEED_STATE])
						 : lo4(d[PI_SPEED]));
	if (d[PI_EXT_ENABLED] & 0x1f)
		have[PI_EXT_ENABLED] = (d[PI_EXT_ENABLED] & 0x1f) == EXT_SPEEDS_SUPPORTED
					       ? lo4(have[PI_EXT_SPEED])
					       : d[PI_EXT_ENABLED] & 0x1f;
	if (lo4(d[PI_PHYS]))
		put_lo4(have + PI_PHYS, lo4(d[PI_PHYS]));
	if (hi4(d[PI_MTU_SMSL]))
		put_hi4(have + PI_MTU_SMSL, hi4(d[PI_MTU_SMSL]));
	if (hi4(d[PI_VLS_ENF]))
		put_hi4(have + PI_VLS_ENF, hi4(d[PI_VLS_ENF]));
	put_lo4(have + PI_VLS_ENF, lo4(d[PI_VLS_ENF]));
	have[PI_VL_HIGH_LIMIT] = d[PI_VL_HIGH_LIMIT];
	have[PI_STALL_HOQ] = d[PI_STALL_HOQ];
	have[PI_ERRORS] = d[PI_ERRORS];
}

static void set_states(struct fabric *f, struct fabric_port *port, const uint8_t *d)
{
	uint8_t state = lo4(d[PI_SPEED_STATE]), phys = hi4(d[PI_PHYS]);

	if (phys) {
		bool was_up = link_up(port);

		put_hi4(port->info + PI_PHYS, phys);
		if (was_up && phys == PHYS_POLLING) /* as ibportstate's reset has it */
			link_retrain(f, port);
		else
			link_update(f, port);
	} else if (state == PORT_DOWN) { /* 14.2.5.6: into the link's default state for "down" */
		put_hi4(port->info + PI_PHYS, lo4(port->info[PI_PHYS]));
		link_retrain(f, port);
	} else if (state > PORT_DOWN) {
		link_set_state(f, port, state);
	}
}

static uint16_t set_port_info(struct fabric *f, struct fabric_port *port, const uint8_t *d)
{
	bool is_end = end_port(f, port) == port;
	bool base_port0 = !port->num && !node_of(f, port)->enhanced_port0;

	if (!valid(f, port, is_end, d))
		return STATUS_BAD_FIELD;
	map_begin(f);
	if (is_end)
		set_end(port, d);
	if (port->num || !base_port0)
		set_link(port, d);
	map_end(f);
	if (port->num)
		set_states(f, port, d);
	else if (!base_port0 && lo4(d[PI_SPEED_STATE]) > PORT_DOWN)
		link_set_state(f, port, lo4(d[PI_SPEED_STATE]));
	if (is_end) {
		f->reregistered += d[PI_REREG_TIMEOUT] >> 7;
		host_port_changed(f, port, d[PI_REREG_TIMEOUT] & 0x80);
	}
	return 0;
}

uint16_t sma_port_info(struct fabric *f, struct fabric_port *in, uint8_t *mad, bool set)
{
	struct fabric_port *port = named_port(f, in, get32(mad + MAD_MOD));
	uint8_t *d = mad + SMP_DATA, rereg = set ? d[PI_REREG_TIMEOUT] & 0x80 : 0;
	uint16_t status = 0;

	if (!port)
		return STATUS_BAD_FIELD;
	if (set)
		status = set_port_info(f, port, d);
	memcpy(d, port->info, PI_LEN);
	d[PI_LOCAL_PORT] = in->num;
	d[PI_REREG_TIMEOUT] |= rereg;
	/* 14.2.4.3: without the key everything may be read but the key. */
	if (port->info[PI_PROTECT_LMC] >> 6 && get64(mad + SMP_MKEY) != get64(port->info + PI_MKEY))
		put64(d + PI_MKEY, 0);
	return status;
}
