/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The header's layout and values, which programs of the time have compiled in, as assertions of the
 * compiler. Built once in each dialect of C, and of C++, that such programs are written in.
 */
#include <stddef.h>

#ifdef SPELLING
#define VIPL095
#endif
#include "vipl.h"

#define AT(type, member, offset)                                                            \
	typedef char assert_##type##_##member[offsetof(type, member) == (offset) ? 1 : -1]; \
	extern assert_##type##_##member exists_##type##_##member
#define SIZE(type, size)                                             \
	typedef char assert_##type[sizeof(type) == (size) ? 1 : -1]; \
	extern assert_##type exists_##type
#define VALUE(name, value)                                      \
	typedef char assert_##name[(name) == (value) ? 1 : -1]; \
	extern assert_##name exists_##name

SIZE(VIP_PVOID64, 8);
SIZE(VIP_ULONG, sizeof(long));
SIZE(VIP_MEM_HANDLE, 4);
SIZE(VIP_RELIABILITY_LEVEL, 2);
SIZE(VIP_BOOLEAN, 4);
SIZE(VIP_CONTROL_SEGMENT, 32);
AT(VIP_CONTROL_SEGMENT, Next, 0);
AT(VIP_CONTROL_SEGMENT, NextHandle, 8);
AT(VIP_CONTROL_SEGMENT, SegCount, 12);
AT(VIP_CONTROL_SEGMENT, Control, 14);
AT(VIP_CONTROL_SEGMENT, Reserved, 16);
AT(VIP_CONTROL_SEGMENT, ImmediateData, 20);
AT(VIP_CONTROL_SEGMENT, Length, 24);
AT(VIP_CONTROL_SEGMENT, Status, 28);
SIZE(VIP_ADDRESS_SEGMENT, 16);
AT(VIP_ADDRESS_SEGMENT, Handle, 8);
AT(VIP_ADDRESS_SEGMENT, Reserved, 12);
SIZE(VIP_DATA_SEGMENT, 16);
AT(VIP_DATA_SEGMENT, Handle, 8);
AT(VIP_DATA_SEGMENT, Length, 12);
SIZE(VIP_DESCRIPTOR_SEGMENT, 16);
SIZE(VIP_DESCRIPTOR, 64);
AT(VIP_DESCRIPTOR, CS, 0);
AT(VIP_DESCRIPTOR, Control, 0);
AT(VIP_DESCRIPTOR, DS, 32);
AT(VIP_DESCRIPTOR, Data, 32);
AT(VIP_NET_ADDRESS, DiscriminatorLen, 2);
AT(VIP_NET_ADDRESS, HostAddress, 4);
SIZE(VIP_NET_ADDRESS, 6);

/* Of the program's own machine. */
#ifdef __LP64__
SIZE(VIP_NIC_ATTRIBUTES, 200);
AT(VIP_NIC_ATTRIBUTES, HardwareVersion, 64);
AT(VIP_NIC_ATTRIBUTES, ProviderVersion, 72);
AT(VIP_NIC_ATTRIBUTES, NicAddressLen, 80);
AT(VIP_NIC_ATTRIBUTES, LocalNicAddress, 88);
AT(VIP_NIC_ATTRIBUTES, ThreadSafe, 96);
AT(VIP_NIC_ATTRIBUTES, MaxDiscriminatorLen, 100);
AT(VIP_NIC_ATTRIBUTES, MaxRegisterBytes, 104);
AT(VIP_NIC_ATTRIBUTES, MaxRegisterRegions, 112);
AT(VIP_NIC_ATTRIBUTES, MaxRegisterBlockBytes, 120);
AT(VIP_NIC_ATTRIBUTES, MaxVI, 128);
AT(VIP_NIC_ATTRIBUTES, MaxDescriptorsPerQueue, 136);
AT(VIP_NIC_ATTRIBUTES, MaxSegmentsPerDesc, 144);
AT(VIP_NIC_ATTRIBUTES, MaxCQ, 152);
AT(VIP_NIC_ATTRIBUTES, MaxCQEntries, 160);
AT(VIP_NIC_ATTRIBUTES, MaxTransferSize, 168);
AT(VIP_NIC_ATTRIBUTES, NativeMTU, 176);
AT(VIP_NIC_ATTRIBUTES, MaxPtags, 184);
AT(VIP_NIC_ATTRIBUTES, ReliabilityLevelSupport, 192);
AT(VIP_NIC_ATTRIBUTES, RDMAReadSupport, 194);
SIZE(VIP_VI_ATTRIBUTES, 40);
AT(VIP_VI_ATTRIBUTES, MaxTransferSize, 8);
AT(VIP_VI_ATTRIBUTES, QoS, 16);
AT(VIP_VI_ATTRIBUTES, Ptag, 24);
AT(VIP_VI_ATTRIBUTES, EnableRdmaWrite, 32);
AT(VIP_VI_ATTRIBUTES, EnableRdmaRead, 36);
SIZE(VIP_MEM_ATTRIBUTES, 16);
AT(VIP_MEM_ATTRIBUTES, EnableRdmaWrite, 8);
AT(VIP_MEM_ATTRIBUTES, EnableRdmaRead, 12);
SIZE(VIP_ERROR_DESCRIPTOR, 48);
AT(VIP_ERROR_DESCRIPTOR, ViHandle, 8);
AT(VIP_ERROR_DESCRIPTOR, CQHandle, 16);
AT(VIP_ERROR_DESCRIPTOR, DescriptorPtr, 24);
AT(VIP_ERROR_DESCRIPTOR, OpCode, 32);
AT(VIP_ERROR_DESCRIPTOR, ResourceCode, 40);
AT(VIP_ERROR_DESCRIPTOR, ErrorCode, 44);
#endif

VALUE(VIP_NOT_DONE, 1);
VALUE(VIP_INVALID_PTAG, 9);
VALUE(VIP_NO_MATCH, 14);
VALUE(VIP_NOT_REACHABLE, 15);
VALUE(VIP_ERROR_NOT_SUPPORTED, 16);
VALUE(VIP_STATE_CONNECTED, 1);
VALUE(VIP_STATE_CONNECT_PENDING, 2);
VALUE(VIP_STATE_ERROR, 3);
VALUE(VIP_STATUS_ERROR_MASK, 0x1FE);
VALUE(VIP_STATUS_RESERVED, 0xFFF0FE00);
VALUE(VIP_RESOURCE_DESCRIPTOR, 3);
VALUE(VIP_ERROR_CATASTROPHIC, 10);
VALUE(VIP_DESCRIPTOR_ALIGNMENT, 64);

/* Both spellings, and a segment beyond the array. */
unsigned vipl_layout_use(VIP_DESCRIPTOR *d, VIP_NET_ADDRESS *address);

unsigned vipl_layout_use(VIP_DESCRIPTOR *d, VIP_NET_ADDRESS *address)
{
	d->CS.Next.Descriptor = d;
	d->DS[0].Remote.Handle = d->Data[0].Handle;
	return d->Control.Length + d->DS[1].Local.Length + address->HostAddressLen;
}

#ifndef __cplusplus
int main(void)
{
	return 0;
}
#else
int main()
{
	return 0;
}
#endif
