/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What lidtrack-peers and lidtrack-guest say to each other, by a socket that no move touches: what
 * a connection manager would exchange, and whether what was written has arrived.
 *
 * Each peer has a slot of the guest's memory, which it writes whole, by RDMA:
 *
 *	round u64 | peer u32 | SLOT_WORDS words that follow from both | FNV-1a of all before, u64
 */
#ifndef EXAMPLES_CROWD_H
#define EXAMPLES_CROWD_H

#include <stdint.h>

#define SLOT_WORDS 60

struct slot {
	uint64_t round;
	uint32_t peer;
	uint32_t words[SLOT_WORDS + 1];
	uint64_t sum;
};

enum crowd_ask {
	CROWD_WHO,     /* the guest's GUID, and which life of its adapter this is */
	CROWD_CONNECT, /* a QP for a peer's */
	CROWD_ARRIVED, /* how many slots are whole, of that round and their peer's */
};

struct crowd_request {
	uint32_t ask;
	uint32_t peer; /* CROWD_ARRIVED: how many */
	uint32_t qpn;
	uint32_t lid;
	uint64_t round;
};

struct crowd_answer {
	uint64_t guid;
	uint64_t life;
	uint64_t address; /* of the peer's slot */
	uint32_t rkey;
	uint32_t qpn; /* 0: it could not be done */
	uint32_t arrived;
	uint32_t reserved;
};

static inline uint64_t slot_sum(const struct slot *slot)
{
	const uint8_t *at = (const uint8_t *)slot, *end = (const uint8_t *)&slot->sum;
	uint64_t sum = 0xcbf29ce484222325ull;

	while (at < end)
		sum = (sum ^ *at++) * 0x100000001b3ull;
	return sum;
}

static inline void slot_fill(struct slot *slot, uint32_t peer, uint64_t round)
{
	slot->round = round;
	slot->peer = peer;
	for (unsigned i = 0; i <= SLOT_WORDS; i++)
		slot->words[i] = (uint32_t)(round * 2654435761u + peer * 40503u + i);
	slot->sum = slot_sum(slot);
}

#endif
