// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Names of NICs (device.h). */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <rdma/rdma_cma.h>

#include "vipl/device.h"

#define DEVICES_MAX 64

bool vipl_is_v4(const uint8_t address[VIPL_HOST_LENGTH])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(address, mapped, sizeof(mapped));
}

static bool is_link_local(const uint8_t address[VIPL_HOST_LENGTH])
{
	return address[0] == 0xfe && (address[1] & 0xc0) == 0x80;
}

socklen_t vipl_sockaddr(const uint8_t address[VIPL_HOST_LENGTH], uint32_t scope, uint16_t port,
			struct sockaddr_storage *to)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)to;
	struct sockaddr_in *in = (struct sockaddr_in *)to;

	memset(to, 0, sizeof(*to));
	if (vipl_is_v4(address)) {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		memcpy(&in->sin_addr, address + 12, 4);
		return sizeof(*in);
	}
	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(port);
	memcpy(&in6->sin6_addr, address, VIPL_HOST_LENGTH);
	if (is_link_local(address))
		in6->sin6_scope_id = scope;
	return sizeof(*in6);
}

void vipl_sockaddr_read(const struct sockaddr *from, uint8_t address[VIPL_HOST_LENGTH])
{
	memset(address, 0, VIPL_HOST_LENGTH);
	if (from->sa_family == AF_INET) {
		address[10] = address[11] = 0xff;
		memcpy(address + 12, &((const struct sockaddr_in *)from)->sin_addr, 4);
	} else if (from->sa_family == AF_INET6) {
		memcpy(address, &((const struct sockaddr_in6 *)from)->sin6_addr, VIPL_HOST_LENGTH);
	}
}

/* Whether an address is one of a verbs device, and of which. */
static bool device_of(struct rdma_event_channel *channel, const struct sockaddr *address,
		      struct vipl_device *device)
{
	struct rdma_cm_id *id;
	bool found = false;

	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		return false;
	if (!rdma_bind_addr(id, (struct sockaddr *)address) && id->verbs) {
		snprintf(device->name, sizeof(device->name), "%s",
			 ibv_get_device_name(id->verbs->device));
		device->port = id->port_num;
		found = true;
	}
	rdma_destroy_id(id);
	return found;
}

/* Which of an interface's addresses is taken first. */
static int rank(const struct vipl_device *device)
{
	return vipl_is_v4(device->address) ? 0 : is_link_local(device->address) ? 2 : 1;
}

/* One device for each interface, the loopback one last. */
static unsigned add(struct vipl_device *devices, unsigned count, const struct vipl_device *device)
{
	for (unsigned i = 0; i < count; i++) {
		if (strcmp(devices[i].interface, device->interface) ||
		    strcmp(devices[i].name, device->name))
			continue;
		if (rank(device) < rank(&devices[i]))
			devices[i] = *device;
		return count;
	}
	if (count == DEVICES_MAX)
		return count;
	devices[count] = *device;
	return count + 1;
}

static unsigned list(struct vipl_device devices[DEVICES_MAX])
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct ifaddrs *addresses = NULL;
	unsigned count = 0;

	if (!channel)
		return 0;
	if (getifaddrs(&addresses))
		addresses = NULL;
	for (int loopback = 0; loopback < 2; loopback++) {
		for (struct ifaddrs *a = addresses; a; a = a->ifa_next) {
			struct vipl_device device = {.scope = if_nametoindex(a->ifa_name)};

			if (!a->ifa_addr || !(a->ifa_flags & IFF_UP) ||
			    (a->ifa_flags & IFF_LOOPBACK ? 1 : 0) != loopback ||
			    (a->ifa_addr->sa_family != AF_INET &&
			     a->ifa_addr->sa_family != AF_INET6))
				continue;
			snprintf(device.interface, sizeof(device.interface), "%s", a->ifa_name);
			vipl_sockaddr_read(a->ifa_addr, device.address);
			if (device_of(channel, a->ifa_addr, &device))
				count = add(devices, count, &device);
		}
	}
	freeifaddrs(addresses);
	rdma_destroy_event_channel(channel);
	return count;
}

int vipl_device_parse(const char *from, char name[64], unsigned *port)
{
	static const char *const words[] = {"vinic", "nic", "clanvi", "clan", "via", "vi"};
	const char *slash = strrchr(from, '/');
	const char *base = slash ? slash + 1 : from;
	const char *digits = base + strcspn(base, "0123456789");
	char *colon;

	for (unsigned i = 0; i < sizeof(words) / sizeof(*words); i++) {
		if (strlen(words[i]) == (size_t)(digits - base) &&
		    !strncasecmp(base, words[i], digits - base) &&
		    strspn(digits, "0123456789") == strlen(digits))
			return strlen(digits) > 4 ? DEVICES_MAX : atoi(digits);
	}
	if (base != from && !strncmp(base, "via_", 4))
		base += 4;
	snprintf(name, 64, "%s", base);
	*port = 0;
	colon = strrchr(name, ':');
	if (colon && isdigit((unsigned char)colon[1])) {
		*port = atoi(colon + 1);
		*colon = 0;
	}
	return -1;
}

static int choose(const char *wanted, const struct vipl_device *devices, unsigned count)
{
	char name[64];
	unsigned port;
	int number;

	/* An interface may be called nic0, or have a colon in its name. */
	for (unsigned i = 0; i < count; i++) {
		if (!strcmp(devices[i].name, wanted) || !strcmp(devices[i].interface, wanted))
			return i;
	}
	number = vipl_device_parse(wanted, name, &port);
	if (number >= 0)
		return (unsigned)number < count ? number : -ENODEV;
	for (unsigned i = 0; i < count; i++) {
		if (!strcmp(devices[i].interface, name) ||
		    (!strcmp(devices[i].name, name) && (!port || port == devices[i].port)))
			return i;
	}
	return -ENODEV;
}

int vipl_device_find(const char *name, struct vipl_device *device)
{
	struct vipl_device devices[DEVICES_MAX];
	const char *variable = getenv("VIPL_NIC");
	unsigned count = list(devices);
	int index;

	if (variable && *variable)
		name = variable;
	index = choose(name, devices, count);
	if (index >= 0) {
		*device = devices[index];
		return 0;
	}
	fprintf(stderr, "libvipl: there is no NIC %.64s; set VIPL_NIC to one of:", name);
	for (unsigned i = 0; i < count; i++)
		fprintf(stderr, " %s (%s)", devices[i].name, devices[i].interface);
	fprintf(stderr, count ? "\n" : " none: no RDMA device has an address\n");
	return index;
}
