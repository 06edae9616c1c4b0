// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * libFuzzer target for the engine: packets that a peer, or anyone who can send to the port, may
 * make up, into QPs of every service and state, between the program's own posts, polls and state
 * changes.
 *
 * The adapter is whole but for its edges, which are here: a wire that keeps what is sent, a clock
 * that the input moves, numbers in place of the host segment. So a run depends on its input alone.
 *
 * An input is a sequence of commands, a byte each with its arguments behind it:
 *
 *	0-4	a packet: QP, flags, PSN offset, key, address offset, length, bytes from the BTH on
 *	5	a path to migrate to is loaded, armed or taken: QP, how
 *	6	the oldest packet sent is delivered; 7: lost; 8: delivered twice
 *	9	a send WR: QP, opcode, length, key, offset
 *	10	a receive WR: QP or SRQ, length, key
 *	11	a QP goes to another state
 *	12	time passes
 *	13	all CQs are polled
 *	14	a memory window is bound, or invalidated
 *	15	the peers become neighbours or none, their memory can be read or not, acknowledgements wait
 *
 * What must hold: no access outside of regions (they are allocations of their own, so ASan sees a
 * byte too far), regions that the peer may not write to stay as they are, every posted WR is
 * completed at most once, and the windows towards peers balance. Each input is run twice, with the
 * short ways for small messages and without them: packets, completions and QPs must be the same at
 * each step.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_edges.h"
#include "hca/device.h"
#include "hca/engine.h"
#include "hca/service.h"
#include "hca/xrc.h"

/* ---- a wire without messages ---- */

int urxe_wire_create(struct urxe_segment *seg, struct urxe_wire **w)
{
	*w = (struct urxe_wire *)&edges.device;
	return 0;
}

int urxe_wire_send_message(struct urxe_wire *w, unsigned slot, const void *message, uint32_t len)
{
	return -ESRCH;
}

void urxe_wire_on_message(struct urxe_wire *w, urxe_wire_message_fn *fn)
{
}

int urxe_wire_forward(struct urxe_wire *w, unsigned slot, const struct urxe_rx_packet *rx)
{
	return -ESRCH;
}

int urxe_wire_forward_all(struct urxe_wire *w, const struct urxe_rx_packet *rx)
{
	return 0;
}

/* ---- the adapter's objects ---- */

enum {
	RC_A,
	RC_B,
	RC_SRQ,
	RC_RTR,
	RC_INIT,
	RC_ERR,
	RC_SQD,
	UC_A,
	UC_B,
	UD_A,
	UD_B,
	XRC_A,
	XRC_B,
	QPS
};

/* Regions: what a peer may do, and what the program may. SECRET is of another PD. */
enum { ALL, WRITE, READ, LOCAL, CONSTANT, SECRET, REGIONS };

#define FILL(region) (0x70 + (region)) /* what it holds; all differ, so that a copy is seen */
#define POSTED_MAX   4096

static const struct {
	uint32_t length;
	int access;
} regions[REGIONS] = {
	[ALL] = {40000, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND},
	[WRITE] = {300, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE},
	[READ] = {40000, IBV_ACCESS_REMOTE_READ},
	[LOCAL] = {2000, IBV_ACCESS_LOCAL_WRITE},
	[CONSTANT] = {64, 0},
	[SECRET] = {512, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ},
};

static struct ibv_context *ctx;
static struct ibv_pd *pd, *other_pd;
static struct ibv_cq *cq, *small_cq;
static struct ibv_srq *srq, *xrc_srq;
static struct ibv_xrcd *xrcd;
static uint32_t xrc_srqn;
static struct ibv_qp *qps[QPS];
static struct ibv_mr *mrs[REGIONS];
static uint8_t *memory[REGIONS];
static struct ibv_mw *mw;
static struct ibv_ah *ah;
static uint64_t next_id;
static bool outstanding[POSTED_MAX];

static enum ibv_qp_type type_of(unsigned i)
{
	if (i >= XRC_A)
		return i == XRC_A ? IBV_QPT_XRC_SEND : IBV_QPT_XRC_RECV;
	return i < UC_A ? IBV_QPT_RC : i < UD_A ? IBV_QPT_UC : IBV_QPT_UD;
}

/* Whom it is connected with: A and B with each other, all else with itself. */
static unsigned peer_of(unsigned i)
{
	static const unsigned peers[QPS] = {RC_B, RC_A, RC_SRQ, RC_RTR, RC_INIT, RC_ERR, RC_SQD,
					    UC_B, UC_A, UD_B,	UD_A,	XRC_B,	 XRC_A};

	return peers[i];
}

static struct ibv_ah_attr av(void)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};

	attr.grh.dgid = edges.port.gids[0];
	return attr;
}

static int bring_to(unsigned i, enum ibv_qp_state state)
{
	enum ibv_qp_type type = type_of(i);
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask = IBV_QP_STATE;

	switch (state) {
	case IBV_QPS_INIT:
		attr.port_num = 1;
		attr.qkey = 7;
		attr.qp_access_flags =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
		mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT;
		mask |= type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
		break;
	case IBV_QPS_RTR:
		attr.path_mtu = IBV_MTU_256;
		attr.dest_qp_num = qps[peer_of(i)]->qp_num;
		attr.rq_psn = 0xfffff0; /* soon to wrap */
		attr.max_dest_rd_atomic = 3;
		attr.min_rnr_timer = 1;
		attr.ah_attr = av();
		if (type != IBV_QPT_UD)
			mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
		if (type != IBV_QPT_UC && type != IBV_QPT_UD)
			mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		break;
	case IBV_QPS_RTS:
		attr.sq_psn = 0xfffff0;
		attr.timeout = 10;
		attr.retry_cnt = 2;
		attr.rnr_retry = 2;
		attr.max_rd_atomic = 3;
		if (atomic_load(&to_qp(qps[i])->proto.state) == IBV_QPS_RTR)
			mask |= IBV_QP_SQ_PSN;
		if (mask & IBV_QP_SQ_PSN && type != IBV_QPT_UC && type != IBV_QPT_UD)
			mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				IBV_QP_MAX_QP_RD_ATOMIC;
		break;
	default: break;
	}
	return urxe_modify_qp(qps[i], &attr, mask);
}

static struct ibv_qp *make_target(void)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};

	return urxe_create_qp_ex(ctx, &init);
}

/* Its SRQ has the same number in each run. */
static void make_domain(void)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask =
						  IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					  .fd = -1,
					  .oflags = O_CREAT};
	struct ibv_srq_init_attr_ex srq_attr = {
		.attr = {.max_wr = 8, .max_sge = 3},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = pd,
		.cq = cq,
	};

	urxe_xrc_forked();
	CHECK(xrcd = srq_attr.xrcd = urxe_open_xrcd(ctx, &attr));
	CHECK(xrc_srq = urxe_create_srq_ex(ctx, &srq_attr));
	CHECK(!urxe_get_srq_num(xrc_srq, &xrc_srqn));
}

static void make_qps(void)
{
	static const enum ibv_qp_state targets[QPS] = {
		IBV_QPS_RTS, IBV_QPS_RTS, IBV_QPS_RTS, IBV_QPS_RTR, IBV_QPS_INIT,
		IBV_QPS_ERR, IBV_QPS_SQD, IBV_QPS_RTS, IBV_QPS_RTS, IBV_QPS_RTS,
		IBV_QPS_RTS, IBV_QPS_RTS, IBV_QPS_RTS,
	};

	for (unsigned i = 0; i < QPS; i++) {
		struct ibv_qp_init_attr init = {
			.qp_type = type_of(i),
			.send_cq = cq,
			.recv_cq = i == UC_B ? small_cq : cq,
			.srq = i == RC_SRQ || i == UD_B ? srq : NULL,
			.sq_sig_all = i % 2,
			.cap = {.max_send_wr = 8,
				.max_recv_wr = 8,
				.max_send_sge = 3,
				.max_recv_sge = 3,
				.max_inline_data = 32},
		};

		CHECK(qps[i] = i == XRC_B ? make_target() : urxe_create_qp(pd, &init));
	}
	for (unsigned i = 0; i < QPS; i++) {
		for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++)
			if ((int)targets[i] >= state)
				CHECK(!bring_to(i, state));
		if (targets[i] > IBV_QPS_RTS)
			CHECK(!bring_to(i, targets[i]));
	}
}

static void begin(void)
{
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 8, .max_sge = 3}};
	struct ibv_ah_attr attr;

	edges_begin();
	next_id = 0;
	memset(outstanding, 0, sizeof(outstanding));
	ctx = edges_open();
	CHECK(pd = urxe_alloc_pd(ctx));
	CHECK(other_pd = urxe_alloc_pd(ctx));
	CHECK(cq = urxe_create_cq(ctx, 512, NULL, NULL, 0));
	CHECK(small_cq = urxe_create_cq(ctx, 2, NULL, NULL, 0));
	CHECK(srq = urxe_create_srq(pd, &srq_attr));
	make_domain();
	for (unsigned i = 0; i < REGIONS; i++) {
		/* For ever, so that addresses in packets are the same in each run. */
		if (!memory[i])
			CHECK(memory[i] = malloc(regions[i].length));
		memset(memory[i], FILL(i), regions[i].length);
		CHECK(mrs[i] = urxe_reg_mr_iova2(i == SECRET ? other_pd : pd, memory[i],
						 regions[i].length, (uintptr_t)memory[i],
						 regions[i].access));
	}
	CHECK(mw = urxe_alloc_mw(pd, IBV_MW_TYPE_2));
	attr = av();
	CHECK(ah = urxe_create_ah(pd, &attr));
	make_qps();
}

static void note_completion(const struct ibv_wc *wc)
{
	const uint64_t fields[] = {wc->wr_id,  wc->status, wc->opcode,	 wc->byte_len, wc->imm_data,
				   wc->qp_num, wc->src_qp, wc->wc_flags, wc->sl};

	note(fields, sizeof(fields));
}

static void note_qp(const struct urxe_qp *qp)
{
	const uint64_t fields[] = {qp->proto.state,
				   qp->sq.tail,
				   qp->sq.send,
				   qp->sq.head,
				   qp->rq.tail,
				   qp->rq.head,
				   qp->proto.psn,
				   qp->proto.una,
				   qp->proto.max_psn,
				   qp->proto.epsn,
				   qp->proto.msn,
				   qp->proto.executed_psn,
				   qp->proto.ack_due,
				   qp->ack_later,
				   qp->proto.ack_psn,
				   qp->proto.ack_syndrome,
				   qp->flying,
				   qp->proto.retries,
				   qp->proto.rnr_retries,
				   qp->probes,
				   qp->proto.nak_sent,
				   qp->proto.attr.path_mig_state,
				   qp->proto.migreq,
				   qp->proto.path.dst.word[1],
				   qp->proto.response_send,
				   qp->proto.response_head,
				   qp->rtt_start != 0,
				   qp->rnr_until,
				   qp->timeout_at,
				   qp->timer.deadline};

	note(fields, sizeof(fields));
}

static void poll_all(void)
{
	struct ibv_cq *cqs[] = {cq, small_cq};
	struct ibv_wc wc[16];

	for (unsigned c = 0; c < 2; c++) {
		for (int n; (n = urxe_poll_cq(cqs[c], 16, wc)) > 0;) {
			for (int i = 0; i < n; i++) {
				/* Posted, and not completed before */
				CHECK(wc[i].wr_id < next_id);
				CHECK(outstanding[wc[i].wr_id % POSTED_MAX]);
				outstanding[wc[i].wr_id % POSTED_MAX] = false;
				note_completion(&wc[i]);
			}
		}
	}
}

static void check_regions(void)
{
	static const unsigned fixed[] = {READ, CONSTANT, SECRET};

	for (unsigned i = 0; i < 3; i++)
		for (uint32_t k = 0; k < regions[fixed[i]].length; k++)
			CHECK(memory[fixed[i]][k] == FILL(fixed[i]));
}

static uint64_t in_flight_to(const struct urxe_peer *peer)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < QPS; i++)
		sum += to_qp(qps[i])->peer == peer ? to_qp(qps[i])->in_flight : 0;
	return sum;
}

static void check_engine(void)
{
	for (unsigned i = 0; i < QPS; i++) {
		struct urxe_qp *qp = to_qp(qps[i]);
		uint32_t tail = qp->sq.tail, send = qp->sq.send, head = qp->sq.head;

		CHECK(head - tail <= 8 && send - tail <= head - tail);
		CHECK((uint16_t)(qp->proto.response_head - qp->proto.response_send) <=
		      qp->proto.response_size);
		CHECK(qp->proto.rd_count <= qp->proto.rd_size);
		note_qp(qp);
		CHECK(!qp->peer || qp->peer->in_flight == in_flight_to(qp->peer));
		CHECK(qp->proto.migreq ==
		      (qp->proto.attr.path_mig_state == IBV_MIG_MIGRATED ? URXE_BTH_MIGREQ : 0));
		CHECK(!qp->alternate == !qp->proto.attr.alt_port_num);
	}
}

static void end(void)
{
	poll_all();
	check_regions();
	for (unsigned i = 0; i < QPS; i++)
		CHECK(!urxe_destroy_qp(qps[i]));
	CHECK(!urxe_destroy_ah(ah));
	CHECK(!urxe_dealloc_mw(mw));
	for (unsigned i = 0; i < REGIONS; i++) {
		note(memory[i], regions[i].length);
		CHECK(!urxe_dereg_mr(mrs[i]));
	}
	CHECK(!urxe_destroy_srq(srq));
	CHECK(!urxe_destroy_srq(xrc_srq));
	CHECK(!urxe_close_xrcd(xrcd));
	CHECK(!urxe_destroy_cq(cq));
	CHECK(!urxe_destroy_cq(small_cq));
	CHECK(!urxe_dealloc_pd(pd));
	CHECK(!urxe_dealloc_pd(other_pd));
	CHECK(!urxe_hca.wheel.armed);
	edges_end();
}

/* ---- the input ---- */

struct input {
	const uint8_t *at, *end;
};

static unsigned byte(struct input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

static uint32_t key_of(unsigned which)
{
	if (which % 8 == 7)
		return mw->rkey;
	if (which % 8 == 6)
		return which * 0x01010101u;
	return mrs[which % 8]->rkey;
}

/* Small and large lengths, those around a packet's, and those that are referred to */
static uint32_t length_of(unsigned which)
{
	if (which >= 250)
		return 9000 + (which - 250) * 6200;
	return which < 200 ? which : which < 230 ? 256 + which - 210 : (which - 230) * 300;
}

static void deliver(const uint8_t *bytes, uint32_t len, uint16_t span, bool other,
		    struct urxe_refs *refs)
{
	uint8_t *exact = malloc(len); /* a byte too far is noticed */
	struct urxe_rx_packet rx = {
		.bth = exact,
		.bytes = exact,
		.len = len,
		.path.roce.hop_limit = 64,
		.span = span,
		.refs = refs,
		.refs_len = refs ? refs->len : 0,
	};

	CHECK(exact);
	memcpy(exact, bytes, len);
	memcpy(&rx.path.src, &edges.port.gids[other], 16);
	rx.path.dst = rx.path.src;
	urxe_engine_lock();
	urxe_hca.now = urxe_now();
	urxe_hca.acks_may_wait = edges.acks_may_wait;
	urxe_dispatch(&rx, NULL);
	urxe_hca.acks_may_wait = false;
	urxe_engine_unlock();
	free(exact);
}

/* A made-up packet, helped past the first checks: QPN, P_Key, PSN, key and address where they go.
 * */
static void inject(struct input *in)
{
	struct urxe_qp *qp = to_qp(qps[byte(in) % QPS]);
	unsigned flags = byte(in);
	int8_t psn_offset = byte(in);
	unsigned key = byte(in);
	int8_t at_offset = byte(in);
	uint32_t len = 12 + length_of(byte(in)) / 4 * 4, psn, at = 12;
	static uint8_t bytes[12 + 65536];
	uint16_t span = flags & 64 ? byte(in) + 1 : 1;
	struct urxe_refs *refs = flags & 128 ? make_refs(length_of(byte(in))) : NULL;
	struct urxe_bth *bth = (struct urxe_bth *)bytes;
	uint64_t va;
	bool other;

	memset(bytes, 0, len);
	for (uint32_t i = 0; i < 40 && i < len; i++)
		bytes[i] = byte(in);
	other = bytes[1] & 0x20;
	if (!(flags & 1)) {
		unsigned code = bytes[0] & 0x1f;

		psn = code >= 13 && code <= 18 ? qp->proto.una
					       : qp->proto.epsn; /* an answer, a request */
		urxe_bth_fill(bth, code | qp->transport->service,
			      (bytes[1] & URXE_BTH_SE) | (~bytes[1] & URXE_BTH_MIGREQ),
			      flags >> 4 & 3, URXE_PKEY_DEFAULT, qp->proto.qpn, flags & 2,
			      urxe_psn_add(psn, flags & 4 ? psn_offset : 0));
	}
	if (qp->transport->service == URXE_SERVICE_XRC) {
		if (!(key & 16))
			urxe_xrceth_fill((struct urxe_xrceth *)(bytes + at), xrc_srqn);
		at += sizeof(struct urxe_xrceth);
	}
	if (flags & 8) {
		unsigned r = key % 8 < REGIONS ? key % 8 : ALL;

		/* Where RETH and AtomicETH have the address and the key */
		va = htobe64((uintptr_t)memory[r] + at_offset);
		memcpy(bytes + at, &va, 8);
		uint32_t rkey = htobe32(key_of(key));

		memcpy(bytes + at + 8, &rkey, 4);
	}
	deliver(bytes, len, span, other, refs);
	free(refs);
}

static void loop_back(bool deliver_it, bool stays)
{
	struct kept *k = oldest_kept();

	if (!k)
		return;
	if (!stays)
		take_oldest();
	if (deliver_it)
		deliver(k->bytes, k->len, k->span, k->other, k->refs);
	if (!stays)
		forget(k);
}

static uint64_t new_id(void)
{
	outstanding[next_id % POSTED_MAX] = true;
	return next_id++;
}

static struct ibv_sge sge_of(unsigned which, uint32_t len, int8_t offset)
{
	unsigned r = which % REGIONS;

	return (struct ibv_sge){(uintptr_t)memory[r] + offset, len, mrs[r]->lkey};
}

static void post_send(struct input *in)
{
	struct ibv_qp *qp = qps[byte(in) % QPS];
	unsigned op = byte(in), key = byte(in), flags = byte(in), local = byte(in);
	bool at_once = op >= 0xf0;
	uint32_t any = length_of(byte(in)), len = at_once ? 8 : any;
	int8_t offset = byte(in);
	struct ibv_sge sge[2] = {sge_of(local, len, 0), sge_of(local >> 4, len / 2, 0)};
	struct ibv_send_wr wr = {.opcode = op % 9, .sg_list = sge, .num_sge = 1 + (flags >> 7)};
	struct ibv_send_wr *bad;

	if (flags & 64)
		wr.opcode = IBV_WR_SEND_WITH_INV;
	if (at_once)
		wr.opcode = IBV_WR_ATOMIC_WRITE;
	wr.send_flags = flags & (IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
	if ((flags & 32) && len + len / 2 <= 32 && local % REGIONS != SECRET) {
		/* read at once, so it must be there */
		if (len <= regions[local % REGIONS].length)
			wr.send_flags |= IBV_SEND_INLINE;
	}
	wr.invalidate_rkey = key_of(key);
	if (qp->qp_type == IBV_QPT_UD) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = qps[key % QPS]->qp_num;
		wr.wr.ud.remote_qkey = 7;
	} else if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		   wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = ((uintptr_t)memory[key % REGIONS] + offset * 8);
		wr.wr.atomic.rkey = key_of(key);
		wr.wr.atomic.compare_add = 0x7070707070707070ull;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)memory[key % REGIONS] + offset;
		wr.wr.rdma.rkey = key_of(key);
	}
	if (qp->qp_type == IBV_QPT_XRC_SEND)
		wr.qp_type.xrc.remote_srqn = key & 16 ? key << 8 : xrc_srqn;
	wr.wr_id = new_id();
	if (urxe_post_send(qp, &wr, &bad))
		outstanding[wr.wr_id % POSTED_MAX] = false;
}

static void post_recv(struct input *in)
{
	unsigned which = byte(in), local = byte(in);
	uint32_t len = length_of(byte(in));
	struct ibv_sge sge[2] = {sge_of(local, len, 0), sge_of(local >> 4, len, 0)};
	struct ibv_recv_wr wr = {.sg_list = sge, .num_sge = which >> 6}, *bad;
	int ret;

	if (wr.num_sge == 3)
		wr.num_sge = 2;
	wr.wr_id = new_id();
	if (which & 1)
		ret = urxe_post_srq_recv(which & 2 ? xrc_srq : srq, &wr, &bad);
	else
		ret = urxe_post_recv(qps[(which >> 1 & 31) % QPS], &wr, &bad);
	if (ret)
		outstanding[wr.wr_id % POSTED_MAX] = false;
}

static void pass_time(unsigned how)
{
	edges.clock_now += 1000ull << how % 24;
	urxe_engine_take();
	urxe_engine_locked();
	urxe_engine_turn(false);
}

static void window(struct input *in)
{
	struct ibv_qp *qp = qps[byte(in) % QPS];
	unsigned how = byte(in);
	struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED}, *bad;

	wr.invalidate_rkey = mw->rkey;
	if (how & 1) {
		wr.opcode = IBV_WR_BIND_MW;
		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
		wr.bind_mw.bind_info.mr = mrs[how & 2 ? ALL : (how >> 4) % SECRET];
		wr.bind_mw.bind_info.addr = (uintptr_t)memory[ALL] + byte(in);
		wr.bind_mw.bind_info.length = byte(in) * 8;
		wr.bind_mw.bind_info.mw_access_flags =
			how & 4 ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ;
		if (how & 8)
			wr.bind_mw.bind_info.mw_access_flags |= IBV_ACCESS_ZERO_BASED;
	}
	wr.wr_id = new_id();
	if (urxe_post_send(qp, &wr, &bad))
		outstanding[wr.wr_id % POSTED_MAX] = false;
	else if (how & 1)
		mw->rkey = wr.bind_mw.rkey;
}

/* A step on the way up, or out of it. What the QP had posted will not complete after RESET. */
static void change_state(struct input *in)
{
	unsigned i = byte(in) % QPS, state = byte(in) % (IBV_QPS_ERR + 1);

	if (state == IBV_QPS_RESET) {
		(void)bring_to(i, IBV_QPS_ERR);
		poll_all();
	}
	(void)bring_to(i, state);
}

static void migration(struct input *in)
{
	struct ibv_qp *qp = qps[byte(in) % QPS];
	unsigned how = byte(in);
	struct ibv_qp_attr attr = {.path_mig_state = how % 4, .alt_port_num = 1, .alt_timeout = 9};

	attr.alt_ah_attr = av();
	attr.alt_ah_attr.grh.sgid_index = how >> 4 & 1;
	attr.alt_ah_attr.grh.dgid = edges.port.gids[how >> 4 & 1];
	urxe_modify_qp(qp, &attr,
		       (how & 4 ? IBV_QP_ALT_PATH : 0) | (how & 8 ? IBV_QP_PATH_MIG_STATE : 0));
}

static void move_peers(unsigned how)
{
	edges.near = how & 1;
	edges.refers = how & 2;
	edges.stale = how & 4;
	edges.acks_may_wait = how & 8;
}

static void run(struct input in)
{
	begin();
	while (in.at < in.end && next_id < POSTED_MAX) {
		switch (byte(&in) % 16) {
		default: inject(&in); break;
		case 5: migration(&in); break;
		case 6: loop_back(true, false); break;
		case 7: loop_back(false, false); break;
		case 8: loop_back(true, true); break;
		case 9: post_send(&in); break;
		case 10: post_recv(&in); break;
		case 11: change_state(&in); break;
		case 12: pass_time(byte(&in)); break;
		case 13: poll_all(); break;
		case 14: window(&in); break;
		case 15: move_peers(byte(&in)); break;
		}
		check_engine();
	}
	end();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct input in = {data, data + size};

	if (size > 4096)
		return 0;
	for (int i = 0; i < 2; i++) {
		short_ways = i == 0;
		notes_begin(i);
		run(in);
		notes_end();
	}
	return 0;
}
