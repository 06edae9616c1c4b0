/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Room in the heap for many small objects. Any thread. */
#ifndef URXE_HOST_HEAP_H
#define URXE_HOST_HEAP_H

#include <stddef.h>

/* About so many bytes are going to be allocated by this thread, in small pieces, and kept. */
void urxe_heap_expect(size_t bytes);

#endif
