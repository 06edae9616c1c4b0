/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The format of a state file; state_file.h has the picture. All of it is verified before any of it
 * is used. Pure functions.
 */
#include <isa-l/crc.h>
#include <limits.h>
#include <string.h>

#include "libsacache/state_file.h"

#define VERSION	     1
#define MAX_FAILURES 14

static const char magic[8] = "sacache\n";

uint32_t sa_state_checksum(uint32_t crc, const uint8_t *data, size_t length)
{
	while (length) {
		int part = length < INT_MAX ? (int)length : INT_MAX;

		crc = ~crc32_iscsi((uint8_t *)data, part, ~crc);
		data += part;
		length -= part;
	}
	return crc;
}

uint16_t sa_state_day(int64_t when)
{
	return (uint16_t)(when / 86400);
}

void sa_state_encode_port(const struct sa_state_port *port, uint8_t out[SA_STATE_PORT])
{
	memset(out, 0, SA_STATE_PORT);
	memcpy(out, port->identity.gid, 16);
	sa_put16(out + 16, port->identity.lid);
	sa_put16(out + 18, port->identity.sm_lid);
	out[20] = port->caching;
	sa_put16(out + 22, port->day);
	sa_put64(out + 24, port->identity.sm_guid);
}

void sa_state_decode_port(const uint8_t in[SA_STATE_PORT], int64_t when, struct sa_state_port *port)
{
	memset(port, 0, sizeof(*port));
	memcpy(port->identity.gid, in, 16);
	port->identity.lid = sa_get16(in + 16);
	port->identity.sm_lid = sa_get16(in + 18);
	port->caching = in[20];
	port->day = sa_get16(in + 22);
	port->identity.sm_guid = sa_get64(in + 24);
	if (!port->day)
		port->day = sa_state_day(when);
}

void sa_state_encode_entry(const struct sacache_key *key, const uint8_t record[SA_RECORD_SIZE],
			   unsigned failures, uint8_t port, uint8_t out[SA_STATE_ENTRY])
{
	memset(out, 0, SA_STATE_ENTRY);
	memcpy(out, record, SA_RECORD_SIZE);
	sa_put64(out + 64, key->service_id);
	sa_put32(out + 72, key->mask);
	sa_put16(out + 76, key->pkey);
	sa_put16(out + 78, key->qos_class);
	out[80] = key->sl;
	out[81] = key->tclass;
	out[82] = port;
	out[83] = failures < MAX_FAILURES ? failures : MAX_FAILURES;
}

const uint8_t *sa_state_entry(const struct sa_state *state, uint64_t index)
{
	return state->data + SA_STATE_HEADER + (size_t)state->ports * SA_STATE_PORT +
	       index * SA_STATE_ENTRY;
}

const char *sa_state_decode(const struct sa_state *state, uint64_t index,
			    struct sa_state_entry *entry)
{
	const uint8_t *in = sa_state_entry(state, index);
	struct sacache_key key = {
		.service_id = sa_get64(in + 64),
		.mask = sa_get32(in + 72),
		.pkey = sa_get16(in + 76),
		.qos_class = sa_get16(in + 78),
		.sl = in[80],
		.tclass = in[81],
		.port = in[82],
	};
	static const char impossible[] = "one of its entries is none that could have been saved";

	if (in[82] >= state->ports || in[83] > MAX_FAILURES || sa_get32(in + 84))
		return impossible;
	memcpy(entry->record, in, SA_RECORD_SIZE);
	if (key.mask & SACACHE_DGID)
		memcpy(key.dgid, in + 8, 16);
	if (key.mask & SACACHE_SGID)
		memcpy(key.sgid, in + 24, 16);
	if (key.mask & SACACHE_DLID)
		key.dlid = sa_get16(in + 40);
	if (key.mask & SACACHE_SLID)
		key.slid = sa_get16(in + 42);
	if (sa_key_normalize(&key, &entry->key) || memcmp(&key, &entry->key, sizeof(key)) != 0 ||
	    !sa_record_answers(entry->record, &key))
		return impossible;
	entry->failures = in[83];
	return NULL;
}

static const char *parse_header(struct sa_state *state, const uint8_t *data, size_t length)
{
	uint64_t behind;

	if (length < SA_STATE_HEADER)
		return length ? "it is cut off" : "it is empty";
	if (memcmp(data, magic, sizeof(magic)) != 0)
		return "it is something else";
	if (sa_get32(data + 36) != sa_state_checksum(0, data, 36))
		return "its header is damaged";
	if (sa_get32(data + 8) != VERSION)
		return "it has another version";
	state->data = data;
	state->ports = sa_get32(data + 12);
	state->entries = sa_get64(data + 16);
	state->when = (int64_t)sa_get64(data + 24);
	if (!state->ports || state->ports > SACACHE_MAX_PORTS ||
	    state->entries > SA_STATE_MOST_ENTRIES)
		return "its header makes no sense";
	behind = (uint64_t)state->ports * SA_STATE_PORT + state->entries * SA_STATE_ENTRY;
	if (length - SA_STATE_HEADER < behind)
		return "it is cut off";
	if (length - SA_STATE_HEADER > behind)
		return "there is something behind its end";
	if (sa_get32(data + 32) != sa_state_checksum(0, data + SA_STATE_HEADER, behind))
		return "it is damaged";
	return NULL;
}

const char *sa_state_parse(struct sa_state *state, const uint8_t *data, size_t length)
{
	const char *problem = parse_header(state, data, length);
	struct sa_state_entry entry;

	for (uint32_t i = 0; !problem && i < state->ports; i++)
		sa_state_decode_port(data + SA_STATE_HEADER + (size_t)i * SA_STATE_PORT,
				     state->when, &state->port[i]);
	for (uint64_t i = 0; !problem && i < state->entries; i++)
		problem = sa_state_decode(state, i, &entry);
	return problem;
}

void sa_state_encode_header(uint32_t ports, uint64_t entries, int64_t when, uint32_t crc,
			    uint8_t out[SA_STATE_HEADER])
{
	memcpy(out, magic, sizeof(magic));
	sa_put32(out + 8, VERSION);
	sa_put32(out + 12, ports);
	sa_put64(out + 16, entries);
	sa_put64(out + 24, (uint64_t)when);
	sa_put32(out + 32, crc);
	sa_put32(out + 36, sa_state_checksum(0, out, 36));
}
