/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Raising the reserved field of path records, by which an SM that takes part in the method tells
 * nodes to cache them (record.h). Pure function: any thread, no locks.
 */
#ifndef SACACHE_RAISE_H
#define SACACHE_RAISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SA_RAISE_SIZE 6

/*
 * Puts value into the records of a MAD that an SA sends, if it is an answer with path records: one
 * of Get, a table before it is cut into segments, or a segment of it, whose records may begin in
 * the one before and end in the next. Other MADs are left alone. Returns how many records were
 * touched.
 */
unsigned sa_raise(uint8_t *mad, size_t length, const uint8_t value[SA_RAISE_SIZE]);
/* The value as text: up to 12 hexadecimal digits. False: it is none, or 0. */
bool sa_raise_parse(const char *text, uint8_t value[SA_RAISE_SIZE]);

#endif
