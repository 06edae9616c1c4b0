/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * An IPoIB interface in a program: a TUN of type InfiniBand on one side, a UD queue pair on the
 * other. The kernel speaks no ARP on a TUN, so neighbours, groups and paths are kept here.
 *
 *	kernel ──► tun.c ──► send.c ── neighbour.c: its link-layer address, by ARP and ND (wire.c)
 *	   ▲        │           │  └── group.c: which groups the host is in ── sa.c: joins
 *	   │        │           ▼           └── path.c: path records
 *	   └─────── receive.c ◄─ queue.c: the UD queue pair, its rings ◄──► fabric
 *	port.c: link up, broadcast group joined, link down; kernel.c: addresses and routes
 *
 * It uses libibverbs, libibumad and libsacache, and knows nothing of the device's provider. One
 * thread runs all of it, the event loop's; libsacache has its own, whose answers path.c hands over.
 * Functions return 0 or a negative errno.
 */
#ifndef IPOIB_IPOIB_H
#define IPOIB_IPOIB_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <string.h>

#include "daemons/common/log.h"
#include "daemons/common/loop.h"
#include "ipoib/wire.h"

#define IPOIB_MTU 2044 /* of 2048, which the broadcast group has as a rule */

struct ipoib_options {
	const char *device; /* of libibverbs; NULL: the first InfiniBand device */
	unsigned port;
	uint16_t pkey;	     /* membership apart; 0: the first of the port's table */
	char name[IFNAMSIZ]; /* of the interface */
	unsigned num_addresses;
	struct {
		struct in6_addr ip;
		unsigned prefix;
	} addresses[16];
};

struct ipoib_stats {
	uint64_t sent, received; /* packets on the fabric, ARP and ND included */
	uint64_t sent_bytes, received_bytes;
	uint64_t segments;	   /* of packets that were cut */
	uint64_t merged;	   /* packets that came and were put together */
	uint64_t drop_no_link;	   /* nothing is joined yet, or the port is down */
	uint64_t drop_queue;	   /* too many wait for an address, a path or a group */
	uint64_t drop_unreachable; /* no answer, no path */
	uint64_t drop_no_group;	   /* nobody has made that group */
	uint64_t drop_table;	   /* too many neighbours or groups */
	uint64_t drop_kernel;	   /* the kernel did not take it */
	uint64_t malformed, foreign;
	uint64_t questions, answers; /* ARP and ND sent */
	uint64_t asked, answered;    /* ARP and ND received */
	uint64_t paths, paths_failed;
	uint64_t joins, joins_failed;
	uint64_t send_errors;
};

/* An address vector, and how old it is. */
struct ipoib_way {
	struct ipoib_handle *ah; /* of queue.c */
	uint16_t lid;
};

struct ipoib {
	struct ipoib_options options;
	struct loop loop;
	struct ipoib_stats stats;

	/* tun.c */
	int tun;
	struct event *tun_readable;
	unsigned ifindex;
	bool carrier, tun_stopped, deleted;
	unsigned mtu;

	/* port.c */
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct event *async_readable, *retry, *restart;
	union ibv_gid gid;
	uint16_t pkey, pkey_index; /* pkey: with its membership bit */
	unsigned lmc;
	bool active, said_waiting;
	/* Called once: the interface is up, or what it waits for has been said. */
	void (*ready)(struct ipoib *ib);
	unsigned retry_s;

	/* queue.c */
	struct ipoib_queue *queue;
	uint32_t qpn, qkey;

	/* neighbour.c, group.c, sa.c, path.c, kernel.c */
	struct ipoib_neighbours *neighbours;
	struct ipoib_groups *groups;
	struct ipoib_sa *sa;
	struct ipoib_paths *paths;
	struct ipoib_kernel *kernel;
};

/* What a part says that cannot begin; -error. */
static inline int ipoib_fail(const struct ipoib *ib, int error)
{
	log_error("%s: %s", ib->options.name, strerror(error));
	return -error;
}

/* ---- tun.c: the interface as the kernel has it ---- */

/* Makes it. -EPERM: no right to; all errors after a line in the log. */
int tun_create(struct ipoib *ib);
void tun_destroy(struct ipoib *ib);
void tun_set_carrier(struct ipoib *ib, bool carrier);
/* The send queue is full, or has room again: packets stay in the kernel's queue. */
void tun_stop(struct ipoib *ib, bool stop);
struct iovec;
/* Gives the kernel a packet in that many pieces, the first of which is a struct virtio_net_hdr. */
void tun_give(struct ipoib *ib, const struct iovec *iov, int count);

/* ---- kernel.c: addresses, routes and groups ---- */

int kernel_create(struct ipoib *ib);
void kernel_destroy(struct ipoib *ib);
/* MTU, up, and addresses of the options. */
int kernel_set_up(struct ipoib *ib);
int kernel_set_mtu(struct ipoib *ib, unsigned mtu);
int kernel_add_address(struct ipoib *ib, const struct in6_addr *ip, unsigned prefix);
bool kernel_is_own(const struct ipoib *ib, const struct in6_addr *ip);
bool kernel_is_broadcast(const struct ipoib *ib, const struct in6_addr *ip);
/* An address of the interface's in that family, best one that shares a prefix with ip. */
bool kernel_source(const struct ipoib *ib, const struct in6_addr *ip, struct in6_addr *source);
/* Who packets for ip are to be given to on this link; false: no route leads here. */
bool kernel_next_hop(struct ipoib *ib, const struct in6_addr *ip, struct in6_addr *hop);
/* The same for a packet that the kernel has not sent here yet: by the routes of all interfaces. */
bool kernel_leads_to(struct ipoib *ib, const struct in6_addr *ip, struct in6_addr *hop);
void kernel_each_address(struct ipoib *ib, void (*fn)(struct ipoib *ib, const struct in6_addr *ip));
/* The groups that programs have joined on the interface. */
void kernel_each_group(struct ipoib *ib,
		       void (*fn)(struct ipoib *ib, const struct in6_addr *group));

/* ---- port.c: the port's life ---- */

int port_create(struct ipoib *ib);
void port_destroy(struct ipoib *ib);
/* The broadcast group has been joined, or not (error). */
void port_joined(struct ipoib *ib, int error, unsigned mtu);
/* The queue pair has failed: as if the link had gone down and come up. */
void port_restart(struct ipoib *ib);

/* ---- queue.c: the UD queue pair ---- */

int queue_create(struct ipoib *ib);
void queue_destroy(struct ipoib *ib);
/* A QP in the partition; the old one, where there is one, and with it what is under way, ends. */
int queue_set_partition(struct ipoib *ib);
int queue_set_qkey(struct ipoib *ib, uint32_t qkey);
int queue_attach(struct ipoib *ib, const uint8_t mgid[16], uint16_t mlid);
void queue_detach(struct ipoib *ib, const uint8_t mgid[16], uint16_t mlid);
/* An address vector in place of the old one. */
int queue_set_way(struct ipoib *ib, struct ipoib_way *way, struct ibv_ah_attr *attr);
/* The address vector is gone at once, its handle when no packet under way needs it. */
void queue_drop_way(struct ipoib *ib, struct ipoib_way *way);

/* A packet to be sent, of which a queue or a neighbour is the owner. data has room for the IPoIB
 * header in front of the packet. */
struct ipoib_packet {
	struct ipoib_packet *next;
	uint32_t len;	       /* from the IPoIB header on */
	uint16_t segment_size; /* payload of each packet that it is cut into; 0: it is one */
	uint16_t posted;       /* packets that it became */
	uint8_t *data;	       /* the IPoIB header */
	uint8_t *headers;      /* of segments */
};

#define IPOIB_PACKET_MAX   (65535 + 64) /* without the IPoIB header */
#define IPOIB_MAX_SEGMENTS 64
#define IPOIB_MAX_HEADERS  (IPOIB_HEADER + 60 + 60) /* of a segment: IPv4 or IPv6, TCP */

/* NULL: all are under way. */
struct ipoib_packet *queue_packet(struct ipoib *ib);
void queue_free(struct ipoib *ib, struct ipoib_packet *packet);
/* Sends it and frees it when it is sent. */
void queue_send(struct ipoib *ib, struct ipoib_packet *packet, const struct ipoib_way *way,
		uint32_t qpn);
/* After some of them. */
void queue_flush(struct ipoib *ib);
/* No further packet can be sent before some complete. */
bool queue_is_full(struct ipoib *ib);
/* So few packets are left that none may be kept waiting. */
bool queue_is_scarce(const struct ipoib *ib);

/* ---- segment.c: what network adapters do for TCP ---- */

/* How many packets of mtu bytes at most it becomes; 0: more than
 * IPOIB_MAX_SEGMENTS, or it cannot be cut so. */
unsigned segment_count(const struct ipoib_packet *packet, unsigned mtu);
/* The headers of the nth into packet->headers + n * IPOIB_MAX_HEADERS; its payload lies at
 * *payload. */
struct segment {
	uint32_t header_len, payload_len;
	const uint8_t *payload;
};
void segment_make(const struct ipoib_packet *packet, unsigned n, struct segment *segment);

/* ---- receive.c ---- */

/* A message of that many bytes from its IPoIB header on. */
void receive(struct ipoib *ib, uint8_t *bytes, size_t len, uint16_t slid);
/* No more have come for now. */
void receive_end(struct ipoib *ib);

/* Tells the sender of a packet that nobody has its destination. */
void receive_unreachable(struct ipoib *ib, const struct ipoib_packet *packet);

/* ---- send.c ---- */

/* A packet from the kernel. */
void send_packet(struct ipoib *ib, struct ipoib_packet *packet);

/* ---- neighbour.c: link-layer addresses of IP addresses ---- */

int neighbours_create(struct ipoib *ib);
void neighbours_destroy(struct ipoib *ib);
/* Sends a packet there, or keeps it until it is known where that is. */
void neighbour_send(struct ipoib *ib, const struct in6_addr *ip, struct ipoib_packet *packet);
/* A question or an answer has come. */
void neighbour_heard(struct ipoib *ib, const struct ipoib_discovery *msg, uint16_t slid);
/* A path record, or why there is none. */
struct sacache_path;
void neighbour_path(struct ipoib *ib, const struct in6_addr *ip, int error,
		    const struct sacache_path *path);
/* The port is down: all are forgotten. */
void neighbours_forget(struct ipoib *ib);
/* LIDs may have changed: paths are asked for anew. */
void neighbours_refresh(struct ipoib *ib);
/* Tells everybody that this is where our addresses are. */
void neighbours_announce(struct ipoib *ib);

enum neighbour_state {
	NEIGHBOUR_INCOMPLETE, /* asked for */
	NEIGHBOUR_REACHABLE,
	NEIGHBOUR_STALE, /* not confirmed of late, and not needed */
	NEIGHBOUR_DELAY, /* needed; about to be asked */
	NEIGHBOUR_PROBE,
	NEIGHBOUR_FAILED,
};
struct neighbour_info {
	struct in6_addr ip;
	struct ipoib_link link;
	enum neighbour_state state;
	uint16_t lid;
	bool has_path;
};
void neighbours_each(const struct ipoib *ib, void (*fn)(void *arg, const struct neighbour_info *n),
		     void *arg);
/* Begins to find out. -EINPROGRESS: ask again; -EHOSTUNREACH. */
int neighbour_resolve(struct ipoib *ib, const struct in6_addr *ip, struct neighbour_info *n);

/* ---- group.c: multicast ---- */

int groups_create(struct ipoib *ib);
void groups_destroy(struct ipoib *ib);
/* Joins the broadcast group, and then the others. */
void groups_start(struct ipoib *ib);
/* All are forgotten. */
void groups_stop(struct ipoib *ib);
/* Joins all of them anew: the subnet administrator may know nothing any more. */
void groups_renew(struct ipoib *ib);
/* Those that the host is in may have changed. */
void groups_follow(struct ipoib *ib);
void group_send(struct ipoib *ib, const struct in6_addr *ip, struct ipoib_packet *packet);
struct group_info {
	uint8_t mgid[16];
	bool member, joined;
	uint16_t mlid;
};
void groups_each(const struct ipoib *ib, void (*fn)(void *arg, const struct group_info *group),
		 void *arg);

/* ---- sa.c: memberships at the subnet administrator ---- */

struct umad_sa_mcmember_record;
/* error 0: record is filled in; -ETIMEDOUT; -ENOENT: refused. */
typedef void sa_done(struct ipoib *ib, void *arg, int error,
		     const struct umad_sa_mcmember_record *record);
int sa_create(struct ipoib *ib);
void sa_destroy(struct ipoib *ib);
/* done is called later, unless an error is returned. */
int sa_join(struct ipoib *ib, const struct umad_sa_mcmember_record *record, uint64_t mask,
	    sa_done *done, void *arg);
/* Nobody waits for an answer. */
void sa_leave(struct ipoib *ib, const struct umad_sa_mcmember_record *record);
/* Answers to that one are dropped from now on. */
void sa_forget(struct ipoib *ib, const void *arg);

/* ---- path.c: path records ---- */

int paths_create(struct ipoib *ib);
void paths_destroy(struct ipoib *ib);
/* neighbour_path() is called later, unless an error is returned. again: what is cached is not to be
 * believed. */
int path_ask(struct ipoib *ib, const struct in6_addr *ip, const uint8_t gid[16], bool again);

#endif
