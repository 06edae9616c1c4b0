// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What goes to programs by their sockets. Datagrams of one turn of the loop are collected and
 * written at its end, all of a connection by one sendmmsg(2): a program that has asked for several
 * things wakes up once and finds all the answers.
 *
 * A program that does not read has its MADs queued up to 64 MiB, as the kernel's umad has; further
 * ones are lost. A MAD of several segments is in a memory file, whose descriptor goes with its
 * first bytes; of those only a few are queued.
 *
 * fabricd's thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/server.h"

#define MOST_PENDING (64u << 20)
#define MOST_FILES   64 /* each is a descriptor of fabricd's */

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(FABRIC_UMAD_FDS * sizeof(int))];
};

static void set_message(struct msghdr *msg, struct iovec *iov, union control *control,
			const int *fds, unsigned num_fds)
{
	struct cmsghdr *c;

	*msg = (struct msghdr){.msg_iov = iov, .msg_iovlen = 1};
	if (!num_fds)
		return;
	msg->msg_control = control;
	msg->msg_controllen = CMSG_SPACE(num_fds * sizeof(int));
	c = CMSG_FIRSTHDR(msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(num_fds * sizeof(int));
	memcpy(CMSG_DATA(c), fds, num_fds * sizeof(int));
}

ssize_t outbox_send_now(struct connection *c, const void *bytes, size_t len, const int *fds,
			unsigned num_fds)
{
	struct iovec iov = {(void *)bytes, len};
	union control control;
	struct msghdr msg;

	set_message(&msg, &iov, &control, fds, num_fds);
	return sendmsg(c->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void close_file(int fd)
{
	if (fd >= 0)
		close(fd);
}

/* ---- for a program that has no room ---- */

static void listen_for(struct connection *c, bool out)
{
	struct epoll_event ev = {.events = EPOLLIN | (out ? EPOLLOUT : 0), .data.ptr = c};

	if (c->listens_out != out)
		epoll_ctl(c->server->epoll, EPOLL_CTL_MOD, c->fd, &ev);
	c->listens_out = out;
}

/* Takes fd over. */
static void enqueue(struct connection *c, const void *bytes, size_t len, int fd)
{
	struct pending *p = NULL;
	bool full = fd >= 0 ? c->pending_files == MOST_FILES : c->pending_bytes >= MOST_PENDING;

	if (!full)
		p = malloc(sizeof(*p) + len);
	if (!p) {
		close_file(fd);
		return;
	}
	p->link = NULL;
	p->fd = fd;
	p->len = len;
	memcpy(p->bytes, bytes, len);
	*c->last = p;
	c->last = &p->link;
	c->pending_bytes += len;
	c->pending_files += fd >= 0;
	listen_for(c, true);
}

void outbox_drain(struct connection *c)
{
	struct pending *p;

	while ((p = c->first)) {
		if (outbox_send_now(c, p->bytes, p->len, &p->fd, p->fd >= 0) < 0 && errno == EAGAIN)
			return;
		c->first = p->link;
		c->pending_bytes -= p->len;
		c->pending_files -= p->fd >= 0;
		close_file(p->fd);
		free(p);
	}
	c->last = &c->first;
	listen_for(c, false);
}

/* ---- the turn's ---- */

/* All from the i-th on that are for one connection. */
static void flush_one(struct server *s, unsigned i)
{
	struct connection *c = s->outbox[i].to;
	struct mmsghdr msgs[OUTBOX_LEN];
	struct iovec iovs[OUTBOX_LEN];
	union control controls[OUTBOX_LEN];
	struct outgoing *all[OUTBOX_LEN];
	int n = 0, sent = 0;

	for (; i < s->outgoing; i++) {
		struct outgoing *o = &s->outbox[i];

		if (o->to != c)
			continue;
		iovs[n] = (struct iovec){o->bytes, o->len};
		set_message(&msgs[n].msg_hdr, &iovs[n], &controls[n], &o->fd, o->fd >= 0);
		o->to = NULL;
		all[n++] = o;
	}
	if (!c->first) {
		sent = sendmmsg(c->fd, msgs, n, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent < 0 && errno != EAGAIN && errno != ENOBUFS)
			sent = 1; /* this one cannot be sent; or none can, as outbox_drain() will find */
	}
	for (int k = 0; k < n; k++) {
		if (k < sent)
			close_file(all[k]->fd);
		else
			enqueue(c, all[k]->bytes, all[k]->len, all[k]->fd);
	}
}

void outbox_flush(struct server *s)
{
	/* A ring was full before its connection's socket was used: what is in it comes first. */
	rings_flush(s);
	for (unsigned i = 0; i < s->outgoing; i++)
		if (s->outbox[i].to)
			flush_one(s, i);
	s->outgoing = 0;
}

static struct outgoing *room(struct connection *c, size_t len, int fd)
{
	struct server *s = c->server;
	struct outgoing *o;

	if (s->outgoing == OUTBOX_LEN)
		outbox_flush(s);
	o = &s->outbox[s->outgoing++];
	o->to = c;
	o->len = len;
	o->fd = fd;
	return o;
}

void to_program(struct connection *c, const void *bytes, size_t len, int fd)
{
	memcpy(room(c, len, fd)->bytes, bytes, len);
}

void outbox_forget(struct connection *c)
{
	struct server *s = c->server;
	struct pending *p;

	for (unsigned i = 0; i < s->outgoing; i++) {
		if (s->outbox[i].to != c)
			continue;
		close_file(s->outbox[i].fd);
		s->outbox[i].to = NULL;
	}
	while ((p = c->first)) {
		c->first = p->link;
		close_file(p->fd);
		free(p);
	}
}

/* A memory file of that contents, or -1. */
static int file_of(const uint8_t *hdr, const uint8_t *mad, size_t len)
{
	int fd = memfd_create("urxe-mad", MFD_CLOEXEC);

	if (fd < 0)
		return -1;
	if (write(fd, hdr, FABRIC_UMAD_HDR) != FABRIC_UMAD_HDR ||
	    write(fd, mad, len) != (ssize_t)len) {
		close(fd);
		return -1;
	}
	return fd;
}

void server_deliver(struct fabric *f, struct connection *file, const uint8_t *hdr,
		    const uint8_t *mad, uint32_t len)
{
	uint32_t n = len < MAD_LEN ? len : MAD_LEN;
	uint8_t *slot = rings_room(file, FABRIC_UMAD_HDR + len);
	struct outgoing *o;
	int fd = -1;

	if (slot) {
		memcpy(slot, hdr, FABRIC_UMAD_HDR);
		memcpy(slot + FABRIC_UMAD_HDR, mad, len);
		rings_publish(file);
		return;
	}
	if (len > MAD_LEN) {
		fd = file_of(hdr, mad, len);
		if (fd < 0)
			return;
	}
	o = room(file, FABRIC_UMAD_HDR + n, fd);
	memcpy(o->bytes, hdr, FABRIC_UMAD_HDR);
	memcpy(o->bytes + FABRIC_UMAD_HDR, mad, n);
}
