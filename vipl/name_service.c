// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * VipNSInit and its kin: the system's name service. Addresses are in the form of the NIC's: IPv6,
 * or IPv4 mapped into it. Any thread.
 */
#include <netdb.h>
#include <string.h>
#include <unistd.h>

#include "vipl/nic.h"

VIP_RETURN VipNSInit(VIP_NIC_HANDLE handle, VIP_PVOID info)
{
	struct vipl_nic *nic = vipl_nic_lookup(handle);

	if (!nic)
		return VIP_INVALID_PARAMETER;
	vipl_nic_lock(nic);
	nic->name_service = true;
	vipl_nic_unlock(nic);
	return VIP_SUCCESS;
}

VIP_RETURN VipNSShutdown(VIP_NIC_HANDLE handle)
{
	struct vipl_nic *nic = vipl_nic_lookup(handle);
	VIP_RETURN result;

	if (!nic)
		return VIP_INVALID_PARAMETER;
	vipl_nic_lock(nic);
	result = nic->name_service ? VIP_SUCCESS : VIP_ERROR_NAMESERVICE;
	nic->name_service = false;
	vipl_nic_unlock(nic);
	return result;
}

static bool is_loopback(const uint8_t address[VIPL_HOST_LENGTH])
{
	if (vipl_is_v4(address))
		return address[12] == 127;
	return !memcmp(address, &in6addr_loopback, VIPL_HOST_LENGTH);
}

static bool has_address(const struct addrinfo *list, const uint8_t wanted[VIPL_HOST_LENGTH])
{
	uint8_t address[VIPL_HOST_LENGTH];

	for (; list; list = list->ai_next) {
		vipl_sockaddr_read(list->ai_addr, address);
		if (!memcmp(address, wanted, sizeof(address)))
			return true;
	}
	return false;
}

/*
 * This host's own name often stands for a loopback address (Debian: 127.0.1.1), where no peer finds
 * us: the NIC's own address is meant. It also comes first where the name has several addresses.
 */
static bool means_us(const struct vipl_nic *nic, const char *name, const struct addrinfo *list)
{
	uint8_t address[VIPL_HOST_LENGTH];
	char own[256];

	if (has_address(list, nic->device.address))
		return true;
	if (is_loopback(nic->device.address) || gethostname(own, sizeof(own)))
		return false;
	own[sizeof(own) - 1] = 0;
	vipl_sockaddr_read(list->ai_addr, address);
	return is_loopback(address) && !strcasecmp(name, own);
}

/* The address of that index, with ours in front if the name means us. */
static bool choose(const struct vipl_nic *nic, const char *name, const struct addrinfo *list,
		   VIP_ULONG index, uint8_t address[VIPL_HOST_LENGTH])
{
	bool ours = means_us(nic, name, list);

	if (ours && !index--) {
		memcpy(address, nic->device.address, VIPL_HOST_LENGTH);
		return true;
	}
	for (; list; list = list->ai_next) {
		vipl_sockaddr_read(list->ai_addr, address);
		if (ours && (is_loopback(address) ||
			     !memcmp(address, nic->device.address, VIPL_HOST_LENGTH)))
			continue;
		if (!index--)
			return true;
	}
	return false;
}

VIP_RETURN VipNSGetHostByName(VIP_NIC_HANDLE handle, VIP_CHAR *name, VIP_NET_ADDRESS *to,
			      VIP_ULONG index)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
	struct vipl_nic *nic = vipl_nic_lookup(handle);
	uint8_t address[VIPL_HOST_LENGTH];
	bool found;

	if (!nic || !name || !to)
		return VIP_INVALID_PARAMETER;
	if (!nic->name_service || getaddrinfo(name, NULL, &hints, &list))
		return VIP_ERROR_NAMESERVICE;
	found = choose(nic, name, list, index, address);
	freeaddrinfo(list);
	if (!found)
		return VIP_ERROR_NAMESERVICE;
	to->HostAddressLen = VIPL_HOST_LENGTH;
	memcpy(to->HostAddress, address, VIPL_HOST_LENGTH);
	return VIP_SUCCESS;
}

VIP_RETURN VipNSGetHostByAddr(VIP_NIC_HANDLE handle, VIP_NET_ADDRESS *address, VIP_CHAR *name,
			      VIP_ULONG *length)
{
	struct vipl_nic *nic = vipl_nic_lookup(handle);
	struct sockaddr_storage from;
	char host[NI_MAXHOST];
	socklen_t size;

	if (!nic || !address || !name || !length || address->HostAddressLen != VIPL_HOST_LENGTH)
		return VIP_INVALID_PARAMETER;
	if (!nic->name_service)
		return VIP_ERROR_NAMESERVICE;
	size = vipl_sockaddr(address->HostAddress, nic->device.scope, 0, &from);
	if (getnameinfo((struct sockaddr *)&from, size, host, sizeof(host), NULL, 0, NI_NAMEREQD))
		return VIP_ERROR_NAMESERVICE;
	size = strlen(host) + 1;
	if (*length < size) {
		*length = size;
		return VIP_ERROR_RESOURCE;
	}
	memcpy(name, host, size);
	*length = size;
	return VIP_SUCCESS;
}
