/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Path records (IBTA vol. 1, 15.2.5.16) of rdma_cm ids, the address vectors made of them, and the
 * attributes that a QP is to be given on its way to RTS. Under the engine lock.
 */
#include <errno.h>
#include <string.h>

#include "cm/id.h"

#define SELECTOR_EQUAL (2 << 6) /* of MTU, rate and packet life time: this, and no other */

void urxe_path_record(struct ibv_path_record *record, const struct urxe_cm_path *path,
		      const union ibv_gid *sgid, const struct ibv_ah_attr *attr,
		      uint64_t service_id)
{
	memset(record, 0, sizeof(*record));
	record->service_id = htobe64(service_id);
	record->sgid = *sgid;
	record->dgid = attr->grh.dgid;
	record->dlid = htobe16(attr->dlid);
	record->flowlabel_hoplimit = htobe32(attr->grh.flow_label << 8 | attr->grh.hop_limit);
	record->tclass = attr->grh.traffic_class;
	record->reversible_numpath = 1 << 7;
	record->pkey = htobe16(path->pkey);
	record->qosclass_sl = htobe16(path->sl & 0xf);
	record->mtu = SELECTOR_EQUAL | (path->mtu & 0x3f);
	record->rate = SELECTOR_EQUAL | (path->rate & 0x3f);
	record->packetlifetime = SELECTOR_EQUAL | (path->packet_life_time & 0x3f);
}

int urxe_path_of_record(struct urxe_cm_path *path, struct urxe_port *port,
			const struct ibv_path_record *record)
{
	uint32_t word = be32toh(record->flowlabel_hoplimit), flow = (word >> 8) & 0xfffff;
	int index = urxe_port_gid_index(port, &record->sgid), ret;
	struct ibv_ah_attr attr = {
		.grh =
			{
				.dgid = record->dgid,
				.flow_label = flow,
				.sgid_index = index,
				.hop_limit = word & 0xff,
				.traffic_class = record->tclass,
			},
		.dlid = be16toh(record->dlid),
		.sl = be16toh(record->qosclass_sl) & 0xf,
		.is_global = 1,
		.port_num = port->num,
	};

	memset(path, 0, sizeof(*path));
	if (index < 0)
		return -EINVAL;
	ret = urxe_link_of_port(port)->resolve(&path->av, port, &attr, flow);
	if (ret)
		return ret;
	path->pkey = be16toh(record->pkey);
	path->sl = attr.sl;
	path->mtu = record->mtu & 0x3f;
	path->rate = record->rate & 0x3f;
	path->packet_life_time = record->packetlifetime & 0x1f;
	return 0;
}

int urxe_id_ah_attr(const struct urxe_id *id, const union ibv_gid *dgid, uint32_t flow_label,
		    uint8_t hop_limit, uint8_t traffic_class, struct ib_uverbs_ah_attr *ah)
{
	union ibv_gid sgid;
	int index;

	urxe_sockaddr_gid(&id->src, &sgid);
	index = urxe_port_gid_index(id->port, &sgid);
	if (index < 0)
		return -EINVAL;
	memset(ah, 0, sizeof(*ah));
	ah->is_global = 1;
	ah->port_num = id->port->num;
	memcpy(ah->grh.dgid, dgid, sizeof(ah->grh.dgid));
	ah->grh.flow_label = flow_label;
	ah->grh.sgid_index = index;
	ah->grh.hop_limit = hop_limit;
	ah->grh.traffic_class = traffic_class;
	return 0;
}

/* An id without a connection of its own: UD, or one that only prepares its QP. */
static int init_unconnected(struct urxe_id *id, struct ibv_qp_attr *attr, int *mask)
{
	int ret;

	attr->pkey_index = 0;
	attr->port_num = id->port->num;
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	if (id->qp_type != IBV_QPT_UD) {
		attr->qp_access_flags = 0;
		*mask |= IBV_QP_ACCESS_FLAGS;
		return 0;
	}
	ret = urxe_id_default_qkey(id);
	if (ret)
		return ret;
	attr->qkey = id->qkey;
	*mask |= IBV_QP_QKEY;
	return 0;
}

int urxe_id_init_qp_attr(struct urxe_id *id, struct ibv_qp_attr *attr, int *mask)
{
	int ret;

	if (!id->conn || id->qp_type == IBV_QPT_UD)
		ret = init_unconnected(id, attr, mask);
	else
		ret = urxe_cm_init_qp_attr(id->conn, attr, mask);
	if (ret)
		return ret;
	/* The passive side's QP is made ready before its REP tells the peer this number. */
	if (attr->qp_state == IBV_QPS_RTR)
		attr->rq_psn = id->psn;
	if ((*mask & IBV_QP_TIMEOUT) && id->options.timeout_set)
		attr->timeout = id->options.timeout;
	return 0;
}
