/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The devices of this host and their ports: which netdevs carry an adapter, under which names, with
 * which GUIDs, port attributes and GID tables; kept current by netlink.
 *
 * A struct urxe_device is made when its netdev is first seen and lives as long as the process
 * (librdmacm sorts by device pointers), even when the netdev goes. So do its ports. Names, numbers,
 * GUIDs and kinds never change; the attributes and tables of a port are read and written under
 * urxe_device_lock.
 *
 * What a port says of itself is data, which the code of its kind keeps current: device.c by netlink
 * for a netdev's, fabric_device.c for a fabric's; a process on a host of a fabric has no other
 * ports. Queries of ports, GID and P_Key tables and sysfs read it here, whatever the kind.
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
#include <string.h>
#include <infiniband/verbs.h>

#define URXE_MAX_DEVICES 32
#define URXE_MAX_PORTS	 32 /* of all devices together */
#define URXE_NO_PORT	 URXE_MAX_PORTS
#define URXE_MAX_GIDS	 128
#define URXE_MAX_PKEYS	 128

/*
 * What ibv_get_device_index() counts ours from. The kernel gives its devices the lowest numbers
 * that are free, and programs (librdmacm) find a device by its number among those of both kinds.
 */
#define URXE_DEVICE_INDEX 0x40000000

enum urxe_link_layer { URXE_LINK_ROCE, URXE_LINK_FABRIC, URXE_NUM_LINKS };

/* What is the same for all ports of a kind. */
struct urxe_port_kind {
	enum urxe_link_layer link; /* wire/link.h has its operations */
	const char *link_layer;	   /* as sysfs spells it */
	uint8_t verbs_link_layer;  /* IBV_LINK_LAYER_… */
	uint8_t gid_type;	   /* enum ibv_gid_type */
	const char *gid_type_name;
	uint32_t port_flags;	 /* of struct ibv_port_attr: IBV_QPF_GRH_REQUIRED */
	uint32_t port_cap_flags; /* IBV_PORT_…_SUP */
	uint32_t sysfs_cap_mask;
};

extern const struct urxe_port_kind urxe_netdev_port;
extern const struct urxe_port_kind urxe_fabric_port;

struct urxe_device;

struct urxe_port {
	struct urxe_device *dev;
	const struct urxe_port_kind *kind;
	uint8_t num; /* 1 … dev->num_ports */
	/* Among all ports of the host, 0 … URXE_MAX_PORTS - 1. Counters, faults, paths and records,
	 * which other processes of the host read as well, name a port by it. */
	uint8_t index;
	bool gone; /* it has no netdev any more. Read without the lock too. */

	enum ibv_port_state state; /* ACTIVE: up and running; DOWN else */
	enum ibv_mtu max_mtu;
	enum ibv_mtu active_mtu; /* largest IB MTU that fits the netdev's with our headers */
	uint32_t speed_mbps;	 /* of the netdev; 10000 where it does not say */
	uint16_t lid, sm_lid;	 /* 0 without LIDs */
	uint8_t lmc, sm_sl;
	uint8_t width, speed; /* as struct ibv_port_attr has them; 0: what goes with speed_mbps */
	uint32_t cap_flags;   /* IBV_PORT_…_SUP, beside those of its kind */
	uint32_t changes;     /* not yet reported: a bit for each enum ibv_event_type */
	/*
	 * An unused slot is all zeros. A slot keeps its GID until the address goes away. RoCE:
	 * v2 only, link-local IPv6 first, then IPv4-mapped, then other IPv6. Tentative addresses
	 * have none (host/gid.h).
	 */
	union ibv_gid gids[URXE_MAX_GIDS];
	unsigned gid_len;		/* slots in use or used once: 0 … URXE_MAX_GIDS */
	uint16_t pkeys[URXE_MAX_PKEYS]; /* host order; 0: an unused slot */
	unsigned pkey_len;		/* slots of the table */

	/* A netdev's port. */
	struct {
		char name[IF_NAMESIZE]; /* "eth0"; it may be renamed */
		unsigned ifindex;	/* 0 while it is gone. Read atomically. */
		uint32_t mtu;		/* bytes */
		uint8_t mac[6];		/* zeros for lo */
	} netdev;
	/* A port of a virtual fabric: its index in the map's table of ports. Read atomically. */
	uint32_t fabric_port;
};

struct urxe_device {
	char name[IBV_SYSFS_NAME_MAX]; /* "urxe0" */
	int index; /* 0 … URXE_MAX_DEVICES - 1: by configuration, else in the order of finding */
	uint64_t guid; /* node and port GUID, network byte order */
	unsigned num_ports;
	struct urxe_port *ports; /* number 1 first */
};

/* The port of that number, NULL if there is none. */
static inline struct urxe_port *urxe_device_port(struct urxe_device *dev, unsigned num)
{
	return num && num <= dev->num_ports ? &dev->ports[num - 1] : NULL;
}

/* The ports by index. An entry that is set stays; the last is always NULL: of
 * packets that belong to no port. */
extern struct urxe_port *urxe_ports[URXE_MAX_PORTS + 1];

static inline struct urxe_port *urxe_port(unsigned index)
{
	return __atomic_load_n(&urxe_ports[index < URXE_MAX_PORTS ? index : URXE_NO_PORT],
			       __ATOMIC_ACQUIRE);
}

/* Each port that there is. */
#define urxe_for_each_port(port)                         \
	for (unsigned i_ = 0; i_ < URXE_MAX_PORTS; i_++) \
		if (((port) = urxe_port(i_)))

static inline unsigned urxe_port_ifindex(const struct urxe_port *port)
{
	return __atomic_load_n(&port->netdev.ifindex, __ATOMIC_RELAXED);
}

static inline bool urxe_port_is_gone(const struct urxe_port *port)
{
	return __atomic_load_n(&port->gone, __ATOMIC_RELAXED);
}

/* Is it an unused slot of a GID table? */
static inline bool urxe_gid_is_empty(const union ibv_gid *gid)
{
	return !gid->global.subnet_prefix && !gid->global.interface_id;
}

/* Has the port that GID, or IP address? Under urxe_device_lock. */
static inline bool urxe_port_has(const struct urxe_port *port, const void *gid)
{
	for (unsigned k = 0; k < port->gid_len; k++)
		if (!memcmp(&port->gids[k], gid, sizeof(port->gids[k])))
			return true;
	return false;
}

/* Puts a device's ports into that table. */
void urxe_ports_add(struct urxe_device *dev);

/* The GID at a place of the table: false where there is none, and *gid is zeros. */
bool urxe_port_gid(const struct urxe_port *port, unsigned index, union ibv_gid *gid);
/* Its place in the table, -1 if it has none. */
int urxe_port_gid_index(const struct urxe_port *port, const union ibv_gid *gid);
/* The P_Key at a place of the table, 0 if there is none; and the first place of one. */
uint16_t urxe_port_pkey(const struct urxe_port *port, unsigned index);
int urxe_port_pkey_index(const struct urxe_port *port, uint16_t pkey);
/* The place of one of that partition, with full membership where there are both; -1. */
int urxe_port_partition(const struct urxe_port *port, uint16_t pkey);

/* The Ethernet address of its netdev; zeros where there is none. */
void urxe_port_mac(const struct urxe_port *port, uint8_t mac[6]);

/* What changed, as ibv_get_async_event(3) calls it. */
typedef void urxe_port_event_fn(struct urxe_port *port, enum ibv_event_type event, void *arg);

/*
 * Finds the devices: at the first call and, to see new ones, at each later call. Fills devs with
 * stable pointers in order and returns their number (0 … max), or -errno: -EINVAL for a
 * configuration that cannot be read (one line says why on stderr). Any thread.
 */
int urxe_devices(struct urxe_device **devs, int max);

/* The device of that name, or the port on the netdev of that ifindex, as of the last
 * urxe_devices(); NULL if none. */
struct urxe_device *urxe_device_by_name(const char *name);
struct urxe_port *urxe_port_by_ifindex(unsigned ifindex);

/* Has a port on a netdev, or on the one of that ifindex where it is not 0, this address? */
bool urxe_netdev_port_has(const struct in6_addr *addr, unsigned ifindex);

/* Protects attributes and tables of every port. Readers hold it briefly and never call back. */
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
void urxe_device_monitor_read(int fd, urxe_port_event_fn *fn, void *arg);
void urxe_device_monitor_close(int fd);

/* MTU in bytes of an enum ibv_mtu, and the largest one that fits a netdev MTU (256 … 4096). */
uint32_t urxe_mtu_bytes(enum ibv_mtu mtu);
enum ibv_mtu urxe_mtu_of_netdev(uint32_t netdev_mtu);

#endif
