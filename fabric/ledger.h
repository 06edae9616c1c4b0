/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Ledgers: what each process has sent through the fabric. Packets of programs do not pass fabricd.
 * The sender of one adds to a row of its own that stands for the route, which costs two additions
 * however long the route is; fabricd adds up what the rows have become since it last looked, at
 * every port of their routes, before it says what a port has counted.
 *
 * A ledger is a memory file that its process made and sealed against shrinking, and handed to
 * fabricd over a connection of kind FABRIC_LEDGER. It is fabricd's to read until the connection
 * ends, however that happens, and once more then: nothing of it is lost. One process writes, under
 * its engine's lock; a row never changes once size has been written, but for packets and words.
 *
 *	0	struct fabric_row and its links, padded to FABRIC_ROW_ALIGN bytes
 *	size	the next one; a size of 0 ends them
 *
 * By the connection the process tells, as four bytes, where a row begins whose packets have come to
 * an Armed port: fabricd makes it Active (7.2.7), and answers with the same bytes.
 */
#ifndef URXE_FABRIC_LEDGER_H
#define URXE_FABRIC_LEDGER_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define FABRIC_LEDGER_LEN (64u << 20) /* pages that nobody has written cost nothing */
#define FABRIC_ROW_ALIGN  64u
#define FABRIC_TREE_MAX	  4096u /* links of a row */

struct fabric_row {
	_Atomic uint64_t packets, words; /* that went this way; words of four bytes */
	uint32_t lost_at;		 /* the port that counts the loss */
	uint8_t loss;			 /* enum fabric_loss */
	uint8_t multicast;
	uint8_t sl;
	uint8_t pad;
	uint32_t num_links;
	_Atomic uint32_t size; /* bytes; written last */
	uint32_t links[];      /* the ports that the packets leave by */
};
static_assert(offsetof(struct fabric_row, links) == 32, "layout seen by fabricd");

static inline uint32_t fabric_row_size(uint32_t num_links)
{
	uint32_t bytes = sizeof(struct fabric_row) + num_links * sizeof(uint32_t);

	return (bytes + FABRIC_ROW_ALIGN - 1) & ~(FABRIC_ROW_ALIGN - 1);
}

struct fabric;
struct ledger;

/* ledger.c, fabricd's thread. A ledger in a file, which stays the caller's; NULL: it is none. */
struct ledger *ledger_open(struct fabric *f, int fd);
/* Adds up what all ledgers have become. */
void ledgers_collect(struct fabric *f);
/* The same for one, which then ends. */
void ledger_close(struct fabric *f, struct ledger *l);
/* Packets of the row that begins there have crossed its links, of which
 * some lead to Armed ports. */
void ledger_passed(struct fabric *f, const struct ledger *l, uint32_t row);

#endif
