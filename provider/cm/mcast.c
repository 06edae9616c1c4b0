/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Multicast memberships of rdma_cm ids (rdma_join_multicast(3)). RoCE has no subnet manager to ask:
 * the group's MGID is its IP address, as a GID; joining is the kernel's affair (IGMP, MLD), and
 * the event with the address vector follows at once. Under the engine lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/id.h"
#include "cm/kernel.h"
#include "hca/adapter.h"

#define HOP_LIMIT 64
#define MLID	  0xc000 /* of multicast, without a meaning on RoCE */
#define ANY_QPN	  0xffffff

static bool is_multicast(const union ibv_gid *gid)
{
	const struct in6_addr *addr = (const struct in6_addr *)gid;

	if (IN6_IS_ADDR_V4MAPPED(addr))
		return (gid->raw[12] & 0xf0) == 0xe0;
	return IN6_IS_ADDR_MULTICAST(addr);
}

static void report(struct urxe_id_mcast *mcast, const union ibv_gid *mgid)
{
	struct urxe_id *id = mcast->id;
	struct urxe_id_event *event = urxe_id_event_new(id, URXE_EVENT_MULTICAST_JOIN, 0);
	struct rdma_ucm_ud_param *ud;
	int ret;

	if (!event)
		return;
	event->mcast = mcast;
	event->resp.uid = mcast->uid;
	event->resp.id = mcast->handle;
	ud = &event->resp.param.ud;
	ret = urxe_id_ah_attr(id, mgid, 0, HOP_LIMIT, 0, &ud->ah_attr);
	if (ret) {
		event->resp.event = URXE_EVENT_MULTICAST_ERROR;
		event->resp.status = ret;
	} else {
		ud->ah_attr.dlid = MLID;
		ud->qp_num = ANY_QPN;
		ud->qkey = id->qkey;
	}
	urxe_id_event_push(event);
}

static const struct urxe_link_addr *group_of(const struct urxe_id *id, const union ibv_gid *mgid,
					     struct urxe_link_addr *group)
{
	urxe_link_of_port(id->port)->group(group, mgid);
	return group;
}

int urxe_id_join(struct urxe_id *id, const union urxe_sockaddr *addr, uint64_t uid, bool send_only,
		 struct urxe_id_mcast **out)
{
	struct urxe_id_mcast *mcast;
	struct urxe_link_addr group;
	union ibv_gid mgid;
	int ret;

	if (!id->port || id->qp_type != IBV_QPT_UD ||
	    (id->state != URXE_ID_ADDR_BOUND && id->state != URXE_ID_ADDR_RESOLVED))
		return -EINVAL;
	urxe_sockaddr_gid(addr, &mgid);
	if (!is_multicast(&mgid))
		return -EINVAL;
	mcast = calloc(1, sizeof(*mcast));
	if (!mcast)
		return -ENOMEM;
	ret = urxe_handle_new(URXE_HANDLE_MCAST, mcast, &mcast->handle);
	if (ret)
		goto err_mcast;
	if (!send_only)
		ret = urxe_adapter_join(id->port, group_of(id, &mgid, &group));
	if (ret)
		goto err_handle;
	mcast->joined = !send_only;
	mcast->id = id;
	mcast->uid = uid;
	mcast->addr = *addr;
	cds_list_add(&mcast->node, &id->mcasts);
	if (!id->qkey)
		urxe_id_default_qkey(id);
	report(mcast, &mgid);
	*out = mcast;
	return 0;

err_handle:
	urxe_handle_free(mcast->handle);
err_mcast:
	free(mcast);
	return ret;
}

void urxe_id_stop(struct urxe_id_mcast *mcast)
{
	struct urxe_link_addr group;
	union ibv_gid mgid;

	urxe_sockaddr_gid(&mcast->addr, &mgid);
	if (mcast->joined)
		urxe_adapter_leave(mcast->id->port, group_of(mcast->id, &mgid, &group));
	mcast->joined = false;
}

uint32_t urxe_id_leave(struct urxe_id_mcast *mcast)
{
	uint32_t reported = mcast->events_reported;
	struct urxe_id_event *event, *next;

	urxe_id_stop(mcast);
	cds_list_for_each_entry_safe (event, next, &mcast->id->events, id_node)
		if (event->mcast == mcast)
			urxe_id_event_drop(event);
	urxe_twin_drop(&mcast->twin);
	cds_list_del(&mcast->node);
	urxe_handle_free(mcast->handle);
	free(mcast);
	return reported;
}
