/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Self-tests of many links (bist.h), some at once, and of each switch one at a time, so that a
 * switch never loses more than one link to the tests. Before the first, the switches are asked
 * where they report faults to: a link that such a report would cross, also to another server, is
 * refused. One thread.
 */
#ifndef INBAND_CAMPAIGN_H
#define INBAND_CAMPAIGN_H

#include "inband/manage/bist.h"

struct campaign_link {
	uint32_t device;
	uint16_t port;
};

struct campaign_result {
	uint32_t tested, bad; /* bad: damaged packets, or a test that did not end */
	uint32_t refused;     /* the server's ways or somebody's reports cross them */
	uint32_t failed;      /* no link any more, or no answer */
	uint64_t time;	      /* ps */
};

struct campaign_work {
	uint64_t ms;	    /* for each end; 1 to 3,600,000 */
	unsigned intensity; /* percent, 1 to 100 */
	/* A link has been tested (status 0), or has not (as of bist_begin() and bist_done). */
	void (*each)(void *arg, const struct campaign_link *link, int status,
		     const struct bist_result *result);
	/* False: no more are begun; those under way come to their end. */
	bool (*progress)(void *arg, uint32_t done, uint32_t of);
	void (*done)(void *arg, int status, const struct campaign_result *result);
	void *arg;
};

/* The links are copied. done is called once, from fabric_progress(); the model has to stay.
 * -ENOMEM. */
int campaign_begin(struct fabric *fabric, struct model *model, const struct campaign_link *links,
		   uint32_t count, const struct campaign_work *work);

/* Whether a test's result is that of a good link. */
bool bist_is_good(const struct bist_result *result);

#endif
