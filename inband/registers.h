/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The data book of both chips, as far as their management goes: registers of 64 bits, neighbour
 * tags, fault signals, and what lies where in the EEPROM. The paper says what there is (3.1, 3.4,
 * 3.5); the addresses are this project's. The model of the chips and the server include it.
 *
 *	0x000	identity, status, temperature		0x100	neighbour tags, two in a register
 *	0x008	fault reports				0x200	16 registers for each port
 *	0x010	the NMA's counters
 *	0x020	indirect access to the route tables (NRC)
 */
#ifndef INBAND_REGISTERS_H
#define INBAND_REGISTERS_H

#include <stdint.h>

#include "inband/nmp.h"

#define NRC_REGISTERS 0x8000 /* 15-bit addresses */
#define NIC_REGISTERS 0x1000 /* 12-bit addresses */

/* id | type << 20 | ports << 24 | model << 32; id all ones: none yet. */
#define REG_ID		0x000
#define REG_STATUS	0x001 /* STATUS_… */
#define REG_TEMPERATURE 0x002 /* thousandths of a degree Celsius */
#define REG_UPTIME	0x003 /* microseconds since the last reset */
#define REG_SCRATCH0	0x004 /* software's own; zero after a reset */
#define REG_SCRATCH1	0x005
#define REG_FRAME	0x006 /* own frame, or FRAME_NONE | nodes of a frame << 16 */

#define FRAME_NONE 0xffffu

#define STATUS_READY	  0x1 /* has loaded its EEPROM */
#define STATUS_BAD_EEPROM 0x2 /* the EEPROM's header does not fit its CRC: no ID, no defaults */
#define STATUS_TABLES	  0x4 /* route tables came from the EEPROM */

/* A bit for each fault signal: reported when enabled, not masked, and a way to report is set. */
#define REG_FAULT_ENABLE  0x008
#define REG_FAULT_MASK	  0x009
#define REG_FAULT_STATUS  0x00a /* what has happened; writing ones clears them */
#define REG_REPORT_TO	  0x00b /* id | VP << 20 | REPORT_ON */
#define REG_REPORT_ROUTE0 0x00c /* HopNum, Hop0 … Hop10, 5 bits each */
#define REG_REPORT_ROUTE1 0x00d /* Hop11 … Hop19 */

#define REPORT_ON (1u << 31)

enum fault {
	FAULT_LINK_DOWN = 1,
	FAULT_LINK_UP,
	FAULT_LINK_WIDTH, /* some lanes are gone */
	FAULT_RETRIES,	  /* more than REG_RETRY_LIMIT in a link's life */
	FAULT_TEMPERATURE,
	FAULT_RESET, /* the chip has loaded its EEPROM anew */
	FAULTS
};
#define FAULT_ALL ((1u << FAULTS) - 2)

#define REG_NMA_REQUESTS 0x010
#define REG_NMA_ERRORS	 0x011 /* answered by an error response */
#define REG_NMA_DROPPED	 0x012 /* wrong ID or chip type, or no request */
#define REG_NMA_REPORTS	 0x013

/*
 * Route tables, one for each input port: 24 bits of output ports an entry. Entries 0 to 575 are for
 * the frames, 576 to 607 for the nodes of the own frame; the tables in EEPROM have the same order.
 * INDEX is the number of an entry, and from bit 32 on a bit for each input port. DATA holds entries
 * INDEX and INDEX + 1 (low and high half): a read takes them from the first of those ports, a write
 * stores them for all; then INDEX has moved on by two. A request with both registers does not
 * depend on any before it.
 */
#define REG_TABLE_INDEX 0x020
#define REG_TABLE_DATA	0x021

#define TABLE_FRAMES  576
#define TABLE_LOCAL   32
#define TABLE_ENTRIES (TABLE_FRAMES + TABLE_LOCAL)

/* Ports 2i and 2i + 1 in the low and high half of register i: learnt by the link's handshake. */
#define REG_TAGS  0x100
#define TAG_ID	  0x000fffffu
#define TAG_TYPE  0x00100000u /* NRC */
#define TAG_PORT  0x03e00000u
#define TAG_LIGHT 0x40000000u /* a signal comes in */
#define TAG_VALID 0x80000000u /* the handshake has been done */

static inline uint32_t tag_make(uint32_t id, unsigned type, unsigned port)
{
	return (id & TAG_ID) | (type ? TAG_TYPE : 0) | port << 21 | TAG_LIGHT | TAG_VALID;
}

static inline unsigned tag_port(uint32_t tag)
{
	return (tag & TAG_PORT) >> 21;
}

#define REG_PORT(port, n) (0x200u + 16u * (port) + (n))
enum port_register {
	PORT_LINK,	 /* state | width << 8 | light << 16 */
	PORT_HANDSHAKES, /* times the link came up */
	PORT_RETRIES,	 /* packets sent again by the link layer */
	PORT_ERRORS,	 /* packets received with a wrong CRC */
	PORT_SENT,	 /* packets */
	PORT_RECEIVED,
	PORT_SENT_FLITS,
	PORT_RECEIVED_FLITS,
	PORT_WAITS, /* packets that found no credit */
	PORT_DROPPED,
	PORT_COUNTERS = PORT_DROPPED + 1,  /* the ten that a scan reads */
	PORT_BIST_CONTROL = PORT_COUNTERS, /* write 1: start, 0: stop */
	PORT_BIST_TIME,			   /* microseconds */
	PORT_BIST_INTENSITY,		   /* percent of the bandwidth, 1 to 100 */
	PORT_BIST_RESULT,		   /* state | errors << 8 */
	PORT_BIST_BITS,			   /* tested */
	PORT_CONTROL,			   /* PORT_CONTROL_… */
};
#define PORT_CONTROL_ENABLE 1u
#define PORT_CONTROL_CLEAR  2u /* the counters; reads as 0 */

enum link_state { LINK_OFF, LINK_DOWN, LINK_TESTING, LINK_UP };
enum bist_state { BIST_IDLE, BIST_RUNNING, BIST_DONE, BIST_STOPPED, BIST_NO_LINK };

#define LINK_LANES 8

/*
 * EEPROM, 64 KiB. The header's CRC is CRC-32C of the 60 bytes before it. Tables are there when
 * their mark is: 608 entries of 3 bytes, least first, for each port.
 */
#define EEPROM_BYTES	    65536u
#define EEPROM_MAGIC	    0x00 /* 4 bytes: "NRC1", "NIC1" */
#define EEPROM_ID	    0x04 /* 4 bytes, least first; all ones: none */
#define EEPROM_SERIAL	    0x08 /* 8 bytes */
#define EEPROM_HEADER_CRC   0x3c
#define EEPROM_HEADER	    0x40
#define EEPROM_FAULT_ENABLE 0x10   /* 4 bytes */
#define EEPROM_FRAME	    0x14   /* 2 bytes */
#define EEPROM_TABLE_MARK   0x0ffc /* 4 bytes: "RT01" */
#define EEPROM_TABLES	    0x1000
#define EEPROM_TABLE_BYTES  (3 * TABLE_ENTRIES)

#endif
