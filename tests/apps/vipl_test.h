/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * For the vipl_*.c programs: users of VIPL that know nothing of what is below it. An endpoint is a
 * NIC, a region with descriptors and buffers, and a VI; expectations are counted, and a program
 * ends with status 1 if one was not met. VIPL_NIC, or the program's arguments, say which NIC.
 */
#ifndef VIPL_TEST_H
#define VIPL_TEST_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <vipl.h>

static const char *current_case = "";
static int failures;

#define EXPECT(got, expected)                                                                     \
	do {                                                                                      \
		long long got_ = (long long)(got), expected_ = (long long)(expected);             \
		if (got_ != expected_) {                                                          \
			printf("%s:%d: %s: %s is %lld, expected %lld (%s)\n", __FILE__, __LINE__, \
			       current_case, #got, got_, expected_, #expected);                   \
			fflush(stdout);                                                           \
			__atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);                       \
		}                                                                                 \
	} while (0)
#define EXPECT_TRUE(condition) EXPECT(!!(condition), 1)
/* Without this the case cannot go on. */
#define NEED(got, expected)                   \
	do {                                  \
		long long before_ = failures; \
		EXPECT(got, expected);        \
		if (failures != before_)      \
			exit(1);              \
	} while (0)

#define LONG_TIME   60000 /* milliseconds in which what is to come has come */
#define DESCRIPTORS 64
#define BUFFER	    65536
#define SEGMENTS    512

struct descriptor {
	VIP_DESCRIPTOR d;
	VIP_DESCRIPTOR_SEGMENT more[SEGMENTS - 2];
	char pad[0] __attribute__((aligned(64)));
};

/* What is registered. */
struct memory {
	struct descriptor descriptors[DESCRIPTORS] __attribute__((aligned(64)));
	char buffers[DESCRIPTORS][BUFFER];
};

struct end {
	VIP_NIC_HANDLE nic;
	VIP_NIC_ATTRIBUTES attributes;
	VIP_PROTECTION_HANDLE ptag;
	struct memory *memory;
	VIP_MEM_HANDLE handle;
	VIP_VI_ATTRIBUTES vi_attributes;
	VIP_CQ_HANDLE cq;
	VIP_VI_HANDLE vi;
};

/* Room for any address. */
union address {
	VIP_NET_ADDRESS net;
	char bytes[64];
};

static inline double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec * 1e-9;
}

/* An address of the NIC, or of another host, with a discriminator that is a text. */
static inline void make_address(struct end *end, union address *address, const char *host,
				const char *discriminator)
{
	memset(address, 0, sizeof(*address));
	address->net.HostAddressLen = end->attributes.NicAddressLen;
	if (host)
		NEED(VipNSGetHostByName(end->nic, (char *)host, &address->net, 0), VIP_SUCCESS);
	else
		memcpy(address->net.HostAddress, end->attributes.LocalNicAddress,
		       end->attributes.NicAddressLen);
	address->net.DiscriminatorLen = strlen(discriminator);
	memcpy(address->net.HostAddress + address->net.HostAddressLen, discriminator,
	       strlen(discriminator));
}

static inline void open_end(struct end *end, const char *nic)
{
	VIP_MEM_ATTRIBUTES attributes = {.EnableRdmaWrite = VIP_TRUE};

	memset(end, 0, sizeof(*end));
	NEED(VipOpenNic(nic, &end->nic), VIP_SUCCESS);
	NEED(VipQueryNic(end->nic, &end->attributes), VIP_SUCCESS);
	NEED(VipNSInit(end->nic, NULL), VIP_SUCCESS);
	NEED(VipCreatePtag(end->nic, &end->ptag), VIP_SUCCESS);
	end->memory = aligned_alloc(64, (sizeof(*end->memory) + 63) / 64 * 64);
	memset(end->memory, 0, sizeof(*end->memory));
	attributes.Ptag = end->ptag;
	attributes.EnableRdmaRead = end->attributes.RDMAReadSupport != 0;
	NEED(VipRegisterMem(end->nic, end->memory, sizeof(*end->memory), &attributes, &end->handle),
	     VIP_SUCCESS);
	end->vi_attributes = (VIP_VI_ATTRIBUTES){
		.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY,
		.MaxTransferSize = end->attributes.MaxTransferSize,
		.Ptag = end->ptag,
		.EnableRdmaWrite = VIP_TRUE,
		.EnableRdmaRead = end->attributes.RDMAReadSupport != 0,
	};
}

static inline void create_vi(struct end *end)
{
	NEED(VipCreateVi(end->nic, &end->vi_attributes, end->cq, end->cq, &end->vi), VIP_SUCCESS);
}

/* Takes what a queue still has. */
static inline int drain(VIP_RETURN (*done)(VIP_VI_HANDLE, VIP_DESCRIPTOR **), VIP_VI_HANDLE vi)
{
	VIP_DESCRIPTOR *descriptor;
	int count = 0;

	while (done(vi, &descriptor) != VIP_NOT_DONE && descriptor)
		count++;
	return count;
}

static inline void destroy_vi(struct end *end)
{
	EXPECT(VipDisconnect(end->vi), VIP_SUCCESS);
	drain(VipSendDone, end->vi);
	drain(VipRecvDone, end->vi);
	EXPECT(VipDestroyVi(end->vi), VIP_SUCCESS);
}

static inline void close_end(struct end *end)
{
	EXPECT(VipDeregisterMem(end->nic, end->memory, end->handle), VIP_SUCCESS);
	EXPECT(VipDestroyPtag(end->nic, end->ptag), VIP_SUCCESS);
	EXPECT(VipNSShutdown(end->nic), VIP_SUCCESS);
	EXPECT(VipCloseNic(end->nic), VIP_SUCCESS);
	free(end->memory);
}

/* Descriptor i with one segment, its buffer. */
static inline VIP_DESCRIPTOR *describe(struct end *end, int i, unsigned length)
{
	VIP_DESCRIPTOR *d = &end->memory->descriptors[i].d;

	memset(d, 0, sizeof(*d));
	d->CS.SegCount = 1;
	d->CS.Length = length;
	d->DS[0].Local.Data.Address = end->memory->buffers[i];
	d->DS[0].Local.Handle = end->handle;
	d->DS[0].Local.Length = length;
	return d;
}

static inline void post_recv(struct end *end, int i, unsigned length)
{
	NEED(VipPostRecv(end->vi, describe(end, i, length), end->handle), VIP_SUCCESS);
}

static inline void post_send(struct end *end, int i, unsigned length)
{
	NEED(VipPostSend(end->vi, describe(end, i, length), end->handle), VIP_SUCCESS);
}

/* The next of a queue, which must be this one. */
static inline VIP_DESCRIPTOR *sent(struct end *end, int i)
{
	VIP_DESCRIPTOR *d;

	if (VipSendWait(end->vi, LONG_TIME, &d) != VIP_SUCCESS)
		NEED(d ? d->CS.Status : 0, VIP_STATUS_DONE);
	EXPECT_TRUE(d == &end->memory->descriptors[i].d);
	return d;
}

static inline VIP_DESCRIPTOR *received(struct end *end, int i)
{
	VIP_DESCRIPTOR *d;

	if (VipRecvWait(end->vi, LONG_TIME, &d) != VIP_SUCCESS)
		NEED(d ? d->CS.Status : 0, VIP_STATUS_DONE);
	EXPECT_TRUE(d == &end->memory->descriptors[i].d);
	return d;
}

static inline void serve(struct end *end, const char *discriminator)
{
	union address local, remote;
	VIP_VI_ATTRIBUTES attributes;
	VIP_CONN_HANDLE conn;

	make_address(end, &local, NULL, discriminator);
	NEED(VipConnectWait(end->nic, &local.net, LONG_TIME, &remote.net, &attributes, &conn),
	     VIP_SUCCESS);
	EXPECT(attributes.MaxTransferSize, end->vi_attributes.MaxTransferSize);
	NEED(VipConnectAccept(conn, end->vi), VIP_SUCCESS);
}

static inline VIP_RETURN call(struct end *end, const char *host, const char *discriminator)
{
	double limit = seconds() + LONG_TIME / 1000;
	union address local, remote;
	VIP_VI_ATTRIBUTES attributes;
	VIP_RETURN result;

	make_address(end, &local, NULL, "caller");
	make_address(end, &remote, host, discriminator);
	do
		result =
			VipConnectRequest(end->vi, &local.net, &remote.net, LONG_TIME, &attributes);
	while (result == VIP_NO_MATCH && seconds() < limit);
	if (!result)
		EXPECT(attributes.ReliabilityLevel, end->vi_attributes.ReliabilityLevel);
	return result;
}

#endif
