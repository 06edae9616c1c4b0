/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Requests to chips of Tianhe-2, many at a time: a window for all, a cap for each chip, time-outs
 * and retries, and the matching of answers. A job is a series of requests to one chip; the
 * requester asks it for the next one when there is room, so what waits takes no memory.
 *
 * Requests and responses share VC3. So that nothing that has been sent can be in the way of an
 * answer for ever, every packet must find room at its end: the MPQ is longer than the window, and
 * the caps of all servers for one chip, added up, must not exceed its NMA's FIFO.
 *
 * One thread.
 */
#ifndef INBAND_REQUESTER_H
#define INBAND_REQUESTER_H

#include "inband/glex.h"
#include "inband/manage/fabric.h"

#define REQUESTER_MAX_WINDOW 2000 /* of each; together less than the MPQ has entries */

struct job {
	struct job *next; /* of its target */
	struct target *target;
	unsigned total, issued, finished;
	bool once; /* a request without an answer is not repeated: its effect must not come twice */
	/* Fills type, count and accesses of request number `index`. */
	void (*make)(struct job *job, unsigned index, struct nmp *nmp);
	/* status as of fabric_done. After the last the job may be freed. */
	void (*answer)(struct job *job, unsigned index, int status, const struct nmp *nmp);
};

struct requester_config {
	unsigned window, per_chip;
	unsigned slow_window; /* of requests to slow targets */
	uint64_t
		budget; /* requests a second, over a millisecond or so; 0: as many as the windows allow */
	unsigned timeout; /* ms */
	unsigned tries;
};

struct requester;

int requester_create(glex_ep_handle_t ep, const struct requester_config *config,
		     struct requester **requester);
/* With nothing under way, or all of it forgotten. */
void requester_destroy(struct requester *requester);
void requester_submit(struct requester *requester, struct job *job);
/* Sends no more of a job's requests: its last answer is that of the last which is under way. */
void requester_cut(struct requester *requester, struct job *job);
/* over(arg) is called at that time of glex_now(), or a little later. -ENOMEM. */
int requester_sleep(struct requester *requester, uint64_t until, void (*over)(void *arg),
		    void *arg);
/* As progress() of the back ends. */
int requester_progress(struct requester *requester, bool wait);
/* Reports that come in between. */
void requester_on_report(struct requester *requester,
			 void (*report)(void *arg, const struct nmp *nmp), void *arg);
/* Where a request goes along that is sent again, the first time and each second; false: as before.
 */
typedef bool requester_other(void *arg, const struct target *t, struct nmp_route *out,
			     struct nmp_route *back);
void requester_on_retry(struct requester *requester, requester_other *other_way, void *arg);
const struct fabric_counts *requester_counts(const struct requester *requester);
/* When something is to be done next; GLEX_FOREVER: nothing is under way. */
uint64_t requester_deadline(const struct requester *requester);

#endif
