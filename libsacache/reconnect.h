/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Reconnecting: when each of the two ends of a connection tries to connect, and when it waits.
 * After figures 2 and 3 of "System and method for supporting subnet management in a cloud
 * environment": resolve, look the path up, connect with the path set.
 *
 *		  ┌───────── the time drawn is over ─────────┐
 *		  ▼					     │
 *	  RESOLVING ──► ASKING ──► CONNECTING ──failed──► WAITING ◄──lost──┐
 *					   └─established─────────────────► UP
 *	  IDLE, or any but CONNECTING ──request──► ACCEPTING ─established──┘
 *
 * - The first connection is opened by the client, which retries; a server is IDLE until a request arrives.
 * - Once a connection was established both ends try, each after a random time.
 * - A request that arrives while this end's own is pending is rejected, and both ends wait again.
 * - A request that arrives at an end that is UP means that the peer has lost the connection: that is
 *   abandoned, and the request accepted. So there is never a second connection beside the first.
 * - Random times are between backoff_min and a limit that doubles with each failure, up to backoff_max.
 *
 * Results of a path are reported to the cache (sacache_failed(), sacache_connected()). A rejection
 * because requests crossed is no failure: the path has carried it.
 *
 * It has no transport: the owner has one, and reports its events. <sacache/rdmacm.h> is such an
 * owner. One thread at a time may be in the functions of a sacache_reconnect and of its peers;
 * callbacks run in that thread, before the function returns, except wake(). Times are
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
	SACACHE_CLIENT, /* opens the first connection */
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
	size_t size;	      /* of this structure: sacache_reconnect_attr_init() sets it */
	uint32_t backoff_min; /* 1 … backoff_max */
	uint32_t backoff_max; /* up to 3,600,000 */
	/* To resolve, to connect, and to establish what was accepted; 1 … 3,600,000. */
	uint32_t timeout;
	/* Of the random times; 0: from the system. Two ends must not have the same one. */
	uint64_t seed;
};

/*
 * The owner's operations. user is the argument of sacache_peer_add(); attempt numbers a peer's
 * attempts and is passed back with their results. They may call any function here except those that
 * destroy or remove, and must not wait.
 */
struct sacache_reconnect_ops {
	size_t size; /* of this structure as the program knows it */
	/* The current time, from any epoch; NULL: CLOCK_MONOTONIC. */
	uint64_t (*clock)(void *ctx);
	/*
	 * sacache_reconnect_run() must be called soon. Called from any thread, under a lock: it
	 * writes to an eventfd, for instance, and must not call this library. NULL if there is no
	 * cache.
	 */
	void (*wake)(void *ctx);
	/*
	 * Resolves the peer's addresses. 0: *key is the key of the path (mask 0: none is needed);
	 * -EINPROGRESS: sacache_peer_resolved() will be called. NULL: the key is always that of
	 * sacache_peer_add().
	 */
	int (*resolve)(void *ctx, void *user, uint32_t attempt, struct sacache_key *key);
	/* Sends a request; path NULL: there is no cache or no key. 0, or an immediate error. */
	int (*connect)(void *ctx, void *user, uint32_t attempt, const struct sacache_path *path);
	/* Ends that attempt and all that resulted from it: a request, an acceptance, a
	 * connection. */
	void (*abandon)(void *ctx, void *user, uint32_t attempt);
	/* That attempt's connection is established. May be NULL. */
	void (*up)(void *ctx, void *user, uint32_t attempt);
	/* It is lost; abandon() follows. May be NULL. */
	void (*down)(void *ctx, void *user, uint32_t attempt, int status);
};

struct sacache_reconnect_stats {
	uint64_t attempts; /* started */
	uint64_t requests; /* sent */
	uint64_t accepted;
	uint64_t crossed;  /* rejected because this end's own request was pending */
	uint64_t up;	   /* connections established, by either end */
	uint64_t lost;	   /* connections */
	uint64_t failed;   /* attempts, including rejected and timed out ones */
	uint64_t timeouts; /* attempts */
	uint64_t no_path;  /* attempts without an answer from the SA */
};

/* 100 ms to 10 s, timeout 5 s, a seed from the system. */
void sacache_reconnect_attr_init(struct sacache_reconnect_attr *attr, size_t size);

/*
 * attr NULL: the defaults; cache NULL: the owner finds paths itself. cache must remain valid.
 * -EINVAL, -ENOMEM.
 */
int sacache_reconnect_create(struct sacache *cache, const struct sacache_reconnect_attr *attr,
			     const struct sacache_reconnect_ops *ops, void *ctx,
			     struct sacache_reconnect **set);
/* Removes all peers. Not from a callback. */
void sacache_reconnect_destroy(struct sacache_reconnect *set);
/*
 * Does what is due: attempts, timeouts, answers of the SA. Returns the time of the next call, by
 * the ops' clock; UINT64_MAX: only after another event. Any other call may make that earlier.
 */
uint64_t sacache_reconnect_run(struct sacache_reconnect *set);
/* The time of the next call. */
uint64_t sacache_reconnect_deadline(const struct sacache_reconnect *set);
void sacache_reconnect_stats(const struct sacache_reconnect *set,
			     struct sacache_reconnect_stats *stats, size_t size);

/* Adds a peer; a client's first attempt is due at once. key may be NULL. -ENOMEM. */
int sacache_peer_add(struct sacache_reconnect *set, void *user, enum sacache_role role,
		     const struct sacache_key *key, struct sacache_peer **peer);
/* Ends its connection or attempt; down() is not called. Not from a callback. */
void sacache_peer_remove(struct sacache_peer *peer);
enum sacache_peer_state sacache_peer_state(const struct sacache_peer *peer);

/* Completes a pending resolve(): 0 and a key (NULL: no path is needed), or an errno. */
void sacache_peer_resolved(struct sacache_peer *peer, uint32_t attempt, int status,
			   const struct sacache_key *key);
/*
 * The peer requests a connection. 0: accept it, as *attempt; an earlier attempt has been abandoned.
 * -EBUSY: reject it with that reason. dlid is the peer's LID in the request, 0: not known; if it
 * differs from the record's, that record is queried again.
 */
int sacache_peer_request(struct sacache_peer *peer, uint16_t dlid, uint32_t *attempt);
/* Established. -ESTALE: that attempt has been abandoned. */
int sacache_peer_connected(struct sacache_peer *peer, uint32_t attempt);
/*
 * The attempt failed, or its connection is lost: an errno. -EBUSY: rejected because the peer's own
 * request was pending. Ignored for an abandoned attempt.
 */
void sacache_peer_failed(struct sacache_peer *peer, uint32_t attempt, int status);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
