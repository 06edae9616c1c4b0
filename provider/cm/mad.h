/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The messages of the communication manager (IBTA vol. 1, 12.6 and 12.11) and the RDMA IP CM
 * service (annex A11): 256 bytes on the wire, plain structures in here, in host order unless said
 * otherwise. Pure functions, any thread.
 */
#ifndef URXE_CM_MAD_H
#define URXE_CM_MAD_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define URXE_MAD_SIZE 256

/* The common MAD header (13.4.3), in network order. */
struct urxe_mad_header {
	uint8_t base_version;  /* 1 */
	uint8_t mgmt_class;    /* 7 */
	uint8_t class_version; /* 2 */
	uint8_t method;	       /* 3: Send */
	uint16_t status;
	uint16_t class_specific;
	uint64_t tid;
	uint16_t attr_id;
	uint16_t reserved;
	uint32_t attr_mod; /* of a message with ECE: its attributes */
};
_Static_assert(sizeof(struct urxe_mad_header) == 24, "13.4.3");

/* Where the communication IDs of most messages are, of 4 bytes each. */
#define URXE_CM_LOCAL_ID_AT  24
#define URXE_CM_REMOTE_ID_AT 28

#define URXE_MAD_BASE_VERSION	  1
#define URXE_MAD_CLASS_CM	  0x07
#define URXE_MAD_CM_CLASS_VERSION 2
#define URXE_MAD_METHOD_SEND	  3

/* Attribute IDs (12.6.1, table 105). */
enum urxe_cm_attr {
	URXE_CM_REQ = 0x10,
	URXE_CM_MRA,
	URXE_CM_REJ,
	URXE_CM_REP,
	URXE_CM_RTU,
	URXE_CM_DREQ,
	URXE_CM_DREP,
	URXE_CM_SIDR_REQ,
	URXE_CM_SIDR_REP,
	/* LAP and APR agree on an alternate path, which programs load
	 * themselves: they are not known. */
};

/* Bytes of private data, and of additional information. */
#define URXE_CM_REQ_PRIVATE	 92
#define URXE_CM_MRA_PRIVATE	 222
#define URXE_CM_REJ_PRIVATE	 148
#define URXE_CM_REJ_ARI		 72
#define URXE_CM_REP_PRIVATE	 196
#define URXE_CM_RTU_PRIVATE	 224
#define URXE_CM_DREQ_PRIVATE	 220
#define URXE_CM_DREP_PRIVATE	 224
#define URXE_CM_SIDR_REQ_PRIVATE 216
#define URXE_CM_SIDR_REP_PRIVATE 136
#define URXE_CM_SIDR_REP_INFO	 72
#define URXE_CM_MAX_PRIVATE	 224

/* Reasons of a REJ (12.6.7.2, table 109) that are given or looked for here. */
enum urxe_cm_rej_reason {
	URXE_CM_REJ_TIMEOUT = 4,
	URXE_CM_REJ_INVALID_COMM_ID = 6,
	URXE_CM_REJ_INVALID_SERVICE_ID = 8,
	URXE_CM_REJ_INVALID_TRANSPORT_TYPE = 9,
	URXE_CM_REJ_STALE_CONN = 10,
	URXE_CM_REJ_INVALID_GID = 12,
	URXE_CM_REJ_INVALID_MTU = 26,
	URXE_CM_REJ_CONSUMER_DEFINED = 28,
	URXE_CM_REJ_VENDOR_OPTION_NOT_SUPPORTED = 35,
};

/* Which message a MRA or REJ is about. */
enum urxe_cm_about { URXE_CM_ABOUT_REQ, URXE_CM_ABOUT_REP, URXE_CM_ABOUT_OTHER };

/* Status of a SIDR_REP (12.11.2.1, table 121). */
enum urxe_cm_sidr_status {
	URXE_CM_SIDR_SUCCESS,
	URXE_CM_SIDR_UNSUPPORTED, /* service ID */
	URXE_CM_SIDR_REJECT,
	URXE_CM_SIDR_NO_QP,
	URXE_CM_SIDR_REDIRECT,
	URXE_CM_SIDR_UNSUPPORTED_VERSION,
};

enum urxe_cm_transport { URXE_CM_RC, URXE_CM_UC, URXE_CM_RD, URXE_CM_EXTENDED };
enum urxe_cm_extended { URXE_CM_XRC = 1 }; /* annex A14.6 */

/* A path in a REQ. local is the sender of the message. All zeros: there is none. */
struct urxe_cm_msg_path {
	uint16_t local_lid, remote_lid;
	uint8_t local_gid[16], remote_gid[16];
	uint32_t flow_label;   /* 20 bits */
	uint8_t packet_rate;   /* 6 */
	uint8_t traffic_class; /* 8 */
	uint8_t hop_limit;     /* 8 */
	uint8_t sl;	       /* 4 */
	uint8_t subnet_local;  /* 1 */
	uint8_t ack_timeout;   /* 5 */
};

struct urxe_cm_req {
	uint64_t service_id;
	uint64_t local_ca_guid;
	uint32_t vendor_id;    /* ECE; 24 bits */
	uint32_t local_qpn;    /* 24 */
	uint32_t starting_psn; /* 24 */
	uint16_t pkey;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t remote_cm_response_timeout; /* 5 */
	uint8_t local_cm_response_timeout;  /* 5 */
	uint8_t transport;		    /* 2 */
	uint8_t flow_control;		    /* 1 */
	uint8_t retry_count;		    /* 3 */
	uint8_t mtu;			    /* 4 */
	uint8_t rnr_retry_count;	    /* 3 */
	uint8_t max_cm_retries;		    /* 4 */
	uint8_t srq;			    /* 1 */
	uint8_t extended_transport;	    /* 3 */
	struct urxe_cm_msg_path primary;
};

struct urxe_cm_mra {
	uint8_t about;		 /* 2 */
	uint8_t service_timeout; /* 5 */
};

struct urxe_cm_rej {
	uint8_t about;	 /* 2 */
	uint8_t ari_len; /* 7: 0 … URXE_CM_REJ_ARI */
	uint16_t reason;
	uint8_t ari[URXE_CM_REJ_ARI];
};

struct urxe_cm_rep {
	uint64_t local_ca_guid;
	uint32_t vendor_id;    /* ECE; 24 bits */
	uint32_t local_qpn;    /* 24 */
	uint32_t local_eecn;   /* 24 */
	uint32_t starting_psn; /* 24 */
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t target_ack_delay;  /* 5 */
	uint8_t failover_accepted; /* 2 */
	uint8_t flow_control;	   /* 1 */
	uint8_t rnr_retry_count;   /* 3 */
	uint8_t srq;		   /* 1 */
};

struct urxe_cm_dreq {
	uint32_t remote_qpn; /* 24: of the receiver */
};

struct urxe_cm_sidr_req {
	uint16_t pkey;
	uint64_t service_id;
};

struct urxe_cm_sidr_rep {
	uint8_t status;
	uint8_t info_len;   /* 0 … URXE_CM_SIDR_REP_INFO */
	uint32_t vendor_id; /* ECE; 24 bits */
	uint32_t qpn;	    /* 24 */
	uint64_t service_id;
	uint32_t qkey;
	uint8_t info[URXE_CM_SIDR_REP_INFO];
};

struct urxe_cm_msg {
	enum urxe_cm_attr attr;
	uint64_t tid;
	uint32_t attr_mod;
	/* Communication IDs of sender and receiver; of SIDR, local_id is the request ID of
	 * either. */
	uint32_t local_id, remote_id;
	union {
		struct urxe_cm_req req;
		struct urxe_cm_mra mra;
		struct urxe_cm_rej rej;
		struct urxe_cm_rep rep;
		struct urxe_cm_dreq dreq;
		struct urxe_cm_sidr_req sidr_req;
		struct urxe_cm_sidr_rep sidr_rep;
	};
	uint8_t private_data[URXE_CM_MAX_PRIVATE]; /* zeros beyond what was given */
};

/* Room for private data in a message of this kind; 0 for an unknown one. */
unsigned urxe_cm_private_size(enum urxe_cm_attr attr);

/* The class and class version of a MAD, and an attribute that this file knows. */
bool urxe_cm_is_cm(const uint8_t mad[URXE_MAD_SIZE]);

/* What a REQ or SIDR_REQ asks for, without looking at the rest of it: its service ID and private
 * data, which stays where it is. False: it is neither. */
bool urxe_cm_asks(const uint8_t mad[URXE_MAD_SIZE], uint64_t *service_id, const uint8_t **data,
		  unsigned *len);

/* Fields too large for their place are cut. */
void urxe_cm_encode(uint8_t mad[URXE_MAD_SIZE], const struct urxe_cm_msg *msg);
/*
 * -EPROTONOSUPPORT: not of this class, or of another version of it. -EBADMSG: what no sender may
 * send: another method, an unknown attribute, a length or a code out of range, a zero communication
 * ID where there must be one. Reserved fields are ignored.
 */
int urxe_cm_decode(struct urxe_cm_msg *msg, const uint8_t mad[URXE_MAD_SIZE]);

/*
 * The RDMA IP CM service (annex A11): the first bytes of the private data of a REQ or SIDR_REQ name
 * IP addresses and the source port.
 */
#define URXE_CMA_HEADER 36

struct urxe_cma_header {
	uint8_t cma_version; /* major << 4 | minor: 0 */
	uint8_t ip_version;  /* 4 or 6 */
	uint16_t source_port;
	struct in6_addr source, destination; /* IPv4-mapped or IPv6 */
};

void urxe_cma_encode(uint8_t data[URXE_CMA_HEADER], const struct urxe_cma_header *header);
/* -EBADMSG: another version, or addresses of no known family. */
int urxe_cma_decode(struct urxe_cma_header *header, const uint8_t data[URXE_CMA_HEADER]);

/* Service IDs of the RDMA IP CM service: ps is enum rdma_ucm_port_space (TCP 0x0106, UDP 0x0111,
 * …). */
#define URXE_CMA_SERVICE_PREFIX 0x0000000001000000ull
#define URXE_CMA_PS_IPOIB	0x0002 /* rdma_cm's own: outside of the range that the annex has */

static inline uint64_t urxe_cma_service_id(uint16_t ps, uint16_t port)
{
	return (uint64_t)ps << 16 | port;
}

/* Whether it is one; port host order. */
static inline bool urxe_cma_service_port(uint64_t service_id, uint16_t *ps, uint16_t *port)
{
	*ps = service_id >> 16;
	*port = service_id;
	return (service_id & ~0xffffffull) == URXE_CMA_SERVICE_PREFIX ||
	       service_id >> 16 == URXE_CMA_PS_IPOIB;
}

#endif
