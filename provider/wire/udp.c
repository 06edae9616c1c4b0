/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The wire's UDP sockets and their options. Receive sockets are bound to port 4791 of all
 * addresses (one for IPv4, one for IPv6 alone) and share it with the other processes of this
 * user. Send sockets have ports of their own, so that routers and receivers spread the flows, and
 * are never connected: only then does the kernel number IPv4 packets from 0 (icrc.h). Guarded by
 * the wire's lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "host/fd.h"
#include "wire/private.h"

#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif
#ifndef IPV6_FLOWINFO_SEND
#define IPV6_FLOWINFO_SEND 33
#endif
#ifndef SOL_UDP
#define SOL_UDP 17
#endif
#ifndef UDP_NO_CHECK6_RX
#define UDP_NO_CHECK6_RX 102
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define RECV_BUFFER (8 << 20)
#define SEND_BUFFER (2 << 20)

static int set(int fd, int level, int name, int value)
{
	return urxe_libc.setsockopt(fd, level, name, &value, sizeof(value)) ? -errno : 0;
}

/* As large as we may: past the limit when privileged, to it otherwise. URXE_RCVBUF=bytes makes it
 * that small instead: as on a host with a small limit. */
static void set_buffers(int fd)
{
	const char *text = getenv("URXE_RCVBUF");
	int bytes = text ? atoi(text) : 0;

	if (bytes > 0) {
		set(fd, SOL_SOCKET, SO_RCVBUF, bytes / 2); /* the kernel doubles it */
		return;
	}
	if (set(fd, SOL_SOCKET, SO_RCVBUFFORCE, RECV_BUFFER))
		set(fd, SOL_SOCKET, SO_RCVBUF, RECV_BUFFER);
}

/* What a packet's headers said comes with it as control messages. Groups that another
 * process joined are not ours. */
static int set_receive4(int fd)
{
	return set(fd, IPPROTO_IP, IP_PKTINFO, 1)
		       ?: set(fd, IPPROTO_IP, IP_RECVTOS, 1)
		       ?: set(fd, IPPROTO_IP, IP_RECVTTL, 1)
		       ?: set(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
}

static int set_receive6(int fd)
{
	set(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
	/* The kernel's rxe sends no UDP checksum, over IPv6 either. */
	return set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1)
		       ?: set(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1)
		       ?: set(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1)
		       ?: set(fd, SOL_UDP, UDP_NO_CHECK6_RX, 1);
}

/* DF; a packet that is too large for the path is EMSGSIZE. */
static int set_send4(int fd)
{
	set(fd, IPPROTO_IP, IP_MULTICAST_TTL, 64);
	set(fd, IPPROTO_IP, IP_MULTICAST_LOOP, 1);
	return set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
}

static int set_send6(int fd)
{
	set(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, 64);
	set(fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 1);
	set(fd, IPPROTO_IPV6, IPV6_FLOWINFO_SEND, 1);
	return set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
}

/* Of that family alone; -errno. */
static int open_socket(enum urxe_family family)
{
	int domain = family == URXE_IPV4 ? AF_INET : AF_INET6;
	int fd = urxe_fd_keep(
		urxe_libc.socket(domain, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	int ret = fd < 0 ? -errno : 0;

	if (!ret && family == URXE_IPV6)
		ret = set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	if (!ret)
		return fd;
	urxe_fd_close(fd);
	return ret;
}

static int open_receive(enum urxe_family family, const union urxe_ip_sockaddr *addr, socklen_t len)
{
	int fd = open_socket(family), ret;

	if (fd < 0)
		return fd;
	ret = (family == URXE_IPV4 ? set_receive4(fd) : set_receive6(fd))
		      ?: set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	if (!ret) {
		set(fd, SOL_UDP, UDP_GRO, 1); /* faster where the kernel knows it (5.0) */
		set_buffers(fd);
		if (urxe_libc.bind(fd, &addr->sa, len))
			ret = -errno;
	}
	if (!ret)
		return fd;
	urxe_fd_close(fd);
	return ret;
}

/* The port at all addresses of a family. */
static socklen_t everywhere(union urxe_ip_sockaddr *addr, enum urxe_family family)
{
	struct in6_addr any = IN6ADDR_ANY_INIT;

	if (family == URXE_IPV4)
		any = urxe_v4mapped((struct in_addr){INADDR_ANY});
	return urxe_ip_sockaddr(addr, &any, URXE_UDP_PORT, 0);
}

/* Has anybody at all the port, were it a process of this user that shares it? */
static bool is_taken(enum urxe_family family)
{
	union urxe_ip_sockaddr addr;
	socklen_t len = everywhere(&addr, family);
	int fd = open_socket(family);
	/* If there is none, the call that opens it for good says why. */
	bool taken = fd >= 0 && urxe_libc.bind(fd, &addr.sa, len) && errno == EADDRINUSE;

	urxe_fd_close(fd);
	return taken;
}

int urxe_udp_open_group(const struct in6_addr *group, unsigned ifindex)
{
	union urxe_ip_sockaddr addr;
	socklen_t len = urxe_ip_sockaddr(&addr, group, URXE_UDP_PORT, ifindex);

	return open_receive(urxe_is_ipv4(group) ? URXE_IPV4 : URXE_IPV6, &addr, len);
}

int urxe_udp_open_send(enum urxe_family family, uint16_t *port)
{
	union urxe_ip_sockaddr addr = {.sa.sa_family = family == URXE_IPV4 ? AF_INET : AF_INET6};
	socklen_t len = family == URXE_IPV4 ? sizeof(addr.in) : sizeof(addr.in6);
	int fd = open_socket(family), ret;

	if (fd < 0)
		return fd;
	ret = family == URXE_IPV4 ? set_send4(fd) : set_send6(fd);
	if (set(fd, SOL_SOCKET, SO_SNDBUFFORCE, SEND_BUFFER))
		set(fd, SOL_SOCKET, SO_SNDBUF, SEND_BUFFER);
	set(fd, SOL_SOCKET, SO_RCVBUF, 0); /* nothing is read from it */
	/* The ICRC covers the source port: it must be known before the first packet. */
	if (!ret &&
	    (urxe_libc.bind(fd, &addr.sa, len) || urxe_libc.getsockname(fd, &addr.sa, &len)))
		ret = -errno;
	if (ret) {
		urxe_fd_close(fd);
		return ret;
	}
	*port = ntohs(family == URXE_IPV4 ? addr.in.sin_port : addr.in6.sin6_port);
	return fd;
}

int urxe_wire_watch(struct urxe_wire *wire, int fd, struct urxe_recv_socket *sock)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = sock};

	return urxe_libc.epoll_ctl(wire->epfd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

/* ---- all of a wire's ---- */

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

/*
 * Does a process of this user have the port that is not of this segment? The kernel would
 * give each of the two packets of the other. The first process of the segment finds the port
 * free, or soon: a process that is being killed leaves the segment before its sockets close.
 * Under the segment's lock.
 */
static bool has_strangers(struct urxe_wire *wire, unsigned family)
{
	const struct timespec moment = {.tv_nsec = STRANGERS_WAIT_NS};
	uint8_t first;

	if (urxe_segment_group(wire->seg, family, &first, 1))
		return false;
	for (unsigned k = 0; k < STRANGERS_TRIES; k++) {
		if (!is_taken(family))
			return false;
		nanosleep(&moment, NULL);
	}
	return true;
}

static void explain_strangers(const struct urxe_wire *wire)
{
	urxe_log(URXE_LOG_ERROR,
		 "processes of this user that do not share %s with this one have UDP port %d (in a "
		 "container or sandbox with a /dev/shm of its own?): share it, name one folder for "
		 "all of them in URXE_RUNTIME_DIR, or give each a network namespace",
		 urxe_segment_path(wire->seg), URXE_UDP_PORT);
}

/* Both sockets and the group's member list change together, under the segment's lock. A host
 * without one of the families goes on with the other. */
int urxe_udp_open(struct urxe_wire *wire)
{
	int ret = 0, opened = 0;

	urxe_segment_lock(wire->seg);
	for (unsigned f = 0; f < URXE_NUM_FAMILIES; f++) {
		bool strangers = has_strangers(wire, f);
		union urxe_ip_sockaddr addr;
		socklen_t len = everywhere(&addr, f);
		int fd = open_receive(f, &addr, len);

		if (fd >= 0 && strangers) {
			urxe_fd_close(fd);
			explain_strangers(wire);
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
		urxe_segment_group_set(wire->seg, f, true);
		opened++;
		ret = urxe_wire_watch(wire, fd, &wire->recv[f]);
		if (ret)
			break;
	}
	if (opened && ret != -EADDRINUSE && ret != -EBUSY)
		urxe_steer(wire);
	urxe_segment_unlock(wire->seg);
	if (ret == -EADDRINUSE)
		explain_in_use();
	if (opened && (ret == -EAFNOSUPPORT || ret == -EADDRNOTAVAIL || ret == -EPROTONOSUPPORT))
		ret = 0;
	return ret;
}

static void close_receive(struct urxe_wire *wire)
{
	for (unsigned f = 0; f < URXE_NUM_FAMILIES; f++) {
		urxe_fd_close(wire->recv[f].fd);
		wire->recv[f].fd = -1;
	}
}

static void leave_group(struct urxe_wire *wire)
{
	if (wire->recv[URXE_IPV4].fd < 0 && wire->recv[URXE_IPV6].fd < 0)
		return;
	urxe_segment_lock(wire->seg);
	for (unsigned f = 0; f < URXE_NUM_FAMILIES; f++)
		urxe_segment_group_set(wire->seg, f, false);
	/* As the order will be when the sockets are closed. */
	urxe_steer(wire);
	close_receive(wire);
	urxe_segment_unlock(wire->seg);
}

/* Only their owner may take the receive sockets out of the group. */
void urxe_udp_close(struct urxe_wire *wire, bool forked)
{
	if (forked)
		close_receive(wire);
	else
		leave_group(wire);
	urxe_mcast_close(wire);
	urxe_send_close(wire);
}
