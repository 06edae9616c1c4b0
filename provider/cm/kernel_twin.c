/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Which of our handles goes with a handle of the kernel's, for the ids and multicast memberships
 * that have a twin there: a hash table by the kernel's handle, which is a small number, unique on
 * the machine. Everything under the engine lock.
 */
#include "cm/kernel.h"

#define BUCKETS 1024

static struct cds_list_head buckets[BUCKETS];

static struct cds_list_head *bucket_of(uint32_t kernel)
{
	struct cds_list_head *bucket = &buckets[kernel % BUCKETS];

	if (!bucket->next)
		CDS_INIT_LIST_HEAD(bucket);
	return bucket;
}

void urxe_twin_set(struct urxe_twin *twin, enum urxe_handle_kind kind, uint32_t kernel,
		   uint32_t handle)
{
	twin->kind = kind;
	twin->kernel = kernel;
	twin->handle = handle;
	cds_list_add(&twin->node, bucket_of(kernel));
}

void urxe_twin_drop(struct urxe_twin *twin)
{
	if (twin->kind)
		cds_list_del(&twin->node);
	twin->kind = 0;
}

uint32_t urxe_twin_find(enum urxe_handle_kind kind, uint32_t kernel)
{
	const struct urxe_twin *twin;

	cds_list_for_each_entry (twin, bucket_of(kernel), node)
		if (twin->kernel == kernel && twin->kind == kind)
			return twin->handle;
	return UINT32_MAX;
}

void urxe_twin_forked(void)
{
	for (unsigned i = 0; i < BUCKETS; i++)
		buckets[i].next = NULL;
}
