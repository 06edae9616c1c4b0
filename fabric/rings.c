// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * fabricd's side of the rings of open umad files (mad_ring.h): it makes them, and hands them to the
 * program with its welcome. What programs write to the memory file is copied before it is looked
 * at. fabricd's thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fabric/server.h"

/* A file that no program can make shorter under us. */
static int make_file(void)
{
	int fd = memfd_create("urxe-mads", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd >= 0 && !ftruncate(fd, sizeof(struct mad_rings)) &&
	    !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

int rings_open(struct connection *c, int fds[FABRIC_UMAD_FDS])
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLET, .data.u64 = (uintptr_t)c | 1};
	void *p = MAP_FAILED;

	fds[0] = make_file();
	fds[1] = c->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
	fds[2] = c->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fds[0] >= 0)
		p = mmap(NULL, sizeof(*c->rings), PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
	if (p != MAP_FAILED)
		c->rings = p;
	if (!c->rings || c->event < 0 || c->doorbell < 0 ||
	    epoll_ctl(c->server->epoll, EPOLL_CTL_ADD, c->doorbell, &ev))
		return -ENFILE;
	atomic_store(&c->rings->to_fabric.idle, 1);
	return 0;
}

void rings_close(struct connection *c)
{
	if (c->rings)
		munmap(c->rings, sizeof(*c->rings));
	if (c->event >= 0)
		close(c->event);
	/* The program may have it still: it does not leave the epoll by itself. */
	if (c->doorbell >= 0) {
		epoll_ctl(c->server->epoll, EPOLL_CTL_DEL, c->doorbell, NULL);
		close(c->doorbell);
	}
	c->rings = NULL;
	c->event = c->doorbell = -1;
}

/* The program has read everything that went by the socket. */
static bool socket_empty(const struct connection *c)
{
	int bytes;

	return !c->first && !ioctl(c->fd, SIOCOUTQ, &bytes) && !bytes;
}

uint8_t *rings_room(struct connection *c, size_t len)
{
	struct mad_slot *slot;

	if (!c->rings)
		return NULL;
	if (c->by_socket && !c->server->outgoing && socket_empty(c))
		c->by_socket = false;
	slot = c->by_socket || len > FABRIC_INLINE ? NULL : mad_ring_room(&c->rings->to_program);
	c->by_socket = !slot;
	if (slot)
		slot->len = len;
	return slot ? slot->bytes : NULL;
}

void rings_publish(struct connection *c)
{
	struct server *s = c->server;

	mad_ring_publish(&c->rings->to_program);
	if (c->unread++)
		return;
	if (s->num_to_notify == OUTBOX_LEN)
		rings_flush(s);
	s->to_notify[s->num_to_notify++] = c;
}

void rings_flush(struct server *s)
{
	for (unsigned i = 0; i < s->num_to_notify; i++) {
		struct connection *c = s->to_notify[i];
		uint64_t count = c ? c->unread : 0;

		/* Its count has room for more than the ring. */
		if (count && write(c->event, &count, sizeof(count)) == sizeof(count))
			c->unread = 0;
	}
	s->num_to_notify = 0;
}

void rings_forget(struct connection *c)
{
	struct server *s = c->server;

	for (unsigned i = 0; i < s->num_to_notify; i++)
		if (s->to_notify[i] == c)
			s->to_notify[i] = NULL;
}
