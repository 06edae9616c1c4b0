/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libFuzzer target for OpenSM's file guid2lid. Whatever the bytes: what is read is sorted, valid
 * and unique, and is read again from what is written of it, with nothing damaged.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "migrate/guid2lid.h"

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct guid2lid table, again;
	char *copy = malloc(size + !size), *text; /* its end is guarded */
	size_t len;

	CHECK(copy);
	memcpy(copy, data, size);
	guid2lid_init(&table);
	guid2lid_init(&again);
	CHECK(!guid2lid_parse(&table, copy, size));
	for (size_t i = 0; i < table.count; i++) {
		const struct guid2lid_entry *e = &table.entries[i];

		CHECK(e->guid && e->min && e->min <= e->max && e->max <= GUID2LID_MAX_LID);
		CHECK(!i || e[-1].guid < e->guid);
		CHECK(guid2lid_find(&table, e->guid) == e);
	}
	text = guid2lid_format(&table, &len);
	CHECK(text && strlen(text) == len);
	CHECK(!guid2lid_parse(&again, text, len) && !again.damaged);
	CHECK(again.count == table.count);
	for (size_t i = 0; i < table.count; i++)
		CHECK(again.entries[i].guid == table.entries[i].guid &&
		      again.entries[i].min == table.entries[i].min &&
		      again.entries[i].max == table.entries[i].max);
	guid2lid_destroy(&table);
	guid2lid_destroy(&again);
	free(text);
	free(copy);
	return 0;
}
