/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * OpenSM's dump of all paths, which its plugin dump_pr writes (opensm-path-records.dump) and ibacm
 * calls opensm_full_v1: for each port a section, a line for each LID that can be reached from it.
 *
 *	Channel Adapter 0x0008f104039a0169, base LID 203, "luna3 HCA-1", port 1
 *	# LID  : SL : MTU : RATE
 *	0x00CA : 0  : 4   : 6
 *	0x00CB : UNREACHABLE
 *
 * Pure functions but for the file that is read: any thread, no locks.
 */
#ifndef SACACHE_IMPORT_H
#define SACACHE_IMPORT_H

#include <stdio.h>

#include "libsacache/sacache.h"

#define SA_UNICAST_LIDS 0xc000 /* LID 0 is not used */

struct sa_dump_path {
	uint16_t dlid;
	uint8_t sl, mtu, rate;
};

/* The section of one port, and the GUID of each LID. */
struct sa_dump {
	uint64_t guid_of[SA_UNICAST_LIDS]; /* by base LID; 0: none */
	struct sa_dump_path path[SA_UNICAST_LIDS];
	uint32_t paths;
	uint16_t lid; /* of the port; 0: it is not in the file */
	unsigned unreachable;
};

/*
 * Reads a whole dump for the port with that GUID; *dump is to be freed. 0, -ENOMEM, -EIO, or
 * -EINVAL with
 * *line and *problem, which says in words what is wrong there.
 */
int sa_dump_parse(FILE *file, uint64_t guid, struct sa_dump **dump, unsigned *line,
		  const char **problem);

#endif
