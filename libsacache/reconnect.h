/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Reconnecting: when two ends of a connection try to connect, and when they leave it to each other.
 * After figures 2 and 3 of "System and method for supporting subnet management in a cloud
 * environment": resolve, look the path up, connect with the path set.
 *
 *		  ┌───────── the time drawn is over ─────────┐
 *		  ▼					     │
 *	  RESOLVING ──► ASKING ──► CONNECTING ──failed──► WAITING ◄──lost──┐
 *					   └─established─────────────────► UP
 *	  IDLE, or any but CONNECTING ──request──► ACCEPTING ─established──┘
 *
 * - At a first connection only the client tries, and tries again; a server is IDLE until it is asked.
 * - After one was established both ends try, each after a random time.
 * - A request that arrives while one's own is pending is rejected, and both ends draw again.
 * - A request that arrives at an end that is UP says that the peer has lost the connection: it is given
 *   up, and the request accepted. So there is never a second connection beside the first.
 * - Times are drawn from backoff_min to a limit that doubles with each failure, up to backoff_max.
 *
 * The cache is told what came of a path (sacache_failed(), sacache_connected()). A rejection
 * because requests crossed is no failure: the path has carried it.
 *
 * It knows no transport: its owner has one, and calls back what happens there. <sacache/rdmacm.h>
 * is such an owner. One thread at a time may be in the functions of a sacache_reconnect and of its
 * peers; callbacks run in that thread, before the function returns, but for wake(). Times are
 * milliseconds.
 */
#ifndef SACACHE_RECONNECT_H
#define SACACHE_RECONNECT_H

#include "sacache.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

struct sacache_reconnect;
struct sacache_peer;

enum sacache_role {
	SACACHE_CLIENT, /* makes the first connection */
	SACACHE_SERVER, /* waits for it */
};

enum sacache_peer_state {
	SACACHE_PEER_IDLE,
	SACACHE_PEER_WAITING,
	SACACHE_PEER_RESOLVING,
	SACACHE_PEER_ASKING,
	SACACHE_PEER_CONNECTING,
	SACACHE_PEER_ACCEPTING,
	SACACHE_PEER_UP,
};

struct sacache_reconnect_attr {
	size_t size;	      /* of this structure, as sacache_reconnect_attr_init() sets it */
	uint32_t backoff_min; /* 1 … backoff_max */
	uint32_t backoff_max; /* up to 3,600,000 */
	/* To resolve, to connect, and to establish what was accepted; 1 … 3,600,000. */
	uint32_t timeout;
	/* Of the times drawn; 0: from the system. Two ends must not have the same one. */
	uint64_t seed;
};

/*
 * What the owner does. user is what sacache_peer_add() was given; attempt numbers the attempts of a
 * peer and is to be handed back with what becomes of it. They may call any function here but those
 * that destroy or remove, and must not wait.
 */
struct sacache_reconnect_ops {
	/* The time now, from any beginning; NULL: CLOCK_MONOTONIC. */
	uint64_t (*clock)(void *ctx);
	/*
	 * sacache_reconnect_run() is to be called soon. Called from any thread, under a lock: it
	 * writes to an eventfd or the like, and calls nothing here. NULL if there is no cache.
	 */
	void (*wake)(void *ctx);
	/*
	 * Finds out the peer's addresses. 0: *key says what the path is to be asked for by (mask 0:
	 * it needs none); -EINPROGRESS: sacache_peer_resolved() will be called. NULL: the key is
	 * always that of sacache_peer_add().
	 */
	int (*resolve)(void *ctx, void *user, uint32_t attempt, struct sacache_key *key);
	/* Sends a request; path NULL: there is no cache or no key. 0, or the failure at once. */
	int (*connect)(void *ctx, void *user, uint32_t attempt, const struct sacache_path *path);
	/* Whatever that attempt has led to is given up: a request, an acceptance, a connection. */
	void (*abandon)(void *ctx, void *user, uint32_t attempt);
	/* The connection of that attempt is the one. May be NULL. */
	void (*up)(void *ctx, void *user, uint32_t attempt);
	/* It is no more; abandon() follows. May be NULL. */
	void (*down)(void *ctx, void *user, uint32_t attempt, int status);
};

struct sacache_reconnect_stats {
	uint64_t attempts; /* begun */
	uint64_t requests; /* sent */
	uint64_t accepted;
	uint64_t crossed;  /* rejected because one's own request was pending */
	uint64_t up;	   /* connections established, by either end */
	uint64_t lost;	   /* connections */
	uint64_t failed;   /* attempts, those rejected and timed out included */
	uint64_t timeouts; /* attempts */
	uint64_t no_path;  /* attempts that had no answer from the SA */
};

/* 100 ms to 10 s, timeout 5 s, a seed from the system. */
void sacache_reconnect_attr_init(struct sacache_reconnect_attr *attr);

/*
 * attr NULL: the defaults; cache NULL: paths are the owner's affair. ops and cache have to stay.
 * -EINVAL, -ENOMEM.
 */
int sacache_reconnect_create(struct sacache *cache, const struct sacache_reconnect_attr *attr,
			     const struct sacache_reconnect_ops *ops, void *ctx,
			     struct sacache_reconnect **set);
/* Removes all peers. Not from a callback. */
void sacache_reconnect_destroy(struct sacache_reconnect *set);
/*
 * Does what is due: attempts, timeouts, answers of the SA. Returns when it has to be called next,
 * in the clock's time, UINT64_MAX: not before something else happens. Any other call may bring that
 * forward.
 */
uint64_t sacache_reconnect_run(struct sacache_reconnect *set);
/* When it has to be called next. */
uint64_t sacache_reconnect_deadline(const struct sacache_reconnect *set);
void sacache_reconnect_stats(const struct sacache_reconnect *set,
			     struct sacache_reconnect_stats *stats, size_t size);

/* Adds a peer; a client's first attempt is due at once. key may be NULL. -ENOMEM. */
int sacache_peer_add(struct sacache_reconnect *set, void *user, enum sacache_role role,
		     const struct sacache_key *key, struct sacache_peer **peer);
/* Abandons what there is; down() is not called. Not from a callback. */
void sacache_peer_remove(struct sacache_peer *peer);
enum sacache_peer_state sacache_peer_state(const struct sacache_peer *peer);

/* The end of a resolve() under way: 0 and a key (NULL: no path is needed), or an errno. */
void sacache_peer_resolved(struct sacache_peer *peer, uint32_t attempt, int status,
			   const struct sacache_key *key);
/*
 * The peer requests a connection. 0: accept it, as *attempt; what there was before has been
 * abandoned. -EBUSY: reject it, and let the other end know why. dlid is the peer's LID as the
 * request has it, 0: not known; if it is another than that of the record, the cache is told.
 */
int sacache_peer_request(struct sacache_peer *peer, uint16_t dlid, uint32_t *attempt);
/* Established. -ESTALE: that attempt has been abandoned. */
int sacache_peer_connected(struct sacache_peer *peer, uint32_t attempt);
/*
 * The attempt failed, or its connection is lost: an errno. -EBUSY: rejected, for the peer had a
 * request of its own pending. What was abandoned is ignored.
 */
void sacache_peer_failed(struct sacache_peer *peer, uint32_t attempt, int status);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
