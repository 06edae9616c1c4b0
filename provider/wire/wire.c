/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The wire as a whole: making and ending it, polling, housekeeping, and which device a packet
 * belongs to. Called under the engine's lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host/fd.h"
#include "wire/shm.h"

#define DEVS_AGE     1000000000ull /* ns after which an unknown address makes us look for new devices */
#define HEARD_LATELY 200000ull
#define HAD_LATELY   200000ull
#define ASK_EVERY    20000ull
#define ASK_ALL	     20000ull /* the sockets that are silent while another one is busy */
#define SOLE	     8	      /* times in a row that only one socket had anything */

uint64_t urxe_wire_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/* ---- devices ---- */

static bool has_addr(const struct urxe_device *dev, const struct in6_addr *addr)
{
	for (unsigned k = 0; k < dev->gid_len; k++)
		if (!memcmp(dev->gids[k].raw, addr, sizeof(*addr)))
			return true;
	return false;
}

/* The same link-local address may be on several devices: the interface decides. Any other one is on
 * one device, whatever interface the kernel says it came by (lo, for packets of this host). */
static struct urxe_device *search(struct urxe_wire *wire, const struct in6_addr *addr,
				  unsigned ifindex)
{
	struct urxe_device *by_addr = NULL, *by_ifindex = NULL;

	urxe_device_lock();
	for (int k = 0; k < wire->num_devs; k++) {
		struct urxe_device *dev = wire->devs[k];

		if (dev->ifindex == ifindex && !by_ifindex)
			by_ifindex = dev;
		if (!has_addr(dev, addr))
			continue;
		if (!by_addr || dev->ifindex == ifindex)
			by_addr = dev;
	}
	urxe_device_unlock();
	return by_addr ? by_addr : by_ifindex;
}

static void read_devices(struct urxe_wire *wire, uint64_t now)
{
	int n = urxe_devices(wire->devs, URXE_MAX_DEVICES);

	wire->num_devs = n > 0 ? n : 0;
	wire->devs_read = now;
	wire->memos = 0;
}

struct urxe_device *urxe_wire_find_dev(struct urxe_wire *wire, const struct in6_addr *addr,
				       unsigned ifindex)
{
	unsigned known = wire->memos < URXE_DEV_MEMOS ? wire->memos : URXE_DEV_MEMOS;
	struct urxe_device *dev;
	uint64_t now;

	for (unsigned k = 0; k < known; k++)
		if (wire->memo[k].ifindex == ifindex &&
		    IN6_ARE_ADDR_EQUAL(&wire->memo[k].addr, addr))
			return wire->memo[k].dev;
	dev = search(wire, addr, ifindex);
	now = urxe_wire_now();
	if (!dev && now - wire->devs_read > DEVS_AGE) {
		read_devices(wire, now);
		dev = search(wire, addr, ifindex);
	}
	known = wire->memos++ % URXE_DEV_MEMOS;
	wire->memo[known].addr = *addr;
	wire->memo[known].ifindex = ifindex;
	wire->memo[known].dev = dev;
	return dev;
}

struct urxe_device *urxe_wire_device_at(struct urxe_wire *wire, const struct in6_addr *addr)
{
	return urxe_wire_find_dev(wire, addr, 0);
}

/* ---- making and ending ---- */

#define STRANGERS_TRIES	  50
#define STRANGERS_WAIT_NS 2000000

static void explain_in_use(void)
{
	urxe_log(URXE_LOG_ERROR,
		 "UDP port %d is taken, by the kernel's rdma_rxe or another user's process: run in "
		 "a network namespace of your own (unshare -Urn), or end that process or unload "
		 "rdma_rxe (ss -ulpn sport = :%d names it)",
		 URXE_UDP_PORT, URXE_UDP_PORT);
}

/* Does a process of this user have the port that is not of this segment? The kernel would give each of
 * the two packets of the other. Who is the first of the segment finds the port free, or soon: a process
 * that is being killed leaves the segment before its sockets close. Under the segment's lock. */
static bool has_strangers(struct urxe_wire *wire, unsigned family)
{
	const struct timespec moment = {.tv_nsec = STRANGERS_WAIT_NS};
	uint8_t first;

	if (urxe_segment_group(wire->seg, family, &first, 1))
		return false;
	for (unsigned k = 0; k < STRANGERS_TRIES; k++) {
		if (!urxe_udp_probe(family))
			return false;
		nanosleep(&moment, NULL);
	}
	return true;
}

void urxe_wire_explain_strangers(const struct urxe_wire *wire)
{
	urxe_log(URXE_LOG_ERROR,
		 "processes of this user that do not share %s with this one have UDP port %d (in a "
		 "container or sandbox with a /dev/shm of its own?): share it, name one folder for "
		 "all of them in URXE_RUNTIME_DIR, or give each a network namespace",
		 urxe_segment_path(wire->seg), URXE_UDP_PORT);
}

/* Both sockets and the group's member list change together, under the segment's lock. A host
 * without one of the families goes on with the other. */
static int open_sockets(struct urxe_wire *wire)
{
	int ret = 0, opened = 0;

	urxe_segment_lock(wire->seg);
	for (unsigned f = 0; f < URXE_NUM_FAMILIES; f++) {
		bool strangers = has_strangers(wire, f);
		int fd = urxe_udp_open_recv(f);

		if (fd >= 0 && strangers) {
			urxe_fd_close(fd);
			urxe_wire_explain_strangers(wire);
			ret = -EBUSY;
			break;
		}
		if (fd < 0) {
			ret = fd;
			if (fd == -EADDRINUSE || fd == -EMFILE || fd == -ENFILE)
				break;
			continue;
		}
		wire->recv[f].fd = fd;
		urxe_segment_group_add(wire->seg, f);
		opened++;
		ret = urxe_wire_watch(wire, fd, &wire->recv[f]);
		if (ret)
			break;
	}
	if (opened && ret != -EADDRINUSE && ret != -EBUSY)
		urxe_steer(wire, false);
	urxe_segment_unlock(wire->seg);
	if (ret == -EADDRINUSE)
		explain_in_use();
	if (opened && (ret == -EAFNOSUPPORT || ret == -EADDRNOTAVAIL || ret == -EPROTONOSUPPORT))
		ret = 0;
	return ret;
}

static void close_sockets(struct urxe_wire *wire)
{
	bool any = wire->recv[URXE_IPV4].fd >= 0 || wire->recv[URXE_IPV6].fd >= 0;

	if (!any)
		return;
	urxe_segment_lock(wire->seg);
	urxe_steer(wire, true);
	for (unsigned f = 0; f < URXE_NUM_FAMILIES; f++) {
		if (wire->recv[f].fd < 0)
			continue;
		urxe_fd_close(wire->recv[f].fd);
		wire->recv[f].fd = -1;
		urxe_segment_group_remove(wire->seg, f);
	}
	urxe_segment_unlock(wire->seg);
}

/* Everything but the receive sockets, which only their owner may take out of the group. */
static void release(struct urxe_wire *wire)
{
	urxe_mcast_close(wire);
	urxe_send_close(wire);
	urxe_hold_close(wire);
	urxe_mail_close(wire);
	if (wire->epfd >= 0)
		urxe_fd_close(wire->epfd);
	urxe_icrc_destroy(wire->icrc);
	urxe_tx_destroy(wire->tx);
	urxe_rx_destroy(wire->rx);
	free(wire);
}

static int open_all(struct urxe_wire *wire)
{
	int ret;

	wire->epfd = urxe_fd_keep(urxe_libc.epoll_create1(EPOLL_CLOEXEC));
	if (wire->epfd < 0)
		return -errno;
	ret = urxe_icrc_create(&wire->icrc);
	if (!ret)
		ret = urxe_tx_create(&wire->tx);
	if (!ret)
		ret = urxe_rx_create(&wire->rx);
	if (!ret)
		ret = urxe_hold_open(wire);
	if (!ret)
		ret = urxe_shm_create(wire);
	if (!ret)
		ret = urxe_mail_open(wire);
	if (!ret)
		ret = open_sockets(wire);
	return ret;
}

int urxe_wire_create(struct urxe_segment *seg, struct urxe_wire **out)
{
	struct urxe_wire *wire = calloc(1, sizeof(*wire));
	int ret;

	*out = NULL;
	if (!wire)
		return -ENOMEM;
	wire->seg = seg;
	wire->slot = urxe_segment_slot(seg);
	wire->epfd = -1;
	for (unsigned f = 0; f < URXE_NUM_FAMILIES; f++) {
		wire->recv[f] = (struct urxe_recv_socket){.fd = -1, .vlen = 1};
		for (unsigned k = 0; k < URXE_SEND_SOCKETS; k++)
			wire->send[f][k].fd = -1;
	}
	ret = open_all(wire);
	if (ret) {
		urxe_wire_destroy(wire);
		return ret;
	}
	read_devices(wire, urxe_wire_now());
	*out = wire;
	return 0;
}

void urxe_wire_destroy(struct urxe_wire *wire)
{
	if (!wire)
		return;
	close_sockets(wire);
	urxe_shm_destroy(wire, false);
	release(wire);
}

void urxe_wire_forked(struct urxe_wire *wire)
{
	for (unsigned f = 0; f < URXE_NUM_FAMILIES; f++)
		if (wire->recv[f].fd >= 0)
			urxe_fd_close(wire->recv[f].fd);
	urxe_shm_destroy(wire, true);
	release(wire);
}

/* ---- running ---- */

/*
 * A system call costs as much as several packets of neighbours. While those come and the sockets have
 * had nothing, the sockets are asked now and then.
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
 * When a socket has something, epoll is one call too many before the one that receives; and each packet takes
 * longer to send where the socket that it reaches is in an epoll set. So the only socket that packets come by
 * is taken out of the set and asked itself, as long as nobody sleeps on the set.
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

		packets += sock ? urxe_receive(wire, sock, budget) : urxe_mail_receive(wire);
	}
	if (n > 0)
		find_sole(wire, n == 1 ? events[0].data.ptr : NULL);
	if (unwatched)
		packets += urxe_receive(wire, unwatched, budget);
	if (n <= 0 && !packets)
		urxe_flow_empty(wire, sent);
	return packets;
}

static int poll_sockets(struct urxe_wire *wire, unsigned budget, uint64_t now)
{
	int packets;

	if (wire->unwatched && now - wire->all_at < ASK_ALL) {
		packets = urxe_receive(wire, wire->sole, budget);
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
		urxe_hold_release(wire, now);
	if (urxe_mail_deadline(wire) <= now)
		urxe_mail_retry(wire, now);
	if (wire->shm)
		packets = urxe_shm_receive(wire, budget);
	if (packets)
		wire->shm->heard_at = now;
	if (ask_sockets(wire, now))
		packets += poll_sockets(wire, budget, now);
	return packets;
}

int urxe_wire_fd(const struct urxe_wire *wire)
{
	return wire->epfd;
}

uint64_t urxe_wire_deadline(const struct urxe_wire *wire)
{
	uint64_t hold = urxe_hold_deadline(wire), mail = urxe_mail_deadline(wire);

	return hold < mail ? hold : mail;
}

void urxe_wire_housekeep(struct urxe_wire *wire)
{
	urxe_segment_beat(wire->seg);
	urxe_segment_reap(wire->seg);
	urxe_steer_renew(wire);
	urxe_hold_settings(wire);
	if (wire->shm)
		urxe_shm_housekeep(wire);
	wire->memos = 0; /* addresses may have moved */
}
