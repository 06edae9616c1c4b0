/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the adapter says of itself: device, port, GIDs, P_Keys (IBTA vol. 1, 11.2.1). Any thread. */
#include <errno.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "hca/engine.h"
#include "hca/pace.h"
#include "hca/query.h"
#include "hca/rss.h"
#include "hca/tag_matching.h"
#include "hca/wq.h"

#define DEVICE_CAPS                                                                               \
	(IBV_DEVICE_AUTO_PATH_MIG | IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT | \
	 IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE |          \
	 IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_BAD_QKEY_CNTR |       \
	 IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_MANAGED_FLOW_STEERING | IBV_DEVICE_XRC)

int urxe_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	struct urxe_device *dev = to_context(context)->dev;

	if (!attr)
		return EINVAL;
	memset(attr, 0, sizeof(*attr));
	strcpy(attr->fw_ver, URXE_VERSION);
	attr->node_guid = dev->guid;
	attr->sys_image_guid = dev->guid;
	attr->max_mr_size = UINT64_MAX;
	attr->page_size_cap = 0xfffff000;
	attr->vendor_id = 0xffffff; /* as the kernel's rxe: software has no OUI */
	attr->max_qp = urxe_qpn_indices();
	attr->max_qp_wr = URXE_MAX_QP_WR;
	attr->device_cap_flags = DEVICE_CAPS;
	attr->max_sge = URXE_MAX_SGE;
	attr->max_sge_rd = URXE_MAX_SGE;
	attr->max_cq = URXE_MAX_CQ;
	attr->max_cqe = URXE_MAX_CQE;
	attr->max_mr = URXE_MAX_MR;
	attr->max_pd = URXE_MAX_PD;
	attr->max_qp_rd_atom = URXE_MAX_RD_ATOM;
	attr->max_qp_init_rd_atom = URXE_MAX_RD_ATOM;
	attr->max_res_rd_atom = URXE_MAX_QP * URXE_MAX_RD_ATOM;
	/* They are atomic for the program's own instructions too (GLOB), but programs ask for
	 * HCA. */
	attr->atomic_cap = IBV_ATOMIC_HCA;
	attr->max_mw = URXE_MAX_MR;
	attr->max_mcast_grp = URXE_MAX_MCAST_GRP;
	attr->max_mcast_qp_attach = URXE_MAX_QP;
	attr->max_total_mcast_qp_attach = URXE_MAX_QP;
	attr->max_ah = URXE_MAX_AH;
	attr->max_srq = URXE_MAX_SRQ;
	attr->max_srq_wr = URXE_MAX_SRQ_WR;
	attr->max_srq_sge = URXE_MAX_SGE;
	attr->max_pkeys = dev->ports[0].pkey_len;
	attr->local_ca_ack_delay = 15;
	attr->phys_port_cnt = dev->num_ports;
	return 0;
}

int urxe_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *in,
			 struct ibv_device_attr_ex *attr, size_t size)
{
	const uint32_t rc_odp = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
				IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
				IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV;
	struct ibv_device_attr_ex all;

	if (!attr || (in && in->comp_mask) || size < sizeof(all.orig_attr))
		return EINVAL;
	memset(&all, 0, sizeof(all));
	urxe_query_device(context, &all.orig_attr);
	all.device_cap_flags_ex = all.orig_attr.device_cap_flags;
	all.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
	all.odp_caps.per_transport_caps.rc_odp_caps = rc_odp;
	all.odp_caps.per_transport_caps.uc_odp_caps =
		IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE;
	all.odp_caps.per_transport_caps.ud_odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV;
	all.completion_timestamp_mask = UINT64_MAX;
	all.hca_core_clock = 1000000; /* kHz: timestamps are nanoseconds */
	all.xrc_odp_caps = rc_odp;
	all.rss_caps.supported_qpts = 1u << IBV_QPT_RAW_PACKET;
	all.rss_caps.max_rwq_indirection_tables = URXE_MAX_QP;
	all.rss_caps.max_rwq_indirection_table_size = 1u << URXE_MAX_RWQ_TABLE_LOG;
	all.rss_caps.rx_hash_fields_mask = URXE_RSS_FIELDS;
	all.rss_caps.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ;
	all.max_wq_type_rq = urxe_qpn_indices();
	all.raw_packet_caps = IBV_RAW_PACKET_CAP_CVLAN_STRIPPING;
	all.tm_caps = (struct ibv_tm_caps){
		.max_rndv_hdr_size = URXE_TM_RNDV_MAX,
		.max_num_tags = URXE_TM_TAGS,
		.flags = IBV_TM_CAP_RC,
		.max_ops = URXE_TM_OPS,
		.max_sge = URXE_TM_SGE,
	};
	all.packet_pacing_caps = (struct ibv_packet_pacing_caps){
		.qp_rate_limit_min = 1,
		.qp_rate_limit_max = URXE_PACE_MAX_KBPS,
		.supported_qpts = 1u << IBV_QPT_RC | 1u << IBV_QPT_UC | 1u << IBV_QPT_UD |
				  1u << IBV_QPT_RAW_PACKET | 1u << IBV_QPT_XRC_SEND,
	};
	all.cq_mod_caps = (struct ibv_cq_moderation_caps){
		.max_cq_count = UINT16_MAX,
		.max_cq_period = UINT16_MAX,
	};
	all.phys_port_cnt_ex = all.orig_attr.phys_port_cnt;
	all.max_dm_size = to_context(context)->file.fd < 0 ? 0 : URXE_DM_BYTES;
	memset(attr, 0, size); /* newer headers have more fields */
	memcpy(attr, &all, size < sizeof(all) ? size : sizeof(all));
	return 0;
}

const struct urxe_rate *urxe_rate_of(uint32_t mbps)
{
	static const struct urxe_rate rates[] = {
		{400000, 2, 128, "400 Gb/sec (4X NDR)"}, {200000, 2, 64, "200 Gb/sec (4X HDR)"},
		{100000, 2, 32, "100 Gb/sec (4X EDR)"},	 {50000, 1, 64, "50 Gb/sec (1X HDR)"},
		{40000, 2, 8, "40 Gb/sec (4X FDR10)"},	 {25000, 1, 32, "25 Gb/sec (1X EDR)"},
		{20000, 2, 2, "20 Gb/sec (4X DDR)"},	 {10000, 2, 1, "10 Gb/sec (4X)"},
		{5000, 1, 2, "5 Gb/sec (1X DDR)"},	 {0, 1, 1, "2.5 Gb/sec (1X)"},
	};
	const struct urxe_rate *rate = rates;

	while (mbps < rate->mbps)
		rate++;
	return rate;
}

static void fill_port(const struct urxe_port *port, struct ibv_port_attr *attr)
{
	const struct urxe_rate *rate;

	memset(attr, 0, sizeof(*attr));
	urxe_device_lock();
	rate = urxe_rate_of(port->speed_mbps);
	attr->state = port->state;
	attr->max_mtu = port->max_mtu;
	attr->active_mtu = port->active_mtu;
	attr->lid = port->lid;
	attr->lmc = port->lmc;
	attr->sm_lid = port->sm_lid;
	attr->sm_sl = port->sm_sl;
	attr->active_width = port->width ? port->width : rate->width;
	attr->active_speed = port->speed ? port->speed : rate->speed;
	attr->port_cap_flags = port->kind->port_cap_flags | port->cap_flags;
	urxe_device_unlock();
	attr->gid_tbl_len = URXE_MAX_GIDS;
	attr->max_msg_sz = URXE_MAX_MSG;
	attr->pkey_tbl_len = port->pkey_len;
	attr->phys_state = attr->state >= IBV_PORT_INIT ? 5 : 3;
	attr->link_layer = port->kind->verbs_link_layer;
	attr->flags = port->kind->port_flags;
}

int urxe_query_port_ex(struct ibv_context *context, uint8_t num, struct ibv_port_attr *attr,
		       size_t size)
{
	struct urxe_port *port = urxe_context_port(context, num);
	struct ibv_port_attr all;

	if (!port || !attr)
		return EINVAL;
	fill_port(port, &all);
	memset(attr, 0, size);
	memcpy(attr, &all, size < sizeof(all) ? size : sizeof(all));
	return 0;
}

/* The symbol's older callers pass a structure that ends before port_cap_flags2. */
int urxe_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	return urxe_query_port_ex(context, port, attr, offsetof(struct ibv_port_attr, flags) + 1);
}

int urxe_query_gid(struct ibv_context *context, uint8_t num, int index, union ibv_gid *gid)
{
	struct urxe_port *port = urxe_context_port(context, num);

	if (!port || !gid || index < 0 || index >= URXE_MAX_GIDS) {
		errno = EINVAL;
		return -1;
	}
	urxe_port_gid(port, index, gid);
	return 0;
}

static bool fill_entry(const struct urxe_port *port, unsigned index, struct ibv_gid_entry *entry)
{
	union ibv_gid gid;

	if (!urxe_port_gid(port, index, &gid))
		return false;
	memset(entry, 0, sizeof(*entry));
	entry->gid = gid;
	entry->gid_index = index;
	entry->port_num = port->num;
	entry->gid_type = port->kind->gid_type;
	entry->ndev_ifindex = urxe_port_ifindex(port);
	return true;
}

int urxe_query_gid_ex(struct ibv_context *context, uint32_t num, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags)
{
	struct urxe_port *port = urxe_context_port(context, num);

	if (!port || !entry || index >= URXE_MAX_GIDS || flags)
		return EINVAL;
	return fill_entry(port, index, entry) ? 0 : ENODATA;
}

ssize_t urxe_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
			     uint32_t flags)
{
	struct urxe_device *dev = to_context(context)->dev;
	struct ibv_gid_entry entry;
	size_t n = 0;

	if (flags || (max && !entries))
		return -EINVAL;
	for (unsigned i = 0; i < dev->num_ports * URXE_MAX_GIDS; i++) {
		if (!fill_entry(&dev->ports[i / URXE_MAX_GIDS], i % URXE_MAX_GIDS, &entry))
			continue;
		if (n == max)
			return -EINVAL;
		entries[n++] = entry;
	}
	return n;
}

int urxe_query_pkey(struct ibv_context *context, uint8_t num, int index, __be16 *pkey)
{
	struct urxe_port *port = urxe_context_port(context, num);

	if (!port || !pkey || index < 0 || (unsigned)index >= port->pkey_len) {
		errno = EINVAL;
		return -1;
	}
	*pkey = htobe16(urxe_port_pkey(port, index));
	return 0;
}

int urxe_get_pkey_index(struct ibv_context *context, uint8_t num, __be16 pkey)
{
	struct urxe_port *port = urxe_context_port(context, num);
	int index = port ? urxe_port_pkey_index(port, be16toh(pkey)) : -1;

	if (index < 0)
		errno = EINVAL;
	return index;
}

int urxe_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	if (!values || (values->comp_mask & ~IBV_VALUES_MASK_RAW_CLOCK))
		return EINVAL;
	if (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK)
		clock_gettime(CLOCK_MONOTONIC, &values->raw_clock);
	return 0;
}
