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

static pthread_mutex_t bufs_lock = PTHREAD_MUTEX_INITIALIZER;
static void *bufs; /* of tsearch(3) */

void urxe_bufs_forked(void)
{
	pthread_mutex_init(&bufs_lock, NULL);
}

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

URXE_VERB(ibv_reg_mr_ex, "IBVERBS_1.15")

URXE_EXPORT struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *init)
{
	__typeof__(ibv_reg_mr_ex) *next;

	if (urxe_is_context(pd->context))
		return reg_mr_ex(pd, (const struct mr_init_attr *)init);
	next = urxe_verb_next(&verb_ibv_reg_mr_ex);
	return next ? next(pd, init) : (errno = ENOSYS, NULL);
}

void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
void ibv_free_buf(struct ibv_buf *buf);
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
			      int access);

URXE_VERB(ibv_alloc_buf, "IBVERBS_1.17")
URXE_VERB(ibv_free_buf, "IBVERBS_1.17")
URXE_VERB(ibv_export_buf_dmabuf_fd, "IBVERBS_1.18")
URXE_VERB(ibv_reg_buf_mr, "IBVERBS_1.17")

URXE_EXPORT void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf)
{
	__typeof__(ibv_alloc_buf) *next;

	if (urxe_is_context(pd->context)) {
		struct ibv_buf *ours = alloc_buf(pd, size);

		if (ours)
			*buf = ours;
		return ours ? ours->addr : NULL;
	}
	next = urxe_verb_next(&verb_ibv_alloc_buf);
	return next ? next(pd, size, buf) : (errno = ENOSYS, NULL);
}

URXE_EXPORT void ibv_free_buf(struct ibv_buf *buf)
{
	__typeof__(ibv_free_buf) *next;

	if (buf_is_ours(buf)) {
		free_buf(buf);
		return;
	}
	next = urxe_verb_next(&verb_ibv_free_buf);
	if (next)
		next(buf);
}

/* Ours are plain memory, of which there is no dmabuf. */
URXE_EXPORT int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf)
{
	__typeof__(ibv_export_buf_dmabuf_fd) *next = NULL;

	if (!buf_is_ours(buf))
		next = urxe_verb_next(&verb_ibv_export_buf_dmabuf_fd);
	return next ? next(buf) : (errno = ENODATA, -1);
}

URXE_EXPORT struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr,
					  size_t length, int access)
{
	const struct mr_init_attr init = {.length = length,
					  .access = access,
					  .comp_mask = MR_INIT_ADDR | MR_INIT_BUF,
					  .addr = addr,
					  .buf = buf};
	__typeof__(ibv_reg_buf_mr) *next;

	if (urxe_is_context(pd->context))
		return reg_mr_ex(pd, &init);
	next = urxe_verb_next(&verb_ibv_reg_buf_mr);
	return next ? next(pd, buf, addr, length, access) : (errno = ENOSYS, NULL);
}
