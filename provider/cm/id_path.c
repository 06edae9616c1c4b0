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

/* The address vector of a record: with a GRH where the link layer has no other way, or it leads to
 * another subnet. */
static int make_attr(struct ibv_ah_attr *attr, const struct urxe_port *port,
		     const struct ibv_path_record *record)
{
	uint32_t word = be32toh(record->flowlabel_hoplimit);
	int index = urxe_port_gid_index(port, &record->sgid);

	*attr = (struct ibv_ah_attr){
		.dlid = be16toh(record->dlid),
		.sl = be16toh(record->qosclass_sl) & 0xf,
		.src_path_bits = be16toh(record->slid) & ((1u << port->lmc) - 1),
		.is_global = port->kind->port_flags & IBV_QPF_GRH_REQUIRED || word & 0xff ||
			     record->dgid.raw[0] == 0xff,
		.port_num = port->num,
	};
	if (attr->is_global)
		attr->grh = (struct ibv_global_route){
			.dgid = record->dgid,
			.flow_label = (word >> 8) & 0xfffff,
			.sgid_index = index,
			.hop_limit = word & 0xff,
			.traffic_class = record->tclass,
		};
	return index < 0 ? -EINVAL : 0;
}

void urxe_id_copy_ah(struct ib_uverbs_ah_attr *to, const struct ibv_ah_attr *from)
{
	memset(to, 0, sizeof(*to));
	to->dlid = from->dlid;
	to->sl = from->sl;
	to->src_path_bits = from->src_path_bits;
	to->static_rate = from->static_rate;
	to->is_global = from->is_global;
	to->port_num = from->port_num;
	if (!from->is_global)
		return;
	memcpy(to->grh.dgid, &from->grh.dgid, sizeof(to->grh.dgid));
	to->grh.flow_label = from->grh.flow_label;
	to->grh.sgid_index = from->grh.sgid_index;
	to->grh.hop_limit = from->grh.hop_limit;
	to->grh.traffic_class = from->grh.traffic_class;
}

int urxe_path_of_record(struct urxe_cm_path *path, struct urxe_port *port,
			const struct ibv_path_record *record)
{
	struct ibv_ah_attr attr;
	int ret = make_attr(&attr, port, record);

	memset(path, 0, sizeof(*path));
	if (!ret)
		ret = urxe_link_of_port(port)->resolve(&path->av, port, &attr, attr.grh.flow_label);
	if (ret)
		return ret;
	path->pkey = be16toh(record->pkey);
	path->sl = attr.sl;
	path->mtu = record->mtu & 0x3f;
	path->rate = record->rate & 0x3f;
	path->packet_life_time = record->packetlifetime & 0x1f;
	return 0;
}

int urxe_id_ah_attr(const struct urxe_id *id, const struct ibv_path_record *record,
		    struct ib_uverbs_ah_attr *ah)
{
	struct ibv_ah_attr attr;
	int ret = make_attr(&attr, id->port, record);

	urxe_id_copy_ah(ah, &attr);
	return ret;
}

/* An id without a connection of its own: UD, or one that only prepares its QP. */
static int init_unconnected(struct urxe_id *id, struct ibv_qp_attr *attr, int *mask)
{
	int index = urxe_port_partition(id->port, id->pkey);

	if (index < 0)
		return -EINVAL;
	attr->pkey_index = index;
	attr->port_num = id->port->num;
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	if (id->qp_type != IBV_QPT_UD) {
		attr->qp_access_flags = 0;
		*mask |= IBV_QP_ACCESS_FLAGS;
		return 0;
	}
	urxe_id_default_qkey(id);
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
