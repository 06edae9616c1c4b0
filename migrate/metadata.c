// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* One XML element with attributes and without contents. Pure functions. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "migrate/metadata.h"

struct text {
	const char *at, *end;
};

static void skip_blanks(struct text *t)
{
	while (t->at < t->end && isspace((unsigned char)*t->at))
		t->at++;
}

static bool take(struct text *t, const char *word)
{
	size_t len = strlen(word);

	if ((size_t)(t->end - t->at) < len || memcmp(t->at, word, len) != 0)
		return false;
	t->at += len;
	return true;
}

/* A name, with its prefix. */
static struct text take_name(struct text *t)
{
	struct text name = {t->at, t->at};

	while (name.end < t->end &&
	       (isalnum((unsigned char)*name.end) || strchr(":_-.", *name.end)) && *name.end)
		name.end++;
	t->at = name.end;
	return name;
}

static bool is(struct text name, const char *word)
{
	return (size_t)(name.end - name.at) == strlen(word) &&
	       !memcmp(name.at, word, name.end - name.at);
}

/* ="value" or ='value'; entities are in none of ours. */
static bool take_value(struct text *t, struct text *value)
{
	const char *end;

	skip_blanks(t);
	if (!take(t, "="))
		return false;
	skip_blanks(t);
	if (t->at == t->end || (*t->at != '"' && *t->at != '\''))
		return false;
	end = memchr(t->at + 1, *t->at, t->end - t->at - 1);
	if (!end)
		return false;
	*value = (struct text){t->at + 1, end};
	t->at = end + 1;
	return true;
}

static int take_guid(struct record *record, struct text value)
{
	char digits[17] = "", *end;
	size_t len = value.end - value.at - 2;

	if (value.end - value.at < 3 || len > 16 || memcmp(value.at, "0x", 2) != 0)
		return -EINVAL;
	memcpy(digits, value.at + 2, len);
	record->guid = strtoull(digits, &end, 16);
	return isxdigit((unsigned char)*digits) && end == digits + len && record->guid ? 0
										       : -EINVAL;
}

static int take_attribute(struct record *record, struct text name, struct text value)
{
	if (is(name, "guid") && !record->guid)
		return take_guid(record, value);
	if (is(name, "pkeys") && !record->num_pkeys)
		return record_parse_pkeys(record, value.at, value.end - value.at);
	return (size_t)(name.end - name.at) >= 5 && !memcmp(name.at, "xmlns", 5) ? 0 : -EINVAL;
}

int metadata_parse(struct record *record, const char *xml, size_t len)
{
	struct text t = {xml, xml + len}, name, value;

	record->guid = 0;
	record->num_pkeys = 0;
	skip_blanks(&t);
	if (!take(&t, "<"))
		return -EINVAL;
	name = take_name(&t);
	if (!is(name, "port") && !is(name, METADATA_PREFIX ":port"))
		return -EINVAL;
	for (skip_blanks(&t); t.at < t.end && *t.at != '/'; skip_blanks(&t)) {
		name = take_name(&t);
		if (name.at == name.end || !take_value(&t, &value) ||
		    take_attribute(record, name, value))
			return -EINVAL;
	}
	if (!take(&t, "/>"))
		return -EINVAL;
	skip_blanks(&t);
	return t.at == t.end && record->guid ? 0 : -EINVAL;
}

size_t metadata_format(const struct record *record, char *xml)
{
	size_t len = sprintf(xml, "<port guid='0x%016" PRIx64 "'", record->guid);

	for (unsigned i = 0; i < record->num_pkeys; i++)
		len += sprintf(xml + len, "%s0x%04x", i ? "," : " pkeys='", record->pkeys[i]);
	return len + sprintf(xml + len, "%s/>", record->num_pkeys ? "'" : "");
}
