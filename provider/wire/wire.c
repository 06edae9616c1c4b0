/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The wire as a whole: making and ending it, polling and housekeeping.
 * Called under the engine's lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host/fabric.h"
#include "host/fd.h"
#include "wire/shm.h"

/* Beside nothing that is written to. */
volatile bool urxe_payload_lost __attribute__((aligned(64)));

#define HEARD_LATELY 200000ull
#define HAD_LATELY   200000ull
#define ASK_EVERY    20000ull
#define ASK_ALL	     20000ull /* the sockets that are silent while another one is busy */
#define SOLE	     8	      /* times in a row that only one socket had anything */

/* Ports of one kind alone: a host of a fabric has no others. */
const struct urxe_link_ops *const urxe_links[URXE_NUM_LINKS] = {
	[URXE_LINK_ROCE] = &urxe_roce_link,
	[URXE_LINK_FABRIC] = &urxe_fabric_link,
};

unsigned urxe_wire_port_at(struct urxe_wire *wire, const struct urxe_path *path)
{
	return urxe_link_of(path)->port_at(wire, path);
}

int urxe_wire_mcast_join(struct urxe_wire *wire, const struct urxe_port *port,
			 const struct urxe_link_addr *group)
{
	return urxe_link_of_port(port)->join(wire, port, group);
}

void urxe_wire_mcast_leave(struct urxe_wire *wire, const struct urxe_port *port,
			   const struct urxe_link_addr *group)
{
	urxe_link_of_port(port)->leave(wire, port, group);
}

/* ---- making and ending ---- */

static void release(struct urxe_wire *wire, bool forked)
{
	wire->link->close(wire, forked);
	urxe_shm_destroy(wire, forked);
	urxe_fault_close(wire);
	urxe_ipc_close(wire);
	urxe_fd_close(wire->epfd);
	urxe_icrc_destroy(wire->icrc);
	urxe_rx_destroy(wire->rx);
	free(wire);
}

static int open_all(struct urxe_wire *wire)
{
	wire->epfd = urxe_fd_keep(urxe_libc.epoll_create1(EPOLL_CLOEXEC));
	if (wire->epfd < 0)
		return -errno;
	return urxe_icrc_create(&wire->icrc)
		      ?: urxe_rx_create(&wire->rx)
		      ?: urxe_fault_open(wire)
		      ?: urxe_shm_create(wire)
		      ?: urxe_ipc_open(wire)
		      ?: wire->link->open(wire);
}

int urxe_wire_create(struct urxe_segment *seg, struct urxe_wire **out)
{
	struct urxe_wire *wire = calloc(1, sizeof(*wire));
	int ret;

	*out = NULL;
	if (!wire)
		return -ENOMEM;
	wire->seg = seg;
	wire->link = urxe_links[urxe_fabric_wanted() ? URXE_LINK_FABRIC : URXE_LINK_ROCE];
	wire->slot = urxe_segment_slot(seg);
	wire->epfd = -1;
	for (unsigned f = 0; f < URXE_NUM_FAMILIES; f++) {
		wire->recv[f] =
			(struct urxe_recv_socket){.fd = -1, .vlen = 1, .receive = urxe_receive};
		for (unsigned k = 0; k < URXE_SEND_SOCKETS; k++)
			wire->send[f][k].fd = -1;
	}
	ret = open_all(wire);
	if (ret) {
		urxe_wire_destroy(wire);
		return ret;
	}
	*out = wire;
	return 0;
}

void urxe_wire_destroy(struct urxe_wire *wire)
{
	if (!wire)
		return;
	urxe_wire_drain(wire);
	release(wire, false);
}

void urxe_wire_ending(struct urxe_wire *wire)
{
	wire->ending = true;
}

void urxe_wire_forked(struct urxe_wire *wire)
{
	release(wire, true);
}

/* ---- running ---- */

/*
 * A system call costs as much as several packets of neighbours. While those come and the sockets
 * have had nothing, the sockets are asked now and then.
 */
static bool ask_sockets(struct urxe_wire *wire, uint64_t now)
{
	if (wire->shm && now - wire->shm->heard_at < HEARD_LATELY &&
	    now - wire->had_at > HAD_LATELY && now - wire->asked_at < ASK_EVERY)
		return false;
	wire->asked_at = now;
	return true;
}

static void watch_sole(struct urxe_wire *wire)
{
	if (wire->unwatched && !urxe_wire_watch(wire, wire->sole->fd, wire->sole))
		wire->unwatched = false;
}

/* Has one socket been the only one with anything for some time? */
static void find_sole(struct urxe_wire *wire, struct urxe_recv_socket *sock)
{
	if (sock == wire->sole) {
		if (wire->sole_for < SOLE)
			wire->sole_for++;
		return;
	}
	watch_sole(wire);
	if (!wire->unwatched) {
		wire->sole = sock;
		wire->sole_for = 0;
	}
}

void urxe_wire_forget(struct urxe_wire *wire, const struct urxe_recv_socket *sock)
{
	if (wire->sole != sock)
		return;
	wire->sole = NULL;
	wire->unwatched = false;
}

/*
 * When a socket has something, epoll is one call too many before the one that receives; and each
 * packet takes longer to send where the socket that it reaches is in an epoll set. So the only
 * socket that packets come by is taken out of the set and asked itself, as long as nobody sleeps on
 * the set.
 */
void urxe_wire_attend(struct urxe_wire *wire, bool attended)
{
	if (!attended)
		watch_sole(wire);
	else if (!wire->unwatched && wire->sole && wire->sole_for == SOLE)
		wire->unwatched =
			!urxe_libc.epoll_ctl(wire->epfd, EPOLL_CTL_DEL, wire->sole->fd, NULL);
}

/* One epoll call asks all sockets at once and costs less than a receive on one empty socket. */
static int ask_all(struct urxe_wire *wire, unsigned budget)
{
	struct urxe_recv_socket *unwatched = wire->unwatched ? wire->sole : NULL;
	struct epoll_event events[16];
	uint64_t sent = urxe_flow_sent(wire);
	int n, packets = 0;

	n = urxe_libc.epoll_wait(wire->epfd, events, 16, 0);
	for (int k = 0; k < n; k++) {
		struct urxe_recv_socket *sock = events[k].data.ptr;

		packets += sock ? sock->receive(wire, sock, budget) : urxe_ipc_receive(wire);
	}
	if (n > 0)
		find_sole(wire, n == 1 ? events[0].data.ptr : NULL);
	if (unwatched)
		packets += unwatched->receive(wire, unwatched, budget);
	if (n <= 0 && !packets)
		urxe_flow_empty(wire, sent);
	return packets;
}

static int poll_sockets(struct urxe_wire *wire, unsigned budget, uint64_t now)
{
	int packets;

	if (wire->unwatched && now - wire->all_at < ASK_ALL) {
		packets = wire->sole->receive(wire, wire->sole, budget);
	} else {
		wire->all_at = now;
		packets = ask_all(wire, budget);
	}
	if (packets)
		wire->had_at = now;
	else
		wire->lull++;
	atomic_store_explicit(&wire->had_lately, now - wire->had_at < HAD_LATELY,
			      memory_order_relaxed);
	return packets;
}

int urxe_wire_poll(struct urxe_wire *wire, unsigned budget, uint64_t now, urxe_wire_rx_fn *fn,
		   void *arg)
{
	int packets = 0;

	wire->fn = fn;
	wire->arg = arg;
	if (wire->delayed.head || wire->passed.head)
		urxe_fault_release(wire, now);
	if (urxe_ipc_deadline(wire) <= now)
		urxe_ipc_retry(wire, now);
	if (wire->shm)
		packets = urxe_shm_receive(wire, budget);
	if (packets)
		wire->shm->heard_at = now;
	if (ask_sockets(wire, now))
		packets += poll_sockets(wire, budget, now);
	return packets;
}

int urxe_wire_poll_near(struct urxe_wire *wire, unsigned budget, urxe_wire_rx_fn *fn)
{
	if (!wire->shm || wire->delayed.head || wire->passed.head)
		return 0;
	wire->fn = fn;
	wire->arg = NULL;
	return urxe_shm_receive(wire, budget);
}

int urxe_wire_fd(const struct urxe_wire *wire)
{
	return wire->epfd;
}

uint64_t urxe_wire_deadline(const struct urxe_wire *wire)
{
	uint64_t fault = urxe_fault_deadline(wire), ipc = urxe_ipc_deadline(wire);

	return fault < ipc ? fault : ipc;
}

void urxe_refused(const struct urxe_rx_packet *rx, bool qkey)
{
	const struct urxe_link_ops *link = urxe_link_of(&rx->path);

	if (link->refused)
		link->refused(rx, qkey);
}

void urxe_wire_ports_changed(struct urxe_wire *wire)
{
	if (wire && wire->link->ports_changed)
		wire->link->ports_changed(wire);
}

void urxe_wire_housekeep(struct urxe_wire *wire)
{
	urxe_segment_beat(wire->seg);
	urxe_segment_reap(wire->seg);
	wire->link->housekeep(wire);
	urxe_fault_settings(wire);
	if (wire->shm)
		urxe_shm_housekeep(wire);
	wire->memos = 0; /* addresses may have moved */
}
