/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The map of a fabric: what a host must know to send a packet through it, and to describe its own
 * adapters. It lies in a memory file that fabricd alone can write (sealed with F_SEAL_FUTURE_WRITE
 * after fabricd has mapped it), and that every process of a host maps for reading.
 *
 *	struct fabric_map      what it is, where the tables are
 *	struct fabric_node[]   switches, adapters, routers
 *	struct fabric_port[]   ports 0 to n of each node, one after the other
 *	linear forwarding      FABRIC_LFT_LEN bytes a switch: 255 - port, so that pages of zeros mean "no route"
 *	multicast forwarding   of a switch: [multicast LID - 0xc000][ports / 16] words of 16 bits
 *	SL to VL               of a switch: [port in][port out][8]; of an adapter: [port][8]; as differences from the
 *	                       default, in which SL and VL are the same modulo the eight VLs (fabric_vl())
 *	P_Keys                 pkey_cap words of 16 bits a port, host byte order
 *	GUIDs                  guid_cap words of 64 bits for port 0 of a switch and each port of an adapter
 *	VL arbitration         32 bytes a port, those of low priority first
 *
 * Only fabricd's thread writes. generation grows before a change of what routes depend on becomes
 * visible and once more behind it, so that it is odd meanwhile: whoever keeps a route keeps the
 * even generation that it read before, and looks whether it is still the same. Fields of one word
 * are written at once.
 */
#ifndef URXE_FABRIC_MAP_H
#define URXE_FABRIC_MAP_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#include "fabric/mad.h"

#define FABRIC_MAP_MAGIC    0x6661627269632031ull
#define FABRIC_LFT_LEN	    0xc000
#define FABRIC_MFT_LEN	    0x1000
#define FABRIC_NONE	    0xffffffffu
#define FABRIC_DESC_LEN	    64
#define FABRIC_MAX_PORTS    254
#define FABRIC_PKEYS_HCA    128
#define FABRIC_PKEYS_SWITCH 32
#define FABRIC_GUIDS	    128
#define FABRIC_VLARB_CAP    8 /* entries of each priority, of 2 bytes */
#define FABRIC_VLARB_LEN    (2 * 2 * FABRIC_VLARB_CAP)
#define FABRIC_HOPS_MAX	    64 /* a packet that crosses more links than this goes in circles */

struct fabric_map {
	uint64_t magic;
	uint64_t size;
	_Atomic uint64_t generation;
	_Atomic uint32_t alive; /* 0: the fabric is off, for good; its next life has another map */
	uint32_t num_nodes, num_ports;
	uint32_t pad;
	uint64_t nodes, ports; /* offsets of the tables */
	uint64_t seed;	       /* of faults */
	char name[64];
};

struct fabric_node {
	uint64_t guid, system_guid; /* host byte order */
	uint64_t lft, mft, sl2vl;   /* offsets; 0: none */
	uint32_t first_port;	    /* index of port 0 in the table of ports */
	uint32_t vendor;
	uint32_t revision;
	uint32_t host; /* of an adapter: its host, named by the index of the host's first adapter */
	uint16_t device;
	uint8_t type; /* NODE_CA… */
	uint8_t num_ports;
	uint8_t mft_blocks;	 /* words of 16 ports */
	uint8_t switch_info[20]; /* SwitchInfo as on the wire */
	uint8_t enhanced_port0;
	uint8_t function; /* of an adapter: which virtual function of the virtual switch behind its cable */
	uint8_t pad;
	char desc[FABRIC_DESC_LEN]; /* NodeDescription; no NUL where all 64 are in use */
};

struct fabric_port {
	uint8_t info[PI_LEN]; /* PortInfo as on the wire */
	uint64_t guid;	      /* host byte order; 0: a virtual function without one */
	uint64_t guids;	      /* offset; 0: none. guids[0] stands in guid */
	uint64_t pkeys;	      /* offset */
	uint64_t vlarb;	      /* offset */
	uint32_t node;	      /* index */
	uint32_t peer;	      /* index of the port at the other end of the cable; FABRIC_NONE */
	uint16_t pkey_cap;
	uint8_t num;
	uint8_t disabled; /* the operator took the link or the node down */
	uint8_t width,
		speed; /* that the cable can do: a bit of LinkWidthEnabled, and FABRIC_SPEED_… */
	uint8_t led;
	uint8_t fdr10; /* FABRIC_FDR10_… */
	/* Faults on the way from here to the peer: parts of 2^32 of the packets. */
	uint32_t loss, corruption;
	uint64_t delay; /* ns that each of them takes on that way */
};

enum {
	FABRIC_SPEED_SDR,
	FABRIC_SPEED_DDR,
	FABRIC_SPEED_QDR,
	FABRIC_SPEED_FDR10,
	FABRIC_SPEED_FDR,
	FABRIC_SPEED_EDR,
	FABRIC_SPEED_HDR,
	FABRIC_SPEED_NDR,
	FABRIC_NUM_SPEEDS,
};

/* Of the speed that PortInfo has no bit for (MlnxExtPortInfo). */
enum { FABRIC_FDR10_ENABLED = 1, FABRIC_FDR10_ACTIVE = 2 };

static_assert(sizeof(struct fabric_map) == 128, "map header");
static_assert(sizeof(struct fabric_node) == 152, "node");
static_assert(sizeof(struct fabric_port) == 128, "port");

static inline struct fabric_node *fabric_map_node(const struct fabric_map *map, uint32_t i)
{
	return (struct fabric_node *)((char *)map + map->nodes) + i;
}

static inline struct fabric_port *fabric_map_port(const struct fabric_map *map, uint32_t i)
{
	return (struct fabric_port *)((char *)map + map->ports) + i;
}

static inline struct fabric_port *fabric_node_port(const struct fabric_map *map,
						   const struct fabric_node *node, uint8_t num)
{
	return fabric_map_port(map, node->first_port + num);
}

static inline uint8_t *fabric_map_bytes(const struct fabric_map *map, uint64_t offset)
{
	return (uint8_t *)map + offset;
}

/* The port that a switch's linear table names for a LID; 255 for none. */
static inline uint8_t fabric_lft(const struct fabric_map *map, const struct fabric_node *node,
				 uint16_t lid)
{
	return lid < FABRIC_LFT_LEN ? 255 - fabric_map_bytes(map, node->lft)[lid] : 255;
}

/* SLtoVLMappingTable of a port that nobody has set one for. */
static const uint8_t fabric_default_vls[8] = {0x01, 0x23, 0x45, 0x67, 0x01, 0x23, 0x45, 0x67};

/* The VL of a packet of that SL. in: of a switch; out: the port that it leaves by. */
static inline uint8_t fabric_vl(const struct fabric_map *map, const struct fabric_node *node,
				uint8_t in, uint8_t out, uint8_t sl)
{
	uint64_t at = node->type == NODE_SWITCH ? in * (node->num_ports + 1u) + out : out;
	uint8_t byte = fabric_map_bytes(map, node->sl2vl + 8 * at)[sl / 2 % 8] ^
		       fabric_default_vls[sl / 2 % 8];

	return sl % 2 ? lo4(byte) : hi4(byte);
}

static inline uint16_t fabric_port_lid(const struct fabric_port *port)
{
	return get16(port->info + PI_LID);
}

static inline uint8_t fabric_port_state(const struct fabric_port *port)
{
	return lo4(port->info[PI_SPEED_STATE]);
}

/* The speed that the link was trained to: FABRIC_SPEED_… */
static inline uint8_t fabric_port_speed(const struct fabric_port *port)
{
	uint8_t basic = hi4(port->info[PI_SPEED]), extended = hi4(port->info[PI_EXT_SPEED]);

	if (extended)
		return FABRIC_SPEED_FDR + __builtin_ctz(extended);
	if (basic < 4)
		return basic == 2 ? FABRIC_SPEED_DDR : FABRIC_SPEED_SDR;
	return port->fdr10 & FABRIC_FDR10_ACTIVE ? FABRIC_SPEED_FDR10 : FABRIC_SPEED_QDR;
}

static inline uint8_t fabric_port_lmc(const struct fabric_port *port)
{
	return port->info[PI_PROTECT_LMC] & 7;
}

/* Is the LID one of the port's, with its path bits? */
static inline bool fabric_port_has_lid(const struct fabric_port *port, uint16_t lid)
{
	uint16_t base = fabric_port_lid(port);

	return base && (uint16_t)(lid - base) < 1u << fabric_port_lmc(port);
}

#endif
