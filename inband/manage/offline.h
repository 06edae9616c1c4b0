/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A back end without a network: it answers from a dump (dump.h), so that what is not there can be
 * discovered, compared with plans, shown and exported. It has neighbours and nothing else. One
 * thread.
 */
#ifndef INBAND_OFFLINE_H
#define INBAND_OFFLINE_H

#include "inband/manage/fabric.h"

struct model;

/* The model is the fabric's from then on, also if it fails. 0, -ENOMEM. */
int offline_create(struct model *model, struct fabric **fabric);

#endif
