// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A fabric that ends while programs use it: to them it is as if its power was cut. Requests under
 * way time out, nothing arrives any more, and no call fails: OpenSM would answer an error of
 * read(2) with another read(2) at once. A thread looks for the fabric ten times a second as long as
 * some file has none, connects the files again and registers their agents. A program that only
 * waits hears of it when MADs arrive.
 */
#include <poll.h>

#include "common/own_thread.h"
#include "host/fabric.h"
#include "host/fd.h"
#include "host/libc.h"
#include "preload/umad.h"

#define LOOK_MS 100

static atomic_bool looking;
static atomic_uint losses; /* of files, so that one between the last look and the end is seen */

struct look {
	bool missing;
};

static void look_at(struct urxe_umad *file, void *arg)
{
	struct look *look = arg;
	char byte;

	if (file->roce)
		return;
	/* A program that is reading it now will find out itself. */
	if (pthread_mutex_trylock(&file->lock)) {
		look->missing = true;
		return;
	}
	if (file->issm && file->sock >= 0 &&
	    !urxe_libc.recv(file->sock, &byte, 1, MSG_DONTWAIT | MSG_PEEK)) {
		urxe_fd_close(file->sock);
		file->sock = -1;
	}
	if (file->sock < 0 && urxe_umad_file_connect(file))
		look->missing = true;
	pthread_mutex_unlock(&file->lock);
}

static void *look_for_fabric(void *arg)
{
	struct look look;
	unsigned seen;

	do {
		do {
			urxe_libc.poll(NULL, 0, LOOK_MS);
			seen = atomic_load(&losses);
			look.missing = false;
			urxe_umad_each(look_at, &look);
		} while (look.missing);
		atomic_store(&looking, false);
	} while (atomic_load(&losses) != seen && !atomic_exchange(&looking, true));
	return NULL;
}

static void start_looking(void)
{
	pthread_t thread;

	atomic_fetch_add(&losses, 1);
	if (atomic_exchange(&looking, true))
		return;
	if (own_thread_start(&thread, look_for_fabric, NULL))
		atomic_store(&looking, false);
	else
		pthread_detach(thread);
}

void urxe_umad_file_lost(struct urxe_umad *file)
{
	struct urxe_umad_flight *f, **last = &file->late;
	uint64_t one = 1;

	if (file->sock >= 0) {
		urxe_libc.epoll_ctl(file->fd, EPOLL_CTL_DEL, file->sock, NULL);
		urxe_fd_close(file->sock);
		file->sock = -1;
		urxe_umad_rings_end(file);
	}
	while (*last)
		last = &(*last)->next;
	for (unsigned i = 0; i < URXE_UMAD_FLIGHTS; i++)
		while ((f = file->flights[i])) {
			file->flights[i] = f->next;
			f->next = NULL;
			*last = f;
			last = &f->next;
		}
	if (file->late)
		(void)!urxe_libc.write(file->event, &one, sizeof(one));
	start_looking();
}

void urxe_umad_lost_forked(void)
{
	atomic_store(&looking, false);
}
