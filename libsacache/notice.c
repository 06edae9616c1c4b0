/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The subscription to the SA's notices, and its reports; notice.h has the picture. The owner
 * serializes all calls; nothing here waits or takes a lock.
 */
#include <errno.h>

#include "libsacache/client.h"
#include "libsacache/notice.h"
#include "libsacache/random.h"

#define SPREAD	      1000u /* ms in which the nodes of a subnet subscribe */
#define LEAST_RENEWAL 100
#define MAX_DOUBLINGS 6
#define REPEATED      10000 /* ms after which the same report counts as a new one */
#define GENERIC	      1

enum trap {
	TRAP_GID_IN = 64,
	TRAP_GID_OUT = 65,
	TRAP_LINK = 128,
	TRAP_LOCAL_CHANGE = 144,
};
/* sacache.h has the meaning of each, and why no others are subscribed to. */
static const uint16_t traps[SA_TRAPS] = {TRAP_GID_IN, TRAP_GID_OUT, TRAP_LINK, TRAP_LOCAL_CHANGE};

static void plan_renewal(struct sa_notices *notices, uint64_t now)
{
	uint64_t every = notices->attr.notices;

	notices->renewal = now + every + sa_random(&notices->random) % (every / 4 + 1);
}

void sa_notices_init(struct sa_notices *notices, const struct sacache_attr *attr, uint16_t sm_lid,
		     const struct sa_notice_ops *ops, void *ctx, uint64_t now)
{
	memset(notices, 0, sizeof(*notices));
	notices->ops = ops;
	notices->ctx = ctx;
	notices->attr = *attr;
	if (attr->notices && attr->notices < LEAST_RENEWAL)
		notices->attr.notices = LEAST_RENEWAL;
	notices->sm_lid = sm_lid;
	notices->random = (attr->seed ? attr->seed : 1) ^ 0x6e6f7469636573;
	notices->counter = (uint32_t)sa_random(&notices->random);
	notices->renewal = SA_NEVER;
	if (attr->notices)
		sa_notices_subscribe(notices, now);
}

static void plan(struct sa_ask *ask, uint64_t when)
{
	ask->state = SA_ASK_DUE;
	ask->tries = 0;
	ask->deadline = when;
}

void sa_notices_subscribe(struct sa_notices *notices, uint64_t now)
{
	uint32_t quarter = notices->attr.notices / 4, spread = quarter < SPREAD ? quarter : SPREAD;
	uint64_t when = now + sa_random(&notices->random) % (spread + 1);

	if (!notices->attr.notices || notices->stopping)
		return;
	for (unsigned i = 0; i < SA_TRAPS; i++) {
		notices->traps[i].held = false;
		plan(&notices->traps[i], when);
	}
	/* After an absence the node may find another SM, which numbers its reports
	 * independently. */
	memset(notices->kept, 0, sizeof(notices->kept));
	plan(&notices->sm, when);
	plan_renewal(notices, now);
}

void sa_notices_new_sm(struct sa_notices *notices, uint16_t sm_lid, uint64_t now)
{
	notices->sm_lid = sm_lid;
	notices->sm_known = notices->sm_counted = false;
	sa_notices_subscribe(notices, now);
}

static void report_new_sm(struct sa_notices *notices)
{
	notices->ops->count(notices->ctx, SA_SM_RESTARTS);
	notices->ops->event(notices->ctx, SACACHE_NEW_SM, NULL, 0);
}

void sa_notices_expect_sm(struct sa_notices *notices, uint64_t guid)
{
	if (notices->sm_known && notices->sm_guid != guid) {
		report_new_sm(notices);
	} else {
		notices->sm_known = true;
		notices->sm_guid = guid;
	}
}

void sa_notices_doubt(struct sa_notices *notices, uint64_t now)
{
	if (!notices->attr.notices || notices->stopping || notices->sm.state != SA_ASK_IDLE ||
	    now - notices->checked < 8ull * notices->attr.response_timeout)
		return;
	plan(&notices->sm, now);
}

static void renew(struct sa_notices *notices, uint64_t now)
{
	plan_renewal(notices, now);
	for (unsigned i = 0; i < SA_TRAPS; i++)
		if (notices->traps[i].state == SA_ASK_IDLE)
			plan(&notices->traps[i], now);
	if (notices->sm.state == SA_ASK_IDLE)
		plan(&notices->sm, now);
}

bool sa_notices_stop(struct sa_notices *notices, uint64_t now)
{
	notices->stopping = true;
	notices->sm.state = SA_ASK_IDLE;
	notices->renewal = SA_NEVER;
	for (unsigned i = 0; i < SA_TRAPS; i++) {
		struct sa_ask *ask = &notices->traps[i];

		/* A request that was sent may have reached the SA, even if it was cancelled
		 * since. */
		if (ask->held || (ask->state != SA_ASK_IDLE && ask->tid))
			plan(ask, now);
		else
			ask->state = SA_ASK_IDLE;
	}
	return !sa_notices_stopped(notices);
}

bool sa_notices_stopped(const struct sa_notices *notices)
{
	for (unsigned i = 0; i < SA_TRAPS; i++)
		if (notices->traps[i].state != SA_ASK_IDLE)
			return false;
	return true;
}

/* 15.2.5.12: generic traps of that number, of any type, from any producer at any LID. */
static void encode_inform_info(uint8_t *info, uint16_t trap, bool subscribe)
{
	const uint32_t sa_qp = 1, response_time = 18; /* 4.096 µs << 18: a second */

	sa_put16(info + 16, 0xffff);
	info[22] = GENERIC;
	info[23] = subscribe;
	sa_put16(info + 24, 0xffff);
	sa_put16(info + 26, trap);
	/* The SA identifies a subscriber by the MAD's source, and one that unsubscribes also by
	 * this field (o13-12.1.1). */
	sa_put32(info + 28, (subscribe ? 0 : sa_qp) << 8 | response_time);
	sa_put32(info + 32, 0xffffff);
}

static void transmit(struct sa_notices *notices, struct sa_ask *ask, uint64_t now)
{
	uint8_t data[SA_MAD_DATA_SIZE] = {0}, buf[SA_MAD_SIZE];
	struct sa_mad mad = {.data = data};
	unsigned doublings = ask->tries < MAX_DOUBLINGS ? ask->tries : MAX_DOUBLINGS;
	uint64_t wait = (uint64_t)notices->attr.response_timeout << doublings;

	if (!ask->tries)
		ask->tid = notices->counter++ | SA_TID_NOTICES;
	mad.tid = ask->tid;
	if (ask == &notices->sm) {
		mad.method = SA_GET;
		mad.attribute = SA_ATTR_SM_INFO_RECORD;
		mad.comp_mask = 1; /* by its LID: there may be standby SMs */
		sa_put16(data, notices->sm_lid);
		notices->checked = now;
	} else {
		mad.method = SA_SET;
		mad.attribute = SA_ATTR_INFORM_INFO;
		encode_inform_info(data, traps[ask - notices->traps], !notices->stopping);
	}
	sa_mad_encode(&mad, buf);
	ask->state = SA_ASK_SENT;
	ask->tries++;
	wait += sa_random(&notices->random) % (wait / 2 + 1);
	ask->deadline = now + wait;
	notices->ops->send(notices->ctx, buf, wait);
}

/* After too many tries the next renewal tries again. */
static uint64_t run_ask(struct sa_notices *notices, struct sa_ask *ask, uint64_t now)
{
	if (ask->state != SA_ASK_IDLE && ask->deadline <= now) {
		if (ask->tries > notices->attr.retries)
			ask->state = SA_ASK_IDLE;
		else
			transmit(notices, ask, now);
	}
	return ask->state == SA_ASK_IDLE ? SA_NEVER : ask->deadline;
}

uint64_t sa_notices_run(struct sa_notices *notices, uint64_t now)
{
	uint64_t next, when;

	if (notices->renewal <= now)
		renew(notices, now);
	next = run_ask(notices, &notices->sm, now);
	for (unsigned i = 0; i < SA_TRAPS; i++) {
		when = run_ask(notices, &notices->traps[i], now);
		if (when < next)
			next = when;
	}
	return notices->renewal < next ? notices->renewal : next;
}

/* An SA that does not answer this query still gets the subscriptions at each renewal. */
static void receive_sm(struct sa_notices *notices, const struct sa_mad *mad, uint64_t now)
{
	uint64_t guid = sa_get64(mad->data + 4);
	uint32_t act_count = sa_get32(mad->data + 20);

	notices->sm.state = SA_ASK_IDLE;
	if (mad->status || sa_get16(mad->data) != notices->sm_lid)
		return;
	if ((notices->sm_known && guid != notices->sm_guid) ||
	    (notices->sm_counted && (int32_t)(act_count - notices->sm_act_count) < 0)) {
		sa_notices_subscribe(notices, now);
		report_new_sm(notices);
	}
	notices->sm_known = notices->sm_counted = true;
	notices->sm_guid = guid;
	notices->sm_act_count = act_count;
}

static void receive_trap(struct sa_notices *notices, struct sa_ask *ask, const struct sa_mad *mad)
{
	const uint8_t *info = mad->data;

	/* The response to another request, or to a cancelled one. */
	if (!mad->status && (sa_get16(info + 26) != traps[ask - notices->traps] ||
			     (info[23] & 1) == notices->stopping)) {
		notices->ops->count(notices->ctx, SA_MALFORMED);
		return;
	}
	ask->state = SA_ASK_IDLE;
	ask->held = !mad->status && !notices->stopping;
	if (!notices->stopping)
		notices->ops->count(notices->ctx, mad->status ? SA_REFUSED : SA_SUBSCRIBED);
}

static void receive_answer(struct sa_notices *notices, const struct sa_mad *mad, uint64_t now)
{
	bool about_trap = mad->attribute == SA_ATTR_INFORM_INFO;
	struct sa_ask *ask = about_trap ? NULL : &notices->sm;

	for (unsigned i = 0; about_trap && i < SA_TRAPS; i++)
		if (notices->traps[i].tid == (uint32_t)mad->tid)
			ask = &notices->traps[i];
	if (!ask || ask->state != SA_ASK_SENT || ask->tid != (uint32_t)mad->tid) {
		notices->ops->count(notices->ctx, SA_STRAYS);
		return;
	}
	/* Sent again at its timeout. */
	if (sa_mad_status(mad->status) == -EBUSY) {
		notices->ops->count(notices->ctx, SA_BUSY);
		return;
	}
	if (about_trap)
		receive_trap(notices, ask, mad);
	else
		receive_sm(notices, mad, now);
}

static bool repeated(struct sa_notices *notices, const struct sa_mad *mad, uint64_t now)
{
	struct sa_report *report = notices->kept;

	for (unsigned i = 0; i < SA_REPORTS_KEPT; i++, report++)
		if (report->when && now - report->when < REPEATED && report->tid == mad->tid &&
		    !memcmp(report->notice, mad->data, SA_NOTICE_SIZE))
			return true;
	report = &notices->kept[notices->reports++ % SA_REPORTS_KEPT];
	report->when = now;
	report->tid = mad->tid;
	memcpy(report->notice, mad->data, SA_NOTICE_SIZE);
	return false;
}

static void take_notice(struct sa_notices *notices, const uint8_t *notice)
{
	static const uint8_t zero[16];
	const uint8_t *gid = notice + 16, *issuer = notice + 64;
	uint16_t lid = sa_get16(notice + 6);

	switch (notice[0] & 0x80 ? sa_get16(notice + 4) : 0) {
	case TRAP_GID_IN:
		notices->ops->count(notices->ctx, SA_NOTICES_GID_IN);
		notices->ops->event(notices->ctx, SACACHE_GID_IN, gid, 0);
		break;
	case TRAP_GID_OUT:
		notices->ops->count(notices->ctx, SA_NOTICES_GID_OUT);
		notices->ops->event(notices->ctx, SACACHE_GID_OUT, gid, 0);
		break;
	case TRAP_LINK:
		notices->ops->count(notices->ctx, SA_NOTICES_LINK);
		notices->ops->event(notices->ctx, SACACHE_LINK_CHANGE, NULL, 0);
		break;
	case TRAP_LOCAL_CHANGE:
		if (lid && memcmp(issuer, zero, 16) != 0)
			notices->ops->event(notices->ctx, SACACHE_LID_CHANGE, issuer, lid);
		/* fall through */
	default: notices->ops->count(notices->ctx, SA_NOTICES_OTHER); break;
	}
}

/* A unicast GID, where one is required. */
static bool notice_valid(const uint8_t *notice)
{
	static const uint8_t zero[16];
	uint16_t trap = sa_get16(notice + 4);

	if (!(notice[0] & 0x80) || (trap != TRAP_GID_IN && trap != TRAP_GID_OUT))
		return true;
	return memcmp(notice + 16, zero, 16) != 0 && notice[16] != 0xff;
}

/* 13.4.11: the response is the report with its method changed. */
static void receive_report(struct sa_notices *notices, const uint8_t *buf, const struct sa_mad *mad,
			   uint64_t now)
{
	uint8_t response[SA_MAD_SIZE];

	if (mad->status || mad->rmpp_flags & SA_RMPP_ACTIVE || !notice_valid(mad->data)) {
		notices->ops->count(notices->ctx, SA_NOTICES_MALFORMED);
		return;
	}
	memcpy(response, buf, SA_MAD_SIZE);
	response[3] = SA_REPORT_RESP;
	notices->ops->send(notices->ctx, response, 0);
	if (repeated(notices, mad, now))
		notices->ops->count(notices->ctx, SA_NOTICES_REPEATED);
	else
		take_notice(notices, mad->data);
}

bool sa_notices_receive(struct sa_notices *notices, const uint8_t *buf, size_t length, bool from_sa,
			uint64_t now)
{
	struct sa_mad mad;

	if (sa_mad_decode(buf, length, &mad))
		return false;
	switch (mad.attribute) {
	case SA_ATTR_NOTICE:
		if (mad.method != SA_REPORT)
			notices->ops->count(notices->ctx, SA_NOTICES_MALFORMED);
		else if (!from_sa)
			notices->ops->count(notices->ctx, SA_NOTICES_FORGED);
		else
			receive_report(notices, buf, &mad, now);
		return true;
	case SA_ATTR_INFORM_INFO:
	case SA_ATTR_SM_INFO_RECORD:
		if (!from_sa)
			notices->ops->count(notices->ctx, SA_FOREIGN);
		else if (mad.method != SA_GET_RESP || mad.rmpp_flags & SA_RMPP_ACTIVE)
			notices->ops->count(notices->ctx, SA_MALFORMED);
		else
			receive_answer(notices, &mad, now);
		return true;
	default: return false;
	}
}
