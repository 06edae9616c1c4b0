/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Multicast memberships of rdma_cm ids (rdma_join_multicast(3)). Where there is a subnet
 * administrator it is asked (sa.c), and its answer says by which LID and SL packets go. RoCE has
 * none: the group's MGID is its IP address, as a GID; joining is the kernel's affair (IGMP, MLD),
 * and the event with the address vector follows at once. Under the engine lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/id.h"
#include "cm/kernel.h"
#include "cm/sa.h"
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

/* The event that ends a join, or a membership; error 0: it begins, and record says where packets
 * go. */
static void report(struct urxe_id_mcast *mcast, const struct ibv_path_record *record, int error)
{
	struct urxe_id *id = mcast->id;
	struct urxe_id_event *event = urxe_id_event_new(id, URXE_EVENT_MULTICAST_JOIN, 0);
	struct rdma_ucm_ud_param *ud;

	if (!event)
		return;
	event->mcast = mcast;
	event->resp.uid = mcast->uid;
	event->resp.id = mcast->handle;
	ud = &event->resp.param.ud;
	if (!error)
		error = urxe_id_ah_attr(id, record, &ud->ah_attr);
	if (error) {
		event->resp.event = URXE_EVENT_MULTICAST_ERROR;
		event->resp.status = error;
	} else {
		ud->qp_num = ANY_QPN;
		ud->qkey = id->qkey;
	}
	urxe_id_event_push(event);
}

/* Where there is nobody to ask: what follows from the address. */
static void report_at_once(struct urxe_id_mcast *mcast)
{
	struct ibv_path_record record = {
		.dgid = mcast->mgid,
		.sgid = mcast->id->sgid,
		.dlid = htobe16(MLID),
		.flowlabel_hoplimit = htobe32(HOP_LIMIT),
	};

	report(mcast, &record, 0);
}

void urxe_id_joined(struct urxe_id_mcast *mcast, const struct urxe_group *group, int error)
{
	struct ibv_path_record record = {.sgid = mcast->id->sgid};
	uint32_t word;

	if (!error) {
		word = be32toh(group->sl_flow_hop);
		record.dgid = mcast->mgid = group->mgid;
		record.dlid = group->mlid;
		record.qosclass_sl = htobe16(word >> 28);
		record.flowlabel_hoplimit = htobe32(word & 0xfffffff);
		record.tclass = group->tclass;
		mcast->id->qkey = be32toh(group->qkey);
		mcast->member = true;
	}
	report(mcast, &record, error);
}

void urxe_id_mcasts_lost(struct urxe_id *id)
{
	struct urxe_id_mcast *mcast;

	cds_list_for_each_entry (mcast, &id->mcasts, node) {
		if (!mcast->member || mcast->lost)
			continue;
		mcast->lost = true;
		report(mcast, NULL, -ENETRESET);
	}
}

static const struct urxe_link_addr *group_of(const struct urxe_id *id, const union ibv_gid *mgid,
					     struct urxe_link_addr *group)
{
	urxe_link_of_port(id->port)->group(group, mgid);
	return group;
}

/* The group of an address; AF_IB's any has the subnet administrator choose one. */
static int set_group(struct urxe_id_mcast *mcast)
{
	const struct urxe_id *id = mcast->id;
	int ret = urxe_address_gid(id->port, &mcast->addr, &mcast->mgid);
	bool chosen = urxe_link_of_port(id->port)->ask && urxe_sockaddr_is_any(&mcast->addr);

	if (chosen) {
		memset(&mcast->mgid, 0, sizeof(mcast->mgid));
		return 0;
	}
	return !ret && is_multicast(&mcast->mgid) ? 0 : -EINVAL;
}

static int start(struct urxe_id_mcast *mcast)
{
	struct urxe_id *id = mcast->id;
	struct urxe_link_addr group;
	int ret = 0;

	if (!id->qkey)
		urxe_id_default_qkey(id);
	if (!mcast->send_only)
		ret = urxe_adapter_join(id->port, group_of(id, &mcast->mgid, &group));
	if (ret)
		return ret;
	mcast->joined = !mcast->send_only;
	ret = urxe_sa_join(mcast);
	if (ret < 0)
		urxe_id_stop(mcast);
	else if (ret)
		report_at_once(mcast);
	return ret < 0 ? ret : 0;
}

int urxe_id_join(struct urxe_id *id, const union urxe_sockaddr *addr, uint64_t uid, bool send_only,
		 struct urxe_id_mcast **out)
{
	struct urxe_id_mcast *mcast;
	int ret;

	if (!id->port || id->qp_type != IBV_QPT_UD ||
	    (id->state != URXE_ID_ADDR_BOUND && id->state != URXE_ID_ADDR_RESOLVED))
		return -EINVAL;
	mcast = calloc(1, sizeof(*mcast));
	if (!mcast)
		return -ENOMEM;
	mcast->id = id;
	mcast->uid = uid;
	mcast->addr = *addr;
	mcast->send_only = send_only;
	ret = set_group(mcast) ?: urxe_handle_new(URXE_HANDLE_MCAST, mcast, &mcast->handle);
	if (ret)
		goto err_mcast;
	ret = start(mcast);
	if (ret)
		goto err_handle;
	cds_list_add(&mcast->node, &id->mcasts);
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

	if (mcast->joined)
		urxe_adapter_leave(mcast->id->port, group_of(mcast->id, &mcast->mgid, &group));
	mcast->joined = false;
	if (mcast->id->port)
		urxe_sa_leave(mcast);
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
