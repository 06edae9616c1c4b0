/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A preload that makes a correct provider wrong in one chosen way, so that a test can see whether
 * `traffic` notices: SABOTAGE=KIND does it to one eligible operation, the AFTER-th (default 20).
 * It hooks the data path where verbs.h's inline functions find it, in the context's operations.
 * Counters are shared by the program's threads and atomic.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/verbs.h>

#define MAX_POSTED (1 << 22) /* so many that hardly ever two share a slot */

static int (*real_poll)(struct ibv_cq *, int, struct ibv_wc *);
static int (*real_send)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
static int (*real_recv)(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **);
static const char *kind;
static unsigned after = 20;
static atomic_uint seen;
/* Where each receive's first byte, and the byte behind its first piece, lie. */
static struct {
	uint8_t *_Atomic first, *_Atomic behind;
} posted[MAX_POSTED];

static bool is(const char *what)
{
	return kind && !strcmp(kind, what);
}

static bool now(void)
{
	return atomic_fetch_add(&seen, 1) + 1 == after;
}

static unsigned slot(uint64_t id, uint32_t qpn)
{
	uint64_t x = (id ^ (uint64_t)qpn << 40) * 0x9e3779b97f4a7c15ull;

	return x >> 32 & (MAX_POSTED - 1);
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	unsigned s = slot(wr->wr_id, qp->qp_num), skip = qp->qp_type == IBV_QPT_UD ? 40 : 0;
	int i;

	/* The first byte of the payload: behind the GRH of a datagram. */
	posted[s].first = NULL;
	for (i = 0; i < wr->num_sge && skip >= wr->sg_list[i].length; i++)
		skip -= wr->sg_list[i].length;
	if (i < wr->num_sge)
		posted[s].first = (uint8_t *)(uintptr_t)wr->sg_list[i].addr + skip;
	if (wr->num_sge)
		posted[s].behind =
			(uint8_t *)(uintptr_t)wr->sg_list[0].addr + wr->sg_list[0].length;
	return real_recv(qp, wr, bad);
}

static bool is_message(const struct ibv_wc *wc)
{
	return wc->status == IBV_WC_SUCCESS && wc->opcode == IBV_WC_RECV &&
	       wc->byte_len > (wc->wc_flags & IBV_WC_GRH ? 40 : 0);
}

/* What is done to a completion; the new number of completions. */
static int spoil(struct ibv_wc *wc, int n, int max)
{
	uint8_t *p = posted[slot(wc->wr_id, wc->qp_num)].first;
	struct ibv_wc other;

	if (is("lost") && now()) {
		memmove(wc, wc + 1, (n - 1) * sizeof(*wc));
		return n - 1;
	}
	if (is("twice") && n < max && now()) {
		memmove(wc + 1, wc, n * sizeof(*wc));
		return n + 1;
	}
	if (is("swapped") && n > 1 && wc[0].qp_num == wc[1].qp_num &&
	    wc[0].opcode == wc[1].opcode && now()) {
		other = wc[0];
		wc[0] = wc[1];
		wc[1] = other;
	}
	if (is("status") && now())
		wc->status = IBV_WC_REM_ACCESS_ERR;
	if (is("opcode") && now())
		wc->opcode ^= 1;
	if (is("qpn") && now())
		wc->qp_num++;
	if (is("imm") && wc->opcode & IBV_WC_RECV && wc->wc_flags & IBV_WC_WITH_IMM && now())
		wc->imm_data ^= 1 << 24;
	if (is("length") && is_message(wc) && now())
		wc->byte_len--;
	if (is("content") && is_message(wc) && p && now())
		*p ^= 0x10;
	if (is("beside") && is_message(wc) && p && now())
		*posted[slot(wc->wr_id, wc->qp_num)].behind ^= 1;
	return n;
}

static int poll_cq(struct ibv_cq *cq, int max, struct ibv_wc *wc)
{
	int n = real_poll(cq, max, wc);

	return n > 0 ? spoil(wc, n, max) : n;
}

static bool rdma(const struct ibv_send_wr *wr)
{
	return (wr->opcode == IBV_WR_RDMA_WRITE || wr->opcode == IBV_WR_RDMA_READ) && wr->num_sge;
}

static void spoil_request(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	bool atomic = wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;

	if (is("write-place") && rdma(wr) && wr->opcode == IBV_WR_RDMA_WRITE && now())
		wr->wr.rdma.remote_addr--;
	if (is("read-place") && rdma(wr) && wr->opcode == IBV_WR_RDMA_READ && now())
		wr->wr.rdma.remote_addr++;
	if (is("write-lost") && rdma(wr) && wr->opcode == IBV_WR_RDMA_WRITE && now())
		wr->num_sge = 0;
	if (is("write-short") && rdma(wr) && wr->opcode == IBV_WR_RDMA_WRITE && now())
		wr->sg_list[wr->num_sge - 1].length--;
	if (is("atomic-twice") && atomic && now())
		wr->wr.atomic.compare_add *= 2;
	if (is("atomic-lost") && atomic && now())
		wr->wr.atomic.compare_add = 0;
	if (is("unasked") && !(wr->send_flags & IBV_SEND_SIGNALED) && now())
		wr->send_flags |= IBV_SEND_SIGNALED;
	/* Not wrong at all: every tenth datagram goes to nobody. */
	if (is("ud-loss") && qp->qp_type == IBV_QPT_UD && atomic_fetch_add(&seen, 1) % 10 == 9)
		wr->wr.ud.remote_qpn = 0xfffffe;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct ibv_send_wr *each;

	for (each = wr; each; each = each->next)
		spoil_request(qp, each);
	return real_send(qp, wr, bad);
}

struct ibv_context *ibv_open_device(struct ibv_device *device);

__attribute__((visibility("default"))) struct ibv_context *
ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *(*next)(struct ibv_device *) = dlsym(RTLD_NEXT, "ibv_open_device");
	struct ibv_context *ctx = next ? next(device) : NULL;

	if (!ctx)
		return NULL;
	kind = getenv("SABOTAGE");
	if (getenv("AFTER"))
		after = atoi(getenv("AFTER"));
	if (ctx->ops.poll_cq == poll_cq)
		return ctx;
	real_poll = ctx->ops.poll_cq;
	real_send = ctx->ops.post_send;
	real_recv = ctx->ops.post_recv;
	ctx->ops.poll_cq = poll_cq;
	ctx->ops.post_send = post_send;
	ctx->ops.post_recv = post_recv;
	return ctx;
}
