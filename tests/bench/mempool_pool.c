/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Figures of libmempool: mempool_pool WHAT, each line two figures, ours and what it is compared
 * with.
 *
 *   entries	entries of the VA→PA table for 1 GiB in 2 MiB pages that lie anywhere, and of a table
 *		page by page
 *   hits	percent of random 4 KiB accesses over 512 MiB that a cache of 256 entries answers, with
 *		either table; then over 1 GiB, and the part of the entries that it can hold
 *   lookup	ns of a permission match and translation with 10,000 regions, each waiting for the one
 *		before
 *   alloc	ns of rmempool_alloc and rmempool_free of 4 KiB
 *   register DEVICE	ns of rmempool_alloc, rmempool_register and rmempool_free of 4 KiB, and of ibv_reg_mr
 *		and ibv_dereg_mr alone
 *   malloc DEVICE	ns of malloc, ibv_reg_mr, ibv_dereg_mr and free of 4 KiB
 *
 * Where pages lie in physical memory is made up for the first two: no two neighbours are neighbours
 * there, which is the worst case, and so the figures need neither huge pages nor rights. One
 * thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/verbs.h>

#include "mempool/image.h"
#include "measure.h"

#define MIB	(1ul << 20)
#define BASE	0x7f0000000000ull
#define LOOKUPS 4000000
#define ROUNDS	1000000
#define REGIONS 10000
#define ACCESS	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static uint64_t seed = 88172645463325252ull;

static uint64_t next_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

/* An image of a pool of that size, all of it one region, in pages that are scattered. */
static void make_image(struct rmempool_image *image, size_t bytes, size_t page)
{
	uint32_t pages = bytes / page, count = 0;
	struct mempool_pa_run *runs = calloc(pages, sizeof(*runs));
	struct mempool_row row = {
		.iova = BASE,
		.length = bytes,
		.va = BASE,
		.key = 0x1200,
		.pd = 1,
		.access = RMEMPOOL_REMOTE_WRITE,
		.qpn = 3, /* L_Key and R_Key */
		.parent = 0x1200,
		.kind = MEMPOOL_REGION,
	};

	NEED(runs && !mempool_image_create(BASE, 21, bytes / (2 * MIB), pages, 16, image));
	for (uint32_t i = 0; i < pages; i++)
		count = mempool_pa_append(
			runs, count,
			(struct mempool_pa_run){BASE + i * page, (2ul * (i ^ 1) + 1) * page, page});
	mempool_vapa_set(image->vapa, runs, count);
	NEED(!mempool_table_add(image->table, &row));
	free(runs);
}

static void entries(void)
{
	struct rmempool_image huge, small;

	make_image(&huge, 1024 * MIB, 2 * MIB);
	make_image(&small, 1024 * MIB, 4096);
	printf("%u %u\n", mempool_vapa_count(huge.vapa), mempool_vapa_count(small.vapa));
	mempool_image_destroy(&huge);
	mempool_image_destroy(&small);
}

static double hit_rate(size_t bytes, size_t page)
{
	struct rmempool_cache_statistics before, after;
	struct rmempool_segment segment;
	struct rmempool_cache *cache;
	struct rmempool_image image;
	unsigned i, count;

	make_image(&image, bytes, page);
	NEED(!rmempool_cache_create(&image, 256, &cache));
	for (i = 0; i < 200000; i++) {
		struct rmempool_request q = {
			.rkey = 0x1200,
			.domain = 1,
			.rights = RMEMPOOL_REMOTE_WRITE,
			.addr = BASE + next_random() % (bytes / 4096) * 4096,
			.length = 4096,
		};

		if (i == 100000)
			rmempool_cache_query(cache, &before, sizeof(before));
		NEED(!rmempool_cache_lookup(cache, &q, &segment, sizeof(segment), 1, &count) &&
		     count == 1);
	}
	rmempool_cache_query(cache, &after, sizeof(after));
	rmempool_cache_destroy(cache);
	mempool_image_destroy(&image);
	return (after.run_hits - before.run_hits) / 1000.0;
}

static void hits(void)
{
	printf("%.3f %.3f\n", hit_rate(512 * MIB, 2 * MIB), hit_rate(512 * MIB, 4096));
	printf("%.3f %.3f\n", hit_rate(1024 * MIB, 2 * MIB), 256 / 512.0 * 100);
}

static void lookup(void)
{
	static uint32_t keys[REGIONS];
	struct rmempool_image image;
	struct rmempool_segment segment;
	unsigned i, at = 0, count;
	double start;

	NEED(!mempool_image_create(BASE, 21, 512, 512, REGIONS, &image));
	struct mempool_pa_run run = {BASE, MEMPOOL_PA_UNKNOWN, 1024 * MIB};

	mempool_vapa_set(image.vapa, &run, 1);
	for (i = 0; i < REGIONS; i++) {
		struct mempool_row row = {
			.iova = BASE + 4096,
			.length = 4096,
			.pd = 1,
			.access = RMEMPOOL_REMOTE_WRITE,
			.qpn = 3,
			.kind = MEMPOOL_REGION,
		};

		row.va = row.iova;
		do {
			row.parent = row.key = next_random() >> 32;
		} while (mempool_table_add(image.table, &row));
		keys[i] = row.key;
	}
	for (i = REGIONS - 1; i; i--) { /* not in the order of the rows */
		unsigned j = next_random() % (i + 1);
		uint32_t key = keys[i];

		keys[i] = keys[j];
		keys[j] = key;
	}
	start = now_ns();
	for (i = 0; i < LOOKUPS; i++) {
		struct rmempool_request q = {keys[at],	  keys[at], 1, RMEMPOOL_REMOTE_WRITE,
					     BASE + 4200, 64};

		NEED(!rmempool_lookup(&image, &q, &segment, sizeof(segment), 1, &count));
		/* The next one depends on the answer. */
		at += 1 + (segment.length - 64);
		if (at >= REGIONS)
			at = 0;
	}
	printf("%.2f\n", (now_ns() - start) / LOOKUPS);
	mempool_image_destroy(&image);
}

static void alloc(void)
{
	struct rmempool_buffer b;
	struct rmempool *pool;
	double start;

	NEED(!rmempool_create(NULL, &pool));
	start = now_ns();
	for (unsigned i = 0; i < ROUNDS; i++)
		NEED(!rmempool_alloc(pool, 4096, 0, &b, sizeof(b)) && !rmempool_free(pool, b.addr));
	printf("%.2f\n", (now_ns() - start) / ROUNDS);
	NEED(!rmempool_destroy(pool));
}

static struct ibv_pd *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	NEED(ctx);
	ibv_free_device_list(list);
	return ibv_alloc_pd(ctx);
}

static void registration(const char *device, unsigned rounds)
{
	struct ibv_pd *pd = open_device(device);
	struct rmempool_buffer b;
	struct rmempool_mr *mr;
	struct rmempool *pool;
	struct ibv_mr *ibv;
	double start, ours;

	NEED(pd && !rmempool_create(NULL, &pool));
	start = now_ns();
	for (unsigned i = 0; i < rounds; i++)
		NEED(!rmempool_alloc(pool, 4096, 0, &b, sizeof(b)) &&
		     !rmempool_register(pool, pd, b.addr, 4096, ACCESS, &mr) &&
		     !rmempool_free(pool, b.addr));
	ours = (now_ns() - start) / rounds;
	NEED(!rmempool_alloc(pool, 4096, 0, &b, sizeof(b)));
	start = now_ns();
	for (unsigned i = 0; i < rounds; i++) {
		ibv = ibv_reg_mr(pd, b.addr, 4096, ACCESS);
		NEED(ibv && !ibv_dereg_mr(ibv));
	}
	printf("%.1f %.1f\n", ours, (now_ns() - start) / rounds);
	NEED(!rmempool_free(pool, b.addr) && !rmempool_forget(pool, pd));
	NEED(!rmempool_destroy(pool));
}

static void plain(const char *device, unsigned rounds)
{
	struct ibv_pd *pd = open_device(device);
	struct ibv_mr *mr;
	double start;
	char *p;

	NEED(pd);
	start = now_ns();
	for (unsigned i = 0; i < rounds; i++) {
		p = malloc(4096);
		NEED(p);
		*(volatile char *)p = 1;
		mr = ibv_reg_mr(pd, p, 4096, ACCESS);
		NEED(mr && !ibv_dereg_mr(mr));
		free(p);
	}
	printf("%.1f\n", (now_ns() - start) / rounds);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "entries"))
		entries();
	else if (argc == 2 && !strcmp(argv[1], "hits"))
		hits();
	else if (argc == 2 && !strcmp(argv[1], "lookup"))
		lookup();
	else if (argc == 2 && !strcmp(argv[1], "alloc"))
		alloc();
	else if (argc == 3 && !strcmp(argv[1], "register"))
		registration(argv[2], 200000);
	else if (argc == 3 && !strcmp(argv[1], "malloc"))
		plain(argv[2], 1000);
	else
		return fprintf(stderr, "usage: mempool_pool entries|hits|lookup|alloc|register "
				       "DEVICE|malloc DEVICE\n"),
		       2;
	return 0;
}
