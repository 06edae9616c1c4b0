/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the SA tells by itself: notices, which it reports to those who subscribed to them by
 * InformInfo (IBTA vol. 1, 13.4.8, 13.4.11, 15.2.5.12). Like the client it knows neither where MADs
 * come from nor what time it is, and its owner serializes all calls.
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
 * For each trap there is a subscription, and beside them there is one question: is the SM the same?
 * All are asks, which are sent until they are answered or were sent often enough:
 *
 *	idle ──subscribe──► due ──some time at random──► sent ──confirmed──► held
 *	 ▲					      │  ▲		      │
 *	 └──────────── refused, no answer ────────────┘  └── renewed ─────────┘
 *
 * A subscription ends only when it is cancelled, or with the SA, which may have been restarted
 * without client re-register. So with each renewal the SM's ActCount is looked at (14.2.5.13): it
 * grows with what the SM sends, and one that went back is another SM's, or that of the same one
 * after a restart. (To ask for our InformInfoRecords would be surer, but OpenSM writes an error
 * into its log for each such question that has several answers.)
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
	bool held; /* the SA confirmed it, and has not said otherwise since */
	uint32_t tid;
	unsigned tries;
	uint64_t deadline;
};

struct sa_notice_ops {
	/* As in struct sa_client_ops, to the SA. */
	void (*send)(void *ctx, const uint8_t mad[SA_MAD_SIZE], uint32_t timeout);
	/* lid is not 0 where the event is about a GID that has it now. */
	void (*event)(void *ctx, enum sacache_event event, const uint8_t *gid, uint16_t lid);
	void (*count)(void *ctx, enum sa_count what);
};

/*
 * A report that was answered; the SA may not have got our response and repeat it. Only for some
 * seconds: one that was restarted numbers its reports anew, and the same node may go first again.
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
	bool sm_known;	 /* by its GUID, */
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
 * Subscribes to everything, again or for the first time, after a time of up to a second at random:
 * when an SM is new, all its nodes are here at once.
 */
void sa_notices_subscribe(struct sa_notices *notices, uint64_t now);
/* The same where the SM is another one, or begins anew, and its owner knows that. */
void sa_notices_new_sm(struct sa_notices *notices, uint16_t sm_lid, uint64_t now);
/* What is believed now is from a time when the SM had that GUID: another one is a new SM. */
void sa_notices_expect_sm(struct sa_notices *notices, uint64_t guid);
/* The SA did not answer something: asks, but not often, whether it is still the same. */
void sa_notices_doubt(struct sa_notices *notices, uint64_t now);
/* Ends what is subscribed; false: there is nothing to wait for. */
bool sa_notices_stop(struct sa_notices *notices, uint64_t now);
bool sa_notices_stopped(const struct sa_notices *notices);
/*
 * A MAD arrived, from the SA or from elsewhere. False: it is not about notices. Reports are
 * answered here.
 */
bool sa_notices_receive(struct sa_notices *notices, const uint8_t *mad, size_t length, bool from_sa,
			uint64_t now);
/* Does what is due; returns when it has to be called next. */
uint64_t sa_notices_run(struct sa_notices *notices, uint64_t now);

#endif
