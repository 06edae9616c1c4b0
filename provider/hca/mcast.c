/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Attaching UD QPs to multicast groups (IBTA vol. 1, 10.5). Under the engine lock. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hca/engine.h"
#include "hca/mcast.h"

struct cds_list_head *urxe_mcast_bucket(const struct urxe_link_addr *group)
{
	uint64_t h = (group->word[0] ^ group->word[1]) * 0x9e3779b97f4a7c15ull;

	return &urxe_hca.mcast[h >> 58];
}

static struct urxe_mcast *find(struct urxe_qp *qp, const union ibv_gid *gid)
{
	struct urxe_mcast *member;
	struct urxe_link_addr group;

	urxe_link_of_port(qp->port)->group(&group, gid);
	cds_list_for_each_entry (member, &qp->mcast, qp_node)
		if (urxe_same_addr(&member->group, &group))
			return member;
	return NULL;
}

/* Is a QP in this group, through the same port? */
static bool has_members(const struct urxe_port *port, const struct urxe_link_addr *group)
{
	const struct urxe_mcast *member;

	cds_list_for_each_entry (member, urxe_mcast_bucket(group), node)
		if (member->qp->port == port && urxe_same_addr(&member->group, group))
			return true;
	return false;
}

/* Joins, within what query_device promises. */
static int join(struct urxe_port *port, const struct urxe_link_addr *group)
{
	bool first = !has_members(port, group);
	int ret;

	if (urxe_hca.mcast_members >= URXE_MAX_QP ||
	    (first && urxe_hca.mcast_groups >= URXE_MAX_MCAST_GRP))
		return ENOMEM;
	ret = -urxe_wire_mcast_join(urxe_hca.wire, port, group);
	if (!ret) {
		urxe_hca.mcast_members++;
		urxe_hca.mcast_groups += first;
	}
	return ret;
}

static bool is_multicast(const union ibv_gid *gid)
{
	const struct in6_addr *addr = (const struct in6_addr *)gid;

	if (IN6_IS_ADDR_V4MAPPED(addr))
		return (addr->s6_addr[12] & 0xf0) == 0xe0;
	return addr->s6_addr[0] == 0xff;
}

int urxe_attach_mcast(struct ibv_qp *ibv, const union ibv_gid *gid, uint16_t lid)
{
	struct urxe_qp *qp = to_qp(ibv);
	struct urxe_mcast *member;
	int ret = 0;

	if (urxe_inherited(qp->forks))
		return EIO;
	if (!qp->transport->addressed || !gid || !is_multicast(gid))
		return EINVAL;
	urxe_engine_lock();
	if (find(qp, gid))
		goto out; /* attached already: the verb says nothing happens */
	member = calloc(1, sizeof(*member));
	if (!member) {
		ret = ENOMEM;
		goto out;
	}
	urxe_link_of_port(qp->port)->group(&member->group, gid);
	ret = join(qp->port, &member->group);
	if (ret) {
		free(member);
		goto out;
	}
	member->qp = qp;
	cds_list_add(&member->node, urxe_mcast_bucket(&member->group));
	cds_list_add(&member->qp_node, &qp->mcast);
out:
	urxe_engine_unlock();
	return ret;
}

static void detach(struct urxe_mcast *member)
{
	cds_list_del(&member->node);
	cds_list_del(&member->qp_node);
	urxe_wire_mcast_leave(urxe_hca.wire, member->qp->port, &member->group);
	urxe_hca.mcast_members--;
	urxe_hca.mcast_groups -= !has_members(member->qp->port, &member->group);
	free(member);
}

int urxe_detach_mcast(struct ibv_qp *ibv, const union ibv_gid *gid, uint16_t lid)
{
	struct urxe_mcast *member;

	if (urxe_inherited(to_qp(ibv)->forks))
		return EIO;
	if (!gid)
		return EINVAL;
	urxe_engine_lock();
	member = find(to_qp(ibv), gid);
	if (member)
		detach(member);
	urxe_engine_unlock();
	return member ? 0 : EINVAL;
}

void urxe_mcast_detach_all(struct urxe_qp *qp)
{
	struct urxe_mcast *member, *next;

	cds_list_for_each_entry_safe (member, next, &qp->mcast, qp_node)
		detach(member);
}
