/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Ping-pong with memory of a pool, on whatever device has the address: mempool_pingpong ADDRESS
 * [-s] (-s: the server). It is written for the reader; a real program would look at every return
 * value.
 */
#include <stdio.h>
#include <string.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_verbs.h>

#include <mempool/mempool.h>

int main(int argc, char **argv)
{
	bool server = argc > 2;
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP,
				      .ai_flags = server ? RAI_PASSIVE : 0};
	struct ibv_qp_init_attr qp = {.cap = {2, 2, 1, 1, 0}, .sq_sig_all = 1};
	struct rdma_addrinfo *info;
	struct rdma_cm_id *id, *listener;
	struct rmempool_buffer buffer;
	struct rmempool_mr *mr;
	struct rmempool *pool;
	struct ibv_wc wc;

	if (rdma_getaddrinfo(argv[1], "7471", &hints, &info) ||
	    rdma_create_ep(&id, info, NULL, &qp) ||
	    (server && (rdma_listen(listener = id, 1) || rdma_get_request(listener, &id))))
		return perror("no connection"), 1;
	if (rmempool_create(NULL, &pool) ||
	    rmempool_alloc(pool, 4096, 0, &buffer, sizeof(buffer)) ||
	    rmempool_register(pool, id->pd, buffer.addr, 4096, IBV_ACCESS_LOCAL_WRITE, &mr))
		return fputs("no memory\n", stderr), 1;
	char *out = buffer.addr, *in = out + 2048;

	rdma_post_recv(id, NULL, in, 2048, mr->ibv);
	if (server ? rdma_accept(id, NULL) : rdma_connect(id, NULL))
		return perror("no connection"), 1;
	for (int turn = 0; turn < 2000; turn++) {
		if (turn % 2 == server) {
			snprintf(out, 2048, "%s %d", server ? "pong" : "ping", turn / 2);
			if (rdma_post_send(id, NULL, out, strlen(out) + 1, mr->ibv, 0) ||
			    rdma_get_send_comp(id, &wc) != 1 || wc.status)
				return fputs("nothing went\n", stderr), 1;
		} else if (rdma_get_recv_comp(id, &wc) != 1 || wc.status ||
			   rdma_post_recv(id, NULL, in, 2048, mr->ibv)) {
			return fputs("nothing came\n", stderr), 1;
		}
	}
	printf("%s\n", in);
	rmempool_free(pool, buffer.addr); /* and with it the registration */
	return rmempool_destroy(pool) ? 1 : (rdma_disconnect(id), 0);
}
