/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <string.h>

#include "hca/batch.h"
#include "hca/engine.h"
#include "hca/lost_memory.h"
#include "host/user_memory.h"

void urxe_batch_undo(struct urxe_batch *batch)
{
	batch->n--;
}

/* Where the copy for the packet just added is put. */
static uint8_t *stage_of(const struct urxe_batch *batch)
{
	return urxe_hca.stage[batch->n - 1];
}

static void put_staged(struct urxe_batch *batch, uint32_t len)
{
	*urxe_batch_iov(batch) = (struct iovec){stage_of(batch), len};
	urxe_batch_payload(batch, len ? 1 : 0, len);
}

void urxe_batch_stage(struct urxe_batch *batch, unsigned n, uint32_t len)
{
	uint8_t *to = stage_of(batch);
	struct iovec *iov = urxe_batch_iov(batch);
	size_t done = 0;

	for (unsigned i = 0; i < n; i++) {
		memcpy(to + done, iov[i].iov_base, iov[i].iov_len);
		done += iov[i].iov_len;
	}
	put_staged(batch, len);
}

bool urxe_batch_stage_checked(struct urxe_batch *batch, uint64_t va, uint32_t len)
{
	if (urxe_user_read(stage_of(batch), va, len))
		return false;
	put_staged(batch, len);
	return true;
}

unsigned urxe_batch_send(struct urxe_batch *batch)
{
	unsigned n = batch->n;
	int ret = 0;

	batch->n = 0;
	batch->iov_used = 0;
	if (n)
		ret = urxe_wire_send(urxe_hca.wire, batch->path, urxe_hca.tx, n);
	urxe_memory_lost(); /* what was not sent is built again, and finds a region without memory */
	/* A path that is broken loses everything: the retry count decides. */
	return ret < 0 ? n : (unsigned)ret;
}
