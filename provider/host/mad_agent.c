// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Registrations of management agents as rows of the host segment: the port is class and version,
 * the peer's address the methods, the address the OUI, the scope the interface. See mad_agent.h.
 */
#include <errno.h>
#include <string.h>

#include "fabric/mad.h"
#include "host/mad_agent.h"
#include "host/segment_ports.h"

_Static_assert(sizeof(struct in6_addr) == 2 * sizeof(uint64_t), "an address holds the methods");

static struct urxe_binding row_of(const struct urxe_mad_agent *agent)
{
	struct urxe_binding b = {
		.ps = URXE_PS_MAD,
		.port = agent->mgmt_class << 8 | agent->class_version,
		.scope = agent->ifindex,
	};

	b.addr.s6_addr32[0] = agent->oui;
	memcpy(&b.peer, agent->methods, sizeof(b.peer));
	return b;
}

/* Are they for the same class, with methods in common? */
static bool overlap(const struct urxe_binding *a, const struct urxe_binding *b)
{
	uint32_t common = 0;

	for (unsigned i = 0; i < 4; i++)
		common |= a->peer.s6_addr32[i] & b->peer.s6_addr32[i];
	return common && a->scope == b->scope && a->addr.s6_addr32[0] == b->addr.s6_addr32[0];
}

static int conflicts(const struct urxe_binding *other, enum urxe_port_state state, void *arg)
{
	return overlap(arg, other) ? -EINVAL : 0;
}

int urxe_mad_agent_add(struct urxe_segment *seg, const struct urxe_mad_agent *agent, uint32_t *row)
{
	struct urxe_binding b = row_of(agent);
	int ret;

	/* What a process had that has died is nobody's. */
	urxe_segment_reap(seg);
	urxe_segment_lock(seg);
	ret = urxe_segment_port_walk(seg, b.ps, b.port, 0, conflicts, &b)
		      ?: urxe_segment_port_add(seg, &b, row);
	urxe_segment_unlock(seg);
	return ret;
}

static unsigned serves(const struct urxe_binding *row, enum urxe_port_state state, const void *arg)
{
	return state == URXE_PORT_BOUND && overlap(arg, row);
}

unsigned urxe_mad_agent_owner(struct urxe_segment *seg, uint32_t ifindex, const uint8_t *mad)
{
	unsigned method = mad[MAD_METHOD] & 0x7f, slot = 0;
	struct urxe_mad_agent agent = {
		.ifindex = ifindex,
		.mgmt_class = mad[MAD_CLASS],
		.class_version = mad[MAD_CLASS_VERSION],
		.oui = class_is_vendor2(mad[MAD_CLASS]) ? get32(mad + MAD_OUI - 1) & 0xffffff : 0,
	};
	struct urxe_binding wanted;
	uint32_t id;

	if (mad_is_response(mad))
		return (get64(mad + MAD_TID) >> 32) % URXE_MAD_TID_STEP;
	agent.methods[method / 64] = 1ull << method % 64;
	wanted = row_of(&agent);
	if (urxe_segment_port_find(seg, 0, wanted.ps, wanted.port, serves, &wanted, &slot, &id))
		return slot;
	return 0;
}
