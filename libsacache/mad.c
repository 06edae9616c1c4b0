/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * MADs of the SA between the wire and plain structures. Pure functions: any thread, no locks.
 */
#include <errno.h>

#include "libsacache/mad.h"

enum { RMPP_VERSION = 1 };

int sa_mad_decode(const uint8_t *buf, size_t length, struct sa_mad *mad)
{
	if (length < SA_MAD_SIZE || buf[0] != SA_BASE_VERSION || buf[1] != SA_CLASS ||
	    buf[2] != SA_CLASS_VERSION)
		return -EPROTO;
	*mad = (struct sa_mad){
		.method = buf[3],
		.status = sa_get16(buf + 4),
		.tid = sa_get64(buf + 8),
		.attribute = sa_get16(buf + 16),
		.attr_offset = sa_get16(buf + 44),
		.comp_mask = sa_get64(buf + 48),
		.data = buf + SA_MAD_DATA,
	};
	/* The upper bits of the flags are the response time. */
	if (!(buf[26] & SA_RMPP_ACTIVE))
		return 0;
	if (buf[24] != RMPP_VERSION)
		return -EPROTO;
	mad->rmpp_type = buf[25];
	mad->rmpp_flags = buf[26] & 7;
	mad->rmpp_status = buf[27];
	mad->segment = sa_get32(buf + 28);
	mad->paylen = sa_get32(buf + 32);
	return 0;
}

void sa_mad_encode(const struct sa_mad *mad, uint8_t buf[SA_MAD_SIZE])
{
	const uint8_t no_response_time = 31 << 3;

	memset(buf, 0, SA_MAD_SIZE);
	buf[0] = SA_BASE_VERSION;
	buf[1] = SA_CLASS;
	buf[2] = SA_CLASS_VERSION;
	buf[3] = mad->method;
	sa_put16(buf + 4, mad->status);
	sa_put64(buf + 8, mad->tid);
	sa_put16(buf + 16, mad->attribute);
	if (mad->rmpp_flags & SA_RMPP_ACTIVE) {
		buf[24] = RMPP_VERSION;
		buf[25] = mad->rmpp_type;
		buf[26] = mad->rmpp_flags | no_response_time;
		buf[27] = mad->rmpp_status;
		sa_put32(buf + 28, mad->segment);
		sa_put32(buf + 32, mad->paylen);
	}
	sa_put16(buf + 44, mad->attr_offset);
	sa_put64(buf + 48, mad->comp_mask);
	if (mad->data)
		memcpy(buf + SA_MAD_DATA, mad->data, SA_MAD_DATA_SIZE);
}

/* 13.4.7 and table 15-5: the class's own status is in the upper byte. */
int sa_mad_status(uint16_t status)
{
	enum { BUSY = 1, NO_RESOURCES = 1, NO_RECORDS = 3, INVALID_GID = 5, DENIED = 7 };

	if (!status)
		return 0;
	if (status & BUSY)
		return -EBUSY;
	switch (status >> 8) {
	case NO_RESOURCES: return -EBUSY;
	case NO_RECORDS:
	case INVALID_GID: return -EHOSTUNREACH;
	case DENIED: return -EPERM;
	default: return -EIO;
	}
}
