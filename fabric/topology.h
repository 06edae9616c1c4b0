/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a fabric is made of: nodes, ports and cables, as ibnetdiscover(8) prints them. A description
 * is read from such a file (also of ibsim's handwritten kind, without GUIDs), made by a generator,
 * and written again.
 *
 * Plain data; one thread at a time.
 */
#ifndef URXE_FABRIC_TOPOLOGY_H
#define URXE_FABRIC_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "fabric/map.h"

#define TOPOLOGY_ERROR_LEN 256
#define TOPOLOGY_ID_LEN	   64

struct topology_port {
	uint64_t guid; /* of an adapter's port; 0: derived from the node's */
	uint32_t peer; /* index of the node at the other end; FABRIC_NONE: no cable */
	uint8_t peer_port;
	uint8_t width, speed; /* 1, 2, 4, 8 or 12 lanes; FABRIC_SPEED_… */
};

struct topology_node {
	char id[TOPOLOGY_ID_LEN];		/* "S-0002c90200001234", or any word */
	char desc[FABRIC_DESC_LEN + 1];		/* NodeDescription */
	uint64_t guid, port0_guid, system_guid; /* 0: to be made up; system_guid 0: none */
	uint32_t vendor;
	uint16_t device;
	uint8_t type, num_ports;
	uint8_t enhanced_port0;
	uint8_t function;    /* virtual function of the switch at its port 1: from 1 on; 0: none */
	bool no_guid;	     /* a function that gets its GUID later */
	uint16_t linear_cap; /* of a switch: LIDs that it forwards are below it; 0: all */
	struct topology_port *ports; /* [1 … num_ports] */
};

struct topology {
	struct topology_node *nodes;
	uint32_t num_nodes, room;
	unsigned ignored;	/* lines that are of no form of the format */
	unsigned first_ignored; /* the first of them */
};

/*
 * Reads a description. Nodes without GUIDs get some. -EINVAL: error says where ("line 7: …") and
 * what is wrong; -ENOMEM. On failure there is nothing to free.
 */
int topology_read(struct topology *t, const char *text, size_t len, char error[TOPOLOGY_ERROR_LEN]);
/* Writes it as ibnetdiscover does. */
void topology_write(const struct topology *t, FILE *out);
void topology_free(struct topology *t);
/* The LIDs that a subnet manager gives it, if each port has one. */
uint32_t topology_lids(const struct topology *t);

/* For generators: a further node, or NULL; valid until the next one. */
struct topology_node *topology_add(struct topology *t, uint8_t type, uint8_t num_ports,
				   const char *id, const char *desc);
void topology_connect(struct topology *t, uint32_t a, uint8_t a_port, uint32_t b, uint8_t b_port);
/* Gives those that have none a GUID. */
void topology_finish(struct topology *t);

/* Names of speeds, "SDR" to "NDR". */
extern const char *const topology_speeds[FABRIC_NUM_SPEEDS];

/*
 * Makes a fabric of a kind: "fat-tree levels=2 ports=36 oversubscription=1", "torus 4x4x4 hosts=2",
 * "dragonfly …", "hypercube …". See urxe-fabric(1). words: the kind and its parameters. Errors as
 * topology_read().
 */
int topology_generate(struct topology *t, int num_words, char *const *words,
		      char error[TOPOLOGY_ERROR_LEN]);

#endif
