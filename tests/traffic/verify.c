/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What must be true of a message, of memory after a round, of results, and of everything at the
 * end. Each check fails the whole program with the first byte or number that is wrong.
 */
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>

#include "traffic.h"

static size_t header(const struct arrival *a)
{
	return a->qp->worker->end->cfg.qp_type == IBV_QPT_UD ? GRH_LEN : 0;
}

static bool has_imm(const struct op *op)
{
	return op->kind == OP_SEND_IMM || op->kind == OP_WRITE_IMM;
}

/* Length, kind and immediate data; not yet the content. */
static bool envelope_fits(const struct arrival *a, const struct op *op)
{
	const struct ibv_wc *wc = a->wc;
	enum ibv_wc_opcode want =
		op->kind == OP_WRITE_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;

	if (wc->opcode != want || wc->byte_len != op->len + header(a))
		return false;
	if (!!(wc->wc_flags & IBV_WC_WITH_IMM) != has_imm(op))
		return false;
	return !has_imm(op) || wc->imm_data == op->imm;
}

bool message_fits(const struct arrival *a, const struct op *op)
{
	size_t bad;
	uint8_t found;

	return envelope_fits(a, op) &&
	       (op->kind == OP_WRITE_IMM || arena_matches(a->arena, a->chunk, header(a), op->key,
							  op->key_off, op->len, &bad, &found));
}

void verify_message(const struct arrival *a, const struct op *op)
{
	size_t bad;
	uint8_t found;

	if (!envelope_fits(a, op))
		fail(a->qp,
		     "message: opcode %d, %u bytes, flags %#x, imm %#x; expected a %s of %u "
		     "bytes, imm %#x",
		     a->wc->opcode, a->wc->byte_len, a->wc->wc_flags,
		     a->wc->wc_flags & IBV_WC_WITH_IMM ? a->wc->imm_data : 0, kind_names[op->kind],
		     op->len, has_imm(op) ? op->imm : 0);
	if (op->kind != OP_WRITE_IMM && !arena_matches(a->arena, a->chunk, header(a), op->key,
						       op->key_off, op->len, &bad, &found))
		fail_byte(a->qp, op, "as received", bad, pattern_byte(op->key, op->key_off + bad),
			  found);
}

/* UD: the 40 bytes before the payload (IBTA Annex A17.4.5.2 for IPv4: the header ends them). */
void verify_grh(const struct arrival *a)
{
	static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};
	const struct end *end = a->qp->worker->end;
	const uint8_t *from = a->qp->peer.gid, *to = end->gid.raw;
	uint8_t grh[GRH_LEN];

	if (!(a->wc->wc_flags & IBV_WC_GRH) || a->wc->byte_len < GRH_LEN)
		fail(a->qp, "a datagram without GRH: flags %#x, %u bytes", a->wc->wc_flags,
		     a->wc->byte_len);
	arena_copy(a->arena, a->chunk, grh, GRH_LEN);
	if (!memcmp(to, v4, sizeof(v4))) {
		if (grh[20] != 0x45 || memcmp(grh + 32, from + 12, 4) ||
		    memcmp(grh + 36, to + 12, 4))
			fail(a->qp,
			     "the IPv4 header before a datagram is wrong: %02x, addresses "
			     "%02x%02x%02x%02x %02x%02x%02x%02x",
			     grh[20], grh[32], grh[33], grh[34], grh[35], grh[36], grh[37], grh[38],
			     grh[39]);
	} else if (grh[0] >> 4 != 6 || memcmp(grh + 8, from, 16) || memcmp(grh + 24, to, 16)) {
		fail(a->qp, "the GRH before a datagram is wrong: version %u", grh[0] >> 4);
	}
}

static bool is_write(const struct op *op)
{
	return op->kind == OP_WRITE || op->kind == OP_WRITE_IMM;
}

void verify_writes(struct qp *qp, const struct round *round, unsigned from, unsigned to)
{
	const uint8_t *area = qp->tg.area[round->number & 1];
	unsigned i;

	for (i = from; i < to; i++) {
		const struct op *op = &round->ops[i];
		size_t same;

		if (!is_write(op))
			continue;
		same = area_check(area + op->off, op->key, op->key_off, op->len);
		if (same < op->len)
			fail_byte(qp, op, "in the memory written to", same,
				  pattern_byte(op->key, op->key_off + same), area[op->off + same]);
	}
}

/* Whose bytes are they? The newest round in which a write puts just these there, or -1. */
static int find_writer(struct qp *qp, unsigned area, size_t off, size_t len)
{
	struct end *end = qp->worker->end;
	struct round round = {.number = 0};
	uint64_t before = 0;
	int writer = -1;
	unsigned i, number;

	for (number = 0; number < qp->tg.opened && before < end->cfg.ops; number++) {
		plan_round(&end->cfg, qp->q, !end->side, number, before, &round);
		before += round.n;
		for (i = 0; i < round.n && (number & 1) == area; i++) {
			const struct op *op = &round.ops[i];

			if (is_write(op) && op->off <= off && off + len <= op->off + op->len &&
			    area_check(qp->tg.area[area] + off, op->key,
				       op->key_off + off - op->off, len) == len)
				writer = number;
		}
	}
	return writer;
}

static void guard_between(struct qp *qp, unsigned area, size_t from, size_t to)
{
	const uint8_t *base = qp->tg.area[area];
	uint64_t guard = qp->tg.arena.guard;
	size_t same = area_check(base + from, guard, from, to - from);

	if (same < to - from)
		fail(qp,
		     "area %u, byte %zu (between the writes that end at %zu and begin at %zu), to "
		     "which nothing was written: %#04x, expected %#04x; round %u, %llu lost "
		     "before; "
		     "a write of round %d puts it there",
		     area, from + same, from, to, base[from + same],
		     pattern_byte(guard, from + same), qp->tg.current,
		     (unsigned long long)qp->tg.lost,
		     find_writer(qp, area, from + same, to - from - same < 4 ? 1 : 4));
}

/* UC: each byte is what was there or what was written; a write that left something out is lost. */
UNORDERED static bool partly_written(struct qp *qp, unsigned area, const struct op *op)
{
	const uint8_t *base = qp->tg.area[area] + op->off;
	uint64_t guard = qp->tg.arena.guard;
	size_t i, same = area_check(base, op->key, op->key_off, op->len);

	if (same == op->len)
		return false;
	for (i = same; i < op->len; i++)
		if (base[i] != pattern_byte(op->key, op->key_off + i) &&
		    base[i] != pattern_byte(guard, op->off + i))
			fail_byte(qp, op, "in the memory written to", i,
				  pattern_byte(op->key, op->key_off + i), base[i]);
	return true;
}

/* The whole area of a round; afterwards all of it is guard again. The slots ascend. */
unsigned verify_area(struct qp *qp, const struct round *round)
{
	const struct config *cfg = &qp->worker->end->cfg;
	unsigned area = round->number & 1, lost = 0, i;
	size_t at = 0;

	for (i = 0; i < round->n; i++) {
		const struct op *op = &round->ops[i];

		if (!is_write(op))
			continue;
		guard_between(qp, area, at, op->off);
		if (lossy(cfg))
			lost += partly_written(qp, area, op) && op->kind == OP_WRITE;
		else
			verify_writes(qp, round, i, i + 1);
		area_fill(qp->tg.area[area] + op->off, qp->tg.arena.guard, op->off, op->len);
		at = op->off + op->len;
	}
	guard_between(qp, area, at, area_size(cfg));
	return lost;
}

void verify_read(struct qp *qp, const struct wqe *wqe)
{
	const struct op *op = &wqe->op;
	size_t bad;
	uint8_t found;

	if (!arena_matches(&qp->in.arena, wqe->chunk, 0, op->key, op->key_off, op->len, &bad,
			   &found))
		fail_byte(qp, op, op->place == IN_AREA ? "of what was written before" : "as read",
			  bad, pattern_byte(op->key, op->key_off + bad), found);
}

/* Shared counter: each value comes back once. */
static void verify_ticket(struct qp *qp, uint64_t ticket)
{
	struct end *end = qp->worker->end;
	uint64_t most = (uint64_t)end->cfg.qps * (end->cfg.ops + MAX_ROUND);
	size_t bytes;
	bool twice;

	if (ticket >= most)
		fail(qp, "fetch-add on the shared counter returned %#llx",
		     (unsigned long long)ticket);
	pthread_mutex_lock(&end->bitmap_lock);
	if (ticket / 8 >= end->bitmap_bytes) {
		bytes = ticket / 4 + 1024;
		end->bitmap = realloc(end->bitmap, bytes);
		if (!end->bitmap)
			fail(qp, "out of memory");
		memset(end->bitmap + end->bitmap_bytes, 0, bytes - end->bitmap_bytes);
		end->bitmap_bytes = bytes;
	}
	twice = end->bitmap[ticket / 8] & 1 << ticket % 8;
	end->bitmap[ticket / 8] |= 1 << ticket % 8;
	pthread_mutex_unlock(&end->bitmap_lock);
	if (twice)
		fail(qp,
		     "fetch-add on the shared counter returned %llu twice: executed once for two "
		     "requests",
		     (unsigned long long)ticket);
	qp->in.fadds++;
	atomic_fetch_add(&end->fadds, 1);
}

static void saw_shared_word(struct end *end, unsigned long long value)
{
	unsigned long long seen = atomic_load(&end->cas_seen);

	while (seen < value && !atomic_compare_exchange_weak(&end->cas_seen, &seen, value))
		;
}

void verify_atomic(struct qp *qp, const struct wqe *wqe)
{
	struct end *end = qp->worker->end;
	const struct op *op = &wqe->op;
	uint64_t result;

	arena_copy(&qp->in.arena, wqe->chunk, &result, sizeof(result));
	if (op->place == PRIVATE_WORD) {
		if (result != wqe->expect)
			fail(qp, "%s on a word of its own returned %#llx, expected %#llx",
			     kind_names[op->kind], (unsigned long long)result,
			     (unsigned long long)wqe->expect);
		return;
	}
	if (op->kind == OP_FADD) {
		verify_ticket(qp, result);
		return;
	}
	if (result < wqe->compare)
		fail(qp, "cas on the shared word returned %llu after %llu had been seen",
		     (unsigned long long)result, (unsigned long long)wqe->compare);
	if (result == wqe->compare) {
		qp->in.swaps++;
		atomic_fetch_add(&end->swaps, 1);
		result++;
	}
	saw_shared_word(end, result);
}

static void all_guard(struct qp *qp, const struct arena *a, const char *what)
{
	size_t same = pattern_check(a->base, a->guard, 0, a->size);

	if (same < a->size)
		fail(qp, "at the end, byte %zu of %s has changed", same, what);
}

void verify_qp_end(struct qp *qp)
{
	struct end *end = qp->worker->end;
	const struct config *cfg = &end->cfg;
	struct target *tg = &qp->tg;
	size_t same;

	if (qp->in.head != qp->in.tail || qp->in.arena.count)
		fail(qp, "at the end, %u requests and %u buffers are open",
		     qp->in.tail - qp->in.head, qp->in.arena.count);
	if (tg->words[0] != tg->fadd_word || tg->words[1] != tg->cas_word)
		fail(qp, "at the end, the atomics' words are %#llx %#llx, expected %#llx %#llx",
		     (unsigned long long)tg->words[0], (unsigned long long)tg->words[1],
		     (unsigned long long)tg->fadd_word, (unsigned long long)tg->cas_word);
	same = pattern_check(tg->source, source_key(cfg, qp->q, end->side), 0, source_size(cfg));
	if (same < source_size(cfg))
		fail(qp, "at the end, byte %zu of what was only to be read has changed", same);
	guard_between(qp, 0, 0, area_size(cfg));
	guard_between(qp, 1, 0, area_size(cfg));
	all_guard(qp, &qp->in.arena, "the buffers for sending");
	if (tg->arena.base)
		all_guard(qp, &tg->arena, "the buffers for receiving");
}

void verify_end(struct end *end)
{
	uint64_t i, total = end->messages + end->lost;

	if (end->shared[0] != end->peer_fadds || end->shared[1] != end->peer_swaps)
		fail(NULL,
		     "the shared words are %llu and %llu; the peer counted %llu fetch-adds and "
		     "%llu swaps",
		     (unsigned long long)end->shared[0], (unsigned long long)end->shared[1],
		     (unsigned long long)end->peer_fadds, (unsigned long long)end->peer_swaps);
	for (i = 0; i < end->fadds; i++)
		if (i / 8 >= end->bitmap_bytes || !(end->bitmap[i / 8] & 1 << i % 8))
			fail(NULL, "no fetch-add on the shared counter returned %llu of %llu",
			     (unsigned long long)i, (unsigned long long)end->fadds);
	if (total && end->lost * 100 > total * end->opt->max_loss)
		fail(NULL, "%llu of %llu messages were lost", (unsigned long long)end->lost,
		     (unsigned long long)total);
}
