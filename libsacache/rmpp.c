/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The receiving end of RMPP; see rmpp.h.
 */
#include <stdlib.h>

#include "libsacache/rmpp.h"

#define WINDOW	  64 /* segments that may be sent beyond the last acknowledged */
#define ACK_EVERY 32

void sa_rmpp_reset(struct sa_rmpp *rmpp)
{
	free(rmpp->data);
	memset(rmpp, 0, sizeof(*rmpp));
}

void sa_rmpp_ack(struct sa_rmpp *rmpp, uint64_t tid, struct sa_mad *ack)
{
	uint32_t last = rmpp->next ? rmpp->next - 1 : 0;

	*ack = (struct sa_mad){
		.method = SA_GET_TABLE,
		.tid = tid,
		.attribute = SA_ATTR_PATH_RECORD,
		.rmpp_type = SA_RMPP_ACK,
		.rmpp_flags = SA_RMPP_ACTIVE,
		.segment = last,
		.paylen = last + WINDOW,
	};
	rmpp->acknowledged = last;
}

static bool append(struct sa_rmpp *rmpp, const uint8_t *data, size_t length)
{
	/* An empty last segment, perhaps the only one. */
	if (!length)
		return true;
	if (rmpp->length + length > rmpp->capacity) {
		size_t capacity = rmpp->capacity ? rmpp->capacity * 2 : 16 * SA_MAD_DATA_SIZE;
		uint8_t *more = realloc(rmpp->data, capacity);

		if (!more)
			return false;
		rmpp->data = more;
		rmpp->capacity = capacity;
	}
	memcpy(rmpp->data + rmpp->length, data, length);
	rmpp->length += length;
	return true;
}

enum sa_rmpp_verdict sa_rmpp_receive(struct sa_rmpp *rmpp, const struct sa_mad *mad, size_t limit)
{
	uint32_t expected = rmpp->next ? rmpp->next : 1;
	size_t length = SA_MAD_DATA_SIZE;
	bool last = mad->rmpp_flags & SA_RMPP_LAST;

	if (mad->rmpp_type == SA_RMPP_STOP || mad->rmpp_type == SA_RMPP_ABORT)
		return SA_RMPP_ENDED;
	if (mad->rmpp_type != SA_RMPP_DATA || !mad->segment ||
	    (mad->segment == 1) != !!(mad->rmpp_flags & SA_RMPP_FIRST))
		return SA_RMPP_IGNORE;
	if (mad->segment != expected)
		return rmpp->next ? SA_RMPP_ANSWER : SA_RMPP_IGNORE;
	if (last) {
		/* The length of the last segment includes the SA's header; not all senders set
		 * it. */
		if (mad->paylen < SA_RMPP_HEADER || mad->paylen > SA_RMPP_HEADER + SA_MAD_DATA_SIZE)
			return SA_RMPP_IGNORE;
		length = mad->paylen - SA_RMPP_HEADER;
	}
	if (rmpp->length + length > limit)
		return SA_RMPP_OVERFLOW;
	if (!append(rmpp, mad->data, length))
		return SA_RMPP_NO_MEMORY;
	if (mad->segment == 1)
		rmpp->attr_offset = mad->attr_offset;
	rmpp->next = expected + 1;
	rmpp->repeats = 0;
	if (last)
		return SA_RMPP_COMPLETE;
	return expected - rmpp->acknowledged >= ACK_EVERY || expected == 1 ? SA_RMPP_ANSWER
									   : SA_RMPP_PROGRESS;
}
