// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The sysfs view of a process on a host of a virtual fabric: its devices are the host's adapters,
 * under the names urxe0, urxe1, …, and what differs in the contents of their files is read from the
 * fabric's map at the moment of the call. Any thread.
 */
#include <errno.h>
#include <string.h>

#include "host/fabric.h"
#include "host/fabric_device.h"
#include "preload/sysfs_device.h"
#include "preload/umad.h"

void urxe_sysfs_fabric_devices(struct urxe_sysfs_devices *devices)
{
	const struct urxe_fabric_host *host = urxe_fabric_host();
	unsigned umads = 0;

	devices->len = host ? host->num_adapters : 0;
	for (unsigned i = 0; i < devices->len; i++) {
		struct urxe_sysfs_device *d = &devices->at[i];

		d->adapter = d->uverbs = i;
		d->num_ports = fabric_map_node(host->map, host->adapters[i])->num_ports;
		d->first_umad = umads;
		umads += d->num_ports;
		snprintf(d->name, sizeof(d->name), "urxe%u", i);
	}
}

/* Where a node of the view is on the fabric. */
struct place {
	const struct urxe_fabric_host *host;
	const struct fabric_node *hca;
	const struct fabric_port *port;
};

/* False when the host has no adapter of that number any more. */
static bool find(const struct urxe_sysfs_node *node, struct place *at)
{
	at->host = urxe_fabric_host();
	if (!at->host || node->device->adapter >= at->host->num_adapters)
		return false;
	at->hca = fabric_map_node(at->host->map, at->host->adapters[node->device->adapter]);
	if (node->port > at->hca->num_ports)
		return false;
	at->port = fabric_node_port(at->host->map, at->hca, node->port);
	return true;
}

int urxe_sysfs_fabric_port(const struct urxe_sysfs_node *node, struct urxe_port *port)
{
	struct place at;

	if (!find(node, &at))
		return -ENODEV;
	memset(port, 0, sizeof(*port));
	port->kind = &urxe_fabric_port;
	urxe_fabric_port_read(port, at.host->map, at.port);
	if (!urxe_fabric_alive(at.host))
		port->state = IBV_PORT_DOWN;
	return 0;
}

int urxe_sysfs_fabric_open(const struct urxe_sysfs_node *node, int flags)
{
	struct urxe_umad_port of = {.port = node->port, .issm = node->index};
	struct place at;

	if (!find(node, &at))
		return -ENODEV;
	of.node = at.host->adapters[node->device->adapter];
	return urxe_umad_open(&of, flags);
}

int urxe_sysfs_fabric_counter(const struct urxe_sysfs_node *node, uint16_t attribute, unsigned bit,
			      unsigned bits, uint64_t *value)
{
	struct fabric_counters answer;
	const uint8_t *from = answer.mad + PMA_DATA + bit / 8;
	struct place at;
	int ret;

	if (!find(node, &at))
		return -ENODEV;
	ret = urxe_fabric_counters(at.hca->first_port + node->port, attribute, &answer);
	if (ret)
		return ret;
	switch (bits) {
	case 4: *value = bit % 8 ? lo4(*from) : hi4(*from); break;
	case 8: *value = *from; break;
	case 16: *value = get16(from); break;
	case 32: *value = get32(from); break;
	default: *value = get64(from);
	}
	return 0;
}

#define SHOW(name)                                                                                 \
	static ssize_t print_##name(const struct place *at, char *buf, size_t len);                \
	ssize_t urxe_fabric_show_##name(const struct urxe_sysfs_node *node, char *buf, size_t len) \
	{                                                                                          \
		struct place at;                                                                   \
                                                                                                   \
		return find(node, &at) ? print_##name(&at, buf, len) : -ENODEV;                    \
	}                                                                                          \
	static ssize_t print_##name(const struct place *at, char *buf, size_t len)

SHOW(node_guid)
{
	return urxe_sysfs_print_guid(htobe64(at->hca->guid), buf, len);
}

SHOW(system_guid)
{
	return urxe_sysfs_print_guid(htobe64(at->hca->system_guid), buf, len);
}

SHOW(node_desc)
{
	return snprintf(buf, len, "%.*s\n", FABRIC_DESC_LEN, at->hca->desc);
}

SHOW(node_type)
{
	return snprintf(buf, len, at->hca->type == NODE_ROUTER ? "3: router\n" : "1: CA\n");
}

SHOW(hca_type)
{
	return snprintf(buf, len, "MT%u\n", at->hca->device);
}

SHOW(phys_state)
{
	static const char *const names[] = {
		"<unknown>", "Sleep", "Polling", "Disabled", "PortConfigurationTraining", "LinkUp"};
	uint8_t phys = hi4(at->port->info[PI_PHYS]);

	if (phys > PHYS_LINK_UP || !urxe_fabric_alive(at->host))
		phys = PHYS_POLLING;
	return snprintf(buf, len, "%u: %s\n", phys, names[phys]);
}

/* As the kernel's rate_show(): tenths of Gb/s a lane. */
SHOW(rate)
{
	static const struct {
		const char *name;
		unsigned rate;
	} speeds[FABRIC_NUM_SPEEDS] = {{"SDR", 25},  {"DDR", 50},  {"QDR", 100}, {"FDR10", 100},
				       {"FDR", 140}, {"EDR", 250}, {"HDR", 500}, {"NDR", 1000}};
	static const unsigned lanes[] = {1, 4, 8, 12, 2};
	unsigned i = 0, rate, speed = fabric_port_speed(at->port);

	while (i < 4 && !(at->port->info[PI_WIDTH_ACTIVE] & 1u << i))
		i++;
	rate = speeds[speed].rate * lanes[i];
	return snprintf(buf, len, "%u%s Gb/sec (%uX %s)\n", rate / 10, rate % 10 ? ".5" : "",
			lanes[i], speeds[speed].name);
}
