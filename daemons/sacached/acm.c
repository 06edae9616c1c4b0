/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ibacm's messages between the wire and plain structures. Pure functions: any thread, no locks.
 */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "daemons/sacached/acm.h"

#define VERSION	    1
#define OP_MASK	    0x0f
#define OP_RESOLVE  1
#define OP_PERF	    2
#define OP_EP	    3
#define OP_ACK	    0x80
#define FLAG_SOURCE (1u << 0)
#define FLAG_DEST   (1u << 1)
#define NODELAY	    (1u << 30)
#define QUERY_SA    (1u << 31)

/* What the kernel requires of a path that is set for a connection: for CM messages and for data,
 * forward and (reversed) back. GMP, PRIMARY, OUTBOUND, INBOUND_REVERSE of <infiniband/sa.h>. */
#define PATH_FLAGS (1u << 0 | 1u << 1 | 1u << 3 | 1u << 5)

/* Places in the header. */
enum { AT_OP = 1, AT_STATUS = 2, AT_DATA = 3, AT_LENGTH = 6 };
/* Its three bytes of data: of EP the endpoint's index and the port, of PERF the index second. */
enum { DATA_FIRST = AT_DATA, DATA_SECOND = AT_DATA + 1 };

static uint16_t get16(const uint8_t *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static uint32_t get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static void put16(uint8_t *p, uint16_t v)
{
	memcpy(p, &v, sizeof(v));
}

static void put32(uint8_t *p, uint32_t v)
{
	memcpy(p, &v, sizeof(v));
}

static void put64(uint8_t *p, uint64_t v)
{
	memcpy(p, &v, sizeof(v));
}

/* Clients write the operation without OP_ACK. ibacm takes the byte order of the length from that
 * bit. */
int acm_length(const uint8_t header[ACM_HEADER_SIZE])
{
	uint16_t length = get16(header + AT_LENGTH);

	if (header[0] != VERSION || header[AT_OP] < OP_RESOLVE || header[AT_OP] > OP_EP)
		return -EPROTO;
	if (header[AT_OP] != OP_RESOLVE)
		length = be16toh(length);
	return length < ACM_HEADER_SIZE || length > ACM_MAX_REQUEST ? -EPROTO : length;
}

static enum acm_type entry_type(const uint8_t *entry)
{
	return get16(entry + 4);
}

/* A name may fill all of its bytes and then has no terminator: the last byte is lost. */
static void entry_address(const uint8_t *entry, struct acm_address *address)
{
	address->type = entry_type(entry);
	memcpy(address->bytes, entry + 8, ACM_ADDRESS_SIZE);
	if (address->type == ACM_NAME)
		address->bytes[ACM_ADDRESS_SIZE - 1] = 0;
}

static bool address_type(enum acm_type type)
{
	return type >= ACM_NAME && type <= ACM_LID;
}

/* At most one source and one destination, by their flags; a PathRecord beside them adds
 * components. */
static enum acm_status parse_addresses(const uint8_t *entry, unsigned count,
				       struct acm_request *request)
{
	request->kind = ACM_RESOLVE_ADDRESS;
	for (; count; count--, entry += ACM_ENTRY_SIZE) {
		uint32_t flags = get32(entry);
		enum acm_type type = entry_type(entry);

		if (!(flags & (FLAG_SOURCE | FLAG_DEST)) && type == ACM_PATH)
			memcpy(request->record, entry + 8, ACM_RECORD_SIZE);
		if (flags & FLAG_SOURCE) {
			if (request->src.type)
				return ACM_ESRCADDR;
			if (!address_type(type))
				return ACM_ESRCTYPE;
			entry_address(entry, &request->src);
		}
		if (flags & FLAG_DEST) {
			if (request->dst.type)
				return ACM_EDESTADDR;
			if (!address_type(type))
				return ACM_EDESTTYPE;
			entry_address(entry, &request->dst);
			request->nodelay = flags & NODELAY;
			request->query_sa = flags & QUERY_SA;
		}
	}
	return request->dst.type ? ACM_SUCCESS : ACM_EDESTTYPE;
}

static enum acm_status parse_path(const uint8_t *entry, unsigned count, struct acm_request *request)
{
	static const uint8_t none[16];
	uint32_t flags = get32(entry);

	request->kind = ACM_RESOLVE_PATH;
	request->nodelay = flags & NODELAY;
	request->query_sa = flags & QUERY_SA;
	memcpy(request->record, entry + 8, ACM_RECORD_SIZE);
	if (request->query_sa && count != 1)
		return ACM_EINVAL;
	if (!memcmp(request->record + 8, none, 16) && !get16(request->record + 40))
		return ACM_EDESTADDR;
	return ACM_SUCCESS;
}

static enum acm_status parse_perf(const uint8_t *entry, unsigned count, struct acm_request *request)
{
	request->index = request->header[DATA_SECOND];
	request->kind = request->index ? ACM_PERF_ENDPOINT : ACM_PERF_ALL;
	if (!count || !(get32(entry) & FLAG_SOURCE))
		return ACM_SUCCESS;
	if (!request->index) {
		request->kind = ACM_PERF_ADDRESS;
		if (!address_type(entry_type(entry)))
			return ACM_ESRCADDR;
		entry_address(entry, &request->src);
	}
	return ACM_SUCCESS;
}

enum acm_status acm_parse(const uint8_t *message, size_t length, struct acm_request *request)
{
	const uint8_t *entry = message + ACM_HEADER_SIZE;
	unsigned count = (length - ACM_HEADER_SIZE) / ACM_ENTRY_SIZE;

	memset(request, 0, sizeof(*request));
	memcpy(request->header, message, ACM_HEADER_SIZE);
	switch (message[AT_OP]) {
	case OP_PERF: return parse_perf(entry, count, request);
	case OP_EP:
		request->kind = ACM_QUERY_ENDPOINT;
		request->index = message[DATA_FIRST];
		request->port = message[DATA_SECOND];
		return ACM_SUCCESS;
	default:
		if (count && entry_type(entry) == ACM_PATH)
			return parse_path(entry, count, request);
		return parse_addresses(entry, count, request);
	}
}

void acm_key(const uint8_t record[ACM_RECORD_SIZE], struct sacache_key *key)
{
	static const uint8_t none[16];
	struct sacache_path path;

	sacache_path_decode(record, &path);
	*key = (struct sacache_key){
		.service_id = path.service_id,
		.dlid = path.dlid,
		.slid = path.slid,
		.pkey = path.pkey,
		.qos_class = path.qos_class,
		.sl = path.sl,
		.tclass = path.tclass,
	};
	memcpy(key->dgid, path.dgid, 16);
	memcpy(key->sgid, path.sgid, 16);
	key->mask = (memcmp(key->dgid, none, 16) ? SACACHE_DGID : 0) |
		    (memcmp(key->sgid, none, 16) ? SACACHE_SGID : 0) |
		    (key->dlid ? SACACHE_DLID : 0) | (key->slid ? SACACHE_SLID : 0) |
		    (key->pkey ? SACACHE_PKEY : 0) | (key->sl ? SACACHE_SL : 0) |
		    (key->tclass ? SACACHE_TCLASS : 0) |
		    (key->service_id ? SACACHE_SERVICE_ID : 0) |
		    (key->qos_class ? SACACHE_QOS_CLASS : 0);
}

/* A selector and a value as in the record. A value of 0 and the largest (selector 3) request
 * nothing. */
static bool selected(uint8_t asked, uint8_t value)
{
	uint8_t limit = asked & 0x3f;

	if (!limit)
		return true;
	switch (asked >> 6) {
	case 0: return value > limit;
	case 1: return value < limit;
	case 2: return value == limit;
	default: return true;
	}
}

bool acm_satisfies(const uint8_t record[ACM_RECORD_SIZE], const struct sacache_path *path)
{
	struct sacache_path asked;

	sacache_path_decode(record, &asked);
	return selected(record[54], path->mtu) && selected(record[55], path->rate) &&
	       selected(record[56], path->lifetime) &&
	       (!asked.flow_label || asked.flow_label == path->flow_label);
}

/* The request's header as the answer's, without its three bytes of data. */
static void begin(const struct acm_request *request, enum acm_status status, size_t length,
		  uint8_t *out)
{
	memcpy(out, request->header, ACM_HEADER_SIZE);
	out[AT_OP] |= OP_ACK;
	out[AT_STATUS] = status;
	memset(out + AT_DATA, 0, 3);
	put16(out + AT_LENGTH, request->header[AT_OP] == OP_RESOLVE ? length : htobe16(length));
}

static void put_entry(uint8_t *entry, uint32_t flags, enum acm_type type)
{
	memset(entry, 0, ACM_ENTRY_SIZE);
	put32(entry, flags);
	put16(entry + 4, type);
}

/* The answer to a path request with query_sa is one entry, which holds the record. */
static size_t answer_query(const struct acm_request *request, enum acm_status status,
			   const uint8_t record[ACM_RECORD_SIZE], uint8_t *out)
{
	begin(request, status, ACM_HEADER_SIZE + ACM_ENTRY_SIZE, out);
	out += ACM_HEADER_SIZE;
	put_entry(out, QUERY_SA, ACM_PATH);
	memcpy(out + 8, record, ACM_RECORD_SIZE);
	return ACM_HEADER_SIZE + ACM_ENTRY_SIZE;
}

size_t acm_answer_error(const struct acm_request *request, enum acm_status status, uint8_t *out)
{
	if (request->kind == ACM_RESOLVE_PATH && request->query_sa)
		return answer_query(request, status, request->record, out);
	begin(request, status, ACM_HEADER_SIZE, out);
	return ACM_HEADER_SIZE;
}

size_t acm_answer_path(const struct acm_request *request, const struct sacache_path *path,
		       const struct acm_address *source, uint8_t *out)
{
	size_t length = ACM_HEADER_SIZE + (source ? 2 : 1) * ACM_ENTRY_SIZE;
	uint8_t record[ACM_RECORD_SIZE], *entry = out + ACM_HEADER_SIZE;

	sacache_path_encode(path, record);
	if (request->kind == ACM_RESOLVE_PATH && request->query_sa)
		return answer_query(request, ACM_SUCCESS, record, out);
	begin(request, ACM_SUCCESS, length, out);
	put_entry(entry, PATH_FLAGS, ACM_PATH);
	memcpy(entry + 8, record, ACM_RECORD_SIZE);
	if (source) {
		entry += ACM_ENTRY_SIZE;
		put_entry(entry, FLAG_SOURCE, source->type);
		memcpy(entry + 8, source->bytes, ACM_ADDRESS_SIZE);
	}
	return length;
}

size_t acm_answer_counters(const struct acm_request *request, const uint64_t count[ACM_COUNTERS],
			   uint8_t *out)
{
	size_t length = ACM_HEADER_SIZE + ACM_COUNTERS * sizeof(uint64_t);

	begin(request, ACM_SUCCESS, length, out);
	out[DATA_FIRST] = ACM_COUNTERS;
	for (unsigned i = 0; i < ACM_COUNTERS; i++)
		put64(out + ACM_HEADER_SIZE + i * sizeof(uint64_t), htobe64(count[i]));
	return length;
}

size_t acm_answer_endpoint(const struct acm_request *request, const struct acm_endpoint *endpoint,
			   uint8_t *out)
{
	size_t length = ACM_HEADER_SIZE + ACM_ENDPOINT_SIZE + endpoint->names * ACM_ADDRESS_SIZE;
	uint8_t *data = out + ACM_HEADER_SIZE;

	begin(request, ACM_SUCCESS, length, out);
	memset(data, 0, ACM_ENDPOINT_SIZE);
	put64(data, htobe64(endpoint->guid));
	data[8] = endpoint->port;
	data[9] = endpoint->ports;
	put16(data + 12, htobe16(endpoint->pkey));
	put16(data + 14, htobe16(endpoint->names));
	strcpy((char *)data + 16, "sacached");
	memcpy(data + ACM_ENDPOINT_SIZE, endpoint->name, endpoint->names * ACM_ADDRESS_SIZE);
	return length;
}

enum acm_status acm_status_of(int error)
{
	switch (error) {
	case 0: return ACM_SUCCESS;
	case -EAGAIN:
	case -ENOMEM: return ACM_ENOMEM;
	case -EINVAL: return ACM_EINVAL;
	case -EBUSY:
	case -ETIMEDOUT: return ACM_ETIMEDOUT;
	case -ENODEV:
	case -ECANCELED: return ACM_ENOTCONN;
	default: return ACM_ENODATA;
	}
}
