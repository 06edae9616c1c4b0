/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <sys/mman.h>
#include <unistd.h>

#include "hca/engine.h"
#include "hca/memory.h"
#include "host/mutex.h"
#include "mempool/row.h"

URXE_MUTEX(urxe_regions_lock);

#define WRITES (RMEMPOOL_LOCAL_WRITE | RMEMPOOL_REMOTE_WRITE | RMEMPOOL_REMOTE_ATOMIC)

/* Brings pages in as a device's page fault would; false when there are none to bring. */
static bool fault_in(uint64_t va, uint64_t length, bool write)
{
	uint64_t page = sysconf(_SC_PAGESIZE), start = va & ~(page - 1);

	if (!length)
		return true;
	return !madvise((void *)(uintptr_t)start, va + length - start,
			write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
}

/* The numbers of the protection domain and the QP that ask. */
struct asker {
	uint32_t pd, qpn;
};

static __attribute__((noinline)) bool reach_any(struct asker by, uint32_t key, uint64_t addr,
						uint64_t length, uint32_t rights, bool remote,
						uint64_t *va)
{
	enum rmempool_verdict verdict;

	verdict = mempool_table_match(urxe_hca.table, key, by.pd, by.qpn, addr, length,
				      rights | URXE_RESIDENT, remote, va);
	if (verdict != RMEMPOOL_NO_RIGHTS)
		return verdict == RMEMPOOL_OK;
	verdict = mempool_table_match(urxe_hca.table, key, by.pd, by.qpn, addr, length, rights,
				      remote, va);
	if (verdict != RMEMPOOL_OK)
		return false;
	if (mempool_table_match(urxe_hca.table, key, by.pd, by.qpn, addr, length,
				rights | URXE_NULL, remote, va) == RMEMPOOL_OK) {
		*va = (uintptr_t)urxe_null_memory(rights & WRITES);
		return true;
	}
	return fault_in(*va, length, rights & WRITES);
}

static bool reach(struct asker by, uint32_t key, uint64_t addr, uint64_t length, uint32_t rights,
		  bool remote, uint64_t *va)
{
	return mempool_match_plain(urxe_hca.table, key, by.pd, addr, length, rights | URXE_RESIDENT,
				   va) ||
	       reach_any(by, key, addr, length, rights, remote, va);
}

/* receive: for a buffer of the QP's SRQ, if it has one. */
static struct asker asker_of(const struct urxe_qp *qp, bool receive)
{
	const struct urxe_pd *pd = receive && qp->srq ? to_pd(qp->srq->ibv.pd) : qp->pd;

	return (struct asker){pd->number, qp->proto.qpn};
}

bool urxe_reach(const struct urxe_qp *qp, uint32_t key, uint64_t addr, uint64_t length,
		uint32_t rights, bool remote, uint64_t *va)
{
	return reach(asker_of(qp, false), key, addr, length, rights, remote, va);
}

bool urxe_reach_own(const struct urxe_qp *qp, const struct urxe_send_wqe *wqe, uint32_t key,
		    uint64_t addr, uint64_t length, uint32_t rights, uint64_t *va)
{
	if (wqe->tm == URXE_TM_READ)
		return urxe_reach_receive(qp, key, addr, length, va);
	return urxe_reach(qp, key, addr, length, rights, false, va);
}

bool urxe_reach_receive(const struct urxe_qp *qp, uint32_t key, uint64_t addr, uint64_t length,
			uint64_t *va)
{
	return reach(asker_of(qp, true), key, addr, length, RMEMPOOL_LOCAL_WRITE, false, va);
}

/* The pieces of [offset, offset + len) of what num SGEs have together; -1: not
 * all of it may be reached. */
static int many_pieces(struct asker by, const struct ibv_sge *sge, unsigned num, uint32_t offset,
		       uint32_t len, uint32_t rights, struct iovec *iov)
{
	int n = 0;

	for (; num && len; num--, sge++) {
		uint32_t piece;
		uint64_t va;

		if (offset >= sge->length) {
			offset -= sge->length;
			continue;
		}
		piece = sge->length - offset < len ? sge->length - offset : len;
		if (!reach(by, sge->lkey, sge->addr + offset, piece, rights, false, &va))
			return -1;
		iov[n++] = (struct iovec){(void *)(uintptr_t)va, piece};
		len -= piece;
		offset = 0;
	}
	return n;
}

/* Apart, so that the usual way is short: what lies in one piece. */
static __attribute__((noinline)) int gather_many(struct urxe_qp *qp,
						 const struct urxe_send_wqe *wqe, uint32_t offset,
						 uint32_t len, uint32_t rights, struct iovec *iov)
{
	return many_pieces(asker_of(qp, wqe->tm == URXE_TM_READ), wqe->sge, wqe->num_sge, offset,
			   len, rights, iov);
}

int urxe_gather(struct urxe_qp *qp, const struct urxe_send_wqe *wqe, uint32_t offset, uint32_t len,
		uint32_t rights, struct iovec *iov)
{
	const struct ibv_sge *sge = wqe->sge;
	uint64_t va;

	if (!len)
		return 0;
	if (wqe->inlined) {
		va = (uintptr_t)sge + offset;
	} else {
		if (offset >= sge->length || len > sge->length - offset)
			return gather_many(qp, wqe, offset, len, rights, iov);
		if (!urxe_reach_own(qp, wqe, sge->lkey, sge->addr + offset, len, rights, &va))
			return -1;
	}
	iov->iov_base = (void *)(uintptr_t)va;
	iov->iov_len = len;
	return 1;
}

int urxe_gather_receive(struct urxe_qp *qp, uint32_t offset, uint32_t len, struct iovec *iov)
{
	const struct ibv_sge *sge = qp->recv_wqe->sge;
	uint64_t va;

	if (!len || offset >= sge->length || len > sge->length - offset)
		return many_pieces(asker_of(qp, true), sge, qp->recv_wqe->num_sge, offset, len,
				   RMEMPOOL_LOCAL_WRITE, iov);
	if (!urxe_reach_receive(qp, sge->lkey, sge->addr + offset, len, &va))
		return -1;
	iov->iov_base = (void *)(uintptr_t)va;
	iov->iov_len = len;
	return 1;
}
