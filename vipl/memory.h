/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Protection tags and registered memory.
 *
 * A tag is a protection domain of the device, so that what a peer may reach is checked where it
 * arrives. The NIC handle's first tag shares the domain of VIs that have none, because a VI
 * without a tag may use memory of any: programs run that way. Memory of further tags gets, when a
 * VI without a tag first uses it, a second registration in that domain, for local use.
 *
 * A region's handle is the number that the peer names, hence its R_Key, or its L_Key where it has
 * none. A table of the NIC handle finds a region by it, under memory_lock. A queue keeps copies of
 * what it used last (struct vipl_access) that hold as long as memory_generation has not moved.
 */
#ifndef VIPL_MEMORY_H
#define VIPL_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <infiniband/verbs.h>

#include "vipl/vipl.h"

struct vipl_nic;
struct rmempool;

/* A protection domain, and the buffers in it. */
struct vipl_domain {
	struct ibv_pd *pd;
	struct rmempool *pool; /* made when first needed, under the NIC's lock */
	unsigned tags;	       /* how many use it */
};

struct vipl_ptag {
	LIST_ENTRY(vipl_ptag) link;
	void *handle;
	struct vipl_nic *nic;
	struct vipl_domain *domain;
	unsigned users; /* VIs and regions */
};

struct vipl_region {
	LIST_ENTRY(vipl_region) link;
	VIP_MEM_HANDLE handle;
	uint64_t addr, length;
	VIP_MEM_ATTRIBUTES attributes;
	struct vipl_ptag *ptag; /* NULL: none */
	struct ibv_mr *mr;
	struct ibv_mr *second; /* in the domain of VIs without a tag */
	bool writable;
};

#define VIPL_REGION_BUCKETS 4096
LIST_HEAD(vipl_regions, vipl_region);

/* A region that a queue may use. All zero: none; then nothing is within it. */
struct vipl_access {
	uint64_t key; /* vipl_access_key() */
	uint64_t addr, length;
	uint32_t lkey;
	bool writable;
};

/* A handle, and the memory_generation with which the rest is true. */
static inline uint64_t vipl_access_key(VIP_MEM_HANDLE handle, uint32_t generation)
{
	return handle | (uint64_t)generation << 32;
}

static inline bool vipl_access_covers(const struct vipl_access *access, uint64_t addr,
				      uint64_t length)
{
	return length <= access->length && addr - access->addr <= access->length - length;
}

/*
 * Looks a region up for a VI with that tag (NULL: none). 0; -ENOENT: there is no such region;
 * -EACCES: it is not for that VI. Called with the lock of a queue at most.
 */
int vipl_memory_access(struct vipl_nic *nic, VIP_MEM_HANDLE handle, struct vipl_ptag *ptag,
		       struct vipl_access *access);

/* The tag behind a handle, of this NIC; NULL is none and valid. -EINVAL. */
int vipl_ptag_lookup(struct vipl_nic *nic, VIP_PROTECTION_HANDLE handle, struct vipl_ptag **ptag);
struct vipl_domain *vipl_ptag_domain(struct vipl_nic *nic, struct vipl_ptag *ptag);

/* A buffer of a domain's pool; -ENOMEM. May be called with the lock of a queue. */
int vipl_buffer_get(struct vipl_domain *domain, size_t length, void **addr, uint32_t *lkey);
void vipl_buffer_put(struct vipl_domain *domain, void *addr);

/* All tags that are left, and the domain of VIs that have none. */
void vipl_ptags_free(struct vipl_nic *nic);

int vipl_memory_init(struct vipl_nic *nic);
void vipl_memory_fini(struct vipl_nic *nic);

#endif
