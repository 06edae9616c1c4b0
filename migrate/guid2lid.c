// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * guid2lid as a table: text to entries and back. guid2lid_file.c has the file.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "migrate/guid2lid.h"

#define LINE_LEN (sizeof("0x0123456789abcdef 0x0001 0x0001\n\n") - 1)

void guid2lid_init(struct guid2lid *table)
{
	memset(table, 0, sizeof(*table));
}

void guid2lid_destroy(struct guid2lid *table)
{
	free(table->entries);
	guid2lid_init(table);
}

/* ---- the table ---- */

/* The first entry whose GUID is not less. */
static size_t place_of(const struct guid2lid *table, uint64_t guid)
{
	size_t low = 0, high = table->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (table->entries[middle].guid < guid)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct guid2lid_entry *guid2lid_find(const struct guid2lid *table, uint64_t guid)
{
	size_t at = place_of(table, guid);

	return at < table->count && table->entries[at].guid == guid ? &table->entries[at] : NULL;
}

const struct guid2lid_entry *guid2lid_overlap(const struct guid2lid *table,
					      const struct guid2lid_entry *entry)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct guid2lid_entry *e = &table->entries[i];

		if (e->guid != entry->guid && e->min <= entry->max && entry->min <= e->max)
			return e;
	}
	return NULL;
}

unsigned guid2lid_drop_overlaps(struct guid2lid *table, const struct guid2lid_entry *entry)
{
	const struct guid2lid_entry *other;
	unsigned dropped = 0;

	while ((other = guid2lid_overlap(table, entry))) {
		size_t at = other - table->entries;

		memmove(table->entries + at, table->entries + at + 1,
			(--table->count - at) * sizeof(*table->entries));
		dropped++;
	}
	return dropped;
}

static bool valid(const struct guid2lid_entry *entry)
{
	return entry->guid && entry->min && entry->min <= entry->max &&
	       entry->max <= GUID2LID_MAX_LID;
}

static int make_room(struct guid2lid *table)
{
	size_t room = table->room ? 2 * table->room : 64;
	struct guid2lid_entry *entries;

	if (table->count < table->room)
		return 0;
	if (table->count >= GUID2LID_MAX_ENTRIES)
		return -EFBIG;
	entries = realloc(table->entries, room * sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	table->entries = entries;
	table->room = room;
	return 0;
}

int guid2lid_set(struct guid2lid *table, const struct guid2lid_entry *entry)
{
	size_t at = place_of(table, entry->guid);
	int ret;

	if (!valid(entry))
		return -EINVAL;
	if (at < table->count && table->entries[at].guid == entry->guid) {
		table->entries[at] = *entry;
		return 0;
	}
	ret = make_room(table);
	if (ret)
		return ret;
	memmove(table->entries + at + 1, table->entries + at,
		(table->count - at) * sizeof(*table->entries));
	table->entries[at] = *entry;
	table->count++;
	return 0;
}

/* ---- text ---- */

/* A number "0x…" of at most that many digits; it ends at a blank or at the end. */
static bool take_hex(const char **text, const char *end, int digits, uint64_t *value)
{
	const char *p = *text;

	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	if (end - p < 3 || p[0] != '0' || (p[1] != 'x' && p[1] != 'X'))
		return false;
	*value = 0;
	for (p += 2; p < end && isxdigit((unsigned char)*p); p++) {
		if (!digits--)
			return false;
		*value = *value << 4 |
			 (isdigit((unsigned char)*p) ? *p - '0' : (*p | 32) - 'a' + 10);
	}
	if (p < end && *p != ' ' && *p != '\t')
		return false;
	*text = p;
	return p[-1] != 'x' && p[-1] != 'X';
}

static bool take_entry(const char *line, const char *end, struct guid2lid_entry *entry)
{
	uint64_t guid, min, max;

	if (line == end || *line == ' ' || *line == '\t' || !take_hex(&line, end, 16, &guid) ||
	    !take_hex(&line, end, 4, &min) || !take_hex(&line, end, 4, &max))
		return false;
	while (line < end && (*line == ' ' || *line == '\t' || *line == '\r'))
		line++;
	*entry = (struct guid2lid_entry){guid, min, max};
	return line == end && valid(entry);
}

static void mark_damage(struct guid2lid *table, unsigned line)
{
	if (!table->damaged++)
		table->first_damaged = line;
}

static int take_line(struct guid2lid *table, const char *line, const char *end, unsigned number)
{
	struct guid2lid_entry entry;

	if (take_entry(line, end, &entry) && !guid2lid_find(table, entry.guid))
		return guid2lid_set(table, &entry);
	mark_damage(table, number);
	return 0;
}

static bool blank(const char *line, const char *end)
{
	while (line < end && (*line == ' ' || *line == '\t' || *line == '\r'))
		line++;
	return line == end;
}

int guid2lid_parse(struct guid2lid *table, const char *text, size_t len)
{
	const char *end = text + len, *next;
	bool open = false; /* an entry whose empty line has not come */
	unsigned number = 1;
	int ret = 0;

	guid2lid_destroy(table);
	for (; text < end && !ret; text = next, number++) {
		const char *eol = memchr(text, '\n', end - text);

		next = eol ? eol + 1 : end;
		if (!eol)
			eol = end;
		if (blank(text, eol)) {
			open = false;
			continue;
		}
		if (open)
			mark_damage(table, number);
		open = true;
		ret = take_line(table, text, eol, number);
	}
	if (open)
		mark_damage(table, number);
	if (ret)
		guid2lid_destroy(table);
	return ret;
}

char *guid2lid_format(const struct guid2lid *table, size_t *len)
{
	char *text = malloc(table->count * LINE_LEN + 1), *p = text;

	if (!text)
		return NULL;
	*p = '\0';
	for (size_t i = 0; i < table->count; i++) {
		const struct guid2lid_entry *e = &table->entries[i];

		p += sprintf(p, "0x%016" PRIx64 " 0x%04x 0x%04x\n\n", e->guid, e->min, e->max);
	}
	*len = p - text;
	return text;
}
