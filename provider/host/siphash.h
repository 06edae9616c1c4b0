/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * SipHash-2-4 (Aumasson and Bernstein, 2012): a hash with a 128-bit key, whose results cannot be
 * distinguished from random ones without the key. Pure functions, any thread.
 */
#ifndef URXE_HOST_SIPHASH_H
#define URXE_HOST_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t urxe_siphash(const uint64_t key[2], const void *data, size_t len);

#endif
