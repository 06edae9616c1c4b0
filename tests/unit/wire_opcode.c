/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The opcode table against the standard, written out by hand (IBTA vol. 1, table 38 and the
 * pictures of 9.3), the bit fields of the headers, PSN arithmetic, and the parser on malformed
 * packets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "wire/opcode.h"

/* One row: opcode, name, position (F M L O), kind, header length, and each header's offset. */
struct row {
	uint8_t opcode;
	const char *name;
	char position;
	char kind; /* Send Write readQ readR Atomic atomicB acK atomicwrite */
	uint8_t len, xrceth, deth, reth, atomic, aeth, atomic_ack, imm, ieth;
	bool payload, recv;
};

static const struct row rows[] = {
	{0x00, "RC SEND FIRST", 'F', 'S', 12, .payload = 1, .recv = 1},
	{0x01, "RC SEND MIDDLE", 'M', 'S', 12, .payload = 1},
	{0x02, "RC SEND LAST", 'L', 'S', 12, .payload = 1},
	{0x03, "RC SEND LAST with immediate", 'L', 'S', 16, .imm = 12, .payload = 1},
	{0x04, "RC SEND ONLY", 'O', 'S', 12, .payload = 1, .recv = 1},
	{0x05, "RC SEND ONLY with immediate", 'O', 'S', 16, .imm = 12, .payload = 1, .recv = 1},
	{0x06, "RC RDMA WRITE FIRST", 'F', 'W', 28, .reth = 12, .payload = 1},
	{0x07, "RC RDMA WRITE MIDDLE", 'M', 'W', 12, .payload = 1},
	{0x08, "RC RDMA WRITE LAST", 'L', 'W', 12, .payload = 1},
	{0x09, "RC RDMA WRITE LAST with immediate", 'L', 'W', 16, .imm = 12, .payload = 1,
	 .recv = 1},
	{0x0a, "RC RDMA WRITE ONLY", 'O', 'W', 28, .reth = 12, .payload = 1},
	{0x0b, "RC RDMA WRITE ONLY with immediate", 'O', 'W', 32, .reth = 12, .imm = 28,
	 .payload = 1, .recv = 1},
	{0x0c, "RC RDMA READ request", 'O', 'Q', 28, .reth = 12},
	{0x0d, "RC RDMA READ response FIRST", 'F', 'R', 16, .aeth = 12, .payload = 1},
	{0x0e, "RC RDMA READ response MIDDLE", 'M', 'R', 12, .payload = 1},
	{0x0f, "RC RDMA READ response LAST", 'L', 'R', 16, .aeth = 12, .payload = 1},
	{0x10, "RC RDMA READ response ONLY", 'O', 'R', 16, .aeth = 12, .payload = 1},
	{0x11, "RC Acknowledge", 'O', 'K', 16, .aeth = 12},
	{0x12, "RC ATOMIC Acknowledge", 'O', 'B', 24, .aeth = 12, .atomic_ack = 16},
	{0x13, "RC CmpSwap", 'O', 'A', 40, .atomic = 12},
	{0x14, "RC FetchAdd", 'O', 'A', 40, .atomic = 12},
	{0x16, "RC SEND LAST with invalidate", 'L', 'S', 16, .ieth = 12, .payload = 1},
	{0x17, "RC SEND ONLY with invalidate", 'O', 'S', 16, .ieth = 12, .payload = 1, .recv = 1},
	{0x1d, "RC ATOMIC WRITE", 'O', 'w', 28, .reth = 12, .payload = 1},
	{0x20, "UC SEND FIRST", 'F', 'S', 12, .payload = 1, .recv = 1},
	{0x21, "UC SEND MIDDLE", 'M', 'S', 12, .payload = 1},
	{0x22, "UC SEND LAST", 'L', 'S', 12, .payload = 1},
	{0x23, "UC SEND LAST with immediate", 'L', 'S', 16, .imm = 12, .payload = 1},
	{0x24, "UC SEND ONLY", 'O', 'S', 12, .payload = 1, .recv = 1},
	{0x25, "UC SEND ONLY with immediate", 'O', 'S', 16, .imm = 12, .payload = 1, .recv = 1},
	{0x26, "UC RDMA WRITE FIRST", 'F', 'W', 28, .reth = 12, .payload = 1},
	{0x27, "UC RDMA WRITE MIDDLE", 'M', 'W', 12, .payload = 1},
	{0x28, "UC RDMA WRITE LAST", 'L', 'W', 12, .payload = 1},
	{0x29, "UC RDMA WRITE LAST with immediate", 'L', 'W', 16, .imm = 12, .payload = 1,
	 .recv = 1},
	{0x2a, "UC RDMA WRITE ONLY", 'O', 'W', 28, .reth = 12, .payload = 1},
	{0x2b, "UC RDMA WRITE ONLY with immediate", 'O', 'W', 32, .reth = 12, .imm = 28,
	 .payload = 1, .recv = 1},
	{0x64, "UD SEND ONLY", 'O', 'S', 20, .deth = 12, .payload = 1, .recv = 1},
	{0x65, "UD SEND ONLY with immediate", 'O', 'S', 24, .deth = 12, .imm = 20, .payload = 1,
	 .recv = 1},
	/* Annex A14: requests name an SRQ behind the BTH. */
	{0xa0, "XRC SEND FIRST", 'F', 'S', 16, .xrceth = 12, .payload = 1, .recv = 1},
	{0xa1, "XRC SEND MIDDLE", 'M', 'S', 16, .xrceth = 12, .payload = 1},
	{0xa2, "XRC SEND LAST", 'L', 'S', 16, .xrceth = 12, .payload = 1},
	{0xa3, "XRC SEND LAST with immediate", 'L', 'S', 20, .xrceth = 12, .imm = 16, .payload = 1},
	{0xa4, "XRC SEND ONLY", 'O', 'S', 16, .xrceth = 12, .payload = 1, .recv = 1},
	{0xa5, "XRC SEND ONLY with immediate", 'O', 'S', 20, .xrceth = 12, .imm = 16, .payload = 1,
	 .recv = 1},
	{0xa6, "XRC RDMA WRITE FIRST", 'F', 'W', 32, .xrceth = 12, .reth = 16, .payload = 1},
	{0xa7, "XRC RDMA WRITE MIDDLE", 'M', 'W', 16, .xrceth = 12, .payload = 1},
	{0xa8, "XRC RDMA WRITE LAST", 'L', 'W', 16, .xrceth = 12, .payload = 1},
	{0xa9, "XRC RDMA WRITE LAST with immediate", 'L', 'W', 20, .xrceth = 12, .imm = 16,
	 .payload = 1, .recv = 1},
	{0xaa, "XRC RDMA WRITE ONLY", 'O', 'W', 32, .xrceth = 12, .reth = 16, .payload = 1},
	{0xab, "XRC RDMA WRITE ONLY with immediate", 'O', 'W', 36, .xrceth = 12, .reth = 16,
	 .imm = 32, .payload = 1, .recv = 1},
	{0xac, "XRC RDMA READ request", 'O', 'Q', 32, .xrceth = 12, .reth = 16},
	{0xad, "XRC RDMA READ response FIRST", 'F', 'R', 16, .aeth = 12, .payload = 1},
	{0xae, "XRC RDMA READ response MIDDLE", 'M', 'R', 12, .payload = 1},
	{0xaf, "XRC RDMA READ response LAST", 'L', 'R', 16, .aeth = 12, .payload = 1},
	{0xb0, "XRC RDMA READ response ONLY", 'O', 'R', 16, .aeth = 12, .payload = 1},
	{0xb1, "XRC Acknowledge", 'O', 'K', 16, .aeth = 12},
	{0xb2, "XRC ATOMIC Acknowledge", 'O', 'B', 24, .aeth = 12, .atomic_ack = 16},
	{0xb3, "XRC CmpSwap", 'O', 'A', 44, .xrceth = 12, .atomic = 16},
	{0xb4, "XRC FetchAdd", 'O', 'A', 44, .xrceth = 12, .atomic = 16},
	{0xb6, "XRC SEND LAST with invalidate", 'L', 'S', 20, .xrceth = 12, .ieth = 16,
	 .payload = 1},
	{0xb7, "XRC SEND ONLY with invalidate", 'O', 'S', 20, .xrceth = 12, .ieth = 16,
	 .payload = 1, .recv = 1},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static uint32_t position_bits(char position)
{
	return position == 'F'	 ? URXE_OP_START
	       : position == 'M' ? URXE_OP_MIDDLE
	       : position == 'L' ? URXE_OP_END
				 : URXE_OP_START | URXE_OP_END;
}

static uint32_t kind_bits(char kind)
{
	switch (kind) {
	case 'S': return URXE_OP_SEND | URXE_OP_REQUEST;
	case 'W': return URXE_OP_WRITE | URXE_OP_REQUEST;
	case 'Q': return URXE_OP_READ_REQ | URXE_OP_REQUEST;
	case 'A': return URXE_OP_ATOMIC | URXE_OP_REQUEST;
	case 'w': return URXE_OP_ATOMIC_WRITE | URXE_OP_REQUEST;
	case 'R': return URXE_OP_READ_RESP | URXE_OP_RESPONSE;
	case 'B': return URXE_OP_ATOMIC_ACK | URXE_OP_RESPONSE;
	default: return URXE_OP_ACK | URXE_OP_RESPONSE;
	}
}

static uint32_t header_bits(const struct row *r)
{
	return (r->xrceth ? URXE_OP_HAS_XRCETH : 0) | (r->deth ? URXE_OP_HAS_DETH : 0) |
	       (r->reth ? URXE_OP_HAS_RETH : 0) | (r->atomic ? URXE_OP_HAS_ATOMIC : 0) |
	       (r->aeth ? URXE_OP_HAS_AETH : 0) | (r->atomic_ack ? URXE_OP_HAS_ATOMIC_ACK : 0) |
	       (r->imm ? URXE_OP_HAS_IMM : 0) | (r->ieth ? URXE_OP_HAS_IETH : 0) |
	       (r->payload ? URXE_OP_HAS_PAYLOAD : 0) | (r->recv ? URXE_OP_CONSUMES_RECV : 0);
}

static void table(void **state)
{
	unsigned known = 0;

	for (size_t k = 0; k < ROWS; k++) {
		const struct row *r = &rows[k];
		const struct urxe_opcode_info *info = &urxe_opcodes[r->opcode];

		assert_string_equal(info->name, r->name);
		assert_int_equal(info->mask.bits,
				 position_bits(r->position) | kind_bits(r->kind) | header_bits(r));
		assert_int_equal(info->header_len, r->len);
		assert_int_equal(info->offset[URXE_HDR_BTH], 0);
		assert_int_equal(info->offset[URXE_HDR_XRCETH], r->xrceth);
		assert_int_equal(info->offset[URXE_HDR_DETH], r->deth);
		assert_int_equal(info->offset[URXE_HDR_RETH], r->reth);
		assert_int_equal(info->offset[URXE_HDR_ATOMIC], r->atomic);
		assert_int_equal(info->offset[URXE_HDR_AETH], r->aeth);
		assert_int_equal(info->offset[URXE_HDR_ATOMIC_ACK], r->atomic_ack);
		assert_int_equal(info->offset[URXE_HDR_IMM], r->imm);
		assert_int_equal(info->offset[URXE_HDR_IETH], r->ieth);
	}
	for (unsigned k = 0; k < URXE_NUM_OPCODES; k++)
		known += urxe_opcodes[k].name != NULL;
	assert_int_equal(known, ROWS);
}

static void masks(void **state)
{
	struct urxe_opmask first = urxe_opcodes[URXE_RC_SEND_FIRST].mask;

	assert_true(urxe_op_any(first, URXE_OP_ONLY));
	assert_false(urxe_op_any(first, URXE_OP_MIDDLE | URXE_OP_END));
}

/* Every opcode, whole: where the parser says the headers are, and how long the payload is. */
static void parse_good(void **state)
{
	for (size_t k = 0; k < ROWS; k++) {
		const struct row *r = &rows[k];

		for (unsigned len = 0; len <= (r->payload ? 4096 : 0);
		     len = len ? len * 3 + 1 : 1) {
			uint8_t bytes[64 + 4100] = {0};
			unsigned pad = urxe_pad_of(len);
			struct urxe_packet p;

			urxe_bth_fill((struct urxe_bth *)bytes, r->opcode, URXE_BTH_MIGREQ, pad,
				      0xffff, 5, false, 9);
			assert_int_equal(urxe_packet_parse(bytes, r->len + len + pad, &p), 0);
			assert_int_equal(p.opcode, r->opcode);
			assert_ptr_equal(p.bth, bytes);
			assert_ptr_equal(p.xrceth, r->xrceth ? bytes + r->xrceth : NULL);
			assert_ptr_equal(p.deth, r->deth ? bytes + r->deth : NULL);
			assert_ptr_equal(p.reth, r->reth ? bytes + r->reth : NULL);
			assert_ptr_equal(p.atomic, r->atomic ? bytes + r->atomic : NULL);
			assert_ptr_equal(p.aeth, r->aeth ? bytes + r->aeth : NULL);
			assert_ptr_equal(p.atomic_ack,
					 r->atomic_ack ? bytes + r->atomic_ack : NULL);
			assert_ptr_equal(p.imm, r->imm ? bytes + r->imm : NULL);
			assert_ptr_equal(p.ieth, r->ieth ? bytes + r->ieth : NULL);
			assert_ptr_equal(p.payload, bytes + r->len);
			assert_int_equal(p.payload_len, len);
		}
	}
}

static void parse_bad(void **state)
{
	static const struct {
		const char *what;
		uint8_t opcode, flags;
		unsigned len;
	} bad[] = {
		{"nothing", URXE_RC_SEND_ONLY, 0, 0},
		{"part of a BTH", URXE_RC_SEND_ONLY, 0, 8},
		{"one byte less than a BTH", URXE_RC_SEND_ONLY, 0, 11},
		{"no multiple of 4", URXE_RC_SEND_ONLY, 0, 13},
		{"no multiple of 4, long", URXE_RC_SEND_ONLY, 0, 1026},
		{"RETH cut off", URXE_RC_WRITE_ONLY, 0, 24},
		{"AtomicETH cut off", URXE_RC_FETCH_ADD, 0, 36},
		{"AtomicAckETH cut off", URXE_RC_ATOMIC_ACKNOWLEDGE, 0, 20},
		{"AETH missing", URXE_RC_ACKNOWLEDGE, 0, 12},
		{"DETH cut off", URXE_UD_SEND_ONLY, 0, 16},
		{"immediate missing", URXE_UD_SEND_ONLY_IMM, 0, 20},
		{"IETH missing", URXE_RC_SEND_ONLY_INV, 0, 12},
		{"payload on an ACK", URXE_RC_ACKNOWLEDGE, 0, 20},
		{"payload on a READ request", URXE_RC_READ_REQUEST, 0, 32},
		{"payload on an atomic", URXE_RC_COMPARE_SWAP, 0, 44},
		{"pad without payload", URXE_RC_SEND_ONLY, 1 << 4, 12},
		{"pad on an ACK", URXE_RC_ACKNOWLEDGE, 3 << 4, 16},
		{"transport version 1", URXE_RC_SEND_ONLY, 1, 16},
		{"transport version 15", URXE_RC_SEND_ONLY, 15, 16},
		{"reserved RC opcode", 0x15, 0, 64},
		{"RC opcode after the last", 0x18, 0, 64},
		{"UC has no READ", 0x2c, 0, 64},
		{"RD", 0x44, 0, 64},
		{"UD SEND FIRST", 0x60, 0, 64},
		{"CNP", 0x81, 0, 64},
		{"manufacturer's opcode", 0xc4, 0, 64},
		{"last opcode", 0xff, 0, 64},
	};

	for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
		uint8_t bytes[2048] = {bad[k].opcode, bad[k].flags};
		struct urxe_packet p;

		if (urxe_packet_parse(bytes, bad[k].len, &p) != -EBADMSG)
			fail_msg("%s was not refused", bad[k].what);
	}
}

/* The bytes of a BTH as the standard's picture has them. */
static void bth_fields(void **state)
{
	static const uint8_t expect[12] = {0x0a, 0xe0, 0x12, 0x34, 0x00, 0xab,
					   0xcd, 0xef, 0x80, 0x98, 0x76, 0x54};
	struct urxe_bth bth;

	urxe_bth_fill(&bth, 0x0a, URXE_BTH_SE | URXE_BTH_MIGREQ, 2, 0x1234, 0xabcdef, true,
		      0x987654);
	assert_memory_equal(&bth, expect, sizeof(expect));
	assert_true(urxe_bth_se(&bth));
	assert_true(urxe_bth_migreq(&bth));
	assert_int_equal(urxe_bth_pad(&bth), 2);
	assert_int_equal(urxe_bth_tver(&bth), 0);
	assert_int_equal(urxe_bth_pkey(&bth), 0x1234);
	assert_int_equal(urxe_bth_qpn(&bth), 0xabcdef);
	assert_true(urxe_bth_ackreq(&bth));
	assert_int_equal(urxe_bth_psn(&bth), 0x987654);
	((uint8_t *)&bth)[4] = 0xff;
	((uint8_t *)&bth)[8] = 0x7f;
	assert_int_equal(urxe_bth_qpn(&bth), 0xabcdef);
	assert_false(urxe_bth_ackreq(&bth));
	assert_int_equal(urxe_bth_psn(&bth), 0x987654);
	urxe_bth_fill(&bth, 0, 0, 0, 0xffff, 0xff000001, false, 0xff000002);
	assert_int_equal(((uint8_t *)&bth)[1], 0);
	assert_false(urxe_bth_migreq(&bth));
	assert_int_equal(((uint8_t *)&bth)[4], 0);
	assert_int_equal(((uint8_t *)&bth)[8], 0);
}

static void extension_fields(void **state)
{
	static const uint8_t reth_bytes[16] = {1,   2,	 3,   4,   5, 6, 7, 8,
					       0xa, 0xb, 0xc, 0xd, 0, 1, 0, 2};
	static const uint8_t aeth_bytes[4] = {0x63, 0x01, 0x02, 0x03};
	struct urxe_atomic_eth atomic;
	struct urxe_deth deth;
	struct urxe_reth reth;
	struct urxe_aeth aeth;
	struct urxe_atomic_ack_eth ack;

	urxe_reth_fill(&reth, 0x0102030405060708, 0x0a0b0c0d, 0x00010002);
	assert_memory_equal(&reth, reth_bytes, 16);
	assert_int_equal(urxe_reth_va(&reth), 0x0102030405060708);
	assert_int_equal(urxe_reth_rkey(&reth), 0x0a0b0c0d);
	assert_int_equal(urxe_reth_length(&reth), 0x00010002);

	urxe_aeth_fill(&aeth, URXE_AETH_NAK | URXE_NAK_REMOTE_OPERATIONAL, 0xff010203);
	assert_memory_equal(&aeth, aeth_bytes, 4);
	assert_int_equal(urxe_aeth_kind(urxe_aeth_syndrome(&aeth)), URXE_AETH_NAK);
	assert_int_equal(urxe_aeth_value(urxe_aeth_syndrome(&aeth)), URXE_NAK_REMOTE_OPERATIONAL);
	assert_int_equal(be32toh(aeth.syndrome_msn) & 0xffffff, 0x010203);
	assert_int_equal(urxe_aeth_kind(0x1f), URXE_AETH_ACK);
	assert_int_equal(urxe_aeth_kind(0x2e), URXE_AETH_RNR_NAK);
	assert_int_equal(urxe_aeth_value(0x2e), 14);

	urxe_deth_fill(&deth, 0x11223344, 0xffabcdef);
	assert_int_equal(urxe_deth_qkey(&deth), 0x11223344);
	assert_int_equal(urxe_deth_sqp(&deth), 0xabcdef);
	assert_int_equal(((uint8_t *)&deth)[4], 0);

	urxe_atomic_fill(&atomic, 1, 2, 3, 4);
	assert_int_equal(((uint8_t *)&atomic)[7], 1);
	assert_int_equal(((uint8_t *)&atomic)[11], 2);
	assert_int_equal(((uint8_t *)&atomic)[19], 3);
	assert_int_equal(((uint8_t *)&atomic)[27], 4);
	assert_int_equal(be64toh(atomic.va), 1);
	assert_int_equal(be32toh(atomic.rkey), 2);
	assert_int_equal(be64toh(atomic.swap_add), 3);
	assert_int_equal(be64toh(atomic.compare), 4);
	urxe_atomic_ack_fill(&ack, 0x0102);
	assert_int_equal(((uint8_t *)&ack)[7], 2);
	assert_int_equal(be64toh(ack.original), 0x0102);
}

static void psn_circle(void **state)
{
	assert_int_equal(urxe_psn_diff(5, 3), 2);
	assert_int_equal(urxe_psn_diff(3, 5), -2);
	assert_int_equal(urxe_psn_diff(0, 0xffffff), 1);
	assert_int_equal(urxe_psn_diff(0xffffff, 0), -1);
	assert_int_equal(urxe_psn_diff(0x7fffff, 0), 0x7fffff);
	assert_int_equal(urxe_psn_diff(0x800000, 0), -0x800000);
	assert_int_equal(urxe_psn_diff(0x123456, 0x123456), 0);
	assert_int_equal(urxe_psn_add(0xfffffe, 3), 1);
	assert_int_equal(urxe_psn_add(7, 0), 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table),      cmocka_unit_test(masks),
		cmocka_unit_test(parse_good), cmocka_unit_test(parse_bad),
		cmocka_unit_test(bth_fields), cmocka_unit_test(extension_fields),
		cmocka_unit_test(psn_circle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
