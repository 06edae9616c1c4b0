/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The devices /dev/infiniband/umadN, as libibumad uses them: those of a host of a virtual fabric,
 * with issmN, and those of RoCE devices, which have QP 1 alone.
 *
 *   umad.c        the table of open files, and the libc calls on their descriptors
 *   umad_file.c   one open file: its socket, agents, reading and writing
 *   umad_rings.c  short MADs to fabricd and from it
 *   umad_lost.c   a fabric that ends and comes back
 *
 * A program's descriptor is a copy of an epoll descriptor, so that poll, epoll, dup and O_NONBLOCK
 * are the kernel's business. In it lie the socket to fabricd (fabric/protocol.h) and the event
 * descriptor of the ring (fabric/mad_ring.h), which are replaced when the fabric has ended and come
 * back, and an event descriptor for what this process itself has to say. For a RoCE device the MAD
 * layer is in this process (cm/agents.h) and holds the other end of the socket.
 *
 * Any thread. The lock of a file guards what it contains.
 */
#ifndef URXE_PRELOAD_UMAD_H
#define URXE_PRELOAD_UMAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cm/agents.h"
#include "fabric/mad_ring.h"
#include "host/fd_files.h"

#define URXE_UMAD_FLIGHTS 256

/* A request that waits for its answer: what a timeout would show of it. */
struct urxe_umad_flight {
	struct urxe_umad_flight *next;
	uint8_t shown[FABRIC_UMAD_HDR + 24]; /* header and MAD, of which that is the beginning */
};

/* What a file is opened for. */
struct urxe_umad_port {
	struct urxe_port *roce; /* or NULL: a host of a fabric, */
	uint32_t node;		/* an adapter of it, */
	uint8_t port;		/* a port of that */
	bool issm;
};

struct urxe_umad {
	struct urxe_umad *link; /* of all open files */
	atomic_uint refs;
	pthread_mutex_t lock;
	int fd, sock, event;	 /* fd: one of what the program has copies; sock: -1: no fabric */
	struct mad_rings *rings; /* NULL while there is none */
	int arrived, doorbell;	 /* how many MADs are in the ring; wakes fabricd */
	bool by_socket;		 /* MADs go by the socket until it is empty */
	bool inherited;		 /* by fork(2): the parent writes to the ring */
	bool issm, pkey_index;
	bool used;	    /* an agent was registered once */
	uint64_t node_guid; /* of the adapter, by which the port is found again */
	uint8_t port;
	struct urxe_port *roce;	  /* or NULL: on a fabric */
	struct urxe_agents *here; /* then: NULL in the child of a fork */
	int far;		  /* and the other end of sock; else -1 */
	uint32_t cookie;
	uint32_t registered; /* a bit for each agent */
	struct fabric_request agents[FABRIC_AGENTS];
	struct urxe_umad_flight *flights[URXE_UMAD_FLIGHTS];
	struct urxe_umad_flight *late; /* to be read as timed out */
	/* A long MAD that the program had no room for: its beginning, and all of it in a file. */
	uint8_t held[FABRIC_INLINE];
	int held_fd; /* -1: there is none */
};

/* ---- umad.c ---- */

/* The program's descriptors of such files. */
extern struct urxe_fd_files urxe_umad_fds;

/* Is it an open umad or issm file? One load where there is none. */
static inline bool urxe_umad_is_fd(int fd)
{
	return urxe_fd_files_has(&urxe_umad_fds, fd);
}

/* A new file for a port of the host; -errno. flags: of open(2). */
int urxe_umad_open(const struct urxe_umad_port *port, int flags);
ssize_t urxe_umad_write(int fd, const void *buf, size_t len);
void urxe_umad_forked(void);

/* ---- umad_file.c ---- */

/* A file, its descriptor in file->fd. -errno. */
int urxe_umad_file_open(const struct urxe_umad_port *port, struct urxe_umad **file);
void urxe_umad_file_close(struct urxe_umad *file);
/* Results of read, write and ioctl: -errno. */
ssize_t urxe_umad_file_read(struct urxe_umad *file, void *buf, size_t len);
ssize_t urxe_umad_file_write(struct urxe_umad *file, const void *buf, size_t len);
int urxe_umad_file_ioctl(struct urxe_umad *file, unsigned long request, void *arg);
/* In the child of a fork. */
void urxe_umad_file_forked(struct urxe_umad *file);
/* Connects, or connects again, and registers the agents anew. Under the file's lock; -errno. */
int urxe_umad_file_connect(struct urxe_umad *file);

/* ---- umad_rings.c: under the file's lock ---- */

/* Takes over what came with the welcome of a file; -errno. */
int urxe_umad_rings_begin(struct urxe_umad *file, const int fds[FABRIC_UMAD_FDS]);
void urxe_umad_rings_end(struct urxe_umad *file);
/* A MAD with its header, by the ring; false: it has to go by the socket. */
bool urxe_umad_rings_send(struct urxe_umad *file, const uint8_t *umad, size_t len);
/* The next one from the ring: its length; -EAGAIN: there is none; -EINVAL: it is longer than room,
 * and stays. */
ssize_t urxe_umad_rings_receive(struct urxe_umad *file, uint8_t umad[FABRIC_INLINE], size_t room);

/* ---- umad_lost.c ---- */

/* The fabric has ended: what waits is timed out, and a thread waits for the fabric to come back.
 * Under the file's lock. */
void urxe_umad_file_lost(struct urxe_umad *file);
void urxe_umad_lost_forked(void);
/* All open files, for the one thread that looks for the fabric. */
void urxe_umad_each(void (*fn)(struct urxe_umad *file, void *arg), void *arg);

#endif
