/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Notices, which the SA reports to nodes that have subscribed to them by InformInfo (IBTA vol. 1,
 * 13.4.8, 13.4.11, 15.2.5.12). Like the client this does no I/O and reads no clock, and its owner
 * serializes all calls.
 *
 *	InformInfo	 0 GID		16 LID range: first, last	22 generic	23 subscribe
 *			24 type		26 trap number	28 QPN 24, reserved 3, response time 5
 *			32 reserved	33 producer type, 24 bits
 *	Notice		 0 generic 1, type 7	1 producer type, 24 bits	4 trap number
 *			 6 issuer's LID		8 toggle 1, count 15		10 details, 54 bytes
 *			64 issuer's GID
 *
 *	SMInfoRecord	 0 LID		 4 GUID		12 SM_Key	20 ActCount	24 priority, state
 *
 * There is a subscription for each trap, and one query that checks whether the SM is still the same.
 * All are requests that are repeated until they are answered or a limit is reached:
 *
 *	idle ──subscribe──► due ──some time at random──► sent ──confirmed──► held
 *	 ▲					      │  ▲		      │
 *	 └──────────── refused, no answer ────────────┘  └── renewed ─────────┘
 *
 * A subscription ends only when it is cancelled, or with the SA, which may have been restarted
 * without client re-register. So each renewal checks the SM's ActCount (14.2.5.13): it grows with
 * the packets that the SM sends, and a smaller value is another SM's, or that of the same one after
 * a restart. (Reading our InformInfoRecords would be more reliable, but OpenSM logs an error for
 * each such query that has several answers.)
 */
#ifndef SACACHE_NOTICE_H
#define SACACHE_NOTICE_H

#include "libsacache/cache.h"
#include "libsacache/mad.h"

#define SA_TRAPS	4
#define SA_NOTICE_SIZE	80
#define SA_REPORTS_KEPT 32

enum sa_ask_state { SA_ASK_IDLE, SA_ASK_DUE, SA_ASK_SENT };

struct sa_ask {
	enum sa_ask_state state;
	bool held; /* the SA has confirmed it, and has not refused it since */
	uint32_t tid;
	unsigned tries;
	uint64_t deadline;
};

struct sa_notice_ops {
	/* As in struct sa_client_ops, to the SA. */
	void (*send)(void *ctx, const uint8_t mad[SA_MAD_SIZE], uint32_t timeout);
	/* lid is not 0 if the event is about a GID that has that LID now. */
	void (*event)(void *ctx, enum sacache_event event, const uint8_t *gid, uint16_t lid);
	void (*count)(void *ctx, enum sa_count what);
};

/*
 * A report that was answered; the SA repeats it if our response was lost. Remembered only for some
 * seconds: an SM that restarts numbers its reports anew, and the same numbers may come again.
 */
struct sa_report {
	uint64_t when;
	uint64_t tid;
	uint8_t notice[SA_NOTICE_SIZE];
};

struct sa_notices {
	const struct sa_notice_ops *ops;
	void *ctx;
	struct sacache_attr attr;
	uint16_t sm_lid;
	uint64_t random;
	uint32_t counter;
	bool stopping;
	struct sa_ask traps[SA_TRAPS];
	struct sa_ask sm;
	bool sm_known;	 /* its GUID is known, */
	bool sm_counted; /* and its ActCount */
	uint64_t sm_guid;
	uint32_t sm_act_count;
	uint64_t renewal;
	uint64_t checked;
	unsigned reports;
	struct sa_report kept[SA_REPORTS_KEPT];
};

void sa_notices_init(struct sa_notices *notices, const struct sacache_attr *attr, uint16_t sm_lid,
		     const struct sa_notice_ops *ops, void *ctx, uint64_t now);
/*
 * Subscribes to all notices, again or for the first time, after a random delay of up to a second:
 * with a new SM all nodes of the subnet do so at once.
 */
void sa_notices_subscribe(struct sa_notices *notices, uint64_t now);
/* The same where the owner knows that the SM is another one or has restarted. */
void sa_notices_new_sm(struct sa_notices *notices, uint16_t sm_lid, uint64_t now);
/* The records are from a time when the SM had that GUID: if it is another, it is a new SM. */
void sa_notices_expect_sm(struct sa_notices *notices, uint64_t guid);
/* A query had no answer: checks, at a limited rate, whether the SM is still the same. */
void sa_notices_doubt(struct sa_notices *notices, uint64_t now);
/* Ends the subscriptions; false: there is no response to wait for. */
bool sa_notices_stop(struct sa_notices *notices, uint64_t now);
bool sa_notices_stopped(const struct sa_notices *notices);
/*
 * A MAD arrived, from the SA or another source. False: it is not about notices. Reports are
 * answered here.
 */
bool sa_notices_receive(struct sa_notices *notices, const uint8_t *mad, size_t length, bool from_sa,
			uint64_t now);
/* Does what is due; returns the time of the next call. */
uint64_t sa_notices_run(struct sa_notices *notices, uint64_t now);

#endif
