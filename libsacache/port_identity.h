/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What identifies a port and its subnet, in memory and in files. Plain data. */
#ifndef SACACHE_PORT_IDENTITY_H
#define SACACHE_PORT_IDENTITY_H

#include <stdint.h>

/* The port of a number, as it is now; unknown values are 0. */
struct sa_port_identity {
	uint8_t gid[16];
	uint16_t lid;
	uint16_t sm_lid;
	uint64_t sm_guid; /* with notices, once the SM has reported it */
	uint16_t pkey;	  /* of the default partition if the port is in it, else its first one */
};

#endif
