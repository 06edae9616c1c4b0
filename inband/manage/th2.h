/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The back end for Tianhe-2's chips. One thread. */
#ifndef INBAND_TH2_H
#define INBAND_TH2_H

#include "inband/manage/fabric.h"
#include "inband/manage/requester.h"

struct th2_options {
	const char *path; /* of thsim's socket; NULL: the default */
	unsigned nic;	  /* which management NIC */
	double cost;	  /* us of the server's time for each request; < 0: as thsim says */
	struct requester_config requester;
};

void th2_options_init(struct th2_options *options);
/* 0; -ENOMEM; -ENOTCONN: no thsim there. */
int th2_create(const struct th2_options *options, struct fabric **fabric);

#endif
