// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Buffers for descriptors with many segments (bounce.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vipl/bounce.h"
#include "vipl/memory.h"
#include "vipl/queue.h"
#include "vipl/segments.h"

struct vipl_bounce {
	char *addr;
	struct vipl_window window;
	struct ibv_sge segments[]; /* of the window, for receives */
};

static void gather(char *to, const struct ibv_sge *list, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		memcpy(to, (const void *)(uintptr_t)list[i].addr, list[i].length);
		to += list[i].length;
	}
}

static struct vipl_bounce *create(struct vipl_domain *domain, const struct ibv_sge *list,
				  const struct vipl_window *window, uint32_t *lkey)
{
	size_t size = window->count * sizeof(struct ibv_sge);
	struct vipl_bounce *bounce = malloc(sizeof(*bounce) + size);
	void *addr;

	if (!bounce)
		return NULL;
	if (vipl_buffer_get(domain, window->length, &addr, lkey)) {
		free(bounce);
		return NULL;
	}
	bounce->addr = addr;
	bounce->window = *window;
	memcpy(bounce->segments, list + window->first, size);
	return bounce;
}

int vipl_bounce_fit(struct vipl_slot *slot, struct vipl_domain *domain, struct ibv_sge *list,
		    unsigned count, unsigned room, bool recv)
{
	struct vipl_window window = vipl_segments_window(list, count, room);
	struct vipl_bounce *bounce;
	uint32_t lkey;

	bounce = create(domain, list, &window, &lkey);
	if (!bounce)
		return -ENOMEM;
	if (!recv)
		gather(bounce->addr, list + window.first, window.count);
	list[window.first] = (struct ibv_sge){
		.addr = (uintptr_t)bounce->addr, .length = window.length, .lkey = lkey};
	memmove(list + window.first + 1, list + window.first + window.count,
		(count - window.first - window.count) * sizeof(*list));
	slot->bounce = bounce;
	return count - window.count + 1;
}

void vipl_bounce_scatter(struct vipl_slot *slot, struct vipl_domain *domain, uint64_t length)
{
	const struct vipl_bounce *bounce = slot->bounce;
	const char *from = bounce->addr;
	uint64_t left = length > bounce->window.offset ? length - bounce->window.offset : 0;

	for (unsigned i = 0; i < bounce->window.count && left; i++) {
		const struct ibv_sge *segment = &bounce->segments[i];
		uint64_t part = segment->length < left ? segment->length : left;

		memcpy((void *)(uintptr_t)segment->addr, from, part);
		from += part;
		left -= part;
	}
	vipl_bounce_drop(slot, domain);
}

void vipl_bounce_drop(struct vipl_slot *slot, struct vipl_domain *domain)
{
	if (!slot->bounce)
		return;
	vipl_buffer_put(domain, slot->bounce->addr);
	free(slot->bounce);
	slot->bounce = NULL;
}
