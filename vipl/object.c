// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Objects that are used again (object.h). A free one is linked through the 64 bytes in front of it,
 * which belong to nobody else.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "vipl/object.h"

#define ALIGNMENT 64

struct header {
	struct header *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct header *spare[VIPL_KIND_CONN + 1];

void vipl_objects_lock(void)
{
	pthread_mutex_lock(&lock);
}

void vipl_objects_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

void *vipl_object_get(enum vipl_kind kind, size_t size)
{
	struct header *header;

	pthread_mutex_lock(&lock);
	header = spare[kind];
	if (header)
		spare[kind] = header->next;
	pthread_mutex_unlock(&lock);
	if (!header) {
		size = (size + 2 * ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
		header = aligned_alloc(ALIGNMENT, size);
		if (!header)
			return NULL;
		memset(header, 0, size);
	}
	return (char *)header + ALIGNMENT;
}

void vipl_object_put(enum vipl_kind kind, void *object)
{
	struct header *header = (struct header *)((char *)object - ALIGNMENT);

	pthread_mutex_lock(&lock);
	header->next = spare[kind];
	spare[kind] = header;
	pthread_mutex_unlock(&lock);
}
