/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Packets into the rings of neighbours. There is no ICRC: memory has checks of its own. A full ring
 * is a full socket, up to a point: a neighbour that has taken nothing for PATIENCE (it is stopped,
 * say) is not waited for, and what it has no room for is lost, so that retries count and end. Under
 * the engine's lock.
 */
#include <errno.h>
#include <string.h>

#include "host/stream.h"
#include "host/ticks.h"
#include "wire/route.h"
#include "wire/shm.h"

#define PATIENCE  500000000ull /* ns */
#define BEHIND	  10000ull     /* a neighbour that takes nothing for so long does not run */
#define KEEPS_UP  20000ull     /* one that takes something in so short a time does */
#define ASK_EVERY 5000000ull
#define LONG_COPY 2048u /* from here on memcpy() may take other instructions */
#define REFS_MOST (sizeof(struct urxe_ring_refs) + URXE_MAX_REFS * 16)
#define SEEN_FOR  1000000ull

/* Tells the neighbour what the number stands for from now on. */
static int new_flow(struct urxe_link *link, const struct urxe_path *path)
{
	unsigned id = link->num_flows % URXE_FLOWS;
	struct urxe_path *flow = urxe_ring_claim(&link->out, sizeof(*flow));

	if (!flow)
		return -EAGAIN;
	*flow = *path;
	urxe_ring_publish(&link->out, URXE_RECORD_FLOW, id, 0, sizeof(*flow));
	link->flows[id] = *path;
	link->num_flows++;
	return id;
}

static __attribute__((noinline)) int find_flow(struct urxe_link *link, const struct urxe_path *path)
{
	unsigned n = link->num_flows < URXE_FLOWS ? link->num_flows : URXE_FLOWS;
	int id;

	for (id = 0; id < (int)n; id++)
		if (urxe_same_flow(&link->flows[id], path))
			break;
	if (id == (int)n)
		id = new_flow(link, path);
	if (id >= 0)
		link->last_flow = id;
	return id;
}

/* Mostly the last packet's. */
static inline int flow_of(struct urxe_link *link, const struct urxe_path *path)
{
	if (link->num_flows && urxe_same_flow(&link->flows[link->last_flow], path))
		return link->last_flow;
	return find_flow(link, path);
}

/* ---- records ---- */

/* A process could refer to its own memory too, and crash where a neighbour gets EFAULT. */
static bool may_refer(const struct urxe_link *link)
{
	return !link->near.self &&
	       atomic_load_explicit(&link->out.ring->pulls, memory_order_relaxed);
}

static bool is_referred(const struct urxe_link *link, const struct urxe_tx_packet *pkt)
{
	return pkt->refer && pkt->payload_len > URXE_COPY_MOST && may_refer(link);
}

static uint32_t record_len(const struct urxe_tx_packet *pkt, bool refer)
{
	if (refer)
		return sizeof(struct urxe_ring_refs) +
		       pkt->iovcnt * sizeof(((struct urxe_ring_refs *)0)->piece[0]) +
		       pkt->header_len;
	return pkt->header_len + pkt->payload_len + urxe_pad_of(pkt->payload_len);
}

/*
 * Room for a record. A long payload begins on a line, as a program's mostly does. Behind 12 bytes
 * of headers, it would lie that much further into its page than what it is copied from, and there
 * Zen 4 carries out memcpy()'s `rep movsb` at a sixteenth of its speed (glibc's bug 30994).
 */
static uint8_t *claim(struct urxe_link *link, const struct urxe_tx_packet *pkt, bool refer)
{
	uint32_t len = record_len(pkt, refer);
	uint32_t skip =
		refer || pkt->payload_len < LONG_COPY ? 0 : -pkt->header_len % URXE_RING_LINE;
	uint8_t *to = urxe_ring_claim(&link->out, skip + len);

	return to && skip ? urxe_ring_skip(&link->out, skip) : to;
}

static void fill_refs(const struct urxe_link *link, uint8_t *to, const struct urxe_tx_packet *pkt)
{
	struct urxe_ring_refs *refs = (struct urxe_ring_refs *)to;

	refs->epoch = atomic_load_explicit(&link->out.ring->epoch, memory_order_relaxed);
	refs->payload_len = pkt->payload_len;
	refs->n = pkt->iovcnt;
	refs->header_len = pkt->header_len;
	for (unsigned k = 0; k < pkt->iovcnt; k++) {
		refs->piece[k].addr = (uintptr_t)pkt->iov[k].iov_base;
		refs->piece[k].len = pkt->iov[k].iov_len;
	}
	to = (uint8_t *)&refs->piece[pkt->iovcnt];
	memcpy(to, pkt->header, pkt->header_len);
	urxe_bth_set_pad((struct urxe_bth *)to, 0); /* it belongs to bytes that are not there */
}

static inline void fill_packet(uint8_t *to, const struct urxe_tx_packet *pkt, bool past_caches)
{
	memcpy(to, pkt->header, pkt->header_len);
	to += pkt->header_len;
	for (unsigned k = 0; k < pkt->iovcnt; k++) {
		if (past_caches)
			urxe_stream(to, pkt->iov[k].iov_base, pkt->iov[k].iov_len);
		else
			memcpy(to, pkt->iov[k].iov_base, pkt->iov[k].iov_len);
		to += pkt->iov[k].iov_len;
	}
	memset(to, 0, urxe_pad_of(pkt->payload_len));
	if (past_caches)
		urxe_stream_fence();
}

static void fill(struct urxe_link *link, uint8_t *to, const struct urxe_tx_packet *pkt, bool refer)
{
	if (refer)
		fill_refs(link, to, pkt);
	else
		fill_packet(to, pkt,
			    pkt->payload_len >= LONG_COPY &&
				    link->ways.way == URXE_WAY_PAST_CACHES);
}

static bool is_routed(const struct urxe_path *path)
{
	return __builtin_expect(path->link == URXE_LINK_FABRIC, 0) && !path->multicast;
}

static uint16_t span_of(const struct urxe_tx_packet *pkt)
{
	return pkt->span ? pkt->span : 1;
}

/*
 * Often a message leaves with the acknowledgement of the one that it answers: both in one cell are
 * one cache line to be moved instead of two. False when they do not fit, or there is no room.
 */
static bool lay_pair(struct urxe_link *link, int flow, const struct urxe_tx_packet *pkts)
{
	uint32_t first = record_len(&pkts[0], false), second = record_len(&pkts[1], false);
	uint8_t *to;

	if (first + second > URXE_RING_INLINE || span_of(&pkts[0]) > 1 || span_of(&pkts[1]) > 1)
		return false;
	to = urxe_ring_claim(&link->out, first + second);
	if (!to)
		return false;
	fill_packet(to, &pkts[0], false);
	fill_packet(to + first, &pkts[1], false);
	if (urxe_wire_payload_lost())
		return false;
	urxe_ring_publish(&link->out, URXE_RECORD_PAIR, flow, first, first + second);
	return true;
}

/* False: no room, or no payload. */
static bool lay(struct urxe_link *link, int flow, const struct urxe_tx_packet *pkt)
{
	bool refer = is_referred(link, pkt);
	uint8_t *to = claim(link, pkt, refer);

	if (!to)
		return false;
	fill(link, to, pkt, refer);
	if (urxe_wire_payload_lost())
		return false;
	urxe_ring_publish(&link->out, refer ? URXE_RECORD_REFS : URXE_RECORD_PACKET, flow,
			  span_of(pkt), record_len(pkt, refer));
	if (pkt->payload_len >= LONG_COPY)
		urxe_way_sent(&link->ways, pkt->payload_len, refer, link->out.head,
			      atomic_load_explicit(&link->out.ring->taken, memory_order_relaxed),
			      urxe_ticks());
	return true;
}

/* The same through a fabric, where it may be lost: then it counts as sent. */
static bool lay_routed(struct urxe_link *link, int flow, const struct urxe_path *path,
		       const struct urxe_tx_packet *pkt)
{
	return claim(link, pkt, is_referred(link, pkt)) &&
	       (!urxe_route_take(path, pkt->header, record_len(pkt, false), pkt->payload_len,
				 span_of(pkt)) ||
		lay(link, flow, pkt));
}

/* ---- full rings ---- */

/*
 * There is no room: looks since when the neighbour has taken nothing. It keeps up when it took
 * something between two looks that were not far apart.
 */
static void look_at_taken(struct urxe_link *link, uint64_t now)
{
	if (!link->full_since || link->full_taken != link->out.taken) {
		if (now - link->full_at < KEEPS_UP)
			link->behind = false;
		link->full_since = link->asked_at = now;
		link->full_taken = link->out.taken;
	} else if (now - link->full_since >= BEHIND) {
		link->behind = true;
	}
	link->full_at = now;
}

/* Has the neighbour taken nothing for so long that packets are to be lost, or has it died? */
static bool is_stuck(struct urxe_wire *wire, struct urxe_link *link)
{
	uint64_t now = urxe_now();

	look_at_taken(link, now);
	if (now - link->asked_at >= ASK_EVERY) {
		link->asked_at = now;
		if (urxe_shm_has_gone(wire, link->near.slot, link->near.life))
			link->full_since = now - PATIENCE;
	}
	return now - link->full_since >= PATIENCE;
}

static void count(struct urxe_wire *wire, const struct urxe_path *path,
		  const struct urxe_tx_packet *pkts, unsigned n)
{
	uint64_t *counters = urxe_wire_counters(wire, path);

	for (unsigned k = 0; k < n; k++) {
		counters[URXE_CNT_SENT_PKTS] += span_of(&pkts[k]);
		counters[URXE_CNT_SENT_BYTES] += record_len(&pkts[k], false) + URXE_ICRC_LEN;
	}
}

/* Through the dice and the links' delay, as records. A fabric counts them as they leave. */
static int send_faulty(struct urxe_wire *wire, struct urxe_link *link, const struct urxe_path *path,
		       const struct urxe_tx_packet *pkts, unsigned n, struct urxe_lag *lag)
{
	_Alignas(8) static uint8_t
		bytes[URXE_MAX_HEADER + URXE_MAX_RUN + 64]; /* under the engine's lock */

	for (unsigned k = 0; k < n; k++) {
		bool refer = is_referred(link, &pkts[k]);
		struct urxe_record rec = {
			.kind = refer ? URXE_RECORD_REFS : URXE_RECORD_PACKET,
			.span = span_of(&pkts[k]),
			.len = record_len(&pkts[k], refer),
			.bytes = bytes,
		};

		if (rec.len > sizeof(bytes))
			return -EMSGSIZE;
		fill(link, bytes, &pkts[k], refer);
		if (urxe_wire_payload_lost())
			return k;
		if (is_routed(path) &&
		    !urxe_route_take(path, pkts[k].header, record_len(&pkts[k], false),
				     pkts[k].payload_len, span_of(&pkts[k])))
			continue;
		urxe_fault_out(wire, path, link->near.slot, &rec, lag);
	}
	return n;
}

int urxe_shm_send(struct urxe_wire *wire, struct urxe_link *link, const struct urxe_path *path,
		  const struct urxe_tx_packet *pkts, unsigned n)
{
	unsigned sent = 0;
	int flow;

	if (is_routed(path) && !wire->ending && urxe_route_is_late(path))
		return send_faulty(wire, link, path, pkts, n, &urxe_route_of(path)->lag);
	if (urxe_fault_active(&urxe_wire_port(wire, path)->fault, URXE_FAULT_OUT))
		return send_faulty(wire, link, path, pkts, n, NULL);
	flow = flow_of(link, path);
	while (flow >= 0 && sent < n && is_routed(path) &&
	       lay_routed(link, flow, path, &pkts[sent]))
		sent++;
	while (flow >= 0 && sent < n && !is_routed(path)) {
		if (sent + 1 < n && lay_pair(link, flow, &pkts[sent]))
			sent += 2;
		else if (lay(link, flow, &pkts[sent]))
			sent++;
		else
			break;
	}
	count(wire, path, pkts, sent);
	if (sent)
		urxe_shm_wake(wire, link);
	if (sent < n && !urxe_wire_payload_lost() && is_stuck(wire, link))
		return n;
	return sent;
}

int urxe_shm_send_copy(struct urxe_wire *wire, struct urxe_link *link, const struct urxe_path *path,
		       const struct urxe_tx_packet *pkt, struct urxe_lag *lag)
{
	if ((lag->delay || lag->waiting) && !wire->ending)
		return send_faulty(wire, link, path, pkt, 1, lag);
	return urxe_shm_send(wire, link, path, pkt, 1);
}

uint8_t *urxe_wire_short(struct urxe_wire *wire, const struct urxe_path *path, uint32_t qpn,
			 uint32_t len, struct urxe_short *way)
{
	struct urxe_link *link = urxe_shm_link_to(wire, path, qpn);

	static_assert(URXE_PAIR_MAX == URXE_RING_INLINE, "a pair is in a cell");
	if (!link || urxe_fault_active(&urxe_wire_port(wire, path)->fault, URXE_FAULT_OUT))
		return NULL;
	if (is_routed(path) && !urxe_route_is_sure(path))
		return NULL;
	way->link = link;
	way->flow = flow_of(link, path);
	way->to = way->flow < 0 ? NULL : urxe_ring_claim(&link->out, len);
	return way->to;
}

void urxe_wire_short_send(struct urxe_wire *wire, const struct urxe_path *path,
			  const struct urxe_short *way, uint32_t first, uint32_t len)
{
	uint64_t *counters = urxe_wire_counters(wire, path);
	bool pair = first < len;

	if (is_routed(path) && !urxe_route_take_short(path, way->to, first, len))
		return;
	urxe_ring_publish(&way->link->out, pair ? URXE_RECORD_PAIR : URXE_RECORD_PACKET, way->flow,
			  pair ? first : 1, len);
	urxe_shm_wake(wire, way->link);
	counters[URXE_CNT_SENT_PKTS] += 1 + pair;
	counters[URXE_CNT_SENT_BYTES] += len + (1 + pair) * URXE_ICRC_LEN;
}

static bool lives(struct urxe_wire *wire, struct urxe_link *link, uint64_t now)
{
	if (now - link->seen_at < SEEN_FOR)
		return true;
	if (urxe_shm_has_gone(wire, link->near.slot, link->near.life))
		return false;
	link->seen_at = now;
	return true;
}

int urxe_wire_send_near(struct urxe_wire *wire, const struct urxe_path *path, unsigned slot,
			const struct urxe_tx_packet *pkt, uint64_t now)
{
	struct urxe_link *link = wire->shm && path->here ? urxe_shm_link(wire, slot) : NULL;
	int sent;

	if (!link || !lives(wire, link, now))
		return -ESRCH;
	sent = urxe_shm_send(wire, link, path, pkt, 1);
	if (sent < 0)
		return sent;
	return sent ? 0 : -ENOBUFS;
}

int urxe_shm_send_raw(struct urxe_wire *wire, unsigned slot, const struct urxe_path *path,
		      const struct urxe_record *rec)
{
	struct urxe_link *link = urxe_shm_link(wire, slot);
	uint64_t *counters = urxe_wire_counters(wire, path);
	int flow = link ? flow_of(link, path) : -ESRCH;
	void *to = flow < 0 ? NULL : urxe_ring_claim(&link->out, rec->len);

	if (!link)
		return -ESRCH;
	if (!to)
		return is_stuck(wire, link) ? -ESTALE : -EAGAIN;
	memcpy(to, rec->bytes, rec->len);
	urxe_ring_publish(&link->out, rec->kind, flow, rec->span, rec->len);
	counters[URXE_CNT_SENT_PKTS] += rec->span;
	counters[URXE_CNT_SENT_BYTES] += rec->len + URXE_ICRC_LEN;
	urxe_shm_wake(wire, link);
	return 0;
}

/* ---- what the requester asks ---- */

static bool has_room(struct urxe_link *link, uint32_t payload_len)
{
	return !urxe_ring_full(&link->out, URXE_MAX_HEADER + payload_len);
}

/*
 * A ring holds little: a neighbour that does not run meanwhile, since it sleeps or has no
 * processor, finds references behind what was copied.
 */
static bool uses_refs(const struct urxe_link *link)
{
	return (link->behind || link->ways.way == URXE_WAY_REFER) && may_refer(link);
}

static bool is_to_refer(struct urxe_link *link)
{
	return uses_refs(link) &&
	       (link->ways.way == URXE_WAY_REFER || !has_room(link, URXE_MAX_RUN));
}

uint32_t urxe_wire_run(struct urxe_wire *wire, const struct urxe_path *path, uint32_t qpn,
		       bool *refer)
{
	struct urxe_link *link = urxe_shm_link_to(wire, path, qpn);

	if (!link || (is_routed(path) && !urxe_route_is_sure(path)))
		return 0;
	*refer = *refer && is_to_refer(link);
	return *refer ? URXE_MAX_REFERRED : URXE_MAX_RUN;
}

/* One that has taken nothing for too long is sent to all the same: that is how packets are lost. */
bool urxe_wire_full(struct urxe_wire *wire, const struct urxe_path *path, uint32_t qpn,
		    uint32_t len, bool refer)
{
	struct urxe_link *link = urxe_shm_link_to(wire, path, qpn);

	if (len > URXE_MAX_RUN)
		len = URXE_MAX_RUN;
	if (!link || has_room(link, len))
		return false;
	if (is_stuck(wire, link))
		return false;
	return !refer || !uses_refs(link) || !has_room(link, REFS_MOST);
}

bool urxe_wire_has_room(struct urxe_wire *wire, unsigned slot)
{
	struct urxe_link *link = wire->shm ? wire->shm->links[slot] : NULL;

	if (!link || !link->up)
		return false;
	return urxe_ring_moved(&link->out) || (urxe_now() - link->full_since >= BEHIND &&
					       may_refer(link) && has_room(link, REFS_MOST));
}

void urxe_wire_void_refs(struct urxe_wire *wire, const struct urxe_path *path, uint32_t qpn)
{
	unsigned slot = urxe_owner_of(wire->seg, qpn);
	struct urxe_link *link = wire->shm ? wire->shm->links[slot] : NULL;

	if (!link || !link->up)
		return;
	atomic_fetch_add(&link->out.ring->epoch, 1);
	atomic_thread_fence(memory_order_seq_cst);
}
