/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the subnet administrator knows of a port, by libibumad: questions of one MAD (15.2.5), which
 * wait for the answer. Each handle has one question under way; its lock keeps threads apart.
 */
#ifndef MIGRATE_SA_H
#define MIGRATE_SA_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sa {
	pthread_mutex_t lock;
	char ca[32];  /* "": the first */
	int port;     /* 0: the first that is active */
	uint64_t key; /* SM_Key, without which OpenSM tells nobody of P_Key tables */
	int fd, agent;
	uint32_t tid;
};

struct sa_port {
	uint16_t lid;
	uint8_t lmc;
	uint8_t state; /* of PortInfo: 4 is Active */
	uint8_t port;  /* number at its adapter */
	uint16_t pkeys[32];
};

struct sa_own_port {
	uint64_t prefix; /* of its subnet */
	uint64_t guid;
	uint8_t lmc;
};

/* Plain data: nothing is opened before the first question. */
void sa_init(struct sa *sa, const char *ca, int port, uint64_t key);
void sa_destroy(struct sa *sa);

/*
 * The end port with that GUID. 0; -ENOENT: the SA says that there is none; anything else: it is not
 * known. pkeys: its first block of P_Keys as well.
 */
int sa_find_port(struct sa *sa, uint64_t guid, bool pkeys, struct sa_port *port);
/* The port by which it is asked. -errno. */
int sa_own_port(struct sa *sa, struct sa_own_port *own);
/* The smallest LinearFDBCap of all switches (14.2.5.4). -errno; -ENOENT: there is none. */
int sa_smallest_linear_cap(struct sa *sa, uint16_t *cap);
/*
 * Tells the master SM that it is being handed the subnet over (SubnSet(SMInfo), 14.4.1), by which
 * OpenSM begins as a new master does: with guid2lid read again, if honor_guid2lid_file is TRUE.
 * -errno.
 */
int sa_hand_over(struct sa *sa);

/* What such an error means, with a cure. */
const char *sa_strerror(int error);

#endif
