// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The table of handles (handle.h). Changes are made under one mutex. */
#include <pthread.h>
#include <stddef.h>

#include "vipl/handle.h"
#include "vipl/object.h"

struct vipl_handle_entry vipl_handle_table[VIPL_HANDLES];

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t generation;
static unsigned next; /* where the search for a free entry begins; a handle comes back late */
static unsigned used; /* no entry at or beyond it has ever been in use */

static void before_fork(void)
{
	pthread_mutex_lock(&table_lock);
	vipl_objects_lock();
}

static void in_parent(void)
{
	vipl_objects_unlock();
	pthread_mutex_unlock(&table_lock);
}

static void in_child(void)
{
	for (unsigned i = 0; i < used; i++)
		atomic_store_explicit(&vipl_handle_table[i].handle, 0, memory_order_relaxed);
	vipl_objects_unlock();
	pthread_mutex_unlock(&table_lock);
}

static void watch_forks(void)
{
	pthread_atfork(before_fork, in_parent, in_child);
}

void *vipl_handle_create(enum vipl_kind kind, void *object)
{
	uint64_t handle = 0;

	pthread_once(&once, watch_forks);
	pthread_mutex_lock(&table_lock);
	for (unsigned i = 0; i < VIPL_HANDLES && !handle; i++, next++) {
		unsigned index = next % VIPL_HANDLES;
		struct vipl_handle_entry *entry = &vipl_handle_table[index];

		if (atomic_load_explicit(&entry->handle, memory_order_relaxed))
			continue;
		handle = ++generation << 20 | (uint64_t)kind << 16 | index;
		atomic_store_explicit(&entry->object, object, memory_order_release);
		atomic_store_explicit(&entry->handle, handle, memory_order_release);
		if (index >= used)
			used = index + 1;
	}
	pthread_mutex_unlock(&table_lock);
	return (void *)(uintptr_t)handle;
}

void vipl_handle_destroy(void *handle)
{
	uint64_t value = (uintptr_t)handle;

	pthread_mutex_lock(&table_lock);
	atomic_store_explicit(&vipl_handle_table[value % VIPL_HANDLES].handle, 0,
			      memory_order_release);
	pthread_mutex_unlock(&table_lock);
}
