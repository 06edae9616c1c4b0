/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The storm: one machine, the hub, loses its link, and all its connections with it; both ends of
 * each come back. One thread, but for those of libsacache's.
 */
#ifndef RECONNECT_STORM_H
#define RECONNECT_STORM_H

#include <stdbool.h>
#include <stdint.h>

#include <sacache/reconnect.h>

struct options {
	unsigned peers, rounds;
	uint64_t seed;
	uint32_t backoff_min, backoff_max, timeout; /* ms */
	unsigned down;				    /* ms that the link is down at least */
	const char *ca_name;
	const char *link_down, *link_up; /* commands; NULL: the links are simulated */
	int console;			 /* OpenSM's, a TCP port here; 0: unknown */
	bool follow_sm;			 /* policy auto, else always */
	uint8_t (*gids)[16];		 /* the last is the hub's */
	unsigned ngids;
	const char *address; /* real connections to and from there */
};

/* What a storm of so many rounds came to. */
struct result {
	double first;	       /* s: all connected for the first time */
	double total, longest; /* s: over all rounds, from link up to all connected */
	uint64_t queries;      /* to the SA, as the library counts them */
	uint64_t attempts;     /* that needed a path */
	int64_t received;      /* MADs by the SA, as OpenSM's console counts them; -1: unknown */
	struct sacache_reconnect_stats stats;
};

double seconds(void);
void die(const char *what, int status) __attribute__((noreturn));
/* The attributes of either end's procedure. */
void set_reconnect(const struct options *options, struct sacache_reconnect_attr *attr);

/* Simulated connections; the cache has one port, port. */
void storm_simulated(const struct options *options, struct sacache *cache, unsigned port,
		     struct result *result);
/* Connections of rdma_cm's. */
void storm_real(const struct options *options, struct result *result);

#endif
