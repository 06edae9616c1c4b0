/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Self-test of a link (paper, 3.1 (6)): each end in turn sends test packets for a time and counts
 * those that come in damaged. A link that the server needs to reach others is refused. One thread.
 */
#ifndef INBAND_BIST_H
#define INBAND_BIST_H

#include "inband/manage/model.h"

struct bist_end {
	uint64_t state; /* enum bist_state */
	uint64_t errors, bits;
};

struct bist_result {
	struct bist_end end[2]; /* of the port that was named, and of its peer */
};

typedef void bist_done(void *arg, int status, const struct bist_result *result);

/*
 * ms: 1 to 3,600,000, for each end; intensity: percent of the bandwidth, 1 to 100. -ENOLINK: there
 * is no link to another switch; -EBUSY: a way of the server's leads over it, or it is being tested.
 * A start is sent once: -ETIMEDOUT leaves open whether it was done.
 */
int bist_begin(struct fabric *fabric, struct model *model, struct device *device, unsigned port,
	       uint64_t ms, unsigned intensity, bist_done *done, void *arg);

#endif
