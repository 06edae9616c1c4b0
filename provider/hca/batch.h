/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The packets that a requester or responder builds in one go, sent together. There is one batch,
 * under the engine lock: begin, add up to URXE_TX_BATCH packets, send.
 */
#ifndef URXE_HCA_BATCH_H
#define URXE_HCA_BATCH_H

#include "hca/engine.h"

#define URXE_BATCH_IOVS (sizeof(urxe_hca.iov) / sizeof(urxe_hca.iov[0]))

struct urxe_batch {
	const struct urxe_path *path;
	unsigned n;
	unsigned iov_used;
};

static inline void urxe_batch_begin(struct urxe_batch *batch, const struct urxe_path *path)
{
	batch->path = path;
	batch->n = 0;
	batch->iov_used = 0;
}

/* Room for a packet with up to URXE_MAX_SGE pieces, or NULL when the batch is full. */
static inline struct urxe_tx_packet *urxe_batch_add(struct urxe_batch *batch)
{
	struct urxe_tx_packet *pkt;

	if (batch->n == URXE_TX_BATCH || batch->iov_used + URXE_MAX_SGE > URXE_BATCH_IOVS)
		return NULL;
	pkt = &urxe_hca.tx[batch->n++];
	pkt->header_len = 0;
	pkt->iovcnt = 0;
	pkt->span = 1;
	pkt->refer = false;
	pkt->payload_len = 0;
	return pkt;
}

/* Takes back the packet just added. */
void urxe_batch_undo(struct urxe_batch *batch);
/* Where a packet just added may keep its pieces: URXE_MAX_SGE of them. */
static inline struct iovec *urxe_batch_iov(struct urxe_batch *batch)
{
	return &urxe_hca.iov[batch->iov_used];
}

/* Gives the packet just added its payload, as n pieces at urxe_batch_iov(). */
static inline void urxe_batch_payload(struct urxe_batch *batch, unsigned n, uint32_t len)
{
	struct urxe_tx_packet *pkt = &urxe_hca.tx[batch->n - 1];

	pkt->iov = urxe_batch_iov(batch);
	pkt->iovcnt = n;
	pkt->payload_len = len;
	batch->iov_used += n;
}

/* The same, from a private copy, for memory that may change before the packet is sent. */
void urxe_batch_stage(struct urxe_batch *batch, unsigned n, uint32_t len);
/* The same of len bytes at va, which may not be mapped: false then, and no payload. */
bool urxe_batch_stage_checked(struct urxe_batch *batch, uint64_t va, uint32_t len);
/* Sends and empties the batch: how many packets went out. */
unsigned urxe_batch_send(struct urxe_batch *batch);

#endif
