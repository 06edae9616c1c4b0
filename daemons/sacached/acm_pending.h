/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The clients that wait for an answer, in memory that outlives a killed daemon: systemd keeps it
 * as it keeps their connections, and the next daemon answers them with an error. A client is
 * identified by its socket's inode, which is the same for each descriptor of it.
 *
 *	memory: entries of 24 bytes ──► inode 64 (0: free), the request's header
 *
 * The loop's thread. NULL, where there is no systemd, does nothing.
 */
#ifndef SACACHED_ACM_PENDING_H
#define SACACHED_ACM_PENDING_H

#include "daemons/sacached/acm.h"
#include "daemons/sacached/sacached.h"

struct acm_pending;

struct acm_pending *acm_pending_open(struct sacached *d);
void acm_pending_close(struct acm_pending *pending);

/* A place, or -1: none was left, and the client is not recorded. */
int acm_pending_add(struct acm_pending *pending, int fd, const uint8_t header[ACM_HEADER_SIZE]);
void acm_pending_remove(struct acm_pending *pending, int place);

/* Whether that client was waiting when the last daemon ended. */
bool acm_pending_find(const struct acm_pending *pending, int fd, uint8_t header[ACM_HEADER_SIZE]);
void acm_pending_clear(struct acm_pending *pending);

#endif
