/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Included in front of each file of the kernel's rxe by build-module: a device that says it is of
 * InfiniBand, with a GID of its own and a subnet administrator. Nothing reaches that one, and no
 * data moves; but the kernel's rdma_cm looks for paths on such a device as on an adapter of
 * InfiniBand, and so asks the listeners of its netlink first.
 */
#ifndef URXE_TESTS_RXE_IB_H
#define URXE_TESTS_RXE_IB_H

#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

#undef RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP
#define RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP                                     \
	(RDMA_CORE_CAP_PROT_IB | RDMA_CORE_CAP_IB_MAD | RDMA_CORE_CAP_IB_CM | \
	 RDMA_CORE_CAP_IB_SA | RDMA_CORE_CAP_AF_IB)
#define IB_LINK_LAYER_ETHERNET IB_LINK_LAYER_INFINIBAND
#define ib_get_eth_speed(...)  0

/* GIDs of InfiniBand are asked of the driver: one more operation in the table that has query_pkey.
 * */
static inline int rxe_ib_query_gid(struct ib_device *dev, u32 port, int index, union ib_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (!index) {
		gid->global.subnet_prefix = cpu_to_be64(0xfe80000000000000ull);
		gid->global.interface_id = dev->node_guid;
	}
	return 0;
}
#define query_pkey query_gid = rxe_ib_query_gid, .query_pkey

/* Address handles without a GRH, as towards the SM, have no GID to look at. */
#define rdma_gid2ip(out, gid)                          \
	do {                                           \
		if ((unsigned long)(gid) >= PAGE_SIZE) \
			rdma_gid2ip(out, gid);         \
	} while (0)
#define rdma_gid_attr_network_type(attr) \
	((attr) ? rdma_gid_attr_network_type(attr) : RDMA_NETWORK_IPV4)

#endif
