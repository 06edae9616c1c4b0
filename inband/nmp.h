/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The network management packet (NMP) of Tianhe-2's interconnect: as a structure, as the 512-bit
 * descriptor that software submits, and as the four flits of 198 bits that cross a link (paper,
 * 3.3). One table of fields (nmp_fields.c) packs, unpacks and documents both forms. The paper names
 * the fields and gives the width of some; the other widths and all positions are this project's.
 *
 * Plain data and pure functions: any thread.
 */
#ifndef INBAND_NMP_H
#define INBAND_NMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define NMP_MAX_HOPS	  20
#define NMP_PORTS	  32	   /* what 5 bits of a hop can name */
#define NMP_NO_ID	  0xfffffu /* DestID of a chip that has none yet: all ones */
#define NMP_VC		  3
#define NMP_FLITS	  4
#define NMP_FLIT_BITS	  198
#define NMP_PACKET_BITS	  (NMP_FLITS * NMP_FLIT_BITS)
#define NMP_MAX_REGISTERS 2
#define NMP_MAX_BYTES	  6    /* EEPROM bytes of one request */
#define NMP_HEAD	  0xa5 /* marks a descriptor */

enum nmp_chip { NMP_NIC, NMP_NRC };

/* The 11 values of NMPType that are in use. */
enum nmp_type {
	NMP_REGISTER_READ = 1,
	NMP_REGISTER_READ_RESPONSE,
	NMP_REGISTER_WRITE,
	NMP_REGISTER_WRITE_RESPONSE,
	NMP_REGISTER_ERROR,
	NMP_EEPROM_READ,
	NMP_EEPROM_READ_RESPONSE,
	NMP_EEPROM_WRITE,
	NMP_EEPROM_WRITE_RESPONSE,
	NMP_EEPROM_ERROR,
	NMP_REPORT,
	NMP_TYPES = NMP_REPORT
};

/* Why a chip refuses a request: the data of an error response. */
enum nmp_error {
	NMP_ERROR_COUNT = 1, /* no access, or more than a packet can carry */
	NMP_ERROR_ADDRESS,   /* beyond the chip's registers, or none there */
	NMP_ERROR_READ_ONLY,
	NMP_ERROR_VALUE, /* a register does not take that value */
	NMP_ERROR_I2C,	 /* the EEPROM does not acknowledge */
};

/* RtType: management packets carry their route; data packets are routed by tables. */
enum nmp_routing { NMP_BY_TABLE, NMP_BY_SOURCE };

/* Output ports, one for each NRC that the packet leaves; a NIC has one port, which is not named. */
struct nmp_route {
	uint8_t hops;
	uint8_t port[NMP_MAX_HOPS];
};

struct nmp_access {
	uint32_t address;
	uint64_t value;
};

struct nmp {
	uint32_t dest_id;
	uint32_t src_id; /* of the chip that answers or reports */
	uint32_t dest_vp, src_vp;
	uint32_t dest_type; /* enum nmp_chip */
	uint32_t src_type;
	uint32_t rt_type; /* enum nmp_routing */
	uint32_t fence, err, kind, sm, inst, lint, rint, head;
	uint32_t transaction;
	uint32_t type; /* enum nmp_type */
	struct nmp_route forward, back;

	uint32_t count;				 /* of accesses */
	struct nmp_access access[NMP_MAX_BYTES]; /* registers or EEPROM bytes */
	uint32_t error;				 /* of an error response: enum nmp_error */
	uint32_t fault, port, sequence;		 /* of a report */
	uint64_t value;
};

struct nmp_descriptor {
	uint64_t word[8];
};

/* The four flits one after the other, flit i from bit 198 i on; bit 0 is the least of word 0. */
struct nmp_packet {
	uint64_t word[13];
};

/* A link's transmission: Hops counts the NRCs that the packet has left. */
struct nmp_transit {
	uint32_t vc, length, hops;
};

/* Packs. Values that are too wide for their fields lose their upper bits. */
void nmp_to_descriptor(const struct nmp *nmp, struct nmp_descriptor *descriptor);
/* Unpacks. 0; -EINVAL: not a management descriptor, or a field out of range (3.3: then Err is set).
 * */
int nmp_from_descriptor(const struct nmp_descriptor *descriptor, struct nmp *nmp);

/* Packs with its CRC. */
void nmp_to_packet(const struct nmp *nmp, unsigned hops, struct nmp_packet *packet);
/* Unpacks. 0; -EBADMSG: the CRC differs; -EINVAL: a field out of range. */
int nmp_from_packet(const struct nmp_packet *packet, struct nmp *nmp, unsigned *hops);
/* Turns a bit of a packet over, as a bad link does. */
void nmp_flip(struct nmp_packet *packet, unsigned bit);

/* Whether a request asks for an EEPROM; whether it is a request at all; what answers it. */
bool nmp_is_eeprom(unsigned type);
bool nmp_is_request(unsigned type);
bool nmp_is_error(unsigned type);
unsigned nmp_response(unsigned request);

bool nmp_route_equal(const struct nmp_route *a, const struct nmp_route *b);

/* Prints the table of fields. */
void nmp_print_fields(FILE *file);

#endif
