/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * CRC-32 of Ethernet (IEEE 802.3, 3.2.9) over bytes in memory. It is continued by its own result: 0
 * begins, and crc(crc(0, a), b) is that of a followed by b. Any thread may call it.
 */
#ifndef URXE_WIRE_CRC32_H
#define URXE_WIRE_CRC32_H

#include <stddef.h>
#include <stdint.h>

typedef uint32_t urxe_crc32_fn(uint32_t crc, const void *bytes, size_t len);

/* The fastest here, as urxe_crc32_choose() found. */
extern urxe_crc32_fn *urxe_crc32;

/* Measures which that is; to be called once, before any other thread uses urxe_crc32. */
void urxe_crc32_choose(void);

/* By carry-less multiplication where the processor has that, and by shifts. */
urxe_crc32_fn urxe_crc32_isal, urxe_crc32_shifts;

#endif
