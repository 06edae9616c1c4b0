/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The engine's way to memory by key: the registration table's two questions, and care
 * for memory that may not be there. Under the engine lock; but for the lock of the
 * verbs that write to the table.
 */
#ifndef URXE_HCA_MEMORY_H
#define URXE_HCA_MEMORY_H

#include <pthread.h>
#include <sys/uio.h>

#include "hca/hca.h"

/*
 * A right that every region has but those registered on demand: their pages may be missing or
 * protected, so they are brought in, or found missing, before they are touched.
 */
#define URXE_RESIDENT (1u << 8)

/* A right of null regions (null_mr.c), and where they are read and written. */
#define URXE_NULL (1u << 9)
void *urxe_null_memory(bool write);
struct ibv_mr *urxe_alloc_null_mr(struct ibv_pd *pd);
/* mr.c: a region of no memory; NULL and errno. */
struct ibv_mr *urxe_mr_enter_null(struct ibv_pd *pd);

/*
 * Writers of the registration table, and the lists of regions of all contexts. Below the engine
 * lock, above no other.
 */
extern pthread_mutex_t urxe_regions_lock;

/*
 * May QP qp reach [addr, addr + length) by key, with all of rights, and where is it? remote: the
 * key came in a packet. On success *va may be read, and written if a write right was asked for.
 */
bool urxe_reach(const struct urxe_qp *qp, uint32_t key, uint64_t addr, uint64_t length,
		uint32_t rights, bool remote, uint64_t *va);

/* The same for a receive buffer: an SRQ's is of the SRQ's protection domain, not of the QP's. */
bool urxe_reach_receive(const struct urxe_qp *qp, uint32_t key, uint64_t addr, uint64_t length,
			uint64_t *va);

/* The same for a send WR's own data: a tag matching SRQ's read writes to a receive buffer. */
bool urxe_reach_own(const struct urxe_qp *qp, const struct urxe_send_wqe *wqe, uint32_t key,
		    uint64_t addr, uint64_t length, uint32_t rights, uint64_t *va);

/*
 * Finds len bytes at offset of a WR's data, as pieces of our memory: how many (URXE_MAX_SGE at
 * most), or -1 when not all of them may be reached with these rights.
 */
int urxe_gather(struct urxe_qp *qp, const struct urxe_send_wqe *wqe, uint32_t offset, uint32_t len,
		uint32_t rights, struct iovec *iov);
/* The same for the buffer of the message that comes in, which has so many bytes there. */
int urxe_gather_receive(struct urxe_qp *qp, uint32_t offset, uint32_t len, struct iovec *iov);

/* The standard's atomics are the CPU's: what was there. */
static inline uint64_t urxe_atomic(uint64_t va, bool add, uint64_t compare_add, uint64_t swap)
{
	uint64_t *at = (uint64_t *)(uintptr_t)va, was = compare_add;

	if (add)
		return __atomic_fetch_add(at, compare_add, __ATOMIC_SEQ_CST);
	__atomic_compare_exchange_n(at, &was, swap, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return was;
}

/* copy.c: the last bytes appear after the others, and 2, 4 and 8 bytes that
 * are aligned there at once. */
void urxe_copy_visible(void *dst, const void *src, size_t len);

#endif
