/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Scans (paper, 3.6 and 4.5): ten registers of each port of each switch, 120 requests for a switch
 * of Tianhe-2. One scan is a snapshot; two are compared. One thread.
 */
#ifndef INBAND_SCAN_H
#define INBAND_SCAN_H

#include "inband/manage/model.h"
#include "inband/registers.h"

typedef uint64_t scan_port[FABRIC_COUNTERS];

struct scan_device {
	uint32_t device; /* of the model */
	bool valid;
	unsigned ports;
	scan_port *port;
};

struct scan {
	uint32_t count, silent;
	uint64_t begun, time; /* ps: when, and how long it took */
	struct scan_device *devices;
};

typedef void scan_done(void *arg, int status, struct scan *scan);

/* done is called once from fabric_progress(), and owns the scan. The model has to stay. */
int scan_begin(struct fabric *fabric, struct model *model, scan_done *done, void *arg);
int scan(struct fabric *fabric, struct model *model, struct scan **scan);
void scan_destroy(struct scan *scan);

/*
 * What a counter has grown by between two reads: counters of 32 bits wrap, and a chip's reset sets
 * them to zero, which shows in smaller values than any wrap explains.
 */
uint64_t scan_delta(unsigned counter, uint64_t before, uint64_t after);
const char *scan_counter_name(unsigned counter);

#endif
