/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The kernel's own rdma_cm behind an rdma_cm file of ours: where it has devices (rxe0, siw0,
 * mlx5_0), their ids live on the same event channel as those of urxe devices. It is opened when an
 * id first needs it. An id that was only made belongs to nobody yet; where it goes is decided when
 * it is bound or resolved:
 *
 *	an address of a netdev with a urxe device, or a route out of one     ours
 *	any other address or route                                           the kernel's
 *	bound to any address                                                 both, until a route decides;
 *	                                                                     a listener stays with both
 *
 * An id that the kernel has too has a twin there. Of an id that is the kernel's alone
 * (URXE_ID_FOREIGN) every command is passed on, with the twin's handle in it, and the kernel
 * answers. The program's uid is the twin's, so that the kernel's events name the program's ids by
 * themselves, and how many events were reported about an id is counted where they were reported.
 *
 * Any thread, without the engine lock unless it says otherwise. A mutex keeps two threads from
 * deciding about ids at once; it is taken before the engine lock.
 */
#ifndef URXE_CM_KERNEL_H
#define URXE_CM_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cm/ucma_command.h"

/* What functions here answer when the kernel has no part in it: the command is ours to carry
 * out. */
#define URXE_OURS 1

/* kernel.c: the kernel's file. */

/* Opens it, if it is not open yet. -errno: the kernel has none. */
int urxe_kernel_open(struct urxe_ucma *file);
void urxe_kernel_close(struct urxe_ucma *file);
/* Writes a command of len bytes to it. 0 or -errno; no cancellation point, and it does not wait. */
int urxe_kernel_command(struct urxe_ucma *file, uint32_t cmd, const void *body, uint16_t len,
			uint16_t out);
/* Reports the file's events from the next one on; at once if one waits already. */
void urxe_kernel_watch(struct urxe_ucma *file);
/* In the child of a fork. */
void urxe_kernel_forked(void);

/* kernel_twin.c: which of our handles a twin's is. Under the engine lock. */
void urxe_twin_set(struct urxe_twin *twin, enum urxe_handle_kind kind, uint32_t kernel,
		   uint32_t handle);
void urxe_twin_drop(struct urxe_twin *twin);
/* Our handle for one of the kernel's; UINT32_MAX: it has just gone. */
uint32_t urxe_twin_find(enum urxe_handle_kind kind, uint32_t kernel);
void urxe_twin_forked(void);

/* kernel_id.c: ids of the kernel's. 0, -errno or URXE_OURS. */

/* Waits for the decision that is being made, if there is one: afterwards the id is the kernel's
 * that an event of the kernel's is about. */
void urxe_kernel_settle(void);
/* Passes on a command about an id that is the kernel's. */
int urxe_kernel_pass(const struct urxe_command *c);
/* The command binds, resolves or listens on an id to be the kernel's, which carries it out. */
int urxe_kernel_take(const struct urxe_command *c, uint32_t handle);
/* The id, just bound to any address here, is bound there too. Only -EADDRINUSE counts. */
int urxe_kernel_bind_any(struct urxe_ucma *file, uint32_t handle);
/* The id is ours alone from now on. */
void urxe_kernel_leave(struct urxe_ucma *file, uint32_t handle);
/* A command about an id that both may have: the kernel's part in it. */
int urxe_kernel_also(const struct urxe_command *c, uint32_t handle);
/* After a listener of both could not listen here: the twin listens no longer. */
void urxe_kernel_unlisten(struct urxe_ucma *file, uint32_t handle);
/* Ends a twin. Returns the number of events that were reported about it. */
uint32_t urxe_kernel_destroy(struct urxe_ucma *file, uint32_t kernel);
/* Moves a twin to another file; *reported is increased. */
int urxe_kernel_migrate(struct urxe_ucma *from, struct urxe_ucma *to, uint32_t kernel,
			uint32_t *reported);
int urxe_kernel_join(const struct urxe_command *c, uint32_t handle);
int urxe_kernel_leave_mcast(const struct urxe_command *c, uint32_t handle, uint32_t *reported);

/* kernel_event.c: takes one event of the kernel's to the program's memory: 1, 0 when there is none,
 * -errno. */
int urxe_kernel_get_event(struct urxe_ucma *file, uint64_t response, uint16_t out);
/* Events of the kernel's may have gone from the file. */
void urxe_kernel_events_gone(struct urxe_ucma *file);

#endif
