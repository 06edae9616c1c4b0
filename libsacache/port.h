/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A port: an SA client and the subscription to notices over libibumad (port.c), its callers
 * (port_ask.c), the confirmation of many records at once (port_confirm.c), and its asynchronous
 * events from libibverbs (port_watch.c).
 */
#ifndef SACACHE_PORT_H
#define SACACHE_PORT_H

#include <infiniband/umad.h>

#include "libsacache/client.h"
#include "libsacache/notice.h"

struct ibv_context;
struct sa_waiter;

enum sa_confirm_state { SA_CONFIRM_OVER, SA_CONFIRM_SINGLY, SA_CONFIRM_TABLE };

struct sa_confirm {
	enum sa_confirm_state state;
	uint32_t generation;
	unsigned queries; /* before the table is asked for */
	uint64_t until;	  /* callers wait for it */
	struct sa_waiter *waiting;
};

struct sa_port {
	struct sacache *cache;
	unsigned number;
	unsigned refs; /* cache->ports_lock */
	pthread_cond_t unused;
	char ca_name[UMAD_CA_NAME_LEN];
	int portnum;
	int fd; /* libibumad's port ID */
	int agent;
	pthread_t thread;
	_Atomic bool stop;
	/* Under watch_lock, which is taken before the lock. */
	pthread_mutex_t watch_lock;
	struct ibv_context *verbs; /* NULL: libibverbs does not have the port */
	uint64_t watched;	   /* when its events were last read */
	uint64_t looked;	   /* when PortInfo was last read */
	/* Under the lock. */
	pthread_mutex_t lock;
	bool doubt; /* a query had no answer, or a MAD came from another source */
	bool active;
	uint64_t returned; /* when it became active, or was opened */
	uint16_t lid;
	uint16_t sm_lid;
	uint8_t sm_sl;
	void *umad; /* buffers: being sent, */
	void *in;   /* and received */
	struct sa_waiter *completed;
	struct sa_confirm confirm;
	struct sa_client client;
	struct sa_notices notices;
};

struct sa_port *sa_port_get(struct sacache *cache, unsigned number);
void sa_port_put(struct sa_port *port);
/* Releases port->lock and calls the callers whose queries have completed. */
void sa_port_unlock(struct sa_port *port);
/* The done of struct sa_client_ops. */
void sa_port_done(void *ctx, struct sa_query *query, int status, const uint8_t *records,
		  size_t count, size_t stride);

/* Reads what has happened to the port by now. Not under port->lock. */
void sa_port_refresh(struct sa_port *port);

/* Records have to be confirmed that none was asked for yet: the port's state counts. */
bool sa_confirm_begins(const struct sa_port *port);
/* Whether a caller whose record is to be confirmed waits for the table of all paths, which is asked
 * for when it pays. */
bool sa_confirm_awaits(struct sa_port *port, const struct sacache_key *key);
/* The table's answer. */
void sa_confirm_done(struct sa_port *port, const struct sa_query *query, int status,
		     const uint8_t *records, size_t count, size_t stride);
/* Once in a while: ends the callers' wait for a table that does not come, or is outdated. */
void sa_confirm_run(struct sa_port *port, uint64_t now);

enum sa_watch_news {
	SA_WATCH_PORT = 1 << 0,	      /* PortInfo has changed */
	SA_WATCH_REREGISTER = 1 << 1, /* client re-register (14.4.11) */
	SA_WATCH_END = 1 << 2,	      /* the device is gone */
};
/* NULL: libibverbs has no such device. */
struct ibv_context *sa_watch_open(const char *ca_name);
/* Events of that port since the last call; does not wait. enum sa_watch_news. */
unsigned sa_watch_read(struct ibv_context *verbs, int portnum);
void sa_watch_close(struct ibv_context *verbs);

#endif
