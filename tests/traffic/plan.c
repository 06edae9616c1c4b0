/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a stream does, as a function of the configuration that both ends hold: the operations of
 * round n, their lengths, contents and places. Choices that only one end sees (how a payload is cut
 * into pieces, what is signaled) are not made here.
 */
#include <arpa/inet.h>
#include <string.h>

#include "traffic.h"

#define AREA_SLACK (128 << 10)
#define MAX_GAP	   40

const char *const kind_names[ALL_KINDS] = {
	"send", "send_imm", "send_inv", "write",     "write_imm", "read",
	"cas",	"fadd",	    "bind_mw",	"local_inv", "marker",
};

size_t area_size(const struct config *cfg)
{
	return (size_t)cfg->max_size + AREA_SLACK;
}

size_t source_size(const struct config *cfg)
{
	return (size_t)cfg->max_size + 4096;
}

uint64_t stream_key(const struct config *cfg, unsigned q, unsigned dir)
{
	return mix64(mix64(cfg->seed + 1) + q * 2 + dir);
}

uint64_t source_key(const struct config *cfg, unsigned q, unsigned dir)
{
	return mix64(stream_key(cfg, q, dir) ^ 0x50c3);
}

/* A message that no operation can be: its content is its own, and says the number once more. */
struct op marker_op(const struct config *cfg, unsigned q, unsigned dir, uint32_t number)
{
	struct op op = {
		.kind = OP_SEND_IMM,
		.len = MARKER_LEN,
		.imm = htonl(number),
		.key = mix64(stream_key(cfg, q, dir) ^ 0x3a4b),
		.key_off = (uint64_t)number * MARKER_LEN,
		.solicited = true,
	};

	return op;
}

/* Lengths lean to where packets begin and end. */
static uint32_t plan_length(const struct config *cfg, uint64_t *rng)
{
	static const uint32_t small[] = {0, 1, 3, 4, 7, 8, 63, 64, 65};
	uint32_t pick = rng_below(rng, 100), len;

	if (pick < 20)
		len = small[rng_below(rng, sizeof(small) / sizeof(*small))];
	else if (pick < 45)
		len = (1 + rng_below(rng, 4)) * cfg->mtu + rng_below(rng, 3) - 1;
	else if (pick < 60)
		len = rng_below(rng, 4 * cfg->mtu);
	else if (pick < 80)
		len = rng_below(rng, 256);
	else if (pick < 97)
		len = rng_below(rng, UINT32_MAX) >> (8 + rng_below(rng, 24));
	else
		len = cfg->max_size - rng_below(rng, 2);
	if (len > cfg->max_size)
		len = cfg->min_size +
		      rng_below(rng, cfg->max_size - cfg->min_size + 1) % (16 * cfg->mtu);
	return len < cfg->min_size ? cfg->min_size : len;
}

static enum kind plan_kind(uint32_t mix, uint64_t *rng)
{
	enum kind kind;

	mix &= ~(1u << OP_BIND_MW | 1u << OP_SEND_INV); /* these are made round by round */
	if (!mix)
		return OP_SEND;
	do {
		kind = (enum kind)rng_below(rng, OP_KINDS);
	} while (!(mix & 1u << kind));
	return kind;
}

/* A place in the area that nothing else of the round touches; false if it is full. */
static bool plan_area(const struct config *cfg, struct op *op, size_t *cursor, uint64_t *rng)
{
	size_t off = *cursor + 1 + rng_below(rng, MAX_GAP);

	if (off + op->len + 1 > area_size(cfg))
		return false;
	op->place = IN_AREA;
	op->off = off;
	*cursor = off + op->len;
	return true;
}

/* From the constant source, or something written earlier in this round. */
static void plan_read(const struct config *cfg, unsigned q, unsigned dir, struct round *round,
		      struct op *op, uint64_t *rng)
{
	const struct op *old = round->n ? &round->ops[rng_below(rng, round->n)] : NULL;

	if (cfg->qp_type == IBV_QPT_RC && old && rng_below(rng, 2) && old->len &&
	    (old->kind == OP_WRITE || old->kind == OP_WRITE_IMM)) {
		uint32_t from = rng_below(rng, old->len);

		op->place = IN_AREA;
		op->len = 1 + rng_below(rng, old->len - from);
		op->off = old->off + from;
		op->key = old->key;
		op->key_off = old->key_off + from;
		return;
	}
	op->place = IN_SOURCE;
	op->off = rng_below(rng, source_size(cfg) - op->len + 1);
	op->key = source_key(cfg, q, !dir); /* the memory is the target's */
	op->key_off = op->off;
}

static void plan_atomic(struct op *op, uint64_t *rng)
{
	op->len = 8;
	op->place = rng_below(rng, 2) ? SHARED_WORD : PRIVATE_WORD;
	op->value = rng_next(rng);
	op->miss = op->kind == OP_CAS && !rng_below(rng, 4);
}

/* Fills in everything but the kind; false if there is no room for it in this round. */
static bool plan_op(const struct config *cfg, unsigned q, unsigned dir, struct round *round,
		    struct op *op, size_t *cursor, uint64_t *rng)
{
	const struct op *last = round->n ? &round->ops[round->n - 1] : NULL;

	op->len = plan_length(cfg, rng);
	op->imm = rng_next(rng);
	op->key = mix64(stream_key(cfg, q, dir) + round->before + round->n + 1);
	op->fence = cfg->qp_type == IBV_QPT_RC && !rng_below(rng, 8);
	op->solicited = !rng_below(rng, 4);
	if (op->kind == OP_CAS || op->kind == OP_FADD) {
		plan_atomic(op, rng);
		return true;
	}
	if (op->kind == OP_READ) {
		plan_read(cfg, q, dir, round, op, rng);
		return true;
	}
	if (last && last->kind == OP_READ && last->len && rng_below(rng, 2)) {
		op->relay = op->fence = true;
		op->len = last->len;
		op->key = last->key;
		op->key_off = last->key_off;
	}
	if (op->kind == OP_WRITE || op->kind == OP_WRITE_IMM)
		return plan_area(cfg, op, cursor, rng);
	return true;
}

static void plan_add(struct round *round, const struct op *op)
{
	round->ops[round->n++] = *op;
	round->messages += consumes_receive(op->kind);
}

/*
 * A READ whose answer was lost is executed again (9.7.5.1.2), after what followed it; so the target
 * must not hear of the round's end, upon which it clears the area, before they have all completed.
 */
static bool reads_area(const struct round *round)
{
	unsigned i;

	for (i = 0; i < round->n; i++)
		if (round->ops[i].kind == OP_READ && round->ops[i].place == IN_AREA)
			return true;
	return false;
}

/* The last operation: one that the target's receive queue sees. */
static void plan_last(const struct config *cfg, unsigned q, unsigned dir, struct round *round,
		      size_t *cursor, uint64_t *rng)
{
	struct op op = {.kind = plan_kind(cfg->mix & (1u << OP_SEND | 1u << OP_SEND_IMM |
						      1u << OP_WRITE_IMM),
					  rng)};

	if (!plan_op(cfg, q, dir, round, &op, cursor, rng)) {
		memset(&op, 0, sizeof(op));
		op.kind = OP_SEND;
		plan_op(cfg, q, dir, round, &op, cursor, rng);
	}
	if (round->window == 2 && op.kind != OP_WRITE_IMM && cfg->mix & 1u << OP_SEND_INV &&
	    rng_below(rng, 4))
		op.kind = OP_SEND_INV;
	op.solicited = true;
	op.fence |= reads_area(round);
	plan_add(round, &op);
}

void plan_round(const struct config *cfg, unsigned q, unsigned dir, uint32_t number,
		uint64_t before, struct round *round)
{
	uint64_t rng = stream_key(cfg, q, dir) ^ mix64(number + 77), left = cfg->ops - before;
	unsigned n = 1 + rng_below(&rng, cfg->round);
	size_t cursor = 0;

	memset(round, 0, sizeof(*round));
	round->number = number;
	round->before = before;
	if (cfg->mix & (1u << OP_BIND_MW | 1u << OP_SEND_INV) && rng_below(&rng, 2))
		round->window = cfg->mix & 1u << OP_SEND_INV && rng_below(&rng, 3) ? 2 : 1;
	if (round->window == 1 && !(cfg->mix & 1u << OP_BIND_MW))
		round->window = 2;
	if (n > left)
		n = left;
	while (round->n + 1 < n) {
		struct op op = {.kind = plan_kind(cfg->mix, &rng)};

		if (!plan_op(cfg, q, dir, round, &op, &cursor, &rng))
			break;
		plan_add(round, &op);
	}
	plan_last(cfg, q, dir, round, &cursor, &rng);
}
