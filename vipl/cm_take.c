// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Who takes the events of connections (cm.h). A thread that waits for something of a connection
 * does so itself, which saves handing each event over to it. Others wait for what it finds. The
 * helper takes events when nobody has waited for a moment: who has just been connected often waits
 * again, and a thread that wakes beside it costs more than the event.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "vipl/cm.h"
#include "vipl/helper.h"
#include "vipl/nic.h"

#define MOMENT 1000000 /* nanoseconds */

/* Whether the helper is told of events. */
static void watch(struct vipl_nic *nic, bool watched)
{
	struct epoll_event event = {.events = watched ? EPOLLIN : 0};

	if (nic->cm_watched == watched)
		return;
	nic->cm_watched = watched;
	epoll_ctl(nic->cm_watch, EPOLL_CTL_MOD, nic->cm_channel->fd, &event);
}

int vipl_cm_open(struct vipl_nic *nic)
{
	struct epoll_event event = {.events = EPOLLIN};

	nic->cm_channel = rdma_create_event_channel();
	nic->taker_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	nic->cm_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	nic->cm_watch = epoll_create1(EPOLL_CLOEXEC);
	if (!nic->cm_channel || nic->taker_fd < 0 || nic->cm_timer < 0 || nic->cm_watch < 0 ||
	    fcntl(nic->cm_channel->fd, F_SETFL, O_NONBLOCK) ||
	    epoll_ctl(nic->cm_watch, EPOLL_CTL_ADD, nic->cm_channel->fd, &event) ||
	    epoll_ctl(nic->cm_watch, EPOLL_CTL_ADD, nic->cm_timer, &event))
		return -errno;
	nic->cm_watched = true;
	return 0;
}

void vipl_cm_close(struct vipl_nic *nic)
{
	const int own[] = {nic->taker_fd, nic->cm_timer, nic->cm_watch};

	for (unsigned i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		if (own[i] >= 0)
			close(own[i]);
	}
	if (nic->cm_channel)
		rdma_destroy_event_channel(nic->cm_channel);
	nic->cm_channel = NULL;
}

static bool is_taker(const struct vipl_nic *nic)
{
	return nic->taker_cond && pthread_equal(nic->taker, pthread_self());
}

/*
 * librdmacm goes on writing an id after it has given the kernel a command for it, and again when it
 * takes the answer: both under the NIC's lock.
 */
static bool take(struct vipl_nic *nic)
{
	struct rdma_cm_event *event;
	bool taken;

	vipl_nic_lock(nic);
	taken = !rdma_get_cm_event(nic->cm_channel, &event);
	if (taken)
		vipl_cm_event(nic, event);
	vipl_nic_unlock(nic);
	if (taken)
		rdma_ack_cm_event(event);
	return taken;
}

void vipl_cm_take(struct vipl_nic *nic)
{
	uint64_t count;
	bool mine;

	vipl_nic_lock(nic);
	if (read(nic->cm_timer, &count, sizeof(count)) < 0)
		count = 0;
	mine = !nic->taker_cond && (count || nic->cm_watched);
	if (mine)
		watch(nic, true);
	vipl_nic_unlock(nic);
	while (mine && take(nic))
		;
}

/* Without locks. On iWARP it takes greetings as well, and to destroy an id may take time. */
static void wait_and_take(struct vipl_nic *nic, int timeout)
{
	struct pollfd fds[] = {{.fd = nic->cm_channel->fd, .events = POLLIN},
			       {.fd = nic->taker_fd, .events = POLLIN}};
	uint64_t count;

	poll(fds, 2, timeout);
	if (fds[0].revents && take(nic) && nic->iwarp)
		vipl_helper_kick(nic);
	if (fds[1].revents && read(nic->taker_fd, &count, sizeof(count)) < 0)
		return;
}

bool vipl_cm_wait(struct vipl_nic *nic, pthread_cond_t *cond, const struct vipl_deadline *deadline)
{
	if (nic->taker_cond && !is_taker(nic))
		return vipl_cond_wait(cond, &nic->lock, deadline);
	watch(nic, false);
	nic->taker_cond = cond;
	nic->taker = pthread_self();
	vipl_nic_unlock(nic);
	wait_and_take(nic, vipl_deadline_left(deadline));
	vipl_nic_lock(nic);
	if (nic->dead && !nic->iwarp)
		vipl_cm_destroy_ids(nic);
	return vipl_deadline_passed(deadline);
}

void vipl_cm_wake(struct vipl_nic *nic, pthread_cond_t *cond)
{
	pthread_cond_broadcast(cond);
	if (nic->taker_cond == cond && !is_taker(nic))
		vipl_ring(nic->taker_fd);
}

void vipl_cm_leave(struct vipl_nic *nic)
{
	static const struct itimerspec moment = {.it_value.tv_nsec = MOMENT};

	if (!is_taker(nic))
		return;
	nic->taker_cond = NULL;
	timerfd_settime(nic->cm_timer, 0, &moment, NULL);
	if (nic->dead)
		vipl_helper_kick(nic);
}

void vipl_cm_died(struct vipl_nic *nic)
{
	nic->dead = true;
	if (!is_taker(nic))
		vipl_helper_kick(nic);
}
