/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "hca/flow_rule.h"

/* A spec that names a header: where its filter (words of 32 bits) and the mask are, and where
 * that is in what was read. */
struct spec_kind {
	enum ibv_flow_spec_type type;
	uint16_t size, filter, value, mask, at;
	uint32_t header;
};

#define KIND(type, spec, field, header)                                          \
	{                                                                        \
		type, sizeof(struct spec), sizeof(((struct spec *)NULL)->val),   \
			offsetof(struct spec, val), offsetof(struct spec, mask), \
			offsetof(struct urxe_frame_headers, field), header       \
	}

static const struct spec_kind kinds[] = {
	KIND(IBV_FLOW_SPEC_ETH, ibv_flow_spec_eth, eth, FRAME_ETH),
	KIND(IBV_FLOW_SPEC_IPV4, ibv_flow_spec_ipv4, ipv4, FRAME_IPV4),
	KIND(IBV_FLOW_SPEC_IPV4_EXT, ibv_flow_spec_ipv4_ext, ipv4, FRAME_IPV4),
	KIND(IBV_FLOW_SPEC_IPV6, ibv_flow_spec_ipv6, ipv6, FRAME_IPV6),
	KIND(IBV_FLOW_SPEC_ESP, ibv_flow_spec_esp, esp, FRAME_ESP),
	KIND(IBV_FLOW_SPEC_TCP, ibv_flow_spec_tcp_udp, ports, FRAME_TCP),
	KIND(IBV_FLOW_SPEC_UDP, ibv_flow_spec_tcp_udp, ports, FRAME_UDP),
	KIND(IBV_FLOW_SPEC_VXLAN_TUNNEL, ibv_flow_spec_tunnel, tunnel, FRAME_VXLAN),
	KIND(IBV_FLOW_SPEC_GRE, ibv_flow_spec_gre, gre, FRAME_GRE),
	KIND(IBV_FLOW_SPEC_MPLS, ibv_flow_spec_mpls, mpls, FRAME_MPLS),
};

static_assert(offsetof(struct ibv_flow_ipv4_ext_filter, proto) ==
		      sizeof(struct ibv_flow_ipv4_filter),
	      "the short filter is how the long one begins");
static_assert(sizeof(struct ibv_flow_ipv6_filter) <=
		      sizeof(((struct urxe_flow_match *)NULL)->value),
	      "the longest filter");

static const struct spec_kind *kind_of(uint32_t type)
{
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (kinds[i].type == type)
			return &kinds[i];
	return NULL;
}

/* Words before and behind those that count are not compared for each frame. */
static void drop_unmasked(struct urxe_flow_match *m)
{
	unsigned first = 0;

	while (m->words && !m->mask[m->words - 1])
		m->words--;
	while (first < m->words && !m->mask[first])
		first++;
	m->words -= first;
	m->at += first * sizeof(m->mask[0]);
	memmove(m->mask, m->mask + first, m->words * sizeof(m->mask[0]));
	memmove(m->value, m->value + first, m->words * sizeof(m->value[0]));
}

static int add_match(struct urxe_flow_rule *rule, const struct spec_kind *kind, bool inner,
		     const struct ibv_flow_spec *spec)
{
	const uint8_t *mask = (const uint8_t *)spec + kind->mask;
	struct urxe_flow_match *m = &rule->matches[rule->n++];
	uint32_t *headers = inner ? &rule->inner : &rule->outer;

	if (spec->hdr.size != kind->size)
		return EINVAL;
	*headers |= kind->header;
	/* A tag is only there in a frame that has one. */
	if (kind->header == FRAME_ETH && ((const struct ibv_flow_eth_filter *)mask)->vlan_tag)
		*headers |= FRAME_VLAN;
	m->at = (inner ? offsetof(struct urxe_frame, inner) : 0) + kind->at;
	m->words = kind->filter / sizeof(m->mask[0]);
	memcpy(m->mask, mask, kind->filter);
	memcpy(m->value, (const uint8_t *)spec + kind->value, kind->filter);
	drop_unmasked(m);
	for (unsigned i = 0; i < m->words; i++)
		m->value[i] &= m->mask[i];
	return 0;
}

static int add_action(struct urxe_flow_rule *rule, const struct ibv_flow_spec *spec)
{
	switch (spec->hdr.type) {
	case IBV_FLOW_SPEC_ACTION_TAG:
		if (spec->hdr.size != sizeof(spec->flow_tag) || spec->flow_tag.tag_id >= 1u << 24)
			return EINVAL;
		rule->tag = spec->flow_tag.tag_id;
		return 0;
	case IBV_FLOW_SPEC_ACTION_DROP:
		if (spec->hdr.size != sizeof(spec->drop))
			return EINVAL;
		rule->drop = true;
		return 0;
	case IBV_FLOW_SPEC_ACTION_COUNT:
		if (spec->hdr.size != sizeof(spec->flow_count) || !spec->flow_count.counters)
			return EINVAL;
		rule->counters = spec->flow_count.counters;
		return 0;
	default: return EOPNOTSUPP;
	}
}

static int add_spec(struct urxe_flow_rule *rule, const struct ibv_flow_spec *spec)
{
	uint32_t type = spec->hdr.type;
	const struct spec_kind *kind = kind_of(type & ~IBV_FLOW_SPEC_INNER);

	return kind ? add_match(rule, kind, type & IBV_FLOW_SPEC_INNER, spec)
		    : add_action(rule, spec);
}

/* Headers of which a frame has one at most. */
static bool exclude_each_other(uint32_t headers)
{
	return !(~headers & (FRAME_IPV4 | FRAME_IPV6)) || !(~headers & (FRAME_TCP | FRAME_UDP)) ||
	       !(~headers & (FRAME_TCP | FRAME_ESP)) || !(~headers & (FRAME_UDP | FRAME_ESP));
}

int urxe_flow_rule_read(struct urxe_flow_rule *rule, const struct ibv_flow_attr *attr)
{
	const uint8_t *at = (const uint8_t *)(attr + 1);
	int ret;

	memset(rule, 0, sizeof(*rule));
	if (attr->comp_mask || attr->type > IBV_FLOW_ATTR_SNIFFER || attr->port != 1 ||
	    attr->priority >= URXE_FLOW_PRIORITIES || attr->num_of_specs > URXE_FLOW_SPECS ||
	    (attr->flags & ~(IBV_FLOW_ATTR_FLAGS_DONT_TRAP | IBV_FLOW_ATTR_FLAGS_EGRESS)) ||
	    (attr->type != IBV_FLOW_ATTR_NORMAL &&
	     (attr->num_of_specs || attr->flags & IBV_FLOW_ATTR_FLAGS_DONT_TRAP)))
		return EINVAL;
	if (attr->flags & IBV_FLOW_ATTR_FLAGS_EGRESS)
		return EOPNOTSUPP;
	rule->type = attr->type;
	rule->priority = attr->priority;
	rule->dont_trap = attr->flags & IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
	for (unsigned i = 0; i < attr->num_of_specs; i++) {
		struct ibv_flow_spec spec; /* a copy, since they are not aligned in what is given */

		memcpy(&spec.hdr, at, sizeof(spec.hdr));
		if (spec.hdr.size < sizeof(spec.hdr) || spec.hdr.size > sizeof(spec))
			return EINVAL;
		memcpy(&spec, at, spec.hdr.size);
		ret = add_spec(rule, &spec);
		if (ret)
			return ret;
		at += spec.hdr.size;
	}
	return exclude_each_other(rule->outer) || exclude_each_other(rule->inner) ? EINVAL : 0;
}

static bool same(const struct urxe_flow_match *m, const struct urxe_frame *frame)
{
	const uint8_t *field = (const uint8_t *)frame + m->at;
	uint32_t word, differs = 0;

	for (unsigned i = 0; i < m->words; i++) {
		memcpy(&word, field + i * sizeof(word), sizeof(word));
		differs |= (word & m->mask[i]) ^ m->value[i];
	}
	return !differs;
}

bool urxe_flow_rule_matches(const struct urxe_flow_rule *rule, const struct urxe_frame *frame)
{
	if (rule->type == IBV_FLOW_ATTR_MC_DEFAULT && !(frame->outer.eth.dst_mac[0] & 1))
		return false;
	if ((rule->outer & ~frame->outer.present) || (rule->inner & ~frame->inner.present))
		return false;
	for (unsigned i = 0; i < rule->n; i++)
		if (!same(&rule->matches[i], frame))
			return false;
	return true;
}
