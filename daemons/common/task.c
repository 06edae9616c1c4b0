/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A thread that notifies the loop of its end by an eventfd. The eventfd orders what the thread
 * wrote before what the loop reads. The thread blocks all signals: the loop handles them.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemons/common/task.h"

struct task {
	pthread_t thread;
	int fd;
	struct event *ended;
	void (*work)(void *arg);
	void (*done)(void *arg);
	void *arg;
};

static void *run(void *arg)
{
	struct task *task = arg;

	task->work(task->arg);
	eventfd_write(task->fd, 1);
	return NULL;
}

static void task_free(struct task *task)
{
	if (task->ended)
		event_free(task->ended);
	if (task->fd >= 0)
		close(task->fd);
	free(task);
}

static void ended(evutil_socket_t fd, short what, void *arg)
{
	struct task *task = arg;
	void (*done)(void *arg) = task->done;
	void *done_arg = task->arg;

	pthread_join(task->thread, NULL);
	task_free(task);
	done(done_arg);
}

void task_finish(struct task *task)
{
	pthread_join(task->thread, NULL);
	task_free(task);
}

static int start_thread(struct task *task)
{
	sigset_t all, old;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = pthread_create(&task->thread, NULL, run, task);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -ret;
}

int task_start(struct event_base *base, struct task **out, void (*work)(void *arg),
	       void (*done)(void *arg), void *arg)
{
	struct task *task = calloc(1, sizeof(*task));
	int ret = 0;

	if (!task)
		return -ENOMEM;
	task->work = work;
	task->done = done;
	task->arg = arg;
	task->fd = eventfd(0, EFD_CLOEXEC);
	if (task->fd < 0)
		ret = -errno;
	else
		task->ended = event_new(base, task->fd, EV_READ, ended, task);
	if (!ret && (!task->ended || event_add(task->ended, NULL)))
		ret = -ENOMEM;
	if (!ret)
		ret = start_thread(task);
	if (ret)
		task_free(task);
	else
		*out = task;
	return ret;
}
