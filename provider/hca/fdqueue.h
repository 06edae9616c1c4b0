/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A queue of pending events behind a real descriptor, so that poll, epoll, O_NONBLOCK and signals
 * work on it as they do on the kernel's: an eventfd in semaphore mode counts the entries.
 */
#ifndef URXE_HCA_FDQUEUE_H
#define URXE_HCA_FDQUEUE_H

#include <pthread.h>
#include <urcu/list.h>

struct urxe_fdqueue {
	pthread_mutex_t lock;
	struct cds_list_head entries;
	int fd;
};

int urxe_fdqueue_init(struct urxe_fdqueue *queue);
void urxe_fdqueue_fini(struct urxe_fdqueue *queue);
/* Adds an entry, under queue->lock. */
void urxe_fdqueue_push(struct urxe_fdqueue *queue, struct cds_list_head *entry);
/* Removes an entry that nobody took, under queue->lock. */
void urxe_fdqueue_remove(struct urxe_fdqueue *queue, struct cds_list_head *entry);
/*
 * Waits for an entry and returns it with queue->lock held; NULL, errno set and no lock when the
 * descriptor does not block and there is none. A cancellation point.
 */
struct cds_list_head *urxe_fdqueue_take(struct urxe_fdqueue *queue);

#endif
