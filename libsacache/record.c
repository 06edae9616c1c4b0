/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * PathRecords between the wire and plain structures. Pure functions: any thread, no locks.
 */
#include <assert.h>
#include <errno.h>
#include <stddef.h>

#include "libsacache/record.h"

static_assert(sizeof(struct sacache_path) == 72 && offsetof(struct sacache_path, dlid) == 40 &&
		      offsetof(struct sacache_path, hop_limit) == 52 &&
		      offsetof(struct sacache_path, reserved) == 62,
	      "part of the ABI");
static_assert(sizeof(struct sacache_key) == 56 && offsetof(struct sacache_key, service_id) == 32 &&
		      offsetof(struct sacache_key, sl) == 48 &&
		      offsetof(struct sacache_key, mask) == 52,
	      "part of the ABI");

#define ALL_COMPONENTS (2 * SACACHE_QOS_CLASS - 1)
/* The SA's answer, independent of the query. */
#define OF_A_PATH \
	(SACACHE_DGID | SACACHE_SGID | SACACHE_DLID | SACACHE_SLID | SACACHE_PKEY | SACACHE_SL)

/* Bits of the component mask, in the order of the record's fields. */
enum {
	ASK_SERVICE_ID = 3 << 0,
	ASK_DGID = 1 << 2,
	ASK_SGID = 1 << 3,
	ASK_DLID = 1 << 4,
	ASK_SLID = 1 << 5,
	ASK_TCLASS = 1 << 10,
	ASK_REVERSIBLE = 1 << 11,
	ASK_NUMB_PATH = 1 << 12,
	ASK_PKEY = 1 << 13,
	ASK_QOS_CLASS = 1 << 14,
	ASK_SL = 1 << 15,
};

int sa_key_normalize(const struct sacache_key *key, struct sacache_key *out)
{
	if (!(key->mask & (SACACHE_DGID | SACACHE_DLID)))
		return -EINVAL;
	return sa_key_normalize_table(key, out);
}

int sa_key_of_path(const struct sacache_path *path, uint32_t mask, unsigned port,
		   struct sacache_key *out)
{
	struct sacache_key key = {
		.dlid = path->dlid,
		.slid = path->slid,
		.pkey = path->pkey,
		.sl = path->sl,
		.port = port,
		.mask = mask,
	};

	if (mask & ~(uint32_t)OF_A_PATH)
		return -EINVAL;
	memcpy(key.dgid, path->dgid, 16);
	memcpy(key.sgid, path->sgid, 16);
	return sa_key_normalize(&key, out);
}

int sa_key_normalize_table(const struct sacache_key *key, struct sacache_key *out)
{
	uint32_t mask = key->mask;

	if (mask & ~ALL_COMPONENTS)
		return -EINVAL;
	if (key->port >= SACACHE_MAX_PORTS || (mask & SACACHE_SL && key->sl > 15) ||
	    (mask & SACACHE_QOS_CLASS && key->qos_class > 0xfff))
		return -EINVAL;
	*out = (struct sacache_key){.mask = mask, .port = key->port};
	if (mask & SACACHE_DGID)
		memcpy(out->dgid, key->dgid, 16);
	if (mask & SACACHE_SGID)
		memcpy(out->sgid, key->sgid, 16);
	if (mask & SACACHE_DLID)
		out->dlid = key->dlid;
	if (mask & SACACHE_SLID)
		out->slid = key->slid;
	/* The top bit is the requester's membership, not part of the partition. */
	if (mask & SACACHE_PKEY)
		out->pkey = key->pkey & 0x7fff;
	if (mask & SACACHE_SL)
		out->sl = key->sl;
	if (mask & SACACHE_TCLASS)
		out->tclass = key->tclass;
	if (mask & SACACHE_SERVICE_ID)
		out->service_id = key->service_id;
	if (mask & SACACHE_QOS_CLASS)
		out->qos_class = key->qos_class;
	return 0;
}

void sa_record_decode(const uint8_t record[SA_RECORD_SIZE], struct sacache_path *path)
{
	uint32_t flow = sa_get32(record + 44);
	uint16_t qos = sa_get16(record + 52);

	path->service_id = sa_get64(record);
	memcpy(path->dgid, record + 8, 16);
	memcpy(path->sgid, record + 24, 16);
	path->dlid = sa_get16(record + 40);
	path->slid = sa_get16(record + 42);
	path->flow_label = flow >> 8 & 0xfffff;
	path->pkey = sa_get16(record + 50);
	path->qos_class = qos >> 4;
	path->hop_limit = flow & 0xff;
	path->tclass = record[48];
	path->sl = qos & 0xf;
	path->mtu = record[54] & 0x3f;
	path->rate = record[55] & 0x3f;
	path->lifetime = record[56] & 0x3f;
	path->preference = record[57];
	path->numb_path = record[49] & 0x7f;
	path->raw = flow >> 31;
	path->reversible = record[49] >> 7;
	memcpy(path->reserved, record + SA_RECORD_RESERVED, 6);
}

void sa_record_encode(const struct sacache_path *path, uint8_t record[SA_RECORD_SIZE])
{
	const uint8_t exactly = 2 << 6;

	sa_put64(record, path->service_id);
	memcpy(record + 8, path->dgid, 16);
	memcpy(record + 24, path->sgid, 16);
	sa_put16(record + 40, path->dlid);
	sa_put16(record + 42, path->slid);
	sa_put32(record + 44,
		 (uint32_t)path->raw << 31 | (path->flow_label & 0xfffff) << 8 | path->hop_limit);
	record[48] = path->tclass;
	record[49] = (uint8_t)path->reversible << 7 | (path->numb_path & 0x7f);
	sa_put16(record + 50, path->pkey);
	sa_put16(record + 52, path->qos_class << 4 | (path->sl & 0xf));
	record[54] = exactly | (path->mtu & 0x3f);
	record[55] = exactly | (path->rate & 0x3f);
	record[56] = exactly | (path->lifetime & 0x3f);
	record[57] = path->preference;
	memcpy(record + SA_RECORD_RESERVED, path->reserved, 6);
}

void sacache_path_decode(const uint8_t record[SA_RECORD_SIZE], struct sacache_path *path)
{
	sa_record_decode(record, path);
}

void sacache_path_encode(const struct sacache_path *path, uint8_t record[SA_RECORD_SIZE])
{
	sa_record_encode(path, record);
}

uint64_t sa_record_ask(const struct sacache_key *key, const uint8_t port_gid[16],
		       uint8_t record[SA_RECORD_SIZE])
{
	uint64_t ask = ASK_REVERSIBLE | ASK_NUMB_PATH;
	uint32_t mask = key->mask;

	memset(record, 0, SA_RECORD_SIZE);
	memcpy(record + 8, key->dgid, 16);
	memcpy(record + 24, key->sgid, 16);
	if (!(mask & (SACACHE_SGID | SACACHE_SLID))) {
		memcpy(record + 24, port_gid, 16);
		ask |= ASK_SGID;
	}
	sa_put64(record, key->service_id);
	sa_put16(record + 40, key->dlid);
	sa_put16(record + 42, key->slid);
	record[48] = key->tclass;
	record[49] = 1 << 7 | 1; /* reversible, one path */
	sa_put16(record + 50, mask & SACACHE_PKEY ? key->pkey | 0x8000 : 0);
	sa_put16(record + 52, key->qos_class << 4 | key->sl);
	if (mask & SACACHE_SERVICE_ID)
		ask |= ASK_SERVICE_ID;
	if (mask & SACACHE_DGID)
		ask |= ASK_DGID;
	if (mask & SACACHE_SGID)
		ask |= ASK_SGID;
	if (mask & SACACHE_DLID)
		ask |= ASK_DLID;
	if (mask & SACACHE_SLID)
		ask |= ASK_SLID;
	if (mask & SACACHE_TCLASS)
		ask |= ASK_TCLASS;
	if (mask & SACACHE_PKEY)
		ask |= ASK_PKEY;
	if (mask & SACACHE_QOS_CLASS)
		ask |= ASK_QOS_CLASS;
	if (mask & SACACHE_SL)
		ask |= ASK_SL;
	return ask;
}

/*
 * Service ID, QoS class and traffic class select a path but need not appear in it: an SM may leave
 * them 0. The ends, the partition and the SL must match.
 */
bool sa_record_answers(const uint8_t record[SA_RECORD_SIZE], const struct sacache_key *key)
{
	uint32_t mask = key->mask;

	if (mask & SACACHE_DGID && memcmp(record + 8, key->dgid, 16) != 0)
		return false;
	if (mask & SACACHE_SGID && memcmp(record + 24, key->sgid, 16) != 0)
		return false;
	if (mask & SACACHE_DLID && sa_get16(record + 40) != key->dlid)
		return false;
	if (mask & SACACHE_SLID && sa_get16(record + 42) != key->slid)
		return false;
	if (mask & SACACHE_PKEY && (sa_get16(record + 50) & 0x7fff) != key->pkey)
		return false;
	if (mask & SACACHE_SL && (sa_get16(record + 52) & 0xf) != key->sl)
		return false;
	return true;
}
