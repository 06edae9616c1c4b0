/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The devices of this host: which netdevs carry an adapter, under which names, with which GUIDs,
 * port attributes and GID tables; kept current by netlink.
 *
 * A struct urxe_device is made when its netdev is first seen and lives as long as the process
 * (librdmacm sorts by device pointers), even when the netdev goes. Its name, index and guid never
 * change; the port and the GID table are read and written under urxe_device_lock.
 *
 * Names come from URXE_DEVICES="urxe0=eth0,urxe1=lo", else from the configuration file (config.h),
 * else every netdev that is up and has an address gets one: by ascending ifindex, lo last. Those
 * found later come after them. A device follows its netdev through renaming, and through removal
 * when one of that name comes back. Both are of the calling thread's network namespace.
 */
#ifndef URXE_HOST_DEVICE_H
#define URXE_HOST_DEVICE_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#define URXE_MAX_DEVICES 32
#define URXE_MAX_GIDS	 128

/* The port as its netdev has it. A device has one port, number 1. */
struct urxe_port {
	enum ibv_port_state state; /* ACTIVE: up and running; DOWN else */
	enum ibv_mtu active_mtu;   /* largest IB MTU that fits the netdev's with our headers */
	uint32_t netdev_mtu;	   /* bytes */
	uint32_t speed_mbps;	   /* of the netdev; 10000 where it does not say */
};

struct urxe_device {
	char name[IBV_SYSFS_NAME_MAX]; /* "urxe0" */
	char netdev[IF_NAMESIZE];      /* "eth0"; under the lock, for a netdev may be renamed */
	int index; /* 0 … URXE_MAX_DEVICES - 1: by configuration, else in the order of finding */
	unsigned ifindex; /* of the netdev; 0 while it is gone. Read atomically. */
	uint64_t guid;	  /* node and port GUID, network byte order */
	uint8_t mac[6];	  /* zeros for lo */
	struct urxe_port port;
	/* GID table: RoCE v2 only; an unused slot is all zeros. A slot keeps its GID until the
	 * address goes away. Link-local IPv6 first, then IPv4-mapped, then other IPv6. Tentative
	 * addresses have none. */
	union ibv_gid gids[URXE_MAX_GIDS];
	unsigned gid_len; /* slots in use or used once: 0 … URXE_MAX_GIDS */
};

/* What changed, as ibv_get_async_event(3) calls it. */
typedef void urxe_device_event_fn(struct urxe_device *dev, enum ibv_event_type event, void *arg);

/*
 * Finds the devices: at the first call and, to see new ones, at each later call. Fills devs with
 * stable pointers in order and returns their number (0 … max), or -errno: -EINVAL for a
 * configuration that cannot be read (one line says why on stderr). Any thread.
 */
int urxe_devices(struct urxe_device **devs, int max);

/* The device of that name or of that ifindex, as of the last urxe_devices(); NULL if none. */
struct urxe_device *urxe_device_by_name(const char *name);
struct urxe_device *urxe_device_by_ifindex(unsigned ifindex);

/* Has one of the devices, or the one of that ifindex where it is not 0, this address? */
bool urxe_device_has_address(const struct in6_addr *addr, unsigned ifindex);

/* Protects port and gids of every device. Readers hold it briefly and never call back. */
void urxe_device_lock(void);
void urxe_device_unlock(void);

/*
 * A netlink socket that becomes readable when a netdev or an address changes; -errno on failure.
 * urxe_device_monitor_read() takes what is there without blocking, updates the devices and calls fn
 * (may be NULL) for each change, without urxe_device_lock: IBV_EVENT_PORT_ACTIVE,
 * IBV_EVENT_PORT_ERR, IBV_EVENT_GID_CHANGE. One event of a kind per device and call, however often
 * it changed; also for what urxe_devices() saw first. One thread at a time, and one monitor per
 * process.
 */
int urxe_device_monitor_open(void);
void urxe_device_monitor_read(int fd, urxe_device_event_fn *fn, void *arg);
void urxe_device_monitor_close(int fd);

/* MTU in bytes of an enum ibv_mtu, and the largest one that fits a netdev MTU (256 … 4096). */
uint32_t urxe_mtu_bytes(enum ibv_mtu mtu);
enum ibv_mtu urxe_mtu_of_netdev(uint32_t netdev_mtu);

#endif
