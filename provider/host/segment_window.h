/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Windows: files of shared memory beside the host segment, "<segment>.<kind><slot>" (mode 0600),
 * that a process shows to the others of its host segment. Named files and not memfds: a process
 * that may open the host segment may open them, also from another pid namespace, and no descriptor
 * need be kept or passed. A window goes with its slot: the process that reaps the slot removes the
 * name, and mappings that others still have lead to memory that nobody else uses.
 *
 * A window has its full length from the beginning and is a hole; what is written must be backed
 * first, so that a full /dev/shm is -ENOSPC and not SIGBUS.
 *
 * Any thread. Callers close the descriptors soon with urxe_libc.close().
 */
#ifndef URXE_HOST_SEGMENT_WINDOW_H
#define URXE_HOST_SEGMENT_WINDOW_H

#include <stdbool.h>
#include <stddef.h>

#include "host/segment.h"

enum urxe_window_kind {
	URXE_WINDOW_RINGS = 'w',   /* written by its neighbours: wire/shm.c */
	URXE_WINDOW_TABLES = 't',  /* read by its neighbours */
	URXE_WINDOW_RECORDS = 'r', /* read by the survivors: segment_records.c */
	URXE_WINDOW_DEAD = 'd',	   /* records, when their process has died */
};

/* Makes this process's window of a kind, in place of what an earlier owner of the slot may have
 * left. A descriptor (read and write) or -errno. */
int urxe_window_create(struct urxe_segment *seg, enum urxe_window_kind kind, size_t size);
/* Opens the window of a slot: a descriptor, -ENOENT when it has none, -EACCES when it is not this
 * user's, -EPROTO when it is shorter than size. */
int urxe_window_open(struct urxe_segment *seg, unsigned slot, enum urxe_window_kind kind,
		     bool writable, size_t size);
/* Backs a part of it, which reads as zeros then unless it was backed before. 0 or -ENOSPC. */
int urxe_window_back(int fd, size_t offset, size_t len);
/* Maps a part of one, for this process and not for its children; NULL with errno: no memory. */
void *urxe_window_map(int fd, size_t offset, size_t len);
/* Removes the name of this process's window. */
void urxe_window_remove(struct urxe_segment *seg, enum urxe_window_kind kind);

#endif
