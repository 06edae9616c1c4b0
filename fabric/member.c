// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Members of multicast groups (member.h): a list of joins, each of an agent at a port, with the MAD
 * that asked for it, which says how to leave. Where that has no MGID, the answer says which group
 * the subnet administrator has made; if the process ends before that, its agent waits for the
 * answer in its place, as the kernel does. Programs that write such MADs to their umad files are
 * not counted, as in the kernel. fabricd's thread.
 */
#include "fabric/member.h"

#include <stdlib.h>

#include "fabric/fabric.h"

#define MASK_LEAVE 0x10003ull /* MGID, PortGID, JoinState (15.2.5.17) */

#define MOST_WAITING 1024 /* joins of processes that have ended */

struct member {
	struct member *next;
	struct agent *agent;
	bool over; /* its process had ended, and now it has its answer */
	_Alignas(8) uint8_t umad[FABRIC_INLINE]; /* SubnAdmSet(MCMemberRecord) */
};

static const uint8_t *record_of(const uint8_t *umad)
{
	return umad + FABRIC_UMAD_HDR + SA_DATA;
}

static bool same_group(const uint8_t *a, const uint8_t *b)
{
	const uint8_t *x = record_of(a), *y = record_of(b);

	return !memcmp(x, y, MCM_PORT_GID + 16) && lo4(x[MCM_JOIN_STATE]) == lo4(y[MCM_JOIN_STATE]);
}

static bool names_group(const uint8_t *umad)
{
	static const uint8_t none[16];

	return memcmp(record_of(umad) + MCM_MGID, none, sizeof(none));
}

static struct member **find(struct fabric *f, const struct agent *agent, const uint8_t *umad)
{
	struct member **at = &f->members;

	while (*at && ((*at)->agent != agent || !same_group((*at)->umad, umad)))
		at = &(*at)->next;
	return at;
}

static bool has_others(struct fabric *f, const uint8_t *umad)
{
	for (const struct member *m = f->members; m; m = m->next)
		if (!m->over && same_group(m->umad, umad))
			return true;
	return false;
}

static void join(struct fabric *f, struct agent *agent, const uint8_t *umad)
{
	struct member *m = malloc(sizeof(*m));

	if (!m)
		return;
	m->agent = agent;
	m->over = false;
	memcpy(m->umad, umad, sizeof(m->umad));
	put32(m->umad + FABRIC_UMAD_HDR + MAD_TID, agent->tid);
	m->next = f->members;
	f->members = m;
}

static void drop(struct member **at)
{
	struct member *m = *at;

	*at = m->next;
	free(m);
}

static bool leave(struct fabric *f, const struct agent *agent, const uint8_t *umad)
{
	struct member **at = find(f, agent, umad);

	if (*at)
		drop(at);
	return !has_others(f, umad);
}

bool member_sends(struct fabric *f, struct agent *agent, const uint8_t *umad)
{
	const uint8_t *mad = umad + FABRIC_UMAD_HDR;

	if (mad[MAD_CLASS] != CLASS_SA || get16(mad + MAD_ATTR) != ATTR_MCMEMBER_RECORD)
		return true;
	if (mad[MAD_METHOD] == METHOD_SET)
		join(f, agent, umad);
	return mad[MAD_METHOD] != METHOD_DELETE || leave(f, agent, umad);
}

/* The MAD that joined, made into the one that leaves. Nobody waits for the answer. */
static void send_leave(struct fabric *f, const struct agent *agent, const uint8_t *umad)
{
	struct packet *p = fabric_send_room(f);

	host_packet(f, agent, umad, p);
	memcpy(p->mad, umad + FABRIC_UMAD_HDR, MAD_LEN);
	p->mad[MAD_METHOD] = METHOD_DELETE;
	put64(p->mad + SA_COMP_MASK, MASK_LEAVE);
	fabric_send_done(f);
}

/* Leaves the group, if that was the last join. */
static void end(struct fabric *f, struct member **at)
{
	struct member m = **at;

	drop(at);
	if (names_group(m.umad) && !has_others(f, m.umad))
		send_leave(f, m.agent, m.umad);
}

/* ---- answers ---- */

/* The join that had that transaction ID, in its request and in the answer. */
static struct member **asked(struct fabric *f, const uint8_t *mad)
{
	struct member **at = &f->members;

	while (*at && ((*at)->over ||
		       get64((*at)->umad + FABRIC_UMAD_HDR + MAD_TID) != get64(mad + MAD_TID)))
		at = &(*at)->next;
	return at;
}

/* The process is not there any more: its port leaves what it has joined. */
static void answered_late(struct fabric *f, struct member *m)
{
	m->over = true;
	f->members_over = true;
	if (names_group(m->umad) && !has_others(f, m->umad))
		send_leave(f, m->agent, m->umad);
}

void member_answered(struct fabric *f, uint32_t error, const uint8_t *mad)
{
	struct member **at, *m;

	if (mad[MAD_CLASS] != CLASS_SA || get16(mad + MAD_ATTR) != ATTR_MCMEMBER_RECORD ||
	    mad[MAD_METHOD] != (error ? METHOD_SET : METHOD_GET_RESP))
		return;
	at = asked(f, mad);
	m = *at;
	if (!m)
		return;
	if (!error && !get16(mad + MAD_STATUS) && !names_group(m->umad))
		memcpy(m->umad + FABRIC_UMAD_HDR + SA_DATA + MCM_MGID, mad + SA_DATA + MCM_MGID,
		       16);
	if (!m->agent->file)
		answered_late(f, m);
	else if (error)
		end(f, at); /* it may be the answer that was lost */
	else if (get16(mad + MAD_STATUS))
		drop(at);
}

/* ---- the end of processes ---- */

static bool awaits_answer(struct fabric *f, const struct member *m)
{
	return !names_group(m->umad) && f->members_waiting < MOST_WAITING &&
	       host_send_find(&f->mads, m->agent, m->umad + FABRIC_UMAD_HDR);
}

void member_end(struct fabric *f, struct agent *agent)
{
	struct member **at = &f->members;
	unsigned before = f->members_waiting;

	while (*at) {
		if ((*at)->agent == agent && !awaits_answer(f, *at)) {
			end(f, at);
			continue;
		}
		f->members_waiting += (*at)->agent == agent;
		at = &(*at)->next;
	}
	agent->file = NULL;
	memset(agent->methods, 0, sizeof(agent->methods));
	if (f->members_waiting == before)
		host_unregister(&f->mads, agent);
}

static bool has_members(const struct fabric *f, const struct agent *agent)
{
	const struct member *m = f->members;

	while (m && m->agent != agent)
		m = m->next;
	return m;
}

void member_reap(struct fabric *f)
{
	struct member **at = &f->members;

	f->members_over = false;
	while (*at) {
		struct agent *agent = (*at)->agent;

		if (!(*at)->over) {
			at = &(*at)->next;
			continue;
		}
		drop(at);
		f->members_waiting--;
		if (!has_members(f, agent))
			host_unregister(&f->mads, agent);
	}
}

void member_forget(struct fabric *f)
{
	for (struct member *m = f->members; m; m = m->next)
		m->over = true;
	member_reap(f);
}
