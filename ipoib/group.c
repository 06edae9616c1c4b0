// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Groups: the broadcast group, whose parameters all others take over (RFC 4391, 5 and 6); those
 * that the host is in, which are followed (kernel_each_group()); and those that it only sends to,
 * which are joined as SendOnlyNonMember with the first packet (RFC 4391, 10). Where nobody has made
 * such a group its packets are dropped, and the subnet administrator is asked again after a while.
 *
 *	ABSENT ──wanted──► JOINING ──► JOINED		packets wait while JOINING
 *	   ▲                  │ refused
 *	   └───── 10 s ───────┘
 *
 * The loop's thread.
 */
#include <endian.h>
#include <errno.h>
#include <infiniband/umad_sa_mcm.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/common/clock.h"
#include "daemons/common/log.h"
#include "ipoib/ipoib.h"

#define MAX_GROUPS   1024
#define MAX_WAITING  16
#define REFUSED_MS   10000 /* until the subnet administrator is asked again */
#define RENEW_S	     60
#define GROUP_QPN    0xffffff
#define SELECT_EQUAL 2 /* of MTU and rate (15.2.5.17) */

enum group_state { ABSENT, JOINING, JOINED };

struct group {
	struct group *next;
	struct ipoib *ib;
	uint8_t mgid[16];
	bool wanted; /* the host is in it, or it is the broadcast group */
	bool marked; /* seen in the last look */
	bool member; /* joined as a full member, and attached */
	bool again;  /* what was asked for has changed while it was asked for */
	enum group_state state;
	uint8_t join_states; /* that the subnet administrator may have */
	uint64_t refused_ms; /* when */
	uint16_t mlid;
	struct ipoib_way way;
	unsigned waiting;
	struct ipoib_packet *first, **last;
};

struct ipoib_groups {
	struct group *first; /* the broadcast group is the first one */
	unsigned count;
	bool started;
	struct umad_sa_mcmember_record broadcast; /* as the SA answered */
	struct event *renew;
};

static void joined(struct ipoib *ib, void *arg, int error,
		   const struct umad_sa_mcmember_record *record);

static struct group *find(const struct ipoib *ib, const uint8_t mgid[16])
{
	struct group *g = ib->groups->first;

	while (g && memcmp(g->mgid, mgid, 16))
		g = g->next;
	return g;
}

static struct group *create(struct ipoib *ib, const uint8_t mgid[16])
{
	struct group *g, **end = &ib->groups->first;

	if (ib->groups->count == MAX_GROUPS || !(g = calloc(1, sizeof(*g)))) {
		ib->stats.drop_table++;
		return NULL;
	}
	g->ib = ib;
	memcpy(g->mgid, mgid, 16);
	g->last = &g->first;
	while (*end)
		end = &(*end)->next;
	*end = g;
	ib->groups->count++;
	return g;
}

static void empty(struct group *g, bool send)
{
	struct ipoib_packet *packet;

	while ((packet = g->first)) {
		g->first = packet->next;
		if (send) {
			queue_send(g->ib, packet, &g->way, GROUP_QPN);
		} else {
			g->ib->stats.drop_no_group++;
			queue_free(g->ib, packet);
		}
	}
	g->last = &g->first;
	g->waiting = 0;
}

static bool is_broadcast(const struct group *g)
{
	return g == g->ib->groups->first;
}

static void fill(const struct group *g, struct umad_sa_mcmember_record *r)
{
	memset(r, 0, sizeof(*r));
	memcpy(r->mgid, g->mgid, 16);
	memcpy(r->portgid, &g->ib->gid, 16);
	r->pkey = htobe16(g->ib->pkey);
	r->scope_state = g->wanted ? UMAD_SA_MCM_JOIN_STATE_FULL_MEMBER
				   : UMAD_SA_MCM_JOIN_STATE_SEND_ONLY_NON_MEMBER;
}

/* A group that is not there yet is made with the parameters of the broadcast group. */
static void join(struct group *g)
{
	const struct umad_sa_mcmember_record *broadcast = &g->ib->groups->broadcast;
	uint64_t mask = UMAD_SA_MCM_COMP_MASK_MGID | UMAD_SA_MCM_COMP_MASK_PORT_GID |
			UMAD_SA_MCM_COMP_MASK_PKEY | UMAD_SA_MCM_COMP_MASK_JOIN_STATE;
	struct umad_sa_mcmember_record record;
	int ret;

	if (g->state == JOINING) {
		g->again = true;
		return;
	}
	fill(g, &record);
	if (!is_broadcast(g) && g->wanted) {
		record.qkey = broadcast->qkey;
		record.mtu = SELECT_EQUAL << 6 | (broadcast->mtu & 0x3f);
		record.tclass = broadcast->tclass;
		record.rate = SELECT_EQUAL << 6 | (broadcast->rate & 0x3f);
		record.sl_flow_hop = broadcast->sl_flow_hop;
		mask |= UMAD_SA_MCM_COMP_MASK_QKEY | UMAD_SA_MCM_COMP_MASK_MTU_SEL |
			UMAD_SA_MCM_COMP_MASK_MTU | UMAD_SA_MCM_COMP_MASK_TCLASS |
			UMAD_SA_MCM_COMP_MASK_RATE_SEL | UMAD_SA_MCM_COMP_MASK_RATE |
			UMAD_SA_MCM_COMP_MASK_SL | UMAD_SA_MCM_COMP_MASK_FLOW_LABEL |
			UMAD_SA_MCM_COMP_MASK_HOP_LIMIT;
	}
	g->again = false;
	g->join_states |= record.scope_state;
	g->ib->stats.joins++;
	ret = sa_join(g->ib, &record, mask, joined, g);
	if (!ret)
		g->state = JOINING;
	else
		joined(g->ib, g, ret, NULL);
}

static void detach(struct group *g)
{
	if (g->member)
		queue_detach(g->ib, g->mgid, g->mlid);
	g->member = false;
}

/* Where packets for it go, as the SA says. */
static int take(struct group *g, const struct umad_sa_mcmember_record *r)
{
	struct ibv_ah_attr attr = {.port_num = (uint8_t)g->ib->options.port, .is_global = 1};
	uint32_t flow;
	uint8_t sl, hops;
	uint16_t mlid = be16toh(r->mlid);
	int ret;

	umad_sa_mcm_get_sl_flow_hop(r->sl_flow_hop, &sl, &flow, &hops);
	attr.dlid = mlid;
	attr.sl = sl;
	attr.static_rate = r->rate & 0x3f;
	memcpy(&attr.grh.dgid, g->mgid, 16);
	attr.grh.flow_label = flow;
	attr.grh.hop_limit = hops;
	attr.grh.traffic_class = r->tclass;
	ret = queue_set_way(g->ib, &g->way, &attr);
	if (ret)
		return ret;
	if (g->member && g->mlid != mlid)
		detach(g);
	g->mlid = mlid;
	if (!g->wanted || g->member)
		return 0;
	ret = queue_attach(g->ib, g->mgid, mlid);
	g->member = !ret;
	return ret;
}

static void joined(struct ipoib *ib, void *arg, int error,
		   const struct umad_sa_mcmember_record *record)
{
	struct group *g = arg;
	bool again = g->again;

	g->state = g->way.ah ? JOINED : ABSENT;
	if (!error && is_broadcast(g)) {
		unsigned mtu = record->mtu & 0x3f;

		error = mtu >= 1 && mtu <= 5 ? 0 : -EPROTO;
		if (!error)
			ib->groups->broadcast = *record;
		if (!error)
			error = queue_set_qkey(ib, be32toh(record->qkey));
	}
	if (!error)
		error = take(g, record);
	if (!error) {
		g->state = JOINED;
		empty(g, true);
	} else {
		ib->stats.joins_failed++;
		g->refused_ms = clock_ms();
		if (g->state == ABSENT)
			empty(g, false);
		/* The subnet administrator does not know the group any more. */
		if (error == -ENOENT) {
			detach(g);
			queue_drop_way(g->ib, &g->way);
			g->state = ABSENT;
			g->join_states = 0;
		}
	}
	if (is_broadcast(g))
		port_joined(ib, g->state == JOINED ? 0 : error ?: -EAGAIN,
			    128u << (ib->groups->broadcast.mtu & 0x3f));
	if (again && ib->groups->started)
		join(g);
	queue_flush(ib);
}

/* Neither in it nor known of any more. */
static void remove_group(struct group *g)
{
	struct group **p = &g->ib->groups->first;

	while (*p != g)
		p = &(*p)->next;
	*p = g->next;
	g->ib->groups->count--;
	sa_forget(g->ib, g);
	empty(g, false);
	detach(g);
	queue_drop_way(g->ib, &g->way);
	free(g);
}

static void leave(struct group *g)
{
	struct umad_sa_mcmember_record record;

	fill(g, &record);
	record.scope_state = g->join_states;
	if (g->join_states)
		sa_leave(g->ib, &record);
	remove_group(g);
}

static void want_mgid(struct ipoib *ib, const uint8_t mgid[16])
{
	struct group *g = find(ib, mgid);

	if (!g)
		g = create(ib, mgid);
	if (!g)
		return;
	g->marked = true;
	/* A join for sending may have succeeded, and the full one failed. */
	if (g->wanted && (g->member || g->state == JOINING ||
			  (g->refused_ms && clock_ms() - g->refused_ms < REFUSED_MS)))
		return;
	g->wanted = true;
	join(g);
}

static void want(struct ipoib *ib, const struct in6_addr *ip)
{
	uint8_t mgid[16];

	ipoib_mgid(ip, ib->pkey, IPOIB_SCOPE_LINK, mgid);
	want_mgid(ib, mgid);
}

static void want_solicited(struct ipoib *ib, const struct in6_addr *ip)
{
	struct in6_addr group;

	if (ipoib_is_ipv4(ip))
		return;
	ipoib_solicited_node(ip, &group);
	want(ib, &group);
}

void groups_follow(struct ipoib *ib)
{
	const struct in6_addr hosts = {.s6_addr = {[10] = 0xff, 0xff, 224, 0, 0, 1}};
	const struct in6_addr nodes = {.s6_addr = {0xff, 0x02, [15] = 1}};
	struct group *g, *next;

	if (!ib->groups->started || ib->groups->first->state != JOINED)
		return;
	for (g = ib->groups->first; g; g = g->next)
		g->marked = is_broadcast(g);
	want(ib, &hosts);
	want(ib, &nodes);
	kernel_each_address(ib, want_solicited);
	kernel_each_group(ib, want);
	for (g = ib->groups->first; g; g = next) {
		next = g->next;
		if (g->wanted && !g->marked)
			leave(g);
	}
}

void groups_start(struct ipoib *ib)
{
	const struct in6_addr all = {.s6_addr = {[10] = 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};
	uint8_t mgid[16];

	if (!ib->groups->started) {
		ipoib_mgid(&all, ib->pkey, IPOIB_SCOPE_LINK, mgid);
		if (!create(ib, mgid)) {
			port_joined(ib, -ENOMEM, 0);
			return;
		}
		ib->groups->started = true;
		ib->groups->first->wanted = true;
	}
	join(ib->groups->first);
}

void groups_stop(struct ipoib *ib)
{
	if (!ib->groups)
		return;
	while (ib->groups->first)
		remove_group(ib->groups->first);
	ib->groups->started = false;
}

void groups_renew(struct ipoib *ib)
{
	struct group *g, *next;

	for (g = ib->groups->first; ib->groups->started && g; g = next) {
		next = g->next;
		if (g->wanted)
			join(g);
		else
			remove_group(g); /* the next packet joins it */
	}
}

/* Another program of the port may have left a group that is ours, too; one that was refused may be
 * there now. */
static void on_renew(evutil_socket_t fd, short what, void *arg)
{
	groups_renew(arg);
}

void group_send(struct ipoib *ib, const struct in6_addr *ip, struct ipoib_packet *packet)
{
	uint8_t mgid[16];
	struct group *g;

	ipoib_mgid(ip, ib->pkey, IPOIB_SCOPE_LINK, mgid);
	g = find(ib, mgid);
	if (!g)
		g = create(ib, mgid);
	if (!g) {
		queue_free(ib, packet);
		return;
	}
	if (g->way.ah) {
		queue_send(ib, packet, &g->way, GROUP_QPN);
		return;
	}
	if (g->waiting == MAX_WAITING || queue_is_scarce(ib) ||
	    (g->state == ABSENT && g->refused_ms && clock_ms() - g->refused_ms < REFUSED_MS)) {
		ib->stats.drop_no_group++;
		queue_free(ib, packet);
		return;
	}
	packet->next = NULL;
	*g->last = packet;
	g->last = &packet->next;
	g->waiting++;
	if (g->state == ABSENT)
		join(g);
}

void groups_each(const struct ipoib *ib, void (*fn)(void *arg, const struct group_info *group),
		 void *arg)
{
	for (const struct group *g = ib->groups->first; g; g = g->next) {
		struct group_info info = {
			.member = g->wanted, .joined = g->state == JOINED, .mlid = g->mlid};

		memcpy(info.mgid, g->mgid, 16);
		fn(arg, &info);
	}
}

int groups_create(struct ipoib *ib)
{
	const struct timeval period = {.tv_sec = RENEW_S};

	ib->groups = calloc(1, sizeof(*ib->groups));
	if (!ib->groups)
		return ipoib_fail(ib, ENOMEM);
	ib->groups->renew = event_new(ib->loop.base, -1, EV_PERSIST, on_renew, ib);
	if (!ib->groups->renew || event_add(ib->groups->renew, &period))
		return ipoib_fail(ib, ENOMEM);
	return 0;
}

void groups_destroy(struct ipoib *ib)
{
	if (!ib->groups)
		return;
	for (struct group *g = ib->groups->first, *next; g; g = next) {
		next = g->next;
		leave(g);
	}
	if (ib->groups->renew)
		event_free(ib->groups->renew);
	free(ib->groups);
	ib->groups = NULL;
}
