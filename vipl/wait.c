// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Waiting for completions (wait.h). What is shared is guarded by the NIC's wait_lock. */
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <unistd.h>

#include "vipl/helper.h"
#include "vipl/nic.h"
#include "vipl/wait.h"

struct vipl_waiter {
	TAILQ_ENTRY(vipl_waiter) link;
	struct vipl_cq *cq;
	pthread_cond_t cond;
	bool woken;
};

struct vipl_deadline vipl_deadline(VIP_ULONG timeout)
{
	struct vipl_deadline deadline = {.infinite = timeout >= VIP_INFINITE};

	if (deadline.infinite)
		return deadline;
	clock_gettime(CLOCK_MONOTONIC, &deadline.at);
	deadline.at.tv_sec += timeout / 1000;
	deadline.at.tv_nsec += timeout % 1000 * 1000000;
	if (deadline.at.tv_nsec >= 1000000000) {
		deadline.at.tv_nsec -= 1000000000;
		deadline.at.tv_sec++;
	}
	return deadline;
}

static int64_t left(const struct vipl_deadline *deadline)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (deadline->at.tv_sec - now.tv_sec) * 1000000000ll + deadline->at.tv_nsec -
	       now.tv_nsec;
}

bool vipl_deadline_passed(const struct vipl_deadline *deadline)
{
	return !deadline->infinite && left(deadline) <= 0;
}

bool vipl_deadline_before(const struct vipl_deadline *a, const struct vipl_deadline *b)
{
	if (a->infinite || b->infinite)
		return !a->infinite && b->infinite;
	return a->at.tv_sec < b->at.tv_sec ||
	       (a->at.tv_sec == b->at.tv_sec && a->at.tv_nsec < b->at.tv_nsec);
}

int vipl_deadline_left(const struct vipl_deadline *deadline)
{
	int64_t ns;

	if (deadline->infinite)
		return -1;
	ns = left(deadline);
	if (ns <= 0)
		return 0;
	return ns > 1000000000000ll ? 1000000 : (ns + 999999) / 1000000;
}

void vipl_ring(int fd)
{
	uint64_t one = 1;

	while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/* With wait_lock held. */
static void wake(struct vipl_nic *nic, struct vipl_waiter *waiter)
{
	if (waiter->woken)
		return;
	waiter->woken = true;
	if (nic->leader == waiter)
		vipl_ring(nic->leader_fd);
	else
		pthread_cond_signal(&waiter->cond);
}

/* Something has come for a CQ. Returns whether the helper has to look after it. */
static bool deliver(struct vipl_nic *nic, struct vipl_cq *cq, struct vipl_waiter *self)
{
	struct vipl_waiter *waiter;
	bool anybody = false;

	TAILQ_FOREACH(waiter, &nic->waiters, link)
	{
		if (waiter->cq != cq)
			continue;
		anybody = true;
		if (waiter == self)
			waiter->woken = true;
		else
			wake(nic, waiter);
	}
	if (!anybody || cq->served)
		cq->fired = true;
	return cq->served;
}

/* Takes one event, with wait_lock held. */
static bool take(struct vipl_nic *nic, struct vipl_waiter *self)
{
	struct ibv_cq *ibv;
	void *context;

	if (ibv_get_cq_event(nic->channel, &ibv, &context))
		return false;
	ibv_ack_cq_events(ibv, 1);
	if (deliver(nic, context, self))
		vipl_helper_kick(nic);
	return true;
}

void vipl_wait_take(struct vipl_nic *nic)
{
	pthread_mutex_lock(&nic->wait_lock);
	while (take(nic, NULL))
		;
	pthread_mutex_unlock(&nic->wait_lock);
}

/* As the leader: until something has come for this one, or a moment to look again. */
static void lead(struct vipl_nic *nic, struct vipl_waiter *self,
		 const struct vipl_deadline *deadline)
{
	struct pollfd fds[2] = {{.fd = nic->channel->fd, .events = POLLIN},
				{.fd = nic->leader_fd, .events = POLLIN}};
	uint64_t count;
	int ready;

	nic->leader = self;
	pthread_mutex_unlock(&nic->wait_lock);
	ready = poll(fds, 2, vipl_deadline_left(deadline));
	pthread_mutex_lock(&nic->wait_lock);
	nic->leader = NULL;
	if (ready <= 0)
		return;
	if (fds[0].revents)
		take(nic, self);
	if (fds[1].revents && read(nic->leader_fd, &count, sizeof(count)) < 0)
		return;
}

int vipl_wait(struct vipl_cq *cq, const struct vipl_deadline *deadline)
{
	struct vipl_waiter self = {.cq = cq};
	struct vipl_nic *nic = cq->nic;
	int ret = 0;

	pthread_mutex_lock(&nic->wait_lock);
	if (nic->stop) {
		pthread_mutex_unlock(&nic->wait_lock);
		return -ECANCELED;
	}
	if (cq->fired && !cq->served) {
		cq->fired = false;
		pthread_mutex_unlock(&nic->wait_lock);
		return 0;
	}
	vipl_cond_init(&self.cond);
	TAILQ_INSERT_TAIL(&nic->waiters, &self, link);
	while (!self.woken && !ret) {
		if (nic->leader)
			vipl_cond_wait(&self.cond, &nic->wait_lock, deadline);
		else
			lead(nic, &self, deadline);
		if (!self.woken && vipl_deadline_passed(deadline))
			ret = -ETIMEDOUT;
	}
	TAILQ_REMOVE(&nic->waiters, &self, link);
	if (!nic->leader && !TAILQ_EMPTY(&nic->waiters))
		pthread_cond_signal(&TAILQ_FIRST(&nic->waiters)->cond);
	if (nic->stop) {
		ret = -ECANCELED;
		pthread_cond_broadcast(&nic->asleep);
	}
	pthread_mutex_unlock(&nic->wait_lock);
	pthread_cond_destroy(&self.cond);
	return ret;
}

void vipl_wake(struct vipl_nic *nic, struct vipl_cq *cq)
{
	struct vipl_waiter *waiter;
	bool kick = false;

	pthread_mutex_lock(&nic->wait_lock);
	if (cq) {
		kick = deliver(nic, cq, NULL);
	} else {
		TAILQ_FOREACH(waiter, &nic->waiters, link)
		wake(nic, waiter);
	}
	pthread_mutex_unlock(&nic->wait_lock);
	if (kick)
		vipl_helper_kick(nic);
}
