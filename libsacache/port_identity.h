/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* By what a port and its subnet are known, in the host and in files. Plain data. */
#ifndef SACACHE_PORT_IDENTITY_H
#define SACACHE_PORT_IDENTITY_H

#include <stdint.h>

/* Which port a number stands for, as it is now; what is not known yet is 0. */
struct sa_port_identity {
	uint8_t gid[16];
	uint16_t lid;
	uint16_t sm_lid;
	uint64_t sm_guid; /* with notices, when the SM has told */
	uint16_t pkey;	  /* of the default partition if the port is in it, else the first it has */
};

#endif
