/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The guardian of a host segment: a small process that outlives the others. When one of them has
 * died, it ends the dead one's connections in its name, as a kernel would; when none is left, it
 * ends as well. At most one guardian serves a segment. It holds the lock on a byte of the segment's
 * file while it does. Whichever process comes to need one and finds that byte free takes the lock,
 * and starts a guardian that takes it over.
 *
 * The program is liburxe.so itself, which can be executed (preload/guardian.c), so that it is there
 * wherever the library is, and in the same version.
 */
#ifndef URXE_HOST_GUARDIAN_H
#define URXE_HOST_GUARDIAN_H

#include <stdbool.h>

#include "host/segment.h"

/* ---- for the others ---- */

/* The file to execute and the dynamic linker that does so where the file's mode forbids it. Without
 * this call, or with NULL, no guardian is started. The strings are kept. Before any other call. */
void urxe_guardian_program(const char *path, const char *linker);
/* This process has something to be ended in its name: there must be a guardian. Cheap after the
 * first call. The engine lock. */
void urxe_guardian_want(struct urxe_segment *seg);
/* Is the first call of urxe_guardian_keep() still to come? Any thread. */
bool urxe_guardian_is_wanted(const struct urxe_segment *seg);
/* Starts the guardian that is wanted, and looks every second whether it is there: one that was
 * killed is replaced. Waits for the new process to be executed. One thread, without the engine
 * lock; now: urxe_now(). */
void urxe_guardian_keep(struct urxe_segment *seg, uint64_t now);
/* After a slot was given up: the guardian looks at once whether it is still needed. */
void urxe_guardian_notify(struct urxe_segment *seg);

/* ---- for the guardian, with a view of the segment ---- */

/* Becomes the guardian: takes over the lock of the process that has started it. 0; -EBADF: none
 * has; -ESTALE: its segment is another one. */
int urxe_guardian_begin(struct urxe_segment *seg);
/* How many processes live; *dead: has one died that nobody has cleaned up after? */
unsigned urxe_guardian_look(struct urxe_segment *seg, bool *dead);
/* Sleeps until a process leaves, or for some milliseconds. */
void urxe_guardian_wait(struct urxe_segment *seg, unsigned ms);
/* Would a process that joins now join this segment? Not if its file was removed or replaced. */
bool urxe_guardian_can_join(const struct urxe_segment *seg);
/* Ceases to be the guardian if no process lives, and none is dead. A process that joins later finds
 * none. */
bool urxe_guardian_end(struct urxe_segment *seg);

#endif
