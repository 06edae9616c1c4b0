/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The packet formats: IBTA vol. 1 chapter 9 for the transport headers of every link, annex A17 for
 * their carriage in UDP. All of the wire format is here and nothing else is: no state, no locks.
 *
 *      0      IPv4 or IPv6 header
 *      +20/40 UDP header, destination port 4791
 *      +8     BTH, 12 bytes:
 *
 *       31       24 23                16 15                               0
 *      +-----------+--+--+-----+-------+----------------------------------+
 *      |  opcode   |SE|M |pad  | TVer  |            P_Key                 |
 *      +-----------+--+--+-----+-------+----------------------------------+
 *      |F|B| resv6 |             destination QP (24)                      |
 *      +-----------+------------------------------------------------------+
 *      |A|  resv7  |                  PSN (24)                            |
 *      +-----------+------------------------------------------------------+
 *
 *      +12    extension headers in the order DETH, XRCETH, RETH, AtomicETH, AETH, AtomicAckETH,
 *             ImmDt, IETH: which of them, the opcode says (opcode.h)
 *             payload, padded with zeros to a multiple of 4
 *      end-4  ICRC
 *
 * The structs are packed, so a packet may lie at any address. Fields hold network byte order;
 * the functions take and give host order.
 */
#ifndef URXE_WIRE_HEADERS_H
#define URXE_WIRE_HEADERS_H

#include <assert.h>
#include <endian.h>
#include <linux/types.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#define URXE_ICRC_LEN	     4
#define URXE_PKEY_DEFAULT    0xffff
#define URXE_PKEY_FULL	     0x8000 /* full member; the other 15 bits name the partition */
#define URXE_PKEY_BASE	     0x7fff
#define URXE_QPN_MASK	     0xffffff
#define URXE_QPN_GSI	     1
#define URXE_QPN_MULTICAST   0xffffff
#define URXE_QKEY_PRIVILEGED 0x80000000u
#define URXE_MAX_PAYLOAD     4096

#define URXE_PACKED __attribute__((packed))

/* Base transport header (IBTA vol. 1, 9.2). */
struct urxe_bth {
	uint8_t opcode;
	uint8_t flags;
	__be16 pkey;
	__be32 qpn;
	__be32 psn;
} URXE_PACKED;
static_assert(sizeof(struct urxe_bth) == 12, "BTH is 12 bytes");

/* Datagram extended transport header (9.3.2). */
struct urxe_deth {
	__be32 qkey;
	__be32 sqp;
} URXE_PACKED;
static_assert(sizeof(struct urxe_deth) == 8, "DETH is 8 bytes");

/* XRC extended transport header (annex A14). */
struct urxe_xrceth {
	__be32 srq;
} URXE_PACKED;
static_assert(sizeof(struct urxe_xrceth) == 4, "XRCETH is 4 bytes");

/* RDMA extended transport header (9.3.3). */
struct urxe_reth {
	__be64 va;
	__be32 rkey;
	__be32 length;
} URXE_PACKED;
static_assert(sizeof(struct urxe_reth) == 16, "RETH is 16 bytes");

/* Atomic extended transport header (9.3.4). */
struct urxe_atomic_eth {
	__be64 va;
	__be32 rkey;
	__be64 swap_add;
	__be64 compare;
} URXE_PACKED;
static_assert(sizeof(struct urxe_atomic_eth) == 28, "AtomicETH is 28 bytes");

/* ACK extended transport header (9.3.5): syndrome in the high byte, MSN in the low three. */
struct urxe_aeth {
	__be32 syndrome_msn;
} URXE_PACKED;
static_assert(sizeof(struct urxe_aeth) == 4, "AETH is 4 bytes");

/* Atomic ACK extended transport header (9.5.2): the value that was in memory before. */
struct urxe_atomic_ack_eth {
	__be64 original;
} URXE_PACKED;
static_assert(sizeof(struct urxe_atomic_ack_eth) == 8, "AtomicAckETH is 8 bytes");

/* Immediate data (9.3.6): opaque to the wire, in the byte order the application chose. */
struct urxe_immdt {
	__be32 imm;
} URXE_PACKED;
static_assert(sizeof(struct urxe_immdt) == 4, "ImmDt is 4 bytes");

/* Invalidate extended transport header (9.3.7). */
struct urxe_ieth {
	__be32 rkey;
} URXE_PACKED;
static_assert(sizeof(struct urxe_ieth) == 4, "IETH is 4 bytes");

/* Global route header (8.3), as a UD receive puts it before the payload. */
struct urxe_grh {
	__be32 version_tclass_flow;
	__be16 payload_len;
	uint8_t next_header;
	uint8_t hop_limit;
	struct in6_addr sgid;
	struct in6_addr dgid;
} URXE_PACKED;
static_assert(sizeof(struct urxe_grh) == 40, "GRH is 40 bytes");

/* ---- BTH ---- */

enum {
	URXE_BTH_SE = 0x80,	/* solicited event */
	URXE_BTH_MIGREQ = 0x40, /* migrated, as all are that do not migrate (17.2.8) */
	URXE_BTH_PAD_SHIFT = 4,
	URXE_BTH_TVER_MASK = 0x0f,
	URXE_TVER = 0,
};

#define URXE_BTH_ACKREQ 0x80000000u

static inline bool urxe_bth_se(const struct urxe_bth *bth)
{
	return bth->flags & URXE_BTH_SE;
}

static inline bool urxe_bth_migreq(const struct urxe_bth *bth)
{
	return bth->flags & URXE_BTH_MIGREQ;
}

static inline unsigned urxe_bth_pad(const struct urxe_bth *bth)
{
	return (bth->flags >> URXE_BTH_PAD_SHIFT) & 3;
}

static inline void urxe_bth_set_pad(struct urxe_bth *bth, unsigned pad)
{
	bth->flags = (bth->flags & ~(3 << URXE_BTH_PAD_SHIFT)) | pad << URXE_BTH_PAD_SHIFT;
}

static inline unsigned urxe_bth_tver(const struct urxe_bth *bth)
{
	return bth->flags & URXE_BTH_TVER_MASK;
}

/* May members with these P_Keys talk (10.9.3)? Two limited ones may not. */
static inline bool urxe_pkeys_match(uint16_t a, uint16_t b)
{
	return !((a ^ b) & URXE_PKEY_BASE) && (a | b) & URXE_PKEY_FULL;
}

static inline uint16_t urxe_bth_pkey(const struct urxe_bth *bth)
{
	return be16toh(bth->pkey);
}

static inline uint32_t urxe_bth_qpn(const struct urxe_bth *bth)
{
	return be32toh(bth->qpn) & URXE_QPN_MASK;
}

static inline bool urxe_bth_ackreq(const struct urxe_bth *bth)
{
	return be32toh(bth->psn) & URXE_BTH_ACKREQ;
}

static inline uint32_t urxe_bth_psn(const struct urxe_bth *bth)
{
	return be32toh(bth->psn) & 0xffffff;
}

/* Zeros that bring a payload to a multiple of 4: 0 … 3. */
static inline unsigned urxe_pad_of(uint32_t payload_len)
{
	return -payload_len & 3;
}

/* Writes a whole BTH. flags: URXE_BTH_SE and URXE_BTH_MIGREQ, or not; ackreq sets its bit. */
static inline void urxe_bth_fill(struct urxe_bth *bth, uint8_t opcode, uint8_t flags, unsigned pad,
				 uint16_t pkey, uint32_t qpn, bool ackreq, uint32_t psn)
{
	bth->opcode = opcode;
	bth->flags = flags | pad << URXE_BTH_PAD_SHIFT | URXE_TVER;
	bth->pkey = htobe16(pkey);
	bth->qpn = htobe32(qpn & URXE_QPN_MASK);
	bth->psn = htobe32((psn & 0xffffff) | (ackreq ? URXE_BTH_ACKREQ : 0));
}

/* ---- DETH, RETH, AtomicETH, ImmDt, IETH ---- */

static inline void urxe_deth_fill(struct urxe_deth *deth, uint32_t qkey, uint32_t sqp)
{
	deth->qkey = htobe32(qkey);
	deth->sqp = htobe32(sqp & URXE_QPN_MASK);
}

static inline uint32_t urxe_deth_qkey(const struct urxe_deth *deth)
{
	return be32toh(deth->qkey);
}

static inline uint32_t urxe_deth_sqp(const struct urxe_deth *deth)
{
	return be32toh(deth->sqp) & URXE_QPN_MASK;
}

static inline void urxe_reth_fill(struct urxe_reth *reth, uint64_t va, uint32_t rkey,
				  uint32_t length)
{
	reth->va = htobe64(va);
	reth->rkey = htobe32(rkey);
	reth->length = htobe32(length);
}

static inline uint64_t urxe_reth_va(const struct urxe_reth *reth)
{
	return be64toh(reth->va);
}

static inline uint32_t urxe_reth_rkey(const struct urxe_reth *reth)
{
	return be32toh(reth->rkey);
}

static inline uint32_t urxe_reth_length(const struct urxe_reth *reth)
{
	return be32toh(reth->length);
}

static inline void urxe_atomic_fill(struct urxe_atomic_eth *eth, uint64_t va, uint32_t rkey,
				    uint64_t swap_add, uint64_t compare)
{
	eth->va = htobe64(va);
	eth->rkey = htobe32(rkey);
	eth->swap_add = htobe64(swap_add);
	eth->compare = htobe64(compare);
}

static inline void urxe_atomic_ack_fill(struct urxe_atomic_ack_eth *eth, uint64_t original)
{
	eth->original = htobe64(original);
}

static inline uint32_t urxe_xrceth_srqn(const struct urxe_xrceth *xrceth)
{
	return be32toh(xrceth->srq) & 0xffffff;
}

static inline void urxe_xrceth_fill(struct urxe_xrceth *xrceth, uint32_t srqn)
{
	xrceth->srq = htobe32(srqn & 0xffffff);
}

static inline void urxe_ieth_fill(struct urxe_ieth *ieth, uint32_t rkey)
{
	ieth->rkey = htobe32(rkey);
}

/* ---- AETH (IBTA vol. 1, 9.7.5.2.1, table 45) ---- */

enum {
	URXE_AETH_KIND_MASK = 0x60,
	URXE_AETH_ACK = 0x00,	  /* low five bits: end-to-end credit code */
	URXE_AETH_RNR_NAK = 0x20, /* low five bits: RNR timer code */
	URXE_AETH_RESERVED = 0x40,
	URXE_AETH_NAK = 0x60, /* low five bits: enum urxe_nak_code */
	URXE_AETH_VALUE_MASK = 0x1f,
	URXE_AETH_CREDIT_NONE = 0x1f, /* the credit code that says "do not count credits" */
};

enum urxe_nak_code {
	URXE_NAK_PSN_SEQUENCE = 0,
	URXE_NAK_INVALID_REQUEST = 1,
	URXE_NAK_REMOTE_ACCESS = 2,
	URXE_NAK_REMOTE_OPERATIONAL = 3,
	URXE_NAK_INVALID_RD_REQUEST = 4,
};

static inline void urxe_aeth_fill(struct urxe_aeth *aeth, uint8_t syndrome, uint32_t msn)
{
	aeth->syndrome_msn = htobe32((uint32_t)syndrome << 24 | (msn & 0xffffff));
}

static inline uint8_t urxe_aeth_syndrome(const struct urxe_aeth *aeth)
{
	return be32toh(aeth->syndrome_msn) >> 24;
}

/* URXE_AETH_ACK, _RNR_NAK, _RESERVED or _NAK; the top bit of the byte is reserved and ignored. */
static inline unsigned urxe_aeth_kind(uint8_t syndrome)
{
	return syndrome & URXE_AETH_KIND_MASK;
}

static inline unsigned urxe_aeth_value(uint8_t syndrome)
{
	return syndrome & URXE_AETH_VALUE_MASK;
}

/* ---- PSN arithmetic: 24 bits, half of the circle is ahead and half behind (9.7.1) ---- */

#define URXE_PSN_MASK 0xffffffu

/* How far a is ahead of b: negative when behind; -2^23 … 2^23 - 1. */
static inline int32_t urxe_psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

static inline uint32_t urxe_psn_add(uint32_t psn, uint32_t n)
{
	return (psn + n) & URXE_PSN_MASK;
}

/* ---- GRH ---- */

static inline void urxe_grh_set_class(struct urxe_grh *grh, uint8_t tclass, uint32_t flow_label)
{
	grh->version_tclass_flow =
		htobe32(6u << 28 | (uint32_t)tclass << 20 | (flow_label & 0xfffff));
}

#endif
