/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The queue of events of an rdma_cm file. It is under the engine lock; an eventfd says whether
 * there are any, here or in the kernel's queue (kernel.c), and a program that waits sleeps in a
 * read of that, without the lock, so that signals and cancellation act on it as on the kernel's.
 *
 * signalled is what was written to the eventfd and not read again, as far as the holder of the lock
 * can know: 1 or 0. A sleeper reads it without the lock and subtracts it when it has the lock;
 * until then no thread writes again, because that sleeper is awake and looks. It writes again if it
 * leaves events. So a burst of events costs as many system calls as a single one.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "cm/id.h"
#include "cm/kernel.h"
#include "hca/adapter.h"
#include "host/heap.h"
#include "host/libc.h"
#include "host/user_memory.h"

/* Kernels before 5.8 cannot read an eventfd without blocking: there a reader wakes up in vain. */
static uint64_t take_back(struct urxe_ucma *file)
{
	uint64_t count = 0;
	struct iovec iov = {&count, sizeof(count)};

	return preadv2(file->event_fd, &iov, 1, -1, RWF_NOWAIT) == sizeof(count) ? count : 0;
}

void urxe_ucma_tell(struct urxe_ucma *file)
{
	bool waits = !cds_list_empty(&file->events) || file->fired;
	uint64_t one = 1;

	if (waits && !file->signalled) {
		(void)!urxe_libc.write(file->event_fd, &one, sizeof(one));
		file->signalled = one;
	} else if (!waits && file->signalled) {
		file->signalled -= take_back(file);
	}
}

struct urxe_id_event *urxe_id_event_new(struct urxe_id *id, enum urxe_id_event_type type,
					int status)
{
	struct urxe_id_event *event = calloc(1, sizeof(*event));

	if (!event)
		return NULL;
	event->id = id;
	event->resp.uid = id->uid;
	event->resp.id = id->handle;
	event->resp.event = type;
	event->resp.status = status;
	return event;
}

void urxe_id_event_push(struct urxe_id_event *event)
{
	struct urxe_id *id = event->id;

	/* A request that is not accepted has no uid, and its program nothing to tell it by. */
	if (!id->uid && !event->conn) {
		free(event);
		return;
	}
	cds_list_add_tail(&event->node, &id->file->events);
	cds_list_add_tail(&event->id_node, &id->events);
	urxe_ucma_tell(id->file);
}

void urxe_id_report(struct urxe_id *id, enum urxe_id_event_type type, int status)
{
	struct urxe_id_event *event = urxe_id_event_new(id, type, status);

	if (event)
		urxe_id_event_push(event);
}

static void unlink_event(struct urxe_id_event *event)
{
	if (event->conn)
		event->conn->request = NULL;
	cds_list_del(&event->node);
	cds_list_del(&event->id_node);
}

void urxe_id_event_drop(struct urxe_id_event *event)
{
	unlink_event(event);
	urxe_ucma_tell(event->id->file);
	free(event);
}

/* A listener's requests that nobody has taken move with it, or they would be on the wrong file. */
void urxe_id_migrate(struct urxe_id *id, struct urxe_ucma *to)
{
	struct urxe_ucma *from = id->file;
	struct urxe_id_event *event;

	if (from == to)
		return;
	cds_list_del(&id->node);
	cds_list_add_tail(&id->node, &to->ids);
	id->file = to;
	cds_list_for_each_entry (event, &id->events, id_node) {
		cds_list_del(&event->node);
		cds_list_add_tail(&event->node, &to->events);
		if (event->conn) {
			cds_list_del(&event->conn->node);
			cds_list_add_tail(&event->conn->node, &to->ids);
			event->conn->file = to;
		}
	}
	urxe_ucma_tell(from);
	urxe_ucma_tell(to);
}

/* What librdmacm makes of one that requests a connection: an id of its own. */
#define BYTES_OF_EVENT 1024

/* Takes the first event to the program's memory: 1, 0 when there is none, -EFAULT. */
static int deliver(struct urxe_ucma *file, uint64_t response, uint16_t out)
{
	struct urxe_id_event *event;
	size_t len = sizeof(event->resp);

	if (cds_list_empty(&file->events))
		return 0;
	urxe_heap_expect(BYTES_OF_EVENT);
	event = cds_list_first_entry(&file->events, struct urxe_id_event, node);
	if (urxe_user_write(response, &event->resp, out < len ? out : len))
		return -EFAULT;
	event->id->events_reported++;
	if (event->mcast)
		event->mcast->events_reported++;
	if (event->conn)
		event->id->backlog++;
	unlink_event(event);
	free(event);
	return 1;
}

struct sleeper {
	struct urxe_ucma *file;
	uint64_t count; /* what it took out of the eventfd */
};

/*
 * libc may act on a cancellation when the read is done already. A thread that ends with what it
 * took says so first, or no other would be woken any more.
 */
static void cancelled(void *arg)
{
	struct sleeper *sleeper = arg;

	urxe_engine_woke(NULL);
	if (!sleeper->count)
		return;
	urxe_engine_lock();
	sleeper->file->signalled -= sleeper->count;
	urxe_ucma_tell(sleeper->file);
	urxe_engine_unlock();
}

/* Waits for an event; a cancellation point. What was taken out of the eventfd, or -errno. */
static int64_t sleep_on(struct urxe_ucma *file)
{
	struct sleeper sleeper = {.file = file};
	ssize_t ret;

	pthread_cleanup_push(cancelled, &sleeper);
	urxe_engine_sleeps();
	ret = urxe_libc.read(file->event_fd, &sleeper.count, sizeof(sleeper.count));
	pthread_cleanup_pop(false);
	urxe_engine_woke(NULL);
	return ret < 0 ? -errno : (int64_t)sleeper.count;
}

/* Neither queue is to wait until the other one is empty. */
static bool kernels_turn(struct urxe_ucma *file)
{
	file->kernels_turn = file->fired && !file->kernels_turn;
	return file->kernels_turn;
}

/* Another thread may have closed the descriptor. The wait goes on then, as it does in the
 * kernel. */
static bool may_wait(int fd)
{
	int flags = urxe_libc.fcntl(fd, F_GETFL);

	return flags < 0 || !(flags & O_NONBLOCK);
}

int urxe_ucma_get_event(struct urxe_ucma *file, int fd, uint64_t response, uint16_t out)
{
	bool theirs_first, turned = false;
	int64_t taken = 0;
	int ret;

	for (;;) {
		urxe_engine_lock();
		file->signalled -= taken;
		theirs_first = kernels_turn(file);
		ret = theirs_first ? 0 : deliver(file, response, out);
		urxe_ucma_tell(file);
		urxe_engine_unlock();
		taken = 0;
		if (!ret && file->kernel_fd >= 0)
			ret = urxe_kernel_get_event(file, response, out);
		if (ret)
			return ret < 0 ? ret : 0;
		if (theirs_first)
			continue;
		if (!may_wait(fd))
			return -EAGAIN;
		/* Once: what there is then is for the service thread, which sleep_on() wakes. */
		if (!turned && file->manager && urxe_engine_waits()) {
			urxe_engine_progress(false);
			turned = true;
			continue;
		}
		taken = sleep_on(file);
		turned = false;
		if (taken < 0)
			return taken;
	}
}
