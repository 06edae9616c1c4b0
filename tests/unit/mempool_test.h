/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Helpers of the tests of libmempool: random numbers, pools, and a device that only gives keys.
 */
#ifndef URXE_TESTS_MEMPOOL_TEST_H
#define URXE_TESTS_MEMPOOL_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "mempool/hold.h"

#define KIB	     1024ul
#define MIB	     (1024 * KIB)
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static inline uint64_t next_random(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	*state = x;
	return x * 0x2545f4914f6cdd1dull;
}

static inline struct rmempool *make_pool(size_t bytes, size_t limit, unsigned flags)
{
	struct rmempool_attr attr;
	struct rmempool *pool;

	rmempool_attr_init(&attr, sizeof(attr));
	attr.bytes = bytes;
	attr.limit = limit;
	attr.flags = flags;
	attr.max_registrations = 4096;
	assert_int_equal(rmempool_create(&attr, &pool), 0);
	return pool;
}

static inline struct rmempool_statistics query(struct rmempool *pool)
{
	struct rmempool_statistics s;

	rmempool_query(pool, &s, sizeof(s));
	return s;
}

/* The device: what it has been told, and what it is to do. Keys are a count, shuffled. */
struct fake_device {
	_Atomic unsigned live;	      /* registrations */
	_Atomic unsigned calls;	      /* of ibv_reg_mr() */
	_Atomic uint32_t last;	      /* number of the last key */
	bool two_keys;		      /* L_Key and R_Key differ */
	bool no_r_key;		      /* nor is there an R_Key without remote rights */
	bool holds;		      /* it is one in software, and keeps what is registered */
	_Atomic int fail;	      /* errno of ibv_reg_mr() */
	_Atomic int fail_dereg;	      /* and of ibv_dereg_mr() */
	_Atomic unsigned passes;      /* that many calls of ibv_dereg_mr() succeed before */
	void (*_Atomic within)(void); /* called once, in ibv_reg_mr() */
};

extern struct fake_device fake;
extern struct ibv_pd fake_pds[3]; /* two of one device, one of another */

static inline int fake_reset(void **state)
{
	memset(&fake, 0, sizeof(fake));
	return 0;
}

#endif
