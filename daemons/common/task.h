/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Work that has to wait, for a disk or for a peer, in a thread of its own, so that the loop does
 * not wait.
 */
#ifndef DAEMON_TASK_H
#define DAEMON_TASK_H

#include <event2/event.h>

struct task;

/*
 * work(arg) runs in a new thread; afterwards done(arg) is called in the loop's thread and the task
 * is gone. -errno: neither is called.
 */
int task_start(struct event_base *base, struct task **task, void (*work)(void *arg),
	       void (*done)(void *arg), void *arg);
/* Waits for work to return; done is not called. */
void task_finish(struct task *task);

#endif
