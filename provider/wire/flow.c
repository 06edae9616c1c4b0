/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Unreliable datagrams and connections between processes of one host. Nobody acknowledges what UC
 * and UD send, so nothing would keep a sender from filling the receiver's socket within one long
 * message, and on one host the network has nothing to lose packets with: programs (perftest among
 * them) rely on that. So the senders count in the receiver's slot of the host segment what they
 * send it, and the receiver what it has taken; a sender that is too far ahead waits as if its own
 * socket were full. A receiver that takes nothing for PATIENCE (it is stopped, say) is not waited
 * for. What goes to other hosts is not counted. Guarded by the wire's lock.
 */
#include "wire/private.h"

#define MOST	    (160u << 10) /* bytes: a default receive buffer holds more than twice that */
#define BOOKKEEPING 768		 /* bytes that the kernel charges a small packet with */
#define PATIENCE    500000000	 /* ns */

static bool is_counted(const struct urxe_wire *wire, const struct urxe_bth *bth)
{
	unsigned service = bth->opcode & URXE_SERVICE_MASK;

	return (service == URXE_SERVICE_UC || service == URXE_SERVICE_UD) &&
	       urxe_packet_owner(wire, bth);
}

/* Of one path: all packets or none. */
static bool stays_here(struct urxe_wire *wire, const struct urxe_path *path,
		       const struct urxe_tx_packet *pkts)
{
	return is_counted(wire, (const struct urxe_bth *)pkts[0].header) && !path->multicast &&
	       urxe_wire_port_at(wire, path) != URXE_NO_PORT;
}

static uint64_t cost_of(const struct urxe_tx_packet *pkt)
{
	return pkt->header_len + ((pkt->payload_len + 3) & ~3u) + BOOKKEEPING;
}

static bool is_behind(struct urxe_wire *wire, unsigned slot, const struct urxe_unacked *flow)
{
	uint64_t taken = atomic_load_explicit(&flow->taken, memory_order_relaxed);
	int64_t ahead = atomic_load_explicit(&flow->sent, memory_order_relaxed) - taken;
	struct urxe_stall *stall = &wire->stalls[slot];
	uint64_t now;

	if (ahead <= MOST)
		return false;
	now = urxe_now();
	if (!stall->since || stall->taken != taken)
		*stall = (struct urxe_stall){.since = now, .taken = taken};
	return now - stall->since < PATIENCE;
}

unsigned urxe_flow_admit(struct urxe_wire *wire, const struct urxe_path *path,
			 const struct urxe_tx_packet *pkts, unsigned n)
{
	unsigned k;

	if (!stays_here(wire, path, pkts))
		return n;
	for (k = 0; k < n; k++) {
		unsigned slot = urxe_packet_owner(wire, pkts[k].header);
		struct urxe_unacked *flow = urxe_segment_unacked(wire->seg, slot);

		if (flow && is_behind(wire, slot, flow))
			break;
		if (flow)
			atomic_fetch_add_explicit(&flow->sent, cost_of(&pkts[k]),
						  memory_order_relaxed);
	}
	return k;
}

void urxe_flow_unsent(struct urxe_wire *wire, const struct urxe_path *path,
		      const struct urxe_tx_packet *pkts, unsigned n)
{
	if (!n || !stays_here(wire, path, pkts))
		return;
	for (unsigned k = 0; k < n; k++) {
		struct urxe_unacked *flow =
			urxe_segment_unacked(wire->seg, urxe_packet_owner(wire, pkts[k].header));

		if (flow)
			atomic_fetch_sub_explicit(&flow->sent, cost_of(&pkts[k]),
						  memory_order_relaxed);
	}
}

static struct urxe_unacked *own_flow(struct urxe_wire *wire)
{
	return urxe_segment_unacked(wire->seg, wire->slot);
}

void urxe_flow_took(struct urxe_wire *wire, const void *packet, uint32_t len)
{
	struct urxe_unacked *flow = is_counted(wire, packet) ? own_flow(wire) : NULL;

	/* Those of other hosts as well: it matters only until the sockets are empty next. */
	if (flow)
		atomic_fetch_add_explicit(&flow->taken, len - URXE_ICRC_LEN + BOOKKEEPING,
					  memory_order_relaxed);
}

uint64_t urxe_flow_sent(struct urxe_wire *wire)
{
	struct urxe_unacked *flow = own_flow(wire);

	return flow ? atomic_load(&flow->sent) : 0;
}

void urxe_flow_empty(struct urxe_wire *wire, uint64_t sent)
{
	struct urxe_unacked *flow = own_flow(wire);

	if (flow && atomic_load_explicit(&flow->taken, memory_order_relaxed) != sent)
		atomic_store_explicit(&flow->taken, sent, memory_order_relaxed);
}
