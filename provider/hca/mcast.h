/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Multicast: which QPs of this process are attached to which group. Under the engine lock. */
#ifndef URXE_HCA_MCAST_H
#define URXE_HCA_MCAST_H

#include <urcu/list.h>

#include "wire/path.h"

struct urxe_qp;

struct urxe_mcast {
	struct cds_list_head node;    /* by group */
	struct cds_list_head qp_node; /* of the QP */
	struct urxe_qp *qp;
	struct urxe_link_addr group;
};

struct cds_list_head *urxe_mcast_bucket(const struct urxe_link_addr *group);

#endif
