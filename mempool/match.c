/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Permission match, the method's S5. Any thread; reads tables without a lock (table.h).
 */
#include "mempool/match.h"

#include <assert.h>

#include "mempool/image.h"
#include "mempool/row.h"

static_assert(sizeof(struct rmempool_request) == 32 &&
		      offsetof(struct rmempool_request, domain) == 8 &&
		      offsetof(struct rmempool_request, addr) == 16,
	      "part of the ABI");

/* The checks of one row: the domain, the range, the rights. */
static inline enum rmempool_verdict judge_row(const struct rmempool_request *q,
					      const struct mempool_row *row)
{
	uint64_t offset = q->addr - row->iova;

	if (row->pd != q->domain)
		return RMEMPOOL_WRONG_PD;
	if (q->addr < row->iova || offset > row->length || q->length > row->length - offset)
		return RMEMPOOL_OUT_OF_BOUNDS;
	return (row->access & q->rights) == q->rights ? RMEMPOOL_OK : RMEMPOOL_NO_RIGHTS;
}

static inline bool fits(const struct mempool_row *row, enum mempool_row_role role)
{
	return row && row->kind == MEMPOOL_REGION && (row->qpn & role);
}

enum rmempool_verdict mempool_judge(const struct rmempool_request *q, const struct mempool_row *l,
				    const struct mempool_row *r)
{
	if (q->lkey && !fits(l, MEMPOOL_ROW_L))
		return RMEMPOOL_NO_KEY;
	if (q->rkey && !fits(r, MEMPOOL_ROW_R))
		return RMEMPOOL_NO_KEY;
	/* Both must belong to one registration; and a remote operation needs an R_Key. */
	if (q->lkey && q->rkey && l->parent != q->rkey)
		return RMEMPOOL_NO_KEY;
	if (!q->lkey && !q->rkey)
		return RMEMPOOL_NO_KEY;
	if (!q->rkey && (q->rights & MEMPOOL_REMOTE))
		return RMEMPOOL_NO_KEY;
	return judge_row(q, q->rkey ? r : l);
}

static __attribute__((noinline)) enum rmempool_verdict judge(const struct rmempool_image *image,
							     const struct rmempool_request *q)
{
	struct mempool_row l, r;
	bool has_r = q->rkey && !mempool_table_get(image->table, q->rkey, &r), has_l;

	if (q->lkey == q->rkey)
		return mempool_judge(q, has_r ? &r : NULL, has_r ? &r : NULL);
	has_l = q->lkey && !mempool_table_get(image->table, q->lkey, &l);
	return mempool_judge(q, has_l ? &l : NULL, has_r ? &r : NULL);
}

/* The fast check for a request whose length is not 0 and whose keys are one number. False: it
 * may still be permitted. */
static inline __attribute__((always_inline)) bool glance(const struct rmempool_image *image,
							 const struct rmempool_request *q)
{
	uint32_t n, seq;

	return mempool_glance(image->table, MEMPOOL_ONE, q->rkey, q->domain, q->addr, q->length,
			      q->rights, &n, &seq);
}

enum rmempool_verdict rmempool_match(const struct rmempool_image *image,
				     const struct rmempool_request *q)
{
	if (!q->length || (q->lkey == q->rkey && glance(image, q)))
		return RMEMPOOL_OK;
	return judge(image, q);
}

static __attribute__((noinline)) enum rmempool_verdict
look_up(const struct rmempool_image *image, const struct rmempool_request *q,
	struct rmempool_segment *segments, size_t size, unsigned max, unsigned *count)
{
	enum rmempool_verdict verdict = rmempool_match(image, q);

	*count = verdict == RMEMPOOL_OK
			 ? rmempool_translate(image, q->addr, q->length, segments, size, max)
			 : 0;
	return verdict;
}

/* Most devices give one number for both keys; then the fast check of each table is mostly
 * enough. */
enum rmempool_verdict rmempool_lookup(const struct rmempool_image *image,
				      const struct rmempool_request *q,
				      struct rmempool_segment *segments, size_t size, unsigned max,
				      unsigned *count)
{
	if (__builtin_expect(
		    max && size == sizeof(*segments) && q->lkey == q->rkey && glance(image, q) &&
			    mempool_translate_one(image->vapa, q->addr, q->length, segments),
		    1)) {
		*count = 1;
		return RMEMPOOL_OK;
	}
	return look_up(image, q, segments, size, max, count);
}
