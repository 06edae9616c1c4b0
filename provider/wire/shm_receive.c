/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Packets out of the rings of neighbours, and the reading of what they refer to. A process of the
 * same user writes the records of a ring. The receiver checks each as it checks a packet from the
 * network: a neighbour that writes corrupt or arbitrary records can do no more harm than a host
 * that sends such packets over UDP. A neighbour can also write to the ring while it is read, so the
 * receiver first copies what decides anything, and checks and uses the copy. Under the engine lock.
 */
#include <errno.h>
#include <string.h>

#include "wire/shm.h"

/* To QP 1: BTH, DETH and a MAD. MADs are read field by field later. */
#define GSI_MAX	 (sizeof(struct urxe_bth) + sizeof(struct urxe_deth) + 256)
#define REFS_MAX (sizeof(struct urxe_ring_refs) + URXE_MAX_REFS * 16 + URXE_MAX_HEADER)

/*
 * Of large payloads a turn takes so much at most of one ring, and the packet that exceeds it. The
 * program is to have them, and the neighbour their acknowledgement, before there are more: the
 * neighbour's next ones are then published while these are copied.
 */
#define TURN_BYTES (256u << 10)

static_assert(sizeof(((struct urxe_ring_refs *)0)->piece[0]) == 16, "as in REFS_MAX");

static uint32_t qpn_of(const uint8_t *head)
{
	return urxe_bth_qpn((const struct urxe_bth *)head);
}

/* QP 1 is everybody's. */
static bool is_ours(const struct urxe_wire *wire, const struct urxe_path *path, uint32_t qpn)
{
	return urxe_owner_of(wire->seg, qpn) == wire->slot || qpn == URXE_QPN_GSI ||
	       (path->multicast && qpn == URXE_QPN_MULTICAST);
}

/* A packet whose headers are at head, in memory of our own. from: what
 * it refers to, if anything. */
static void deliver(struct urxe_wire *wire, struct urxe_arrival *from, const uint8_t *head,
		    const uint8_t *bytes, uint32_t len, uint16_t span)
{
	uint64_t *counters = urxe_wire_counters(wire, &from->pkt.path);

	if (len < sizeof(struct urxe_bth) || len % 4 || !span ||
	    !is_ours(wire, &from->pkt.path, qpn_of(head))) {
		counters[URXE_CNT_RCVD_BAD]++;
		return;
	}
	counters[URXE_CNT_RCVD_PKTS] += span;
	counters[URXE_CNT_RCVD_BYTES] += len + from->pkt.refs_len + URXE_ICRC_LEN;
	from->inlet->bytes += len + from->pkt.refs_len;
	from->pkt.bth = head;
	from->pkt.bytes = bytes;
	from->pkt.len = len;
	from->pkt.span = span;
	wire->fn(&from->pkt, wire->arg);
}

/* The payload of a packet in a cell is read where it lies: not in the copy, whose stores a load
 * across two of them would have to wait for. */
static const uint8_t *payload_of(const uint8_t *head, const uint8_t *bytes)
{
	return qpn_of(head) == URXE_QPN_GSI ? head : bytes;
}

static void deliver_packet(struct urxe_wire *wire, struct urxe_arrival *from,
			   const struct urxe_record *rec)
{
	_Alignas(8) uint8_t head[GSI_MAX];
	const uint8_t *bytes = head;

	if (rec->len <= URXE_RING_INLINE) {
		urxe_ring_copy(head, rec->bytes, URXE_RING_INLINE);
		bytes = payload_of(head, rec->bytes);
	} else {
		urxe_ring_copy(head, rec->bytes, URXE_MAX_HEADER);
		if (qpn_of(head) == URXE_QPN_GSI && rec->len <= sizeof(head))
			urxe_ring_copy(head, rec->bytes, rec->len);
		else
			bytes = rec->bytes;
	}
	deliver(wire, from, head, bytes, rec->len, rec->span);
}

/* Fills in what a packet refers to; its headers follow the pieces. said: a record of ours. */
static bool read_refs(const struct urxe_ring_refs *said, uint32_t len, struct urxe_refs *refs)
{
	uint64_t total = 0, head = sizeof(*said);

	if (len < head || said->n > URXE_MAX_REFS)
		return false;
	head += said->n * sizeof(said->piece[0]);
	if (len < head || len - head != said->header_len)
		return false;
	for (unsigned k = 0; k < said->n; k++) {
		refs->piece[k] =
			(struct iovec){(void *)(uintptr_t)said->piece[k].addr, said->piece[k].len};
		total += said->piece[k].len & UINT32_MAX;
	}
	if (said->payload_len > URXE_MAX_REFERRED || total != said->payload_len)
		return false;
	refs->epoch = said->epoch;
	refs->n = said->n;
	return true;
}

static void deliver_refs(struct urxe_wire *wire, struct urxe_arrival *from,
			 const struct urxe_record *rec)
{
	_Alignas(8) uint8_t own[REFS_MAX];
	const struct urxe_ring_refs *said = (const struct urxe_ring_refs *)own;
	struct urxe_refs refs = {
		.ring = from->inlet->in.ring, .slot = from->inlet->slot, .life = from->inlet->life};
	uint32_t len = rec->len <= sizeof(own) ? rec->len : 0, header_len = 0;
	const uint8_t *head = own;

	urxe_ring_copy(own, rec->bytes, len);
	if (read_refs(said, len, &refs)) {
		head = (const uint8_t *)&said->piece[said->n];
		header_len = said->header_len;
		from->pkt.refs = &refs;
		from->pkt.refs_len = said->payload_len;
	}
	deliver(wire, from, head, head, header_len, rec->span);
	from->pkt.refs = NULL;
	from->pkt.refs_len = 0;
}

static void set_flow(struct urxe_wire *wire, struct urxe_inlet *inlet,
		     const struct urxe_record *rec)
{
	struct urxe_arrival *from = &inlet->flows[rec->flow % URXE_FLOWS];
	struct urxe_path path;

	if (rec->len < sizeof(path))
		return;
	urxe_ring_copy(&path, rec->bytes, sizeof(path));
	if (path.link >= URXE_NUM_LINKS)
		return;
	urxe_link_of(&path)->arrive(wire, &path);
	*from = (struct urxe_arrival){.pkt = {.path = path}, .inlet = inlet};
	/* To an address of another host: nothing is there. */
	inlet->known[rec->flow % URXE_FLOWS] =
		urxe_link_of(&path)->has_other_ways || path.multicast || path.port != URXE_NO_PORT;
}

static bool is_faulty(struct urxe_wire *wire, const struct urxe_arrival *from)
{
	return urxe_fault_active(&urxe_wire_port(wire, &from->pkt.path)->fault, URXE_FAULT_IN);
}

static void receive_pair(struct urxe_wire *wire, struct urxe_arrival *from,
			 const struct urxe_record *pair)
{
	_Alignas(8) uint8_t both[URXE_RING_INLINE];
	const uint8_t *bytes = pair->bytes;
	uint32_t lens[2] = {pair->span, pair->len - pair->span};
	struct urxe_record one = {.kind = URXE_RECORD_PACKET, .span = 1, .bytes = both};

	if (pair->len > sizeof(both) || lens[0] > pair->len || lens[0] % 4 ||
	    lens[0] < sizeof(struct urxe_bth) || lens[1] < sizeof(struct urxe_bth))
		return;
	urxe_ring_copy(both, pair->bytes, sizeof(both));
	for (unsigned i = 0; i < 2; i++) {
		one.len = lens[i];
		if (is_faulty(wire, from))
			urxe_fault_in(wire, from, &one);
		else
			deliver(wire, from, one.bytes, payload_of(one.bytes, bytes), one.len, 1);
		one.bytes = both + lens[0];
		bytes += lens[0];
	}
}

static void receive_one(struct urxe_wire *wire, struct urxe_inlet *inlet,
			const struct urxe_record *rec)
{
	struct urxe_arrival *from = &inlet->flows[rec->flow % URXE_FLOWS];

	if (rec->kind == URXE_RECORD_FLOW)
		set_flow(wire, inlet, rec);
	else if (!inlet->known[rec->flow % URXE_FLOWS])
		return;
	else if (rec->kind == URXE_RECORD_PAIR)
		receive_pair(wire, from, rec);
	else if (is_faulty(wire, from))
		urxe_fault_in(wire, from, rec);
	else if (rec->kind == URXE_RECORD_REFS)
		deliver_refs(wire, from, rec);
	else
		deliver_packet(wire, from, rec);
}

void urxe_shm_receive_raw(struct urxe_wire *wire, struct urxe_arrival *from,
			  const struct urxe_record *rec)
{
	if (rec->kind == URXE_RECORD_REFS)
		deliver_refs(wire, from, rec);
	else
		deliver(wire, from, rec->bytes, rec->bytes, rec->len, rec->span);
}

/* A neighbour that sends packets gets some: an answer, or at least an acknowledgement. */
static void expect_answer(const struct urxe_wire *wire, const struct urxe_inlet *inlet)
{
	const struct urxe_link *link = wire->shm->links[inlet->slot];

	if (link && link->up)
		urxe_ring_expect(&link->out);
}

/* At most so many packets, and none after so many bytes. */
static unsigned receive(struct urxe_wire *wire, struct urxe_inlet *inlet, unsigned budget,
			uint32_t bytes)
{
	struct urxe_record rec;
	unsigned n = 0;

	expect_answer(wire, inlet);
	inlet->bytes = 0;
	while (n < budget && inlet->bytes < bytes && urxe_ring_next(&inlet->in, &rec)) {
		receive_one(wire, inlet, &rec);
		urxe_ring_take(&inlet->in);
		n++;
	}
	urxe_ring_report(&inlet->in);
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
			packets += receive(wire, inlet, budget, TURN_BYTES);
	}
	return packets;
}

void urxe_shm_drain(struct urxe_wire *wire, struct urxe_inlet *inlet)
{
	if (wire->fn)
		receive(wire, inlet, URXE_RING_CELLS, UINT32_MAX);
}

/* ---- what packets refer to ---- */

/* The pieces of [offset, offset + len). */
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
		to[n++] = (struct iovec){(void *)((uintptr_t)refs->piece[k].iov_base + offset),
					 piece};
		len -= piece;
		offset = 0;
	}
	return n;
}

unsigned urxe_wire_refs_slot(const struct urxe_refs *refs, uint32_t *life)
{
	*life = refs->life;
	return refs->slot;
}

/* With the cookie behind the payload: a process without it only has the process id of the
 * sender. */
static bool pull_with_cookie(const struct urxe_refs *refs, struct iovec *from, unsigned pieces,
			     const struct iovec *iov, unsigned n, uint32_t len)
{
	struct iovec to[URXE_MAX_REFS + 2];
	uint64_t cookie = 0;

	from[pieces++] = (struct iovec){(void *)(uintptr_t)refs->ring->cookie_at, sizeof(cookie)};
	memcpy(to, iov, n * sizeof(*iov));
	to[n++] = (struct iovec){&cookie, sizeof(cookie)};
	return process_vm_readv(refs->ring->pid, to, n, from, pieces, 0) ==
		       (ssize_t)(len + sizeof(cookie)) &&
	       cookie == refs->ring->cookie;
}

/* The sender raises the epoch before it changes the memory ahead of the end of the WR. */
int urxe_wire_pull(const struct urxe_refs *refs, uint32_t offset, const struct iovec *iov,
		   unsigned n, uint32_t len, int pid)
{
	struct iovec from[URXE_MAX_REFS + 1];
	unsigned pieces = slice(refs, offset, len, from);
	bool whole;

	if (n > URXE_MAX_REFS + 1)
		return -EINVAL;
	if (pid)
		whole = process_vm_readv(pid, iov, n, from, pieces, 0) == (ssize_t)len;
	else
		whole = pull_with_cookie(refs, from, pieces, iov, n, len);
	atomic_thread_fence(memory_order_acquire);
	if (!whole || atomic_load(&refs->ring->epoch) != refs->epoch)
		return -ESTALE;
	return 0;
}
