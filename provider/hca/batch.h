/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The packets that a requester or responder builds in one go, sent together. There is one batch,
 * under the engine lock: begin, add up to URXE_TX_BATCH packets, send.
 */
#ifndef URXE_HCA_BATCH_H
#define URXE_HCA_BATCH_H

#include "hca/hca.h"

struct urxe_batch {
	const struct urxe_path *path;
	unsigned n;
	unsigned iov_used;
};

void urxe_batch_begin(struct urxe_batch *batch, const struct urxe_path *path);
/* Room for a packet with up to URXE_MAX_SGE pieces, or NULL when the batch is full. */
struct urxe_tx_packet *urxe_batch_add(struct urxe_batch *batch);
/* Takes back the packet just added. */
void urxe_batch_undo(struct urxe_batch *batch);
/* Where a packet just added may keep its pieces: URXE_MAX_SGE of them. */
struct iovec *urxe_batch_iov(struct urxe_batch *batch);
/* Gives the packet just added its payload, as n pieces at urxe_batch_iov(). */
void urxe_batch_payload(struct urxe_batch *batch, unsigned n, uint32_t len);
/* The same, from a private copy, for memory that may change before the packet is sent. */
void urxe_batch_stage(struct urxe_batch *batch, unsigned n, uint32_t len);
/* Sends and empties the batch: how many packets went out. */
unsigned urxe_batch_send(struct urxe_batch *batch);

#endif
