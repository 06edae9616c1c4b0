/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the survivors of a process need to know to end its connections decently: records of a fixed
 * size, opaque here, in a file of each slot beside the host segment (mode 0600). The owner writes them,
 * whoever reaps its slot reads them, once; the file goes with either.
 *
 * Death at any instruction leaves each record whole or absent: a record is written to a place that
 * is not in use, and then marked.
 *
 * The owner's calls: one thread at a time (the engine lock).
 */
#ifndef URXE_HOST_SEGMENT_RECORDS_H
#define URXE_HOST_SEGMENT_RECORDS_H

#include "host/segment.h"

#define URXE_RECORD_BYTES 120

/*
 * Puts a record on file and its number in *index. -ENOSPC: no room (nothing is logged: the
 * connection works without). The first call makes the file.
 */
int urxe_segment_records_put(struct urxe_segment *seg, const uint8_t record[URXE_RECORD_BYTES],
			     uint32_t *index);
void urxe_segment_records_clear(struct urxe_segment *seg, uint32_t index);

/* Inside the callback of urxe_segment_reap(): calls fn for each record that the dead slot left. */
void urxe_segment_records_walk(struct urxe_segment *seg, unsigned slot,
			       void (*fn)(const uint8_t record[URXE_RECORD_BYTES], void *arg),
			       void *arg);

#endif
