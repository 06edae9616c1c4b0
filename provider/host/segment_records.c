// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The records of a slot: a file beside the host segment, "<segment>.r<slot>", which the owner maps.
 *
 *	+---------------+---------------+-----+	128 bytes each: a word that is the kind while the
 *	| kind, record  | kind, record  | ... |	record counts, else 0, 4 spare bytes, 120 of record
 *	+---------------+---------------+-----+
 *
 * It has its full length from the beginning and is allocated as it is needed. When a process has
 * died the process that reaps its slot renames the file to "<segment>.d<slot>" and raises the
 * slot's orphan flag; the next process that takes the dead (one with a connection manager) removes
 * the name and reads. Should a second process die in the same slot before anybody does, only its
 * records are kept: the peers of the first find out by their retries.
 *
 * put, clear: the owner's engine lock. orphan, take: the segment lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/fd.h"
#include "host/guardian.h"
#include "host/libc.h"
#include "host/segment_layout.h"
#include "host/segment_records.h"
#include "host/segment_window.h"
#include "host/sysinfo.h"

#define MAX_RECORDS 65536
#define GROW	    64 /* records that are allocated at a time: two pages */

struct record {
	uint32_t kind; /* enum urxe_record_kind; 0: not in use */
	uint32_t spare;
	uint8_t bytes[URXE_RECORD_BYTES];
};
_Static_assert(sizeof(struct record) == 128, "as in the picture");

struct segment_records {
	struct record *map;
	uint32_t backed;   /* records that the file has room for */
	uint32_t num_free; /* of them; their numbers: */
	uint32_t free[MAX_RECORDS];
};

static int make_file(struct urxe_segment *seg, struct segment_records *rec)
{
	int fd = urxe_window_create(seg, URXE_WINDOW_RECORDS, sizeof(struct record) * MAX_RECORDS);

	if (fd < 0)
		return fd;
	rec->map = urxe_window_map(fd, 0, sizeof(struct record) * MAX_RECORDS);
	urxe_libc.close(fd);
	if (rec->map)
		return 0;
	urxe_window_remove(seg, URXE_WINDOW_RECORDS);
	return -ENOMEM;
}

static struct segment_records *records_of(struct urxe_segment *seg)
{
	struct segment_records *rec = seg->records;

	if (rec)
		return rec;
	rec = calloc(1, sizeof(*rec)); /* large: of its pages those are there that are used */
	if (rec && make_file(seg, rec)) {
		free(rec);
		rec = NULL;
	}
	seg->records = rec;
	return rec;
}

/* The file is not kept open: descriptors are the program's to close. */
static int grow(struct urxe_segment *seg, struct segment_records *rec)
{
	int fd, ret;

	if (rec->backed + GROW > MAX_RECORDS)
		return -ENOSPC;
	fd = urxe_window_open(seg, seg->slot, URXE_WINDOW_RECORDS, true, 0);
	if (fd < 0)
		return -ENOSPC;
	ret = urxe_window_back(fd, rec->backed * sizeof(struct record),
			       GROW * sizeof(struct record));
	urxe_libc.close(fd);
	if (ret)
		return -ENOSPC;
	for (uint32_t i = rec->backed + GROW; i-- > rec->backed;)
		rec->free[rec->num_free++] = i;
	rec->backed += GROW;
	return 0;
}

int urxe_segment_records_put(struct urxe_segment *seg, enum urxe_record_kind kind,
			     const uint8_t record[URXE_RECORD_BYTES], uint32_t *index)
{
	struct segment_records *rec;

	if (!seg->slot)
		return -ENODEV;
	urxe_guardian_want(seg);
	rec = records_of(seg);
	if (!rec || (!rec->num_free && grow(seg, rec)))
		return -ENOSPC;
	*index = rec->free[--rec->num_free];
	memcpy(rec->map[*index].bytes, record, URXE_RECORD_BYTES);
	__atomic_store_n(&rec->map[*index].kind, kind, __ATOMIC_RELEASE);
	return 0;
}

uint8_t *urxe_segment_record(struct urxe_segment *seg, uint32_t index)
{
	return seg->records->map[index].bytes;
}

void urxe_segment_records_clear(struct urxe_segment *seg, uint32_t index)
{
	struct segment_records *rec = seg->records;

	if (!rec || index >= rec->backed || !rec->map[index].kind)
		return;
	__atomic_store_n(&rec->map[index].kind, 0, __ATOMIC_RELEASE);
	rec->free[rec->num_free++] = index;
}

void segment_records_forked(struct urxe_segment *seg)
{
	/* The file's mapping is not here. */
	free(seg->records);
	seg->records = NULL;
}

void segment_records_close(struct urxe_segment *seg)
{
	if (!seg->records)
		return;
	urxe_window_remove(seg, URXE_WINDOW_RECORDS);
	munmap(seg->records->map, sizeof(struct record) * MAX_RECORDS);
	free(seg->records);
	seg->records = NULL;
}

/* ---- of the dead ---- */

void segment_records_orphan(struct urxe_segment *seg, unsigned slot)
{
	char from[SEGMENT_NAME_LEN], to[SEGMENT_NAME_LEN];

	segment_slot_file(seg, URXE_WINDOW_RECORDS, slot, from);
	segment_slot_file(seg, URXE_WINDOW_DEAD, slot, to);
	/* In this order, so that a death in between leaves no file that no process looks for. */
	__atomic_store_n(&seg->map->orphan[slot], 1, __ATOMIC_RELEASE);
	if (rename(from, to) < 0)
		unlink(to);
}

static unsigned next_orphan(const struct urxe_segment *seg)
{
	for (unsigned s = URXE_SLOT_FIRST; s <= urxe_slots.last; s++)
		if (__atomic_load_n(&seg->map->orphan[s], __ATOMIC_RELAXED))
			return s;
	return 0;
}

unsigned urxe_segment_dead_take(struct urxe_segment *seg)
{
	char name[SEGMENT_NAME_LEN];
	unsigned slot;

	if (seg->dead_fd >= 0)
		urxe_libc.close(seg->dead_fd);
	seg->dead_fd = -1;
	if (!seg->slot || !next_orphan(seg))
		return 0;
	urxe_segment_lock(seg);
	slot = next_orphan(seg);
	if (slot) {
		segment_slot_file(seg, URXE_WINDOW_DEAD, slot, name);
		seg->dead_fd = urxe_window_open(seg, slot, URXE_WINDOW_DEAD, false, 0);
		unlink(name);
		__atomic_store_n(&seg->map->orphan[slot], 0, __ATOMIC_RELEASE);
	}
	urxe_segment_unlock(seg);
	return slot;
}

/* Where the file has data at or after an offset; its end: nowhere. */
static off_t next_data(int fd, off_t at, off_t end)
{
	off_t data = lseek(fd, at, SEEK_DATA);

	if (data < 0)
		return errno == ENXIO ? end : at; /* a file system that does not know its holes */
	return data - data % (off_t)sizeof(struct record);
}

void urxe_segment_records_walk(struct urxe_segment *seg, enum urxe_record_kind kind,
			       void (*fn)(const uint8_t *record, void *arg), void *arg)
{
	struct record records[GROW];
	struct urxe_stat st;
	ssize_t len;
	off_t at;

	if (seg->dead_fd < 0 || urxe_fstat(seg->dead_fd, &st))
		return;
	for (at = 0; (at = next_data(seg->dead_fd, at, st.size)) < (off_t)st.size; at += len) {
		len = urxe_libc.pread(seg->dead_fd, records, sizeof(records), at);
		if (len < (ssize_t)sizeof(records[0]))
			return;
		len -= len % (ssize_t)sizeof(records[0]);
		for (size_t i = 0; i < len / sizeof(records[0]); i++)
			if (records[i].kind == kind)
				fn(records[i].bytes, arg);
	}
}
