/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Device memory (ibv_alloc_dm(3)). An adapter in software has no memory on the board: its device
 * memory lies in the file of the context (context_file.h), which other contexts import and which
 * neighbours map, as they map pools of libmempool. Any thread.
 *
 * Copies must be aligned to 4 bytes, as mlx5 demands; programs written for that rely on the error.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hca/dm.h"

#define COPY_ALIGN 4

/* Where a copy begins; NULL: it is not aligned, or leaves the allocation. */
static uint8_t *place_of(struct ibv_dm *ibv, uint64_t offset, size_t length)
{
	struct urxe_dm *dm = to_dm(ibv);

	if (offset % COPY_ALIGN || length % COPY_ALIGN || offset > dm->length ||
	    length > dm->length - offset)
		return NULL;
	return dm->addr + offset;
}

static int copy_to(struct ibv_dm *ibv, uint64_t offset, const void *from, size_t length)
{
	uint8_t *at = place_of(ibv, offset, length);

	if (!at)
		return EINVAL;
	memcpy(at, from, length);
	return 0;
}

static int copy_from(void *to, struct ibv_dm *ibv, uint64_t offset, size_t length)
{
	uint8_t *at = place_of(ibv, offset, length);

	if (!at)
		return EINVAL;
	memcpy(to, at, length);
	return 0;
}

/* The object for an allocation that is there; NULL and errno. */
static struct ibv_dm *object_of(struct ibv_context *context, uint32_t handle)
{
	struct urxe_dm *dm = calloc(1, sizeof(*dm));
	void *addr;
	int ret;

	if (!dm)
		return NULL;
	ret = urxe_context_file_find_dm(&to_context(context)->file, handle, &addr, &dm->length);
	if (ret) {
		free(dm);
		return urxe_fail(-ret);
	}
	dm->addr = addr;
	dm->forks = urxe_forks;
	dm->ibv = (struct ibv_dm){
		.context = context,
		.memcpy_to_dm = copy_to,
		.memcpy_from_dm = copy_from,
		.handle = handle,
	};
	return &dm->ibv;
}

struct ibv_dm *urxe_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	struct urxe_context_file *file = &to_context(context)->file;
	struct ibv_dm *dm;
	int handle = -EINVAL;

	if (!urxe_context_here(context))
		return NULL;
	if (attr && !attr->comp_mask)
		handle = urxe_context_file_alloc_dm(file, attr->length, attr->log_align_req);
	if (handle < 0)
		return urxe_fail(-handle);
	dm = object_of(context, handle);
	if (!dm)
		urxe_context_file_free_dm(file, handle, &(struct urxe_use){0});
	return dm;
}

/* Also of one that was imported: it is gone for all processes that share it. The child of a fork
 * does not take its parent's. */
int urxe_free_dm(struct ibv_dm *ibv)
{
	struct urxe_context *ctx = to_context(ibv->context);
	struct urxe_dm *dm = to_dm(ibv);

	if (!urxe_inherited(dm->forks) &&
	    urxe_context_file_free_dm(&ctx->file, ibv->handle, &dm->regions) == -EBUSY)
		return EBUSY;
	free(dm);
	return 0;
}

struct ibv_dm *urxe_import_dm(struct ibv_context *context, uint32_t handle)
{
	return object_of(context, handle);
}

void urxe_unimport_dm(struct ibv_dm *ibv)
{
	free(to_dm(ibv));
}
