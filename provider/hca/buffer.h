/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The memory of work queues and completion queues: the heap's, or what the allocator of a parent
 * domain gives (ibv_alloc_parent_domain(3)). Any thread, without a lock: an allocator is the
 * program's.
 */
#ifndef URXE_HCA_BUFFER_H
#define URXE_HCA_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <infiniband/verbs.h>

/* The resource_type that an allocator gets; urxe(7) names them. */
enum urxe_buffer_type {
	URXE_BUFFER_SEND_QUEUE = 1,
	URXE_BUFFER_RECV_QUEUE,
	URXE_BUFFER_SRQ,
	URXE_BUFFER_CQ,
};

/* What an allocation is aligned to. */
#define URXE_BUFFER_ALIGN 64

/*
 * Memory of any content, or NULL: there is none. *custom: the allocator of pd gave it. pd may be
 * NULL, and any domain.
 */
void *urxe_buffer_alloc(struct ibv_pd *pd, size_t size, enum urxe_buffer_type type, bool *custom);
/* at may be NULL. pd, type and custom as they were. */
void urxe_buffer_free(struct ibv_pd *pd, void *at, enum urxe_buffer_type type, bool custom);

#endif
