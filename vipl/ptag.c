// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * VipCreatePtag, VipDestroyPtag: tags, their protection domains, and the pools of buffers in these
 * (memory.h). A pool is one of libmempool: it gives a piece of registered memory in constant time.
 */
#include <errno.h>
#include <stdlib.h>

#include "mempool/mempool.h"
#include "vipl/nic.h"
#include "vipl/object.h"

#define POOL_LIMIT (1ul << 30)
#define POOL_STEP  (2ul << 20)

/* Making pools is rare: one lock for all. */
static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;

int vipl_ptag_lookup(struct vipl_nic *nic, VIP_PROTECTION_HANDLE handle, struct vipl_ptag **ptag)
{
	*ptag = NULL;
	if (!handle)
		return 0;
	*ptag = vipl_handle_lookup(handle, VIPL_KIND_PTAG);
	return *ptag && (*ptag)->nic == nic ? 0 : -EINVAL;
}

struct vipl_domain *vipl_ptag_domain(struct vipl_nic *nic, struct vipl_ptag *ptag)
{
	return ptag ? ptag->domain : &nic->first;
}

static int create_pool(struct vipl_domain *domain)
{
	struct rmempool_attr attr;
	int ret = 0;

	pthread_mutex_lock(&pools_lock);
	if (!domain->pool) {
		rmempool_attr_init(&attr, sizeof(attr));
		attr.bytes = POOL_STEP;
		attr.limit = POOL_LIMIT;
		attr.flags = RMEMPOOL_NO_HUGE | RMEMPOOL_LAZY;
		attr.shared_pd = domain->pd;
		attr.shared_access = RMEMPOOL_LOCAL_WRITE;
		ret = rmempool_create(&attr, &domain->pool);
	}
	pthread_mutex_unlock(&pools_lock);
	return ret;
}

int vipl_buffer_get(struct vipl_domain *domain, size_t length, void **addr, uint32_t *lkey)
{
	struct rmempool_buffer buffer;
	struct rmempool_mr *mr;
	int ret = create_pool(domain);

	if (ret)
		return ret;
	ret = rmempool_alloc(domain->pool, length, 64, &buffer, sizeof(buffer));
	if (ret == -ENOMEM) {
		ret = rmempool_grow(domain->pool, POOL_STEP);
		if (!ret)
			ret = rmempool_alloc(domain->pool, length, 64, &buffer, sizeof(buffer));
	}
	if (ret)
		return ret;
	*addr = buffer.addr;
	*lkey = buffer.lkey;
	if (buffer.lkey)
		return 0;
	/* It lies in two blocks, which have different keys. */
	ret = rmempool_register(domain->pool, domain->pd, buffer.addr, length, RMEMPOOL_LOCAL_WRITE,
				&mr);
	if (ret) {
		rmempool_free(domain->pool, buffer.addr);
		return ret;
	}
	*lkey = mr->lkey;
	return 0;
}

void vipl_buffer_put(struct vipl_domain *domain, void *addr)
{
	rmempool_free(domain->pool, addr);
}

static void close_domain(struct vipl_domain *domain)
{
	if (domain->pool)
		rmempool_destroy(domain->pool);
	if (domain->pd)
		ibv_dealloc_pd(domain->pd);
	domain->pool = NULL;
	domain->pd = NULL;
}

static struct vipl_domain *choose_domain(struct vipl_nic *nic)
{
	struct vipl_domain *domain = &nic->first;

	if (nic->first.tags) {
		domain = calloc(1, sizeof(*domain));
		if (!domain)
			return NULL;
		domain->pd = ibv_alloc_pd(nic->context);
		if (!domain->pd) {
			free(domain);
			return NULL;
		}
	}
	domain->tags++;
	return domain;
}

static void leave_domain(struct vipl_nic *nic, struct vipl_domain *domain)
{
	domain->tags--;
	if (domain == &nic->first)
		return;
	close_domain(domain);
	free(domain);
}

static VIP_RETURN create(struct vipl_nic *nic, VIP_PROTECTION_HANDLE *handle)
{
	struct vipl_ptag *ptag = vipl_object_get(VIPL_KIND_PTAG, sizeof(*ptag));

	if (!ptag)
		return VIP_ERROR_RESOURCE;
	ptag->nic = nic;
	ptag->users = 0;
	ptag->domain = choose_domain(nic);
	if (!ptag->domain)
		goto put;
	ptag->handle = vipl_handle_create(VIPL_KIND_PTAG, ptag);
	if (!ptag->handle)
		goto leave;
	LIST_INSERT_HEAD(&nic->ptags, ptag, link);
	*handle = ptag->handle;
	return VIP_SUCCESS;

leave:
	leave_domain(nic, ptag->domain);
put:
	vipl_object_put(VIPL_KIND_PTAG, ptag);
	return VIP_ERROR_RESOURCE;
}

VIP_RETURN VipCreatePtag(VIP_NIC_HANDLE nic_handle, VIP_PROTECTION_HANDLE *handle)
{
	struct vipl_nic *nic = vipl_nic_lookup(nic_handle);
	VIP_RETURN result;

	if (!nic || !handle)
		return VIP_INVALID_PARAMETER;
	vipl_nic_lock(nic);
	result = create(nic, handle);
	vipl_nic_unlock(nic);
	return result;
}

static void destroy(struct vipl_ptag *ptag)
{
	struct vipl_nic *nic = ptag->nic;

	vipl_handle_destroy(ptag->handle);
	LIST_REMOVE(ptag, link);
	leave_domain(nic, ptag->domain);
	ptag->nic = NULL;
	vipl_object_put(VIPL_KIND_PTAG, ptag);
}

VIP_RETURN VipDestroyPtag(VIP_NIC_HANDLE nic_handle, VIP_PROTECTION_HANDLE handle)
{
	struct vipl_nic *nic = vipl_nic_lookup(nic_handle);
	VIP_RETURN result = VIP_SUCCESS;
	struct vipl_ptag *ptag;

	if (!nic || !handle)
		return VIP_INVALID_PARAMETER;
	vipl_nic_lock(nic);
	if (vipl_ptag_lookup(nic, handle, &ptag))
		result = VIP_INVALID_PARAMETER;
	else if (ptag->users)
		result = VIP_ERROR_RESOURCE;
	else
		destroy(ptag);
	vipl_nic_unlock(nic);
	return result;
}

void vipl_ptags_free(struct vipl_nic *nic)
{
	struct vipl_ptag *ptag;

	while ((ptag = LIST_FIRST(&nic->ptags)))
		destroy(ptag);
	close_domain(&nic->first);
}
