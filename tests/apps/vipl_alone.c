// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What one process can find out about VIPL: bad input, idle VIs, handlers, threads, fork. Two VIs
 * of two NIC handles are connected with each other where data is to flow:
 *
 *	vipl_alone [-n NIC] [CASE…]
 */
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "vipl_test.h"

static const char *nic = "nic0";
static struct end a, b;
static int errors[VIP_ERROR_CATASTROPHIC + 1];

static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
	EXPECT_TRUE(context == errors);
	__atomic_add_fetch(&errors[error->ErrorCode], 1, __ATOMIC_SEQ_CST);
}

static void await_errors(VIP_ERROR_CODE code, int count)
{
	double limit = seconds() + LONG_TIME / 1000;

	while (__atomic_load_n(&errors[code], __ATOMIC_SEQ_CST) < count && seconds() < limit)
		usleep(100);
	EXPECT(errors[code], count);
}

static void *accept_b(void *name)
{
	serve(&b, name);
	return NULL;
}

/* Connects the VIs of both ends, which have been created. */
static void connect_both(const char *name)
{
	pthread_t thread;

	pthread_create(&thread, NULL, accept_b, (void *)name);
	NEED(call(&a, NULL, name), VIP_SUCCESS);
	pthread_join(thread, NULL);
}

static void attributes(void)
{
	VIP_NIC_HANDLE other;
	struct {
		VIP_VI_ATTRIBUTES attributes;
		VIP_RETURN result;
	} rows[] = {
		{a.vi_attributes, VIP_SUCCESS},
		{a.vi_attributes, VIP_INVALID_RELIABILITY_LEVEL},
		{a.vi_attributes, VIP_INVALID_RELIABILITY_LEVEL},
		{a.vi_attributes, VIP_INVALID_MTU},
		{a.vi_attributes, VIP_INVALID_MTU},
		{a.vi_attributes, VIP_INVALID_QOS},
		{a.vi_attributes, VIP_INVALID_PTAG},
		{a.vi_attributes, VIP_INVALID_PTAG},
		{a.vi_attributes, VIP_INVALID_RDMAREAD},
	};

	rows[1].attributes.ReliabilityLevel = 0;
	rows[2].attributes.ReliabilityLevel = 6;
	rows[3].attributes.MaxTransferSize = 0;
	rows[4].attributes.MaxTransferSize++;
	rows[5].attributes.QoS = &a;
	rows[6].attributes.Ptag = &a;
	rows[7].attributes.Ptag = b.ptag;
	rows[8].attributes.ReliabilityLevel = VIP_SERVICE_UNRELIABLE;
	rows[8].attributes.EnableRdmaRead = VIP_TRUE;
	EXPECT_TRUE(a.attributes.MaxTransferSize >= 32768);
	EXPECT_TRUE(a.attributes.MaxSegmentsPerDesc >= 252);
	EXPECT_TRUE(a.attributes.MaxDescriptorsPerQueue >= 1024);
	EXPECT_TRUE(4 + a.attributes.NicAddressLen + 8 <= 40);
	EXPECT(a.attributes.ThreadSafe, VIP_TRUE);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		EXPECT(VipCreateVi(a.nic, &rows[i].attributes, NULL, NULL, &a.vi), rows[i].result);
		if (rows[i].result)
			continue;
		for (unsigned j = 0; j < sizeof(rows) / sizeof(*rows); j++)
			EXPECT(VipSetViAttributes(a.vi, &rows[j].attributes), rows[j].result);
		EXPECT(VipDestroyVi(a.vi), VIP_SUCCESS);
		EXPECT(VipDestroyVi(a.vi), VIP_INVALID_PARAMETER);
	}
	EXPECT(VipCreateVi(a.nic, &a.vi_attributes, &a, NULL, &a.vi), VIP_INVALID_PARAMETER);
	EXPECT(VipCreateVi(a.nic, NULL, NULL, NULL, &a.vi), VIP_INVALID_PARAMETER);
	EXPECT(VipDestroyPtag(b.nic, a.ptag), VIP_INVALID_PARAMETER);
	EXPECT(VipDestroyPtag(a.nic, a.ptag), VIP_ERROR_RESOURCE);
	EXPECT(VipOpenNic("/dev/via_of_nobody", &other), VIP_ERROR_RESOURCE);
	EXPECT(VipQuerySystemManagementInfo(a.nic, VIP_SMI_AUTODISCOVERY, &other),
	       VIP_ERROR_NOT_SUPPORTED);
}

static bool no_qps; /* the device has none left */

__attribute__((visibility("default"))) struct ibv_qp *ibv_create_qp(struct ibv_pd *pd,
								    struct ibv_qp_init_attr *init)
{
	struct ibv_qp *(*create)(struct ibv_pd *, struct ibv_qp_init_attr *) =
		dlsym(RTLD_NEXT, "ibv_create_qp");

	errno = ENOMEM;
	return no_qps ? NULL : create(pd, init);
}

/* Attributes that a VI cannot be given leave it as it was. */
static void kept_attributes(void)
{
	VIP_VI_ATTRIBUTES wanted = a.vi_attributes, told;
	VIP_BOOLEAN yes, no;
	VIP_VI_STATE state;

	create_vi(&a);
	create_vi(&b);
	wanted.ReliabilityLevel = VIP_SERVICE_UNRELIABLE;
	wanted.EnableRdmaRead = VIP_FALSE;
	wanted.Ptag = NULL;
	no_qps = true;
	EXPECT(VipSetViAttributes(a.vi, &wanted), VIP_ERROR_RESOURCE);
	no_qps = false;
	EXPECT(VipQueryVi(a.vi, &state, &told, &yes, &no), VIP_SUCCESS);
	EXPECT(told.ReliabilityLevel, a.vi_attributes.ReliabilityLevel);
	EXPECT_TRUE(told.Ptag == a.vi_attributes.Ptag);
	post_recv(&b, 0, 16);
	connect_both("as before");
	post_send(&a, 0, 16);
	sent(&a, 0);
	received(&b, 0);
	destroy_vi(&a);
	destroy_vi(&b);
}

/* Sends fail, receives are kept, and nothing is lost. */
static void idle(void)
{
	VIP_BOOLEAN send_empty, recv_empty;
	VIP_VI_ATTRIBUTES told;
	VIP_VI_STATE state;
	VIP_DESCRIPTOR *d;

	create_vi(&a);
	EXPECT(VipSendDone(a.vi, &d), VIP_DESCRIPTOR_ERROR);
	EXPECT_TRUE(!d);
	EXPECT(VipRecvWait(a.vi, LONG_TIME, &d), VIP_DESCRIPTOR_ERROR);
	EXPECT_TRUE(!d);
	post_send(&a, 0, 10);
	EXPECT(a.memory->descriptors[0].d.CS.Status,
	       VIP_STATUS_DONE | VIP_STATUS_OP_SEND | VIP_STATUS_DESC_FLUSHED_ERROR);
	post_recv(&a, 1, 10);
	d = describe(&a, 2, 10);
	d->CS.Control = 0x100;
	EXPECT(VipPostRecv(a.vi, d, a.handle), VIP_SUCCESS);
	EXPECT(VipQueryVi(a.vi, &state, &told, &send_empty, &recv_empty), VIP_SUCCESS);
	EXPECT(state, VIP_STATE_IDLE);
	EXPECT(send_empty, VIP_FALSE);
	EXPECT(recv_empty, VIP_FALSE);
	EXPECT(VipDestroyVi(a.vi), VIP_ERROR_RESOURCE);
	EXPECT(VipRecvDone(a.vi, &d), VIP_NOT_DONE);
	EXPECT(VipRecvWait(a.vi, 5, &d), VIP_TIMEOUT);
	EXPECT(VipDisconnect(a.vi), VIP_SUCCESS);
	EXPECT(a.memory->descriptors[1].d.CS.Status,
	       VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE | VIP_STATUS_DESC_FLUSHED_ERROR);
	EXPECT(a.memory->descriptors[2].d.CS.Status,
	       VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE | VIP_STATUS_FORMAT_ERROR);
	EXPECT(VipDisconnect(a.vi), VIP_SUCCESS);
	EXPECT(VipDestroyVi(a.vi), VIP_ERROR_RESOURCE);
	EXPECT(VipSendDone(a.vi, &d), VIP_DESCRIPTOR_ERROR);
	EXPECT_TRUE(d == &a.memory->descriptors[0].d);
	for (int i = 1; i < 3; i++) {
		EXPECT(VipRecvDone(a.vi, &d), VIP_DESCRIPTOR_ERROR);
		EXPECT_TRUE(d == &a.memory->descriptors[i].d);
	}
	EXPECT(VipQueryVi(a.vi, &state, &told, &send_empty, &recv_empty), VIP_SUCCESS);
	EXPECT(send_empty && recv_empty, VIP_TRUE);
	EXPECT(VipDestroyVi(a.vi), VIP_SUCCESS);
}

/* What cannot be posted is told to the handler. */
static void unpostable(void)
{
	VIP_DESCRIPTOR *d = describe(&a, 0, 10);
	int receives = 0;

	create_vi(&a);
	NEED(VipErrorCallback(a.nic, errors, on_error), VIP_SUCCESS);
	EXPECT(VipPostSend(a.vi, (VIP_DESCRIPTOR *)((char *)d + 8), a.handle), VIP_SUCCESS);
	EXPECT(VipPostSend(a.vi, d, a.handle + 1), VIP_SUCCESS);
	EXPECT(VipPostRecv(a.vi, d, 0), VIP_SUCCESS);
	EXPECT(VipPostRecv(a.vi, (VIP_DESCRIPTOR *)(uintptr_t)0x1000, a.handle), VIP_SUCCESS);
	EXPECT(VipPostRecv(a.vi, (VIP_DESCRIPTOR *)-64, a.handle), VIP_SUCCESS);
	EXPECT(VipPostSend(a.vi, NULL, a.handle), VIP_INVALID_PARAMETER);
	await_errors(VIP_ERROR_POST_DESC, 5);
	for (unsigned i = 0; i < a.attributes.MaxDescriptorsPerQueue + 1; i++)
		EXPECT(VipPostRecv(a.vi, d, a.handle), VIP_SUCCESS);
	await_errors(VIP_ERROR_VI_OVERRUN, 1);
	EXPECT(VipDisconnect(a.vi), VIP_SUCCESS);
	receives = drain(VipRecvDone, a.vi);
	EXPECT(receives, a.attributes.MaxDescriptorsPerQueue);
	EXPECT(VipDestroyVi(a.vi), VIP_SUCCESS);
	NEED(VipErrorCallback(a.nic, NULL, NULL), VIP_SUCCESS);
}

static void memory(void)
{
	VIP_MEM_ATTRIBUTES wanted = {.Ptag = a.ptag, .EnableRdmaWrite = VIP_TRUE}, told;
	static char bytes[8192], constant[] = "read only";
	VIP_MEM_HANDLE first, second, third;
	void *page = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)constant;
	EXPECT(VipRegisterMem(a.nic, bytes, sizeof(bytes), &wanted, &first), VIP_SUCCESS);
	EXPECT(VipRegisterMem(a.nic, bytes, sizeof(bytes), &wanted, &second), VIP_SUCCESS);
	EXPECT(VipRegisterMem(a.nic, bytes + 100, 100, &wanted, &third), VIP_SUCCESS);
	EXPECT_TRUE(first && second && third && first != second && second != third);
	EXPECT(VipQueryMem(a.nic, bytes, third, &told), VIP_INVALID_PARAMETER);
	EXPECT(VipQueryMem(a.nic, bytes + 100, third, &told), VIP_SUCCESS);
	EXPECT(told.EnableRdmaWrite, VIP_TRUE);
	told.EnableRdmaWrite = VIP_FALSE;
	EXPECT(VipSetMemAttributes(a.nic, bytes + 100, third, &told), VIP_SUCCESS);
	EXPECT(VipQueryMem(a.nic, bytes + 100, third, &told), VIP_SUCCESS);
	EXPECT(told.EnableRdmaWrite, VIP_FALSE);
	told.Ptag = b.ptag;
	EXPECT(VipSetMemAttributes(a.nic, bytes + 100, third, &told), VIP_INVALID_PTAG);
	EXPECT(VipDeregisterMem(a.nic, bytes, third), VIP_INVALID_PARAMETER);
	EXPECT(VipDeregisterMem(a.nic, bytes + 100, third), VIP_SUCCESS);
	EXPECT(VipDeregisterMem(a.nic, bytes + 100, third), VIP_INVALID_PARAMETER);
	EXPECT(VipDeregisterMem(b.nic, bytes, second), VIP_INVALID_PARAMETER);
	EXPECT(VipDeregisterMem(a.nic, bytes, second), VIP_SUCCESS);
	EXPECT(VipDeregisterMem(a.nic, bytes, first), VIP_SUCCESS);
	EXPECT(VipRegisterMem(a.nic, bytes, sizeof(bytes), NULL, &first), VIP_SUCCESS);
	EXPECT(VipQueryMem(a.nic, bytes, first, &told), VIP_SUCCESS);
	EXPECT_TRUE(!told.Ptag && !told.EnableRdmaWrite && !told.EnableRdmaRead);
	EXPECT(VipDeregisterMem(a.nic, bytes, first), VIP_SUCCESS);
	EXPECT(VipRegisterMem(a.nic, bytes, 0, &wanted, &first), VIP_INVALID_PARAMETER);
	EXPECT(first, 0);
	EXPECT(VipRegisterMem(a.nic, NULL, 10, &wanted, &first), VIP_INVALID_PARAMETER);
	EXPECT(VipRegisterMem(a.nic, bytes, ~0ul, &wanted, &first), VIP_INVALID_PARAMETER);
	EXPECT(VipRegisterMem(a.nic, (void *)4096, 1 << 20, &wanted, &first), VIP_ERROR_RESOURCE);
	/* What may only be read can be sent from, and not be written to by anybody. */
	EXPECT(VipRegisterMem(a.nic, page, 8192, &wanted, &first), VIP_ERROR_RESOURCE);
	wanted.EnableRdmaWrite = VIP_FALSE;
	EXPECT(VipRegisterMem(a.nic, page, 8192, &wanted, &first), VIP_SUCCESS);
	create_vi(&a);
	describe(&a, 0, 10)->DS[0].Local.Data.Address = page;
	a.memory->descriptors[0].d.DS[0].Local.Handle = first;
	EXPECT(VipPostRecv(a.vi, &a.memory->descriptors[0].d, a.handle), VIP_SUCCESS);
	EXPECT(a.memory->descriptors[0].d.CS.Status & VIP_STATUS_ERROR_MASK,
	       VIP_STATUS_PROTECTION_ERROR);
	destroy_vi(&a);
	EXPECT(VipDeregisterMem(a.nic, page, first), VIP_SUCCESS);
	munmap(page, 8192);
}

/* Remote rights that are taken away and given back, with the same handle. */
static void rights(void)
{
	VIP_MEM_ATTRIBUTES wanted = {.Ptag = b.ptag, .EnableRdmaWrite = VIP_TRUE};
	static char bytes[64] __attribute__((aligned(64)));
	VIP_MEM_HANDLE handle;
	VIP_DESCRIPTOR *d;

	NEED(VipRegisterMem(b.nic, bytes, sizeof(bytes), &wanted, &handle), VIP_SUCCESS);
	for (int i = 0; i < 4; i++) {
		bool may = i & 1;

		wanted.EnableRdmaWrite = may;
		EXPECT(VipSetMemAttributes(b.nic, bytes, handle, &wanted), VIP_SUCCESS);
		create_vi(&a);
		create_vi(&b);
		connect_both("rights");
		d = describe(&a, 0, 16);
		d->CS.Control = VIP_CONTROL_OP_RDMAWRITE;
		d->CS.SegCount = 2;
		d->DS[1] = d->DS[0];
		d->DS[0].Remote.Data.Address = bytes;
		d->DS[0].Remote.Handle = handle;
		memset(a.memory->buffers[0], 'a' + i, 16);
		EXPECT(VipPostSend(a.vi, d, a.handle), VIP_SUCCESS);
		EXPECT(VipSendWait(a.vi, LONG_TIME, &d), may ? VIP_SUCCESS : VIP_DESCRIPTOR_ERROR);
		EXPECT(bytes[15] == 'a' + i, may);
		destroy_vi(&a);
		destroy_vi(&b);
	}
	EXPECT(VipDeregisterMem(b.nic, bytes, handle), VIP_SUCCESS);
}

/* The descriptors' memory goes while they are posted: nothing is written to it. */
/* The message of a descriptor with many segments may lie in a buffer of the library's first. */
static void vanishing_segments(void)
{
	VIP_MEM_ATTRIBUTES wanted = {.Ptag = a.ptag};
	VIP_DESCRIPTOR *d = describe(&a, 0, 100);
	VIP_DESCRIPTOR_SEGMENT *segments = d->DS;
	VIP_MEM_HANDLE handle;
	char *to = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	create_vi(&a);
	create_vi(&b);
	EXPECT(VipRegisterMem(a.nic, to, 4096, &wanted, &handle), VIP_SUCCESS);
	d->CS.SegCount = 50;
	for (int i = 0; i < 50; i++)
		segments[i].Local = (VIP_DATA_SEGMENT){.Data.Address = a.memory->buffers[1] + 3 * i,
						       .Handle = a.handle,
						       .Length = 2};
	segments[25].Local.Data.Address = to;
	segments[25].Local.Handle = handle;
	connect_both("vanishing too");
	EXPECT(VipPostRecv(a.vi, d, a.handle), VIP_SUCCESS);
	EXPECT(VipDeregisterMem(a.nic, to, handle), VIP_SUCCESS);
	munmap(to, 4096);
	post_send(&b, 0, 100);
	sent(&b, 0);
	EXPECT(VipRecvWait(a.vi, LONG_TIME, &d), VIP_DESCRIPTOR_ERROR);
	EXPECT(d->CS.Status & VIP_STATUS_ERROR_MASK, VIP_STATUS_PROTECTION_ERROR);
	destroy_vi(&b);
	destroy_vi(&a);
}

static void vanishing_memory(void)
{
	VIP_MEM_ATTRIBUTES wanted = {.Ptag = a.ptag};
	VIP_MEM_HANDLE handle;
	VIP_DESCRIPTOR *d =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	NEED(VipErrorCallback(a.nic, errors, on_error), VIP_SUCCESS);
	create_vi(&a);
	create_vi(&b);
	EXPECT(VipRegisterMem(a.nic, d, 4096, &wanted, &handle), VIP_SUCCESS);
	EXPECT(VipPostRecv(a.vi, d, handle), VIP_SUCCESS);
	connect_both("vanishing");
	EXPECT(VipPostRecv(a.vi, d + 1, handle), VIP_SUCCESS);
	EXPECT(VipDeregisterMem(a.nic, d, handle), VIP_SUCCESS);
	munmap(d, 4096);
	post_send(&b, 0, 0);
	sent(&b, 0);
	destroy_vi(&b);
	EXPECT(VipDisconnect(a.vi), VIP_SUCCESS);
	VipRecvDone(a.vi, &d);
	VipRecvDone(a.vi, &d);
	EXPECT(VipDestroyVi(a.vi), VIP_SUCCESS);
	vanishing_segments();
	NEED(VipErrorCallback(a.nic, NULL, NULL), VIP_SUCCESS);
}

static void *wait_for_entry(void *cq)
{
	VIP_BOOLEAN recv;
	VIP_VI_HANDLE vi;

	EXPECT(VipCQWait(cq, VIP_INFINITE, &vi, &recv), VIP_INVALID_PARAMETER);
	return NULL;
}

/* An entry in a CQ of which the VI has gone. */
static void leave_entry(VIP_CQ_HANDLE cq)
{
	EXPECT(VipCreateVi(a.nic, &a.vi_attributes, NULL, cq, &a.vi), VIP_SUCCESS);
	post_recv(&a, 0, 10);
	EXPECT(VipDisconnect(a.vi), VIP_SUCCESS);
	EXPECT(drain(VipRecvDone, a.vi), 1);
	EXPECT(VipDestroyVi(a.vi), VIP_SUCCESS);
}

static void queues(void)
{
	pthread_t thread;
	VIP_CQ_HANDLE cq, other;
	VIP_BOOLEAN recv;
	VIP_VI_HANDLE vi;

	EXPECT(VipCreateCQ(a.nic, 0, &cq), VIP_INVALID_PARAMETER);
	EXPECT(VipCreateCQ(a.nic, ~0ul, &cq), VIP_ERROR_RESOURCE);
	EXPECT(VipCreateCQ(a.nic, 4, &cq), VIP_SUCCESS);
	EXPECT(VipCreateCQ(b.nic, 4, &other), VIP_SUCCESS);
	EXPECT(VipCQDone(cq, &vi, &recv), VIP_NOT_DONE);
	EXPECT(VipCQWait(cq, 5, &vi, &recv), VIP_TIMEOUT);
	EXPECT(VipCQWait(cq, 0, &vi, &recv), VIP_TIMEOUT);
	EXPECT(VipResizeCQ(cq, 1000), VIP_SUCCESS);
	EXPECT(VipResizeCQ(cq, ~0ul), VIP_ERROR_RESOURCE);
	EXPECT(VipCreateVi(a.nic, &a.vi_attributes, other, cq, &vi), VIP_INVALID_PARAMETER);
	EXPECT(VipCreateVi(a.nic, &a.vi_attributes, NULL, cq, &a.vi), VIP_SUCCESS);
	EXPECT(VipDestroyCQ(cq), VIP_ERROR_RESOURCE);
	/* A flushed receive has an entry. */
	post_recv(&a, 0, 10);
	EXPECT(VipDisconnect(a.vi), VIP_SUCCESS);
	EXPECT(VipCQDone(cq, &vi, &recv), VIP_SUCCESS);
	EXPECT_TRUE(vi == a.vi && recv);
	EXPECT(drain(VipRecvDone, a.vi), 1);
	EXPECT(VipDestroyVi(a.vi), VIP_SUCCESS);
	/* Nobody can use it any more. */
	leave_entry(cq);
	EXPECT(VipCQDone(cq, &vi, &recv), VIP_NOT_DONE);
	leave_entry(cq);
	EXPECT(VipCQWait(cq, 5, &vi, &recv), VIP_TIMEOUT);
	leave_entry(cq);
	EXPECT(VipDestroyCQ(cq), VIP_SUCCESS);
	EXPECT(VipDestroyCQ(cq), VIP_INVALID_PARAMETER);
	/* Who waits for one that is destroyed returns. */
	pthread_create(&thread, NULL, wait_for_entry, other);
	EXPECT(VipDestroyCQ(other), VIP_SUCCESS);
	pthread_join(thread, NULL);
}

static void *ignore_a_request(void *conn)
{
	union address local, remote;
	VIP_VI_ATTRIBUTES told;

	make_address(&b, &local, NULL, "ignored");
	EXPECT(VipConnectWait(b.nic, &local.net, LONG_TIME, &remote.net, &told, conn), VIP_SUCCESS);
	return NULL;
}

/* Connections that do not come about, and the states in between. */
static void connecting(void)
{
	union address local, remote;
	VIP_VI_ATTRIBUTES told;
	VIP_CONN_HANDLE conn;
	VIP_RETURN result;
	VIP_VI_STATE state;
	VIP_BOOLEAN yes, no;
	pthread_t thread;
	double start;

	create_vi(&a);
	create_vi(&b);
	make_address(&a, &local, NULL, "me");
	make_address(&a, &remote, NULL, "nobody");
	EXPECT(VipConnectRequest(a.vi, &local.net, &remote.net, 0, &told), VIP_INVALID_PARAMETER);
	start = seconds();
	EXPECT(VipConnectRequest(a.vi, &local.net, &remote.net, VIP_INFINITE, &told), VIP_NO_MATCH);
	EXPECT_TRUE(seconds() - start < 5);
	EXPECT(VipConnectWait(a.nic, &local.net, 20, &remote.net, &told, &conn), VIP_TIMEOUT);
	EXPECT(VipConnectWait(a.nic, &local.net, 0, &remote.net, &told, &conn), VIP_TIMEOUT);
	local.net.DiscriminatorLen = 17;
	EXPECT(VipConnectWait(a.nic, &local.net, 20, &remote.net, &told, &conn),
	       VIP_INVALID_PARAMETER);
	local.net.DiscriminatorLen = 2;
	local.net.HostAddressLen = 6;
	EXPECT(VipConnectWait(a.nic, &local.net, 20, &remote.net, &told, &conn),
	       VIP_INVALID_PARAMETER);
	local.net.HostAddressLen = 16;
	memset(local.net.HostAddress, 0x20, 16); /* nobody's address */
	EXPECT(VipConnectWait(a.nic, &local.net, 20, &remote.net, &told, &conn),
	       VIP_INVALID_PARAMETER);

	pthread_create(&thread, NULL, ignore_a_request, &conn);
	make_address(&a, &local, NULL, "me");
	make_address(&a, &remote, NULL, "ignored");
	do
		result = VipConnectRequest(a.vi, &local.net, &remote.net, 300, &told);
	while (result == VIP_NO_MATCH);
	EXPECT(result, VIP_TIMEOUT);
	pthread_join(thread, NULL);
	EXPECT(VipQueryVi(a.vi, &state, &told, &yes, &no), VIP_SUCCESS);
	EXPECT(state, VIP_STATE_IDLE);
	EXPECT(VipConnectAccept(conn, b.vi), VIP_TIMEOUT);
	EXPECT(VipConnectAccept(conn, b.vi), VIP_INVALID_PARAMETER);
	EXPECT(VipConnectPeerRequest(a.vi, &local.net, &remote.net, 50), VIP_SUCCESS);
	EXPECT(VipQueryVi(a.vi, &state, &told, &yes, &no), VIP_SUCCESS);
	EXPECT(state, VIP_STATE_CONNECT_PENDING);
	EXPECT(VipSetViAttributes(a.vi, &a.vi_attributes), VIP_INVALID_STATE);
	EXPECT(VipDestroyVi(a.vi), VIP_ERROR_RESOURCE);
	EXPECT(VipConnectPeerDone(a.vi, &told), VIP_NOT_DONE);
	EXPECT(VipConnectPeerWait(a.vi, &told), VIP_TIMEOUT);
	EXPECT(VipConnectPeerRequest(a.vi, &local.net, &remote.net, LONG_TIME), VIP_SUCCESS);
	EXPECT(VipDisconnect(a.vi), VIP_SUCCESS);
	EXPECT(VipConnectPeerDone(a.vi, &told), VIP_INVALID_STATE);
	/* After all that they can be connected. */
	post_recv(&b, 0, 0);
	connect_both("at last");
	EXPECT(VipSetViAttributes(a.vi, &a.vi_attributes), VIP_INVALID_STATE);
	EXPECT(VipDestroyVi(a.vi), VIP_ERROR_RESOURCE);
	EXPECT(VipConnectRequest(a.vi, &local.net, &remote.net, 50, &told), VIP_INVALID_STATE);
	post_send(&a, 0, 0);
	sent(&a, 0);
	received(&b, 0);
	destroy_vi(&a);
	destroy_vi(&b);
}

static void *be_refused(void *unused)
{
	union address local, remote;
	VIP_VI_ATTRIBUTES told;
	VIP_CONN_HANDLE conn;

	make_address(&a, &local, NULL, "first");
	EXPECT(VipConnectWait(a.nic, &local.net, LONG_TIME, &remote.net, &told, &conn),
	       VIP_SUCCESS);
	EXPECT(VipConnectReject(conn), VIP_SUCCESS);
	return unused;
}

static void *give_up(void *result)
{
	union address local, remote;
	VIP_VI_ATTRIBUTES told;

	make_address(&a, &local, NULL, "me");
	make_address(&a, &remote, NULL, "ignored");
	do
		*(VIP_RETURN *)result =
			VipConnectRequest(a.vi, &local.net, &remote.net, LONG_TIME, &told);
	while (*(VIP_RETURN *)result == VIP_NO_MATCH);
	return NULL;
}

/* Threads wait for connections of one NIC handle: each gets its own, whoever takes the events. */
static void waiting_threads(void)
{
	union address local, remote;
	pthread_t first, second;
	VIP_VI_ATTRIBUTES told;
	VIP_CONN_HANDLE conn;
	VIP_RETURN result;

	create_vi(&a);
	create_vi(&b);
	pthread_create(&first, NULL, be_refused, NULL);
	for (int i = 0; i < 20; i++) {
		connect_both("beside");
		EXPECT(VipDisconnect(a.vi), VIP_SUCCESS);
		EXPECT(VipDisconnect(b.vi), VIP_SUCCESS);
	}
	make_address(&b, &local, NULL, "me");
	make_address(&b, &remote, NULL, "first");
	do
		result = VipConnectRequest(b.vi, &local.net, &remote.net, LONG_TIME, &told);
	while (result == VIP_NO_MATCH);
	EXPECT(result, VIP_REJECT);
	pthread_join(first, NULL);
	/* A request that another thread gives up. */
	pthread_create(&first, NULL, ignore_a_request, &conn);
	pthread_create(&second, NULL, give_up, &result);
	pthread_join(first, NULL);
	EXPECT(VipDisconnect(a.vi), VIP_SUCCESS);
	pthread_join(second, NULL);
	EXPECT(result, VIP_INVALID_STATE);
	EXPECT(VipConnectReject(conn), VIP_SUCCESS);
	destroy_vi(&a);
	destroy_vi(&b);
}

struct acceptance {
	VIP_CONN_HANDLE conn;
	VIP_RETURN result;
};

static void *accept_it(void *argument)
{
	struct acceptance *acceptance = argument;

	acceptance->result = VipConnectAccept(acceptance->conn, a.vi);
	return NULL;
}

static VIP_VI_STATE state_of(struct end *end)
{
	VIP_VI_ATTRIBUTES told;
	VIP_VI_STATE state;
	VIP_BOOLEAN yes, no;

	NEED(VipQueryVi(end->vi, &state, &told, &yes, &no), VIP_SUCCESS);
	return state;
}

static void begin_anew(void)
{
	union address local, remote;

	make_address(&a, &local, NULL, "me");
	make_address(&a, &remote, NULL, "nobody");
	EXPECT(VipDisconnect(a.vi), VIP_SUCCESS);
	EXPECT(VipConnectPeerRequest(a.vi, &local.net, &remote.net, LONG_TIME), VIP_SUCCESS);
}

static int request(const char *name)
{
	open_end(&b, name);
	create_vi(&b);
	return call(&b, NULL, "anew");
}

/* Of another process. */
static pid_t await_request(VIP_CONN_HANDLE *conn)
{
	union address local, remote;
	VIP_VI_ATTRIBUTES told;
	pid_t child = fork();

	if (!child) {
		execl("/proc/self/exe", "vipl_alone", "request", nic, NULL);
		_exit(1);
	}
	make_address(&a, &local, NULL, "anew");
	NEED(VipConnectWait(a.nic, &local.net, LONG_TIME, &remote.net, &told, conn), VIP_SUCCESS);
	return child;
}

/* Another thread ends an attempt to accept, and begins anew with the VI. */
static void begun_anew(void)
{
	struct acceptance acceptance;
	pthread_t thread;
	pid_t child;
	int status;

	create_vi(&a);
	child = await_request(&acceptance.conn);
	/* Nobody confirms the connection. */
	kill(child, SIGSTOP);
	NEED(waitpid(child, &status, WUNTRACED), child);
	pthread_create(&thread, NULL, accept_it, &acceptance);
	while (state_of(&a) != VIP_STATE_CONNECT_PENDING)
		usleep(100);
	begin_anew();
	pthread_join(thread, NULL);
	EXPECT(acceptance.result, VIP_INVALID_STATE);
	EXPECT(state_of(&a), VIP_STATE_CONNECT_PENDING);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	destroy_vi(&a);
}

static void *begin_anew_aside(void *unused)
{
	begin_anew();
	return unused;
}

static atomic_bool interrupts; /* the thread that takes the event of a connection */

/* Takes the place of librdmacm's: after the event has had its effect, before its thread returns. */
__attribute__((visibility("default"))) int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	int (*ack)(struct rdma_cm_event *) = dlsym(RTLD_NEXT, "rdma_ack_cm_event");
	pthread_t thread;

	if (interrupts && state_of(&a) == VIP_STATE_CONNECTED &&
	    atomic_exchange(&interrupts, false)) {
		pthread_create(&thread, NULL, begin_anew_aside, NULL);
		pthread_join(thread, NULL);
	}
	return ack(event);
}

/* The same when the VI is connected already, which the thread that accepted does not know yet. */
static void begun_anew_early(void)
{
	VIP_CONN_HANDLE conn;
	pid_t child;

	create_vi(&a);
	child = await_request(&conn);
	interrupts = true;
	EXPECT(VipConnectAccept(conn, a.vi), VIP_SUCCESS);
	while (interrupts)
		usleep(100);
	EXPECT(state_of(&a), VIP_STATE_CONNECT_PENDING);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	destroy_vi(&a);
}

/* Memory of another tag is out of reach, for the VI and for its peer; a VI without a tag reaches
 * all. */
static void tags(void)
{
	VIP_MEM_ATTRIBUTES wanted = {.EnableRdmaWrite = VIP_TRUE};
	VIP_VI_ATTRIBUTES plain = b.vi_attributes;
	VIP_PROTECTION_HANDLE tag;
	static char bytes[64] __attribute__((aligned(64)));
	VIP_MEM_HANDLE handle;
	VIP_DESCRIPTOR *d;

	NEED(VipCreatePtag(b.nic, &tag), VIP_SUCCESS);
	wanted.Ptag = tag;
	NEED(VipRegisterMem(b.nic, bytes, sizeof(bytes), &wanted, &handle), VIP_SUCCESS);
	for (int i = 0; i < 2; i++) {
		/* The second time the VI of b has no tag. */
		create_vi(&a);
		create_vi(&b);
		if (i) {
			plain.Ptag = NULL;
			EXPECT(VipSetViAttributes(b.vi, &plain), VIP_SUCCESS);
		}
		post_recv(&a, 0, 16);
		connect_both("tags");
		d = describe(&b, 0, 16);
		d->DS[0].Local.Data.Address = bytes;
		d->DS[0].Local.Handle = handle;
		EXPECT(VipPostSend(b.vi, d, b.handle), VIP_SUCCESS);
		if (i) {
			EXPECT(sent(&b, 0)->CS.Status, VIP_STATUS_DONE);
			received(&a, 0);
		} else {
			EXPECT(VipSendWait(b.vi, LONG_TIME, &d), VIP_DESCRIPTOR_ERROR);
			EXPECT(d->CS.Status, VIP_STATUS_DONE | VIP_STATUS_PROTECTION_ERROR);
		}
		destroy_vi(&a);
		destroy_vi(&b);
	}
	create_vi(&a);
	create_vi(&b);
	connect_both("tags");
	d = describe(&a, 0, 16);
	d->CS.Control = VIP_CONTROL_OP_RDMAWRITE;
	d->CS.SegCount = 2;
	d->DS[1] = d->DS[0];
	d->DS[0].Remote.Data.Address = bytes;
	d->DS[0].Remote.Handle = handle;
	EXPECT(VipPostSend(a.vi, d, a.handle), VIP_SUCCESS);
	EXPECT(VipSendWait(a.vi, LONG_TIME, &d), VIP_DESCRIPTOR_ERROR);
	EXPECT(d->CS.Status & VIP_STATUS_ERROR_MASK, VIP_STATUS_RDMA_PROT_ERROR);
	destroy_vi(&a);
	destroy_vi(&b);
	EXPECT(VipDestroyPtag(b.nic, tag), VIP_ERROR_RESOURCE);
	EXPECT(VipDeregisterMem(b.nic, bytes, handle), VIP_SUCCESS);
	EXPECT(VipDestroyPtag(b.nic, tag), VIP_SUCCESS);
	EXPECT(VipDestroyPtag(b.nic, tag), VIP_INVALID_PARAMETER);
}

static int noticed;

/* Registers itself again, as programs do. */
static void on_recv(VIP_PVOID context, VIP_NIC_HANDLE handle, VIP_VI_HANDLE vi, VIP_DESCRIPTOR *d)
{
	EXPECT_TRUE(context == &b && handle == b.nic && vi == b.vi);
	if (d->CS.Status & VIP_STATUS_ERROR_MASK)
		return;
	EXPECT(d->CS.ImmediateData, noticed);
	__atomic_add_fetch(&noticed, 1, __ATOMIC_SEQ_CST);
	EXPECT(VipRecvNotify(vi, context, on_recv), VIP_SUCCESS);
}

static void on_entry(VIP_PVOID context, VIP_NIC_HANDLE handle, VIP_VI_HANDLE vi, VIP_BOOLEAN recv)
{
	VIP_DESCRIPTOR *d;

	EXPECT_TRUE(handle == b.nic && vi == b.vi && recv);
	if (VipRecvDone(vi, &d) == VIP_SUCCESS)
		EXPECT(d->CS.ImmediateData, noticed);
	__atomic_add_fetch(&noticed, 1, __ATOMIC_SEQ_CST);
	EXPECT(VipCQNotify(context, context, on_entry), VIP_SUCCESS);
}

static void notices(void)
{
	double limit = seconds() + LONG_TIME / 1000;
	VIP_CQ_HANDLE cq = NULL;

	for (int round = 0; round < 2; round++) {
		noticed = 0;
		create_vi(&a);
		if (round)
			NEED(VipCreateCQ(b.nic, 128, &cq), VIP_SUCCESS);
		NEED(VipCreateVi(b.nic, &b.vi_attributes, NULL, cq, &b.vi), VIP_SUCCESS);
		for (int i = 0; i < 50; i++)
			post_recv(&b, i, 16);
		if (round) {
			EXPECT(VipRecvNotify(b.vi, &b, on_recv), VIP_ERROR_RESOURCE);
			EXPECT(VipCQNotify(cq, cq, on_entry), VIP_SUCCESS);
		} else {
			EXPECT(VipRecvNotify(b.vi, &b, on_recv), VIP_SUCCESS);
		}
		connect_both("notices");
		for (int i = 0; i < 50; i++) {
			VIP_DESCRIPTOR *d = describe(&a, i, 16);

			d->CS.Control = VIP_CONTROL_IMMEDIATE;
			d->CS.ImmediateData = i;
			NEED(VipPostSend(a.vi, d, a.handle), VIP_SUCCESS);
			sent(&a, i);
		}
		while (__atomic_load_n(&noticed, __ATOMIC_SEQ_CST) < 50 && seconds() < limit)
			usleep(100);
		EXPECT(noticed, 50);
		destroy_vi(&a);
		destroy_vi(&b);
		if (cq)
			EXPECT(VipDestroyCQ(cq), VIP_SUCCESS);
	}
}

enum { EACH = 2000, THREADS = 4 };
static int took;

/* Each thread posts receives and sends on both VIs, and takes what has completed, in all ways. */
static void *busy(void *number)
{
	int mine = (intptr_t)number * 8;
	VIP_DESCRIPTOR *d;

	for (int i = 0; i < EACH; i++) {
		VIP_RETURN result;

		NEED(VipPostRecv(b.vi, describe(&b, mine + i % 8, 64), b.handle), VIP_SUCCESS);
		NEED(VipPostSend(a.vi, describe(&a, mine + i % 8, 64), a.handle), VIP_SUCCESS);
		do
			result = i & 1 ? VipSendDone(a.vi, &d) : VipSendWait(a.vi, 100, &d);
		while (result == VIP_NOT_DONE || result == VIP_TIMEOUT);
		EXPECT(result, VIP_SUCCESS);
		do
			result = i & 2 ? VipRecvDone(b.vi, &d) : VipRecvWait(b.vi, 100, &d);
		while (result == VIP_NOT_DONE || result == VIP_TIMEOUT);
		EXPECT(result, VIP_SUCCESS);
		__atomic_add_fetch(&took, 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

static void threads(void)
{
	pthread_t ids[THREADS];

	create_vi(&a);
	create_vi(&b);
	connect_both("threads");
	for (intptr_t i = 0; i < THREADS; i++)
		pthread_create(&ids[i], NULL, busy, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(ids[i], NULL);
	EXPECT(took, EACH * THREADS);
	destroy_vi(&a);
	destroy_vi(&b);
}

/* An RDMA write of a's descriptor i to b's buffer 0: so many segments of a
 * byte, with a gap between. */
static VIP_DESCRIPTOR *describe_write(int i, unsigned segments)
{
	VIP_DESCRIPTOR *d = describe(&a, i, segments);

	d->CS.Control = VIP_CONTROL_OP_RDMAWRITE;
	d->CS.SegCount = 1 + segments;
	d->DS[0].Remote.Data.Address = b.memory->buffers[0];
	d->DS[0].Remote.Handle = b.handle;
	for (unsigned j = 0; j < segments; j++) {
		VIP_DATA_SEGMENT *segment = &d->DS[1 + j].Local;

		a.memory->buffers[i][2 * j] = j * 7 + 1;
		segment->Data.Address = &a.memory->buffers[i][2 * j];
		segment->Handle = a.handle;
		segment->Length = 1;
	}
	return d;
}

/* The longest descriptor, while nobody has taken the ones before it, which have completed. */
static void untaken(void)
{
	enum { BEFORE = DESCRIPTORS - 1, PARTS = SEGMENTS - 1 };
	VIP_DESCRIPTOR *receive = (VIP_DESCRIPTOR *)&a.memory->buffers[BEFORE][BUFFER / 2];
	VIP_DESCRIPTOR *d, *last = &a.memory->descriptors[BEFORE - 1].d;

	NEED(VipCreateCQ(a.nic, 1024, &a.cq), VIP_SUCCESS);
	create_vi(&a);
	create_vi(&b);
	memset(receive, 0, sizeof(*receive));
	NEED(VipPostRecv(a.vi, receive, a.handle), VIP_SUCCESS);
	connect_both("untaken");
	for (int i = 0; i < BEFORE; i++)
		NEED(VipPostSend(a.vi, describe_write(i, 1), a.handle), VIP_SUCCESS);
	/* Who looks for receives sees sends complete. */
	while (!(__atomic_load_n(&last->CS.Status, __ATOMIC_ACQUIRE) & VIP_STATUS_DONE))
		EXPECT(VipRecvDone(a.vi, &d), VIP_NOT_DONE);
	NEED(VipPostSend(a.vi, describe_write(BEFORE, PARTS), a.handle), VIP_SUCCESS);
	for (int i = 0; i <= BEFORE; i++)
		EXPECT(sent(&a, i)->CS.Status, VIP_STATUS_DONE | VIP_STATUS_OP_RDMA_WRITE);
	for (int j = 0; j < PARTS; j++)
		NEED(b.memory->buffers[0][j], (char)(j * 7 + 1));
	destroy_vi(&a);
	destroy_vi(&b);
	EXPECT(VipDestroyCQ(a.cq), VIP_SUCCESS);
	a.cq = NULL;
}

enum { ENDINGS = 30, POSTED = 8 };
static bool enough;
static int entries;

static void *take_entries(void *cq)
{
	VIP_BOOLEAN recv;
	VIP_VI_HANDLE vi;

	while (!__atomic_load_n(&enough, __ATOMIC_SEQ_CST)) {
		if (VipCQDone(cq, &vi, &recv) == VIP_SUCCESS)
			__atomic_add_fetch(&entries, 1, __ATOMIC_SEQ_CST);
		else
			sched_yield();
	}
	return NULL;
}

static void await_entries(int count)
{
	double limit = seconds() + LONG_TIME / 1000;

	while (__atomic_load_n(&entries, __ATOMIC_SEQ_CST) < count && seconds() < limit)
		usleep(100);
	EXPECT(entries, count);
}

/* Connections end while a thread takes entries of their completion queue:
 * none is lost or twice there. */
static void endings(void)
{
	pthread_t thread;

	NEED(VipCreateCQ(a.nic, ENDINGS * POSTED, &a.cq), VIP_SUCCESS);
	pthread_create(&thread, NULL, take_entries, a.cq);
	for (int i = 0; i < ENDINGS; i++) {
		create_vi(&a);
		create_vi(&b);
		for (int j = 0; j < POSTED; j++)
			post_recv(&a, j, 64);
		connect_both("endings");
		for (int j = 0; j < POSTED / 2; j++)
			post_send(&b, j, 64);
		for (int j = 0; j < POSTED / 2; j++)
			sent(&b, j);
		EXPECT(VipDisconnect(a.vi), VIP_SUCCESS);
		EXPECT(drain(VipRecvDone, a.vi), POSTED);
		await_entries((i + 1) * POSTED);
		EXPECT(VipDestroyVi(a.vi), VIP_SUCCESS);
		destroy_vi(&b);
	}
	__atomic_store_n(&enough, true, __ATOMIC_SEQ_CST);
	pthread_join(thread, NULL);
	EXPECT(VipDestroyCQ(a.cq), VIP_SUCCESS);
	a.cq = NULL;
}

enum { LIVES = 10000 };
static VIP_VI_HANDLE passing; /* a VI that may be gone, and whose memory may be another's */

static void *use_passing(void *unused)
{
	VIP_DESCRIPTOR *d;

	while (!__atomic_load_n(&enough, __ATOMIC_SEQ_CST)) {
		VIP_VI_HANDLE vi = __atomic_load_n(&passing, __ATOMIC_SEQ_CST);

		for (int i = 0; i < 1000; i++) {
			VipRecvDone(vi, &d);
			VipSendDone(vi, &d);
		}
	}
	return unused;
}

/* VIs are destroyed and made, in turn with and without a completion queue that stays, while threads
 * use their handles: these find none, or an empty one. */
static void passing_vis(void)
{
	pthread_t ids[THREADS];
	VIP_CQ_HANDLE cq;

	NEED(VipCreateCQ(a.nic, 16, &cq), VIP_SUCCESS);
	enough = false;
	for (int i = 0; i < THREADS; i++)
		pthread_create(&ids[i], NULL, use_passing, NULL);
	for (int i = 0; i < LIVES; i++) {
		a.cq = i % 2 ? cq : NULL;
		create_vi(&a);
		__atomic_store_n(&passing, a.vi, __ATOMIC_SEQ_CST);
		EXPECT(VipDestroyVi(a.vi), VIP_SUCCESS);
	}
	__atomic_store_n(&enough, true, __ATOMIC_SEQ_CST);
	for (int i = 0; i < THREADS; i++)
		pthread_join(ids[i], NULL);
	a.cq = NULL;
	EXPECT(VipDestroyCQ(cq), VIP_SUCCESS);
}

static void *wait_for_recv(void *result)
{
	VIP_DESCRIPTOR *d;

	*(VIP_RETURN *)result = VipRecvWait(a.vi, VIP_INFINITE, &d);
	return NULL;
}

/* Done does not wait behind a Wait; a Wait ends when its descriptor is flushed. */
static void wait_and_done(void)
{
	VIP_RETURN result = VIP_NOT_DONE;
	VIP_DESCRIPTOR *d;
	pthread_t thread;

	create_vi(&a);
	post_recv(&a, 0, 16);
	pthread_create(&thread, NULL, wait_for_recv, &result);
	for (int i = 0; i < 200; i++) {
		EXPECT(VipRecvDone(a.vi, &d), VIP_NOT_DONE);
		usleep(100);
	}
	EXPECT(VipDisconnect(a.vi), VIP_SUCCESS);
	pthread_join(thread, NULL);
	EXPECT(result, VIP_DESCRIPTOR_ERROR);
	EXPECT(VipDestroyVi(a.vi), VIP_SUCCESS);
}

/* A child has no part in its parent's connections, does not end them, and makes its own. */
static void forking(void)
{
	VIP_DESCRIPTOR *d;
	int status;
	pid_t child;

	create_vi(&a);
	create_vi(&b);
	post_recv(&b, 0, 16);
	connect_both("forking");
	child = fork();
	if (!child) {
		EXPECT(VipPostSend(a.vi, &a.memory->descriptors[0].d, a.handle),
		       VIP_INVALID_PARAMETER);
		EXPECT(VipRecvDone(b.vi, &d), VIP_INVALID_PARAMETER);
		EXPECT(VipDisconnect(a.vi), VIP_INVALID_PARAMETER);
		EXPECT(VipCloseNic(a.nic), VIP_INVALID_PARAMETER);
		open_end(&a, nic);
		open_end(&b, nic);
		create_vi(&a);
		create_vi(&b);
		post_recv(&b, 0, 16);
		connect_both("forked");
		post_send(&a, 0, 16);
		sent(&a, 0);
		received(&b, 0);
		destroy_vi(&a);
		destroy_vi(&b);
		exit(failures != 0);
	}
	NEED(waitpid(child, &status, 0), child);
	EXPECT(status, 0);
	post_send(&a, 0, 16);
	sent(&a, 0);
	received(&b, 0);
	destroy_vi(&a);
	destroy_vi(&b);
}

/* Closing a NIC frees what is left, and sends those home who wait. */
static void *wait_for_conn(void *nic_handle)
{
	union address local, remote;
	VIP_VI_ATTRIBUTES told;
	VIP_CONN_HANDLE conn;

	make_address(&a, &local, NULL, "never");
	EXPECT(VipConnectWait(*(VIP_NIC_HANDLE *)nic_handle, &local.net, VIP_INFINITE, &remote.net,
			      &told, &conn),
	       VIP_INVALID_PARAMETER);
	return NULL;
}

static void closing(void)
{
	VIP_MEM_ATTRIBUTES wanted = {0};
	VIP_VI_ATTRIBUTES plain = a.vi_attributes;
	static char bytes[64];
	VIP_NIC_HANDLE other;
	VIP_MEM_HANDLE handle;
	VIP_VI_HANDLE vi;
	VIP_CQ_HANDLE cq;
	pthread_t threads[2];

	plain.Ptag = NULL;
	NEED(VipOpenNic(nic, &other), VIP_SUCCESS);
	EXPECT(VipCreateCQ(other, 10, &cq), VIP_SUCCESS);
	EXPECT(VipCreateVi(other, &plain, cq, NULL, &vi), VIP_SUCCESS);
	EXPECT(VipRegisterMem(other, bytes, sizeof(bytes), &wanted, &handle), VIP_SUCCESS);
	pthread_create(&threads[0], NULL, wait_for_conn, &other);
	pthread_create(&threads[1], NULL, wait_for_entry, cq);
	usleep(20000);
	EXPECT(VipCloseNic(other), VIP_SUCCESS);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	EXPECT(VipCloseNic(other), VIP_INVALID_PARAMETER);
	EXPECT(VipDestroyVi(vi), VIP_INVALID_PARAMETER);
	EXPECT(VipDestroyCQ(cq), VIP_INVALID_PARAMETER);
}

static void names(void)
{
	union address address;
	char name[256];
	VIP_ULONG length = 1;

	make_address(&a, &address, NULL, "");
	EXPECT(VipNSGetHostByName(a.nic, "name.invalid", &address.net, 0), VIP_ERROR_NAMESERVICE);
	EXPECT(VipNSGetHostByName(a.nic, "127.0.0.1", &address.net, 0), VIP_SUCCESS);
	EXPECT(address.net.HostAddressLen, 16);
	EXPECT(*(address.net.HostAddress + 12), 127);
	EXPECT(VipNSGetHostByName(a.nic, "127.0.0.1", &address.net, 9), VIP_ERROR_NAMESERVICE);
	EXPECT(VipNSGetHostByName(a.nic, "::1", &address.net, 0), VIP_SUCCESS);
	EXPECT(VipNSGetHostByName(a.nic, "127.0.0.1", &address.net, 0), VIP_SUCCESS);
	if (VipNSGetHostByAddr(a.nic, &address.net, name, &length) == VIP_ERROR_RESOURCE) {
		EXPECT_TRUE(length > 1);
		EXPECT(VipNSGetHostByAddr(a.nic, &address.net, name, &length), VIP_SUCCESS);
		EXPECT(strlen(name) + 1, length);
	}
	EXPECT(VipNSShutdown(a.nic), VIP_SUCCESS);
	EXPECT(VipNSGetHostByName(a.nic, "127.0.0.1", &address.net, 0), VIP_ERROR_NAMESERVICE);
	EXPECT(VipNSInit(a.nic, NULL), VIP_SUCCESS);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"attributes", attributes},
	{"kept_attributes", kept_attributes},
	{"idle", idle},
	{"unpostable", unpostable},
	{"memory", memory},
	{"rights", rights},
	{"vanishing_memory", vanishing_memory},
	{"queues", queues},
	{"connecting", connecting},
	{"waiting_threads", waiting_threads},
	{"begun_anew", begun_anew},
	{"begun_anew_early", begun_anew_early},
	{"tags", tags},
	{"notices", notices},
	{"threads", threads},
	{"untaken", untaken},
	{"endings", endings},
	{"passing_vis", passing_vis},
	{"wait_and_done", wait_and_done},
	{"forking", forking},
	{"closing", closing},
	{"names", names},
};

int main(int argc, char **argv)
{
	int first = 1;

	if (argc > 2 && !strcmp(argv[1], "request"))
		return request(argv[2]);
	if (argc > 2 && !strcmp(argv[1], "-n")) {
		nic = argv[2];
		first = 3;
	}
	open_end(&a, nic);
	open_end(&b, nic);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		bool wanted = first == argc;

		for (int j = first; j < argc; j++)
			wanted |= !strcmp(argv[j], cases[i].name);
		current_case = cases[i].name;
		if (wanted)
			cases[i].run();
	}
	close_end(&a);
	close_end(&b);
	return failures != 0;
}
