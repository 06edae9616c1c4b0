// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Direct access, the initiator's side: may this WR be carried out here, and how. Under the engine
 * lock, so that a process has one access under way, and one hazard.
 *
 * An operation may overtake nothing: an RC QP must have had everything before it acknowledged, a UC
 * QP must never have sent a packet (nothing reports when those have arrived). It is made in chunks
 * of 64 KiB, each of which asks the tables anew. The last bytes of a write become visible last; an
 * attempt that was interrupted has not stored them.
 */
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hca/direct_private.h"
#include "hca/direct_rseq.h"
#include "hca/lost_memory.h"
#include "hca/memory.h"
#include "wire/neighbour.h"

#define CHUNK	 (64u << 10)
#define TURN	 (128u << 10) /* bytes, then others have their turn */
#define ATTEMPTS 64	      /* of a chunk, each of which was interrupted */

enum kind { WRITE, READ, ATOMIC, OTHER };

/* What becomes of a chunk, or of all. */
enum result { COPIED, AGAIN, REFUSED };

struct access {
	struct urxe_qp *qp;
	const struct urxe_send_wqe *wqe;
	enum kind kind;
	uint32_t qpn; /* of the target */
};

static unsigned ports; /* counts their changes */

void urxe_direct_ports_changed(void)
{
	ports++;
}

void urxe_direct_forget(struct urxe_qp *qp)
{
	qp->direct.near = URXE_NEAR_UNKNOWN;
	qp->direct.behind_packets = false;
	qp->direct.offset = 0;
	qp->direct.region.at = NULL;
}

static enum kind kind_of(uint8_t opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE: return WRITE;
	case IBV_WR_RDMA_READ: return READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD: return ATOMIC;
	default: return OTHER;
	}
}

/* Rights of the region, and with the same names of the QP, that a request needs. */
static unsigned right_of(enum kind kind)
{
	switch (kind) {
	case WRITE: return RMEMPOOL_REMOTE_WRITE;
	case READ: return RMEMPOOL_REMOTE_READ;
	default: return RMEMPOOL_REMOTE_ATOMIC;
	}
}

static_assert(RMEMPOOL_REMOTE_WRITE == (int)IBV_ACCESS_REMOTE_WRITE &&
		      RMEMPOOL_REMOTE_READ == (int)IBV_ACCESS_REMOTE_READ &&
		      RMEMPOOL_REMOTE_ATOMIC == (int)IBV_ACCESS_REMOTE_ATOMIC,
	      "a QP's rights are named as a region's");

/* ---- the other end ---- */

/* Is the destination an address of this host, and are both ports up? */
static bool address_is_near(struct urxe_qp *qp)
{
	unsigned index = urxe_wire_port_at(urxe_hca.wire, &qp->proto.path);
	const struct urxe_port *port = urxe_port(index);
	bool up;

	qp->direct.port = index;
	/* Another host of a fabric: each operation asks for the route. */
	if (!port)
		return !urxe_link_of(&qp->proto.path)->has_other_ways;
	urxe_device_lock();
	up = port->state == IBV_PORT_ACTIVE && qp->port->state == IBV_PORT_ACTIVE;
	urxe_device_unlock();
	return up;
}

static bool is_near(struct urxe_qp *qp)
{
	uint32_t dest = qp->proto.attr.dest_qp_num;

	if (qp->direct.near == URXE_NEAR_UNKNOWN || qp->direct.ports != ports) {
		qp->direct.ports = ports;
		qp->direct.region.at = NULL;
		qp->direct.near =
			direct_enabled() && qp->proto.attr.path_mig_state == IBV_MIG_MIGRATED &&
					address_is_near(qp) &&
					urxe_segment_slot_alive(urxe_hca.seg,
								urxe_owner_of(urxe_hca.seg, dest))
				? URXE_NEAR_YES
				: URXE_NEAR_NO;
	}
	return qp->direct.near == URXE_NEAR_YES;
}

/* With faults on the wire, half of the operations go by packets, so that those get their share. */
static bool declined(struct urxe_qp *qp)
{
	static uint32_t random = 1;

	if (!urxe_wire_faulty(urxe_hca.wire, &qp->proto.path))
		return false;
	random = random * 1664525 + 1013904223;
	return random >> 31;
}

static bool in_order(struct urxe_qp *qp)
{
	if (qp->transport->reliable)
		return qp->proto.una == qp->proto.psn && qp->proto.psn == qp->proto.max_psn;
	return !qp->direct.behind_packets;
}

/* ---- local memory ---- */

/* The bytes of a chunk in our memory; the last ones of a write are a piece of their own. */
struct local {
	struct iovec iov[URXE_MAX_SGE + 1];
	int n;
	bool split;
};

static bool find_local(const struct access *a, uint32_t offset, uint32_t len, struct local *local)
{
	uint64_t end = a->wqe->rdma.remote_addr + offset + len;
	struct iovec *last;
	size_t n;

	local->split = false;
	local->n = urxe_gather(a->qp, a->wqe, offset, len,
			       a->kind == WRITE ? 0 : RMEMPOOL_LOCAL_WRITE, local->iov);
	if (local->n <= 0)
		return !local->n;
	if (a->kind != WRITE)
		return true;
	last = &local->iov[local->n - 1];
	n = urxe_rseq_last(end, last->iov_len);
	if (last->iov_len > n) {
		last->iov_len -= n;
		last[1].iov_base = (uint8_t *)last->iov_base + last->iov_len;
		last[1].iov_len = n;
		local->n++;
		local->split = true;
	}
	return true;
}

/* The result of an atomic. */
static void put_value(const struct local *local, uint64_t value)
{
	const uint8_t *from = (const uint8_t *)&value;

	for (int i = 0; i < local->n; i++) {
		memcpy(local->iov[i].iov_base, from, local->iov[i].iov_len);
		from += local->iov[i].iov_len;
	}
}

/* ---- in another process ---- */

/* Does the target's QP take such a request from us? */
static bool qp_permits(const struct access *a, const struct direct_qp *row)
{
	return atomic_load(&row->service) == a->qp->transport->direct && row->qpn == a->qpn &&
	       row->dest_qpn == a->qp->proto.qpn &&
	       urxe_pkeys_match(row->pkey, urxe_qp_pkey(a->qp)) &&
	       (row->access & right_of(a->kind)) &&
	       direct_addr_is(row->dst, &a->qp->proto.path.src) &&
	       direct_addr_is(row->src, &a->qp->proto.path.dst);
}

/* One call for n pieces from the first on; in the target they lie at *to, which moves on. */
static enum result copy_pieces(const struct access *a, const struct direct_peer *peer,
			       const struct iovec *iov, unsigned n, uint64_t *to,
			       const struct urxe_guard *guard)
{
	struct iovec remote = {.iov_base = (void *)(uintptr_t)*to};
	long ret;

	for (unsigned i = 0; i < n; i++)
		remote.iov_len += iov[i].iov_len;
	ret = urxe_rseq_vm(a->kind == WRITE ? SYS_process_vm_writev : SYS_process_vm_readv,
			   peer->pid, iov, n, &remote, 1, guard);
	if (ret == URXE_RSEQ_ABORTED || ret == URXE_RSEQ_STALE)
		return AGAIN;
	*to += remote.iov_len;
	return ret == (long)remote.iov_len ? COPIED : REFUSED;
}

/* Pieces become visible one after the other if string instructions store in order. */
static enum result copy_visibly(const struct access *a, const struct direct_peer *peer,
				const struct local *local, uint64_t to,
				const struct urxe_guard *guard)
{
#ifdef __x86_64__
	unsigned late = 0;
#else
	unsigned late = local->split;
#endif
	enum result result = copy_pieces(a, peer, local->iov, local->n - late, &to, guard);

	if (result == COPIED && late)
		result = copy_pieces(a, peer, &local->iov[local->n - late], late, &to, guard);
	return result;
}

/* ---- in memory of another process that is mapped here ---- */

/* The CPU's atomics, as the target's responder uses them. */
static enum result mapped_atomic(const struct access *a, uint8_t *at, const struct local *local,
				 const struct urxe_guard *guard)
{
	uint64_t *word = (uint64_t *)(void *)at, value = a->wqe->rdma.compare_add;
	long ret;

	if (a->wqe->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		ret = urxe_rseq_fetch_add(word, &value, guard);
	else
		ret = urxe_rseq_compare_swap(word, &value, a->wqe->rdma.swap, guard);
	if (ret)
		return AGAIN;
	put_value(local, value);
	return COPIED;
}

static enum result copy_mapped(const struct access *a, uint8_t *at, const struct local *local,
			       const struct urxe_guard *guard)
{
	long ret = 0;

	if (a->kind == ATOMIC)
		return mapped_atomic(a, at, local, guard);
	for (int i = 0; !ret && i < local->n; i++) {
		const struct iovec *iov = &local->iov[i];

		if (a->kind == READ)
			ret = urxe_rseq_copy(iov->iov_base, at, iov->iov_len, at, guard);
		else if (i + 1 < local->n)
			ret = urxe_rseq_copy(at, iov->iov_base, iov->iov_len, at, guard);
		else
			ret = urxe_rseq_commit(at, iov->iov_base, iov->iov_len, guard);
		at += iov->iov_len;
	}
	return ret ? AGAIN : COPIED;
}

/* Most requests are for the region of the last one. What was taken from the tables since raised the
 * epoch. */
static uint8_t *remembered(const struct access *a, const struct direct_peer *peer, uint64_t epoch)
{
	const __typeof__(a->qp->direct.region) *is = &a->qp->direct.region;
	uint64_t offset = a->wqe->rdma.remote_addr - is->iova;

	if (!is->at || is->epoch != epoch || is->life != peer->slot_life ||
	    is->rkey != a->wqe->rdma.rkey || !(is->rights & right_of(a->kind)) ||
	    offset >= is->length || a->wqe->length > is->length - offset)
		return NULL;
	return is->at + offset;
}

static void remember(const struct access *a, struct direct_peer *peer, uint64_t epoch)
{
	const struct direct_qp *qp = &peer->tables->qps[urxe_qpn_index(a->qpn)];
	struct mempool_row row;

	a->qp->direct.region.at = NULL;
	if (mempool_table_get(peer->regions, a->wqe->rdma.rkey, &row) ||
	    row.kind != MEMPOOL_REGION || row.pd != qp->pd)
		return;
	a->qp->direct.region = (__typeof__(a->qp->direct.region)){
		.at = direct_object_at(peer, row.object, row.va, row.length),
		.iova = row.iova,
		.length = row.length,
		.epoch = epoch,
		.life = peer->slot_life,
		.rkey = row.key,
		.rights = row.access & qp->access,
	};
}

/* Looks at the tables and makes one attempt to copy. The hazard is there. */
static enum result attempt(const struct access *a, struct direct_peer *peer, uint32_t offset,
			   uint32_t len, const struct local *local)
{
	const struct direct_tables *t = peer->tables;
	const struct direct_qp *row = &t->qps[urxe_qpn_index(a->qpn)];
	struct urxe_guard guard = {
		.epoch = (const void *)&t->epoch,
		.epoch_is = atomic_load(&t->epoch),
		.life = direct_life(t),
		.life_is = peer->alive,
	};
	uint8_t *at = remembered(a, peer, guard.epoch_is);
	uint32_t object;
	uint64_t va;

	if (at && len && a->kind != ATOMIC)
		return copy_mapped(a, at + offset, local, &guard);
	/* All of the range is asked for, before its first byte and again with each chunk. */
	if (!qp_permits(a, row) ||
	    mempool_table_match_object(peer->regions, a->wqe->rdma.rkey, row->pd, a->qpn,
				       a->wqe->rdma.remote_addr, a->wqe->length, right_of(a->kind),
				       true, &va, &object) != RMEMPOOL_OK)
		return REFUSED;
	if (!len)
		return COPIED;
	at = direct_object_at(peer, object, va, a->wqe->length);
	if (a->kind == ATOMIC && (!at || (va & 7) || (a->wqe->rdma.remote_addr & 7)))
		return REFUSED;
	if (at) {
		remember(a, peer, guard.epoch_is);
		return copy_mapped(a, at + offset, local, &guard);
	}
	return copy_visibly(a, peer, local, va + offset, &guard);
}

/* A child that a fork left has its parent's memory, this variable too, and another number. */
static uint32_t thread_id(const struct direct_peer *peer)
{
	static __thread struct {
		uint64_t own;
		uint32_t tid;
	} known __attribute__((tls_model("initial-exec")));

	if (known.own != peer->own) {
		known.own = peer->own;
		known.tid = syscall(SYS_gettid);
	}
	return known.tid;
}

static enum result copy_chunk(const struct access *a, struct direct_peer *peer, uint32_t offset,
			      uint32_t len)
{
	struct direct_hazard *hazard = peer->hazard;
	uint64_t word = atomic_load_explicit(&hazard->word, memory_order_relaxed);
	enum result result = AGAIN;
	struct local local;

	if (!find_local(a, offset, len, &local))
		return REFUSED;
	atomic_store_explicit(&hazard->tid, thread_id(peer), memory_order_relaxed);
	atomic_store(&hazard->word, word + DIRECT_BUSY + DIRECT_CALLS);
	for (unsigned i = 0;
	     result == AGAIN && i < ATTEMPTS && direct_peer_life(peer) == peer->alive; i++)
		result = attempt(a, peer, offset, len, &local);
	atomic_store_explicit(&hazard->word, word + 4, memory_order_release);
	return result;
}

/* ---- in this process ---- */

static bool gids_fit(const struct urxe_qp *qp, const struct urxe_qp *target)
{
	return urxe_same_addr(&qp->proto.path.src, &target->proto.path.dst) &&
	       urxe_same_addr(&qp->proto.path.dst, &target->proto.path.src);
}

/* The target and where it has the memory; NULL when a packet shall tell. */
static struct urxe_qp *own_target(const struct access *a, uint64_t *va)
{
	struct urxe_qp *target = urxe_engine_qp(a->qpn);
	int state = target ? atomic_load(&target->proto.state) : IBV_QPS_RESET;

	if (!target || target->transport != a->qp->transport ||
	    (state != IBV_QPS_RTR && state != IBV_QPS_RTS && state != IBV_QPS_SQD) ||
	    target->proto.attr.dest_qp_num != a->qp->proto.qpn || !gids_fit(a->qp, target) ||
	    !urxe_pkeys_match(urxe_qp_pkey(target), urxe_qp_pkey(a->qp)) ||
	    !(target->proto.attr.qp_access_flags & right_of(a->kind)) ||
	    !urxe_reach(target, a->wqe->rdma.rkey, a->wqe->rdma.remote_addr, a->wqe->length,
			right_of(a->kind), true, va))
		return NULL;
	return target;
}

/* Source and destination may overlap, and then any of the bytes may come out, in any order. */
static void move(uint8_t *dst, const uint8_t *src, size_t len)
{
	if (dst + len <= src || src + len <= dst)
		urxe_copy_visible(dst, src, len);
	else
		memmove(dst, src, len);
}

static enum result copy_own(const struct access *a, uint32_t offset, uint32_t len)
{
	struct local local;
	uint8_t *at;
	uint64_t va;

	if (!own_target(a, &va))
		return REFUSED;
	at = (uint8_t *)(uintptr_t)(va + offset);
	if (a->wqe->inlined) {
		/* In a WQE it overlaps with nothing. Of no bytes, the address may be any. */
		if (len)
			urxe_copy_visible(at, (const uint8_t *)a->wqe->sge + offset, len);
		return COPIED;
	}
	if (!find_local(a, offset, len, &local))
		return REFUSED;
	for (int i = 0; i < local.n; i++) {
		struct iovec *iov = &local.iov[i];

		if (a->kind == WRITE)
			move(at, iov->iov_base, iov->iov_len);
		else
			memmove(iov->iov_base, at, iov->iov_len);
		at += iov->iov_len;
	}
	return COPIED;
}

/* As the responder does it. The result goes to our memory, which is asked for first. */
static enum result own_atomic(const struct access *a)
{
	const struct urxe_send_wqe *wqe = a->wqe;
	struct local local;
	uint64_t va;

	if (!a->qp->proto.attr.max_rd_atomic || (wqe->rdma.remote_addr & 7) ||
	    !own_target(a, &va) || (va & 7) || !find_local(a, 0, sizeof(uint64_t), &local))
		return REFUSED;
	put_value(&local, urxe_atomic(va, wqe->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD,
				      wqe->rdma.compare_add, wqe->rdma.swap));
	return COPIED;
}

/* ---- all of it ---- */

/* The sum over a port's processes is right if we count for both ends; those of other hosts count
 * for themselves. */
static void count(const struct access *a, uint32_t len)
{
	static uint64_t elsewhere[URXE_NUM_COUNTERS];
	uint64_t *own = urxe_segment_counters(urxe_hca.seg, a->qp->port->index);
	uint64_t *other = urxe_segment_counters(urxe_hca.seg, a->qp->direct.port);
	uint64_t *from, *to;

	if (!other)
		other = elsewhere;
	from = a->kind == WRITE ? own : other;
	to = a->kind == WRITE ? other : own;
	from[URXE_CNT_SENT_PKTS]++;
	from[URXE_CNT_SENT_BYTES] += len;
	to[URXE_CNT_RCVD_PKTS]++;
	to[URXE_CNT_RCVD_BYTES] += len;
}

#define WORDS(header) ((uint32_t)sizeof(header) / 4)

/* A fabric counts the packets that the message would have been, and its answer's. */
static void count_packets(const struct access *a)
{
	uint32_t len = a->wqe->length;
	uint32_t packets = urxe_packets_of(a->qp, len);
	const uint32_t bth = WORDS(struct urxe_bth), aeth = WORDS(struct urxe_aeth);
	struct urxe_load data = {packets, packets * bth + (len + 3) / 4};
	struct urxe_load one = {1, bth + aeth};

	switch (a->kind) {
	case WRITE:
		data.words += WORDS(struct urxe_reth);
		urxe_wire_count_direct(&a->qp->proto.path, data, one);
		break;
	case READ:
		data.words += packets > 1 ? 2 * aeth : aeth;
		one.words = bth + WORDS(struct urxe_reth);
		urxe_wire_count_direct(&a->qp->proto.path, one, data);
		break;
	default:
		data = (struct urxe_load){1, bth + WORDS(struct urxe_atomic_eth)};
		one.words += WORDS(struct urxe_atomic_ack_eth);
		urxe_wire_count_direct(&a->qp->proto.path, data, one);
		break;
	}
}

static enum result next_chunk(const struct access *a, struct direct_peer *peer)
{
	uint32_t offset = a->qp->direct.offset, left = a->wqe->length - offset;
	uint32_t len = left < CHUNK ? left : CHUNK;
	enum result result;

	if (peer)
		result = copy_chunk(a, peer, offset, len);
	else if (a->kind == ATOMIC)
		result = own_atomic(a);
	else
		result = copy_own(a, offset, len);
	/* On packets it ends with the error that it deserves. */
	if (urxe_memory_lost())
		return REFUSED;
	if (result != COPIED)
		return result;
	count(a, len);
	a->qp->direct.offset += len;
	a->qp->direct.turn += len;
	return COPIED;
}

static enum urxe_direct_outcome by_packets(struct urxe_qp *qp)
{
	qp->direct.offset = 0;
	qp->direct.behind_packets = true;
	return URXE_DIRECT_NO;
}

static __attribute__((noinline)) enum urxe_direct_outcome
run(struct urxe_qp *qp, const struct urxe_send_wqe *wqe, enum kind kind)
{
	struct access a = {.qp = qp, .wqe = wqe, .kind = kind, .qpn = qp->proto.attr.dest_qp_num};
	unsigned owner = urxe_owner_of(urxe_hca.seg, a.qpn);
	struct direct_peer *peer = NULL;

	if (!is_near(qp) || !urxe_wire_reaches(&qp->proto.path, urxe_qp_pkey(qp)) ||
	    (a.kind != WRITE && !qp->proto.attr.max_rd_atomic) ||
	    (!qp->direct.offset && declined(qp)))
		return by_packets(qp);
	if (owner != urxe_segment_slot(urxe_hca.seg)) {
		peer = direct_peer_get(owner);
		if (!peer || !direct_peer_alive(peer))
			return by_packets(qp);
	}
	do {
		if (qp->direct.turn >= TURN) {
			qp->direct.turn = 0;
			return URXE_DIRECT_MORE;
		}
		if (next_chunk(&a, peer) != COPIED)
			return by_packets(qp);
	} while (qp->direct.offset < wqe->length);
	qp->direct.offset = 0;
	count_packets(&a);
	return URXE_DIRECT_DONE;
}

/* Most of those that go by packets are behind others which do. */
enum urxe_direct_outcome urxe_direct_run(struct urxe_qp *qp, const struct urxe_send_wqe *wqe)
{
	enum kind kind = kind_of(wqe->opcode);

	if (wr_is_local(wqe->opcode))
		return URXE_DIRECT_NO;
	if (kind == OTHER || !qp->transport->direct || !in_order(qp))
		return by_packets(qp);
	return run(qp, wqe, kind);
}
