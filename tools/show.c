/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * urxe devices, counters, listeners and fault: they ask the host floor, as the library does in a
 * program, and see the same devices if they are run with the same configuration. One thread.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/rdma_user_cm.h>

#include "host/device.h"
#include "host/libc.h"
#include "host/mad_agent.h"
#include "host/segment.h"
#include "host/segment_ports.h"
#include "tools/urxe.h"
#include "wire/fault.h"

/* The devices, or -1 after a complaint (the host floor has said what is wrong in a configuration).
 * */
static int find_devices(struct urxe_device *devs[URXE_MAX_DEVICES])
{
	int n;

	urxe_libc_init();
	n = urxe_devices(devs, URXE_MAX_DEVICES);
	if (n < 0 && n != -EINVAL)
		urxe_complain("cannot ask for the network devices: %s", strerror(-n));
	if (!n)
		urxe_complain("there is no device, as no netdev is up and has an IP address; "
			      "`ip link set lo up` is enough for one");
	return n > 0 ? n : -1;
}

static struct urxe_device *find_device(const char *name)
{
	struct urxe_device *devs[URXE_MAX_DEVICES];
	int i, n = find_devices(devs);

	for (i = 0; i < n; i++)
		if (!strcmp(devs[i]->name, name))
			return devs[i];
	if (n > 0)
		urxe_complain("there is no device %s; `urxe devices` lists those there are", name);
	return NULL;
}

static void print_guid(uint64_t guid)
{
	const uint8_t *b = (const uint8_t *)&guid;

	printf("%02x%02x:%02x%02x:%02x%02x:%02x%02x", b[0], b[1], b[2], b[3], b[4], b[5], b[6],
	       b[7]);
}

static void print_gids(const struct urxe_port *port)
{
	static const union ibv_gid unused;
	char text[INET6_ADDRSTRLEN];
	unsigned i;

	for (i = 0; i < port->gid_len && i < URXE_MAX_GIDS; i++) {
		if (!memcmp(&port->gids[i], &unused, sizeof(unused)))
			continue;
		inet_ntop(AF_INET6, port->gids[i].raw, text, sizeof(text));
		printf("  GID %-3u %s\n", i, text);
	}
}

static void print_device(const struct urxe_device *dev)
{
	const struct urxe_port *port = dev->ports;

	printf("%s  netdev %s  %s  MTU %" PRIu32 " (netdev %" PRIu32 ")  %" PRIu32 " Mb/s  GUID ",
	       dev->name, port->netdev.name, port->state == IBV_PORT_ACTIVE ? "ACTIVE" : "DOWN",
	       urxe_mtu_bytes(port->active_mtu), port->netdev.mtu, port->speed_mbps);
	print_guid(dev->guid);
	putchar('\n');
	print_gids(port);
}

int urxe_cmd_devices(int argc, char **argv)
{
	struct urxe_device *devs[URXE_MAX_DEVICES];
	int i, n;

	if (argc > 1) {
		urxe_complain("devices takes no arguments, see urxe --help");
		return URXE_EXIT_USAGE;
	}
	n = find_devices(devs);
	if (n < 0)
		return 1;
	urxe_device_lock();
	for (i = 0; i < n; i++)
		print_device(devs[i]);
	urxe_device_unlock();
	return 0;
}

/* A device's counters; without a segment nobody has counted anything yet. */
static void print_counters(struct urxe_segment *seg, const struct urxe_device *dev)
{
	uint64_t sum[URXE_NUM_COUNTERS] = {0};
	unsigned i;

	if (seg)
		urxe_segment_counters_sum(seg, dev->ports->index, sum);
	printf("%s\n", dev->name);
	for (i = 0; i < URXE_NUM_COUNTERS; i++)
		printf("  %-24s %" PRIu64 "\n", urxe_counter_names[i], sum[i]);
}

int urxe_cmd_counters(int argc, char **argv)
{
	struct urxe_device *devs[URXE_MAX_DEVICES];
	struct urxe_segment *seg = NULL;
	int i, n, err;

	if (argc > 2) {
		urxe_complain("counters takes at most one device: urxe counters [DEVICE]");
		return URXE_EXIT_USAGE;
	}
	n = 1;
	if (argc == 2)
		devs[0] = find_device(argv[1]);
	else
		n = find_devices(devs);
	if (n < 0 || !devs[0])
		return 1;
	err = urxe_segment_view(&seg);
	if (err && err != -ENOENT) {
		urxe_complain("cannot read the segment of this host's processes: %s",
			      strerror(-err));
		return 1;
	}
	for (i = 0; i < n; i++)
		print_counters(err ? NULL : seg, devs[i]);
	return 0;
}

static int compare_holders(const void *a, const void *b)
{
	const struct urxe_port_holder *x = a, *y = b;
	const struct urxe_binding *p = &x->binding, *q = &y->binding;

	if (p->ps != q->ps)
		return p->ps < q->ps ? -1 : 1;
	if (p->port != q->port)
		return p->port < q->port ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return memcmp(&p->addr, &q->addr, sizeof(p->addr));
}

static const char *space_name(uint16_t ps)
{
	switch (ps) {
	case RDMA_PS_TCP: return "TCP";
	case RDMA_PS_UDP: return "UDP";
	case RDMA_PS_IB: return "IB";
	case RDMA_PS_IPOIB: return "IPOIB";
	case URXE_PS_MAD: return "MAD";
	default: return "?";
	}
}

static void print_holder(const struct urxe_port_holder *h)
{
	static const char *const states[] = {
		[URXE_PORT_BOUND] = "BOUND",
		[URXE_PORT_LISTENING] = "LISTEN",
		[URXE_PORT_LINGERING] = "CLOSED",
	};
	char text[INET6_ADDRSTRLEN];

	if (h->binding.ps == URXE_PS_MAD)
		snprintf(text, sizeof(text), "class 0x%02x version %u", h->binding.port >> 8,
			 h->binding.port & 0xff);
	else if (IN6_IS_ADDR_V4MAPPED(&h->binding.addr))
		inet_ntop(AF_INET, &h->binding.addr.s6_addr32[3], text, sizeof(text));
	else
		inet_ntop(AF_INET6, &h->binding.addr, text, sizeof(text));
	printf("%-6s %-7s %5u %7" PRIu32 "  %s\n", space_name(h->binding.ps), states[h->state],
	       h->binding.port, h->pid, text);
}

int urxe_cmd_listeners(int argc, char **argv)
{
	struct urxe_port_holder *holders = NULL;
	struct urxe_segment *seg;
	int n;

	if (argc > 1) {
		urxe_complain("listeners takes no arguments, see urxe --help");
		return URXE_EXIT_USAGE;
	}
	urxe_libc_init();
	n = urxe_segment_view(&seg);
	if (!n)
		n = urxe_segment_port_holders(seg, &holders);
	if (n < 0 && n != -ENOENT) {
		urxe_complain("cannot read the segment of this host's processes: %s", strerror(-n));
		return 1;
	}
	printf("%-6s %-7s %5s %7s  %s\n", "space", "state", "port", "pid", "address");
	if (n > 0)
		qsort(holders, n, sizeof(*holders), compare_holders);
	for (int i = 0; i < n; i++)
		print_holder(&holders[i]);
	free(holders);
	return 0;
}

int urxe_cmd_fault(int argc, char **argv)
{
	struct urxe_device *dev;
	struct urxe_segment *seg;
	struct urxe_fault fault;
	char complaint[256];
	const char *spec;
	int err;

	if (argc != 3) {
		urxe_complain(
			"fault needs a device and what to do: urxe fault urxe0 drop=2%%,seed=7, "
			"or urxe fault urxe0 off");
		return URXE_EXIT_USAGE;
	}
	spec = strcmp(argv[2], "off") ? argv[2] : "";
	if (urxe_fault_parse(spec, &fault, complaint, sizeof(complaint))) {
		urxe_complain("%s", complaint);
		return URXE_EXIT_USAGE;
	}
	dev = find_device(argv[1]);
	if (!dev)
		return 1;
	/* As a member and not as a reader: it makes the segment if no program has done so yet. */
	err = urxe_segment_join(&seg);
	if (!err) {
		err = urxe_segment_fault_set(seg, dev->ports->index, spec);
		urxe_segment_leave(seg);
	}
	if (err)
		urxe_complain("cannot set the faults of %s: %s", dev->name, strerror(-err));
	return err ? 1 : 0;
}
