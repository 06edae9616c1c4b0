// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Each of the 41 functions with handles that are none, stale, of another kind or of another NIC,
 * and with pointers that are NULL: VIP_INVALID_PARAMETER, and nothing has happened.
 */
#include "vipl_test.h"

static struct end a;
static VIP_CQ_HANDLE cq;
static VIP_VI_HANDLE new_vi;
static VIP_CQ_HANDLE new_cq;
static VIP_PROTECTION_HANDLE new_ptag;
static VIP_MEM_HANDLE new_memory;
static VIP_CONN_HANDLE conn;
static VIP_NIC_ATTRIBUTES nic_attributes;
static VIP_VI_ATTRIBUTES vi_attributes;
static VIP_MEM_ATTRIBUTES memory_attributes;
static VIP_VI_STATE state;
static VIP_BOOLEAN flag, other_flag;
static VIP_DESCRIPTOR *descriptor;
static VIP_ULONG length;
static union address local, remote;
static char name[256];

static void on_vi(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_DESCRIPTOR *d)
{
}

static void on_cq(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_BOOLEAN recv)
{
}

/* A call by the handle that is put to the test, all else being right. */
#define CALL(function, ...)                              \
	static VIP_RETURN call_##function(VIP_PVOID bad) \
	{                                                \
		return function(__VA_ARGS__);            \
	}

CALL(VipCloseNic, bad)
CALL(VipQueryNic, bad, &nic_attributes)
CALL(VipCreateVi, bad, &a.vi_attributes, NULL, NULL, &new_vi)
CALL(VipCreatePtag, bad, &new_ptag)
CALL(VipDestroyPtag, bad, a.ptag)
CALL(VipRegisterMem, bad, name, sizeof(name), &memory_attributes, &new_memory)
CALL(VipDeregisterMem, bad, a.memory, a.handle)
CALL(VipQueryMem, bad, a.memory, a.handle, &memory_attributes)
CALL(VipSetMemAttributes, bad, a.memory, a.handle, &memory_attributes)
CALL(VipConnectWait, bad, &local.net, 1, &remote.net, &vi_attributes, &conn)
CALL(VipCreateCQ, bad, 10, &new_cq)
CALL(VipErrorCallback, bad, NULL, NULL)
CALL(VipQuerySystemManagementInfo, bad, VIP_SMI_AUTODISCOVERY, name)
CALL(VipNSInit, bad, NULL)
CALL(VipNSGetHostByName, bad, name, &remote.net, 0)
CALL(VipNSGetHostByAddr, bad, &local.net, name, &length)
CALL(VipNSShutdown, bad)
CALL(VipDestroyVi, bad)
CALL(VipQueryVi, bad, &state, &vi_attributes, &flag, &other_flag)
CALL(VipSetViAttributes, bad, &a.vi_attributes)
CALL(VipConnectRequest, bad, &local.net, &remote.net, 1, &vi_attributes)
CALL(VipDisconnect, bad)
CALL(VipConnectPeerRequest, bad, &local.net, &remote.net, 1)
CALL(VipConnectPeerDone, bad, &vi_attributes)
CALL(VipConnectPeerWait, bad, &vi_attributes)
CALL(VipPostSend, bad, &a.memory->descriptors[0].d, a.handle)
CALL(VipPostRecv, bad, &a.memory->descriptors[0].d, a.handle)
CALL(VipSendDone, bad, &descriptor)
CALL(VipRecvDone, bad, &descriptor)
CALL(VipSendWait, bad, 1, &descriptor)
CALL(VipRecvWait, bad, 1, &descriptor)
CALL(VipSendNotify, bad, NULL, on_vi)
CALL(VipRecvNotify, bad, NULL, on_vi)
CALL(VipDestroyCQ, bad)
CALL(VipResizeCQ, bad, 10)
CALL(VipCQDone, bad, &new_vi, &flag)
CALL(VipCQWait, bad, 1, &new_vi, &flag)
CALL(VipCQNotify, bad, NULL, on_cq)
CALL(VipConnectAccept, bad, a.vi)
CALL(VipConnectReject, bad)

#define ROW(function)                      \
	{                                  \
#function, call_##function \
	}

static const struct row {
	const char *function;
	VIP_RETURN (*call)(VIP_PVOID);
} nic_rows[] = {ROW(VipCloseNic),	  ROW(VipQueryNic),
		ROW(VipCreateVi),	  ROW(VipCreatePtag),
		ROW(VipDestroyPtag),	  ROW(VipRegisterMem),
		ROW(VipDeregisterMem),	  ROW(VipQueryMem),
		ROW(VipSetMemAttributes), ROW(VipConnectWait),
		ROW(VipCreateCQ),	  ROW(VipErrorCallback),
		ROW(VipNSInit),		  ROW(VipQuerySystemManagementInfo),
		ROW(VipNSGetHostByName),  ROW(VipNSGetHostByAddr),
		ROW(VipNSShutdown)},
  vi_rows[] = {ROW(VipDestroyVi),	ROW(VipQueryVi),	 ROW(VipSetViAttributes),
	       ROW(VipConnectRequest),	ROW(VipDisconnect),	 ROW(VipConnectPeerRequest),
	       ROW(VipConnectPeerDone), ROW(VipConnectPeerWait), ROW(VipPostSend),
	       ROW(VipPostRecv),	ROW(VipSendDone),	 ROW(VipRecvDone),
	       ROW(VipSendWait),	ROW(VipRecvWait),	 ROW(VipSendNotify),
	       ROW(VipRecvNotify)},
  cq_rows[] = {ROW(VipDestroyCQ), ROW(VipResizeCQ), ROW(VipCQDone), ROW(VipCQWait),
	       ROW(VipCQNotify)},
  conn_rows[] = {ROW(VipConnectAccept), ROW(VipConnectReject)};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static void try_rows(const struct row *rows, size_t count, VIP_PVOID bad)
{
	for (size_t i = 0; i < count; i++) {
		current_case = rows[i].function;
		EXPECT(rows[i].call(bad), VIP_INVALID_PARAMETER);
	}
}

/* Nothing, garbage, one that was there before, and good ones of other kinds. */
static void bad_handles(void)
{
	VIP_NIC_HANDLE stale_nic;
	VIP_VI_HANDLE stale_vi;
	VIP_CQ_HANDLE stale_cq;
	VIP_PROTECTION_HANDLE stale_ptag;

	NEED(VipOpenNic("nic0", &stale_nic), VIP_SUCCESS);
	NEED(VipCreateVi(stale_nic, &(VIP_VI_ATTRIBUTES){VIP_SERVICE_RELIABLE_DELIVERY, 4096}, NULL,
			 NULL, &stale_vi),
	     VIP_SUCCESS);
	NEED(VipCreateCQ(stale_nic, 10, &stale_cq), VIP_SUCCESS);
	NEED(VipCreatePtag(stale_nic, &stale_ptag), VIP_SUCCESS);
	NEED(VipCloseNic(stale_nic), VIP_SUCCESS);

	const VIP_PVOID none[] = {NULL,	     (VIP_PVOID)1, (VIP_PVOID)-1l, &a,	      a.ptag,
				  stale_nic, stale_vi,	   stale_cq,	   stale_ptag};

	for (size_t i = 0; i < COUNT(none); i++) {
		try_rows(nic_rows, COUNT(nic_rows), none[i]);
		try_rows(vi_rows, COUNT(vi_rows), none[i]);
		try_rows(cq_rows, COUNT(cq_rows), none[i]);
		try_rows(conn_rows, COUNT(conn_rows), none[i]);
	}
	try_rows(nic_rows, COUNT(nic_rows), a.vi);
	try_rows(nic_rows, COUNT(nic_rows), cq);
	try_rows(vi_rows, COUNT(vi_rows), a.nic);
	try_rows(vi_rows, COUNT(vi_rows), cq);
	try_rows(cq_rows, COUNT(cq_rows), a.nic);
	try_rows(cq_rows, COUNT(cq_rows), a.vi);
	try_rows(conn_rows, COUNT(conn_rows), a.vi);
}

/* Good handles, of another NIC handle than the one they are used with. */
static void foreign_handles(void)
{
	struct end b;

	open_end(&b, "nic0");
	current_case = "foreign handles";
	EXPECT(VipCreateVi(b.nic, &b.vi_attributes, cq, NULL, &new_vi), VIP_INVALID_PARAMETER);
	EXPECT(VipCreateVi(b.nic, &b.vi_attributes, NULL, cq, &new_vi), VIP_INVALID_PARAMETER);
	EXPECT(VipCreateVi(b.nic, &a.vi_attributes, NULL, NULL, &new_vi), VIP_INVALID_PTAG);
	EXPECT(VipDestroyPtag(b.nic, a.ptag), VIP_INVALID_PARAMETER);
	memory_attributes.Ptag = a.ptag;
	EXPECT(VipRegisterMem(b.nic, name, sizeof(name), &memory_attributes, &new_memory),
	       VIP_INVALID_PTAG);
	EXPECT(new_memory, 0);
	EXPECT(VipSetMemAttributes(b.nic, b.memory, b.handle, &memory_attributes),
	       VIP_INVALID_PTAG);
	if (a.handle != b.handle) {
		EXPECT(VipDeregisterMem(b.nic, a.memory, a.handle), VIP_INVALID_PARAMETER);
		EXPECT(VipQueryMem(b.nic, a.memory, a.handle, &memory_attributes),
		       VIP_INVALID_PARAMETER);
	}
	close_end(&b);
}

#define INVALID(...) EXPECT(__VA_ARGS__, VIP_INVALID_PARAMETER)

static void null_pointers(void)
{
	VIP_NIC_HANDLE nic;
	VIP_NET_ADDRESS *here = &local.net, *there = &remote.net;

	current_case = "pointers that are NULL";
	INVALID(VipOpenNic(NULL, &nic));
	INVALID(VipOpenNic("nic0", NULL));
	INVALID(VipQueryNic(a.nic, NULL));
	INVALID(VipCreateVi(a.nic, NULL, NULL, NULL, &new_vi));
	INVALID(VipCreateVi(a.nic, &a.vi_attributes, NULL, NULL, NULL));
	INVALID(VipQueryVi(a.vi, NULL, &vi_attributes, &flag, &other_flag));
	INVALID(VipQueryVi(a.vi, &state, NULL, &flag, &other_flag));
	INVALID(VipQueryVi(a.vi, &state, &vi_attributes, NULL, &other_flag));
	INVALID(VipQueryVi(a.vi, &state, &vi_attributes, &flag, NULL));
	INVALID(VipSetViAttributes(a.vi, NULL));
	INVALID(VipCreatePtag(a.nic, NULL));
	INVALID(VipDestroyPtag(a.nic, NULL));
	INVALID(VipRegisterMem(a.nic, NULL, 1, &memory_attributes, &new_memory));
	INVALID(VipRegisterMem(a.nic, name, 1, &memory_attributes, NULL));
	INVALID(VipRegisterMem(a.nic, name, 0, &memory_attributes, &new_memory));
	INVALID(VipRegisterMem(a.nic, name, ~0ul, &memory_attributes, &new_memory));
	INVALID(VipQueryMem(a.nic, a.memory, a.handle, NULL));
	INVALID(VipSetMemAttributes(a.nic, a.memory, a.handle, NULL));
	INVALID(VipDeregisterMem(a.nic, NULL, a.handle));
	INVALID(VipDeregisterMem(a.nic, a.memory, 0));
	INVALID(VipDeregisterMem(a.nic, a.memory, a.handle + 1));
	INVALID(VipConnectWait(a.nic, NULL, 1, there, &vi_attributes, &conn));
	INVALID(VipConnectWait(a.nic, here, 1, NULL, &vi_attributes, &conn));
	INVALID(VipConnectWait(a.nic, here, 1, there, NULL, &conn));
	INVALID(VipConnectWait(a.nic, here, 1, there, &vi_attributes, NULL));
	INVALID(VipConnectRequest(a.vi, NULL, there, 1, &vi_attributes));
	INVALID(VipConnectRequest(a.vi, here, NULL, 1, &vi_attributes));
	INVALID(VipConnectRequest(a.vi, here, there, 0, &vi_attributes));
	INVALID(VipConnectRequest(a.vi, here, there, 1, NULL));
	INVALID(VipConnectPeerRequest(a.vi, NULL, there, 1));
	INVALID(VipConnectPeerRequest(a.vi, here, NULL, 1));
	INVALID(VipConnectPeerDone(a.vi, NULL));
	INVALID(VipConnectPeerWait(a.vi, NULL));
	INVALID(VipPostSend(a.vi, NULL, a.handle));
	INVALID(VipPostRecv(a.vi, NULL, a.handle));
	INVALID(VipSendDone(a.vi, NULL));
	INVALID(VipRecvDone(a.vi, NULL));
	INVALID(VipSendWait(a.vi, 1, NULL));
	INVALID(VipRecvWait(a.vi, 1, NULL));
	INVALID(VipSendNotify(a.vi, NULL, NULL));
	INVALID(VipRecvNotify(a.vi, NULL, NULL));
	INVALID(VipCreateCQ(a.nic, 10, NULL));
	INVALID(VipCreateCQ(a.nic, 0, &new_cq));
	INVALID(VipResizeCQ(cq, 0));
	INVALID(VipCQDone(cq, NULL, &flag));
	INVALID(VipCQDone(cq, &new_vi, NULL));
	INVALID(VipCQWait(cq, 1, NULL, &flag));
	INVALID(VipCQWait(cq, 1, &new_vi, NULL));
	INVALID(VipCQNotify(cq, NULL, NULL));
	INVALID(VipQuerySystemManagementInfo(a.nic, VIP_SMI_AUTODISCOVERY, NULL));
	INVALID(VipNSGetHostByName(a.nic, NULL, there, 0));
	INVALID(VipNSGetHostByName(a.nic, name, NULL, 0));
	INVALID(VipNSGetHostByAddr(a.nic, NULL, name, &length));
	INVALID(VipNSGetHostByAddr(a.nic, here, NULL, &length));
	INVALID(VipNSGetHostByAddr(a.nic, here, name, NULL));
}

/* Lengths of addresses that are not; numbers that no device has. */
static void absurd_numbers(void)
{
	static const VIP_UINT16 lengths[][2] = {{0, 4},	     {4, 4},   {17, 4},
						{0xffff, 4}, {16, 17}, {16, 0xffff}};

	current_case = "absurd numbers";
	for (size_t i = 0; i < COUNT(lengths); i++) {
		union address wrong = local;

		wrong.net.HostAddressLen = lengths[i][0];
		wrong.net.DiscriminatorLen = lengths[i][1];
		INVALID(VipConnectWait(a.nic, &wrong.net, 1, &remote.net, &vi_attributes, &conn));
		INVALID(VipConnectRequest(a.vi, &local.net, &wrong.net, 1, &vi_attributes));
		INVALID(VipConnectRequest(a.vi, &wrong.net, &remote.net, 1, &vi_attributes));
		INVALID(VipConnectPeerRequest(a.vi, &local.net, &wrong.net, 1));
	}
	EXPECT(VipCreateCQ(a.nic, ~0ul, &new_cq), VIP_ERROR_RESOURCE);
	EXPECT(VipResizeCQ(cq, ~0ul), VIP_ERROR_RESOURCE);
	EXPECT(VipRegisterMem(a.nic, (VIP_PVOID)4096, ~0ul >> 1, &memory_attributes, &new_memory),
	       VIP_ERROR_RESOURCE);
	EXPECT(new_memory, 0);
}

int main(void)
{
	VIP_BOOLEAN send_empty, recv_empty;

	open_end(&a, "nic0");
	create_vi(&a);
	NEED(VipCreateCQ(a.nic, 10, &cq), VIP_SUCCESS);
	make_address(&a, &local, NULL, "here");
	make_address(&a, &remote, NULL, "there");
	bad_handles();
	foreign_handles();
	memory_attributes.Ptag = NULL;
	null_pointers();
	absurd_numbers();
	current_case = "afterwards";
	EXPECT(VipQueryVi(a.vi, &state, &vi_attributes, &send_empty, &recv_empty), VIP_SUCCESS);
	EXPECT(state, VIP_STATE_IDLE);
	EXPECT_TRUE(send_empty && recv_empty);
	EXPECT(VipDestroyCQ(cq), VIP_SUCCESS);
	destroy_vi(&a);
	close_end(&a);
	return failures != 0;
}
