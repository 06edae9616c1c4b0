/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A device that only gives keys, for the tests of libmempool: it takes the place of libibverbs. Any
 * thread.
 */
#include "mempool_test.h"

struct fake_device fake;

static struct ibv_context contexts[2];
struct ibv_pd fake_pds[3] = {
	{.context = &contexts[0]}, {.context = &contexts[0]}, {.context = &contexts[1]}};

static uint32_t next_key(void)
{
	/* A permutation of 24 bits, and some byte. */
	uint32_t n = atomic_fetch_add(&fake.last, 1) + 1;

	return (n * 0x9e3779b1u & 0xffffff) << 8 | (n & 0xff);
}

struct fake_mr {
	struct ibv_mr ibv;
	struct rmempool_hold hold;
	bool held;
};

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct fake_mr *fake_mr;
	void (*within)(void) = atomic_exchange(&fake.within, NULL);
	struct ibv_mr *mr;

	if (within)
		within();
	if (fake.fail) {
		errno = fake.fail;
		return NULL;
	}
	fake_mr = calloc(1, sizeof(*fake_mr));
	if (!fake_mr)
		return NULL;
	fake_mr->held =
		fake.holds && !rmempool_hold(addr, length, &fake_mr->hold, sizeof(fake_mr->hold));
	mr = &fake_mr->ibv;
	mr->pd = pd;
	mr->context = pd->context;
	mr->addr = addr;
	mr->length = length;
	mr->lkey = next_key();
	mr->rkey = fake.two_keys ? next_key() : mr->lkey;
	if (fake.no_r_key && !(access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
					 IBV_ACCESS_REMOTE_ATOMIC)))
		mr->rkey = 0;
	atomic_fetch_add(&fake.calls, 1);
	atomic_fetch_add(&fake.live, 1);
	return mr;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	struct fake_mr *fake_mr = (struct fake_mr *)mr;

	if (fake.fail_dereg && !(fake.passes && fake.passes--))
		return fake.fail_dereg;
	if (fake_mr->held)
		rmempool_release(&fake_mr->hold);
	atomic_fetch_sub(&fake.live, 1);
	free(fake_mr);
	return 0;
}
