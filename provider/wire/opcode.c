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
#define END_XRCETH(m)	  (END_BTH(m) + LEN_IF(m, XRCETH, struct urxe_xrceth))
#define END_DETH(m)	  (END_XRCETH(m) + LEN_IF(m, DETH, struct urxe_deth))
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
				[URXE_HDR_XRCETH] = AT(m, XRCETH, BTH),          \
				[URXE_HDR_DETH] = AT(m, DETH, XRCETH),           \
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

/* A row of the service S: RC's opcode, and what all requests of the service have beside. */
#define OF(S, opcode, text, m) ROW(URXE_RC_##opcode + URXE_SERVICE_##S, #S " " text, m)

/* SEND and RDMA WRITE are the same for the connected services. */
#define CONNECTED_ROWS(S, x)                                                                      \
	OF(S, SEND_FIRST, "SEND FIRST", SEND | FIRST | RECV | (x)),                               \
		OF(S, SEND_MIDDLE, "SEND MIDDLE", SEND | MIDDLE | (x)),                           \
		OF(S, SEND_LAST, "SEND LAST", SEND | LAST | (x)),                                 \
		OF(S, SEND_LAST_IMM, "SEND LAST with immediate", SEND | LAST | IMM | (x)),        \
		OF(S, SEND_ONLY, "SEND ONLY", SEND | ONLY | RECV | (x)),                          \
		OF(S, SEND_ONLY_IMM, "SEND ONLY with immediate", SEND | ONLY | RECV | IMM | (x)), \
		OF(S, WRITE_FIRST, "RDMA WRITE FIRST", WRITE | FIRST | RETH | (x)),               \
		OF(S, WRITE_MIDDLE, "RDMA WRITE MIDDLE", WRITE | MIDDLE | (x)),                   \
		OF(S, WRITE_LAST, "RDMA WRITE LAST", WRITE | LAST | (x)),                         \
		OF(S, WRITE_LAST_IMM, "RDMA WRITE LAST with immediate",                           \
		   WRITE | LAST | RECV | IMM | (x)),                                              \
		OF(S, WRITE_ONLY, "RDMA WRITE ONLY", WRITE | ONLY | RETH | (x)),                  \
		OF(S, WRITE_ONLY_IMM, "RDMA WRITE ONLY with immediate",                           \
		   WRITE | ONLY | RETH | RECV | IMM | (x))

/* And what is answered by more than an acknowledgement, for the reliable ones. */
#define RELIABLE_ROWS(S, x)                                                                       \
	OF(S, READ_REQUEST, "RDMA READ request",                                                  \
	   URXE_OP_REQUEST | URXE_OP_READ_REQ | ONLY | RETH | (x)),                               \
		OF(S, READ_RESPONSE_FIRST, "RDMA READ response FIRST", READ_RESP | FIRST | AETH), \
		OF(S, READ_RESPONSE_MIDDLE, "RDMA READ response MIDDLE", READ_RESP | MIDDLE),     \
		OF(S, READ_RESPONSE_LAST, "RDMA READ response LAST", READ_RESP | LAST | AETH),    \
		OF(S, READ_RESPONSE_ONLY, "RDMA READ response ONLY", READ_RESP | ONLY | AETH),    \
		OF(S, ACKNOWLEDGE, "Acknowledge", RESP | URXE_OP_ACK | ONLY | AETH),              \
		OF(S, ATOMIC_ACKNOWLEDGE, "ATOMIC Acknowledge",                                   \
		   RESP | URXE_OP_ATOMIC_ACK | ONLY | AETH | URXE_OP_HAS_ATOMIC_ACK),             \
		OF(S, COMPARE_SWAP, "CmpSwap", ATOMIC | (x)),                                     \
		OF(S, FETCH_ADD, "FetchAdd", ATOMIC | (x)),                                       \
		OF(S, SEND_LAST_INV, "SEND LAST with invalidate", SEND | LAST | INV | (x)),       \
		OF(S, SEND_ONLY_INV, "SEND ONLY with invalidate", SEND | ONLY | RECV | INV | (x))

const struct urxe_opcode_info urxe_opcodes[URXE_NUM_OPCODES] = {
	CONNECTED_ROWS(RC, 0),
	RELIABLE_ROWS(RC, 0),
	OF(RC, ATOMIC_WRITE, "ATOMIC WRITE",
	   URXE_OP_REQUEST | URXE_OP_ATOMIC_WRITE | ONLY | RETH | URXE_OP_HAS_PAYLOAD),

	CONNECTED_ROWS(UC, 0),

	CONNECTED_ROWS(XRC, URXE_OP_HAS_XRCETH),
	RELIABLE_ROWS(XRC, URXE_OP_HAS_XRCETH),

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
	pkt->xrceth = header(bytes, info, URXE_HDR_XRCETH);
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
