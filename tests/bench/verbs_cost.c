/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a completion, a posted request or a message costs a program: `verbs_cost KIND [N]` prints
 * nanoseconds. Two ways that are to be compared are gone in short rounds by turns, since the speed of a
 * machine changes from one moment to the next: the medians of both are printed.
 *
 *	poll		a completion's wr_id and status, by the extended interface and by ibv_poll_cq()
 *	poll-read	the same, its opcode and byte_len
 *	post		a receive posted and its completion polled, without the message's way in between; in a
 *			thread domain and without
 *	message		a message: its receive and its send posted, both polled; in a thread domain and without
 *	xrc N		a message to one of N XRC SRQs, the best of ROUNDS
 *	tags N		a message with one of N tags that are waited for, the best of ROUNDS
 *
 * All in one process, so that nothing but the adapter's own work counts.
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/tm_types.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

/* Of inline functions of verbs.h that find no table of operations. */
#pragma GCC diagnostic ignored "-Wnull-dereference"

#define ROUNDS	 40
#define TURNS	 200 /* rounds of each of two ways */
#define MESSAGES 512

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static union ibv_gid gid;
static uint8_t memory[4096];
static struct ibv_mr *mr;
static unsigned many;

static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	NEED(list && *list);
	NEED(ctx = ibv_open_device(*list));
	NEED(pd = ibv_alloc_pd(ctx));
	NEED(!ibv_query_gid(ctx, 1, 0, &gid));
	NEED(mr = ibv_reg_mr(pd, memory, sizeof(memory),
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
}

static void connect_qp(struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 1}},
	};

	NEED(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr.qp_state = IBV_QPS_RTR;
	NEED(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER));
	attr.qp_state = IBV_QPS_RTS;
	NEED(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

static struct ibv_qp *make_qp(struct ibv_pd *of, struct ibv_cq *send_cq, struct ibv_cq *recv_cq,
			      struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = send_cq,
		.recv_cq = recv_cq,
		.srq = srq,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = {.max_send_wr = srq ? 0 : MESSAGES,
			.max_send_sge = srq ? 0 : 1,
			.max_recv_wr = MESSAGES,
			.max_recv_sge = 1,
			.max_inline_data = srq ? 0 : 16},
	};
	struct ibv_qp *qp = ibv_create_qp(of, &init);

	NEED(qp);
	return qp;
}

/* The request is the same each time: to build it anew took as long as a sixth
 * of posting and polling it. */
static void write_inline(struct ibv_qp *qp)
{
	static uint64_t word = 42;
	static struct ibv_sge sge = {.length = sizeof(word)};
	static struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
					.send_flags = IBV_SEND_INLINE,
					.sg_list = &sge,
					.num_sge = 1};
	struct ibv_send_wr *bad;

	if (!sge.addr) {
		sge.addr = (uintptr_t)&word;
		wr.wr.rdma.remote_addr = (uintptr_t)memory;
		wr.wr.rdma.rkey = mr->rkey;
	}
	NEED(!ibv_post_send(qp, &wr, &bad));
}

static void poll_one(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n;

	do {
		n = ibv_poll_cq(cq, 1, &wc);
	} while (!n);
	NEED(n == 1 && wc.status == IBV_WC_SUCCESS);
}

static void print_medians(double took[2][TURNS])
{
	printf("%.1f %.1f\n", median(took[0], TURNS) / MESSAGES, median(took[1], TURNS) / MESSAGES);
}

/* ---- completions ---- */

static uint64_t bytes_polled;

/* Both ways sum in a register: each addition in memory waits for the one before. */
static void poll_all(struct ibv_cq *cq)
{
	uint64_t sum = 0;
	struct ibv_wc wc;
	int n;

	for (int i = 0; i < MESSAGES; i++) {
		do {
			n = ibv_poll_cq(cq, 1, &wc);
		} while (!n);
		NEED(n == 1 && wc.status == IBV_WC_SUCCESS);
		sum += wc.byte_len + wc.wr_id + wc.opcode;
	}
	bytes_polled += sum;
}

/* Each field that is read beside wr_id and status is a call. */
static void poll_all_ex(struct ibv_cq_ex *cq, bool read)
{
	struct ibv_poll_cq_attr attr = {0};
	uint64_t sum = 0;
	bool begun = false;

	for (int i = 0; i < MESSAGES; i++) {
		while (begun ? ibv_next_poll(cq) : ibv_start_poll(cq, &attr)) {
			if (begun)
				ibv_end_poll(cq);
			begun = false;
		}
		begun = true;
		NEED(cq->status == IBV_WC_SUCCESS);
		sum += cq->wr_id;
		if (read)
			sum += ibv_wc_read_byte_len(cq) + ibv_wc_read_opcode(cq);
	}
	ibv_end_poll(cq);
	bytes_polled += sum;
}

/* On one CQ, so that both read the same ring. */
static void completions(bool read)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = MESSAGES, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN};
	struct ibv_cq_ex *ex = ibv_create_cq_ex(ctx, &attr);
	struct ibv_cq *cq = ibv_cq_ex_to_cq(ex);
	double took[2][TURNS];
	struct ibv_qp *qp;

	NEED(ex);
	qp = make_qp(pd, cq, cq, NULL);
	connect_qp(qp, qp->qp_num);
	for (int turn = 0; turn < 2 * TURNS; turn++) {
		bool extended = turn & 1;
		double began;

		for (int i = 0; i < MESSAGES; i++)
			write_inline(qp);
		began = now_ns();
		if (extended)
			poll_all_ex(ex, read);
		else
			poll_all(cq);
		took[!extended][turn / 2] = now_ns() - began;
	}
	print_medians(took);
}

/* ---- thread domains ---- */

static void post_receive(struct ibv_qp *qp)
{
	static struct ibv_sge sge = {.length = 8};
	static struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;

	if (!sge.addr) {
		sge.addr = (uintptr_t)memory;
		sge.lkey = mr->lkey;
	}
	NEED(!ibv_post_recv(qp, &wr, &bad));
}

static void post_message(struct ibv_qp *qp)
{
	static uint64_t word = 42;
	static struct ibv_sge sge = {.length = sizeof(word)};
	static struct ibv_send_wr wr = {.opcode = IBV_WR_SEND,
					.send_flags = IBV_SEND_INLINE,
					.sg_list = &sge,
					.num_sge = 1};
	struct ibv_send_wr *bad;

	sge.addr = (uintptr_t)&word;
	NEED(!ibv_post_send(qp, &wr, &bad));
}

/* Two QPs that are connected with each other, and their CQs. */
struct pair {
	struct ibv_qp *qp[2];
	struct ibv_cq *sent[2], *received[2];
};

static void make_pair(struct pair *p, bool domain)
{
	struct ibv_td_init_attr td = {0};
	struct ibv_parent_domain_init_attr parent = {.pd = pd};
	struct ibv_cq_init_attr_ex attr = {.cqe = MESSAGES};
	struct ibv_pd *of = pd;

	if (domain) {
		NEED(parent.td = ibv_alloc_td(ctx, &td));
		NEED(of = attr.parent_domain = ibv_alloc_parent_domain(ctx, &parent));
		attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
	}
	for (int i = 0; i < 2; i++) {
		NEED(p->sent[i] = ibv_cq_ex_to_cq(ibv_create_cq_ex(ctx, &attr)));
		NEED(p->received[i] = ibv_cq_ex_to_cq(ibv_create_cq_ex(ctx, &attr)));
		p->qp[i] = make_qp(of, p->sent[i], p->received[i], NULL);
	}
	connect_qp(p->qp[0], p->qp[1]->qp_num);
	connect_qp(p->qp[1], p->qp[0]->qp_num);
	post_receive(p->qp[1]);
	post_message(p->qp[0]);
	poll_one(p->received[1]);
}

/* From one end to the other and back: each answer takes the acknowledgement along. */
static double exchange(struct pair *p)
{
	double began = now_ns();

	for (int i = 0; i < MESSAGES; i++) {
		int to = i & 1;

		post_receive(p->qp[to]);
		post_message(p->qp[!to]);
		poll_one(p->received[to]);
		poll_one(p->sent[to]);
	}
	return now_ns() - began;
}

/* Posting and polling alone: what lies between, a neighbour's adapter would
 * do, and no domain changes. */
static double receive(struct pair *p)
{
	double began = now_ns(), took;

	for (int i = 0; i < MESSAGES; i++)
		post_receive(p->qp[1]);
	took = now_ns() - began;
	for (int i = 0; i < MESSAGES; i++) {
		post_message(p->qp[0]);
		poll_one(p->sent[0]);
	}
	began = now_ns();
	for (int i = 0; i < MESSAGES; i++)
		poll_one(p->received[1]);
	return took + now_ns() - began;
}

static void domains(double (*work)(struct pair *))
{
	struct pair without, domain;
	double took[2][TURNS];

	make_pair(&without, false);
	make_pair(&domain, true);
	for (int turn = 0; turn < TURNS; turn++) {
		took[1][turn] = work(&without);
		took[0][turn] = work(&domain);
	}
	print_medians(took);
}

/* ---- many SRQs, many tags ---- */

/* Places that follow each other nowhere, so that none is found by its neighbour. */
static unsigned next_of(unsigned i)
{
	return (i * 2654435761u) % many;
}

static double xrc(void)
{
	struct ibv_xrcd_init_attr domain = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_cq *cq = ibv_create_cq(ctx, 4 * MESSAGES, NULL, NULL, 0);
	struct ibv_srq_init_attr_ex srq = {
		.attr = {.max_wr = 2, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = pd,
		.cq = cq,
		.xrcd = ibv_open_xrcd(ctx, &domain),
	};
	struct ibv_qp_init_attr_ex target = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = srq.xrcd};
	struct ibv_qp_init_attr_ex initiator = {
		.qp_type = IBV_QPT_XRC_SEND,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
		.send_cq = cq,
		.sq_sig_all = 1,
		.cap = {.max_send_wr = 4, .max_send_sge = 1, .max_inline_data = 16},
	};
	struct ibv_srq **srqs = calloc(many, sizeof(*srqs));
	uint32_t *numbers = calloc(many, sizeof(*numbers));
	struct ibv_sge sge = {(uintptr_t)memory, 8, mr->lkey};
	struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_INLINE,
				 .sg_list = &sge,
				 .num_sge = 1};
	struct ibv_send_wr *bad;
	struct ibv_qp *from, *to;
	double best = 1e9;

	NEED(cq && srq.xrcd && srqs && numbers);
	for (unsigned i = 0; i < many; i++) {
		NEED(srqs[i] = ibv_create_srq_ex(ctx, &srq));
		NEED(!ibv_get_srq_num(srqs[i], &numbers[i]));
	}
	NEED(to = ibv_create_qp_ex(ctx, &target));
	NEED(from = ibv_create_qp_ex(ctx, &initiator));
	connect_qp(from, to->qp_num);
	connect_qp(to, from->qp_num);
	for (int round = 0; round < ROUNDS; round++) {
		double began = now_ns();

		for (unsigned i = 0; i < MESSAGES; i++) {
			unsigned at = next_of(round * MESSAGES + i);

			NEED(!ibv_post_srq_recv(srqs[at], &recv, &bad_recv));
			wr.qp_type.xrc.remote_srqn = numbers[at];
			NEED(!ibv_post_send(from, &wr, &bad));
			poll_one(cq);
			poll_one(cq);
		}
		best = least(best, now_ns() - began);
	}
	return best / MESSAGES;
}

static void add_tag(struct ibv_srq *srq, uint64_t tag)
{
	static struct ibv_sge sge;
	struct ibv_ops_wr op = {
		.opcode = IBV_WR_TAG_ADD,
		.tm.add = {.sg_list = &sge, .num_sge = 1, .tag = tag, .mask = UINT64_MAX}};
	struct ibv_ops_wr *bad;

	sge = (struct ibv_sge){(uintptr_t)memory, 64, mr->lkey};
	NEED(!ibv_post_srq_ops(srq, &op, &bad));
}

static double tags(void)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 4 * MESSAGES, .wc_flags = IBV_WC_EX_WITH_TM_INFO};
	struct ibv_cq *cq = ibv_cq_ex_to_cq(ibv_create_cq_ex(ctx, &attr));
	struct ibv_srq_init_attr_ex init = {
		.attr = {.max_wr = 4, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
			     IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.pd = pd,
		.cq = cq,
		.tm_cap = {.max_num_tags = many, .max_ops = 1},
	};
	struct ibv_srq *srq = ibv_create_srq_ex(ctx, &init);
	struct ibv_tmh header = {.opcode = IBV_TMH_EAGER};
	struct ibv_sge sge = {(uintptr_t)&header, sizeof(header)};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_INLINE,
				 .sg_list = &sge,
				 .num_sge = 1};
	struct ibv_send_wr *bad;
	struct ibv_qp *from, *to;
	double best = 1e9;

	NEED(srq);
	for (unsigned i = 0; i < many; i++)
		add_tag(srq, i);
	to = make_qp(pd, cq, cq, srq);
	from = make_qp(pd, cq, cq, NULL);
	connect_qp(from, to->qp_num);
	connect_qp(to, from->qp_num);
	for (int round = 0; round < ROUNDS; round++) {
		double began = now_ns();

		for (unsigned i = 0; i < MESSAGES; i++) {
			unsigned tag = next_of(round * MESSAGES + i);

			header.tag = htobe64(tag);
			NEED(!ibv_post_send(from, &wr, &bad));
			poll_one(cq);
			poll_one(cq);
			add_tag(srq, tag);
		}
		best = least(best, now_ns() - began);
	}
	return best / MESSAGES;
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "";

	many = argc > 2 ? strtoul(argv[2], NULL, 10) : 10;
	open_device();
	if (!strcmp(kind, "poll"))
		completions(false);
	else if (!strcmp(kind, "poll-read"))
		completions(true);
	else if (!strcmp(kind, "post"))
		domains(receive);
	else if (!strcmp(kind, "message"))
		domains(exchange);
	else if (!strcmp(kind, "xrc"))
		printf("%.1f\n", xrc());
	else if (!strcmp(kind, "tags"))
		printf("%.1f\n", tags());
	else
		return 2;
	return 0;
}
