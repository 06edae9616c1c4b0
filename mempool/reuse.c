/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Registrations of the program's own memory that are kept for reuse. That is safe only if every
 * unmapping is noticed. Hooks on munmap() and similar functions are not enough: libc calls the
 * kernel directly. So the memory is monitored with userfaultfd, which reports munmap, mremap, brk
 * and madvise of any caller. It is registered for write protection that is never set, so no access
 * ever faults.
 *
 * A thread that unmaps monitored memory is blocked by the kernel until its event has been read.
 * Events are read and handled under the lock: by a dedicated thread, and by every lookup before it
 * searches. Between the unmapping and its event the kernel fails UFFDIO_WRITEPROTECT with EAGAIN; a
 * lookup that gets this error (for a page of the library's) finds nothing. So a registration that
 * is found still has its mapping.
 *
 * Under the lock and in the monitoring thread nothing is allocated, freed or unmapped: libc might
 * return monitored memory to the kernel in there, and wait for this very thread. Registrations of
 * unmapped memory are therefore only marked, and ended by the next call of the library.
 *
 * The lock guards everything here. It is innermost.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/own_thread.h"
#include "mempool/registration.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

#define KEEP_MAX 1024
#define EVENTS	 (UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_REMAP)

struct mempool_reuse {
	pthread_mutex_t lock;
	int fd;	  /* userfaultfd */
	int stop; /* eventfd */
	pthread_t thread;
	void *page; /* monitored, to test whether an unmapping is in progress */
	struct mempool_registration *newest, *oldest;
	unsigned count;
	uint64_t hits, misses, unmapped;
};

static size_t page_size(void)
{
	return sysconf(_SC_PAGESIZE);
}

static int watch_range(int fd, uintptr_t start, uintptr_t end)
{
	struct uffdio_register r = {
		.range = {.start = start, .len = end - start},
		.mode = UFFDIO_REGISTER_MODE_WP,
	};

	return ioctl(fd, UFFDIO_REGISTER, &r) ? -errno : 0;
}

static void pages_of(const struct mempool_registration *r, uintptr_t *start, uintptr_t *end)
{
	uintptr_t mask = page_size() - 1;

	*start = (uintptr_t)r->mr.addr & ~mask;
	*end = ((uintptr_t)r->mr.addr + r->mr.length + mask) & ~mask;
}

static void link_newest(struct mempool_reuse *u, struct mempool_registration *r)
{
	r->newer = NULL;
	r->older = u->newest;
	if (u->newest)
		u->newest->newer = r;
	else
		u->oldest = r;
	u->newest = r;
}

static void unlink_one(struct mempool_reuse *u, struct mempool_registration *r)
{
	if (r->newer)
		r->newer->older = r->older;
	else
		u->newest = r->older;
	if (r->older)
		r->older->newer = r->newer;
	else
		u->oldest = r->newer;
}

/* Marks the registrations in a range that was unmapped. */
static void forget_range(struct mempool_reuse *u, uintptr_t start, uintptr_t end)
{
	struct mempool_registration *r;
	uintptr_t from, to;

	for (r = u->newest; r; r = r->older) {
		pages_of(r, &from, &to);
		if (!r->stale && from < end && start < to) {
			r->stale = true;
			u->unmapped++;
		}
	}
}

static void read_events(struct mempool_reuse *u)
{
	struct uffd_msg m;

	while (read(u->fd, &m, sizeof(m)) == sizeof(m)) {
		if (m.event == UFFD_EVENT_REMAP)
			forget_range(u, m.arg.remap.from, m.arg.remap.from + m.arg.remap.len);
		else if (m.event == UFFD_EVENT_UNMAP || m.event == UFFD_EVENT_REMOVE)
			forget_range(u, m.arg.remove.start, m.arg.remove.end);
	}
}

static void *watch_thread(void *arg)
{
	struct mempool_reuse *u = arg;
	struct pollfd fds[] = {{.fd = u->fd, .events = POLLIN}, {.fd = u->stop, .events = POLLIN}};

	while (!fds[1].revents) {
		if (poll(fds, 2, -1) < 0 || !fds[0].revents)
			continue;
		pthread_mutex_lock(&u->lock);
		read_events(u);
		pthread_mutex_unlock(&u->lock);
	}
	/* Before the thread ends: its own stack, which is unmapped then, may be monitored. */
	pthread_mutex_lock(&u->lock);
	close(u->fd);
	pthread_mutex_unlock(&u->lock);
	return NULL;
}

static int open_userfaultfd(void)
{
	struct uffdio_api api = {.api = UFFD_API,
				 .features = EVENTS | UFFD_FEATURE_PAGEFAULT_FLAG_WP};
	int flags = O_CLOEXEC | O_NONBLOCK;
	int fd = syscall(SYS_userfaultfd, flags | UFFD_USER_MODE_ONLY);

	/* Before Linux 5.11 */
	if (fd < 0 && errno == EINVAL)
		fd = syscall(SYS_userfaultfd, flags);
	if (fd >= 0 && ioctl(fd, UFFDIO_API, &api)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

struct mempool_reuse *mempool_reuse_create(void)
{
	struct mempool_reuse *u = calloc(1, sizeof(*u));
	size_t page = page_size();

	if (!u)
		return NULL;
	u->fd = open_userfaultfd();
	u->stop = eventfd(0, EFD_CLOEXEC);
	u->page = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (u->fd >= 0 && u->stop >= 0 && u->page != MAP_FAILED &&
	    !watch_range(u->fd, (uintptr_t)u->page, (uintptr_t)u->page + page)) {
		pthread_mutex_init(&u->lock, NULL);
		/* No handler runs in it, which might unmap memory. */
		if (!own_thread_start(&u->thread, watch_thread, u))
			return u;
	}
	if (u->fd >= 0)
		close(u->fd);
	if (u->stop >= 0)
		close(u->stop);
	if (u->page != MAP_FAILED)
		munmap(u->page, page);
	free(u);
	return NULL;
}

void mempool_reuse_destroy(struct mempool_reuse *u)
{
	eventfd_write(u->stop, 1);
	pthread_join(u->thread, NULL);
	close(u->stop);
	munmap(u->page, page_size());
	pthread_mutex_destroy(&u->lock);
	free(u);
}

/* Is an unmapping in progress whose event has not arrived? */
static bool unmapping(struct mempool_reuse *u)
{
	struct uffdio_writeprotect w = {.range = {(uintptr_t)u->page, page_size()}};

	return ioctl(u->fd, UFFDIO_WRITEPROTECT, &w);
}

struct mempool_registration *mempool_reuse_find(struct mempool_reuse *u, struct ibv_pd *pd,
						const void *addr, size_t length, int access)
{
	struct mempool_registration *r = NULL;

	pthread_mutex_lock(&u->lock);
	if (!unmapping(u)) {
		read_events(u);
		for (r = u->newest; r; r = r->older)
			if (r->ready && !r->stale && r->mr.addr == addr && r->mr.length == length &&
			    r->mr.pd == pd && r->mr.access == access)
				break;
	}
	if (r) {
		r->holders++;
		unlink_one(u, r);
		link_newest(u, r);
		u->hits++;
	} else {
		u->misses++;
	}
	pthread_mutex_unlock(&u->lock);
	return r;
}

/*
 * Is the range private anonymous memory? Memory mapped from a file can disappear without an event,
 * when the file is truncated. A stack grows and is never unmapped. The range is widened to whole
 * mappings: monitoring a part would split a mapping, and mremap() of the whole would fail.
 */
static bool is_anonymous(uintptr_t *start, uintptr_t *end)
{
	FILE *f = fopen("/proc/self/maps", "re");
	uintptr_t first = *start, at = *start;
	char *line = NULL, perms[5], name[8];
	unsigned long from, to, inode;
	size_t size = 0;
	int n;

	while (f && at < *end && getline(&line, &size, f) > 0) {
		n = sscanf(line, "%lx-%lx %4s %*s %*s %lu %7s", &from, &to, perms, &inode, name);
		if (n < 4 || to <= at)
			continue;
		if (from > at || inode || perms[3] != 'p' || (n > 4 && !strcmp(name, "[stack]")))
			break;
		if (from < first)
			first = from;
		at = to;
	}
	free(line);
	if (f)
		fclose(f);
	if (at < *end)
		return false;
	*start = first;
	*end = at;
	return true;
}

bool mempool_reuse_watch(struct mempool_reuse *u, struct mempool_registration *r)
{
	uintptr_t start, end;

	pages_of(r, &start, &end);
	if (!is_anonymous(&start, &end) || watch_range(u->fd, start, end))
		return false;
	r->holders = 1;
	pthread_mutex_lock(&u->lock);
	link_newest(u, r);
	u->count++;
	pthread_mutex_unlock(&u->lock);
	return true;
}

void mempool_reuse_ready(struct mempool_reuse *u, struct mempool_registration *r)
{
	pthread_mutex_lock(&u->lock);
	r->ready = true;
	pthread_mutex_unlock(&u->lock);
}

/* Monitoring continues: others may need it, and stopping would split the mapping. */
static void take_out(struct mempool_reuse *u, struct mempool_registration *r)
{
	unlink_one(u, r);
	u->count--;
}

void mempool_reuse_remove(struct mempool_reuse *u, struct mempool_registration *r)
{
	pthread_mutex_lock(&u->lock);
	take_out(u, r);
	pthread_mutex_unlock(&u->lock);
}

void mempool_reuse_put(struct mempool_reuse *u, struct mempool_registration *r)
{
	pthread_mutex_lock(&u->lock);
	r->holders--;
	pthread_mutex_unlock(&u->lock);
}

struct mempool_registration *mempool_reuse_reap(struct mempool_reuse *u, struct ibv_pd *pd,
						bool all)
{
	struct mempool_registration *r;

	pthread_mutex_lock(&u->lock);
	read_events(u);
	for (r = u->oldest; r; r = r->newer)
		if (!r->holders && r->ready &&
		    (all || r->stale || r->mr.pd == pd || u->count > KEEP_MAX))
			break;
	if (r)
		take_out(u, r);
	pthread_mutex_unlock(&u->lock);
	return r;
}

void mempool_reuse_query(struct mempool_reuse *u, struct rmempool_statistics *s)
{
	pthread_mutex_lock(&u->lock);
	s->reuse_hits = u->hits;
	s->reuse_misses = u->misses;
	s->reuse_unmapped = u->unmapped;
	pthread_mutex_unlock(&u->lock);
}
