/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * MADs of the subnet administration class (IBTA vol. 1, 13.4.2, 13.6.2, 15.2.1):
 *
 *	 0 version, class, class version, method	 4 status	 8 transaction ID
 *	16 attribute	20 modifier			24 RMPP version, type, flags, status
 *	28 segment	32 payload length or new window	36 SM_Key	44 attribute offset
 *	48 component mask				56 data, 200 bytes
 *
 * Pure functions: any thread, no locks.
 */
#ifndef SACACHE_MAD_H
#define SACACHE_MAD_H

#include "libsacache/record.h"

#define SA_MAD_SIZE	 256
#define SA_MAD_DATA	 56
#define SA_MAD_DATA_SIZE 200
#define SA_TID_NOTICES	 (1u << 31) /* set in transactions of notice.c, clear in the client's */
#define SA_BASE_VERSION	 1
#define SA_CLASS	 3
#define SA_CLASS_VERSION 2
#define SA_RMPP_HEADER	 20 /* of the SA within an RMPP segment: SM_Key to component mask */

enum sa_method {
	SA_GET = 0x01,
	SA_SET = 0x02,
	SA_REPORT = 0x06,
	SA_GET_RESP = 0x81,
	SA_REPORT_RESP = 0x86,
	SA_GET_TABLE = 0x12,
	SA_GET_TABLE_RESP = 0x92,
	SA_GET_MULTI_RESP = 0x94, /* carries path records, too (15.4.1.2) */
};

enum sa_attribute {
	SA_ATTR_NOTICE = 0x02,
	SA_ATTR_INFORM_INFO = 0x03,
	SA_ATTR_SM_INFO_RECORD = 0x18,
	SA_ATTR_PATH_RECORD = 0x35,
};

enum sa_rmpp_type { SA_RMPP_DATA = 1, SA_RMPP_ACK, SA_RMPP_STOP, SA_RMPP_ABORT };
enum sa_rmpp_flags { SA_RMPP_ACTIVE = 1, SA_RMPP_FIRST = 2, SA_RMPP_LAST = 4 };
enum { SA_RMPP_TOO_LARGE = 1 }; /* RMPPStatus of an ABORT: out of resources */

struct sa_mad {
	uint8_t method;
	uint16_t status;
	uint64_t tid;
	uint16_t attribute;
	uint8_t rmpp_type;
	uint8_t rmpp_flags;
	uint8_t rmpp_status;
	uint32_t segment;
	uint32_t paylen;      /* of an ACK: the new window */
	uint16_t attr_offset; /* in 8 bytes */
	uint64_t comp_mask;
	const uint8_t *data; /* SA_MAD_DATA_SIZE bytes of the MAD */
};

/* -EPROTO: too short, or not a MAD of the SA. */
int sa_mad_decode(const uint8_t *buf, size_t length, struct sa_mad *mad);
/* data NULL: zeroes. */
void sa_mad_encode(const struct sa_mad *mad, uint8_t buf[SA_MAD_SIZE]);
/* Maps a status to 0, -EBUSY (try again later), or the errno of sacache_resolve(). */
int sa_mad_status(uint16_t status);

#endif
