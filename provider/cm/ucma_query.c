/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Commands of an rdma_cm file that ask for what an id knows: its addresses and device, its route,
 * and the attributes for its QP. Any thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/id.h"
#include "cm/ucma_command.h"
#include "hca/adapter.h"
#include "host/user_memory.h"

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

static void copy_path(struct ib_user_path_rec *to, const struct ibv_path_record *from)
{
	uint32_t word = be32toh(from->flowlabel_hoplimit);

	memcpy(to->dgid, &from->dgid, sizeof(to->dgid));
	memcpy(to->sgid, &from->sgid, sizeof(to->sgid));
	to->dlid = from->dlid;
	to->slid = from->slid;
	to->flow_label = htobe32((word >> 8) & 0xfffff);
	to->hop_limit = word;
	to->traffic_class = from->tclass;
	to->reversible = from->reversible_numpath >> 7;
	to->numb_path = from->reversible_numpath & 0x7f;
	to->pkey = from->pkey;
	to->sl = be16toh(from->qosclass_sl) & 0xf;
	to->mtu_selector = from->mtu >> 6;
	to->mtu = from->mtu & 0x3f;
	to->rate_selector = from->rate >> 6;
	to->rate = from->rate & 0x3f;
	to->packet_life_time_selector = from->packetlifetime >> 6;
	to->packet_life_time = from->packetlifetime & 0x3f;
	to->preference = from->preference;
}

static void fill_route(struct rdma_ucm_query_route_resp *resp, const struct urxe_id *id)
{
	/* An address that is not set yet has family 0 and the size of an IPv6 one. */
	memcpy(&resp->src_addr, &id->src, sizeof(resp->src_addr));
	memcpy(&resp->dst_addr, &id->dst, sizeof(resp->dst_addr));
	if (!id->port)
		return;
	resp->node_guid = id->port->dev->guid;
	resp->ibdev_index = URXE_DEVICE_INDEX + id->port->dev->index;
	resp->port_num = id->port->num;
	resp->num_paths = id->num_paths;
	for (unsigned i = 0; i < id->num_paths && i < 2; i++)
		copy_path(&resp->ib_route[i], &id->paths[i]);
	if (!id->num_paths) {
		memcpy(resp->ib_route[0].dgid, &id->dgid, sizeof(id->dgid));
		memcpy(resp->ib_route[0].sgid, &id->sgid, sizeof(id->sgid));
		resp->ib_route[0].pkey = htobe16(id->pkey);
	}
}

int urxe_command_query_route(struct urxe_id *id, const struct urxe_command *c, void *body)
{
	struct rdma_ucm_query_route_resp resp;
	struct rdma_ucm_query *cmd = body;

	memset(&resp, 0, sizeof(resp));
	fill_route(&resp, id);
	return urxe_user_write(cmd->response, &resp, smaller(c->out, sizeof(resp)));
}

static void fill_device(struct rdma_ucm_query_addr_resp *resp, const struct urxe_id *id)
{
	if (!id->port)
		return;
	resp->node_guid = id->port->dev->guid;
	resp->ibdev_index = URXE_DEVICE_INDEX + id->port->dev->index;
	resp->port_num = id->port->num;
	resp->pkey = htobe16(id->pkey);
}

static void fill_addr(struct rdma_ucm_query_addr_resp *resp, const struct urxe_id *id)
{
	resp->src_size = urxe_sockaddr_size(id->src.family);
	memcpy(&resp->src_addr, &id->src, resp->src_size);
	resp->dst_size = urxe_sockaddr_size(id->dst.family);
	memcpy(&resp->dst_addr, &id->dst, resp->dst_size);
	fill_device(resp, id);
}

static void to_ib(struct urxe_sockaddr_ib *ib, const struct urxe_id *id,
		  const union urxe_sockaddr *addr, const union ibv_gid *gid, uint16_t pkey)
{
	if (addr->family == AF_IB) {
		*ib = addr->ib;
		return;
	}
	memset(ib, 0, sizeof(*ib));
	ib->family = AF_IB;
	ib->pkey = pkey;
	if (id->port)
		ib->addr = *gid;
	ib->sid = htobe64(urxe_id_service_id(id, addr));
}

static void fill_gid(struct rdma_ucm_query_addr_resp *resp, const struct urxe_id *id)
{
	struct urxe_sockaddr_ib ib;

	fill_device(resp, id);
	to_ib(&ib, id, &id->src, &id->sgid, resp->pkey);
	resp->src_size = sizeof(ib);
	memcpy(&resp->src_addr, &ib, sizeof(ib));
	to_ib(&ib, id, &id->dst, &id->dgid, resp->pkey);
	resp->dst_size = sizeof(ib);
	memcpy(&resp->dst_addr, &ib, sizeof(ib));
}

static int query_addr(const struct urxe_id *id, uint64_t response, size_t out, bool gid)
{
	struct rdma_ucm_query_addr_resp resp;

	if (out < offsetof(struct rdma_ucm_query_addr_resp, ibdev_index))
		return -ENOSPC;
	memset(&resp, 0, sizeof(resp));
	if (gid)
		fill_gid(&resp, id);
	else
		fill_addr(&resp, id);
	return urxe_user_write(response, &resp, smaller(out, sizeof(resp)));
}

/* As many paths as there is room for, in the standard's own form. */
static int query_path(const struct urxe_id *id, uint64_t response, size_t out)
{
	struct {
		struct rdma_ucm_query_path_resp head;
		struct ibv_path_data data[2];
	} resp;
	size_t room, n;

	_Static_assert(offsetof(__typeof__(resp), data) == sizeof(resp.head), "ABI");
	if (out < sizeof(resp.head))
		return -ENOSPC;
	memset(&resp, 0, sizeof(resp));
	resp.head.num_paths = id->num_paths;
	room = (out - sizeof(resp.head)) / sizeof(resp.data[0]);
	for (n = 0; n < id->num_paths && n < room && n < 2; n++) {
		resp.data[n].flags =
			IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL;
		resp.data[n].path = id->paths[n];
	}
	return urxe_user_write(response, &resp, sizeof(resp.head) + n * sizeof(resp.data[0]));
}

int urxe_command_query(struct urxe_id *id, const struct urxe_command *c, void *body)
{
	struct rdma_ucm_query *cmd = body;

	switch (cmd->option) {
	case RDMA_USER_CM_QUERY_ADDR: return query_addr(id, cmd->response, c->out, false);
	case RDMA_USER_CM_QUERY_GID: return query_addr(id, cmd->response, c->out, true);
	case RDMA_USER_CM_QUERY_PATH: return query_path(id, cmd->response, c->out);
	default: return -ENOSYS;
	}
}

static void copy_qp_attr(struct ib_uverbs_qp_attr *to, const struct ibv_qp_attr *from)
{
	to->qp_state = from->qp_state;
	to->path_mtu = from->path_mtu;
	to->path_mig_state = from->path_mig_state;
	to->qkey = from->qkey;
	to->rq_psn = from->rq_psn;
	to->sq_psn = from->sq_psn;
	to->dest_qp_num = from->dest_qp_num;
	to->qp_access_flags = from->qp_access_flags;
	urxe_id_copy_ah(&to->ah_attr, &from->ah_attr);
	to->pkey_index = from->pkey_index;
	to->max_rd_atomic = from->max_rd_atomic;
	to->max_dest_rd_atomic = from->max_dest_rd_atomic;
	to->min_rnr_timer = from->min_rnr_timer;
	to->port_num = from->port_num;
	to->timeout = from->timeout;
	to->retry_cnt = from->retry_cnt;
	to->rnr_retry = from->rnr_retry;
}

bool urxe_command_check_qp_state(void *body)
{
	return ((struct rdma_ucm_init_qp_attr *)body)->qp_state <= IBV_QPS_ERR;
}

int urxe_command_init_qp_attr(struct urxe_id *id, const struct urxe_command *c, void *body)
{
	struct rdma_ucm_init_qp_attr *cmd = body;
	struct ibv_qp_attr attr = {.qp_state = cmd->qp_state};
	struct ib_uverbs_qp_attr resp;
	int mask = 0, ret = urxe_id_init_qp_attr(id, &attr, &mask);

	if (ret)
		return ret;
	memset(&resp, 0, sizeof(resp));
	resp.qp_attr_mask = mask;
	copy_qp_attr(&resp, &attr);
	return urxe_user_write(cmd->response, &resp, sizeof(resp));
}
