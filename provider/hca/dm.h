/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Device memory: where it lies, and its operations in a context's table. */
#ifndef URXE_HCA_DM_H
#define URXE_HCA_DM_H

#include "hca/hca.h"

struct urxe_dm {
	struct ibv_dm ibv;
	unsigned forks;
	uint8_t *addr;
	uint64_t length;
	struct urxe_use regions;
};

struct ibv_dm *urxe_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
int urxe_free_dm(struct ibv_dm *dm);
struct ibv_mr *urxe_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
			      unsigned access);

static inline struct urxe_dm *to_dm(struct ibv_dm *dm)
{
	return caa_container_of(dm, struct urxe_dm, ibv);
}

#endif
