/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Raising the reserved field of path records; see raise.h.
 */
#include <ctype.h>
#include <stdlib.h>

#include "libsacache/mad.h"
#include "libsacache/opensm/raise.h"

_Static_assert(SA_RECORD_RESERVED + SA_RAISE_SIZE == SA_RECORD_SIZE, "the last of the record");

/*
 * Part of a long run of records, stride apart: count bytes of it, from that place in the run on.
 * The first record may have begun before, the last may end behind.
 */
static unsigned raise_part(uint8_t *part, uint64_t from, size_t count, size_t stride,
			   const uint8_t *value)
{
	unsigned touched = 0;

	for (uint64_t record = from / stride * stride; record < from + count; record += stride) {
		bool any = false;

		for (unsigned i = 0; i < SA_RAISE_SIZE; i++) {
			uint64_t at = record + SA_RECORD_RESERVED + i;

			if (at < from || at >= from + count)
				continue;
			part[at - from] = value[i];
			any = true;
		}
		touched += any;
	}
	return touched;
}

/*
 * OpenSM leaves the cutting to the kernel and hands over the whole table: then there is no type
 * yet. A segment says which it is, and the last one how much of it counts.
 */
static unsigned raise_table(uint8_t *mad, size_t length, const uint8_t *value)
{
	size_t stride = sa_get16(mad + 44) * 8u, count = length - SA_MAD_DATA;
	uint32_t segment = sa_get32(mad + 28), paylen = sa_get32(mad + 32);
	uint64_t from = 0;

	if (stride < SA_RECORD_SIZE)
		return 0;
	if (mad[26] & SA_RMPP_ACTIVE && mad[25] == SA_RMPP_DATA && segment &&
	    length <= SA_MAD_SIZE) {
		from = (segment - 1ull) * SA_MAD_DATA_SIZE;
		if (mad[26] & SA_RMPP_LAST && paylen >= SA_RMPP_HEADER &&
		    paylen - SA_RMPP_HEADER < count)
			count = paylen - SA_RMPP_HEADER;
	}
	return raise_part(mad + SA_MAD_DATA, from, count, stride, value);
}

unsigned sa_raise(uint8_t *mad, size_t length, const uint8_t value[SA_RAISE_SIZE])
{
	if (length < SA_MAD_DATA || mad[0] != SA_BASE_VERSION || mad[1] != SA_CLASS ||
	    mad[2] != SA_CLASS_VERSION || sa_get16(mad + 4) ||
	    sa_get16(mad + 16) != SA_ATTR_PATH_RECORD)
		return 0;
	switch (mad[3]) {
	case SA_GET_RESP:
		if (length < SA_MAD_DATA + SA_RECORD_SIZE)
			return 0;
		return raise_part(mad + SA_MAD_DATA, 0, SA_RECORD_SIZE, SA_RECORD_SIZE, value);
	case SA_GET_TABLE_RESP:
	case SA_GET_MULTI_RESP: return raise_table(mad, length, value);
	default: return 0;
	}
}

bool sa_raise_parse(const char *text, uint8_t value[SA_RAISE_SIZE])
{
	unsigned long long number;
	char *end;

	if (!isxdigit((unsigned char)text[0]))
		return false;
	number = strtoull(text, &end, 16);
	if (*end || !number || number >> 48)
		return false;
	for (unsigned i = 0; i < SA_RAISE_SIZE; i++)
		value[i] = number >> (8 * (SA_RAISE_SIZE - 1 - i));
	return true;
}
