/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The journal of an agent: what it knows of each vGUID, on the disk before anything is done about
 * it. A line for each change, of which the last of a GUID counts:
 *
 *	1a2b3c4d guid=0x0002c9… guest=guest7 state=clearing …
 *	CRC-32C of what follows the blank, in hex
 *
 * A last line that was not written to its end is cut off; a damaged one before it is an error,
 * because guessing which host has a GUID could give it to two. Lines of the past are dropped by
 * writing the file anew beside the old one. The file is locked, for an agent is alone on its
 * journal.
 *
 * One thread at a time.
 */
#ifndef MIGRATE_JOURNAL_H
#define MIGRATE_JOURNAL_H

#include <stddef.h>

#include "migrate/record.h"

struct journal {
	char *path;
	int fd;
	long end;	/* bytes that are whole */
	long reserved;	/* bytes behind those, of the last journal_reserve() */
	unsigned lines; /* since it was written anew */
	struct record *records;
	size_t count, room;
};

/*
 * Opens it, or makes it, and reads it. -EBADMSG: *line is damaged; -EPROTO: it was
 * written by another version; -EAGAIN: another process has it; -EINVAL: it is no regular
 * file; else -errno of files.
 */
int journal_open(struct journal *journal, const char *path, unsigned *line);
void journal_close(struct journal *journal);

struct record *journal_find(struct journal *journal, uint64_t guid);
/*
 * Puts down a record in the place of the one of its GUID; state MOVE_GONE forgets it. It is on the
 * disk when this returns 0; after an error nothing has changed. Pointers to records are invalid
 * afterwards.
 */
int journal_put(struct journal *journal, const struct record *record);
/*
 * Takes the room of that many whole moves on the disk, in advance: their records can be put down
 * when others have filled it. 0 also where the filesystem cannot do that; -errno, and then what was
 * reserved before stays.
 */
int journal_reserve(struct journal *journal, unsigned moves);

/* The lines of a text: for the fuzzer, and journal_open(). Returns how many bytes are whole lines.
 * */
long journal_replay(struct journal *journal, const char *text, size_t len, unsigned *bad_line);

#endif
