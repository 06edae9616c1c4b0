/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Packets out of the rings of neighbours, and the reading of what they refer to. What lies in a ring
 * was written by a process of the same user; it is checked as a packet from the network is, so that a
 * neighbour gone wild does no more harm than one could do there. Under the engine's lock.
 */
#include <errno.h>
#include <string.h>

#include "wire/shm.h"

/* Fills in what a packet refers to; the headers begin at the returned place, of *len bytes. */
static const uint8_t *read_refs(const struct urxe_inlet *inlet, const struct urxe_record *rec,
				struct urxe_refs *refs, uint32_t *payload_len, uint32_t *len)
{
	const struct urxe_ring_refs *said = rec->bytes;
	uint64_t total = 0, head = sizeof(*said);

	if (rec->len < head || said->n > URXE_MAX_REFS)
		return NULL;
	head += said->n * sizeof(said->piece[0]);
	if (rec->len < head || rec->len - head != said->header_len)
		return NULL;
	for (unsigned k = 0; k < said->n; k++) {
		refs->piece[k] =
			(struct iovec){(void *)(uintptr_t)said->piece[k].addr, said->piece[k].len};
		total += said->piece[k].len & UINT32_MAX;
	}
	if (said->payload_len > URXE_MAX_REFERRED || total != said->payload_len)
		return NULL;
	refs->ring = inlet->in.ring;
	refs->epoch = said->epoch;
	refs->n = said->n;
	*payload_len = said->payload_len;
	*len = said->header_len;
	return (const uint8_t *)&said->piece[said->n];
}

/* QP 1 is everybody's. */
static bool is_ours(const struct urxe_wire *wire, const struct urxe_bth *bth)
{
	uint32_t qpn = urxe_bth_qpn(bth);

	return URXE_SLOT_OF_QPN(qpn) == wire->slot || qpn == URXE_QPN_GSI;
}

static void deliver(struct urxe_wire *wire, const struct urxe_inlet *inlet,
		    struct urxe_arrival *from, const struct urxe_record *rec)
{
	uint64_t *counters = urxe_wire_counters(wire, from->pkt.dev);
	const uint8_t *bytes = rec->bytes;
	uint32_t len = rec->len, refs_len = 0;
	struct urxe_refs refs;

	from->pkt.refs = NULL;
	from->pkt.refs_len = 0;
	from->pkt.span = rec->span;
	if (rec->kind == URXE_RECORD_REFS) {
		bytes = read_refs(inlet, rec, &refs, &refs_len, &len);
		from->pkt.refs = &refs;
		from->pkt.refs_len = refs_len;
	}
	if (!bytes || len < sizeof(struct urxe_bth) || len % 4 || !rec->span ||
	    !is_ours(wire, (const struct urxe_bth *)bytes)) {
		counters[URXE_CNT_RCVD_BAD]++;
		return;
	}
	counters[URXE_CNT_RCVD_PKTS] += rec->span;
	counters[URXE_CNT_RCVD_BYTES] += len + refs_len + URXE_ICRC_LEN;
	from->pkt.bth = bytes;
	from->pkt.len = len;
	wire->fn(&from->pkt, wire->arg);
	from->pkt.refs = NULL;
}

static void set_flow(struct urxe_wire *wire, struct urxe_inlet *inlet,
		     const struct urxe_record *rec)
{
	const struct urxe_ring_flow *flow = rec->bytes;
	struct urxe_arrival *from = &inlet->flows[rec->flow % URXE_FLOWS];

	if (rec->len < sizeof(*flow))
		return;
	memset(from, 0, sizeof(*from));
	from->flow.saddr = flow->sgid;
	from->flow.daddr = flow->dgid;
	from->flow.ipv6 = !urxe_is_ipv4(&flow->sgid);
	from->ifindex = flow->ifindex;
	from->pkt.traffic_class = flow->traffic_class;
	from->pkt.hop_limit = flow->hop_limit;
	from->inlet = inlet;
	urxe_arrival_finish(wire, from);
	inlet->known[rec->flow % URXE_FLOWS] = true;
}

static void receive_one(struct urxe_wire *wire, struct urxe_inlet *inlet,
			const struct urxe_record *rec);

static void receive_pair(struct urxe_wire *wire, struct urxe_inlet *inlet,
			 const struct urxe_record *pair)
{
	uint32_t first = pair->span;
	struct urxe_record one = {.kind = URXE_RECORD_PACKET, .flow = pair->flow, .span = 1};

	if (pair->len > URXE_RING_INLINE || first >= pair->len || !first)
		return;
	one.bytes = pair->bytes;
	one.len = first;
	receive_one(wire, inlet, &one);
	one.bytes = (uint8_t *)pair->bytes + first;
	one.len = pair->len - first;
	receive_one(wire, inlet, &one);
}

static void receive_one(struct urxe_wire *wire, struct urxe_inlet *inlet,
			const struct urxe_record *rec)
{
	struct urxe_arrival *from = &inlet->flows[rec->flow % URXE_FLOWS];

	if (rec->kind == URXE_RECORD_PAIR) {
		receive_pair(wire, inlet, rec);
		return;
	}
	if (rec->kind == URXE_RECORD_FLOW) {
		set_flow(wire, inlet, rec);
		return;
	}
	if (!inlet->known[rec->flow % URXE_FLOWS])
		return;
	if (urxe_fault_active(&urxe_wire_dev(wire, from->pkt.dev)->fault, URXE_FAULT_IN))
		urxe_hold_in_record(wire, from, rec);
	else
		deliver(wire, inlet, from, rec);
}

void urxe_shm_receive_raw(struct urxe_wire *wire, struct urxe_arrival *from,
			  const struct urxe_record *rec)
{
	deliver(wire, from->inlet, from, rec);
}

static unsigned receive(struct urxe_wire *wire, struct urxe_inlet *inlet, unsigned budget)
{
	struct urxe_record rec;
	unsigned n = 0;

	while (n < budget && urxe_ring_next(&inlet->in, &rec)) {
		receive_one(wire, inlet, &rec);
		urxe_ring_take(&inlet->in);
		n++;
	}
	urxe_ring_tell(&inlet->in);
	return n;
}

int urxe_shm_receive(struct urxe_wire *wire, unsigned budget)
{
	struct urxe_shm *shm = wire->shm;
	struct urxe_window *window = shm->window;
	unsigned n, packets = 0;

	if (!window)
		return 0;
	if (atomic_load_explicit(&window->opens, memory_order_relaxed) != shm->opens)
		urxe_shm_look(wire);
	n = atomic_load_explicit(&shm->num_inlets, memory_order_relaxed);
	for (unsigned i = 0; i < n; i++) {
		struct urxe_inlet *inlet =
			atomic_load_explicit(&shm->inlets[i], memory_order_relaxed);

		if (inlet->life && urxe_ring_waits(&inlet->in))
			packets += receive(wire, inlet, budget);
	}
	return packets;
}

void urxe_shm_drain(struct urxe_wire *wire, struct urxe_inlet *inlet)
{
	if (wire->fn)
		receive(wire, inlet, URXE_RING_CELLS);
}

/* ---- what packets refer to ---- */

/* The pieces of [offset, offset + len), and behind them the producer's cookie. */
static unsigned slice(const struct urxe_refs *refs, uint32_t offset, uint32_t len, struct iovec *to)
{
	unsigned n = 0;

	for (unsigned k = 0; k < refs->n && len; k++) {
		uint32_t size = refs->piece[k].iov_len, piece;

		if (offset >= size) {
			offset -= size;
			continue;
		}
		piece = size - offset < len ? size - offset : len;
		to[n++] = (struct iovec){(uint8_t *)refs->piece[k].iov_base + offset, piece};
		len -= piece;
		offset = 0;
	}
	return n;
}

/*
 * The cookie is read with the payload: a process that has another one, or none, has only the number of
 * the one that sent. The epoch is asked afterwards: whoever changes the memory before the end of the
 * WR first raises it.
 */
int urxe_wire_pull(const struct urxe_refs *refs, uint32_t offset, const struct iovec *iov,
		   unsigned n, uint32_t len)
{
	struct iovec from[URXE_MAX_REFS + 1], to[URXE_MAX_REFS + 2];
	uint64_t cookie = 0;
	unsigned pieces = slice(refs, offset, len, from);
	ssize_t got;

	if (n > URXE_MAX_REFS + 1)
		return -EINVAL;
	from[pieces++] = (struct iovec){(void *)(uintptr_t)refs->ring->cookie_at, sizeof(cookie)};
	memcpy(to, iov, n * sizeof(*iov));
	to[n++] = (struct iovec){&cookie, sizeof(cookie)};
	got = process_vm_readv(refs->ring->pid, to, n, from, pieces, 0);
	atomic_thread_fence(memory_order_acquire);
	if (got != (ssize_t)(len + sizeof(cookie)) || cookie != refs->ring->cookie ||
	    atomic_load(&refs->ring->epoch) != refs->epoch)
		return -ESTALE;
	return 0;
}
