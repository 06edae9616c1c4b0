/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ibacm's protocol, as its clients (librdmacm, ib_acme) speak it on a stream: a header, then the
 * operation's data.
 *
 *	header	 0 version 1	 1 operation	 2 status	 3 data, 3 bytes
 *		 6 length 16	 8 transaction 64, the client's
 *	RESOLVE	16 entries of 72: flags 32, type 16, spare 16, 64 bytes: an address, a name or a PathRecord
 *	PERF	16 a RESOLVE entry, or nothing; in the answer counters of 64 bits
 *	EP	16 nothing; in the answer an endpoint of 80 bytes and names of 64
 *
 *	endpoint 0 device GUID 64	 8 port	 9 ports of the device	10 spare 16
 *		12 P_Key 16	14 names 16	16 provider's name, 64 bytes
 *
 * Flags, type and, for RESOLVE, length are in host byte order: such messages do not leave the host.
 * All else, and the length of PERF and EP, is in network byte order. A PathRecord is that of the
 * SA, 15.2.5.16.
 *
 * Pure functions: any thread, no locks.
 */
#ifndef SACACHED_ACM_H
#define SACACHED_ACM_H

#include "libsacache/sacache.h"

#define ACM_HEADER_SIZE	  16
#define ACM_ENTRY_SIZE	  72
#define ACM_MAX_REQUEST	  (ACM_HEADER_SIZE + 8 * ACM_ENTRY_SIZE)
#define ACM_ADDRESS_SIZE  64
#define ACM_ENDPOINT_SIZE 80
#define ACM_MAX_NAMES	  128
#define ACM_MAX_ANSWER	  (ACM_HEADER_SIZE + ACM_ENDPOINT_SIZE + ACM_MAX_NAMES * ACM_ADDRESS_SIZE)
#define ACM_RECORD_SIZE	  64

enum acm_status {
	ACM_SUCCESS = 0,
	ACM_ENOMEM = 1,
	ACM_EINVAL = 2,
	ACM_ENODATA = 3,
	ACM_ENOTCONN = 5,
	ACM_ETIMEDOUT = 6,
	ACM_ESRCADDR = 7,
	ACM_ESRCTYPE = 8,
	ACM_EDESTADDR = 9,
	ACM_EDESTTYPE = 10,
};

enum acm_type {
	ACM_NONE = 0,
	ACM_NAME = 1,
	ACM_IP = 2,
	ACM_IP6 = 3,
	ACM_GID = 4,
	ACM_LID = 5,
	ACM_PATH = 16,
};

enum acm_counter {
	ACM_COUNT_ERROR,
	ACM_COUNT_RESOLVE,
	ACM_COUNT_NODATA,
	ACM_COUNT_ADDR_QUERY,
	ACM_COUNT_ADDR_CACHE,
	ACM_COUNT_ROUTE_QUERY,
	ACM_COUNT_ROUTE_CACHE,
	ACM_COUNTERS,
};

struct acm_address {
	enum acm_type type; /* ACM_NONE: there is none */
	uint8_t bytes[ACM_ADDRESS_SIZE];
};

enum acm_kind {
	ACM_RESOLVE_ADDRESS, /* from src (or none) to dst */
	ACM_RESOLVE_PATH,    /* what record names */
	ACM_PERF_ALL,
	ACM_PERF_ENDPOINT, /* of endpoint index */
	ACM_PERF_ADDRESS,  /* of the endpoint that has src */
	ACM_QUERY_ENDPOINT,
};

struct acm_request {
	enum acm_kind kind;
	uint8_t header[ACM_HEADER_SIZE];
	bool nodelay;  /* answer ENODATA instead of querying the SA */
	bool query_sa; /* query the SA even if the cache has the path */
	struct acm_address src, dst;
	/* A PathRecord: its components that are not 0 are required. With RESOLVE_ADDRESS all 0,
	 * or what the path must have beside its ends. */
	uint8_t record[ACM_RECORD_SIZE];
	unsigned index; /* of endpoints, from 1; 0 finds none */
	unsigned port;	/* only ports of that number; 0: all */
};

/*
 * The length of the message that begins with this header. -EPROTO: it is no client's message, or
 * has a size that none has; the rest of the stream cannot be parsed.
 */
int acm_length(const uint8_t header[ACM_HEADER_SIZE]);
/* Parses a whole message. A status other than ACM_SUCCESS is the answer to send. */
enum acm_status acm_parse(const uint8_t *message, size_t length, struct acm_request *request);

/*
 * A record's requirements as a key without its port; components that are 0 are wildcards. The
 * caller adds a source. acm_satisfies(): whether a path also meets what a key cannot express: MTU,
 * rate and lifetime by their selectors, and the flow label.
 */
void acm_key(const uint8_t record[ACM_RECORD_SIZE], struct sacache_key *key);
bool acm_satisfies(const uint8_t record[ACM_RECORD_SIZE], const struct sacache_path *path);

/* These write an answer of up to ACM_MAX_ANSWER bytes and return its length. */
size_t acm_answer_error(const struct acm_request *request, enum acm_status status, uint8_t *out);
/* source: one that was chosen for the client, to be returned to it; NULL: the client named its
 * own. */
size_t acm_answer_path(const struct acm_request *request, const struct sacache_path *path,
		       const struct acm_address *source, uint8_t *out);
size_t acm_answer_counters(const struct acm_request *request, const uint64_t count[ACM_COUNTERS],
			   uint8_t *out);

struct acm_endpoint {
	uint64_t guid; /* of the device, host byte order */
	uint8_t port, ports;
	uint16_t pkey;
	unsigned names;				    /* up to ACM_MAX_NAMES */
	char name[ACM_MAX_NAMES][ACM_ADDRESS_SIZE]; /* ended by 0 */
};
size_t acm_answer_endpoint(const struct acm_request *request, const struct acm_endpoint *endpoint,
			   uint8_t *out);

/* The status for an error of resolve_path(). */
enum acm_status acm_status_of(int error);

#endif
