/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A user's program that has a device of the kernel and a urxe device open at once and moves data over
 * both, in turn: both KERNEL-DEVICE URXE-DEVICE GID-INDEX ADDRESS. Over the urxe device two RC QPs
 * write into each other's memory; over the kernel's (siw, so by way of librdmacm, at ADDRESS) a
 * thread serves and main() sends. Prints what it has done; exit status 0 when every byte was right.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#define SIZE   65536
#define ROUNDS 8
#define PORT   "7471"

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void fill(char *to, unsigned seed)
{
	for (int i = 0; i < SIZE; i++)
		to[i] = (char)((i * 2654435761u >> 7) + seed);
}

static void verify(const char *got, unsigned seed, const char *who)
{
	static char want[SIZE];

	fill(want, seed);
	if (memcmp(got, want, SIZE)) {
		fprintf(stderr, "%s: wrong bytes in round %u\n", who, seed);
		exit(1);
	}
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	if (!ctx)
		die(name);
	ibv_free_device_list(list);
	return ctx;
}

/* Two connected RC QPs of one device. */
struct loop {
	struct ibv_cq *cq;
	struct ibv_qp *qp[2];
	struct ibv_mr *from, *to;
};

static void to_rts(struct ibv_qp *qp, uint32_t peer, const union ibv_gid *gid, int gid_index)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		die("INIT");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = *gid, .sgid_index = gid_index, .hop_limit = 64}}};
	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		die("RTR");
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .timeout = 14,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .max_rd_atomic = 1};
	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		die("RTS");
}

static void loop_init(struct loop *l, struct ibv_context *ctx, int gid_index)
{
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	union ibv_gid gid;
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};

	l->cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	init.send_cq = init.recv_cq = l->cq;
	if (!pd || !l->cq || ibv_query_gid(ctx, 1, gid_index, &gid))
		die("urxe device");
	for (int i = 0; i < 2; i++) {
		l->qp[i] = ibv_create_qp(pd, &init);
		if (!l->qp[i])
			die("ibv_create_qp");
	}
	for (int i = 0; i < 2; i++)
		to_rts(l->qp[i], l->qp[!i]->qp_num, &gid, gid_index);
	l->from = ibv_reg_mr(pd, malloc(SIZE), SIZE, 0);
	l->to = ibv_reg_mr(pd, malloc(SIZE), SIZE,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!l->from || !l->to)
		die("ibv_reg_mr");
}

static void loop_round(struct loop *l, unsigned seed)
{
	struct ibv_sge sge = {(uintptr_t)l->from->addr, SIZE, l->from->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_RDMA_WRITE,
				       .send_flags = IBV_SEND_SIGNALED,
				       .wr.rdma = {(uintptr_t)l->to->addr, l->to->rkey}};
	struct ibv_wc wc;
	int n;

	fill(l->from->addr, seed);
	if (ibv_post_send(l->qp[seed & 1], &wr, &bad))
		die("ibv_post_send");
	do
		n = ibv_poll_cq(l->cq, 1, &wc);
	while (!n);
	if (n < 0 || wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "urxe: %s\n", n < 0 ? "ibv_poll_cq" : ibv_wc_status_str(wc.status));
		exit(1);
	}
	verify(l->to->addr, seed, "urxe");
}

static struct rdma_cm_id *endpoint(const char *address, int flags)
{
	struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = RDMA_PS_TCP}, *res;
	struct ibv_qp_init_attr init = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
		.sq_sig_all = 1};
	struct rdma_cm_id *id = NULL;

	if (rdma_getaddrinfo(address, PORT, &hints, &res) || rdma_create_ep(&id, res, NULL, &init))
		die("rdma_create_ep");
	rdma_freeaddrinfo(res);
	return id;
}

/* Receives all rounds, and sends each back. */
static void *serve(void *arg)
{
	struct rdma_cm_id *listener = arg, *id;
	char *memory = malloc(SIZE);
	struct ibv_mr *mr;
	struct ibv_wc wc;

	if (rdma_get_request(listener, &id))
		die("rdma_get_request");
	mr = rdma_reg_msgs(id, memory, SIZE);
	if (!mr || rdma_post_recv(id, NULL, memory, SIZE, mr) || rdma_accept(id, NULL))
		die("rdma_accept");
	for (unsigned i = 0; i < ROUNDS; i++) {
		if (rdma_get_recv_comp(id, &wc) < 1 || wc.status != IBV_WC_SUCCESS)
			die("receive");
		verify(memory, i, "the kernel's device");
		if (rdma_post_send(id, NULL, memory, SIZE, mr, 0) ||
		    rdma_get_send_comp(id, &wc) < 1 || wc.status != IBV_WC_SUCCESS)
			die("answer");
		if (i + 1 < ROUNDS && rdma_post_recv(id, NULL, memory, SIZE, mr))
			die("rdma_post_recv");
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct rdma_cm_id *listener, *id;
	struct ibv_context *kernel;
	char *out, *back;
	struct ibv_mr *out_mr, *back_mr;
	struct loop loop;
	struct ibv_wc wc;
	pthread_t server;

	if (argc != 5) {
		fprintf(stderr, "usage: both KERNEL-DEVICE URXE-DEVICE GID-INDEX ADDRESS\n");
		return 2;
	}
	kernel = open_device(argv[1]);
	loop_init(&loop, open_device(argv[2]), atoi(argv[3]));

	listener = endpoint(argv[4], RAI_PASSIVE);
	if (rdma_listen(listener, 1) || pthread_create(&server, NULL, serve, listener))
		die("rdma_listen");
	id = endpoint(argv[4], 0);
	if (strcmp(ibv_get_device_name(id->verbs->device), argv[1])) {
		fprintf(stderr, "%s is reached over %s\n", argv[4],
			ibv_get_device_name(id->verbs->device));
		return 1;
	}
	out = malloc(SIZE);
	back = malloc(SIZE);
	out_mr = rdma_reg_msgs(id, out, SIZE);
	back_mr = rdma_reg_msgs(id, back, SIZE);
	/* iWARP: the first message is the client's, and the server's first receive is there. */
	if (!out_mr || !back_mr || rdma_connect(id, NULL))
		die("rdma_connect");
	for (unsigned i = 0; i < ROUNDS; i++) {
		fill(out, i);
		memset(back, 0, SIZE);
		if (rdma_post_recv(id, NULL, back, SIZE, back_mr) ||
		    rdma_post_send(id, NULL, out, SIZE, out_mr, 0))
			die("send");
		loop_round(&loop, i); /* while that is on its way */
		if (rdma_get_send_comp(id, &wc) < 1 || wc.status != IBV_WC_SUCCESS ||
		    rdma_get_recv_comp(id, &wc) < 1 || wc.status != IBV_WC_SUCCESS)
			die("completion");
		verify(back, i, "the kernel's device");
	}
	pthread_join(server, NULL);
	rdma_disconnect(id);
	printf("%d rounds of %d bytes over %s and %s in one process\n", ROUNDS, SIZE, argv[1],
	       argv[2]);
	ibv_close_device(kernel);
	return 0;
}
