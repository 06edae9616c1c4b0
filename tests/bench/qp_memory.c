/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory of an idle RC QP with queues of 8 WRs: qp_memory DEVICE COUNT creates COUNT of them on one
 * CQ, connects them to each other in pairs (an idle QP is a connected one) and prints by how many
 * bytes of resident memory the process has grown for each. What lies in shared memory counts too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "device.h"
#include "measure.h"

#define WARM_UP 64 /* QPs made first, so that what is made once does not count */

static int connect_qp(struct ibv_qp *qp, uint32_t peer, const union ibv_gid *gid)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	int ret = ibv_modify_qp(
		qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = *gid, .hop_limit = 1}}};
	ret = ret ? ret
		  : ibv_modify_qp(qp, &attr,
				  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					  IBV_QP_MIN_RNR_TIMER);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .timeout = 14,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .max_rd_atomic = 1};
	return ret ? ret
		   : ibv_modify_qp(qp, &attr,
				   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					   IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					   IBV_QP_MAX_QP_RD_ATOMIC);
}

static void create_pairs(struct ibv_pd *pd, struct ibv_cq *cq, const union ibv_gid *gid, long n,
			 struct ibv_qp **qps)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1}};

	for (long i = 0; i < n; i++) {
		qps[i] = ibv_create_qp(pd, &init);
		if (!qps[i]) {
			perror("ibv_create_qp");
			exit(1);
		}
	}
	for (long i = 0; i < n; i++) {
		if (connect_qp(qps[i], qps[i ^ 1]->qp_num, gid)) {
			perror("ibv_modify_qp");
			exit(1);
		}
	}
}

int main(int argc, char **argv)
{
	union ibv_gid gid;

	if (argc != 3) {
		fprintf(stderr, "usage: qp_memory DEVICE COUNT\n");
		return 2;
	}

	long count = atol(argv[2]) & ~1L, before;
	struct ibv_context *ctx = open_device(argv[1]);
	struct ibv_pd *pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	struct ibv_cq *cq = pd ? ibv_create_cq(ctx, 128, NULL, NULL, 0) : NULL;
	struct ibv_qp **qps = calloc(count + WARM_UP, sizeof(struct ibv_qp *));

	if (!cq || !qps || count < 2 || ibv_query_gid(ctx, 1, 0, &gid)) {
		fprintf(stderr, "qp_memory: %s cannot be opened\n", argv[1]);
		return 1;
	}
	memset(qps, 0xff, (count + WARM_UP) * sizeof(*qps)); /* resident before it is counted */
	create_pairs(pd, cq, &gid, WARM_UP, qps);
	before = resident();
	create_pairs(pd, cq, &gid, count, qps + WARM_UP);
	printf("%ld\n", (resident() - before) / count);
	for (long i = 0; i < count + WARM_UP; i++)
		ibv_destroy_qp(qps[i]);
	free(qps);
	ibv_destroy_cq(cq);
	ibv_dealloc_pd(pd);
	ibv_close_device(ctx);
	return 0;
}
