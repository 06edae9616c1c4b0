/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <stdlib.h>

#include "hca/counters.h"
#include "hca/hca.h"
#include "hca/raw_packet.h"

#define PLACES 32

struct urxe_counters {
	struct ibv_counters ibv;
	_Atomic uint64_t packets, bytes;
	atomic_int users;		/* flows */
	_Atomic uint8_t places[PLACES]; /* enum ibv_counter_description, and 1; 0: nothing */
};

static struct urxe_counters *of(struct ibv_counters *counters)
{
	return caa_container_of(counters, struct urxe_counters, ibv);
}

struct ibv_counters *urxe_create_counters(struct ibv_context *context,
					  struct ibv_counters_init_attr *attr)
{
	struct urxe_counters *c;

	if (urxe_missing(attr))
		return NULL;
	if (attr->comp_mask)
		return urxe_fail(EOPNOTSUPP);
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->ibv.context = context;
	return &c->ibv;
}

int urxe_destroy_counters(struct ibv_counters *counters)
{
	if (atomic_load(&of(counters)->users))
		return EBUSY;
	free(of(counters));
	return 0;
}

int urxe_attach_counters(struct ibv_counters *counters, struct ibv_counter_attach_attr *attr,
			 struct ibv_flow *flow)
{
	struct urxe_counters *c = of(counters);
	uint8_t was = 0;
	int ret;

	if (!attr)
		return EINVAL;
	if (attr->comp_mask || attr->counter_desc > IBV_COUNTER_BYTES)
		return EOPNOTSUPP;
	if (attr->index >= PLACES || (flow && flow->context != counters->context))
		return EINVAL;
	/* Of a flow that was made with them the places stay as they are. */
	if (!flow && atomic_load(&c->users))
		return EBUSY;
	if (!atomic_compare_exchange_strong(&c->places[attr->index], &was,
					    1 + attr->counter_desc) &&
	    was != 1 + attr->counter_desc)
		return EBUSY;
	ret = flow ? urxe_flow_count(flow, counters) : 0;
	if (ret && !was)
		atomic_store(&c->places[attr->index], 0);
	return ret;
}

/* A place that nothing is attached to reads as 0. */
int urxe_read_counters(struct ibv_counters *counters, uint64_t *values, uint32_t n, uint32_t flags)
{
	struct urxe_counters *c = of(counters);

	if (flags & ~IBV_READ_COUNTERS_ATTR_PREFER_CACHED)
		return EOPNOTSUPP;
	if (!values || !n || n > PLACES)
		return EINVAL;
	for (uint32_t i = 0; i < n; i++) {
		switch (atomic_load(&c->places[i])) {
		case 0: values[i] = 0; break;
		case 1 + IBV_COUNTER_BYTES: values[i] = atomic_load(&c->bytes); break;
		default: values[i] = atomic_load(&c->packets);
		}
	}
	return 0;
}

void urxe_counters_use(struct ibv_counters *counters, int n)
{
	atomic_fetch_add(&of(counters)->users, n);
}

void urxe_counters_add(struct ibv_counters *counters, uint64_t bytes)
{
	atomic_fetch_add_explicit(&of(counters)->packets, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&of(counters)->bytes, bytes, memory_order_relaxed);
}
