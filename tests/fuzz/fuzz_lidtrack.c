/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libFuzzer target for what agents of lidtrackd read: requests, answers and records of other hosts,
 * a journal, and the metadata of a libvirt domain. The first byte says which. What is taken is
 * written again and read again as the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "migrate/journal.h"
#include "migrate/message.h"
#include "migrate/metadata.h"

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

static void check_request(const char *line, size_t len)
{
	struct request request, again;
	char text[MESSAGE_LEN], text2[MESSAGE_LEN];
	size_t n;

	if (request_parse(&request, line, len))
		return;
	n = request_format(&request, text);
	CHECK(n < sizeof(text));
	CHECK(!request_parse(&again, text, n));
	CHECK(request_format(&again, text2) == n && !memcmp(text, text2, n));
}

static void check_answer(const char *line, size_t len)
{
	struct answer answer, again;
	char text[MESSAGE_LEN], text2[MESSAGE_LEN];
	size_t n;

	if (answer_parse(&answer, line, len))
		return;
	n = answer_format(&answer, text);
	CHECK(n < sizeof(text));
	CHECK(!answer_parse(&again, text, n));
	CHECK(answer_format(&again, text2) == n && !memcmp(text, text2, n));
}

static void check_journal(const char *text, size_t len)
{
	struct journal journal = {.fd = -1};
	unsigned line;
	long whole = journal_replay(&journal, text, len, &line);

	CHECK(whole <= (long)len);
	CHECK(whole >= 0 || line);
	for (size_t i = 0; i < journal.count; i++) {
		CHECK(journal.records[i].guid && journal.records[i].state != MOVE_GONE);
		CHECK(journal_find(&journal, journal.records[i].guid) == &journal.records[i]);
	}
	free(journal.records);
}

static void check_metadata(const char *xml, size_t len)
{
	struct record record = {0}, again = {0};
	char text[METADATA_LEN];
	size_t n;

	if (metadata_parse(&record, xml, len))
		return;
	CHECK(record.guid);
	n = metadata_format(&record, text);
	CHECK(n < sizeof(text) && strlen(text) == n);
	CHECK(!metadata_parse(&again, text, n));
	CHECK(again.guid == record.guid && again.num_pkeys == record.num_pkeys);
	CHECK(!memcmp(again.pkeys, record.pkeys, record.num_pkeys * sizeof(*record.pkeys)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const checks[])(const char *, size_t) = {check_request, check_answer,
							       check_journal, check_metadata};
	char *copy;

	if (!size)
		return 0;
	copy = malloc(size); /* its end is guarded */
	CHECK(copy);
	memcpy(copy, data + 1, size - 1);
	checks[data[0] % 4](copy, size - 1);
	free(copy);
	return 0;
}
