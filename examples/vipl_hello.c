// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The Virtual Interface Architecture in one page: a server that answers each message, and a client
 * that sends some.
 *
 *	vipl_hello NIC			waits for a client
 *	vipl_hello NIC HOST		sends to the server on HOST
 *
 * NIC is a verbs device or an interface: urxe0, eth0, nic0.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vipl.h>

#define MESSAGES 3
#define SIZE	 256

/* What is registered: a descriptor and a buffer each way. Descriptors are aligned to 64 bytes. */
static struct {
	VIP_DESCRIPTOR send, recv;
	char out[SIZE], in[SIZE];
} memory __attribute__((aligned(VIP_DESCRIPTOR_ALIGNMENT)));

static void check(VIP_RETURN result, const char *what)
{
	if (result == VIP_SUCCESS)
		return;
	fprintf(stderr, "%s: error %d\n", what, result);
	exit(1);
}

/*
 * Errors that no call returns; without a handler the library writes them to stderr. Whoever does
 * not disconnect first is told that the connection is lost. Here that is its end; one that comes
 * too early is seen by the descriptors that come back.
 */
static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
	if (error->ErrorCode != VIP_ERROR_CONN_LOST)
		fprintf(stderr, "asynchronous error %d\n", error->ErrorCode);
}

static VIP_DESCRIPTOR *describe(VIP_DESCRIPTOR *descriptor, char *buffer, unsigned length,
				VIP_MEM_HANDLE handle)
{
	memset(descriptor, 0, sizeof(*descriptor));
	descriptor->CS.SegCount = 1;
	descriptor->CS.Length = length;
	descriptor->DS[0].Local.Data.Address = buffer;
	descriptor->DS[0].Local.Handle = handle;
	descriptor->DS[0].Local.Length = length;
	return descriptor;
}

int main(int argc, char **argv)
{
	static const char discriminator[] = "hello";
	union {
		VIP_NET_ADDRESS net;
		char bytes[64];
	} local = {0}, remote = {0};
	VIP_VI_ATTRIBUTES attributes = {.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY,
					.MaxTransferSize = 32768};
	VIP_MEM_ATTRIBUTES rights = {0};
	VIP_NIC_ATTRIBUTES nic_attributes;
	VIP_DESCRIPTOR *done;
	VIP_CONN_HANDLE conn;
	VIP_MEM_HANDLE handle;
	VIP_NIC_HANDLE nic;
	VIP_VI_HANDLE vi;
	VIP_RETURN result;

	if (argc < 2) {
		fprintf(stderr, "usage: vipl_hello NIC [HOST]\n");
		return 2;
	}
	check(VipOpenNic(argv[1], &nic), "VipOpenNic");
	check(VipErrorCallback(nic, NULL, on_error), "VipErrorCallback");
	check(VipNSInit(nic, NULL), "VipNSInit");
	check(VipQueryNic(nic, &nic_attributes), "VipQueryNic");
	check(VipRegisterMem(nic, &memory, sizeof(memory), &rights, &handle), "VipRegisterMem");
	check(VipCreateVi(nic, &attributes, NULL, NULL, &vi), "VipCreateVi");

	/* A receive must be there before its message is. */
	check(VipPostRecv(vi, describe(&memory.recv, memory.in, SIZE, handle), handle),
	      "VipPostRecv");

	/* An address is the host's, then a discriminator of any bytes. */
	local.net.HostAddressLen = nic_attributes.NicAddressLen;
	memcpy(local.net.HostAddress, nic_attributes.LocalNicAddress, nic_attributes.NicAddressLen);
	local.net.DiscriminatorLen = sizeof(discriminator);
	memcpy(local.net.HostAddress + local.net.HostAddressLen, discriminator,
	       sizeof(discriminator));
	if (argc == 2) {
		check(VipConnectWait(nic, &local.net, VIP_INFINITE, &remote.net, &attributes,
				     &conn),
		      "VipConnectWait");
		check(VipConnectAccept(conn, vi), "VipConnectAccept");
	} else {
		remote = local;
		check(VipNSGetHostByName(nic, argv[2], &remote.net, 0), "VipNSGetHostByName");
		do
			result = VipConnectRequest(vi, &local.net, &remote.net, 10000, &attributes);
		while (result == VIP_NO_MATCH); /* the server does not wait yet */
		check(result, "VipConnectRequest");
	}

	for (int i = 0; i < MESSAGES; i++) {
		if (argc > 2) {
			int length = snprintf(memory.out, SIZE, "message %d", i) + 1;

			check(VipPostSend(vi, describe(&memory.send, memory.out, length, handle),
					  handle),
			      "VipPostSend");
			check(VipSendWait(vi, VIP_INFINITE, &done), "VipSendWait");
		}
		check(VipRecvWait(vi, VIP_INFINITE, &done), "VipRecvWait");
		printf("%u bytes: %s\n", done->CS.Length, memory.in);
		if (argc == 2)
			snprintf(memory.out, SIZE, "answer to %.200s", memory.in);
		check(VipPostRecv(vi, describe(&memory.recv, memory.in, SIZE, handle), handle),
		      "VipPostRecv");
		if (argc == 2) {
			check(VipPostSend(vi,
					  describe(&memory.send, memory.out, strlen(memory.out) + 1,
						   handle),
					  handle),
			      "VipPostSend");
			check(VipSendWait(vi, VIP_INFINITE, &done), "VipSendWait");
		}
	}

	/* The last receive comes back, flushed; a VI with empty queues can be destroyed. */
	if (argc == 2)
		VipRecvWait(vi, 5000, &done);
	check(VipDisconnect(vi), "VipDisconnect");
	VipRecvDone(vi, &done);
	check(VipDestroyVi(vi), "VipDestroyVi");
	check(VipDeregisterMem(nic, &memory, handle), "VipDeregisterMem");
	check(VipCloseNic(nic), "VipCloseNic");
	return 0;
}
