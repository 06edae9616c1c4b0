/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What an opcode means (IBTA vol. 1, 9.2.1 and table 38), and the parser that every received packet
 * goes through. Constant data and pure functions: any thread, no lock.
 *
 * An opcode is a number on the wire; what it means is a set of properties. The two have different
 * types (enum urxe_opcode, struct urxe_opmask), so that testing the one for the other's bits does
 * not compile.
 */
#ifndef URXE_WIRE_OPCODE_H
#define URXE_WIRE_OPCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/headers.h"

/* The upper three bits of an opcode: the transport service. */
enum urxe_service {
	URXE_SERVICE_RC = 0x00,
	URXE_SERVICE_UC = 0x20,
	URXE_SERVICE_UD = 0x60,
	URXE_SERVICE_XRC = 0xa0,
	URXE_SERVICE_MASK = 0xe0,
	URXE_SERVICE_NONE = 0xff, /* of no packet: raw packet QPs have no transport header */
};

enum urxe_opcode {
	URXE_RC_SEND_FIRST = 0x00,
	URXE_RC_SEND_MIDDLE = 0x01,
	URXE_RC_SEND_LAST = 0x02,
	URXE_RC_SEND_LAST_IMM = 0x03,
	URXE_RC_SEND_ONLY = 0x04,
	URXE_RC_SEND_ONLY_IMM = 0x05,
	URXE_RC_WRITE_FIRST = 0x06,
	URXE_RC_WRITE_MIDDLE = 0x07,
	URXE_RC_WRITE_LAST = 0x08,
	URXE_RC_WRITE_LAST_IMM = 0x09,
	URXE_RC_WRITE_ONLY = 0x0a,
	URXE_RC_WRITE_ONLY_IMM = 0x0b,
	URXE_RC_READ_REQUEST = 0x0c,
	URXE_RC_READ_RESPONSE_FIRST = 0x0d,
	URXE_RC_READ_RESPONSE_MIDDLE = 0x0e,
	URXE_RC_READ_RESPONSE_LAST = 0x0f,
	URXE_RC_READ_RESPONSE_ONLY = 0x10,
	URXE_RC_ACKNOWLEDGE = 0x11,
	URXE_RC_ATOMIC_ACKNOWLEDGE = 0x12,
	URXE_RC_COMPARE_SWAP = 0x13,
	URXE_RC_FETCH_ADD = 0x14,
	URXE_RC_SEND_LAST_INV = 0x16,
	URXE_RC_SEND_ONLY_INV = 0x17,
	URXE_RC_ATOMIC_WRITE = 0x1d,

	/* Those of UC and XRC are RC's in their service. */
	URXE_UD_SEND_ONLY = 0x64,
	URXE_UD_SEND_ONLY_IMM = 0x65,

	URXE_NUM_OPCODES = 0x100,
};

/* Properties of an opcode. */
enum urxe_opbits {
	/* Which packet of its message it is; ONLY is both START and END. */
	URXE_OP_START = 1 << 0,
	URXE_OP_MIDDLE = 1 << 1,
	URXE_OP_END = 1 << 2,
	URXE_OP_ONLY = URXE_OP_START | URXE_OP_END,
	/* What it does: one of these … */
	URXE_OP_SEND = 1 << 3,
	URXE_OP_WRITE = 1 << 4,
	URXE_OP_READ_REQ = 1 << 5,
	URXE_OP_READ_RESP = 1 << 6,
	URXE_OP_ATOMIC = 1 << 7,     /* a request */
	URXE_OP_ATOMIC_ACK = 1 << 8, /* its response */
	URXE_OP_ACK = 1 << 9,
	/* … and its receiver: one of these. */
	URXE_OP_REQUEST = 1 << 10,
	URXE_OP_RESPONSE = 1 << 11,
	/* What follows the BTH. */
	URXE_OP_HAS_PAYLOAD = 1 << 12,
	URXE_OP_HAS_DETH = 1 << 13,
	URXE_OP_HAS_RETH = 1 << 14,
	URXE_OP_HAS_ATOMIC = 1 << 15,
	URXE_OP_HAS_AETH = 1 << 16,
	URXE_OP_HAS_ATOMIC_ACK = 1 << 17,
	URXE_OP_HAS_IMM = 1 << 18,
	URXE_OP_HAS_IETH = 1 << 19,
	/* The responder needs a receive WR before it may take this packet: the first packet of a
	 * SEND, the last of an RDMA WRITE with immediate. */
	URXE_OP_CONSUMES_RECV = 1 << 20,
	URXE_OP_HAS_XRCETH = 1 << 21,
	URXE_OP_ATOMIC_WRITE = 1 << 22, /* annex A19 */
	/* Requests that an answer of their own acknowledges. */
	URXE_OP_ANSWERED = URXE_OP_READ_REQ | URXE_OP_ATOMIC | URXE_OP_ATOMIC_WRITE,
};

struct urxe_opmask {
	uint32_t bits;
};

/* Has it any of these properties? */
static inline bool urxe_op_any(struct urxe_opmask mask, enum urxe_opbits bits)
{
	return mask.bits & bits;
}

/* The headers, in the order in which they stand in a packet. */
enum urxe_header {
	URXE_HDR_BTH,
	URXE_HDR_XRCETH,
	URXE_HDR_DETH,
	URXE_HDR_RETH,
	URXE_HDR_ATOMIC,
	URXE_HDR_AETH,
	URXE_HDR_ATOMIC_ACK,
	URXE_HDR_IMM,
	URXE_HDR_IETH,
	URXE_NUM_HDRS,
};

struct urxe_opcode_info {
	const char *name; /* NULL: no such opcode */
	struct urxe_opmask mask;
	uint8_t header_len;	       /* BTH and extension headers: 12 … 44 */
	uint8_t offset[URXE_NUM_HDRS]; /* from the BTH; 0: not in this packet (or the BTH) */
};

extern const struct urxe_opcode_info urxe_opcodes[URXE_NUM_OPCODES];

struct urxe_refs; /* wire.h */

/* A packet taken apart. Headers that it does not have are NULL. Valid as long as the bytes are. */
struct urxe_packet {
	enum urxe_opcode opcode;
	struct urxe_opmask mask;
	const struct urxe_bth *bth;
	const struct urxe_xrceth *xrceth;
	const struct urxe_deth *deth;
	const struct urxe_reth *reth;
	const struct urxe_atomic_eth *atomic;
	const struct urxe_aeth *aeth;
	const struct urxe_atomic_ack_eth *atomic_ack;
	const struct urxe_immdt *imm;
	const struct urxe_ieth *ieth;
	const uint8_t *payload;
	uint32_t payload_len; /* without pad */
	/* Of a neighbour's packets (wire.h): the PSNs that it stands for, and where in its sender's
	 * memory the payload lies when it is not here. The parser says 1 and NULL. */
	uint16_t span;
	const struct urxe_refs *refs;
	uint32_t refs_offset;
};

/*
 * Takes len bytes from the BTH on, without ICRC, apart. -EBADMSG when they are no packet of a known
 * opcode: too short for its headers, not a multiple of 4, bytes after the headers of an opcode that
 * carries none, more pad than payload, or another transport version (IBTA vol. 1, 9.6.1.1). Says
 * nothing about what the QP's state allows.
 */
int urxe_packet_parse(const void *bth, size_t len, struct urxe_packet *pkt);

#endif
