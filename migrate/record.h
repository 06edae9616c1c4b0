/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What an agent knows of a vGUID, and the line of text that is its form in the journal and in
 * messages:
 *
 *	guid=0x02c9… guest=guest7 state=here epoch=3 peer=h9 function=2 lid=513 lmc=0 pkeys=0xffff,0x8001
 *	fence=0x1f… after a fence, or an addition; wanted=3 wait=60000 while a function is asked for
 *
 * Members come in any order; unknown ones are an error, since what they mean could be what keeps
 * two ports from having one GUID. Pure functions.
 */
#ifndef MIGRATE_RECORD_H
#define MIGRATE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "migrate/move.h"

#define RECORD_NAME_LEN 64 /* of guests and hosts, with the end */
#define RECORD_PKEYS	32
#define RECORD_LINE_LEN 1024
#define RECORD_WAIT_MAX 86400000 /* ms */
/* Of a guest that a host takes: there are numbers left for what happens to it later. */
#define RECORD_LAST_EPOCH (UINT32_MAX - 65536)

struct record {
	uint64_t guid;
	char guest[RECORD_NAME_LEN];
	enum move_state state;
	uint32_t epoch; /* one more at each change of owner */
	/* A random number, since it was added, or a person said that a host that may know it is
	 * off, until all agents have confirmed that they do not have it; 0: confirmed. */
	uint64_t fence;
	char peer
		[RECORD_NAME_LEN]; /* the other host of a move, or the one that has to confirm it; "" */
	int function;		   /* of this host; -1: none */
	int wanted;    /* asking: the function that it is to have at the other host; -1: any */
	uint64_t wait; /* asking: ms for which a refusal is asked again */
	uint64_t port; /* shared-port: the GUID of the port of the host where it is; 0: none */
	uint16_t lid;  /* which the SM gave it last; 0: not known */
	uint8_t lmc;
	uint16_t pkeys[RECORD_PKEYS]; /* the function's table, by index; 0: none */
	unsigned num_pkeys;
};

/* Letters, digits, '.', '_', '-'; not longer than RECORD_NAME_LEN allows, and not empty. */
bool record_name_valid(const char *name);

/*
 * Which of two records of a vGUID is the later one, at hosts that cannot ask each other: by epoch,
 * then by fence. All hosts get the same answer. <0: a is earlier; 0: of the same change of owner.
 */
int record_order(const struct record *a, const struct record *b);

/* The line, without its end, into RECORD_LINE_LEN bytes; the length. */
size_t record_format(const struct record *record, char *line);
/* Text of a length, without its end. A guest and a state have to be there. -EINVAL. */
int record_parse(struct record *record, const char *line, size_t len);

/* "0xffff,0x8001"; -EINVAL. */
int record_parse_pkeys(struct record *record, const char *text, size_t len);

#endif
