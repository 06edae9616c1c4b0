/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The format of a state file, which is parsed and built in memory. All numbers are big-endian:
 *
 *	 0 "sacache\n"	 8 version, 4 bytes	12 ports, 4	16 entries, 8	24 when, seconds since 1970, 8
 *	32 CRC-32C of the bytes behind the header	36 CRC-32C of the 36 bytes before
 *	40 the ports, 32 bytes each:
 *	    0 GID: subnet prefix and port GUID	16 LID	18 the SM's LID	20 caching is on	21 zero
 *	   22 the day it was open last, since 1970, 2 bytes (0: when the file was written)
 *	   24 the SM's GUID, 8 bytes (0: not known)
 *	   the entries, 88 bytes each:
 *	    0 PathRecord	64 service ID	72 mask, 4 bytes	76 P_Key	78 QoS class
 *	   80 SL	81 TClass	82 index of its port above	83 failures counted	84 zeroes
 *
 * The file ends there.
 *
 * Pure functions: any thread, no locks.
 */
#ifndef SACACHE_STATE_FILE_H
#define SACACHE_STATE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libsacache/port_identity.h"
#include "libsacache/record.h"

#define SA_STATE_MOST_ENTRIES (1u << 24)
#define SA_STATE_HEADER	      40
#define SA_STATE_PORT	      32
#define SA_STATE_ENTRY	      88

struct sa_state_port {
	struct sa_port_identity identity;
	uint16_t day;
	bool caching;
};

struct sa_state_entry {
	struct sacache_key key; /* whose port is an index of the file's ports */
	uint8_t record[SA_RECORD_SIZE];
	uint8_t failures;
};

/* A file in memory whose header, checksums and entries have been verified. */
struct sa_state {
	const uint8_t *data;
	uint64_t entries;
	int64_t when;
	uint32_t ports;
	struct sa_state_port port[SACACHE_MAX_PORTS];
};

/* NULL, or the error in words. */
const char *sa_state_parse(struct sa_state *state, const uint8_t *data, size_t length);
/* The same. */
const char *sa_state_decode(const struct sa_state *state, uint64_t index,
			    struct sa_state_entry *entry);
/* An entry as it is in the file, for copying. */
const uint8_t *sa_state_entry(const struct sa_state *state, uint64_t index);

/* The day of a time, since 1970. */
uint16_t sa_state_day(int64_t when);
/* Continues a CRC-32C with more bytes; 0 is that of none. */
uint32_t sa_state_checksum(uint32_t crc, const uint8_t *data, size_t length);

void sa_state_encode_port(const struct sa_state_port *port, uint8_t out[SA_STATE_PORT]);
/* A port of the file, as of when that was written. */
void sa_state_decode_port(const uint8_t in[SA_STATE_PORT], int64_t when,
			  struct sa_state_port *port);
/* key is normalized; port: an index of the file's. */
void sa_state_encode_entry(const struct sacache_key *key, const uint8_t record[SA_RECORD_SIZE],
			   unsigned failures, uint8_t port, uint8_t out[SA_STATE_ENTRY]);
/* The header of a file of that many ports and entries, whose other bytes have that checksum. */
void sa_state_encode_header(uint32_t ports, uint64_t entries, int64_t when, uint32_t checksum,
			    uint8_t out[SA_STATE_HEADER]);

#endif
