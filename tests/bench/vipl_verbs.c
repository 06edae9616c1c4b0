// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The same work by VIPL and by verbs, which wait in the same way: reliable connections, completions
 * of both queues taken, receives posted again. Both have a connection between the same two
 * processes, and work in turn, a short round each, so that neither the machine's moments nor where
 * two processes lie is taken for a difference.
 *
 *	vipl_verbs WORK ADDRESS COUNT serve
 *	vipl_verbs WORK ADDRESS COUNT
 *
 * COUNT is of a round. The second one prints the medians of the rounds, VIPL's and verbs'. WORK,
 * and what is measured: lat (microseconds, half a round trip of 4 bytes, polled), cq (the same, all
 * completions through one queue), imm (the same by RDMA writes with immediate data), wait (the
 * same, blocking for receives), bw (MB/s of 64 KiB, 32 under way), connect (microseconds for
 * connecting and disconnecting).
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <vipl.h>

#include "measure.h"

#define DEPTH  64
#define WINDOW 32
#define LARGE  65536
#define ROUNDS 21
#define PORT   "7488"

static bool raw; /* by verbs, now */
static bool serves, shared, writes;
static const char *address;
static char (*buffers)[LARGE];
static uint64_t peer_address;
static uint32_t peer_keys[2];	/* by raw */
static unsigned sent, received; /* completions, in a round */

static VIP_NIC_HANDLE nic;
static VIP_NIC_ATTRIBUTES attributes;
static VIP_VI_HANDLE vi;
static VIP_CQ_HANDLE vip_cq;
static VIP_MEM_HANDLE handle, descriptor_handle;
static struct {
	VIP_DESCRIPTOR d;
} * descriptors;

static struct rdma_cm_id *id, *listener;
static struct ibv_comp_channel *channel;
static struct ibv_cq *send_cq, *recv_cq;
static struct ibv_pd *pd;
static struct ibv_mr *mr;

static void need(bool good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

#define VIP(call) need((call) == VIP_SUCCESS, #call)

static void need_success(const struct ibv_wc *wc)
{
	if (!wc->status)
		return;
	fprintf(stderr, "a completion: %s\n", ibv_wc_status_str(wc->status));
	exit(1);
}

/* Memory and queues; of verbs, when the first id has told the device. */
static void open_verbs(struct ibv_context *context)
{
	if (pd)
		return;
	pd = ibv_alloc_pd(context);
	channel = ibv_create_comp_channel(context);
	recv_cq = ibv_create_cq(context, 2 * DEPTH, NULL, channel, 0);
	send_cq = shared ? recv_cq : ibv_create_cq(context, DEPTH, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, buffers, 2 * DEPTH * LARGE,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	need(pd && channel && recv_cq && send_cq && mr, "verbs");
}

static void open_vipl(void)
{
	VIP_MEM_ATTRIBUTES memory = {.EnableRdmaWrite = VIP_TRUE};

	VIP(VipOpenNic("nic0", &nic));
	VIP(VipQueryNic(nic, &attributes));
	VIP(VipNSInit(nic, NULL));
	VIP(VipRegisterMem(nic, buffers, 2 * DEPTH * LARGE, &memory, &handle));
	descriptors = aligned_alloc(64, 2 * DEPTH * sizeof(*descriptors));
	memset(descriptors, 0, 2 * DEPTH * sizeof(*descriptors));
	VIP(VipRegisterMem(nic, descriptors, 2 * DEPTH * sizeof(*descriptors), &memory,
			   &descriptor_handle));
	if (shared)
		VIP(VipCreateCQ(nic, 4 * DEPTH, &vip_cq));
}

static void create_qp(void)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC,
					.send_cq = send_cq,
					.recv_cq = recv_cq,
					.cap = {.max_send_wr = DEPTH,
						.max_recv_wr = DEPTH,
						.max_send_sge = 1,
						.max_recv_sge = 1,
						.max_inline_data = 64},
					.sq_sig_all = 1};

	need(!rdma_create_qp(id, pd, &init), "rdma_create_qp");
}

static void create_vi(void)
{
	VIP_VI_ATTRIBUTES wanted = {.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY,
				    .MaxTransferSize = LARGE,
				    .EnableRdmaWrite = VIP_TRUE};

	VIP(VipCreateVi(nic, &wanted, vip_cq, vip_cq, &vi));
}

static void post_recv(unsigned i, unsigned length)
{
	if (raw) {
		struct ibv_sge sge = {(uintptr_t)buffers[i], length, mr->lkey};
		struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

		need(!ibv_post_recv(id->qp, &wr, &bad), "ibv_post_recv");
		return;
	}
	descriptors[i].d = (VIP_DESCRIPTOR){.CS = {.SegCount = 1, .Length = length}};
	descriptors[i].d.Data[0] = (VIP_DATA_SEGMENT){{.Address = buffers[i]}, handle, length};
	VIP(VipPostRecv(vi, &descriptors[i].d, descriptor_handle));
}

static void post_send(unsigned i, unsigned length)
{
	i += DEPTH;
	if (raw) {
		struct ibv_sge sge = {(uintptr_t)buffers[i], length, mr->lkey};
		struct ibv_send_wr wr = {.wr_id = i,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode =
						 writes ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND,
					 .send_flags = length <= 64 ? IBV_SEND_INLINE : 0},
				   *bad;

		wr.wr.rdma.remote_addr = peer_address;
		wr.wr.rdma.rkey = peer_keys[raw];
		need(!ibv_post_send(id->qp, &wr, &bad), "ibv_post_send");
		return;
	}
	descriptors[i].d = (VIP_DESCRIPTOR){.CS = {.SegCount = 1 + writes, .Length = length}};
	descriptors[i].d.Data[writes] = (VIP_DATA_SEGMENT){{.Address = buffers[i]}, handle, length};
	if (writes) {
		descriptors[i].d.CS.Control = VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE;
		descriptors[i].d.DS[0].Remote =
			(VIP_ADDRESS_SEGMENT){{.AddressBits = peer_address}, peer_keys[raw], 0};
	}
	VIP(VipPostSend(vi, &descriptors[i].d, descriptor_handle));
}

static void take_sent(void)
{
	VIP_DESCRIPTOR *d;
	struct ibv_wc wc;

	if (!raw) {
		sent += VipSendDone(vi, &d) == VIP_SUCCESS;
	} else if (ibv_poll_cq(send_cq, 1, &wc) == 1) {
		need_success(&wc);
		sent++;
	}
}

/* What was received is posted again. False: nothing was. */
static bool take_received(unsigned length)
{
	VIP_DESCRIPTOR *d;
	struct ibv_wc wc;

	if (!raw) {
		if (VipRecvDone(vi, &d) != VIP_SUCCESS)
			return false;
		post_recv((typeof(descriptors))d - descriptors, length);
	} else {
		if (ibv_poll_cq(recv_cq, 1, &wc) != 1)
			return false;
		need_success(&wc);
		post_recv(wc.wr_id, length);
	}
	received++;
	return true;
}

/* From the completion queue that both have. */
static void take_shared(unsigned length)
{
	unsigned index;
	VIP_DESCRIPTOR *d;
	VIP_BOOLEAN recv;
	VIP_VI_HANDLE of;
	struct ibv_wc wc;

	if (raw) {
		if (ibv_poll_cq(recv_cq, 1, &wc) != 1)
			return;
		need_success(&wc);
		recv = wc.opcode & IBV_WC_RECV;
		index = wc.wr_id;
	} else {
		if (VipCQDone(vip_cq, &of, &recv) != VIP_SUCCESS)
			return;
		VIP(recv ? VipRecvDone(of, &d) : VipSendDone(of, &d));
		index = (typeof(descriptors))d - descriptors;
	}
	if (recv) {
		post_recv(index, length);
		received++;
	} else {
		sent++;
	}
}

/* One that has completed, or two. A queue of sends that is never asked overflows when receives
 * never cease. */
static void take(unsigned length)
{
	static unsigned turns;

	if (shared)
		take_shared(length);
	else if (!take_received(length) || ++turns % 16 == 0)
		take_sent();
}

static void block(void)
{
	VIP_DESCRIPTOR *d;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	if (!raw) {
		VIP(VipRecvWait(vi, VIP_INFINITE, &d));
		post_recv((typeof(descriptors))d - descriptors, 64);
		return;
	}
	while (ibv_poll_cq(recv_cq, 1, &wc) != 1) {
		need(!ibv_req_notify_cq(recv_cq, 0), "ibv_req_notify_cq");
		if (ibv_poll_cq(recv_cq, 1, &wc) == 1)
			break;
		need(!ibv_get_cq_event(channel, &cq, &context), "ibv_get_cq_event");
		ibv_ack_cq_events(cq, 1);
	}
	need_success(&wc);
	post_recv(wc.wr_id, 64);
}

static void finish_send(void)
{
	VIP_DESCRIPTOR *d;
	struct ibv_wc wc;

	if (!raw)
		while (VipSendDone(vi, &d) == VIP_NOT_DONE)
			;
	else
		while (ibv_poll_cq(send_cq, 1, &wc) != 1)
			;
}

static union {
	VIP_NET_ADDRESS net;
	char bytes[64];
} local, remote;

static void make_address(VIP_NET_ADDRESS *to, const char *host, const char *discriminator)
{
	VIP(VipNSGetHostByName(nic, (char *)host, to, 0));
	to->DiscriminatorLen = strlen(discriminator);
	memcpy(to->HostAddress + to->HostAddressLen, discriminator, strlen(discriminator));
}

static void connect_vipl(void)
{
	VIP_VI_ATTRIBUTES told;
	VIP_CONN_HANDLE conn;
	VIP_RETURN result;

	if (serves) {
		make_address(&local.net, address, "bench");
		VIP(VipConnectWait(nic, &local.net, VIP_INFINITE, &remote.net, &told, &conn));
		VIP(VipConnectAccept(conn, vi));
		return;
	}
	memset(&local, 0, sizeof(local));
	local.net.HostAddressLen = attributes.NicAddressLen;
	memcpy(local.net.HostAddress, attributes.LocalNicAddress, attributes.NicAddressLen);
	make_address(&remote.net, address, "bench");
	do
		result = VipConnectRequest(vi, &local.net, &remote.net, VIP_INFINITE, &told);
	while (result == VIP_NO_MATCH);
	VIP(result);
}

static struct rdma_conn_param conn_param = {.retry_count = 7, .rnr_retry_count = 7};

static void create_id(void)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *info;

	if (serves) {
		hints.ai_flags = RAI_PASSIVE;
		if (!listener) {
			need(!rdma_getaddrinfo(address, PORT, &hints, &info), "rdma_getaddrinfo");
			need(!rdma_create_ep(&listener, info, NULL, NULL), "rdma_create_ep");
			need(!rdma_listen(listener, 8), "rdma_listen");
			rdma_freeaddrinfo(info);
		}
		need(!rdma_get_request(listener, &id), "rdma_get_request");
	} else {
		need(!rdma_getaddrinfo(address, PORT, &hints, &info), "rdma_getaddrinfo");
		need(!rdma_create_ep(&id, info, NULL, NULL), "rdma_create_ep");
		rdma_freeaddrinfo(info);
	}
	open_verbs(id->verbs);
	create_qp();
}

static void connect_verbs(void)
{
	need(!(serves ? rdma_accept(id, &conn_param) : rdma_connect(id, &conn_param)), "connect");
}

static void connect_both(unsigned length)
{
	if (raw)
		create_id();
	else
		create_vi();
	for (unsigned i = 0; i < DEPTH; i++)
		post_recv(i, length);
	if (raw)
		connect_verbs();
	else
		connect_vipl();
}

static void disconnect_both(void)
{
	VIP_DESCRIPTOR *d;
	struct ibv_wc wc;

	if (raw) {
		rdma_disconnect(id);
		while (ibv_poll_cq(recv_cq, 1, &wc) == 1)
			;
		rdma_destroy_ep(id);
		return;
	}
	VIP(VipDisconnect(vi));
	while (VipRecvDone(vi, &d) != VIP_NOT_DONE && d)
		;
	while (VipSendDone(vi, &d) != VIP_NOT_DONE && d)
		;
	VIP(VipDestroyVi(vi));
}

/* Where the peer writes to: by a first message. Its first write may come before this one is known
 * to have been sent. */
static void exchange(void)
{
	writes = false;
	*(uint64_t *)buffers[DEPTH] = (uintptr_t)buffers[2 * DEPTH - 1];
	*(uint32_t *)(buffers[DEPTH] + 8) = raw ? mr->rkey : handle;
	post_send(0, 16);
	while (!take_received(64))
		;
	memcpy(&peer_address, buffers[0], 8);
	memcpy(&peer_keys[raw], buffers[0] + 8, 4);
	while (!sent)
		take_sent();
	writes = true;
}

static void pingpong(unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		if (!serves)
			post_send(0, 4);
		/* The next message may come before the last one is known to have been sent. */
		while (received <= i || (!serves && sent <= i))
			take(64);
		if (serves)
			post_send(0, 4);
	}
}

/* A send is asked for after the answer has come: asking before would be waiting without sleep. */
static void pingpong_blocking(unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		if (!serves)
			post_send(0, 4);
		block();
		if (!serves || i)
			finish_send();
		if (serves)
			post_send(0, 4);
	}
	if (serves)
		finish_send();
}

/* A message back for each half window keeps the receives ahead of the sends. */
static void stream_out(unsigned count)
{
	for (unsigned posted = 0; sent < count; take(LARGE)) {
		if (posted < count && posted - sent < WINDOW &&
		    posted < WINDOW + received * (WINDOW / 2)) {
			post_send(posted % WINDOW, LARGE);
			posted++;
		}
	}
	while (received < count / (WINDOW / 2))
		take(LARGE);
}

static void stream_in(unsigned count)
{
	unsigned credits = 0;

	while (received < count) {
		take(LARGE);
		if (received >= (credits + 1) * (WINDOW / 2))
			post_send(credits++ % WINDOW, 0);
	}
}

static void stream(unsigned count)
{
	if (serves)
		stream_in(count);
	else
		stream_out(count);
}

/* Connections only; each end has its QP or VI anew. */
static void connections(unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		if (raw)
			create_id();
		else
			create_vi();
		if (raw)
			connect_verbs();
		else
			connect_vipl();
		disconnect_both();
	}
}

static double half_trip_us(unsigned count, double seconds)
{
	return seconds * 1e6 / count / 2;
}

static double each_us(unsigned count, double seconds)
{
	return seconds * 1e6 / count;
}

static double large_mbps(unsigned count, double seconds)
{
	return count * (double)LARGE / seconds / 1e6;
}

static const struct work {
	const char *name;
	void (*run)(unsigned count);
	double (*figure)(unsigned count, double seconds);
	unsigned length; /* of the receives; 0: it connects by itself */
} works[] = {
	{"lat", pingpong, half_trip_us, 64}, {"cq", pingpong, half_trip_us, 64},
	{"imm", pingpong, half_trip_us, 64}, {"wait", pingpong_blocking, half_trip_us, 64},
	{"bw", stream, large_mbps, LARGE},   {"connect", connections, each_us, 0},
};

static const struct work *find_work(const char *name)
{
	for (unsigned i = 0; i < sizeof(works) / sizeof(works[0]); i++) {
		if (!strcmp(works[i].name, name))
			return &works[i];
	}
	exit(2);
}

static double round_of(const struct work *work, unsigned count)
{
	double start = now_s();

	sent = received = 0;
	work->run(count);
	return work->figure(count, now_s() - start);
}

int main(int argc, char **argv)
{
	double figures[2][ROUNDS];
	const struct work *work;
	bool immediate;
	unsigned count;

	if (argc < 4)
		return 2;
	work = find_work(argv[1]);
	address = argv[2];
	count = atoi(argv[3]);
	serves = argc > 4;
	shared = !strcmp(work->name, "cq");
	immediate = !strcmp(work->name, "imm");
	buffers = aligned_alloc(4096, 2 * DEPTH * LARGE);
	memset(buffers, 0, 2 * DEPTH * LARGE);
	open_vipl();
	/* Verbs first: a VIPL program tries again until the other one waits. */
	for (int kind = 1; kind >= 0 && work->length; kind--) {
		raw = kind;
		connect_both(work->length);
		if (immediate)
			exchange();
	}
	for (unsigned i = 0; i < ROUNDS; i++) {
		for (int kind = 1; kind >= 0; kind--) {
			raw = kind;
			figures[kind][i] = round_of(work, count);
		}
	}
	if (!serves)
		printf("%g %g\n", median(figures[0], ROUNDS), median(figures[1], ROUNDS));
	/* The server leaves last: the caller's end is not waited for. */
	if (serves)
		sleep(1);
	return 0;
}
