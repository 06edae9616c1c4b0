/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory regions (IBTA vol. 1, 10.6, 11.2.8.2): rows of the registration table. Any address of the
 * process can be reached without pinning, so registering costs the same for any length.
 *
 * Deregistering and changing a region takes the engine lock: no copy and no bind is under way when
 * the verb returns.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hca/engine.h"
#include "hca/memory.h"

#define ACCESS_KNOWN                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |     \
	 IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE)
#define ACCESS_TABLE                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)

/* Remote write and atomics need local write (ibv_reg_mr(3)). */
int urxe_mr_access_check(unsigned access)
{
	if (access & ~ACCESS_KNOWN)
		return -EINVAL;
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	return 0;
}

/*
 * EINVAL comes for read-only mappings, and for those that cannot be populated at all (devices) or
 * from kernels that do not know the advice; of the latter two, reading says the same.
 */
static bool writable(void *page, size_t size)
{
	if (!madvise(page, size, MADV_POPULATE_WRITE))
		return true;
	if (errno == EINVAL)
		return madvise(page, size, MADV_POPULATE_READ) && errno == EINVAL;
	return errno != EFAULT && errno != ENOMEM;
}

/* Is [addr, addr + length) mapped, and writable where it must be? -EFAULT if not, as from pinning. */
static int check_mapped(void *addr, size_t length, unsigned access)
{
	uintptr_t page = sysconf(_SC_PAGESIZE);
	uintptr_t start = (uintptr_t)addr & ~(page - 1);
	uintptr_t last = ((uintptr_t)addr + length - 1) & ~(page - 1);
	int saved = errno, ret = 0;

	if (!length)
		return 0;
	if ((uintptr_t)addr + length < (uintptr_t)addr)
		return -EINVAL;
	/* Walks the mappings and does nothing else. */
	if (msync((void *)start, last + page - start, MS_ASYNC) && errno == ENOMEM)
		ret = -EFAULT;
	if (!ret && (access & IBV_ACCESS_LOCAL_WRITE) &&
	    !(writable((void *)start, page) && writable((void *)last, page)))
		ret = -EFAULT;
	errno = saved;
	return ret;
}

static void fill_row(struct mempool_row *row, const struct urxe_mr *mr)
{
	*row = (struct mempool_row){
		.iova = mr->iova,
		.length = mr->ibv.length,
		.va = (uintptr_t)mr->ibv.addr,
		.key = mr->ibv.lkey,
		.pd = to_pd(mr->ibv.pd)->number,
		.access = (mr->access & ACCESS_TABLE) |
			  (mr->access & IBV_ACCESS_ON_DEMAND ? 0 : URXE_RESIDENT),
		.kind = MEMPOOL_REGION,
	};
}

/* A new key: a random index that no other has on this host, and a random last byte. */
static uint32_t new_key(void)
{
	uint32_t index = urxe_segment_key_index_alloc(urxe_hca.seg);

	return index ? index << 8 : 0;
}

static struct cds_list_head *bucket(struct urxe_context *ctx, uint32_t lkey)
{
	return &ctx->mrs[(lkey >> 8) % URXE_MR_BUCKETS];
}

struct urxe_mr *urxe_mr_find(struct urxe_context *ctx, uint32_t lkey)
{
	struct urxe_mr *mr, *found = NULL;

	pthread_mutex_lock(&ctx->lock);
	cds_list_for_each_entry (mr, bucket(ctx, lkey), node)
		if (mr->ibv.lkey == lkey)
			found = mr;
	pthread_mutex_unlock(&ctx->lock);
	return found;
}

struct ibv_mr *urxe_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				 unsigned access)
{
	struct urxe_context *ctx = to_context(pd->context);
	struct mempool_row row;
	struct urxe_mr *mr;
	int ret = urxe_mr_access_check(access);

	if (!ret && ctx->stale)
		ret = -EIO;
	if (!ret && length && iova + length - 1 < iova)
		ret = -EINVAL;
	/* On demand means: whatever is there when it is used; all of the address space, even. */
	if (!ret && !(access & IBV_ACCESS_ON_DEMAND))
		ret = check_mapped(addr, length, access);
	mr = ret ? NULL : calloc(1, sizeof(*mr));
	if (!mr) {
		errno = ret ? -ret : ENOMEM;
		return NULL;
	}
	mr->ibv.context = pd->context;
	mr->ibv.pd = pd;
	mr->ibv.addr = addr;
	mr->ibv.length = length;
	mr->iova = access & IBV_ACCESS_ZERO_BASED ? 0 : iova;
	mr->access = access;
	mr->ibv.lkey = mr->ibv.rkey = mr->ibv.handle = new_key();
	fill_row(&row, mr);
	ret = mr->ibv.lkey ? mempool_table_add(urxe_hca.table, &row) : -ENOSPC;
	if (ret) {
		if (mr->ibv.lkey)
			urxe_segment_key_index_free(urxe_hca.seg, mr->ibv.lkey >> 8);
		free(mr);
		errno = ret == -ENOSPC ? ENOMEM : -ret;
		return NULL;
	}
	pthread_mutex_lock(&ctx->lock);
	cds_list_add(&mr->node, bucket(ctx, mr->ibv.lkey));
	pthread_mutex_unlock(&ctx->lock);
	atomic_fetch_add(&to_pd(pd)->users, 1);
	return &mr->ibv;
}

/* Takes its keys away. */
void urxe_mr_revoke(struct urxe_mr *mr)
{
	mempool_table_remove(urxe_hca.table, mr->ibv.lkey);
	urxe_segment_key_index_free(urxe_hca.seg, mr->ibv.lkey >> 8);
}

static void unlist(struct urxe_mr *mr)
{
	struct urxe_context *ctx = to_context(mr->ibv.context);

	pthread_mutex_lock(&ctx->lock);
	cds_list_del(&mr->node);
	pthread_mutex_unlock(&ctx->lock);
}

int urxe_dereg_mr(struct ibv_mr *ibv)
{
	struct urxe_mr *mr = to_mr(ibv);

	if (to_context(ibv->context)->stale) {
		unlist(mr);
	} else {
		/* Under the lock nobody is in the middle of a copy or a bind. */
		urxe_engine_lock();
		if (mr->windows) {
			urxe_engine_unlock();
			return EBUSY;
		}
		urxe_mr_revoke(mr);
		unlist(mr);
		urxe_engine_unlock();
	}
	atomic_fetch_sub(&to_pd(ibv->pd)->users, 1);
	free(mr);
	return 0;
}

/* Keeps its keys; what fails before anything changed leaves the old registration valid. */
int urxe_rereg_mr(struct ibv_mr *ibv, int flags, struct ibv_pd *pd, void *addr, size_t length,
		  int access)
{
	struct urxe_mr *mr = to_mr(ibv), next = *mr;
	struct mempool_row row;
	int ret = 0;

	if (to_context(ibv->context)->stale)
		return IBV_REREG_MR_ERR_CMD;
	if (flags & IBV_REREG_MR_CHANGE_ACCESS) {
		ret = urxe_mr_access_check(access);
		next.access = access;
	}
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		next.ibv.addr = addr;
		next.ibv.length = length;
		next.iova = next.access & IBV_ACCESS_ZERO_BASED ? 0 : (uintptr_t)addr;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD)
		next.ibv.pd = pd;
	if (!ret)
		ret = check_mapped(next.ibv.addr, next.ibv.length, next.access);
	if (ret) {
		errno = -ret;
		return IBV_REREG_MR_ERR_CMD;
	}
	fill_row(&row, &next);
	urxe_engine_lock();
	if (mr->windows) {
		urxe_engine_unlock();
		return IBV_REREG_MR_ERR_INPUT;
	}
	ret = mempool_table_replace(urxe_hca.table, ibv->lkey, &row);
	if (!ret) {
		if (next.ibv.pd != ibv->pd) {
			atomic_fetch_add(&to_pd(next.ibv.pd)->users, 1);
			atomic_fetch_sub(&to_pd(ibv->pd)->users, 1);
		}
		ibv->pd = next.ibv.pd;
		ibv->addr = next.ibv.addr;
		ibv->length = next.ibv.length;
		mr->access = next.access;
		mr->iova = next.iova;
	}
	urxe_engine_unlock();
	if (ret)
		errno = -ret;
	return ret ? IBV_REREG_MR_ERR_CMD : 0;
}

/* Advice to fetch pages ahead is given to the kernel. */
int urxe_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		   struct ibv_sge *sges, uint32_t n)
{
	bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	uintptr_t page = sysconf(_SC_PAGESIZE);

	if (advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return EOPNOTSUPP;
	if (flags & ~IBV_ADVISE_MR_FLAG_FLUSH)
		return EINVAL;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t va;
		uintptr_t start;

		if (mempool_table_match(urxe_hca.table, sges[i].lkey, to_pd(pd)->number, 0,
					sges[i].addr, sges[i].length,
					write ? MEMPOOL_LOCAL_WRITE : 0, false, &va) != MEMPOOL_OK)
			return ENOENT;
		start = va & ~(page - 1);
		if (advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
			madvise((void *)start, va + sges[i].length - start,
				write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
	}
	return 0;
}
