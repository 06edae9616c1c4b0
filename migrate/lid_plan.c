// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * LIDs of hosts and guests. A base LID stays its host's while a guest's replaces it, so it counts
 * as taken. Pure functions.
 */
#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/sized.h"
#include "migrate/lid_plan.h"

static_assert(sizeof(struct guid2lid_entry) == 16 && sizeof(struct guid2lid) == 32 &&
		      sizeof(struct lid_host) == 16 && sizeof(struct lid_guest) == 24,
	      "part of the ABI");

/* A bit for each LID. */
struct lids {
	uint64_t bits[1024];
};

static unsigned step_of(const struct lid_plan *plan)
{
	return 1u << plan->lmc;
}

static bool all_free(const struct lids *lids, unsigned lid, unsigned count)
{
	for (; count--; lid++)
		if (lids->bits[lid >> 6] >> (lid & 63) & 1)
			return false;
	return true;
}

static void take(struct lids *lids, unsigned lid, unsigned count)
{
	for (; count--; lid++)
		lids->bits[lid >> 6] |= 1ull << (lid & 63);
}

/* The last LID that every switch forwards. */
static unsigned last_lid(const struct lid_plan *plan)
{
	unsigned last = plan->linear_cap ? plan->linear_cap - 1u : 0;

	return last < GUID2LID_MAX_LID ? last : GUID2LID_MAX_LID;
}

/* Takes all that others have, and returns the last of it. Floating LIDs are guests', whoever shows
 * them. */
static unsigned take_others(const struct lid_plan *plan, struct lids *lids)
{
	unsigned last = 0;

	for (size_t i = 0; i < plan->num_hosts; i++) {
		unsigned end = plan->hosts[i].base + step_of(plan) - 1;

		take(lids, plan->hosts[i].base, step_of(plan));
		last = end > last ? end : last;
	}
	for (size_t i = 0; plan->taken && i < plan->taken->count; i++) {
		const struct guid2lid_entry *e = &plan->taken->entries[i];
		bool host = false;

		for (size_t h = 0; h < plan->num_hosts && !host; h++)
			host = plan->hosts[h].guid == e->guid;
		if (host)
			continue;
		take(lids, e->min, e->max - e->min + 1u);
		last = e->max > last ? e->max : last;
	}
	return last;
}

static void choose_first(struct lid_plan *plan, unsigned last_base)
{
	unsigned step = step_of(plan), most = last_lid(plan);
	unsigned from = plan->floating_from;
	size_t room = plan->room > plan->num_hosts ? plan->room : plan->num_hosts;

	if (!from) {
		from = (last_base + step) & ~(step - 1);
		from += step * (room ? room : 1) - 1;
	}
	if (from > most)
		from = most;
	/* The whole block of a port, not only its first LID. */
	plan->first_floating = from + 1 >= step ? ((from + 1) & ~(step - 1)) - step : 0;
	if (from + 1 < 2 * step)
		plan->first_floating = 0;
}

static int give(struct lid_plan *plan, struct lids *lids, struct lid_guest *guest)
{
	unsigned step = step_of(plan);

	for (unsigned lid = plan->first_floating; lid >= step; lid -= step)
		if (all_free(lids, lid, step)) {
			take(lids, lid, step);
			guest->floating = lid;
			return 0;
		}
	return -ENOSPC;
}

static int keep(const struct lid_plan *plan, struct lids *lids, const struct lid_guest *guest)
{
	unsigned step = step_of(plan);

	if (guest->floating & (step - 1) || guest->floating + step - 1 > last_lid(plan))
		return -EINVAL;
	if (!all_free(lids, guest->floating, step))
		return -ENOSPC;
	take(lids, guest->floating, step);
	return 0;
}

static int place(struct lid_plan *plan, const struct lid_guest *guest)
{
	struct lid_host *host = guest->host == LID_PLAN_NO_HOST ? NULL : &plan->hosts[guest->host];

	if (!host)
		return 0;
	if (host->lid != host->base)
		return -EBUSY;
	host->lid = guest->floating;
	return 0;
}

/* What have floating LIDs keep them, before others choose. */
static int give_all(struct lid_plan *plan, struct lids *lids)
{
	int ret = 0;

	for (size_t i = 0; i < plan->num_guests && !ret; i++) {
		plan->culprit = i;
		if (plan->guests[i].floating)
			ret = keep(plan, lids, &plan->guests[i]);
	}
	for (size_t i = 0; i < plan->num_guests && !ret; i++) {
		plan->culprit = i;
		if (!plan->guests[i].floating)
			ret = give(plan, lids, &plan->guests[i]);
	}
	return ret;
}

static int make(struct lid_plan *plan)
{
	struct lids *lids = calloc(1, sizeof(*lids));
	int ret;

	if (!lids)
		return -ENOMEM;
	choose_first(plan, take_others(plan, lids));
	for (size_t i = 0; i < plan->num_hosts; i++)
		plan->hosts[i].lid = plan->hosts[i].base;
	ret = give_all(plan, lids);
	for (size_t i = 0; i < plan->num_guests && !ret; i++) {
		plan->culprit = i;
		ret = place(plan, &plan->guests[i]);
	}
	free(lids);
	return ret;
}

int lid_plan_make(struct lid_plan *plan)
{
	struct lid_plan known = {0};
	int ret = copy_in(&known, sizeof(known), plan);

	if (ret)
		return ret;
	ret = make(&known);
	known.size = plan->size;
	copy_out(plan, plan->size, &known, sizeof(known));
	return ret;
}

struct guid2lid_entry lid_plan_entry(const struct lid_plan *plan, size_t host)
{
	const struct lid_host *h = &plan->hosts[host];

	return (struct guid2lid_entry){h->guid, h->lid, h->lid + step_of(plan) - 1};
}
