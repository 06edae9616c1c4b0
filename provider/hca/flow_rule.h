/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A flow steering rule of ibv_create_flow(3), in a form that is matched quickly: which headers a
 * frame must have, and bytes of them with their masks. Pure functions; the caller has a lock.
 */
#ifndef URXE_HCA_FLOW_RULE_H
#define URXE_HCA_FLOW_RULE_H

#include <stdbool.h>

#include "hca/frame.h"

#define URXE_FLOW_SPECS	     16
#define URXE_FLOW_PRIORITIES 16384 /* 0, the first to be asked, to this less one */

/* Words of struct urxe_frame; what the mask does not have is 0 in the value. */
struct urxe_flow_match {
	uint16_t at, words; /* bytes; 32 bits each */
	uint32_t value[10], mask[10];
};

struct urxe_flow_rule {
	enum ibv_flow_attr_type type;
	uint16_t priority;
	uint32_t outer, inner; /* headers that there must be */
	unsigned n;
	struct urxe_flow_match matches[URXE_FLOW_SPECS];
	bool drop;
	bool dont_trap; /* rules behind this one see the frame too */
	uint32_t tag;	/* for ibv_wc_read_flow_tag() */
	struct ibv_counters *counters;
};

/*
 * Reads what a program gives: num_of_specs specs behind attr, whose own size counts for nothing, as
 * programs leave it at what attr is without them. EINVAL: a size or number that does not fit, a
 * mask of a field the header does not have, headers that exclude each other; EOPNOTSUPP: specs and
 * flags that no device in software has (IPsec actions, egress); EPERM is the caller's.
 */
int urxe_flow_rule_read(struct urxe_flow_rule *rule, const struct ibv_flow_attr *attr);
bool urxe_flow_rule_matches(const struct urxe_flow_rule *rule, const struct urxe_frame *frame);

#endif
