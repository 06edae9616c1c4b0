/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Buffers that are the driver's to allocate (ibv_alloc_buf(3)), and ibv_reg_mr_ex(3), which
 * registers them and other memory. They are younger than the installed verbs.h, so they are
 * declared here.
 *
 * Called by any thread of the program; the set of buffers has a lock of its own.
 */
#include <errno.h>
#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "hca/verbs.h"
#include "host/mutex.h"
#include "preload/preload.h"

/* struct ibv_mr_init_attr of newer headers. comp_mask says which fields are given. */
#define MR_INIT_IOVA (1 << 0)
#define MR_INIT_ADDR (1 << 1)
#define MR_INIT_BUF  (1 << 5)

struct mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah;
	struct ibv_buf *buf;
};

struct ibv_mr_init_attr;
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *init);

/* What a handle points to is libibverbs' own; whether one is ours is told by the set of them, by
 * address. */
struct ibv_buf {
	void *addr;
	size_t size;
	struct ibv_pd *pd;
};

static URXE_MUTEX(bufs_lock);
static void *bufs; /* of tsearch(3) */

static int by_address(const void *a, const void *b)
{
	return a < b ? -1 : a > b;
}

static bool buf_is_ours(const struct ibv_buf *buf)
{
	bool found;

	pthread_mutex_lock(&bufs_lock);
	found = tfind(buf, &bufs, by_address);
	pthread_mutex_unlock(&bufs_lock);
	return found;
}

static struct ibv_buf *alloc_buf(struct ibv_pd *pd, size_t size)
{
	struct ibv_buf *buf = calloc(1, sizeof(*buf));
	void *known = NULL;
	int ret;

	if (!buf)
		return NULL;
	buf->pd = pd;
	buf->size = size;
	ret = posix_memalign(&buf->addr, sysconf(_SC_PAGESIZE), size);
	if (ret) {
		free(buf);
		errno = ret;
		return NULL;
	}
	pthread_mutex_lock(&bufs_lock);
	known = tsearch(buf, &bufs, by_address);
	pthread_mutex_unlock(&bufs_lock);
	if (known)
		return buf;
	free(buf->addr);
	free(buf);
	errno = ENOMEM;
	return NULL;
}

static void free_buf(struct ibv_buf *buf)
{
	pthread_mutex_lock(&bufs_lock);
	tdelete(buf, &bufs, by_address);
	pthread_mutex_unlock(&bufs_lock);
	free(buf->addr);
	free(buf);
}

/* A piece of such a buffer, with the protection domain that it was allocated from. */
static struct ibv_mr *reg_buf(struct ibv_pd *pd, const struct mr_init_attr *init)
{
	const struct ibv_buf *buf = init->buf;
	uintptr_t addr = (uintptr_t)init->addr;

	if ((init->comp_mask & ~(uint64_t)MR_INIT_IOVA) != (MR_INIT_ADDR | MR_INIT_BUF) ||
	    !buf_is_ours(buf) || buf->pd != pd || addr - (uintptr_t)buf->addr > buf->size ||
	    init->length > buf->size - (addr - (uintptr_t)buf->addr)) {
		errno = EINVAL;
		return NULL;
	}
	return urxe_reg_mr_iova2(pd, init->addr, init->length,
				 init->comp_mask & MR_INIT_IOVA ? init->iova : addr, init->access);
}

static struct ibv_mr *reg_mr_ex(struct ibv_pd *pd, const struct mr_init_attr *init)
{
	uint64_t iova = (uintptr_t)init->addr;

	if (init->comp_mask & MR_INIT_BUF)
		return reg_buf(pd, init);
	/* The other bits ask for a dmabuf or a DMA handle. */
	if (!(init->comp_mask & MR_INIT_ADDR) ||
	    (init->comp_mask & ~(uint64_t)(MR_INIT_ADDR | MR_INIT_IOVA))) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (init->comp_mask & MR_INIT_IOVA)
		iova = init->iova;
	return urxe_reg_mr_iova2(pd, init->addr, init->length, iova, init->access);
}

URXE_SERVED_VERB(struct ibv_mr *, ibv_reg_mr_ex, "IBVERBS_1.15",
		 (struct ibv_pd * pd, struct ibv_mr_init_attr *init), (pd, init),
		 urxe_is_context(pd->context), reg_mr_ex(pd, (const struct mr_init_attr *)init),
		 URXE_NOBODY_NULL)

void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
void ibv_free_buf(struct ibv_buf *buf);
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
			      int access);

static void *alloc_buf_at(struct ibv_pd *pd, size_t size, struct ibv_buf **buf)
{
	struct ibv_buf *ours = alloc_buf(pd, size);

	if (ours)
		*buf = ours;
	return ours ? ours->addr : NULL;
}

static struct ibv_mr *reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
				 int access)
{
	const struct mr_init_attr init = {.length = length,
					  .access = access,
					  .comp_mask = MR_INIT_ADDR | MR_INIT_BUF,
					  .addr = addr,
					  .buf = buf};

	return reg_mr_ex(pd, &init);
}

URXE_SERVED_VERB(void *, ibv_alloc_buf, "IBVERBS_1.17",
		 (struct ibv_pd * pd, size_t size, struct ibv_buf **buf), (pd, size, buf),
		 urxe_is_context(pd->context), alloc_buf_at(pd, size, buf), URXE_NOBODY_NULL)

URXE_SERVED_VERB(void, ibv_free_buf, "IBVERBS_1.17", (struct ibv_buf * buf), (buf),
		 buf_is_ours(buf), free_buf(buf), (void)0)

/* Ours are plain memory, of which there is no dmabuf. */
#define NO_DMABUF (errno = ENODATA, -1)

URXE_SERVED_VERB(int, ibv_export_buf_dmabuf_fd, "IBVERBS_1.18", (struct ibv_buf * buf), (buf),
		 buf_is_ours(buf), NO_DMABUF, NO_DMABUF)

URXE_SERVED_VERB(struct ibv_mr *, ibv_reg_buf_mr, "IBVERBS_1.17",
		 (struct ibv_pd * pd, struct ibv_buf *buf, void *addr, size_t length, int access),
		 (pd, buf, addr, length, access), urxe_is_context(pd->context),
		 reg_buf_mr(pd, buf, addr, length, access), URXE_NOBODY_NULL)
