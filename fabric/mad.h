/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Management datagrams as they lie on the wire (IBTA vol. 1, chapters 13, 14 and 16): where each
 * field is, and the numbers that fields take. A MAD is 256 bytes in network byte order; it is read
 * and written by offset, because what arrives is untrusted and has no alignment.
 *
 *	 0 base  class  class  method | status     class-specific (SMP: hop pointer, hop count)
 *	       version        version
 *	 8 transaction ID
 *	16 attribute ID, reserved     | attribute modifier
 *	24 M_Key (SMP), RMPP header (classes that have it), reserved (performance management)
 *	32 DrSLID, DrDLID (directed route)
 *	64 data of an SMP, 64 bytes; 128 initial path; 192 return path (directed route)
 *
 * Inline functions on their arguments; any thread.
 */
#ifndef URXE_FABRIC_MAD_H
#define URXE_FABRIC_MAD_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define MAD_LEN	      256
#define MAD_HDR_LEN   24
#define MAD_RMPP_LEN  36 /* with the RMPP header */
#define SMP_DATA      64
#define SMP_DATA_LEN  64
#define SMP_INIT_PATH 128
#define SMP_RET_PATH  192
#define SMP_MAX_HOPS  63
#define PMA_DATA      64

/* What a MAD is on the wire, in units of four bytes: LRH, BTH, DETH, the MAD and its ICRC; and a
 * GRH. */
#define MAD_WORDS     72
#define MAD_GRH_WORDS 10

#define GSI_QKEY 0x80010000u

#define LID_PERMISSIVE	    0xffff
#define LID_FIRST_MULTICAST 0xc000

enum {
	CLASS_SUBN_LID = 0x01,
	CLASS_SA = 0x03,
	CLASS_PERF = 0x04,
	CLASS_BM = 0x05,
	CLASS_DEV_MGT = 0x06,
	CLASS_CM = 0x07,
	CLASS_VENDOR2_FIRST = 0x30,
	CLASS_VENDOR2_LAST = 0x4f,
	CLASS_LAST = 0x4f,
	CLASS_SUBN_DR = 0x81,
};

enum {
	METHOD_GET = 0x01,
	METHOD_SET = 0x02,
	METHOD_SEND = 0x03,
	METHOD_TRAP = 0x05,
	METHOD_REPORT = 0x06,
	METHOD_TRAP_REPRESS = 0x07,
	METHOD_DELETE = 0x15,
	METHOD_RESP = 0x80,
	METHOD_GET_RESP = 0x81,
};

/* Status, as in the header, host byte order. */
enum {
	STATUS_BUSY = 0x0001,
	STATUS_BAD_VERSION = 1 << 2,
	STATUS_BAD_METHOD = 2 << 2,
	STATUS_BAD_METHOD_ATTR = 3 << 2,
	STATUS_BAD_FIELD = 7 << 2,
	STATUS_DIRECTION = 0x8000,
};

/* Attributes of subnet management. */
enum {
	ATTR_NOTICE = 0x0002,
	ATTR_NODE_DESC = 0x0010,
	ATTR_NODE_INFO = 0x0011,
	ATTR_SWITCH_INFO = 0x0012,
	ATTR_GUID_INFO = 0x0014,
	ATTR_PORT_INFO = 0x0015,
	ATTR_PKEY_TABLE = 0x0016,
	ATTR_SL_TO_VL = 0x0017,
	ATTR_VL_ARB = 0x0018,
	ATTR_LFT = 0x0019,
	ATTR_RFT = 0x001a,
	ATTR_MFT = 0x001b,
	ATTR_SM_INFO = 0x0020,
	ATTR_LED_INFO = 0x0031,
	ATTR_MLNX_EXT_PORT_INFO = 0xff90,
};

/* Attributes of subnet administration. */
enum {
	ATTR_PATH_RECORD = 0x0035,
	ATTR_MCMEMBER_RECORD = 0x0038,
};

/* Attributes of performance management. */
enum {
	ATTR_CLASS_PORT_INFO = 0x0001,
	ATTR_SAMPLES_CONTROL = 0x0010,
	ATTR_SAMPLES_RESULT = 0x0011,
	ATTR_COUNTERS = 0x0012,
	ATTR_RCV_ERROR_DETAILS = 0x0015,
	ATTR_XMIT_DISCARD_DETAILS = 0x0016,
	ATTR_COUNTERS_EXT = 0x001d,
	ATTR_SAMPLES_RESULT_EXT = 0x001e,
	ATTR_XMIT_DATA_SL = 0x0036,
	ATTR_RCV_DATA_SL = 0x0037,
};

enum { MAD_BASE_VERSION, MAD_CLASS, MAD_CLASS_VERSION, MAD_METHOD, MAD_STATUS };
enum {
	SMP_HOP_PTR = 6,
	SMP_HOP_COUNT = 7,
	MAD_TID = 8,
	MAD_ATTR = 16,
	MAD_MOD = 20,
	SMP_MKEY = 24,
	SMP_DR_SLID = 32,
	SMP_DR_DLID = 34,
	MAD_OUI = 37, /* vendor classes with OUI */
};

/* Subnet administration (15.2.1.1). */
enum { SA_COMP_MASK = 48, SA_DATA = 56, SA_DATA_LEN = 200 };
/* MCMemberRecord (15.2.5.17); scope and join state share a byte. */
enum { MCM_MGID = 0, MCM_PORT_GID = 16, MCM_JOIN_STATE = 48, MCM_LEN = 52 };

/* RMPP (13.6). */
enum { RMPP_VERSION = 24, RMPP_TYPE, RMPP_FLAGS, RMPP_STATUS, RMPP_SEGMENT = 28, RMPP_PAYLEN = 32 };
enum { RMPP_DATA = 1, RMPP_ACK, RMPP_STOP, RMPP_ABORT };
enum { RMPP_ACTIVE = 1, RMPP_FIRST = 2, RMPP_LAST = 4 };

/* PortInfo (14.2.5.6): offsets into its 64 bytes; where a byte holds two fields, the name is the
 * upper one's. */
enum {
	PI_MKEY = 0,
	PI_PREFIX = 8,
	PI_LID = 16,
	PI_SM_LID = 18,
	PI_CAP = 20,
	PI_LEASE = 26,
	PI_LOCAL_PORT = 28,
	PI_WIDTH_ENABLED,
	PI_WIDTH_SUPPORTED,
	PI_WIDTH_ACTIVE,
	PI_SPEED_STATE, /* speeds supported; port state */
	PI_PHYS,	/* physical state; link down default state */
	PI_PROTECT_LMC, /* M_Key protection (2 bits); LMC (3) */
	PI_SPEED,	/* active; enabled */
	PI_MTU_SMSL,	/* neighbour MTU; SM's SL */
	PI_VLCAP,	/* VLCap; InitType */
	PI_VL_HIGH_LIMIT,
	PI_VLARB_HIGH_CAP,
	PI_VLARB_LOW_CAP,
	PI_MTU_CAP, /* InitTypeReply; MTUCap */
	PI_STALL_HOQ,
	PI_VLS_ENF, /* OperationalVLs; partition enforcement in, out; filter raw in, out */
	PI_MKEY_VIOL = 44,
	PI_PKEY_VIOL = 46,
	PI_QKEY_VIOL = 48,
	PI_GUID_CAP = 50,
	PI_REREG_TIMEOUT, /* client reregister; multicast trap suppression (2 bits); subnet timeout (5) */
	PI_RESP_TIME,
	PI_ERRORS, /* local physical errors; overrun errors */
	PI_CAP2 = 60,
	PI_EXT_SPEED = 62, /* active; supported */
	PI_EXT_ENABLED,
	PI_LEN = 64,
};

/* CapabilityMask, host byte order. */
enum {
	CAP_SM = 1 << 1,
	CAP_NOTICE = 1 << 2,
	CAP_TRAP = 1 << 3,
	CAP_AUTO_MIGRATION = 1 << 5,
	CAP_SL_MAP = 1 << 6,
	CAP_LED = 1 << 9,
	CAP_SYS_IMAGE_GUID = 1 << 11,
	CAP_EXT_SPEEDS = 1 << 14,
	CAP_CM = 1 << 16,
	CAP_VENDOR = 1 << 20,
	CAP_MASK_NOTICE = 1 << 22,
	CAP_REREG = 1 << 25,
	CAP_OTHER_NOTICE = 1 << 26,
};

/* LinkSpeedEnabled and LinkSpeedExtEnabled (14.2.5.6): all that are supported; no extended one. */
enum { SPEEDS_SUPPORTED = 15, EXT_SPEEDS_DISABLED = 30, EXT_SPEEDS_SUPPORTED };

enum { PORT_NOP, PORT_DOWN, PORT_INIT, PORT_ARMED, PORT_ACTIVE };
enum { PHYS_NOP, PHYS_SLEEP, PHYS_POLLING, PHYS_DISABLED, PHYS_TRAINING, PHYS_LINK_UP };
enum { NODE_CA = 1, NODE_SWITCH, NODE_ROUTER };

static inline uint16_t get16(const uint8_t *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return be16toh(v);
}

static inline uint32_t get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return be32toh(v);
}

static inline uint64_t get64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return be64toh(v);
}

static inline void put16(uint8_t *p, uint16_t v)
{
	v = htobe16(v);
	memcpy(p, &v, sizeof(v));
}

static inline void put32(uint8_t *p, uint32_t v)
{
	v = htobe32(v);
	memcpy(p, &v, sizeof(v));
}

static inline void put64(uint8_t *p, uint64_t v)
{
	v = htobe64(v);
	memcpy(p, &v, sizeof(v));
}

static inline uint8_t hi4(uint8_t b)
{
	return b >> 4;
}

static inline uint8_t lo4(uint8_t b)
{
	return b & 15;
}

static inline void put_hi4(uint8_t *b, uint8_t v)
{
	*b = (*b & 15) | v << 4;
}

static inline void put_lo4(uint8_t *b, uint8_t v)
{
	*b = (*b & 0xf0) | (v & 15);
}

static inline bool mad_is_smp(const uint8_t *mad)
{
	return mad[MAD_CLASS] == CLASS_SUBN_LID || mad[MAD_CLASS] == CLASS_SUBN_DR;
}

static inline bool class_is_vendor2(uint8_t class)
{
	return class >= CLASS_VENDOR2_FIRST && class <= CLASS_VENDOR2_LAST;
}

/* Classes whose MADs can be in several segments. */
static inline bool class_has_rmpp(uint8_t class)
{
	return class == CLASS_SA || class == CLASS_DEV_MGT || class == 0x08 || class == 0x0c ||
	       class == 0x10 || class == 0x21 || class_is_vendor2(class);
}

/* Bytes before the data: the class's own header too. */
static inline unsigned class_header_len(uint8_t class)
{
	if (class == CLASS_SA)
		return 56;
	if (class == CLASS_DEV_MGT || class == 0x08 || class == 0x10)
		return 64;
	if (class_is_vendor2(class))
		return 40;
	return MAD_HDR_LEN;
}

/* An answer finds its agent by transaction ID alone (13.4.6.4; mad.c: ib_response_mad). */
static inline bool mad_is_response(const uint8_t *mad)
{
	return mad[MAD_METHOD] & METHOD_RESP || mad[MAD_METHOD] == METHOD_TRAP_REPRESS ||
	       (mad[MAD_CLASS] == CLASS_BM && get32(mad + MAD_MOD) & 1);
}

/* What nobody serves: a question becomes its answer, "unsupported" (mad.c:
 * generate_unmatched_resp). False: it is none, and nothing is said. */
static inline bool mad_make_unmatched(uint8_t *mad)
{
	bool directed = mad[MAD_CLASS] == CLASS_SUBN_DR;

	if (mad[MAD_METHOD] != METHOD_GET && mad[MAD_METHOD] != METHOD_SET)
		return false;
	if (directed && !mad[SMP_HOP_COUNT])
		return false;
	mad[MAD_METHOD] = METHOD_GET_RESP;
	put16(mad + MAD_STATUS, STATUS_BAD_METHOD_ATTR | (directed ? STATUS_DIRECTION : 0));
	return true;
}

#endif
