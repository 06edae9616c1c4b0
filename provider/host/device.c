// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The list of devices, and those on netdevs (on a host of a fabric: fabric_device.c). It only
 * grows, to URXE_MAX_DEVICES, and its entries live as long as the process, so readers need no lock
 * to find one: the count is published after the entry.
 *
 * The refresh lock serialises those that read the kernel's state, or the fabric's, and bring the
 * list up to it; the device lock (taken inside it) guards ports, GID tables and the changes not yet
 * reported, and is held for moments. Both are taken around fork(), so that the child finds them
 * free and the data whole; the handlers are registered early, so that the locks of the floors
 * above, which are taken before these, are also taken before these at a fork.
 */
#include <errno.h>
#include <net/if.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/if.h> /* after net/if.h */

#include "host/config.h"
#include "host/device.h"
#include "host/device_list.h"
#include "host/fabric.h"
#include "host/fabric_device.h"
#include "host/gid.h"
#include "host/log.h"

/* GRH or IPv6 header, UDP, BTH, XRCETH, AtomicETH, ICRC: what the kernel leaves room for. */
#define MAX_HEADERS (40 + 8 + 12 + 4 + 28 + 4)

#define DEFAULT_SPEED_MBPS 10000

pthread_mutex_t urxe_refresh_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t device_lock = PTHREAD_MUTEX_INITIALIZER;

static struct urxe_device *devices[URXE_MAX_DEVICES];
static int num_devices;

/* Under the refresh lock. */
static struct urxe_config config;
static enum { CONFIG_UNREAD, CONFIG_GOOD, CONFIG_BAD } config_state;

static void before_fork(void)
{
	pthread_mutex_lock(&urxe_refresh_lock);
	pthread_mutex_lock(&device_lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&device_lock);
	pthread_mutex_unlock(&urxe_refresh_lock);
}

__attribute__((constructor(102))) static void init_fork_handlers(void)
{
	pthread_atfork(before_fork, after_fork, after_fork);
}

void urxe_device_lock(void)
{
	pthread_mutex_lock(&device_lock);
}

void urxe_device_unlock(void)
{
	pthread_mutex_unlock(&device_lock);
}

uint32_t urxe_mtu_bytes(enum ibv_mtu mtu)
{
	return 128u << mtu;
}

enum ibv_mtu urxe_mtu_of_netdev(uint32_t netdev_mtu)
{
	enum ibv_mtu mtu = IBV_MTU_4096;

	while (mtu > IBV_MTU_256 && urxe_mtu_bytes(mtu) + MAX_HEADERS > netdev_mtu)
		mtu--;
	return mtu;
}

struct urxe_device *urxe_device_at(int i)
{
	return i < __atomic_load_n(&num_devices, __ATOMIC_ACQUIRE) ? devices[i] : NULL;
}

struct urxe_device *urxe_device_by_name(const char *name)
{
	struct urxe_device *dev;

	for (int i = 0; (dev = urxe_device_at(i)); i++)
		if (!strcmp(dev->name, name))
			return dev;
	return NULL;
}

struct urxe_device *urxe_device_create(const char *name, int index, uint64_t guid,
				       const struct urxe_port_kind *kind, unsigned num_ports)
{
	struct {
		struct urxe_device dev;
		struct urxe_port ports[];
	} *both = calloc(1, sizeof(*both) + num_ports * sizeof(*both->ports));

	if (!both)
		return NULL;
	snprintf(both->dev.name, sizeof(both->dev.name), "%s", name);
	both->dev.index = index;
	both->dev.guid = guid;
	both->dev.num_ports = num_ports;
	both->dev.ports = both->ports;
	for (unsigned i = 0; i < num_ports; i++) {
		both->ports[i].dev = &both->dev;
		both->ports[i].kind = kind;
		both->ports[i].num = i + 1;
	}
	return &both->dev;
}

void urxe_device_publish(struct urxe_device *dev)
{
	urxe_ports_add(dev);
	devices[num_devices] = dev;
	__atomic_store_n(&num_devices, num_devices + 1, __ATOMIC_RELEASE);
}

/* ---- devices on netdevs ---- */

struct urxe_port *urxe_port_by_ifindex(unsigned ifindex)
{
	struct urxe_port *port;

	urxe_for_each_port (port)
		if (ifindex && urxe_port_ifindex(port) == ifindex)
			return port;
	return NULL;
}

bool urxe_netdev_port_has(const struct in6_addr *addr, unsigned ifindex)
{
	const struct urxe_port *port;
	bool found = false;

	urxe_device_lock();
	urxe_for_each_port (port)
		found = found || ((!ifindex || urxe_port_ifindex(port) == ifindex) &&
				  urxe_port_has(port, addr));
	urxe_device_unlock();
	return found;
}

/* Follows a netdev through renaming by its index, and through removal and return by its name. */
static const struct urxe_netdev *find_netdev(const struct urxe_port *port,
					     const struct urxe_netdevs *nds)
{
	const struct urxe_netdev *nd = NULL;

	if (port->netdev.ifindex)
		nd = urxe_netdevs_by_index(nds, port->netdev.ifindex);
	if (!nd) {
		nd = urxe_netdevs_by_name(nds, port->netdev.name);
		if (nd && urxe_port_by_ifindex(nd->ifindex))
			return NULL;
	}
	return nd;
}

/*
 * Can the netdev send? The kernel says that it is running some time after it has a carrier. (lo's
 * operational state is "unknown", which counts as running.) A dormant one has a carrier and waits,
 * for 802.1X say.
 */
static bool can_send(const struct urxe_netdev *nd)
{
	return nd->flags & IFF_UP && (nd->flags & IFF_RUNNING ||
				      (nd->flags & IFF_LOWER_UP && !(nd->flags & IFF_DORMANT)));
}

/* Under the device lock, or before the port is published. */
static void port_update(struct urxe_port *port, const struct urxe_netdev *nd, uint32_t speed)
{
	port->state = nd && can_send(nd) ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	__atomic_store_n(&port->netdev.ifindex, nd ? nd->ifindex : 0, __ATOMIC_RELAXED);
	__atomic_store_n(&port->gone, !nd, __ATOMIC_RELAXED);
	if (!nd)
		return;
	memcpy(port->netdev.name, nd->name, sizeof(port->netdev.name));
	memcpy(port->netdev.mac, nd->mac, sizeof(port->netdev.mac));
	port->netdev.mtu = nd->mtu;
	port->active_mtu = urxe_mtu_of_netdev(nd->mtu);
	port->speed_mbps = speed ? speed : DEFAULT_SPEED_MBPS;
}

static void refresh_port(struct urxe_port *port, const struct urxe_netdevs *nds)
{
	const struct urxe_netdev *nd = find_netdev(port, nds);
	uint32_t speed = nd ? urxe_netdev_speed(nd->name) : 0;
	enum ibv_port_state old;

	urxe_device_lock();
	old = port->state;
	/* GIDs are resolved to it: programs learn it by the event that the kernel has for it. */
	if (nd && !port->gone && memcmp(port->netdev.mac, nd->mac, sizeof(nd->mac)))
		urxe_port_changed(port, IBV_EVENT_GID_CHANGE);
	port_update(port, nd, speed);
	if (urxe_gid_table_update(port->gids, &port->gid_len, nds->addrs, nd ? nds->num_addrs : 0,
				  nd ? nd->ifindex : 0))
		urxe_port_changed(port, IBV_EVENT_GID_CHANGE);
	if (port->state != old)
		urxe_port_changed(port, port->state == IBV_PORT_ACTIVE ? IBV_EVENT_PORT_ACTIVE
								       : IBV_EVENT_PORT_ERR);
	urxe_device_unlock();
}

static bool guid_taken(uint64_t guid)
{
	for (int i = 0; i < num_devices; i++)
		if (devices[i]->guid == guid)
			return true;
	for (unsigned i = 0; i < config.count; i++)
		if (config.devices[i].guid == guid)
			return true;
	return false;
}

/* VLANs and bridges share the MAC of the netdev below; the second of a MAC gets a hashed GUID. */
static uint64_t choose_guid(const char *name, const struct urxe_netdev *nd)
{
	static const uint8_t no_mac[6];
	const struct urxe_config_device *section = urxe_config_find(&config, name);
	uint64_t guid;

	if (section && section->guid)
		return section->guid;
	guid = urxe_guid_of_mac(nd->mac);
	if (!memcmp(nd->mac, no_mac, sizeof(no_mac)) || guid_taken(guid))
		guid = urxe_guid_of_host(nd->name);
	return guid;
}

static int create(const char *name, int index, const struct urxe_netdev *nd,
		  const struct urxe_netdevs *nds)
{
	struct urxe_device *dev =
		urxe_device_create(name, index, choose_guid(name, nd), &urxe_netdev_port, 1);
	struct urxe_port *port;

	if (!dev)
		return -ENOMEM;
	port = dev->ports;
	port->index = index;
	port->max_mtu = IBV_MTU_4096;
	port->pkeys[0] = 0xffff;
	port->pkey_len = 1;
	port_update(port, nd, urxe_netdev_speed(nd->name));
	urxe_gid_table_update(port->gids, &port->gid_len, nds->addrs, nds->num_addrs, nd->ifindex);
	urxe_device_publish(dev);
	urxe_log(URXE_LOG_INFO, "%s is on %s", dev->name, port->netdev.name);
	return 0;
}

/* Those that the configuration names; one whose netdev is missing waits for it. */
static int create_named(const struct urxe_netdevs *nds)
{
	int index = 0;

	for (unsigned i = 0; i < config.count; i++) {
		const struct urxe_config_device *want = &config.devices[i];
		const struct urxe_netdev *nd;
		int ret;

		if (!want->netdev[0])
			continue;
		index++;
		if (urxe_device_by_name(want->name))
			continue;
		nd = urxe_netdevs_by_name(nds, want->netdev);
		if (!nd) {
			urxe_log(URXE_LOG_WARN, "%s waits for its netdev %s: there is none",
				 want->name, want->netdev);
			continue;
		}
		if (urxe_port_by_ifindex(nd->ifindex))
			continue;
		ret = create(want->name, index - 1, nd, nds);
		if (ret)
			return ret;
	}
	return 0;
}

/* Every netdev that is up and has an address. */
static int create_found(const struct urxe_netdevs *nds, bool loopback)
{
	for (unsigned i = 0; i < nds->num_devs; i++) {
		const struct urxe_netdev *nd = &nds->devs[i];
		char name[IBV_SYSFS_NAME_MAX];
		int ret;

		if (!!(nd->flags & IFF_LOOPBACK) != loopback || !(nd->flags & IFF_UP) ||
		    !urxe_netdev_has_address(nds, nd->ifindex) || urxe_port_by_ifindex(nd->ifindex))
			continue;
		if (num_devices == URXE_MAX_DEVICES) {
			urxe_log(URXE_LOG_WARN, "more than %d netdevs: %s gets no device",
				 URXE_MAX_DEVICES, nd->name);
			return 0;
		}
		snprintf(name, sizeof(name), "urxe%d", num_devices);
		ret = create(name, num_devices, nd, nds);
		if (ret)
			return ret;
	}
	return 0;
}

/* Is there a device that can be sent by? */
static bool any_usable(void)
{
	const struct urxe_port *port;

	urxe_for_each_port (port)
		for (unsigned k = 0; port->state == IBV_PORT_ACTIVE && k < port->gid_len; k++)
			if (!urxe_gid_is_empty(&port->gids[k]))
				return true;
	return false;
}

/*
 * By default lo gets a device only where no other one can be sent by. Programs that use all devices
 * (UCX, and libfabric, which takes the one that 127.0.0.1 belongs to) would send by lo what is for
 * other hosts.
 */
static int create_new(const struct urxe_netdevs *nds)
{
	int ret;

	if (config_state == CONFIG_UNREAD)
		config_state = urxe_config_load(&config) ? CONFIG_BAD : CONFIG_GOOD;
	if (config_state == CONFIG_BAD)
		return -EINVAL;
	if (config.named)
		return create_named(nds);
	ret = create_found(nds, false);
	return ret || any_usable() ? ret : create_found(nds, true);
}

int urxe_devices_refresh(bool make_new)
{
	struct urxe_netdevs nds;
	struct urxe_port *port;
	int ret;

	pthread_mutex_lock(&urxe_refresh_lock);
	ret = urxe_netdevs_load(&nds);
	if (ret) {
		urxe_log(URXE_LOG_WARN, "cannot list the netdevs: %s", strerror(-ret));
	} else {
		urxe_for_each_port (port)
			refresh_port(port, &nds);
		if (make_new)
			ret = create_new(&nds);
		urxe_netdevs_free(&nds);
	}
	pthread_mutex_unlock(&urxe_refresh_lock);
	return ret;
}

int urxe_devices(struct urxe_device **devs, int max)
{
	int ret = 0, n;

	/* On a host of a virtual fabric there are the host's adapters and no others. */
	if (urxe_fabric_wanted())
		urxe_fabric_devices_refresh();
	else
		ret = urxe_devices_refresh(true);
	if (ret)
		return ret;
	for (n = 0; n < max && urxe_device_at(n); n++)
		devs[n] = urxe_device_at(n);
	return n;
}

bool urxe_devices_concern(unsigned ifindex)
{
	const struct urxe_port *port;

	urxe_for_each_port (port)
		if (!urxe_port_ifindex(port) || urxe_port_ifindex(port) == ifindex)
			return true;
	return false;
}
