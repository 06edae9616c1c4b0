/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The connection manager of this process: a struct urxe_cm on the engine and on QP 1. It runs while
 * an rdma_cm file is open, and after that until the connections that were closed are over.
 */
#ifndef URXE_CM_MANAGER_H
#define URXE_CM_MANAGER_H

#include "cm/connection.h"

/* Says which process of a host a message of the communication manager is for. Once, before all
 * else. */
void urxe_manager_init(void);
/* A file was opened or closed. Without the engine lock. -errno as from urxe_engine_get(). */
int urxe_manager_get(void);
void urxe_manager_put(void);
/* The same, whatever is not over yet: the last user has no more to say. */
void urxe_manager_end(void);
/* The manager; NULL when it does not run. Under the engine lock. */
struct urxe_cm *urxe_manager(void);
/* In the child of a fork. */
void urxe_manager_forked(void);

#endif
