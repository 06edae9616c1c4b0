/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Frames through a netdev that gives back what is sent to it (lo), in millions a second:
 * `raw_frames hand` by AF_PACKET with sendmmsg() and a ring, `raw_frames verbs` by raw packet QPs
 * and a flow rule. Both send BATCH frames, take as many, and copy each to a buffer. Frames that are
 * lost (nothing has come for LOST_S) do not count.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "measure.h"

#define BATCH	64
#define FRAME	1024
#define BATCHES 4000
#define SLOT	2048
#define SLOTS	1024
#define KIND	0x88b5 /* an EtherType for experiments */
#define LOST_S	0.01

static uint8_t out[FRAME], in[BATCH][FRAME];

/* ---- by hand ---- */

static int open_socket(uint16_t protocol)
{
	struct sockaddr_ll addr = {.sll_family = AF_PACKET,
				   .sll_protocol = htons(protocol),
				   .sll_ifindex = if_nametoindex("lo")};
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	NEED(fd >= 0 && !bind(fd, (struct sockaddr *)&addr, sizeof(addr)));
	return fd;
}

static uint8_t *open_ring(int *fd)
{
	struct tpacket_req req = {.tp_block_size = 65536,
				  .tp_block_nr = SLOT * SLOTS / 65536,
				  .tp_frame_size = SLOT,
				  .tp_frame_nr = SLOTS};
	int version = TPACKET_V2, yes = 1;
	uint8_t *ring;

	*fd = open_socket(ETH_P_ALL); /* as an adapter, which sees all frames */
	NEED(!setsockopt(*fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)));
	NEED(!setsockopt(*fd, SOL_PACKET, PACKET_RX_RING, &req, sizeof(req)));
	NEED(!setsockopt(*fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes, sizeof(yes)));
	ring = mmap(NULL, SLOT * SLOTS, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	NEED(ring != MAP_FAILED);
	return ring;
}

static bool has_come(const struct tpacket2_hdr *h)
{
	return __atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER;
}

/* How many of a batch have come. */
static unsigned take_by_hand(uint8_t *ring, unsigned *at)
{
	unsigned i;

	for (i = 0; i < BATCH; i++) {
		struct tpacket2_hdr *h = (void *)(ring + *at * SLOT);

		if (!has_come(h)) {
			double until = now_s() + LOST_S;

			while (!has_come(h))
				if (now_s() > until)
					return i;
		}
		memcpy(in[i], (uint8_t *)h + h->tp_mac, h->tp_snaplen);
		__atomic_store_n(&h->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
		*at = (*at + 1) % SLOTS;
	}
	return i;
}

/* Frames a second, without what goes before. */
static double by_hand(void)
{
	struct iovec iov = {out, FRAME};
	struct mmsghdr msgs[BATCH] = {0};
	int send_fd = open_socket(0), fd;
	uint8_t *ring = open_ring(&fd);
	unsigned at = 0, came = 0;
	double began;

	for (unsigned i = 0; i < BATCH; i++)
		msgs[i].msg_hdr = (struct msghdr){.msg_iov = &iov, .msg_iovlen = 1};
	began = now_s();
	for (unsigned i = 0; i < BATCHES; i++) {
		NEED(sendmmsg(send_fd, msgs, BATCH, 0) == BATCH);
		came += take_by_hand(ring, &at);
	}
	return came / (now_s() - began);
}

/* ---- by verbs ---- */

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static struct ibv_qp *make_qp(void)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RAW_PACKET,
		.cap = {.max_send_wr = BATCH,
			.max_recv_wr = BATCH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	struct ibv_qp_attr attr = {.port_num = 1};

	NEED(qp);
	for (attr.qp_state = IBV_QPS_INIT; attr.qp_state <= IBV_QPS_RTS; attr.qp_state++)
		NEED(!ibv_modify_qp(qp, &attr,
				    IBV_QP_STATE |
					    (attr.qp_state == IBV_QPS_INIT ? IBV_QP_PORT : 0)));
	return qp;
}

static void make_flow(struct ibv_qp *qp)
{
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
	} __attribute__((packed, aligned(8))) rule = {
		.attr = {.num_of_specs = 1, .port = 1, .size = sizeof(rule)},
		.eth = {.type = IBV_FLOW_SPEC_ETH,
			.size = sizeof(rule.eth),
			.val.ether_type = htons(KIND),
			.mask.ether_type = 0xffff},
	};

	NEED(ibv_create_flow(qp, &rule.attr));
}

/* All of a batch is sent: how many of its frames have come. */
static unsigned take_by_verbs(void)
{
	unsigned came = 0, sent = 0;
	double until = 0;
	struct ibv_wc wc[16];

	while (came < BATCH || !sent) {
		int got = ibv_poll_cq(cq, 16, wc);

		NEED(got >= 0);
		for (int i = 0; i < got; i++) {
			NEED(wc[i].status == IBV_WC_SUCCESS);
			if (wc[i].opcode == IBV_WC_RECV)
				came++;
			else
				sent++;
		}
		if (got)
			until = 0;
		else if (!until)
			until = now_s() + LOST_S;
		else if (sent && now_s() > until)
			break;
	}
	return came;
}

static double by_verbs(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_sge sge, in_sge[BATCH];
	struct ibv_send_wr send[BATCH], *bad;
	struct ibv_recv_wr recv[BATCH], *bad_recv;
	struct ibv_mr *out_mr, *in_mr;
	struct ibv_qp *tx, *rx;
	unsigned came = 0, taken = BATCH;
	double began;

	NEED(list && *list);
	NEED(ctx = ibv_open_device(*list));
	NEED(pd = ibv_alloc_pd(ctx));
	NEED(cq = ibv_create_cq(ctx, 4 * BATCH, NULL, NULL, 0));
	NEED(out_mr = ibv_reg_mr(pd, out, sizeof(out), 0));
	NEED(in_mr = ibv_reg_mr(pd, in, sizeof(in), IBV_ACCESS_LOCAL_WRITE));
	tx = make_qp();
	rx = make_qp();
	make_flow(rx);
	sge = (struct ibv_sge){(uintptr_t)out, FRAME, out_mr->lkey};
	for (int i = 0; i < BATCH; i++) {
		bool last = i + 1 == BATCH;

		in_sge[i] = (struct ibv_sge){(uintptr_t)in[i], FRAME, in_mr->lkey};
		recv[i] = (struct ibv_recv_wr){
			.sg_list = &in_sge[i], .num_sge = 1, .next = last ? NULL : &recv[i + 1]};
		send[i] = (struct ibv_send_wr){.opcode = IBV_WR_SEND,
					       .send_flags = last ? IBV_SEND_SIGNALED : 0,
					       .sg_list = &sge,
					       .num_sge = 1,
					       .next = last ? NULL : &send[i + 1]};
	}
	began = now_s();
	for (unsigned i = 0; i < BATCHES; i++) {
		/* Those that took nothing are still there. */
		NEED(!taken || !ibv_post_recv(rx, &recv[BATCH - taken], &bad_recv));
		NEED(!ibv_post_send(tx, send, &bad));
		came += taken = take_by_verbs();
	}
	return came / (now_s() - began);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	memset(out, 2, 2 * ETH_ALEN);
	out[12] = KIND >> 8;
	out[13] = KIND & 0xff;
	printf("%.3f\n", (strcmp(argv[1], "hand") ? by_verbs() : by_hand()) / 1e6);
	return 0;
}
