/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * OpenSM's file guid2lid, by which it gives each port the LID that it had:
 *
 *	0x0002c90300a1b2c3 0x0012 0x0012	port GUID, first and last LID
 *						an empty line ends each entry
 *
 * OpenSM (osm_db_files.c) takes a line that follows without an empty one for more of the value
 * before, drops a last entry without one, and ends with status 0 at a line that it cannot read. So
 * what is written here is exactly that form, and what is read is taken line by line.
 *
 * Any thread; a struct guid2lid is its owner's.
 */
#ifndef MIGRATE_GUID2LID_H
#define MIGRATE_GUID2LID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define GUID2LID_MAX_LID     0xbfff /* the largest unicast LID (4.1.3) */
#define GUID2LID_MAX_ENTRIES GUID2LID_MAX_LID

struct guid2lid_entry {
	uint64_t guid;
	uint16_t min, max;
};

/* Sorted by GUID, each once. */
struct guid2lid {
	struct guid2lid_entry *entries;
	size_t count, room;
	/* Of the text it was read from. */
	unsigned
		damaged; /* lines that are no entry, entries without their end and second ones of a GUID */
	unsigned first_damaged; /* the first such line, from 1 */
};

void guid2lid_init(struct guid2lid *table);
void guid2lid_destroy(struct guid2lid *table);

/* Reads all entries that are whole; 0 even where lines are damaged. -ENOMEM, -EFBIG. */
int guid2lid_parse(struct guid2lid *table, const char *text, size_t len);
/* The file as OpenSM writes it; malloc()ed, NULL for want of memory. */
char *guid2lid_format(const struct guid2lid *table, size_t *len);

const struct guid2lid_entry *guid2lid_find(const struct guid2lid *table, uint64_t guid);
/* An entry that has one of these LIDs and another GUID. */
const struct guid2lid_entry *guid2lid_overlap(const struct guid2lid *table,
					      const struct guid2lid_entry *entry);
/* Without the entries that have one of these LIDs and another GUID; how many they were. */
unsigned guid2lid_drop_overlaps(struct guid2lid *table, const struct guid2lid_entry *entry);
/* Adds an entry, or replaces the one of its GUID. -EINVAL: no LIDs of a port, -ENOMEM, -EFBIG. */
int guid2lid_set(struct guid2lid *table, const struct guid2lid_entry *entry);

/* Reads a file; a file that is not there has no entries. -errno. */
int guid2lid_read(struct guid2lid *table, const char *path);

struct guid2lid_change {
	unsigned damaged; /* lines of the old file that were dropped; it is kept as PATH.damaged */
	unsigned rounds;  /* how often somebody else had written meanwhile */
	unsigned dropped; /* entries whose LIDs are others' now */
	bool written;	  /* false: the file was right already */
};

/*
 * Brings entries into the file. All others stay, also those that OpenSM writes at the same
 * moment: the new file changes places with the old one (renameat2, RENAME_EXCHANGE), and if that
 * is not the one that was read, what it has goes into the next. Where both have a GUID, entries
 * wins; of two writers' entries, the file's. -EADDRINUSE: an entry of another GUID has such a
 * LID (*other says which); nothing was written. -EAGAIN: another writer was faster each time
 * that it was tried; nothing is lost, and the next call goes on. -ENOSPC and other errors of
 * writing: the file is as it was.
 */
int guid2lid_update(const char *path, const struct guid2lid_entry *entries, size_t count,
		    struct guid2lid_change *change, size_t size, struct guid2lid_entry *other);
/*
 * The same for the file of a standby, which is to have what the master's has: an entry of another
 * GUID that has one of these LIDs is of a time before, and goes (change->dropped).
 */
int guid2lid_follow(const char *path, const struct guid2lid_entry *entries, size_t count,
		    struct guid2lid_change *change, size_t size);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
