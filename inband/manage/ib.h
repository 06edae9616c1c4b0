/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The back end for InfiniBand, by libibumad: on hardware, on a virtual fabric, on ibsim. It reads
 * and changes nothing but its own subscriptions. A device's ID is its node GUID, its ports have
 * InfiniBand's numbers, and port 0 is there without a cable. One thread, and a second one that only
 * waits.
 */
#ifndef INBAND_IB_H
#define INBAND_IB_H

#include "inband/manage/fabric.h"

struct ib_options {
	const char *port;    /* "mlx5_0:1"; NULL: the first that is active */
	unsigned window;     /* MADs under way, and */
	unsigned per_device; /* of an operation on one device */
	unsigned timeout;    /* ms */
	unsigned tries;
};

void ib_options_init(struct ib_options *options);
/* 0; -ENOMEM; -ENODEV: no such port, or it may not be opened. */
int ib_create(const struct ib_options *options, struct fabric **fabric);

#endif
