/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Ids in ADDR_QUERY: they wait for the kernel to find the neighbour that packets to their
 * destination go to, as in rdma_cm (rdma_resolve_addr(3)). It is asked after 1 ms, and then at
 * growing intervals, until the program's time is over. Where the neighbour is known already, which
 * is nearly always, no id comes here. Under the engine lock; what asks is the manager's timer
 * (manager.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/id.h"
#include "hca/adapter.h"

#define MS	     1000000ull
#define INTERVAL_MAX (64 * MS)

struct urxe_id_query {
	struct cds_list_head node;
	struct urxe_id *id;
	struct urxe_source found;
	uint64_t at, until, interval; /* ns */
};

static CDS_LIST_HEAD(queries);
static uint64_t soonest = UINT64_MAX;

static void arm(struct urxe_id_query *query, uint64_t now)
{
	query->at = now + query->interval < query->until ? now + query->interval : query->until;
	if (query->at < soonest)
		soonest = query->at;
	if (query->interval < INTERVAL_MAX)
		query->interval *= 2;
}

int urxe_id_query_start(struct urxe_id *id, const struct urxe_source *found, uint32_t timeout_ms)
{
	struct urxe_id_query *query = calloc(1, sizeof(*query));

	if (!query)
		return -ENOMEM;
	urxe_adapter_clock();
	*query = (struct urxe_id_query){.id = id,
					.found = *found,
					.until = urxe_adapter_now() + timeout_ms * MS,
					.interval = MS};
	id->query = query;
	id->state = URXE_ID_ADDR_QUERY;
	cds_list_add_tail(&query->node, &queries);
	arm(query, urxe_adapter_now());
	return 0;
}

void urxe_id_query_stop(struct urxe_id *id)
{
	if (!id->query)
		return;
	cds_list_del(&id->query->node);
	free(id->query);
	id->query = NULL;
}

uint64_t urxe_id_query_deadline(void)
{
	return cds_list_empty(&queries) ? UINT64_MAX : soonest;
}

static void end(struct urxe_id *id, const struct urxe_source *found, int error)
{
	bool gone = found->port && urxe_port_is_gone(found->port);

	if (!error && gone)
		error = -ENODEV;
	if (error) {
		id->state = URXE_ID_ADDR_BOUND;
		urxe_id_report(id, URXE_EVENT_ADDR_ERROR, error);
	} else {
		urxe_id_resolved(id, found);
	}
}

/* The address last asked for, and the kernel's answer: many ids may wait for the same neighbour. */
struct asked {
	union urxe_sockaddr src, dst;
	int answer;
};

static int ask(struct asked *asked, const struct urxe_id_query *query)
{
	const union urxe_sockaddr *dst = &query->id->dst;
	struct in6_addr a, b;
	bool same;

	urxe_sockaddr_in6(dst, &a);
	urxe_sockaddr_in6(&asked->dst, &b);
	same = asked->dst.family == dst->family && !memcmp(&a, &b, sizeof(a)) &&
	       !memcmp(&asked->src, &query->found.addr, sizeof(asked->src));
	if (!same) {
		asked->dst = *dst;
		asked->src = query->found.addr;
		asked->answer = urxe_address_look(&query->found.addr, dst);
	}
	return asked->answer;
}

static void run_one(struct urxe_id_query *query, struct asked *asked, uint64_t now)
{
	struct urxe_source found = query->found;
	struct urxe_id *id = query->id;
	int ret = ask(asked, query);

	if (ret && now < query->until) {
		arm(query, now);
		return;
	}
	urxe_id_query_stop(id);
	end(id, &found, ret ? -ETIMEDOUT : 0);
}

void urxe_id_query_run(uint64_t now)
{
	struct urxe_id_query *query, *next;
	struct asked asked = {0};

	if (urxe_id_query_deadline() > now)
		return;
	soonest = UINT64_MAX;
	cds_list_for_each_entry_safe (query, next, &queries, node) {
		if (query->at <= now)
			run_one(query, &asked, now);
		else if (query->at < soonest)
			soonest = query->at;
	}
}

void urxe_id_query_forked(void)
{
	CDS_INIT_LIST_HEAD(&queries);
	soonest = UINT64_MAX;
}
