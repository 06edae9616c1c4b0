// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Records as lines of text; a table says which member is which. Pure functions.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "migrate/record.h"

bool record_name_valid(const char *name)
{
	size_t len = strlen(name);

	if (!len || len >= RECORD_NAME_LEN)
		return false;
	for (; *name; name++)
		if (!isalnum((unsigned char)*name) && !strchr("._-", *name))
			return false;
	return true;
}

int record_order(const struct record *a, const struct record *b)
{
	if (a->epoch != b->epoch)
		return a->epoch < b->epoch ? -1 : 1;
	return (a->fence > b->fence) - (a->fence < b->fence);
}

/* ---- values ---- */

/* A whole value, decimal or "0x…", up to most. */
static int take_number(const char *text, size_t len, uint64_t most, uint64_t *value)
{
	unsigned base = len > 2 && text[0] == '0' && text[1] == 'x' ? 16 : 10;

	if (base == 16) {
		text += 2;
		len -= 2;
	}
	if (!len)
		return -EINVAL;
	for (*value = 0; len; text++, len--) {
		unsigned digit = isdigit((unsigned char)*text)	? *text - '0'
				 : *text >= 'a' && *text <= 'f' ? *text - 'a' + 10
								: 99;

		if (digit >= base || digit > most || *value > (most - digit) / base)
			return -EINVAL;
		*value = *value * base + digit;
	}
	return 0;
}

static int take_name(char *name, const char *text, size_t len)
{
	if (len >= RECORD_NAME_LEN)
		return -EINVAL;
	memcpy(name, text, len);
	name[len] = '\0';
	return strlen(name) == len && record_name_valid(name) ? 0 : -EINVAL;
}

int record_parse_pkeys(struct record *record, const char *text, size_t len)
{
	const char *end = text + len;
	uint64_t value;

	for (record->num_pkeys = 0; text < end;) {
		const char *comma = memchr(text, ',', end - text);
		const char *stop = comma ? comma : end;

		if (record->num_pkeys == RECORD_PKEYS ||
		    take_number(text, stop - text, 0xffff, &value))
			return -EINVAL;
		record->pkeys[record->num_pkeys++] = value;
		if (comma && comma + 1 == end)
			return -EINVAL;
		text = comma ? comma + 1 : end;
	}
	return 0;
}

/* ---- members ---- */

enum member {
	GUID,
	GUEST,
	STATE,
	EPOCH,
	FENCE,
	PEER,
	FUNCTION,
	WANTED,
	WAIT,
	PORT,
	LID,
	LMC,
	PKEYS,
	MEMBERS
};

static const char *const members[MEMBERS] = {
	[GUID] = "guid", [GUEST] = "guest", [STATE] = "state", [EPOCH] = "epoch",
	[PEER] = "peer", [PORT] = "port",   [LID] = "lid",     [FUNCTION] = "function",
	[LMC] = "lmc",	 [PKEYS] = "pkeys", [FENCE] = "fence", [WANTED] = "wanted",
	[WAIT] = "wait",
};

static int take_state(struct record *record, const char *text, size_t len)
{
	for (int s = 0; s < MOVE_STATES; s++)
		if (strlen(move_state_name(s)) == len && !memcmp(move_state_name(s), text, len)) {
			record->state = s;
			return 0;
		}
	return -EINVAL;
}

static int take_member(struct record *record, enum member member, const char *text, size_t len)
{
	static const uint64_t most[MEMBERS] = {
		[GUID] = UINT64_MAX,	  [PORT] = UINT64_MAX, [EPOCH] = UINT32_MAX,
		[FENCE] = UINT64_MAX,	  [FUNCTION] = 65535,  [WANTED] = 65535,
		[WAIT] = RECORD_WAIT_MAX, [LID] = 0xbfff,      [LMC] = 7};
	uint64_t value = 0;
	int ret;

	switch (member) {
	case GUEST: return take_name(record->guest, text, len);
	case PEER: return take_name(record->peer, text, len);
	case STATE: return take_state(record, text, len);
	case PKEYS: return record_parse_pkeys(record, text, len);
	default: ret = take_number(text, len, most[member], &value);
	}
	switch (member) {
	case GUID: record->guid = value; break;
	case EPOCH: record->epoch = value; break;
	case FENCE: record->fence = value; break;
	case FUNCTION: record->function = (int)value; break;
	case WANTED: record->wanted = (int)value; break;
	case WAIT: record->wait = value; break;
	case PORT: record->port = value; break;
	case LID: record->lid = value; break;
	default: record->lmc = value; break;
	}
	return ret;
}

int record_parse(struct record *record, const char *line, size_t len)
{
	const char *end = line + len;
	unsigned seen = 0;

	memset(record, 0, sizeof(*record));
	record->function = record->wanted = -1;
	while (line < end) {
		const char *blank = memchr(line, ' ', end - line);
		const char *stop = blank ? blank : end;
		const char *equals = memchr(line, '=', stop - line);
		int m = 0;

		if (!equals)
			return -EINVAL;
		while (m < MEMBERS && (strlen(members[m]) != (size_t)(equals - line) ||
				       memcmp(members[m], line, equals - line) != 0))
			m++;
		if (m == MEMBERS || seen >> m & 1 ||
		    take_member(record, m, equals + 1, stop - equals - 1))
			return -EINVAL;
		seen |= 1u << m;
		if (blank && blank + 1 == end)
			return -EINVAL;
		line = blank ? blank + 1 : end;
	}
	return seen >> STATE & 1 && seen >> GUEST & 1 ? 0 : -EINVAL;
}

static size_t format_pkeys(const struct record *record, char *text)
{
	size_t len = sprintf(text, " pkeys=");

	for (unsigned i = 0; i < record->num_pkeys; i++)
		len += sprintf(text + len, "%s0x%04x", i ? "," : "", record->pkeys[i]);
	return len;
}

size_t record_format(const struct record *record, char *line)
{
	size_t len = sprintf(line, "guid=0x%016" PRIx64 " guest=%s state=%s epoch=%u", record->guid,
			     record->guest, move_state_name(record->state), record->epoch);

	if (record->fence)
		len += sprintf(line + len, " fence=0x%" PRIx64, record->fence);
	if (record->peer[0])
		len += sprintf(line + len, " peer=%s", record->peer);
	if (record->function >= 0)
		len += sprintf(line + len, " function=%d", record->function);
	if (record->state == MOVE_ASKING && record->wanted >= 0)
		len += sprintf(line + len, " wanted=%d", record->wanted);
	if (record->state == MOVE_ASKING && record->wait)
		len += sprintf(line + len, " wait=%" PRIu64, record->wait);
	if (record->port)
		len += sprintf(line + len, " port=0x%016" PRIx64, record->port);
	if (record->lid)
		len += sprintf(line + len, " lid=%u lmc=%u", record->lid, record->lmc);
	if (record->num_pkeys)
		len += format_pkeys(record, line + len);
	return len;
}
