/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <stdlib.h>

#include "hca/buffer.h"
#include "hca/hca.h"

void *urxe_buffer_alloc(struct ibv_pd *pd, size_t size, enum urxe_buffer_type type, bool *custom)
{
	const struct urxe_pd *parent = pd ? to_pd(pd) : NULL;
	void *at = IBV_ALLOCATOR_USE_DEFAULT;

	if (parent && parent->alloc)
		at = parent->alloc(pd, parent->pd_context, size, URXE_BUFFER_ALIGN, type);
	*custom = at != IBV_ALLOCATOR_USE_DEFAULT;
	return *custom ? at : malloc(size);
}

void urxe_buffer_free(struct ibv_pd *pd, void *at, enum urxe_buffer_type type, bool custom)
{
	const struct urxe_pd *parent = pd ? to_pd(pd) : NULL;

	if (!custom)
		free(at);
	else if (at)
		parent->free(pd, parent->pd_context, at, type);
}
