/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The running fabric: a socket at which programs arrive, and the loop that serves them. See
 * protocol.h. fabricd's thread.
 */
#ifndef URXE_FABRIC_SERVER_H
#define URXE_FABRIC_SERVER_H

#include <sys/un.h>

#include "fabric/fabric.h"
#include "fabric/mad_ring.h"

/* A datagram that a program's socket had no room for. */
struct pending {
	struct pending *link;
	int fd; /* of a long one, or -1 */
	size_t len;
	uint8_t bytes[];
};

struct connection {
	struct connection *link;
	struct server *server;
	int fd;
	uint32_t kind;	       /* enum fabric_kind; 0: has not said yet */
	uint32_t port;	       /* index */
	uint32_t cookie;       /* UMAD, SA */
	bool listens_out;      /* for room in the socket */
	uint32_t num_adapters; /* EVENTS: of the host, and which */
	uint32_t adapters[FABRIC_HOST_ADAPTERS];
	struct ledger *ledger;
	struct agent *agents[FABRIC_AGENTS];
	struct pending *first, **last;
	size_t pending_bytes;
	unsigned pending_files; /* long ones */
	/* UMAD: */
	struct mad_rings *rings;
	int doorbell;	 /* rung by the program */
	int event;	 /* how many MADs it can read from its ring */
	unsigned unread; /* MADs of this turn that event does not count yet */
	bool by_socket;	 /* MADs go by the socket until it is empty */
	bool over;	 /* to be freed when this turn of the loop is done */
};

#define OUTBOX_LEN 64

/* A datagram that is written when the turn of the loop ends. */
struct outgoing {
	struct connection *to; /* NULL: to nobody any more */
	uint32_t len;
	int fd; /* of a long MAD, or -1 */
	uint8_t bytes[FABRIC_INLINE];
};

struct server {
	struct fabric fabric; /* first: timers' functions get it */
	int epoll, listener;
	bool bound;
	struct sockaddr_un address;
	struct timer accept; /* runs while no program can be accepted */
	struct connection *connections;
	struct connection *over;
	struct connection *recent; /* whose doorbell rang last, and need not ring again */
	uint64_t served_us;	   /* when its ring had something */
	unsigned quick;		   /* so many times in quick succession */
	unsigned crowded;	   /* turns in which others need the CPU */
	unsigned turns;
	uint32_t next_cookie;
	uint64_t mads; /* read from programs */
	unsigned outgoing;
	struct outgoing outbox[OUTBOX_LEN];
	unsigned num_to_notify; /* connections that have MADs of this turn in their rings */
	struct connection *to_notify[OUTBOX_LEN];
};

/* Listens at a path: 0, or -errno; -EADDRINUSE: a fabric is running there. */
int server_open(struct server *s, const char *path);
/* Serves all that has come in at server->epoll, and what is due. Waits for so many ms at most for
 * something to come in; false: nothing did. */
bool server_serve(struct server *s, int wait_ms);
/* In how many ms server_serve() has something to do though nothing comes in; -1: in none. */
int server_wait(const struct server *s);
void server_close(struct server *s);
/* The program's connection is at its end. */
void server_drop(struct connection *c);

/* ---- rings.c ---- */

/* Makes the rings of an open umad file; fds: what the program gets. -errno. */
int rings_open(struct connection *c, int fds[FABRIC_UMAD_FDS]);
void rings_close(struct connection *c);
/* Where a short MAD for the program can be written; NULL: it has to go by the socket. */
uint8_t *rings_room(struct connection *c, size_t len);
void rings_publish(struct connection *c);
/* Tells programs of what was published. */
void rings_flush(struct server *s);
void rings_forget(struct connection *c);

/* ---- outbox.c ---- */

/* What a program reads from its umad file. */
void server_deliver(struct fabric *f, struct connection *file, const uint8_t *hdr,
		    const uint8_t *mad, uint32_t len);

/* A datagram of FABRIC_INLINE bytes at most. Takes fd over; -1: none. */
void to_program(struct connection *c, const void *bytes, size_t len, int fd);
/* Tells programs of what is in their rings, and writes what was collected for their sockets. */
void outbox_flush(struct server *s);
/* There is room again in a connection's socket. */
void outbox_drain(struct connection *c);
/* What is still to go to a connection that ends. */
void outbox_forget(struct connection *c);
/* Past all that: the first word on a connection. Descriptors stay the caller's. As
 * sendmsg(2). */
ssize_t outbox_send_now(struct connection *c, const void *bytes, size_t len, const int *fds,
			unsigned num_fds);

#endif
