/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Windows towards peer addresses (peer.c). Under the engine lock. */
#ifndef URXE_HCA_PEER_H
#define URXE_HCA_PEER_H

#include <stdbool.h>
#include <stdint.h>

struct urxe_link_addr;
struct urxe_peer;
struct urxe_qp;

struct urxe_peer *urxe_peer_get(const struct urxe_link_addr *addr);
void urxe_peer_put(struct urxe_peer *peer);
bool urxe_peer_admits(struct urxe_qp *qp);
void urxe_peer_sent(struct urxe_qp *qp, uint64_t bytes);
void urxe_peer_acked(struct urxe_qp *qp, uint64_t bytes);
void urxe_peer_lost(struct urxe_qp *qp, bool timeout);
void urxe_peer_forget(struct urxe_qp *qp); /* what this QP has in flight is no more */
void urxe_peer_wait(struct urxe_qp *qp);

#endif
