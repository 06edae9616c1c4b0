// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The cheapest run of elements to copy (segments.h). */
#include "vipl/segments.h"

struct vipl_window vipl_segments_window(const struct ibv_sge *list, unsigned count, unsigned room)
{
	struct vipl_window best = {.count = count - room + 1}, window = best;

	for (unsigned i = 0; i < window.count; i++)
		window.length += list[i].length;
	best = window;
	while (window.first + window.count < count) {
		window.length += list[window.first + window.count].length;
		window.length -= list[window.first].length;
		window.offset += list[window.first].length;
		window.first++;
		if (window.length < best.length)
			best = window;
	}
	return best;
}
