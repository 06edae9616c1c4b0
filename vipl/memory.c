// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * VipRegisterMem and its kin, and the table of regions (memory.h). Changes are made under the NIC's
 * lock, and under memory_lock, under which alone the table is looked up.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "vipl/nic.h"

/* Another region may have the number already, if keys and handles are different things to a device.
 * */
#define TRIES 16

static struct vipl_regions *bucket(struct vipl_nic *nic, VIP_MEM_HANDLE handle)
{
	return &nic->regions[(handle ^ handle >> 8 ^ handle >> 20) % VIPL_REGION_BUCKETS];
}

/* With memory_lock, or the NIC's lock. */
static struct vipl_region *find(struct vipl_nic *nic, VIP_MEM_HANDLE handle)
{
	struct vipl_region *region;

	LIST_FOREACH(region, bucket(nic, handle), link)
	{
		if (region->handle == handle)
			return region;
	}
	return NULL;
}

/* Both the handle and the address must fit. */
static struct vipl_region *find_at(struct vipl_nic *nic, VIP_MEM_HANDLE handle, const void *addr)
{
	struct vipl_region *region = find(nic, handle);

	return region && (uintptr_t)addr - region->addr < region->length ? region : NULL;
}

static bool insert(struct vipl_nic *nic, struct vipl_region *region)
{
	bool fresh;

	owned_lock(&nic->memory_lock);
	fresh = region->handle && !find(nic, region->handle);
	if (fresh)
		LIST_INSERT_HEAD(bucket(nic, region->handle), region, link);
	owned_unlock(&nic->memory_lock);
	return fresh;
}

/* What queues remember of regions is not true any more. */
static void forget(struct vipl_nic *nic)
{
	atomic_fetch_add_explicit(&nic->memory_generation, 1, memory_order_release);
}

static void take_out(struct vipl_nic *nic, struct vipl_region *region)
{
	owned_lock(&nic->memory_lock);
	LIST_REMOVE(region, link);
	forget(nic);
	owned_unlock(&nic->memory_lock);
}

int vipl_memory_access(struct vipl_nic *nic, VIP_MEM_HANDLE handle, struct vipl_ptag *ptag,
		       struct vipl_access *access)
{
	struct vipl_region *region;
	int ret = 0;

	owned_lock(&nic->memory_lock);
	region = find(nic, handle);
	if (!region) {
		owned_unlock(&nic->memory_lock);
		return -ENOENT;
	}
	*access = (struct vipl_access){
		.key = vipl_access_key(handle, atomic_load_explicit(&nic->memory_generation,
								    memory_order_relaxed)),
		.addr = region->addr,
		.length = region->length,
		.lkey = region->mr->lkey,
		.writable = region->writable,
	};
	if (ptag && ptag != region->ptag)
		ret = -EACCES;
	if (!ptag && vipl_ptag_domain(nic, region->ptag) != &nic->first) {
		if (!region->second)
			region->second =
				ibv_reg_mr(nic->first.pd, (void *)region->addr, region->length,
					   region->writable ? IBV_ACCESS_LOCAL_WRITE : 0);
		if (region->second)
			access->lkey = region->second->lkey;
		else
			ret = -EACCES;
	}
	owned_unlock(&nic->memory_lock);
	return ret;
}

static int rights(const VIP_MEM_ATTRIBUTES *attributes, bool writable)
{
	return (writable ? IBV_ACCESS_LOCAL_WRITE : 0) |
	       (attributes->EnableRdmaWrite ? IBV_ACCESS_REMOTE_WRITE : 0) |
	       (attributes->EnableRdmaRead ? IBV_ACCESS_REMOTE_READ : 0);
}

/* Memory that may only be read can be registered as well, to send from. */
static int reg_mr(struct vipl_nic *nic, struct vipl_region *region)
{
	struct ibv_pd *pd = vipl_ptag_domain(nic, region->ptag)->pd;
	void *addr = (void *)region->addr;

	region->writable = true;
	region->mr = ibv_reg_mr(pd, addr, region->length, rights(&region->attributes, true));
	if (!region->mr && !region->attributes.EnableRdmaWrite &&
	    (errno == EFAULT || errno == EACCES || errno == EPERM)) {
		region->writable = false;
		region->mr =
			ibv_reg_mr(pd, addr, region->length, rights(&region->attributes, false));
	}
	if (!region->mr)
		return -errno;
	region->handle = region->mr->rkey ? region->mr->rkey : region->mr->lkey;
	return 0;
}

/* Registers until the number is not another region's; what was in the way is given back afterwards.
 * */
static int reg_region(struct vipl_nic *nic, struct vipl_region *region)
{
	struct ibv_mr *taken[TRIES];
	unsigned count = 0;
	int ret = reg_mr(nic, region);

	while (!ret && !insert(nic, region)) {
		taken[count++] = region->mr;
		ret = count < TRIES ? reg_mr(nic, region) : -ENOSPC;
	}
	while (count)
		ibv_dereg_mr(taken[--count]);
	return ret;
}

/* What the attributes ask of the NIC. */
static VIP_RETURN check(struct vipl_nic *nic, const VIP_MEM_ATTRIBUTES *attributes,
			struct vipl_ptag **ptag)
{
	if (vipl_ptag_lookup(nic, attributes->Ptag, ptag))
		return VIP_INVALID_PTAG;
	if (attributes->EnableRdmaRead && !vipl_nic_read_levels(nic))
		return VIP_INVALID_RDMAREAD;
	return VIP_SUCCESS;
}

static VIP_RETURN create(struct vipl_nic *nic, void *addr, VIP_ULONG length,
			 const VIP_MEM_ATTRIBUTES *attributes, VIP_MEM_HANDLE *handle)
{
	struct vipl_region *region;
	struct vipl_ptag *ptag;
	VIP_RETURN result = check(nic, attributes, &ptag);

	if (result)
		return result;
	region = calloc(1, sizeof(*region));
	if (!region)
		return VIP_ERROR_RESOURCE;
	region->addr = (uintptr_t)addr;
	region->length = length;
	region->attributes = *attributes;
	region->ptag = ptag;
	if (reg_region(nic, region)) {
		free(region);
		return VIP_ERROR_RESOURCE;
	}
	if (ptag)
		ptag->users++;
	*handle = region->handle;
	return VIP_SUCCESS;
}

VIP_RETURN VipRegisterMem(VIP_NIC_HANDLE nic_handle, VIP_PVOID addr, VIP_ULONG length,
			  VIP_MEM_ATTRIBUTES *attributes, VIP_MEM_HANDLE *handle)
{
	static const VIP_MEM_ATTRIBUTES none;
	struct vipl_nic *nic = vipl_nic_lookup(nic_handle);
	VIP_RETURN result;

	if (handle)
		*handle = 0;
	if (!nic || !handle || !addr || !length || (uintptr_t)addr + length < (uintptr_t)addr)
		return VIP_INVALID_PARAMETER;
	vipl_nic_lock(nic);
	result = create(nic, addr, length, attributes ? attributes : &none, handle);
	vipl_nic_unlock(nic);
	return result;
}

static void destroy(struct vipl_nic *nic, struct vipl_region *region)
{
	take_out(nic, region);
	if (region->second)
		ibv_dereg_mr(region->second);
	if (region->mr)
		ibv_dereg_mr(region->mr);
	if (region->ptag)
		region->ptag->users--;
	free(region);
}

VIP_RETURN VipDeregisterMem(VIP_NIC_HANDLE nic_handle, VIP_PVOID addr, VIP_MEM_HANDLE handle)
{
	struct vipl_nic *nic = vipl_nic_lookup(nic_handle);
	struct vipl_region *region;

	if (!nic)
		return VIP_INVALID_PARAMETER;
	vipl_nic_lock(nic);
	region = find_at(nic, handle, addr);
	if (region)
		destroy(nic, region);
	vipl_nic_unlock(nic);
	return region ? VIP_SUCCESS : VIP_INVALID_PARAMETER;
}

VIP_RETURN VipQueryMem(VIP_NIC_HANDLE nic_handle, VIP_PVOID addr, VIP_MEM_HANDLE handle,
		       VIP_MEM_ATTRIBUTES *attributes)
{
	struct vipl_nic *nic = vipl_nic_lookup(nic_handle);
	struct vipl_region *region;

	if (!nic || !attributes)
		return VIP_INVALID_PARAMETER;
	vipl_nic_lock(nic);
	region = find_at(nic, handle, addr);
	if (region)
		*attributes = region->attributes;
	vipl_nic_unlock(nic);
	return region ? VIP_SUCCESS : VIP_INVALID_PARAMETER;
}

/*
 * Where a device cannot change a registration, or would give it another R_Key, rights can still be
 * taken away: by a registration without remote rights, whose keys nobody learns.
 */
static int make_local(struct vipl_region *region, struct ibv_pd *pd)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, (void *)region->addr, region->length,
				       region->writable ? IBV_ACCESS_LOCAL_WRITE : 0);

	if (!mr)
		return -errno;
	ibv_dereg_mr(region->mr);
	region->mr = mr;
	return 0;
}

static int change_mr(struct vipl_nic *nic, struct vipl_region *region, struct vipl_ptag *ptag,
		     const VIP_MEM_ATTRIBUTES *attributes)
{
	struct ibv_pd *pd = vipl_ptag_domain(nic, ptag)->pd;
	bool local = !attributes->EnableRdmaWrite && !attributes->EnableRdmaRead;
	int access = rights(attributes, region->writable);
	int flags = IBV_REREG_MR_CHANGE_ACCESS;

	if (access == rights(&region->attributes, region->writable) && pd == region->mr->pd)
		return 0;
	if (!region->writable && attributes->EnableRdmaWrite)
		return -EACCES;
	if (pd != region->mr->pd)
		flags |= IBV_REREG_MR_CHANGE_PD;
	/* Without remote rights, too: a registration that keeps its R_Key can have them again. */
	if (region->mr->rkey == region->handle &&
	    !ibv_rereg_mr(region->mr, flags, pd, NULL, 0, access) &&
	    region->mr->rkey == region->handle)
		return 0;
	return local ? make_local(region, pd) : -EOPNOTSUPP;
}

static VIP_RETURN change(struct vipl_nic *nic, struct vipl_region *region,
			 const VIP_MEM_ATTRIBUTES *attributes)
{
	struct vipl_ptag *ptag;
	VIP_RETURN result = check(nic, attributes, &ptag);
	int ret;

	if (result)
		return result;
	owned_lock(&nic->memory_lock);
	ret = change_mr(nic, region, ptag, attributes);
	if (!ret) {
		if (region->second && vipl_ptag_domain(nic, ptag) == &nic->first) {
			ibv_dereg_mr(region->second);
			region->second = NULL;
		}
		if (ptag)
			ptag->users++;
		if (region->ptag)
			region->ptag->users--;
		region->ptag = ptag;
		region->attributes = *attributes;
	}
	forget(nic);
	owned_unlock(&nic->memory_lock);
	return ret ? VIP_ERROR_RESOURCE : VIP_SUCCESS;
}

VIP_RETURN VipSetMemAttributes(VIP_NIC_HANDLE nic_handle, VIP_PVOID addr, VIP_MEM_HANDLE handle,
			       VIP_MEM_ATTRIBUTES *attributes)
{
	struct vipl_nic *nic = vipl_nic_lookup(nic_handle);
	VIP_RETURN result = VIP_INVALID_PARAMETER;
	struct vipl_region *region;

	if (!nic || !attributes)
		return VIP_INVALID_PARAMETER;
	vipl_nic_lock(nic);
	region = find_at(nic, handle, addr);
	if (region)
		result = change(nic, region, attributes);
	vipl_nic_unlock(nic);
	return result;
}

int vipl_memory_init(struct vipl_nic *nic)
{
	nic->regions = calloc(VIPL_REGION_BUCKETS, sizeof(*nic->regions));
	if (!nic->regions)
		return -ENOMEM;
	nic->first.pd = ibv_alloc_pd(nic->context);
	return nic->first.pd ? 0 : -errno;
}

void vipl_memory_fini(struct vipl_nic *nic)
{
	struct vipl_region *region;

	for (unsigned i = 0; nic->regions && i < VIPL_REGION_BUCKETS; i++) {
		while ((region = LIST_FIRST(&nic->regions[i])))
			destroy(nic, region);
	}
	free(nic->regions);
	nic->regions = NULL;
	vipl_ptags_free(nic);
}
