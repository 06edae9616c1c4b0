/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Which clients wait for an answer, in memory that outlives a daemon that is killed: systemd keeps
 * it as it keeps their connections, and the next one tells them that nothing came of it. A client
 * is known by its socket's inode, which is the same for each descriptor of it.
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

/* A place, or -1: none was left, and nothing is noted. */
int acm_pending_add(struct acm_pending *pending, int fd, const uint8_t header[ACM_HEADER_SIZE]);
void acm_pending_remove(struct acm_pending *pending, int place);

/* What the last daemon left: whether that client waits. */
bool acm_pending_find(const struct acm_pending *pending, int fd, uint8_t header[ACM_HEADER_SIZE]);
void acm_pending_clear(struct acm_pending *pending);

#endif
