/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The PathRecord on the wire and in the table (IBTA vol. 1, 15.2.5.16), and keys:
 *
 *	 0 ServiceID	 8 DGID		24 SGID		40 DLID		42 SLID
 *	44 raw traffic 1 bit, reserved 3, flow label 20, hop limit 8
 *	48 TClass	49 reversible 1, number of paths 7	50 P_Key
 *	52 QoS class 12, SL 4	54 MTU	55 rate	56 lifetime (a selector of 2 bits each)
 *	57 preference	58 reserved, 6 bytes: raised by the SM that wants paths cached
 *
 * Pure functions: any thread, no locks.
 */
#ifndef SACACHE_RECORD_H
#define SACACHE_RECORD_H

#include <endian.h>
#include <string.h>

#include "libsacache/sacache.h"

#define SA_RECORD_SIZE	   64
#define SA_RECORD_RESERVED 58

/* A key as the table and the client use it: components outside the mask are 0. -EINVAL. */
int sa_key_normalize(const struct sacache_key *key, struct sacache_key *out);
/* The same without a required destination: the query for a table. */
int sa_key_normalize_table(const struct sacache_key *key, struct sacache_key *out);
/* The key that finds a path, with that mask of GIDs, LIDs, P_Key and SL. -EINVAL: another mask. */
int sa_key_of_path(const struct sacache_path *path, uint32_t mask, unsigned port,
		   struct sacache_key *out);

void sa_record_decode(const uint8_t record[SA_RECORD_SIZE], struct sacache_path *path);
void sa_record_encode(const struct sacache_path *path, uint8_t record[SA_RECORD_SIZE]);
/* The record and component mask of the query for a key; a wildcard source becomes port_gid. */
uint64_t sa_record_ask(const struct sacache_key *key, const uint8_t port_gid[16],
		       uint8_t record[SA_RECORD_SIZE]);
/* Whether a record matches the key: the SA must not answer another query. */
bool sa_record_answers(const uint8_t record[SA_RECORD_SIZE], const struct sacache_key *key);

static inline bool sa_record_raised(const uint8_t record[SA_RECORD_SIZE])
{
	static const uint8_t zero[6];

	return memcmp(record + SA_RECORD_RESERVED, zero, 6) != 0;
}

/* Whether both describe the same path; the reserved field does not count. */
static inline bool sa_record_same(const uint8_t *a, const uint8_t *b)
{
	return !memcmp(a, b, SA_RECORD_RESERVED);
}

static inline uint16_t sa_get16(const uint8_t *p)
{
	return p[0] << 8 | p[1];
}

static inline uint32_t sa_get32(const uint8_t *p)
{
	return (uint32_t)sa_get16(p) << 16 | sa_get16(p + 2);
}

static inline uint64_t sa_get64(const uint8_t *p)
{
	return (uint64_t)sa_get32(p) << 32 | sa_get32(p + 4);
}

static inline void sa_put16(uint8_t *p, uint16_t v)
{
	v = htobe16(v);
	memcpy(p, &v, 2);
}

static inline void sa_put32(uint8_t *p, uint32_t v)
{
	v = htobe32(v);
	memcpy(p, &v, 4);
}

static inline void sa_put64(uint8_t *p, uint64_t v)
{
	v = htobe64(v);
	memcpy(p, &v, 8);
}

#endif
