/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sacached: one cache of path records for all programs of a host. What its modules share.
 *
 *	main.c		starts and stops the modules
 *	config.c	the configuration file and options
 *	ports.c		the host's InfiniBand ports, as they come and go
 *	addresses.c	IP addresses: which port is the source, which GID the destination; names.c: names of hosts
 *	resolve.c	a path by key, with a deadline, for the modules that serve
 *	acm.c		ibacm's protocol: messages; acm_server.c: its sockets
 *	netlink.c	the kernel's questions
 *	reload.c	what SIGHUP reads again
 *	warm.c		the state file, OpenSM's dump, queries ahead
 *	control_commands.c	sacachectl's; metrics_text.c: Prometheus'
 *
 * What other daemons have too is in daemons/common: the loop, the log, the control socket, metrics,
 * systemd.
 *
 * All of it runs in one thread, libevent's loop; libsacache has a thread for each port beside it,
 * which calls only resolve.c. So no module has a lock, and none may block.
 *
 * Each module has int X_start(struct sacached *d, struct X **x), which returns 0, or a negative
 * errno after it has logged the error in one line, and void X_stop(struct X *x) (NULL: nothing).
 */
#ifndef SACACHED_SACACHED_H
#define SACACHED_SACACHED_H

#include <stdbool.h>
#include <stdint.h>

#include "daemons/common/loop.h"
#include "daemons/sacached/config.h"
#include "libsacache/sacache.h"

#define SACACHED_MAX_GIDS 16

/* A port of an InfiniBand device of this host that is open in the cache. */
struct sacached_port {
	bool open;
	char ca[32];
	unsigned portnum;
	unsigned port_count; /* of the device */
	uint64_t node_guid;  /* host byte order */
	uint64_t port_guid;
	unsigned number; /* the number that sacache_port_open() returned, for keys */
	bool active;	 /* the state is Active */
	bool loading;	 /* the state file is being loaded for it (warm.c), */
	bool loaded;	 /* or has been loaded, */
	bool begun;	 /* and the dump, and the SA query ahead */
	uint16_t lid;
	uint8_t lmc;
	uint16_t sm_lid;
	uint8_t gids[SACACHED_MAX_GIDS][16]; /* the first is the port's default GID */
	unsigned ngids;
	uint16_t pkeys[128]; /* without the empty ones; host byte order */
	unsigned npkeys;
};

struct ports;
struct addresses;
struct resolver;
struct acm_server;
struct control;
struct metrics;
struct names;
struct netlink;
struct notify;
struct reload;
struct warm;

struct sacached {
	struct loop loop;
	struct event_base *base; /* the loop's */
	struct sacache *cache;
	struct sacached_config config;
	struct sacached_port ports[SACACHE_MAX_PORTS]; /* those that are open; there may be gaps */
	unsigned nports;			       /* index of the last open one, plus 1 */
	struct ports *port_watch;
	struct addresses *addresses;
	struct names *names;
	struct resolver *resolver;
	struct acm_server *acm;
	struct control *control;
	struct metrics *metrics;
	struct netlink *netlink;
	struct notify *notify;
	struct reload *reload;
	struct warm *warm;
};

/* The open, active port with that GID or LID (LMC counted); NULL. */
const struct sacached_port *sacached_port_by_gid(const struct sacached *d, const uint8_t gid[16]);
const struct sacached_port *sacached_port_by_lid(const struct sacached *d, uint16_t lid);
/* The first open, active port in the subnet of that prefix (8 bytes; NULL: any); NULL. */
const struct sacached_port *sacached_port_by_prefix(const struct sacached *d,
						    const uint8_t *prefix);
/* The open port of that number, active or not; NULL. */
const struct sacached_port *sacached_port_by_number(const struct sacached *d, unsigned number);

#endif
