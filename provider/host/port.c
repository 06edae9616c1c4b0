// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Ports: the kinds that there are, the table of all ports of the host, and what their GID and P_Key
 * tables say. Any thread; the tables are read under urxe_device_lock, which is taken here.
 */
#include <string.h>

#include "host/device_list.h"

#define PKEY_FULL 0x8000 /* full membership of a partition */

const struct urxe_port_kind urxe_netdev_port = {
	.link = URXE_LINK_ROCE,
	.link_layer = "Ethernet",
	.verbs_link_layer = IBV_LINK_LAYER_ETHERNET,
	.gid_type = IBV_GID_TYPE_ROCE_V2,
	.gid_type_name = "RoCE v2",
	.port_flags = IBV_QPF_GRH_REQUIRED,
	.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
	.sysfs_cap_mask = IBV_PORT_CM_SUP, /* as the kernel shows it */
};

const struct urxe_port_kind urxe_fabric_port = {
	.link = URXE_LINK_FABRIC,
	.link_layer = "InfiniBand",
	.verbs_link_layer = IBV_LINK_LAYER_INFINIBAND,
	.gid_type = IBV_GID_TYPE_IB,
	.gid_type_name = "IB/RoCE v1",
};

struct urxe_port *urxe_ports[URXE_MAX_PORTS + 1];

void urxe_ports_add(struct urxe_device *dev)
{
	for (unsigned i = 0; i < dev->num_ports; i++)
		__atomic_store_n(&urxe_ports[dev->ports[i].index], &dev->ports[i],
				 __ATOMIC_RELEASE);
}

bool urxe_port_gid(const struct urxe_port *port, unsigned index, union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (index >= URXE_MAX_GIDS)
		return false;
	urxe_device_lock();
	*gid = port->gids[index];
	urxe_device_unlock();
	return !urxe_gid_is_empty(gid);
}

int urxe_port_gid_index(const struct urxe_port *port, const union ibv_gid *gid)
{
	int index = -1;

	if (urxe_gid_is_empty(gid))
		return -1;
	urxe_device_lock();
	for (unsigned i = 0; i < port->gid_len && index < 0; i++)
		if (!memcmp(&port->gids[i], gid, sizeof(*gid)))
			index = i;
	urxe_device_unlock();
	return index;
}

uint16_t urxe_port_pkey(const struct urxe_port *port, unsigned index)
{
	uint16_t pkey;

	if (index >= port->pkey_len)
		return 0;
	urxe_device_lock();
	pkey = port->pkeys[index];
	urxe_device_unlock();
	return pkey;
}

int urxe_port_pkey_index(const struct urxe_port *port, uint16_t pkey)
{
	int index = -1;

	urxe_device_lock();
	for (unsigned i = 0; pkey && i < port->pkey_len && index < 0; i++)
		if (port->pkeys[i] == pkey)
			index = i;
	urxe_device_unlock();
	return index;
}

int urxe_port_partition(const struct urxe_port *port, uint16_t pkey)
{
	int index = urxe_port_pkey_index(port, pkey | PKEY_FULL);

	return index < 0 ? urxe_port_pkey_index(port, pkey & ~PKEY_FULL) : index;
}

void urxe_port_mac(const struct urxe_port *port, uint8_t mac[6])
{
	urxe_device_lock();
	memcpy(mac, port->netdev.mac, sizeof(port->netdev.mac));
	urxe_device_unlock();
}

void urxe_ports_report(urxe_port_event_fn *fn, void *arg)
{
	static const enum ibv_event_type events[] = {
		IBV_EVENT_PORT_ERR,	     IBV_EVENT_LID_CHANGE, IBV_EVENT_PKEY_CHANGE,
		IBV_EVENT_GID_CHANGE,	     IBV_EVENT_SM_CHANGE,  IBV_EVENT_PORT_ACTIVE,
		IBV_EVENT_CLIENT_REREGISTER,
	};
	struct urxe_port *port;

	urxe_for_each_port (port) {
		uint32_t changes;

		urxe_device_lock();
		changes = port->changes;
		port->changes = 0;
		urxe_device_unlock();
		for (size_t k = 0; fn && k < sizeof(events) / sizeof(events[0]); k++)
			if (changes & 1u << events[k])
				fn(port, events[k], arg);
	}
}
