/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The receiving end of RMPP (IBTA vol. 1, 13.6): segments of an answer to one long run of records.
 * Owned and serialized by the client. Segments are taken in order only; what lies beyond a gap is
 * sent again by the sender, after the ACK that repeats where the gap is.
 */
#ifndef SACACHE_RMPP_H
#define SACACHE_RMPP_H

#include "libsacache/mad.h"

struct sa_rmpp {
	uint8_t *data;
	size_t length;
	size_t capacity;
	uint32_t next; /* the expected segment; 0: none has arrived, nothing to acknowledge */
	uint32_t acknowledged;
	uint16_t attr_offset;
	uint8_t repeats; /* ACKs repeated since the last progress */
};

enum sa_rmpp_verdict {
	SA_RMPP_IGNORE,	   /* malformed, or beyond a gap without need for an ACK */
	SA_RMPP_PROGRESS,  /* accepted */
	SA_RMPP_ANSWER,	   /* send an ACK; next tells whether there was progress */
	SA_RMPP_COMPLETE,  /* send an ACK; all segments are there */
	SA_RMPP_OVERFLOW,  /* larger than limit: send an ABORT */
	SA_RMPP_NO_MEMORY, /* the same */
	SA_RMPP_ENDED,	   /* the sender stopped or aborted */
};

enum sa_rmpp_verdict sa_rmpp_receive(struct sa_rmpp *rmpp, const struct sa_mad *mad, size_t limit);
/* The ACK for the segments received. */
void sa_rmpp_ack(struct sa_rmpp *rmpp, uint64_t tid, struct sa_mad *ack);
void sa_rmpp_reset(struct sa_rmpp *rmpp);

#endif
