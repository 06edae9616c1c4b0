/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <string.h>

#include "hca/batch.h"
#include "hca/engine.h"
#include "hca/lost_memory.h"

void urxe_batch_undo(struct urxe_batch *batch)
{
	batch->n--;
}

void urxe_batch_stage(struct urxe_batch *batch, unsigned n, uint32_t len)
{
	uint8_t *to = urxe_hca.stage[batch->n - 1];
	struct iovec *iov = urxe_batch_iov(batch);
	size_t done = 0;

	for (unsigned i = 0; i < n; i++) {
		memcpy(to + done, iov[i].iov_base, iov[i].iov_len);
		done += iov[i].iov_len;
	}
	iov[0].iov_base = to;
	iov[0].iov_len = done;
	urxe_batch_payload(batch, n ? 1 : 0, len);
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
