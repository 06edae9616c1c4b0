/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Lists of scatter/gather elements, and how a long one is made to fit a device that takes few of
 * them. Pure.
 */
#ifndef VIPL_SEGMENTS_H
#define VIPL_SEGMENTS_H

#include <stdint.h>
#include <infiniband/verbs.h>

/* Appends a piece of memory; one that goes on where the last one ends, with its key, is merged into
 * it. */
static inline unsigned vipl_segments_append(struct ibv_sge *list, unsigned count, uint64_t addr,
					    uint32_t length, uint32_t lkey)
{
	struct ibv_sge *last = list + count - 1;

	if (!length)
		return count;
	if (count && last->addr + last->length == addr && last->lkey == lkey &&
	    (uint64_t)last->length + length <= UINT32_MAX) {
		last->length += length;
		return count;
	}
	list[count] = (struct ibv_sge){.addr = addr, .length = length, .lkey = lkey};
	return count + 1;
}

/* A run of elements, and where in the message it begins. */
struct vipl_window {
	unsigned first, count;
	uint64_t offset, length;
};

/*
 * The run of elements that has to be replaced by one buffer so that room elements are left: of all
 * such runs the one with the fewest bytes. count > room >= 1.
 */
struct vipl_window vipl_segments_window(const struct ibv_sge *list, unsigned count, unsigned room);

#endif
