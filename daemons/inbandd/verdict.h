/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a scan, or the difference of two, says of the ports: sums, and those whose counters are at a
 * threshold or above it, the worst first. Ports that are suppressed are counted in the sums alone.
 * The loop's thread.
 */
#ifndef INBANDD_VERDICT_H
#define INBANDD_VERDICT_H

#include "daemons/inbandd/inbandd.h"

/* At least so much is bad; 0: however much it is, it is not. */
struct thresholds {
	uint64_t least[FABRIC_COUNTERS];
};

struct bad_port {
	uint32_t device;
	unsigned port;
	uint64_t badness;
	scan_port counters;
};

struct verdict {
	uint64_t sum[FABRIC_COUNTERS];
	struct bad_port *bad;
	size_t count, size;
	uint32_t suppressed;
};

/*
 * "retries=100,errors=1"; what is not named is as it was. NULL or "": one retry, error, dropped
 * packet or further handshake. False: error says what is wrong.
 */
bool thresholds_parse(const char *text, struct thresholds *thresholds, char *error, size_t length);

/* before: NULL: all that is counted. changed: NULL, or is called for each port with its growth.
 * -ENOMEM. */
int verdict_make(const struct inbandd *d, const struct scan *now, const struct scan *before,
		 const struct thresholds *thresholds,
		 void (*changed)(void *arg, uint32_t device, unsigned port, const scan_port growth),
		 void *arg, struct verdict *verdict);
void verdict_free(struct verdict *verdict);
/* Members "sums", "bad_ports", "suppressed" and "worst", of which there are `worst`. */
void verdict_json(const struct inbandd *d, const struct verdict *verdict, unsigned worst,
		  struct json_object *to);

#endif
