/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Receive hashing (ibv_create_qp_ex(3), IBV_QP_INIT_ATTR_RX_HASH): Toeplitz over the addresses and
 * ports of a frame, as Microsoft's RSS defines it. Pure functions.
 */
#ifndef URXE_HCA_RSS_H
#define URXE_HCA_RSS_H

#include <stdbool.h>

#include "hca/frame.h"

#define URXE_RSS_KEY_LEN 40
/* What it may be made of: enum ibv_rx_hash_fields. */
#define URXE_RSS_FIELDS ((uint64_t)0x1ff | (uint64_t)IBV_RX_HASH_INNER)

/* EINVAL: another function, key length, or combination of fields. */
int urxe_rss_check(const struct ibv_rx_hash_conf *conf);
/*
 * The hash of a frame over the fields (enum ibv_rx_hash_fields) that it has: a TCP port of a UDP
 * frame counts as not there. 0 for a frame that has none of them.
 */
uint32_t urxe_rss_hash(const uint8_t key[URXE_RSS_KEY_LEN], uint64_t fields,
		       const struct urxe_frame *frame);

#endif
