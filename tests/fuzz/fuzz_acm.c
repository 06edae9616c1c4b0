/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libFuzzer target for ibacm's protocol: an input is what a client writes, one message after
 * another, as sacached takes it apart. Each message is answered in every way there is; answers have
 * to be whole and to say so in their headers.
 */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/sacached/acm.h"

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

static void check_answer(const struct acm_request *request, const uint8_t *out, size_t length)
{
	uint16_t said;

	CHECK(length >= ACM_HEADER_SIZE && length <= ACM_MAX_ANSWER);
	memcpy(&said, out + 6, 2);
	if (request->header[1] != 1)
		said = be16toh(said);
	CHECK(said == length);
	CHECK(out[0] == 1 && out[1] == (request->header[1] | 0x80));
	CHECK(!memcmp(out + 8, request->header + 8, 8));
}

static void resolve(const struct acm_request *request, uint8_t *out)
{
	struct sacache_path path;
	struct sacache_key key;

	acm_key(request->record, &key);
	CHECK(request->kind != ACM_RESOLVE_PATH || key.mask & (SACACHE_DGID | SACACHE_DLID));
	CHECK(request->kind == ACM_RESOLVE_PATH || request->dst.type);
	CHECK(request->dst.type != ACM_NAME || memchr(request->dst.bytes, 0, ACM_ADDRESS_SIZE));
	/* What is asked for exactly is its own answer. */
	sacache_path_decode(request->record, &path);
	if (request->record[54] >> 6 == 2 && request->record[55] >> 6 == 2 &&
	    request->record[56] >> 6 == 2)
		CHECK(acm_satisfies(request->record, &path));
	acm_satisfies(request->record, &path);
	check_answer(request, out, acm_answer_path(request, &path, NULL, out));
	check_answer(request, out, acm_answer_path(request, &path, &request->dst, out));
}

static void serve(const uint8_t *message, size_t length)
{
	static struct acm_endpoint endpoint = {.names = ACM_MAX_NAMES};
	static const uint64_t count[ACM_COUNTERS];
	/* As large as it has to be and no larger, so that a byte too many is found. */
	uint8_t *copy = malloc(length), *out = malloc(ACM_MAX_ANSWER);
	struct acm_request request;
	enum acm_status status;

	CHECK(copy && out);
	memcpy(copy, message, length);
	status = acm_parse(copy, length, &request);
	free(copy);
	CHECK(status <= ACM_EDESTTYPE);
	check_answer(&request, out, acm_answer_error(&request, ACM_ETIMEDOUT, out));
	if (!status && request.kind <= ACM_RESOLVE_PATH)
		resolve(&request, out);
	else if (request.kind == ACM_QUERY_ENDPOINT)
		check_answer(&request, out, acm_answer_endpoint(&request, &endpoint, out));
	else if (!status)
		check_answer(&request, out, acm_answer_counters(&request, count, out));
	free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	while (size >= ACM_HEADER_SIZE) {
		int length = acm_length(data);

		CHECK(length == -EPROTO ||
		      (length >= ACM_HEADER_SIZE && length <= ACM_MAX_REQUEST));
		if (length < 0 || (size_t)length > size)
			break;
		serve(data, length);
		data += length;
		size -= length;
	}
	return 0;
}
