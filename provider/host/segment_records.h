/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the survivors of a process need to know to end its connections and QPs decently: records of
 * a fixed size, opaque here, in a file of each slot beside the host segment (mode 0600). The owner
 * writes them; when it has died another process reads them, once. The file goes when it was read,
 * or with an owner that leaves in good order.
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

enum urxe_record_kind {
	URXE_RECORD_CONNECTION = 1, /* cm/manager.c */
	URXE_RECORD_QP,		    /* hca/dead_qp.c */
};

/*
 * Puts a record on file and its number in *index. -ENOSPC: no room (nothing is logged: the
 * connection works without). The first call makes the file.
 */
int urxe_segment_records_put(struct urxe_segment *seg, enum urxe_record_kind kind,
			     const uint8_t record[URXE_RECORD_BYTES], uint32_t *index);
/* Where it is: words in it may be changed in place. */
uint8_t *urxe_segment_record(struct urxe_segment *seg, uint32_t index);
void urxe_segment_records_clear(struct urxe_segment *seg, uint32_t index);

/*
 * A slot whose process has died since the last call, whose death was not yet reported to any
 * process of the host; 0: none. Every death is reported once, to one process. Until the next call
 * its records can be read: fn is called for each of that kind. One thread at a time.
 */
unsigned urxe_segment_dead_take(struct urxe_segment *seg);
void urxe_segment_records_walk(struct urxe_segment *seg, enum urxe_record_kind kind,
			       void (*fn)(const uint8_t *record, void *arg), void *arg);

#endif
