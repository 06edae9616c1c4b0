/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Ports to hosts: TAP interfaces, and unix datagram sockets as QEMU's -netdev dgram has them. A
 * port reads up to BURST frames in a row, each of which goes as far as it can at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemons/common/log.h"
#include "daemons/urxe-switch/switch.h"

#define BURST	 64
#define AGAIN_IN 100000000 /* ps: then a socket whose peer has not read is tried again */

static void set_times(struct daemon *d, struct port *port, unsigned number, size_t size)
{
	if (!d->settings.host_rate)
		return;
	port->free_at = (port->free_at > d->now ? port->free_at : d->now) +
			(int64_t)(size * 8000000000000u / d->settings.host_rate);
	port->pending = true;
	schedule_at(d, port->free_at, PORT_FREE, number);
}

/* True when the frame is gone, for good or bad; false when it must wait. */
static bool put(struct daemon *d, struct port *port, const struct frame *frame)
{
	const uint8_t *bytes = frame->bytes + frame->start;
	ssize_t n;

	if (port->kind == PORT_TAP)
		n = write(port->fd, bytes, frame->size);
	else
		n = sendto(port->fd, bytes, frame->size, MSG_DONTWAIT,
			   (struct sockaddr *)&port->peer, sizeof(port->peer));
	if (n == frame->size) {
		port->out_frames++;
		port->out_bytes += frame->size;
		return true;
	}
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return false;
	port->drops++; /* the host is down, or nobody listens */
	return true;
}

/* A frame that had to wait is the first to go, so it is kept beside the queue. */
static uint32_t waiting[MAX_PORTS];

/* The kernel says that a socket without a connection can be written to, whether or not the peer's
 * queue is full. */
static void wait_for_host(struct daemon *d, struct port *port, unsigned number)
{
	if (port->kind == PORT_UNIX) {
		port->pending = true;
		schedule_at(d, d->now + AGAIN_IN, PORT_FREE, number);
	} else {
		port->blocked = true;
		event_add(port->writable, NULL);
	}
}

void port_pump(struct daemon *d, unsigned number)
{
	struct port *port = &d->ports[number];
	struct reorder_destination *destination = d->leaves[port->leaf].destination;

	while (!port->blocked && !port->pending) {
		uint32_t f = waiting[number];
		size_t size;

		if (f == NONE)
			f = reorder_dequeue(destination, port->local, d->now);
		if (f == REORDER_NO_PACKET)
			return;
		size = d->frames[f].size;
		waiting[number] = NONE;
		if (!put(d, port, &d->frames[f])) {
			waiting[number] = f;
			wait_for_host(d, port, number);
			return;
		}
		frame_free(d, f);
		set_times(d, port, number, size);
	}
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct port *port = arg;
	struct daemon *d = port->daemon;

	port->blocked = false;
	d->now = schedule_now();
	port_pump(d, (unsigned)(port - d->ports));
	leaves_settle(d);
	schedule_run(d);
}

/* The whole length of what comes, also where it is more than a frame has room for. */
static ssize_t take(const struct port *port, struct frame *frame)
{
	if (port->kind == PORT_UNIX)
		return recv(port->fd, frame->bytes + HEADROOM, MAX_FRAME, MSG_TRUNC);
	return read(port->fd, frame->bytes + HEADROOM, MAX_FRAME);
}

/* Somebody has deleted the interface: there is nothing to read any more, and always an error. */
static void gone(struct port *port)
{
	const char *name = port->daemon->settings.ports[port - port->daemon->ports].name;

	log_error("TAP %s was deleted: its host is cut off until urxe-switch is started again",
		  name);
	port->gone = true;
	event_del(port->readable);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct port *port = arg;
	struct daemon *d = port->daemon;

	for (int i = 0; i < BURST && !port->stopped; i++) {
		uint32_t f = frame_new(d);
		ssize_t n;

		if (f == NONE)
			break;
		n = take(port, &d->frames[f]);
		if (n < 14 || n > MAX_FRAME) {
			frame_free(d, f);
			if (n < 0 && errno == EBADFD)
				gone(port);
			if (n < 0)
				break;
			d->not_ours++;
			continue;
		}
		d->frames[f].size = (uint16_t)n;
		port->in_frames++;
		port->in_bytes += (uint64_t)n;
		d->now = schedule_now();
		leaf_from_host(d, (unsigned)(port - d->ports), f);
		leaves_settle(d);
	}
	schedule_run(d);
}

/* Too much of what came by this port is still here: it is not read until less is. */
void port_stop(struct daemon *d, struct port *port, bool stop)
{
	if (port->stopped == stop)
		return;
	port->stopped = stop;
	if (port->gone)
		return;
	if (stop)
		event_del(port->readable);
	else
		event_add(port->readable, NULL);
}

static int open_tap(struct port *port, const char *name)
{
	struct ifreq ifr = {.ifr_flags = IFF_TAP | IFF_NO_PI};
	int ret;

	port->fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (port->fd < 0) {
		ret = -errno;
		log_error("/dev/net/tun: %s", strerror(errno));
		return ret;
	}
	strncpy(ifr.ifr_name, name, IFNAMSIZ - 1);
	if (!ioctl(port->fd, TUNSETIFF, &ifr))
		return 0;
	ret = -errno;
	log_error("TAP %s: %s%s", name, strerror(errno),
		  errno == EPERM ? "; run in a namespace of your own: unshare -Urn" : "");
	return ret;
}

/* Removes what a switch that was killed has left; but nobody's file, nor
 * the socket of one that runs. */
static int make_way(int fd, const struct sockaddr_un *own)
{
	struct stat st;

	if (lstat(own->sun_path, &st))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -ENOTSOCK;
	if (!connect(fd, (const struct sockaddr *)own, sizeof(*own)))
		return -EADDRINUSE;
	return unlink(own->sun_path) ? -errno : 0;
}

static int open_unix(struct port *port, const struct port_settings *s)
{
	struct sockaddr_un own = {.sun_family = AF_UNIX};
	int bytes = 4 << 20, ret;

	port->peer.sun_family = AF_UNIX;
	memcpy(port->peer.sun_path, s->peer, sizeof(port->peer.sun_path));
	memcpy(own.sun_path, s->name, sizeof(own.sun_path));
	port->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (port->fd < 0)
		return -errno;
	setsockopt(port->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	ret = make_way(port->fd, &own);
	if (!ret && bind(port->fd, (struct sockaddr *)&own, sizeof(own)))
		ret = -errno;
	if (ret)
		log_error("%s: %s", s->name, strerror(-ret));
	port->bound = !ret;
	return ret;
}

int ports_open(struct daemon *d)
{
	for (unsigned i = 0; i < d->settings.num_ports; i++) {
		const struct port_settings *s = &d->settings.ports[i];
		struct port *port = &d->ports[i];
		int ret;

		waiting[i] = NONE;
		port->daemon = d;
		port->leaf = s->leaf;
		port->kind = s->kind;
		ret = s->kind == PORT_TAP ? open_tap(port, s->name) : open_unix(port, s);
		if (ret)
			return ret;
		port->readable =
			event_new(d->loop.base, port->fd, EV_READ | EV_PERSIST, on_readable, port);
		port->writable = event_new(d->loop.base, port->fd, EV_WRITE, on_writable, port);
		if (!port->readable || !port->writable || event_add(port->readable, NULL))
			return -ENOMEM;
	}
	return 0;
}

void ports_close(struct daemon *d)
{
	for (unsigned i = 0; i < d->settings.num_ports; i++) {
		struct port *port = &d->ports[i];

		if (port->readable)
			event_free(port->readable);
		if (port->writable)
			event_free(port->writable);
		if (port->daemon && port->fd >= 0)
			close(port->fd);
		if (port->bound)
			unlink(d->settings.ports[i].name);
	}
}
