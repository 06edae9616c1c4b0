/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The shim on the wire, the key of a flow and its number. Functions without state.
 */
#include "reorder/reorder.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

static_assert(sizeof(struct reorder_key) == 40 && sizeof(struct reorder_shim) == 16 &&
		      sizeof(struct reorder_packet) == 40 &&
		      offsetof(struct reorder_packet, key) == 24,
	      "part of the ABI");

#define VERSION	  0x10
#define WAIT_UNIT 16384 /* ps: what the smallest step of a coded wait stands for */

static uint64_t mix(uint64_t x)
{
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93u;
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93u;
	return x ^ x >> 32;
}

void reorder_key(struct reorder_key *key, const void *source, const void *destination,
		 uint16_t sport, uint16_t dport, uint32_t qpn)
{
	memcpy(key->word, source, 16);
	memcpy(key->word + 2, destination, 16);
	key->word[4] = (uint64_t)sport << 48 | (uint64_t)dport << 32 | (qpn & 0xffffff);
}

uint32_t reorder_id(const struct reorder_key *key)
{
	uint64_t hash = 0x9e3779b97f4a7c15u;

	for (int i = 0; i < 5; i++)
		hash = mix(hash ^ key->word[i]) + hash * 31;
	hash = mix(hash);
	return (uint32_t)(hash >> 32);
}

static void put16(uint8_t *bytes, uint16_t value)
{
	bytes[0] = value >> 8;
	bytes[1] = value & 0xff;
}

static uint16_t get16(const uint8_t *bytes)
{
	return (uint16_t)(bytes[0] << 8 | bytes[1]);
}

size_t reorder_shim_encode(const struct reorder_shim *shim, uint8_t *bytes)
{
	bytes[0] = VERSION | (shim->flags & 0xf);
	bytes[1] = shim->path;
	bytes[2] = shim->old_path;
	bytes[3] = shim->epoch;
	put16(bytes + 4, shim->sequence);
	bytes[6] = shim->fb_path;
	bytes[7] = shim->fb_wait;
	put16(bytes + 8, shim->t_tx >> 16);
	put16(bytes + 10, shim->t_tx & 0xffff);
	if (shim->flags & REORDER_REROUTED) {
		put16(bytes + 12, shim->back);
		put16(bytes + 14, (uint16_t)shim->ago);
	}
	return reorder_shim_size(shim);
}

int reorder_shim_decode(struct reorder_shim *shim, const uint8_t *bytes, size_t size)
{
	memset(shim, 0, sizeof(*shim));
	if (size < REORDER_SHIM)
		return -EINVAL;
	if ((bytes[0] & 0xf0) != VERSION)
		return -EPROTO;
	shim->flags = bytes[0] & 0xf;
	if (size < reorder_shim_size(shim))
		return -EINVAL;
	shim->path = bytes[1];
	shim->old_path = bytes[2];
	shim->epoch = bytes[3];
	shim->sequence = get16(bytes + 4);
	shim->fb_path = bytes[6];
	shim->fb_wait = bytes[7];
	shim->t_tx = (uint32_t)get16(bytes + 8) << 16 | get16(bytes + 10);
	if (shim->flags & REORDER_REROUTED) {
		shim->back = get16(bytes + 12);
		shim->ago = (int16_t)get16(bytes + 14);
	}
	return (int)reorder_shim_size(shim);
}

/* Exponent 0 counts in units; above it, 16 to 31 times a power of two. */
uint8_t reorder_wait_encode(int64_t wait)
{
	uint64_t units = wait > 0 ? (uint64_t)wait / WAIT_UNIT : 0;
	unsigned exponent = 0;

	if (units < 16)
		return (uint8_t)units;
	while (units >= 32) {
		units >>= 1;
		exponent++;
	}
	if (exponent >= 15)
		return 255;
	return (uint8_t)((exponent + 1) << 4 | (units & 15));
}

int64_t reorder_wait_decode(uint8_t code)
{
	unsigned exponent = code >> 4;

	if (!exponent)
		return (int64_t)code * WAIT_UNIT;
	return ((int64_t)(16 | (code & 15)) << (exponent - 1)) * WAIT_UNIT;
}
