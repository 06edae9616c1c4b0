/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The opcode table and the packet parser. A row gives a name and properties; the length of the
 * headers and where each of them lies follow from the properties, so that they cannot disagree.
 */
#include <errno.h>

#include "wire/opcode.h"

/* END_X(m): the length of the headers of mask m up to and including X, in their order. */
#define LEN_IF(m, flag, type) (((m)&URXE_OP_HAS_##flag) ? (int)sizeof(type) : 0)

#define END_BTH(m)	  ((int)sizeof(struct urxe_bth))
#define END_DETH(m)	  (END_BTH(m) + LEN_IF(m, DETH, struct urxe_deth))
#define END_RETH(m)	  (END_DETH(m) + LEN_IF(m, RETH, struct urxe_reth))
#define END_ATOMIC(m)	  (END_RETH(m) + LEN_IF(m, ATOMIC, struct urxe_atomic_eth))
#define END_AETH(m)	  (END_ATOMIC(m) + LEN_IF(m, AETH, struct urxe_aeth))
#define END_ATOMIC_ACK(m) (END_AETH(m) + LEN_IF(m, ATOMIC_ACK, struct urxe_atomic_ack_eth))
#define END_IMM(m)	  (END_ATOMIC_ACK(m) + LEN_IF(m, IMM, struct urxe_immdt))
#define END_IETH(m)	  (END_IMM(m) + LEN_IF(m, IETH, struct urxe_ieth))

/* Where a header starts: where the one before it ends; 0 when it is absent. */
#define AT(m, flag, before) (((m)&URXE_OP_HAS_##flag) ? END_##before(m) : 0)

#define ROW(opcode, text, m)                                                     \
	[opcode] = {                                                             \
		.name = text,                                                    \
		.mask = {m},                                                     \
		.header_len = END_IETH(m),                                       \
		.offset =                                                        \
			{                                                        \
				[URXE_HDR_DETH] = AT(m, DETH, BTH),              \
				[URXE_HDR_RETH] = AT(m, RETH, DETH),             \
				[URXE_HDR_ATOMIC] = AT(m, ATOMIC, RETH),         \
				[URXE_HDR_AETH] = AT(m, AETH, ATOMIC),           \
				[URXE_HDR_ATOMIC_ACK] = AT(m, ATOMIC_ACK, AETH), \
				[URXE_HDR_IMM] = AT(m, IMM, ATOMIC_ACK),         \
				[URXE_HDR_IETH] = AT(m, IETH, IMM),              \
			},                                                       \
	}

#define FIRST  URXE_OP_START
#define MIDDLE URXE_OP_MIDDLE
#define LAST   URXE_OP_END
#define ONLY   URXE_OP_ONLY
#define IMM    URXE_OP_HAS_IMM
#define INV    URXE_OP_HAS_IETH
#define RETH   URXE_OP_HAS_RETH
#define RECV   URXE_OP_CONSUMES_RECV

#define SEND	  (URXE_OP_REQUEST | URXE_OP_SEND | URXE_OP_HAS_PAYLOAD)
#define WRITE	  (URXE_OP_REQUEST | URXE_OP_WRITE | URXE_OP_HAS_PAYLOAD)
#define ATOMIC	  (URXE_OP_REQUEST | URXE_OP_ATOMIC | URXE_OP_HAS_ATOMIC | ONLY)
#define RESP	  (URXE_OP_RESPONSE)
#define READ_RESP (RESP | URXE_OP_READ_RESP | URXE_OP_HAS_PAYLOAD)
#define AETH	  URXE_OP_HAS_AETH
#define DETH	  URXE_OP_HAS_DETH

/* SEND and RDMA WRITE are the same for the connected services. */
#define CONNECTED_ROWS(S)                                                                         \
	ROW(URXE_##S##_SEND_FIRST, #S " SEND FIRST", SEND | FIRST | RECV),                        \
		ROW(URXE_##S##_SEND_MIDDLE, #S " SEND MIDDLE", SEND | MIDDLE),                    \
		ROW(URXE_##S##_SEND_LAST, #S " SEND LAST", SEND | LAST),                          \
		ROW(URXE_##S##_SEND_LAST_IMM, #S " SEND LAST with immediate", SEND | LAST | IMM), \
		ROW(URXE_##S##_SEND_ONLY, #S " SEND ONLY", SEND | ONLY | RECV),                   \
		ROW(URXE_##S##_SEND_ONLY_IMM, #S " SEND ONLY with immediate",                     \
		    SEND | ONLY | RECV | IMM),                                                    \
		ROW(URXE_##S##_WRITE_FIRST, #S " RDMA WRITE FIRST", WRITE | FIRST | RETH),        \
		ROW(URXE_##S##_WRITE_MIDDLE, #S " RDMA WRITE MIDDLE", WRITE | MIDDLE),            \
		ROW(URXE_##S##_WRITE_LAST, #S " RDMA WRITE LAST", WRITE | LAST),                  \
		ROW(URXE_##S##_WRITE_LAST_IMM, #S " RDMA WRITE LAST with immediate",              \
		    WRITE | LAST | RECV | IMM),                                                   \
		ROW(URXE_##S##_WRITE_ONLY, #S " RDMA WRITE ONLY", WRITE | ONLY | RETH),           \
		ROW(URXE_##S##_WRITE_ONLY_IMM, #S " RDMA WRITE ONLY with immediate",              \
		    WRITE | ONLY | RETH | RECV | IMM)

const struct urxe_opcode_info urxe_opcodes[URXE_NUM_OPCODES] = {
	CONNECTED_ROWS(RC),
	ROW(URXE_RC_READ_REQUEST, "RC RDMA READ request",
	    URXE_OP_REQUEST | URXE_OP_READ_REQ | ONLY | RETH),
	ROW(URXE_RC_READ_RESPONSE_FIRST, "RC RDMA READ response FIRST", READ_RESP | FIRST | AETH),
	ROW(URXE_RC_READ_RESPONSE_MIDDLE, "RC RDMA READ response MIDDLE", READ_RESP | MIDDLE),
	ROW(URXE_RC_READ_RESPONSE_LAST, "RC RDMA READ response LAST", READ_RESP | LAST | AETH),
	ROW(URXE_RC_READ_RESPONSE_ONLY, "RC RDMA READ response ONLY", READ_RESP | ONLY | AETH),
	ROW(URXE_RC_ACKNOWLEDGE, "RC Acknowledge", RESP | URXE_OP_ACK | ONLY | AETH),
	ROW(URXE_RC_ATOMIC_ACKNOWLEDGE, "RC ATOMIC Acknowledge",
	    RESP | URXE_OP_ATOMIC_ACK | ONLY | AETH | URXE_OP_HAS_ATOMIC_ACK),
	ROW(URXE_RC_COMPARE_SWAP, "RC CmpSwap", ATOMIC),
	ROW(URXE_RC_FETCH_ADD, "RC FetchAdd", ATOMIC),
	ROW(URXE_RC_SEND_LAST_INV, "RC SEND LAST with invalidate", SEND | LAST | INV),
	ROW(URXE_RC_SEND_ONLY_INV, "RC SEND ONLY with invalidate", SEND | ONLY | RECV | INV),

	CONNECTED_ROWS(UC),

	ROW(URXE_UD_SEND_ONLY, "UD SEND ONLY", SEND | ONLY | RECV | DETH),
	ROW(URXE_UD_SEND_ONLY_IMM, "UD SEND ONLY with immediate", SEND | ONLY | RECV | DETH | IMM),
};

static const void *header(const uint8_t *bytes, const struct urxe_opcode_info *info,
			  enum urxe_header which)
{
	return info->offset[which] ? bytes + info->offset[which] : NULL;
}

int urxe_packet_parse(const void *data, size_t len, struct urxe_packet *pkt)
{
	const struct urxe_opcode_info *info;
	const struct urxe_bth *bth = data;
	const uint8_t *bytes = data;
	size_t rest;

	if (len < sizeof(*bth) || len % 4 || len > UINT32_MAX)
		return -EBADMSG;
	info = &urxe_opcodes[bth->opcode];
	if (!info->name || len < info->header_len || urxe_bth_tver(bth) != URXE_TVER)
		return -EBADMSG;
	rest = len - info->header_len;
	if (rest < urxe_bth_pad(bth))
		return -EBADMSG;
	if (rest && !urxe_op_any(info->mask, URXE_OP_HAS_PAYLOAD))
		return -EBADMSG;

	pkt->opcode = (enum urxe_opcode)bth->opcode;
	pkt->mask = info->mask;
	pkt->bth = bth;
	pkt->deth = header(bytes, info, URXE_HDR_DETH);
	pkt->reth = header(bytes, info, URXE_HDR_RETH);
	pkt->atomic = header(bytes, info, URXE_HDR_ATOMIC);
	pkt->aeth = header(bytes, info, URXE_HDR_AETH);
	pkt->atomic_ack = header(bytes, info, URXE_HDR_ATOMIC_ACK);
	pkt->imm = header(bytes, info, URXE_HDR_IMM);
	pkt->ieth = header(bytes, info, URXE_HDR_IETH);
	pkt->payload = bytes + info->header_len;
	pkt->payload_len = rest - urxe_bth_pad(bth);
	pkt->span = 1;
	pkt->refs = NULL;
	pkt->refs_offset = 0;
	return 0;
}
