/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "hca/fdqueue.h"
#include "host/fd.h"
#include "host/libc.h"

int urxe_fdqueue_init(struct urxe_fdqueue *queue)
{
	queue->fd = urxe_fd_keep(urxe_libc.eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE));
	if (queue->fd < 0)
		return -errno;
	pthread_mutex_init(&queue->lock, NULL);
	CDS_INIT_LIST_HEAD(&queue->entries);
	return 0;
}

void urxe_fdqueue_fini(struct urxe_fdqueue *queue)
{
	urxe_fd_close(queue->fd);
	pthread_mutex_destroy(&queue->lock);
}

void urxe_fdqueue_push(struct urxe_fdqueue *queue, struct cds_list_head *entry)
{
	uint64_t one = 1;

	cds_list_add_tail(entry, &queue->entries);
	(void)!syscall(SYS_write, queue->fd, &one, sizeof(one));
}

void urxe_fdqueue_remove(struct urxe_fdqueue *queue, struct cds_list_head *entry)
{
	uint64_t count;
	const struct iovec iov = {&count, sizeof(count)};

	cds_list_del_init(entry);
	/* Its count goes too, without blocking; where the kernel cannot do that, the next reader
	 * finds the queue empty and waits on. */
	(void)!syscall(SYS_preadv2, queue->fd, &iov, 1, -1L, -1L, RWF_NOWAIT);
}

struct cds_list_head *urxe_fdqueue_take(struct urxe_fdqueue *queue)
{
	struct cds_list_head *entry;
	uint64_t count;

	for (;;) {
		if (urxe_libc.read(queue->fd, &count, sizeof(count)) < 0)
			return NULL;
		pthread_mutex_lock(&queue->lock);
		if (!cds_list_empty(&queue->entries)) {
			entry = queue->entries.next;
			cds_list_del_init(entry);
			return entry;
		}
		pthread_mutex_unlock(&queue->lock);
	}
}
