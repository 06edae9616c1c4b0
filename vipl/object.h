/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The memory of objects that have handles. It is kept for the next object of the kind, so that a
 * thread that holds a pointer too long still finds one of its kind. Any thread.
 */
#ifndef VIPL_OBJECT_H
#define VIPL_OBJECT_H

#include <stddef.h>

#include "vipl/handle.h"

/* Zeroed when it is new, as it was left when not. NULL: no memory. All of a kind have one size. */
void *vipl_object_get(enum vipl_kind kind, size_t size);
void vipl_object_put(enum vipl_kind kind, void *object);

/* Around fork(), so that the child can make objects. */
void vipl_objects_lock(void);
void vipl_objects_unlock(void);

#endif
