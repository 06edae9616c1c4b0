// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Raw packet QPs and flow rules (ibv_create_flow(3)) on one interface that gives back what is sent
 * to it: two QPs of one process, and rules that say which frames are whose.
 */
#include <arpa/inet.h>
#include <sys/wait.h>

#include "verbs_test.h"

#define FRAME 128

static uint8_t out[FRAME], in[8][FRAME];
static struct ibv_mr *out_mr, *in_mr;
static struct end tx, rx, other;

static int raw_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state, .port_num = 1};

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | (state == IBV_QPS_INIT ? IBV_QP_PORT : 0));
}

static void make_raw(struct end *e)
{
	struct setup s = {.type = IBV_QPT_RAW_PACKET};

	make_end(e, &s, pd, NULL);
	EXPECT(raw_state(e->qp, IBV_QPS_INIT), 0);
	EXPECT(raw_state(e->qp, IBV_QPS_RTR), 0);
	EXPECT(raw_state(e->qp, IBV_QPS_RTS), 0);
}

static void begin(void)
{
	NEED(out_mr = ibv_reg_mr(pd, out, sizeof(out), 0));
	NEED(in_mr = ibv_reg_mr(pd, in, sizeof(in), IBV_ACCESS_LOCAL_WRITE));
	make_raw(&tx);
	make_raw(&rx);
	make_raw(&other);
	for (int i = 0; i < 4; i++) {
		EXPECT(post_buffer(&rx, i, in[i], FRAME, in_mr->lkey), 0);
		EXPECT(post_buffer(&other, 4 + i, in[4 + i], FRAME, in_mr->lkey), 0);
	}
}

static void end(void)
{
	free_end(&tx);
	free_end(&rx);
	free_end(&other);
	EXPECT(ibv_dereg_mr(out_mr), 0);
	EXPECT(ibv_dereg_mr(in_mr), 0);
}

/* UDP over IPv4 to a MAC address that ends in mac, and to that port. */
static void fill(uint8_t mac, uint16_t port)
{
	static const uint8_t headers[] = {2,  0,    0,	  0,	0,  0, 2,	   0, 0,  0,	0,
					  1,  8,    0,	  0x45, 0,  0, FRAME - 14, 0, 0,  0x40, 0,
					  64, 17,   0,	  0,	10, 1, 2,	   3, 10, 1,	2,
					  4,  0x30, 0x39, 0,	0,  0, FRAME - 34};

	memset(out, 0xa5, sizeof(out));
	memcpy(out, headers, sizeof(headers));
	out[5] = mac;
	out[36] = port >> 8;
	out[37] = port;
}

static void send_frame(uint8_t mac, uint16_t port)
{
	struct ibv_sge sges[2] = {{(uintptr_t)out, 20, out_mr->lkey},
				  {(uintptr_t)out + 20, FRAME - 20, out_mr->lkey}};
	struct ibv_send_wr wr = {.wr_id = 9, .opcode = IBV_WR_SEND, .sg_list = sges, .num_sge = 2};

	fill(mac, port);
	EXPECT(post(tx.qp, &wr), 0);
	EXPECT_WC(tx.scq, 9, IBV_WC_SUCCESS);
}

/* A rule for frames to a MAC address and, unless it is 0, a port. */
struct rule {
	struct ibv_flow_attr attr;
	uint8_t specs[128];
};

static void add_spec(struct rule *rule, const void *spec, uint16_t size)
{
	memcpy((uint8_t *)rule + rule->attr.size, spec, size);
	rule->attr.size += size;
	rule->attr.num_of_specs++;
}

static struct rule rule_for(uint8_t mac, uint16_t port, uint16_t priority)
{
	struct rule rule = {.attr = {.type = IBV_FLOW_ATTR_NORMAL,
				     .size = sizeof(rule.attr),
				     .priority = priority,
				     .port = 1}};
	struct ibv_flow_spec_eth eth = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(eth)};
	struct ibv_flow_spec_tcp_udp udp = {.type = IBV_FLOW_SPEC_UDP, .size = sizeof(udp)};

	eth.val.dst_mac[0] = 2;
	eth.val.dst_mac[5] = mac;
	memset(eth.mask.dst_mac, 0xff, 6);
	add_spec(&rule, &eth, sizeof(eth));
	udp.val.dst_port = htons(port);
	udp.mask.dst_port = 0xffff;
	if (port)
		add_spec(&rule, &udp, sizeof(udp));
	return rule;
}

static struct ibv_flow *flow(struct end *e, struct rule rule)
{
	struct ibv_flow *made = ibv_create_flow(e->qp, &rule.attr);

	NEED(made);
	return made;
}

#define EXPECT_FRAME(e, id, at)                                 \
	do {                                                    \
		struct ibv_wc wc_ = {.status = 999};            \
		EXPECT_TRUE(next_wc((e)->rcq, &wc_, 5));        \
		EXPECT(wc_.status, IBV_WC_SUCCESS);             \
		EXPECT(wc_.wr_id, id);                          \
		EXPECT(wc_.byte_len, FRAME);                    \
		EXPECT_TRUE(!memcmp(in[at], out, sizeof(out))); \
	} while (0)

static void by_rule(void)
{
	struct ibv_flow *first, *second;

	begin();
	send_frame(7, 1000);
	EXPECT_QUIET(rx.rcq); /* without a rule, nothing */
	first = flow(&rx, rule_for(7, 0, 0));
	second = flow(&other, rule_for(8, 2000, 0));
	send_frame(7, 1000);
	EXPECT_FRAME(&rx, 0, 0);
	send_frame(8, 2000);
	EXPECT_FRAME(&other, 4, 4);
	send_frame(8, 1000);
	send_frame(9, 2000);
	EXPECT_QUIET(rx.rcq);
	EXPECT_QUIET(other.rcq);
	EXPECT(ibv_destroy_flow(first), 0);
	send_frame(7, 1000);
	EXPECT_QUIET(rx.rcq);
	EXPECT(ibv_destroy_qp(other.qp), EBUSY);
	EXPECT(ibv_destroy_flow(second), 0);
	end();
}

static void by_priority(void)
{
	struct ibv_flow *late, *early, *rest, *sniffer;
	struct rule all = {
		.attr = {.type = IBV_FLOW_ATTR_ALL_DEFAULT, .size = sizeof(all.attr), .port = 1}};

	begin();
	late = flow(&rx, rule_for(7, 0, 5));
	early = flow(&other, rule_for(7, 1000, 1));
	send_frame(7, 1000);
	EXPECT_FRAME(&other, 4, 4);
	send_frame(7, 1001);
	EXPECT_FRAME(&rx, 0, 0);
	EXPECT_QUIET(other.rcq);
	rest = flow(&other, all);
	send_frame(9, 1);
	EXPECT_FRAME(&other, 5, 5);
	EXPECT(ibv_destroy_flow(rest), 0);
	all.attr.type = IBV_FLOW_ATTR_SNIFFER;
	sniffer = flow(&other, all);
	send_frame(7, 1001);
	EXPECT_FRAME(&rx, 1, 1);
	EXPECT_FRAME(&other, 6, 6);
	EXPECT(ibv_destroy_flow(late), 0);
	EXPECT(ibv_destroy_flow(early), 0);
	EXPECT(ibv_destroy_flow(sniffer), 0);
	end();
}

static void counted_and_dropped(void)
{
	struct ibv_counters_init_attr init = {0};
	struct ibv_counters *counters = ibv_create_counters(ctx, &init);
	struct ibv_counter_attach_attr packets = {IBV_COUNTER_PACKETS, 1},
				       bytes = {IBV_COUNTER_BYTES, 0};
	struct ibv_flow_spec_counter_action count = {
		.type = IBV_FLOW_SPEC_ACTION_COUNT, .size = sizeof(count), .counters = counters};
	struct ibv_flow_spec_action_drop drop = {.type = IBV_FLOW_SPEC_ACTION_DROP,
						 .size = sizeof(drop)};
	struct rule rule = rule_for(7, 0, 0);
	struct ibv_flow *made;
	uint64_t values[2];

	begin();
	NEED(counters);
	EXPECT(ibv_attach_counters_point_flow(counters, &packets, NULL), 0);
	EXPECT(ibv_attach_counters_point_flow(counters, &bytes, NULL), 0);
	bytes.index = 99;
	EXPECT(ibv_attach_counters_point_flow(counters, &bytes, NULL), EINVAL);
	add_spec(&rule, &count, sizeof(count));
	add_spec(&rule, &drop, sizeof(drop));
	made = flow(&rx, rule);
	EXPECT(ibv_destroy_counters(counters), EBUSY);
	send_frame(7, 1);
	send_frame(7, 2);
	EXPECT_QUIET(rx.rcq);
	EXPECT(ibv_read_counters(counters, values, 2, 0), 0);
	EXPECT(values[0], 2 * FRAME);
	EXPECT(values[1], 2);
	EXPECT(ibv_destroy_flow(made), 0);
	EXPECT(ibv_destroy_counters(counters), 0);
	end();
}

static void errors(void)
{
	struct rule rule = rule_for(7, 0, 0);
	struct setup s = {.type = IBV_QPT_UD};
	struct ibv_sge sge = {(uintptr_t)out, FRAME, 0};
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1};
	struct ibv_flow *made;
	struct end ud;

	begin();
	make_end(&ud, &s, pd, NULL);
	EXPECT_NULL(ibv_create_flow(ud.qp, &rule.attr), EINVAL);
	free_end(&ud);
	rule.attr.port = 3;
	EXPECT_NULL(ibv_create_flow(rx.qp, &rule.attr), EINVAL);
	wr.opcode = IBV_WR_RDMA_WRITE;
	EXPECT(post(tx.qp, &wr), EINVAL);
	/* No rights to the memory; no memory; a buffer that is too short for a frame. */
	wr.opcode = IBV_WR_SEND;
	EXPECT(post(tx.qp, &wr), 0);
	EXPECT_WC(tx.scq, 1, IBV_WC_LOC_PROT_ERR);
	EXPECT(state_of(tx.qp), IBV_QPS_SQE);
	free_end(&tx);
	make_raw(&tx);
	wr.num_sge = 0;
	EXPECT(post(tx.qp, &wr), 0);
	EXPECT_WC(tx.scq, 1, IBV_WC_LOC_LEN_ERR);
	free_end(&tx);
	make_raw(&tx);
	free_end(&rx);
	make_raw(&rx);
	made = flow(&rx, rule_for(7, 0, 0));
	EXPECT(post_buffer(&rx, 3, in, FRAME - 1, in_mr->lkey), 0);
	send_frame(7, 1);
	EXPECT_WC(rx.rcq, 3, IBV_WC_LOC_LEN_ERR);
	EXPECT(ibv_destroy_flow(made), 0);
	while (event_waits())
		next_event();
	end();
}

/* Four work queues; frames of different addresses reach more than one, those of the same the same.
 * */
static void spread(void)
{
	static uint8_t key[40] = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67};
	struct ibv_cq *cq = ibv_create_cq(ctx, 256, NULL, NULL, 0);
	struct ibv_wq_init_attr wq_attr = {
		.wq_type = IBV_WQT_RQ, .max_wr = 64, .max_sge = 1, .pd = pd, .cq = cq};
	struct ibv_wq_attr ready = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY};
	struct ibv_rwq_ind_table_init_attr table_attr = {.log_ind_tbl_size = 2};
	struct ibv_qp_init_attr_ex qp_attr = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
		.pd = pd,
		.rx_hash_conf = {IBV_RX_HASH_FUNC_TOEPLITZ, sizeof(key), key,
				 IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_PORT_UDP}};
	struct ibv_qp_attr state = {.qp_state = IBV_QPS_INIT};
	struct ibv_rwq_ind_table *table;
	struct ibv_wq *wqs[4];
	struct ibv_flow *made;
	struct ibv_qp *qp;
	struct ibv_wc wc;
	uint32_t first = 0;
	bool others = false;

	begin();
	NEED(cq);
	for (int i = 0; i < 4; i++) {
		struct ibv_sge sge = {(uintptr_t)in[i], FRAME, in_mr->lkey};
		struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

		NEED(wqs[i] = ibv_create_wq(ctx, &wq_attr));
		EXPECT(ibv_modify_wq(wqs[i], &ready), 0);
		for (int k = 0; k < 64; k++)
			EXPECT(ibv_post_wq_recv(wqs[i], &wr, &bad), 0);
		EXPECT(ibv_post_wq_recv(wqs[i], &wr, &bad), ENOMEM);
	}
	EXPECT_NULL(ibv_create_rwq_ind_table(ctx, &table_attr), EINVAL);
	table_attr.ind_tbl = wqs;
	NEED(table = ibv_create_rwq_ind_table(ctx, &table_attr));
	EXPECT(ibv_destroy_wq(wqs[3]), EBUSY);
	EXPECT_NULL(ibv_create_qp_ex(ctx, &qp_attr), EINVAL);
	qp_attr.rwq_ind_tbl = table;
	NEED(qp = ibv_create_qp_ex(ctx, &qp_attr));
	EXPECT(ibv_destroy_rwq_ind_table(table), EBUSY);
	EXPECT(ibv_modify_qp(qp, &state, IBV_QP_STATE), EOPNOTSUPP);
	made = flow(&(struct end){.qp = qp}, rule_for(7, 0, 0));
	for (int i = 0; i < 16; i++) {
		send_frame(7, 1000 + i / 2);
		EXPECT_TRUE(next_wc(cq, &wc, 5));
		EXPECT(wc.status, IBV_WC_SUCCESS);
		EXPECT_TRUE(!memcmp(in[wc.wr_id], out, sizeof(out)));
		EXPECT(wc.qp_num, wqs[wc.wr_id]->wq_num);
		if (i % 2)
			EXPECT(wc.qp_num, first);
		else
			others |= i && wc.qp_num != first;
		first = wc.qp_num;
	}
	EXPECT_TRUE(others);
	ready.wq_state = IBV_WQS_ERR;
	EXPECT(ibv_modify_wq(wqs[0], &ready), 0);
	EXPECT_TRUE(next_wc(cq, &wc, 5));
	EXPECT(wc.status, IBV_WC_WR_FLUSH_ERR);
	EXPECT(ibv_destroy_flow(made), 0);
	EXPECT(ibv_destroy_qp(qp), 0);
	EXPECT(ibv_destroy_rwq_ind_table(table), 0);
	for (int i = 0; i < 4; i++)
		EXPECT(ibv_destroy_wq(wqs[i]), 0);
	EXPECT(ibv_destroy_cq(cq), 0);
	end();
}

/* The tag of a frame goes to the completion, the rest to the buffer. */
static void without_tag(void)
{
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = 16, .wc_flags = IBV_WC_EX_WITH_CVLAN};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(ctx, &cq_attr);
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.create_flags = IBV_QP_CREATE_CVLAN_STRIPPING,
		.pd = pd,
		.cap = {.max_recv_wr = 4, .max_recv_sge = 1},
	};
	struct ibv_poll_cq_attr poll_attr = {0};
	struct ibv_sge sge = {(uintptr_t)out, FRAME, 0};
	struct ibv_send_wr wr = {.wr_id = 9, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1};
	struct end e = {0};
	struct ibv_flow *made;
	int ret;

	begin();
	NEED(cq);
	init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(cq);
	NEED(e.qp = ibv_create_qp_ex(ctx, &init));
	for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++)
		EXPECT(raw_state(e.qp, state), 0);
	EXPECT(post_buffer(&e, 0, in[0], FRAME - 4, in_mr->lkey), 0);
	made = flow(&e, rule_for(7, 0, 0));
	fill(7, 0);
	memmove(out + 16, out + 12, FRAME - 16);
	memcpy(out + 12, (uint8_t[]){0x81, 0, 0x62, 0x34}, 4);
	sge.lkey = out_mr->lkey;
	EXPECT(post(tx.qp, &wr), 0);
	EXPECT_WC(tx.scq, 9, IBV_WC_SUCCESS);
	for (int i = 0; (ret = ibv_start_poll(cq, &poll_attr)) == ENOENT && i < 50000; i++)
		usleep(100);
	NEED(!ret);
	EXPECT(cq->status, IBV_WC_SUCCESS);
	EXPECT(ibv_wc_read_cvlan(cq), 0x6234);
	ibv_end_poll(cq);
	EXPECT_TRUE(!memcmp(in[0], out, 12) && !memcmp(in[0] + 12, out + 16, FRAME - 16));
	EXPECT(ibv_destroy_flow(made), 0);
	EXPECT(ibv_destroy_qp(e.qp), 0);
	EXPECT(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	init.create_flags = IBV_QP_CREATE_SCATTER_FCS;
	EXPECT_NULL(ibv_create_qp_ex(ctx, &init), EOPNOTSUPP);
	end();
}

static bool next_frame(struct ibv_cq *cq, uint32_t byte_len)
{
	struct ibv_wc wc;

	return next_wc(cq, &wc, 5) && wc.status == IBV_WC_SUCCESS && wc.byte_len == byte_len;
}

static void post_to_wq(struct ibv_wq *wq, int n)
{
	struct ibv_sge sge = {(uintptr_t)in[0], FRAME, in_mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	while (n--)
		EXPECT(ibv_post_wq_recv(wq, &wr, &bad), 0);
}

/* A work queue that gives up because its CQ is full says so, by an event of its own. */
static void overrun(struct ibv_wq *wq)
{
	struct pollfd pfd = {.fd = ctx->async_fd, .events = POLLIN};
	struct ibv_wq_attr reset = {.attr_mask = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE,
				    .curr_wq_state = IBV_WQS_ERR,
				    .wq_state = IBV_WQS_RESET};
	struct ibv_async_event event;
	bool fatal = false;

	post_to_wq(wq, 4);
	for (int i = 0; i < 4; i++)
		send_frame(7, 1);
	for (int i = 0; i < 2; i++) {
		NEED(poll(&pfd, 1, 5000) == 1 && !ibv_get_async_event(ctx, &event));
		if (event.event_type == IBV_EVENT_CQ_ERR) {
			EXPECT_TRUE(event.element.cq == wq->cq);
		} else {
			EXPECT(event.event_type, IBV_EVENT_WQ_FATAL);
			EXPECT_TRUE(event.element.wq == wq && wq->wq_context == &tx);
			fatal = true;
		}
		ibv_ack_async_event(&event);
	}
	EXPECT_TRUE(fatal);
	EXPECT(wq->state, IBV_WQS_ERR);
	EXPECT(ibv_modify_wq(wq, &reset), 0);
}

static void work_queue(void)
{
	static uint8_t key[40];
	struct ibv_cq *cq = ibv_create_cq(ctx, 2, NULL, NULL, 0);
	struct ibv_wq_init_attr attr = {.wq_context = &tx,
					.wq_type = IBV_WQT_RQ,
					.max_wr = 8,
					.max_sge = 1,
					.pd = pd,
					.cq = cq};
	struct ibv_wq_attr ready = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY};
	struct ibv_wq_attr strip = {.attr_mask = IBV_WQ_ATTR_FLAGS,
				    .flags = IBV_WQ_FLAGS_CVLAN_STRIPPING,
				    .flags_mask = IBV_WQ_FLAGS_CVLAN_STRIPPING};
	struct ibv_rwq_ind_table_init_attr table_attr = {0};
	struct ibv_qp_init_attr_ex qp_attr = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
		.pd = pd,
		.rx_hash_conf = {IBV_RX_HASH_FUNC_TOEPLITZ, sizeof(key), key}};
	struct ibv_sge sge = {(uintptr_t)out, FRAME, 0};
	struct ibv_send_wr wr = {.wr_id = 9, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1};
	struct end spread = {0};
	struct ibv_flow *made;
	struct ibv_wq *wq;

	begin();
	NEED(cq && (wq = ibv_create_wq(ctx, &attr)));
	EXPECT_TRUE(wq->wq_context == &tx);
	table_attr.ind_tbl = &wq;
	NEED(qp_attr.rwq_ind_tbl = ibv_create_rwq_ind_table(ctx, &table_attr));
	NEED(spread.qp = ibv_create_qp_ex(ctx, &qp_attr));
	made = flow(&spread, rule_for(7, 0, 0));
	EXPECT(ibv_modify_wq(wq, &ready), 0);
	/* 802.1Q tags are taken off as of now, and no longer. */
	fill(7, 0);
	memmove(out + 16, out + 12, FRAME - 16);
	memcpy(out + 12, (uint8_t[]){0x81, 0, 0x62, 0x34}, 4);
	sge.lkey = out_mr->lkey;
	for (int i = 0; i < 3; i++) {
		post_to_wq(wq, 1);
		EXPECT(post(tx.qp, &wr), 0);
		EXPECT_WC(tx.scq, 9, IBV_WC_SUCCESS);
		EXPECT_TRUE(next_frame(cq, i == 1 ? FRAME - 4 : FRAME));
		EXPECT(ibv_modify_wq(wq, &strip), 0);
		strip.flags = 0;
	}
	overrun(wq);
	EXPECT(ibv_destroy_flow(made), 0);
	EXPECT(ibv_destroy_qp(spread.qp), 0);
	EXPECT(ibv_destroy_rwq_ind_table(qp_attr.rwq_ind_tbl), 0);
	EXPECT(ibv_destroy_wq(wq), 0);
	EXPECT(ibv_destroy_cq(cq), 0);
	end();
}

/* A child has raw packet QPs of its own on the port where its parent has some. Its parent's
 * counters are its to destroy when its parent's flows are. */
static void in_a_child(void)
{
	struct ibv_counters_init_attr init = {0};
	struct ibv_counters *counters = ibv_create_counters(ctx, &init);
	struct ibv_counter_attach_attr packets = {IBV_COUNTER_PACKETS, 0};
	struct ibv_counter_attach_attr more_packets = {IBV_COUNTER_PACKETS, 1};
	struct ibv_counter_attach_attr more_bytes = {IBV_COUNTER_BYTES, 1};
	struct ibv_flow *made, *own;
	int status;
	pid_t pid;

	begin();
	NEED(counters);
	made = flow(&rx, rule_for(7, 0, 0));
	EXPECT(ibv_attach_counters_point_flow(counters, &packets, made), 0);
	pid = fork();
	NEED(pid >= 0);
	if (!pid) {
		alarm(20);
		ctx = NULL;
		open_urxe();
		begin();
		own = flow(&rx, rule_for(7, 0, 0));
		send_frame(7, 1000);
		EXPECT_FRAME(&rx, 0, 0);
		EXPECT(ibv_destroy_flow(own), 0);
		end();
		EXPECT(ibv_dealloc_pd(pd), 0);
		EXPECT(ibv_close_device(ctx), 0);
		EXPECT(ibv_attach_counters_point_flow(counters, &packets, made), EIO);
		/* What is refused takes no place. */
		EXPECT(ibv_attach_counters_point_flow(counters, &more_packets, made), EIO);
		EXPECT(ibv_attach_counters_point_flow(counters, &more_bytes, made), EIO);
		EXPECT(ibv_destroy_counters(counters), EBUSY);
		EXPECT(ibv_destroy_flow(made), 0);
		EXPECT(ibv_destroy_counters(counters), 0);
		_exit(failures != 0);
	}
	NEED(waitpid(pid, &status, 0) == pid);
	EXPECT(status, 0);
	fill(7, 1000);
	EXPECT_FRAME(&rx, 0, 0); /* the child's frame comes to this port, too */
	send_frame(7, 1000);
	EXPECT_FRAME(&rx, 1, 1);
	EXPECT(ibv_destroy_flow(made), 0);
	EXPECT(ibv_destroy_counters(counters), 0);
	end();
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"by_rule", by_rule},
		{"by_priority", by_priority},
		{"counted_and_dropped", counted_and_dropped},
		{"errors", errors},
		{"spread", spread},
		{"without_tag", without_tag},
		{"work_queue", work_queue},
		{"in_a_child", in_a_child},
	};

	return run_cases(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
