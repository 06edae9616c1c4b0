// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The layout of every message of the communication manager, as tables of the fields that are used,
 * and the two loops that go through them. Pure functions.
 *
 * A message fills the 232 bytes behind the MAD header, private data last; so the place of that
 * follows from its size.
 *
 *	 0  base_version  mgmt_class  class_version  method
 *	 4  status                    class_specific
 *	 8  transaction ID
 *	16  attribute ID              reserved
 *	20  attribute modifier
 *	24  fields, private data
 */
#include "cm/mad.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#define BODY (sizeof(struct urxe_mad_header))

/* One field: bits (big endian, most significant first) of the body, and the member it goes to. */
struct field {
	uint16_t bit;	/* from the start of the body */
	uint16_t width; /* bits; above 64 a string of bytes */
	uint16_t member;
	uint8_t size;  /* of the member */
	uint8_t shift; /* where the bits belong in it */
};

#define AT(byte, from, bits, what)                                                \
	{                                                                         \
		.bit = (byte)*8 + (from), .width = (bits),                        \
		.member = offsetof(struct urxe_cm_msg, what),                     \
		.size = (bits) > 64 ? 0 : sizeof(((struct urxe_cm_msg *)0)->what) \
	}
#define F8(byte, what)	AT(byte, 0, 8, what)
#define F16(byte, what) AT(byte, 0, 16, what)
#define F24(byte, what) AT(byte, 0, 24, what)
#define F32(byte, what) AT(byte, 0, 32, what)
#define F64(byte, what) AT(byte, 0, 64, what)
#define MEM(byte, what) AT(byte, 0, 8 * sizeof(((struct urxe_cm_msg *)0)->what), what)
#define PART(byte, bits, what, to)                                                              \
	{                                                                                       \
		.bit = (byte)*8, .width = (bits), .member = offsetof(struct urxe_cm_msg, what), \
		.size = sizeof(((struct urxe_cm_msg *)0)->what), .shift = (to)                  \
	}
#define IDS	   F32(0, local_id), F32(4, remote_id)
#define SERVICE_ID 8 /* in those that ask for one */

/* 12.6.5, table 106; of two paths the first, at byte 52, is ours to read. */
#define REQ_PATH(byte, path)                                                                      \
	F16((byte), path.local_lid), F16((byte) + 2, path.remote_lid),                            \
		MEM((byte) + 4, path.local_gid), MEM((byte) + 20, path.remote_gid),               \
		AT((byte) + 36, 0, 20, path.flow_label), AT((byte) + 39, 2, 6, path.packet_rate), \
		F8((byte) + 40, path.traffic_class), F8((byte) + 41, path.hop_limit),             \
		AT((byte) + 42, 0, 4, path.sl), AT((byte) + 42, 4, 1, path.subnet_local),         \
		AT((byte) + 43, 0, 5, path.ack_timeout)

static const struct field req_fields[] = {
	F32(0, local_id),
	F24(5, req.vendor_id),
	F64(SERVICE_ID, req.service_id),
	F64(16, req.local_ca_guid),
	F24(32, req.local_qpn),
	F8(35, req.responder_resources),
	F8(39, req.initiator_depth),
	AT(43, 0, 5, req.remote_cm_response_timeout),
	AT(43, 5, 2, req.transport),
	AT(43, 7, 1, req.flow_control),
	F24(44, req.starting_psn),
	AT(47, 0, 5, req.local_cm_response_timeout),
	AT(47, 5, 3, req.retry_count),
	F16(48, req.pkey),
	AT(50, 0, 4, req.mtu),
	AT(50, 5, 3, req.rnr_retry_count),
	AT(51, 0, 4, req.max_cm_retries),
	AT(51, 4, 1, req.srq),
	AT(51, 5, 3, req.extended_transport),
	REQ_PATH(52, req.primary),
};

/* 12.6.6, table 107 */
static const struct field mra_fields[] = {
	IDS,
	AT(8, 0, 2, mra.about),
	AT(9, 0, 5, mra.service_timeout),
};

/* 12.6.7, table 108 */
static const struct field rej_fields[] = {
	IDS,
	AT(8, 0, 2, rej.about),
	AT(9, 0, 7, rej.ari_len),
	F16(10, rej.reason),
	MEM(12, rej.ari),
};

/* 12.6.8, table 110 */
static const struct field rep_fields[] = {
	IDS,
	F24(12, rep.local_qpn),
	PART(15, 8, rep.vendor_id, 16),
	F24(16, rep.local_eecn),
	PART(19, 8, rep.vendor_id, 8),
	F24(20, rep.starting_psn),
	PART(23, 8, rep.vendor_id, 0),
	F8(24, rep.responder_resources),
	F8(25, rep.initiator_depth),
	AT(26, 0, 5, rep.target_ack_delay),
	AT(26, 5, 2, rep.failover_accepted),
	AT(26, 7, 1, rep.flow_control),
	AT(27, 0, 3, rep.rnr_retry_count),
	AT(27, 3, 1, rep.srq),
	F64(28, rep.local_ca_guid),
};

/* 12.6.9 and 12.6.11, tables 111 and 113 */
static const struct field ids_fields[] = {
	IDS,
};

/* 12.6.10, table 112 */
static const struct field dreq_fields[] = {
	IDS,
	F24(8, dreq.remote_qpn),
};

/* 12.11.1, table 119 */
static const struct field sidr_req_fields[] = {
	F32(0, local_id),
	F16(4, sidr_req.pkey),
	F64(SERVICE_ID, sidr_req.service_id),
};

/* 12.11.2, table 120 */
static const struct field sidr_rep_fields[] = {
	F32(0, local_id),
	F8(4, sidr_rep.status),
	F8(5, sidr_rep.info_len),
	PART(6, 16, sidr_rep.vendor_id, 8),
	F24(8, sidr_rep.qpn),
	PART(11, 8, sidr_rep.vendor_id, 0),
	F64(12, sidr_rep.service_id),
	F32(20, sidr_rep.qkey),
	MEM(24, sidr_rep.info),
};

struct layout {
	const struct field *fields;
	uint8_t num_fields;
	uint8_t private_size;
};

#define LAYOUT(attr, table, size) \
	[attr - URXE_CM_REQ] = {table, sizeof(table) / sizeof((table)[0]), size}
/* Where private data begins, as the tables of the standard have it. */
#define PRIVATE_AT(size, byte) \
	_Static_assert(BODY + (byte) + (size) == URXE_MAD_SIZE, "12.6, 12.11")

PRIVATE_AT(URXE_CM_REQ_PRIVATE, 140);
PRIVATE_AT(URXE_CM_MRA_PRIVATE, 10);
PRIVATE_AT(URXE_CM_REJ_PRIVATE, 84);
PRIVATE_AT(URXE_CM_REP_PRIVATE, 36);
PRIVATE_AT(URXE_CM_RTU_PRIVATE, 8);
PRIVATE_AT(URXE_CM_DREQ_PRIVATE, 12);
PRIVATE_AT(URXE_CM_DREP_PRIVATE, 8);
PRIVATE_AT(URXE_CM_SIDR_REQ_PRIVATE, 16);
PRIVATE_AT(URXE_CM_SIDR_REP_PRIVATE, 96);

static const struct layout layouts[] = {
	LAYOUT(URXE_CM_REQ, req_fields, URXE_CM_REQ_PRIVATE),
	LAYOUT(URXE_CM_MRA, mra_fields, URXE_CM_MRA_PRIVATE),
	LAYOUT(URXE_CM_REJ, rej_fields, URXE_CM_REJ_PRIVATE),
	LAYOUT(URXE_CM_REP, rep_fields, URXE_CM_REP_PRIVATE),
	LAYOUT(URXE_CM_RTU, ids_fields, URXE_CM_RTU_PRIVATE),
	LAYOUT(URXE_CM_DREQ, dreq_fields, URXE_CM_DREQ_PRIVATE),
	LAYOUT(URXE_CM_DREP, ids_fields, URXE_CM_DREP_PRIVATE),
	LAYOUT(URXE_CM_SIDR_REQ, sidr_req_fields, URXE_CM_SIDR_REQ_PRIVATE),
	LAYOUT(URXE_CM_SIDR_REP, sidr_rep_fields, URXE_CM_SIDR_REP_PRIVATE),
};

static const struct layout *layout_of(unsigned attr)
{
	if (attr < URXE_CM_REQ || attr > URXE_CM_SIDR_REP)
		return NULL;
	return &layouts[attr - URXE_CM_REQ];
}

unsigned urxe_cm_private_size(enum urxe_cm_attr attr)
{
	const struct layout *layout = layout_of(attr);

	return layout ? layout->private_size : 0;
}

static void put_bytes(uint8_t *to, unsigned n, uint64_t value)
{
	while (n--) {
		to[n] = value;
		value >>= 8;
	}
}

static uint64_t get_bytes(const uint8_t *from, unsigned n)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < n; i++)
		value = value << 8 | from[i];
	return value;
}

/* Bits of one field, which spans at most eight bytes: of the number that these are, those above the
 * lowest `down`. */
static void put_bits(uint8_t *body, unsigned bit, unsigned width, uint64_t value)
{
	unsigned first = bit / 8, n = (bit + width + 7) / 8 - first;
	unsigned down = 8 * (first + n) - bit - width;
	uint64_t mask = UINT64_MAX >> (64 - width) << down;

	put_bytes(body + first, n, (get_bytes(body + first, n) & ~mask) | (value << down & mask));
}

static uint64_t get_bits(const uint8_t *body, unsigned bit, unsigned width)
{
	unsigned first = bit / 8, n = (bit + width + 7) / 8 - first;
	unsigned down = 8 * (first + n) - bit - width;

	return get_bytes(body + first, n) >> down & UINT64_MAX >> (64 - width);
}

static uint64_t member_get(const void *at, unsigned size)
{
	switch (size) {
	case 1: return *(const uint8_t *)at;
	case 2: return *(const uint16_t *)at;
	case 4: return *(const uint32_t *)at;
	default: return *(const uint64_t *)at;
	}
}

/* Parts of a member come one after the other: it starts as zero. */
static void member_or(void *at, unsigned size, uint64_t value)
{
	switch (size) {
	case 1: *(uint8_t *)at |= value; break;
	case 2: *(uint16_t *)at |= value; break;
	case 4: *(uint32_t *)at |= value; break;
	default: *(uint64_t *)at |= value; break;
	}
}

void urxe_cm_encode(uint8_t mad[URXE_MAD_SIZE], const struct urxe_cm_msg *msg)
{
	const struct layout *layout = layout_of(msg->attr);
	struct urxe_mad_header header = {
		.base_version = URXE_MAD_BASE_VERSION,
		.mgmt_class = URXE_MAD_CLASS_CM,
		.class_version = URXE_MAD_CM_CLASS_VERSION,
		.method = URXE_MAD_METHOD_SEND,
		.tid = htobe64(msg->tid),
		.attr_id = htobe16(msg->attr),
		.attr_mod = htobe32(msg->attr_mod),
	};

	memset(mad, 0, URXE_MAD_SIZE);
	memcpy(mad, &header, sizeof(header));
	for (unsigned i = 0; layout && i < layout->num_fields; i++) {
		const struct field *f = &layout->fields[i];
		const uint8_t *from = (const uint8_t *)msg + f->member;

		if (f->width > 64)
			memcpy(mad + BODY + f->bit / 8, from, f->width / 8);
		else
			put_bits(mad + BODY, f->bit, f->width,
				 member_get(from, f->size) >> f->shift);
	}
	if (layout)
		memcpy(mad + URXE_MAD_SIZE - layout->private_size, msg->private_data,
		       layout->private_size);
}

/* What no sender may send, kind by kind. A QP number may be any: programs that have no QP, or that
 * agree on one otherwise, connect with what they like. */
static bool well_formed(const struct urxe_cm_msg *msg)
{
	switch (msg->attr) {
	case URXE_CM_REQ: return msg->local_id;
	case URXE_CM_MRA: return msg->remote_id && msg->mra.about <= URXE_CM_ABOUT_OTHER;
	case URXE_CM_REJ:
		/* The sender has no communication ID when it never got as far. */
		return msg->rej.about <= URXE_CM_ABOUT_OTHER && msg->rej.ari_len <= URXE_CM_REJ_ARI;
	case URXE_CM_SIDR_REP: return msg->sidr_rep.info_len <= URXE_CM_SIDR_REP_INFO;
	case URXE_CM_SIDR_REQ: return true;
	default: return msg->local_id && msg->remote_id;
	}
}

static struct urxe_mad_header header_of(const uint8_t mad[URXE_MAD_SIZE])
{
	struct urxe_mad_header header;

	memcpy(&header, mad, sizeof(header));
	return header;
}

static bool is_of_class(const struct urxe_mad_header *header)
{
	return header->base_version == URXE_MAD_BASE_VERSION &&
	       header->mgmt_class == URXE_MAD_CLASS_CM &&
	       header->class_version == URXE_MAD_CM_CLASS_VERSION;
}

bool urxe_cm_is_cm(const uint8_t mad[URXE_MAD_SIZE])
{
	struct urxe_mad_header header = header_of(mad);

	return is_of_class(&header) && layout_of(be16toh(header.attr_id));
}

bool urxe_cm_asks(const uint8_t mad[URXE_MAD_SIZE], uint64_t *service_id, const uint8_t **data,
		  unsigned *len)
{
	unsigned attr = be16toh(header_of(mad).attr_id);

	if (attr != URXE_CM_REQ && attr != URXE_CM_SIDR_REQ)
		return false;
	*service_id = get_bytes(mad + BODY + SERVICE_ID, sizeof(*service_id));
	*len = urxe_cm_private_size(attr);
	*data = mad + URXE_MAD_SIZE - *len;
	return true;
}

int urxe_cm_decode(struct urxe_cm_msg *msg, const uint8_t mad[URXE_MAD_SIZE])
{
	struct urxe_mad_header header = header_of(mad);
	const struct layout *layout = layout_of(be16toh(header.attr_id));

	if (!is_of_class(&header))
		return -EPROTONOSUPPORT;
	if (header.method != URXE_MAD_METHOD_SEND || !layout)
		return -EBADMSG;

	memset(msg, 0, sizeof(*msg));
	msg->attr = be16toh(header.attr_id);
	msg->tid = be64toh(header.tid);
	msg->attr_mod = be32toh(header.attr_mod);
	for (unsigned i = 0; i < layout->num_fields; i++) {
		const struct field *f = &layout->fields[i];
		uint8_t *to = (uint8_t *)msg + f->member;

		if (f->width > 64)
			memcpy(to, mad + BODY + f->bit / 8, f->width / 8);
		else
			member_or(to, f->size, get_bits(mad + BODY, f->bit, f->width) << f->shift);
	}
	memcpy(msg->private_data, mad + URXE_MAD_SIZE - layout->private_size, layout->private_size);
	return well_formed(msg) ? 0 : -EBADMSG;
}

/*
 * A11: the IP header in private data. IPv4 addresses lie in the last four bytes of their fields.
 *
 *	 0  version (major << 4 | minor)
 *	 1  IP version << 4
 *	 2  source port
 *	 4  source address, 16 bytes
 *	20  destination address, 16 bytes
 */
struct cma_wire {
	uint8_t cma_version;
	uint8_t ip_version;
	uint16_t port;
	uint8_t source[16], destination[16];
};
_Static_assert(sizeof(struct cma_wire) == URXE_CMA_HEADER, "A11");

static void addr_put(uint8_t to[16], const struct in6_addr *addr, unsigned ip_version)
{
	if (ip_version == 4)
		memcpy(to + 12, &addr->s6_addr[12], 4);
	else
		memcpy(to, addr, 16);
}

static void addr_get(struct in6_addr *addr, const uint8_t from[16], unsigned ip_version)
{
	if (ip_version == 4) {
		memset(addr, 0, sizeof(*addr));
		memset(&addr->s6_addr[10], 0xff, 2);
		memcpy(&addr->s6_addr[12], from + 12, 4);
	} else {
		memcpy(addr, from, 16);
	}
}

void urxe_cma_encode(uint8_t data[URXE_CMA_HEADER], const struct urxe_cma_header *header)
{
	struct cma_wire wire = {
		.cma_version = header->cma_version,
		.ip_version = header->ip_version << 4,
		.port = htobe16(header->source_port),
	};

	addr_put(wire.source, &header->source, header->ip_version);
	addr_put(wire.destination, &header->destination, header->ip_version);
	memcpy(data, &wire, sizeof(wire));
}

int urxe_cma_decode(struct urxe_cma_header *header, const uint8_t data[URXE_CMA_HEADER])
{
	struct cma_wire wire;

	memcpy(&wire, data, sizeof(wire));
	header->cma_version = wire.cma_version;
	header->ip_version = wire.ip_version >> 4;
	header->source_port = be16toh(wire.port);
	if (header->cma_version || (header->ip_version != 4 && header->ip_version != 6))
		return -EBADMSG;
	addr_get(&header->source, wire.source, header->ip_version);
	addr_get(&header->destination, wire.destination, header->ip_version);
	return 0;
}
