// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Devices: MTUs, GUIDs and GID tables as tables, and netdevs that come, change and go in network
 * namespaces of the test's own. Each scenario runs in a child in a new namespace.
 */
#include "host_test.h"

#include <arpa/inet.h>
#include <endian.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>

#include "host/address.h"
#include "host/device.h"
#include "host/gid.h"
#include "host/libc.h"

static const struct {
	uint32_t netdev;
	enum ibv_mtu mtu;
} mtus[] = {
	{0, IBV_MTU_256},     {68, IBV_MTU_256},     {576, IBV_MTU_256},
	{607, IBV_MTU_256},   {608, IBV_MTU_512},    {1119, IBV_MTU_512},
	{1120, IBV_MTU_1024}, {1280, IBV_MTU_1024},  {1500, IBV_MTU_1024},
	{2143, IBV_MTU_1024}, {2144, IBV_MTU_2048},  {4096, IBV_MTU_2048},
	{4191, IBV_MTU_2048}, {4192, IBV_MTU_4096},  {4200, IBV_MTU_4096},
	{9000, IBV_MTU_4096}, {65536, IBV_MTU_4096}, {UINT32_MAX, IBV_MTU_4096},
};

static void test_mtu(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(mtus); i++)
		assert_int_equal(urxe_mtu_of_netdev(mtus[i].netdev), mtus[i].mtu);
	assert_int_equal(urxe_mtu_bytes(IBV_MTU_256), 256);
	assert_int_equal(urxe_mtu_bytes(IBV_MTU_1024), 1024);
	assert_int_equal(urxe_mtu_bytes(IBV_MTU_4096), 4096);
}

static void test_guid(void **state)
{
	const uint8_t global[6] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55};
	const uint8_t local[6] = {0x02, 0xfc, 0x00, 0xff, 0xfe, 0x01};
	uint64_t guid = urxe_guid_of_host("lo");

	assert_int_equal(be64toh(urxe_guid_of_mac(global)), 0x021122fffe334455);
	assert_int_equal(be64toh(urxe_guid_of_mac(local)), 0x00fc00fffefffe01);
	assert_int_equal(guid, urxe_guid_of_host("lo"));
	assert_int_not_equal(guid, urxe_guid_of_host("tun0"));
	assert_int_equal(be64toh(guid) >> 56 & 3, 2);
}

/* Steps of one GID table: the addresses that the netdev (ifindex 7) has ('?':
 * tentative), and the table after. */
static const struct {
	const char *addrs[8];
	const char *table;
	bool changed;
} gid_steps[] = {
	{{NULL}, "", false},
	{{"2001:db8::1", "::ffff:10.0.0.1", "fe80::1"}, "fe80::1 10.0.0.1 2001:db8::1", true},
	{{"fe80::1", "2001:db8::1", "::ffff:10.0.0.1"}, "fe80::1 10.0.0.1 2001:db8::1", false},
	{{"fe80::1", "2001:db8::1"}, "fe80::1 - 2001:db8::1", true},
	{{"fe80::1", "2001:db8::1", "2001:db8::2", "fe80::2"},
	 "fe80::1 fe80::2 2001:db8::1 2001:db8::2",
	 true},
	{{"2001:db8::2", "::ffff:10.0.0.2", "::ffff:10.0.0.3"},
	 "10.0.0.2 10.0.0.3 - 2001:db8::2",
	 true},
	/* The same address twice (with two prefix lengths) is one GID. */
	{{"2001:db8::2", "2001:db8::2", "::1"}, "::1 - - 2001:db8::2", true},
	{{NULL}, "- - - -", true},
	{{"::ffff:127.0.0.1", "::1"}, "127.0.0.1 ::1 - -", true},
	{{NULL}, "- - - -", true},
	/* Where the link-local address is to come the others have the indices that they have later. */
	{{"?fe80::1", "?2001:db8::1"}, "- - - -", false},
	{{"::ffff:10.0.0.1", "?fe80::1", "?2001:db8::1", "2001:db8::2"},
	 "10.0.0.1 10.0.0.1 2001:db8::2 -",
	 true},
	{{"::ffff:10.0.0.1", "?fe80::1", "2001:db8::1", "2001:db8::2"},
	 "10.0.0.1 10.0.0.1 2001:db8::2 2001:db8::1",
	 true},
	{{"::ffff:10.0.0.1", "fe80::1", "2001:db8::2"},
	 "10.0.0.1 10.0.0.1 2001:db8::2 fe80::1",
	 true},
	{{"::ffff:10.0.0.1", "?fe80::1"}, "10.0.0.1 10.0.0.1 - -", true},
	{{"2001:db8::2", "?fe80::1"}, "2001:db8::2 2001:db8::2 - -", true},
	{{"fe80::1"}, "fe80::1 - - -", true},
};

static const char *describe(const union ibv_gid *gids, unsigned len)
{
	static const union ibv_gid none;
	static char text[8192];
	size_t n = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < len; i++) {
		char addr[64];

		if (!memcmp(&gids[i], &none, sizeof(none)))
			strcpy(addr, "-");
		else if (IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)&gids[i]))
			inet_ntop(AF_INET, &gids[i].raw[12], addr, sizeof(addr));
		else
			inet_ntop(AF_INET6, &gids[i], addr, sizeof(addr));
		n += snprintf(text + n, sizeof(text) - n, "%s%s", i ? " " : "", addr);
	}
	return text;
}

static void test_gid_order(void **state)
{
	union ibv_gid gids[URXE_MAX_GIDS] = {0};
	unsigned len = 0;

	for (size_t i = 0; i < ARRAY_LEN(gid_steps); i++) {
		struct urxe_netaddr addrs[10] = {0};
		unsigned n = 0;

		/* Another netdev's address in front, which must not count. */
		addrs[n].ifindex = 8;
		inet_pton(AF_INET6, "fe80::8", &addrs[n++].addr);
		for (const char *const *a = gid_steps[i].addrs; *a; a++) {
			addrs[n].ifindex = 7;
			addrs[n].tentative = **a == '?';
			assert_int_equal(
				inet_pton(AF_INET6, *a + addrs[n].tentative, &addrs[n].addr), 1);
			n++;
		}
		assert_int_equal(urxe_gid_table_update(gids, &len, addrs, n, 7),
				 gid_steps[i].changed);
		assert_string_equal(describe(gids, len), gid_steps[i].table);
	}
}

static void test_gid_overflow(void **state)
{
	struct urxe_netaddr addrs[URXE_MAX_GIDS + 1] = {0};
	union ibv_gid gids[URXE_MAX_GIDS] = {0}, first;
	unsigned len = 0;

	for (unsigned i = 0; i < ARRAY_LEN(addrs); i++) {
		addrs[i].ifindex = 1;
		addrs[i].addr.s6_addr[0] = 0x20;
		addrs[i].addr.s6_addr[15] = i;
		addrs[i].addr.s6_addr[14] = 1;
	}
	assert_true(urxe_gid_table_update(gids, &len, addrs, URXE_MAX_GIDS + 1, 1));
	assert_int_equal(len, URXE_MAX_GIDS);
	first = gids[0];
	/* One goes, and the one that found no room takes its slot. */
	assert_true(urxe_gid_table_update(gids, &len, addrs + 1, URXE_MAX_GIDS, 1));
	assert_int_equal(len, URXE_MAX_GIDS);
	assert_memory_not_equal(&gids[0], &first, sizeof(first));
	assert_memory_equal(&gids[0], &addrs[URXE_MAX_GIDS].addr, sizeof(first));
}

/* The devices as text: name=netdev in order. */
static const char *list(void)
{
	struct urxe_device *devs[URXE_MAX_DEVICES];
	static char text[1024];
	int n = urxe_devices(devs, URXE_MAX_DEVICES);
	size_t len = 0;

	CHECK(n >= 0);
	text[0] = '\0';
	for (int i = 0; i < n; i++) {
		struct urxe_port *port = devs[i]->ports;

		CHECK(urxe_device_by_name(devs[i]->name) == devs[i]);
		CHECK(urxe_port(port->index) == port && port->dev == devs[i]);
		CHECK(urxe_port_is_gone(port) == !port->netdev.ifindex);
		CHECK(!port->netdev.ifindex || urxe_port_by_ifindex(port->netdev.ifindex) == port);
		len += snprintf(text + len, sizeof(text) - len, "%s%s=%s", i ? " " : "",
				devs[i]->name, port->netdev.name);
	}
	return text;
}

#define CHECK_TEXT(text, expect)                                                                  \
	do {                                                                                      \
		const char *t__ = text;                                                           \
		if (strcmp(t__, expect)) {                                                        \
			fprintf(stderr, "# %s:%d: \"%s\", not \"%s\"\n", __FILE__, __LINE__, t__, \
				expect);                                                          \
			_exit(1);                                                                 \
		}                                                                                 \
	} while (0)

static const char *gids_of(const struct urxe_device *dev)
{
	return describe(dev->ports->gids, dev->ports->gid_len);
}

/* Addresses of IPv6 that the kernel makes by itself would be in every table. */
static void new_namespace(void)
{
	CHECK(unshare(CLONE_NEWNET) == 0);
	unsetenv("URXE_DEVICES");
	setenv("URXE_CONFIG", "/dev/null", 1);
}

/* One end of a veth pair; the other end is up and has no address. */
static void make_netdev(const char *name)
{
	host_test_sh("ip link add %s type veth peer name %s-peer", name, name);
	host_test_sh("ip link set %s addrgenmode none; ip link set %s-peer addrgenmode none up",
		     name, name);
}

static void devices_in_order(void *arg)
{
	new_namespace();
	CHECK_TEXT(list(), "");
	make_netdev("d0");
	make_netdev("d1");
	make_netdev("d2");
	make_netdev("d3");
	host_test_sh("ip addr add 10.0.0.1/24 dev d1");
	host_test_sh("ip addr add 10.0.3.1/24 dev d3");
	host_test_sh("ip addr add 10.0.2.1/24 dev d2");
	host_test_sh("ip link set lo up; ip link set d0 up; ip link set d2 up; ip link set d3 up");
	/* d0 has no address, d1 is down. */
	CHECK_TEXT(list(), "urxe0=d2 urxe1=d3");
	CHECK_TEXT(gids_of(urxe_device_by_name("urxe0")), "10.0.2.1");
	/* Late ones come last: names and order of the others stay. */
	host_test_sh("ip link set d1 up");
	CHECK_TEXT(list(), "urxe0=d2 urxe1=d3 urxe2=d1");
	/* A netdev that goes down or loses its addresses keeps its device. */
	host_test_sh("ip link set d2 down; ip addr flush dev d3");
	CHECK_TEXT(list(), "urxe0=d2 urxe1=d3 urxe2=d1");
	CHECK(urxe_device_by_name("urxe0")->ports->state == IBV_PORT_DOWN);
	CHECK(urxe_device_by_name("nobody") == NULL);
	CHECK(urxe_port_by_ifindex(0) == NULL);
	CHECK(urxe_port_by_ifindex(9999) == NULL);
}

/* lo is for those who have nothing else that can be sent by. */
static void lo_alone(void *arg)
{
	struct urxe_device *dev;

	new_namespace();
	make_netdev("d0");
	host_test_sh("ip link set lo up; ip addr add 10.0.0.1/24 dev d0; ip link set d0 up");
	CHECK_TEXT(list(), "urxe0=d0");
	host_test_sh("ip addr flush dev d0");
	CHECK_TEXT(list(), "urxe0=d0 urxe1=lo");
	dev = urxe_device_by_name("urxe1");
	CHECK_TEXT(gids_of(dev), "127.0.0.1 ::1");
	CHECK(dev->ports->state == IBV_PORT_ACTIVE && dev->ports->active_mtu == IBV_MTU_4096);
	CHECK(dev->guid == urxe_guid_of_host("lo"));
	CHECK(dev->ports->speed_mbps == 10000);
	/* It stays, as all devices do. */
	host_test_sh("ip addr add 10.0.0.1/24 dev d0");
	CHECK_TEXT(list(), "urxe0=d0 urxe1=lo");
}

static void devices_as_named(void *arg)
{
	const struct urxe_device *dev;

	new_namespace();
	make_netdev("d0");
	host_test_sh("ip link set d0 address 02:00:00:00:00:05");
	host_test_sh("ip link set lo up");
	setenv("URXE_DEVICES", "lo-first=lo,late=d9,urxe7=d0", 1);
	/* Configured ones need neither address nor be up; one whose netdev is missing waits. */
	CHECK_TEXT(list(), "lo-first=lo urxe7=d0");
	dev = urxe_device_by_name("urxe7");
	CHECK(dev->ports->state == IBV_PORT_DOWN);
	CHECK(dev->guid == htobe64(0x000000fffe000005));
	CHECK(dev->index == 2);
	make_netdev("d9");
	CHECK_TEXT(list(), "lo-first=lo urxe7=d0 late=d9");
	CHECK(urxe_device_by_name("late")->index == 1);
}

static void devices_misnamed(void *arg)
{
	struct urxe_device *devs[1];

	new_namespace();
	host_test_sh("ip link set lo up");
	setenv("URXE_DEVICES", "urxe0", 1);
	CHECK(freopen("/dev/null", "w", stderr));
	if (urxe_devices(devs, 1) != -EINVAL || urxe_devices(devs, 1) != -EINVAL)
		_exit(1);
}

static void port_attributes(void *arg)
{
	struct urxe_device *dev;

	new_namespace();
	host_test_sh("ip link add v0 mtu 9000 address 02:00:00:00:00:01 type veth "
		     "peer name v1 address 02:00:00:00:00:02");
	make_netdev("w0");
	host_test_sh("ip link set w0 address 02:00:00:00:00:01");
	host_test_sh("for d in v0 v1 w0; do ip link set $d addrgenmode none up; done");
	host_test_sh("ip addr add 10.0.0.1/24 dev v0; ip addr add 10.0.5.1/24 dev w0");
	host_test_sh("ip link set lo up");
	CHECK_TEXT(list(), "urxe0=v0 urxe1=w0");

	dev = urxe_device_by_name("urxe0");
	CHECK(dev->ports->state == IBV_PORT_ACTIVE);
	CHECK(dev->ports->netdev.mtu == 9000 && dev->ports->active_mtu == IBV_MTU_4096);
	CHECK(dev->ports->speed_mbps == 10000);
	CHECK(dev->guid == htobe64(0x000000fffe000001));
	CHECK(dev->ports->netdev.mac[5] == 1);
	/* Netdevs may share a MAC (a VLAN has that of the netdev below it), devices no GUID. */
	CHECK(urxe_device_by_name("urxe1")->guid != dev->guid);
	CHECK(urxe_device_by_name("urxe1")->ports->netdev.mac[5] == 1);

	host_test_sh("ip link set v1 down; ip link set v0 mtu 1500");
	list();
	dev = urxe_device_by_name("urxe0");
	/* Up, but without a carrier. */
	CHECK(dev->ports->state == IBV_PORT_DOWN && dev->ports->active_mtu == IBV_MTU_1024);
}

/* Events as text, in order. */
static char events[1024];

static void note_event(struct urxe_port *port, enum ibv_event_type type, void *arg)
{
	const char *what = type == IBV_EVENT_PORT_ACTIVE  ? "up"
			   : type == IBV_EVENT_PORT_ERR	  ? "down"
			   : type == IBV_EVENT_GID_CHANGE ? "gids"
							  : "?";
	size_t len = strlen(events);

	CHECK(arg == events);
	/* The lock is not held here. */
	urxe_device_lock();
	urxe_device_unlock();
	snprintf(events + len, sizeof(events) - len, "%s%s:%s", len ? " " : "", port->dev->name,
		 what);
}

/* What the monitor tells: that much within some seconds (the kernel is slow to tell when the
 * machine is busy), and nothing more for some time. */
static const char *news(int fd, const char *expected)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};

	events[0] = '\0';
	while (poll(&pfd, 1, strlen(events) < strlen(expected) ? 5000 : 50) > 0)
		urxe_device_monitor_read(fd, note_event, events);
	return events;
}

#define CHECK_NEWS(fd, expected) CHECK_TEXT(news(fd, expected), expected)

static void monitored(void *arg)
{
	struct urxe_device *dev;
	int fd;

	new_namespace();
	make_netdev("d0");
	host_test_sh("ip addr add 10.0.0.1/24 dev d0; ip link set d0 up");
	CHECK_TEXT(list(), "urxe0=d0");
	dev = urxe_device_by_name("urxe0");
	host_test_sh("ip addr add 10.0.0.2/24 dev d0");
	fd = urxe_device_monitor_open();
	CHECK(fd >= 0);
	/* From before it was opened: known, but no news. */
	CHECK_NEWS(fd, "");
	CHECK_TEXT(gids_of(dev), "10.0.0.1 10.0.0.2");
	urxe_device_monitor_read(fd, note_event, events);
	CHECK_TEXT(events, "");

	host_test_sh("ip addr add 2001:db8::1/64 dev d0 nodad");
	CHECK_NEWS(fd, "urxe0:gids");
	CHECK_TEXT(gids_of(dev), "10.0.0.1 10.0.0.2 2001:db8::1");
	host_test_sh("ip addr del 10.0.0.2/24 dev d0");
	CHECK_NEWS(fd, "urxe0:gids");
	CHECK_TEXT(gids_of(dev), "10.0.0.1 - 2001:db8::1");
	host_test_sh("ip addr add 10.0.0.3/24 dev d0");
	CHECK_NEWS(fd, "urxe0:gids");
	CHECK_TEXT(gids_of(dev), "10.0.0.1 10.0.0.3 2001:db8::1");

	/* IPv6 addresses go with the link, IPv4 ones stay. */
	host_test_sh("ip link set d0 down");
	CHECK_NEWS(fd, "urxe0:down urxe0:gids");
	CHECK(dev->ports->state == IBV_PORT_DOWN);
	CHECK_TEXT(gids_of(dev), "10.0.0.1 10.0.0.3 -");
	host_test_sh("ip link set d0 up mtu 4200");
	CHECK_NEWS(fd, "urxe0:up");
	CHECK(dev->ports->state == IBV_PORT_ACTIVE && dev->ports->active_mtu == IBV_MTU_4096);

	/* Seen first by somebody's ibv_get_device_list(): the news is told all the same. */
	host_test_sh("ip addr del 10.0.0.3/24 dev d0");
	CHECK_TEXT(list(), "urxe0=d0");
	CHECK_TEXT(gids_of(dev), "10.0.0.1 - -");
	CHECK_NEWS(fd, "urxe0:gids");

	/* Another Ethernet address behind the same GIDs. */
	host_test_sh("ip link set d0 address 02:00:00:00:00:09");
	CHECK_NEWS(fd, "urxe0:gids");
	CHECK(dev->ports->netdev.mac[5] == 9);

	/* Another netdev's affairs. */
	make_netdev("d1");
	host_test_sh("ip addr add 10.0.1.1/24 dev d1; ip link set d1 up");
	CHECK_NEWS(fd, "");

	/* A new name for the netdev; and more news than the socket holds. */
	host_test_sh("ip link set d0 name e0 2>/dev/null || "
		     "(ip link set d0 down; ip link set d0 name e0; ip link set e0 up)");
	news(fd, "");
	CHECK_TEXT(list(), "urxe0=e0 urxe1=d1");
	host_test_sh("for i in $(seq 200); do echo addr add 10.1.0.$i/32 dev e0; "
		     "echo addr del 10.1.0.$i/32 dev e0; done | ip -b -");
	host_test_sh("for j in 1 2 3 4 5 6; do for i in $(seq 250); do "
		     "echo link set d1 mtu $((1000+i)); done; done | ip -b -; "
		     "ip addr add 10.9.9.9/32 dev e0");
	CHECK_NEWS(fd, "urxe0:gids");
	CHECK_TEXT(gids_of(dev), "10.0.0.1 10.9.9.9 -");
	urxe_device_monitor_close(fd);
}

static void gone_and_back(void *arg)
{
	struct urxe_device *dev;
	unsigned old;
	int fd;

	new_namespace();
	make_netdev("d0");
	host_test_sh("ip addr add 10.0.0.1/24 dev d0; ip link set d0 up");
	CHECK_TEXT(list(), "urxe0=d0");
	dev = urxe_device_by_name("urxe0");
	old = dev->ports->netdev.ifindex;
	fd = urxe_device_monitor_open();
	CHECK(fd >= 0);

	host_test_sh("ip link del d0");
	CHECK_NEWS(fd, "urxe0:down urxe0:gids");
	CHECK(!dev->ports->netdev.ifindex && dev->ports->state == IBV_PORT_DOWN);
	CHECK_TEXT(gids_of(dev), "-");
	CHECK(urxe_port_by_ifindex(old) == NULL);
	CHECK_TEXT(list(), "urxe0=d0");

	make_netdev("x");
	make_netdev("d0");
	host_test_sh("ip link set d0 up");
	CHECK_NEWS(fd, "urxe0:up");
	host_test_sh("ip addr add 10.0.0.2/24 dev d0");
	CHECK_NEWS(fd, "urxe0:gids");
	CHECK(dev->ports->netdev.ifindex && dev->ports->netdev.ifindex != old);
	CHECK(urxe_port_by_ifindex(dev->ports->netdev.ifindex) == dev->ports);
	CHECK_TEXT(gids_of(dev), "10.0.0.2");
	CHECK_TEXT(list(), "urxe0=d0");
	urxe_device_monitor_close(fd);
}

/* Duplicate address detection: while it runs and after it has failed there is no GID. */
static void tentative(void *arg)
{
	struct urxe_device *dev;
	uint64_t end;
	int fd;

	new_namespace();
	host_test_sh("ip link add v0 type veth peer name v1");
	host_test_sh("for d in v0 v1; do ip link set $d addrgenmode none up; done");
	host_test_sh("ip addr add 10.0.0.1/24 dev v0");
	CHECK_TEXT(list(), "urxe0=v0");
	dev = urxe_device_by_name("urxe0");
	fd = urxe_device_monitor_open();
	host_test_sh("ip addr add 2001:db8::1/64 dev v0");
	host_test_sh("ip -6 addr show dev v0 | grep -q tentative");
	CHECK_TEXT(list(), "urxe0=v0");
	CHECK_TEXT(gids_of(dev), "10.0.0.1");
	end = host_test_now_ms() + 10000;
	while (!*news(fd, "") && host_test_now_ms() < end)
		;
	CHECK_TEXT(events, "urxe0:gids");
	CHECK_TEXT(gids_of(dev), "10.0.0.1 2001:db8::1");

	host_test_sh("ip addr add 2001:db8::2/64 dev v1 nodad");
	host_test_sh("ip addr add 2001:db8::2/64 dev v0");
	end = host_test_now_ms() + 10000;
	while (system("ip -6 addr show dev v0 | grep -q dadfailed") && host_test_now_ms() < end)
		usleep(50000);
	host_test_sh("ip -6 addr show dev v0 | grep -q dadfailed");
	CHECK_NEWS(fd, "");
	CHECK_TEXT(gids_of(dev), "10.0.0.1 2001:db8::1");
	urxe_device_monitor_close(fd);
}

static bool has_link_local(const struct urxe_port *port)
{
	for (unsigned i = 0; i < port->gid_len; i++)
		if (IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)&port->gids[i]))
			return true;
	return false;
}

/* It comes a second or two after the netdev has come up, and changes no index. */
static void link_local_to_come(void *arg)
{
	const union ibv_gid *gids;
	struct urxe_device *dev;
	uint64_t end;
	int fd;

	new_namespace();
	host_test_sh("ip link add v0 type veth peer name v1");
	host_test_sh("ip addr add 10.0.0.1/24 dev v0");
	host_test_sh("for d in v0 v1; do ip link set $d up; done");
	CHECK_TEXT(list(), "urxe0=v0");
	dev = urxe_device_by_name("urxe0");
	gids = dev->ports->gids;
	CHECK(!urxe_gid_is_empty(&gids[0]));
	CHECK(urxe_is_ipv4((const struct in6_addr *)&gids[1]));
	fd = urxe_device_monitor_open();
	end = host_test_now_ms() + 10000;
	while (!has_link_local(dev->ports) && host_test_now_ms() < end)
		news(fd, "");
	CHECK(has_link_local(dev->ports));
	CHECK(urxe_is_ipv4((const struct in6_addr *)&gids[1]));
	urxe_device_monitor_close(fd);
}

static void link_local_switched_off(void *arg)
{
	new_namespace();
	host_test_sh("ip link add v0 type veth peer name v1");
	host_test_sh("echo 1 >/proc/sys/net/ipv6/conf/v0/disable_ipv6");
	host_test_sh("ip addr add 10.0.0.1/24 dev v0");
	host_test_sh("for d in v0 v1; do ip link set $d up; done");
	CHECK_TEXT(list(), "urxe0=v0");
	CHECK_TEXT(gids_of(urxe_device_by_name("urxe0")), "10.0.0.1");
}

/* On a point-to-point link the peer's address is not ours. */
static void point_to_point(void *arg)
{
	new_namespace();
	make_netdev("d0");
	host_test_sh("ip addr add 10.0.0.1 peer 10.0.0.2/32 dev d0; ip link set d0 up");
	host_test_sh("ip addr add 2001:db8::1 peer 2001:db8::2/128 dev d0 nodad");
	CHECK_TEXT(list(), "urxe0=d0");
	CHECK_TEXT(gids_of(urxe_device_by_name("urxe0")), "10.0.0.1 2001:db8::1");
}

static void many_netdevs(void *arg)
{
	struct urxe_device *devs[URXE_MAX_DEVICES + 1];

	new_namespace();
	host_test_sh("for i in $(seq 0 39); do echo link add d$i type veth peer name p$i; "
		     "echo addr add 10.0.$i.1/24 dev d$i; echo link set d$i up; done | ip -b -");
	CHECK(urxe_devices(devs, 2) == 2);
	CHECK(!strcmp(devs[1]->ports->netdev.name, "d1"));
	CHECK(urxe_devices(devs, URXE_MAX_DEVICES + 1) == URXE_MAX_DEVICES);
	CHECK(!strcmp(devs[URXE_MAX_DEVICES - 1]->ports->netdev.name, "d31"));
	CHECK(devs[URXE_MAX_DEVICES - 1]->index == URXE_MAX_DEVICES - 1);
}

static void cheap(void *arg)
{
	struct urxe_device *devs[URXE_MAX_DEVICES];
	long best = 1000000000;

	new_namespace();
	make_netdev("d0");
	host_test_sh("ip link set lo up; ip addr add 10.0.0.1/24 dev d0; ip link set d0 up");
	for (int i = 0; i < 50; i++) {
		struct timespec a, b;
		long ns;

		clock_gettime(CLOCK_MONOTONIC, &a);
		CHECK(urxe_devices(devs, URXE_MAX_DEVICES) == 1);
		clock_gettime(CLOCK_MONOTONIC, &b);
		ns = (b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec;
		if (ns < best)
			best = ns;
	}
	CHECK(best < 1000000 || HOST_TEST_SANITIZED);
}

static int stop;

static void *list_forever(void *arg)
{
	struct urxe_device *devs[URXE_MAX_DEVICES];

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		CHECK(urxe_devices(devs, URXE_MAX_DEVICES) == 1);
	return NULL;
}

/* A child of a program with threads finds no lock taken by a thread that it does not have. */
static void fork_among_threads(void *arg)
{
	struct urxe_device *devs[URXE_MAX_DEVICES];
	pthread_t threads[2];

	new_namespace();
	host_test_sh("ip link set lo up");
	CHECK_TEXT(list(), "urxe0=lo");
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&threads[i], NULL, list_forever, NULL));
	for (int i = 0; i < 100; i++) {
		pid_t pid = fork();
		int status;

		if (!pid) {
			alarm(10);
			_exit(urxe_devices(devs, URXE_MAX_DEVICES) != 1);
		}
		CHECK(waitpid(pid, &status, 0) == pid && !status);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

static bool have_namespaces;

#define IN_NAMESPACE(scenario)                      \
	static void test_##scenario(void **state)   \
	{                                           \
		if (!have_namespaces)               \
			skip();                     \
		host_test_in_child(scenario, NULL); \
	}

IN_NAMESPACE(devices_in_order)
IN_NAMESPACE(lo_alone)
IN_NAMESPACE(devices_as_named)
IN_NAMESPACE(devices_misnamed)
IN_NAMESPACE(port_attributes)
IN_NAMESPACE(monitored)
IN_NAMESPACE(gone_and_back)
IN_NAMESPACE(tentative)
IN_NAMESPACE(link_local_to_come)
IN_NAMESPACE(link_local_switched_off)
IN_NAMESPACE(point_to_point)
IN_NAMESPACE(many_netdevs)
IN_NAMESPACE(cheap)
IN_NAMESPACE(fork_among_threads)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mtu),
		cmocka_unit_test(test_guid),
		cmocka_unit_test(test_gid_order),
		cmocka_unit_test(test_gid_overflow),
		cmocka_unit_test(test_devices_in_order),
		cmocka_unit_test(test_lo_alone),
		cmocka_unit_test(test_devices_as_named),
		cmocka_unit_test(test_devices_misnamed),
		cmocka_unit_test(test_port_attributes),
		cmocka_unit_test(test_monitored),
		cmocka_unit_test(test_gone_and_back),
		cmocka_unit_test(test_tentative),
		cmocka_unit_test(test_link_local_to_come),
		cmocka_unit_test(test_link_local_switched_off),
		cmocka_unit_test(test_point_to_point),
		cmocka_unit_test(test_many_netdevs),
		cmocka_unit_test(test_cheap),
		cmocka_unit_test(test_fork_among_threads),
	};

	have_namespaces = host_test_unshare(argv, "-Urn");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
