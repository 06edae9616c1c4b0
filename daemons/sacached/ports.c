/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The host's InfiniBand ports, by libibumad, which reads sysfs. Polled at the start and every few
 * seconds, in the loop's thread: a port that appears is opened in the cache, one that disappears is
 * closed.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/umad.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemons/common/log.h"
#include "daemons/sacached/ports.h"

#define LOOK_AGAIN_S 5
#define STATE_ACTIVE 4

struct ports {
	struct sacached *d;
	struct event *timer;
	bool seen[SACACHE_MAX_PORTS];
	char refused[UMAD_MAX_DEVICES *
		     UMAD_CA_MAX_PORTS]; /* a refusal was logged, by device and port */
};

const struct sacached_port *sacached_port_by_gid(const struct sacached *d, const uint8_t gid[16])
{
	for (unsigned i = 0; i < d->nports; i++)
		for (unsigned n = 0; d->ports[i].active && n < d->ports[i].ngids; n++)
			if (!memcmp(d->ports[i].gids[n], gid, 16))
				return &d->ports[i];
	return NULL;
}

const struct sacached_port *sacached_port_by_lid(const struct sacached *d, uint16_t lid)
{
	for (unsigned i = 0; i < d->nports; i++) {
		const struct sacached_port *port = &d->ports[i];

		if (port->active && lid && lid >> port->lmc == port->lid >> port->lmc)
			return port;
	}
	return NULL;
}

const struct sacached_port *sacached_port_by_prefix(const struct sacached *d, const uint8_t *prefix)
{
	for (unsigned i = 0; i < d->nports; i++)
		if (d->ports[i].active && (!prefix || !memcmp(d->ports[i].gids[0], prefix, 8)))
			return &d->ports[i];
	return NULL;
}

const struct sacached_port *sacached_port_by_number(const struct sacached *d, unsigned number)
{
	for (unsigned i = 0; i < d->nports; i++)
		if (d->ports[i].open && d->ports[i].number == number)
			return &d->ports[i];
	return NULL;
}

static bool wanted(const struct sacached_config *config, const char *ca, unsigned portnum)
{
	for (unsigned i = 0; i < config->nports; i++)
		if (!strcmp(config->ports[i].ca, ca) &&
		    (!config->ports[i].portnum || config->ports[i].portnum == portnum))
			return true;
	return !config->nports;
}

static struct sacached_port *find(struct sacached *d, const char *ca, unsigned portnum)
{
	for (unsigned i = 0; i < d->nports; i++)
		if (d->ports[i].open && d->ports[i].portnum == portnum &&
		    !strcmp(d->ports[i].ca, ca))
			return &d->ports[i];
	return NULL;
}

/* The port's GIDs beside its default one, which libibumad does not report. */
static void read_gids(struct sacached_port *port)
{
	for (unsigned i = 1; i < SACACHED_MAX_GIDS; i++) {
		uint8_t *gid = port->gids[port->ngids];
		char path[128], text[64] = "";
		ssize_t got = -1;
		int fd;

		snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%u/gids/%u", port->ca,
			 port->portnum, i);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0) {
			got = read(fd, text, sizeof(text) - 1);
			close(fd);
		}
		if (got <= 0)
			break;
		text[strcspn(text, "\n")] = 0;
		/* An unused entry has the prefix alone, or is zero. */
		if (inet_pton(AF_INET6, text, gid) == 1 && memcmp(gid + 8, "\0\0\0\0\0\0\0", 8))
			port->ngids++;
	}
}

/* Attributes that may change. Numbers in umad_port_t are in host byte order, except the two of
 * the GID. */
static void read_port(struct sacached_port *port, const umad_port_t *attr)
{
	bool active = attr->state == STATE_ACTIVE;

	if (port->active != active || port->lid != attr->base_lid || port->sm_lid != attr->sm_lid)
		log_info("%s:%u is %s: LID %u, SM at LID %u", port->ca, port->portnum,
			 active ? "active" : "not active", attr->base_lid, attr->sm_lid);
	port->active = active;
	port->lid = attr->base_lid;
	port->lmc = attr->lmc & 7;
	port->sm_lid = attr->sm_lid;
	port->port_guid = be64toh(attr->port_guid);
	memcpy(port->gids[0], &attr->gid_prefix, 8);
	memcpy(port->gids[0] + 8, &attr->port_guid, 8);
	port->ngids = 1;
	read_gids(port);
	port->npkeys = 0;
	for (unsigned i = 0; i < attr->pkeys_size && i < 128; i++)
		if (attr->pkeys[i] & 0x7fff)
			port->pkeys[port->npkeys++] = attr->pkeys[i];
}

/* said: why the port cannot be opened. */
static struct sacached_port *open_port(struct ports *ports, const umad_ca_t *ca, unsigned portnum,
				       bool said)
{
	struct sacached *d = ports->d;
	struct sacached_port *port;
	unsigned number, i;
	int ret = sacache_port_open(d->cache, ca->ca_name, portnum, &number);

	if (ret) {
		if (said)
			return NULL;
		if (ret == -EACCES)
			log_error("%s:%u: may not open its umad device: run as root or give the "
				  "user access to /dev/infiniband/umad*",
				  ca->ca_name, portnum);
		else
			log_error("%s:%u: %s", ca->ca_name, portnum, strerror(-ret));
		return NULL;
	}
	for (i = 0; i < SACACHE_MAX_PORTS - 1 && d->ports[i].open;)
		i++;
	port = &d->ports[i];
	*port = (struct sacached_port){.open = true, .number = number, .portnum = portnum};
	memcpy(port->ca, ca->ca_name, sizeof(port->ca) - 1);
	port->port_count = ca->numports;
	port->node_guid = be64toh(ca->node_guid);
	if (d->nports <= i)
		d->nports = i + 1;
	return port;
}

static void close_port(struct sacached *d, struct sacached_port *port)
{
	log_warning("%s:%u is gone", port->ca, port->portnum);
	sacache_port_close(d->cache, port->number);
	*port = (struct sacached_port){.open = false};
	while (d->nports && !d->ports[d->nports - 1].open)
		d->nports--;
}

static void look_at_device(struct ports *ports, unsigned index, const char *name)
{
	struct sacached *d = ports->d;
	umad_ca_t ca;

	if (umad_get_ca(name, &ca))
		return;
	for (int i = 1; i <= ca.numports && i < UMAD_CA_MAX_PORTS; i++) {
		const umad_port_t *attr = ca.ports[i];
		char *refused = &ports->refused[index * UMAD_CA_MAX_PORTS + i];
		struct sacached_port *port;

		if (!attr || !wanted(&d->config, name, i) ||
		    (attr->link_layer[0] && strcmp(attr->link_layer, "InfiniBand") &&
		     strcmp(attr->link_layer, "IB")))
			continue;
		port = find(d, name, i);
		if (!port) {
			port = open_port(ports, &ca, i, *refused);
			*refused = !port;
		}
		if (port) {
			read_port(port, attr);
			ports->seen[port - d->ports] = true;
		}
	}
	umad_release_ca(&ca);
}

static void look(struct ports *ports)
{
	char names[UMAD_MAX_DEVICES][UMAD_CA_NAME_LEN];
	struct sacached *d = ports->d;
	int count = umad_get_cas_names(names, UMAD_MAX_DEVICES);

	memset(ports->seen, 0, sizeof(ports->seen));
	for (int i = 0; i < count; i++)
		look_at_device(ports, i, names[i]);
	for (unsigned i = 0; i < d->nports; i++)
		if (d->ports[i].open && !ports->seen[i])
			close_port(d, &d->ports[i]);
}

static void timer(evutil_socket_t fd, short what, void *arg)
{
	look(arg);
}

int ports_start(struct sacached *d, struct ports **out)
{
	struct timeval interval = {.tv_sec = LOOK_AGAIN_S};
	struct ports *ports = calloc(1, sizeof(*ports));

	if (!ports)
		return -ENOMEM;
	ports->d = d;
	if (umad_init() < 0)
		log_warning("libibumad does not work here");
	look(ports);
	if (!d->nports)
		log_warning("no InfiniBand port to ask a subnet administrator by; looking again "
			    "every %d s",
			    LOOK_AGAIN_S);
	ports->timer = event_new(d->base, -1, EV_PERSIST, timer, ports);
	if (!ports->timer || event_add(ports->timer, &interval)) {
		ports_stop(ports);
		log_error("no memory");
		return -ENOMEM;
	}
	*out = ports;
	return 0;
}

void ports_stop(struct ports *ports)
{
	if (!ports)
		return;
	if (ports->timer)
		event_free(ports->timer);
	free(ports);
}
