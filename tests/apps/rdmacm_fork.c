// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A process that has a connection with itself forks. The child makes one of its own: librdmacm has
 * it use the contexts and protection domains that the parent has opened. The parent's goes on.
 *
 *	rdmacm_fork ADDRESS
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

static struct ibv_qp_init_attr init = {
	.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	.qp_type = IBV_QPT_RC,
	.sq_sig_all = 1,
};
static struct rdma_cm_id *listener, *server, *client;

static void need(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static struct rdma_cm_id *end(const char *address, const char *port, int flags)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = flags}, *info;
	struct ibv_qp_init_attr attr = init;
	struct rdma_cm_id *id;

	need(!rdma_getaddrinfo(address, port, &hints, &info), "rdma_getaddrinfo");
	need(!rdma_create_ep(&id, info, NULL, &attr), "rdma_create_ep");
	rdma_freeaddrinfo(info);
	return id;
}

static void *serve(void *unused)
{
	need(!rdma_get_request(listener, &server), "rdma_get_request");
	need(!rdma_accept(server, NULL), "rdma_accept");
	return NULL;
}

static void connect_ends(const char *address, const char *port)
{
	pthread_t thread;

	listener = end(address, port, RAI_PASSIVE);
	need(!rdma_listen(listener, 1), "rdma_listen");
	need(!pthread_create(&thread, NULL, serve, NULL), "pthread_create");
	client = end(address, port, 0);
	need(!rdma_connect(client, NULL), "rdma_connect");
	pthread_join(thread, NULL);
}

static void await(int n, const struct ibv_wc *wc, const char *what)
{
	if (n == 1 && wc->status)
		fprintf(stderr, "%s: %s\n", what, ibv_wc_status_str(wc->status));
	need(n == 1 && !wc->status, what);
}

/* A message from the client to the server. */
static void exchange(const char *text)
{
	char from[16] = "", to[16] = "";
	struct ibv_mr *sent = rdma_reg_msgs(client, from, sizeof(from));
	struct ibv_mr *received = rdma_reg_msgs(server, to, sizeof(to));
	struct ibv_wc wc;

	need(sent && received, "rdma_reg_msgs");
	strcpy(from, text);
	need(!rdma_post_recv(server, NULL, to, sizeof(to), received), "rdma_post_recv");
	need(!rdma_post_send(client, NULL, from, sizeof(from), sent, 0), "rdma_post_send");
	await(rdma_get_send_comp(client, &wc), &wc, "rdma_get_send_comp");
	await(rdma_get_recv_comp(server, &wc), &wc, "rdma_get_recv_comp");
	need(!strcmp(to, text), "the message");
	need(!rdma_dereg_mr(sent) && !rdma_dereg_mr(received), "rdma_dereg_mr");
}

static void destroy_ends(void)
{
	rdma_destroy_ep(client);
	rdma_destroy_ep(server);
	rdma_destroy_ep(listener);
}

int main(int argc, char **argv)
{
	int status;
	pid_t pid;

	if (argc != 2)
		return 2;
	connect_ends(argv[1], "7191");
	exchange("before");
	pid = fork();
	need(pid >= 0, "fork");
	if (!pid) {
		connect_ends(argv[1], "7192");
		exchange("child");
		destroy_ends();
		return 0;
	}
	need(waitpid(pid, &status, 0) == pid, "waitpid");
	if (status)
		fprintf(stderr, "the child: %#x\n", status);
	exchange("after");
	destroy_ends();
	return status != 0;
}
