// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * One open umad or issm file: what reading, writing and ioctl do, with the results that the
 * kernel's user_mad.c has. On a fabric registrations are commands to fabricd, and MADs go by the
 * file's rings and socket; on RoCE both are calls of cm/agents.h, and what arrives comes by a
 * socket all the same. What the kernel refuses when it is written is refused here, because those
 * have no answer: a MAD that is too short, an agent that is not there, a request whose transaction
 * ID is under way already. See umad.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/ib_user_mad.h>
#include <rdma/rdma_user_ioctl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/fabric.h"
#include "host/fd.h"
#include "host/libc.h"
#include "host/user_memory.h"
#include "preload/umad.h"

#define OLD_HDR 56 /* without the P_Key index, until IB_USER_MAD_ENABLE_PKEY */

/* ---- opening ---- */

static bool find_port(const struct urxe_umad *file, uint32_t *index)
{
	const struct urxe_fabric_host *host = urxe_fabric_host();

	for (unsigned i = 0; host && i < host->num_adapters; i++) {
		const struct fabric_node *node = fabric_map_node(host->map, host->adapters[i]);

		if (node->guid == file->node_guid && file->port && file->port <= node->num_ports) {
			*index = node->first_port + file->port;
			return true;
		}
	}
	return false;
}

static int connect_fabric(struct urxe_umad *file)
{
	struct epoll_event ev = {.events = EPOLLIN};
	struct fabric_welcome welcome;
	struct fabric_reply reply;
	int fds[FABRIC_UMAD_FDS];
	uint32_t index;
	int sock, ret;

	if (!find_port(file, &index))
		return -ENODEV;
	sock = urxe_fabric_connect(file->issm ? FABRIC_ISSM : FABRIC_UMAD, index, -1, &welcome,
				   file->issm ? NULL : fds);
	if (sock < 0)
		return sock;
	ret = file->issm ? 0 : urxe_umad_rings_begin(file, fds);
	if (ret) {
		urxe_fd_close(sock);
		return ret;
	}
	file->cookie = welcome.cookie;
	for (unsigned i = 0; i < FABRIC_AGENTS; i++) {
		if (!(file->registered & 1u << i))
			continue;
		file->agents[i].cookie = file->cookie;
		file->agents[i].id = i;
		urxe_fabric_request(&file->agents[i], &reply);
	}
	/* An issm file says nothing: it is there to be closed. */
	if (!file->issm && urxe_libc.epoll_ctl(file->fd, EPOLL_CTL_ADD, sock, &ev)) {
		ret = -errno;
		urxe_umad_rings_end(file);
		urxe_fd_close(sock);
		return ret;
	}
	file->sock = sock;
	return 0;
}

/* ---- on RoCE ---- */

static int send_long(int sock, const uint8_t *hdr, const uint8_t *mad, size_t len, int flags);

/* Under the engine's lock. A program that does not read what its socket has no room for loses
 * it. */
static void deliver(void *arg, const uint8_t *hdr, const uint8_t *mad, uint32_t len)
{
	struct urxe_umad *file = arg;
	struct iovec iov[2] = {{(void *)hdr, FABRIC_UMAD_HDR}, {(void *)mad, len}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};

	if (!mad)
		syscall(SYS_shutdown, file->far, SHUT_WR);
	else if (len > MAD_LEN)
		send_long(file->far, hdr, mad, len, MSG_DONTWAIT);
	else
		urxe_libc.sendmsg(file->far, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static int connect_roce(struct urxe_umad *file)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int pair[2], room = 4 << 20;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	file->sock = urxe_fd_keep(pair[0]);
	file->far = urxe_fd_keep(pair[1]);
	urxe_libc.setsockopt(file->far, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	if (urxe_libc.epoll_ctl(file->fd, EPOLL_CTL_ADD, file->sock, &ev))
		return -errno;
	return urxe_agents_open(file->roce, deliver, file, &file->here);
}

/* Its parent has the agents: the child can read what arrives for it, and send nothing. */
void urxe_umad_file_forked(struct urxe_umad *file)
{
	pthread_mutex_init(&file->lock, NULL);
	file->inherited = true;
	file->here = NULL;
	urxe_fd_close(file->far);
	file->far = -1;
}

/* ---- a file ---- */

int urxe_umad_file_connect(struct urxe_umad *file)
{
	return file->roce ? connect_roce(file) : connect_fabric(file);
}

int urxe_umad_file_open(const struct urxe_umad_port *port, struct urxe_umad **out)
{
	const struct urxe_fabric_host *host = port->roce ? NULL : urxe_fabric_host();
	struct epoll_event ev = {.events = EPOLLIN};
	struct urxe_umad *file;
	int ret;

	if (!port->roce && !host)
		return -ENODEV;
	file = calloc(1, sizeof(*file));
	if (!file)
		return -ENOMEM;
	atomic_init(&file->refs, 1);
	pthread_mutex_init(&file->lock, NULL);
	file->issm = port->issm;
	file->node_guid = host ? fabric_map_node(host->map, port->node)->guid : 0;
	file->port = port->port;
	file->roce = port->roce;
	file->sock = file->far = file->arrived = file->doorbell = file->held_fd = -1;
	file->fd = urxe_fd_keep(urxe_libc.epoll_create1(EPOLL_CLOEXEC));
	file->event = urxe_fd_keep(urxe_libc.eventfd(0, EFD_NONBLOCK));
	ret = file->fd < 0 || file->event < 0 ||
			      urxe_libc.epoll_ctl(file->fd, EPOLL_CTL_ADD, file->event, &ev)
		      ? -errno
		      : urxe_umad_file_connect(file);
	if (!ret) {
		*out = file;
		return 0;
	}
	urxe_umad_file_close(file);
	return ret;
}

void urxe_umad_file_close(struct urxe_umad *file)
{
	struct urxe_umad_flight *f;

	if (file->here)
		urxe_agents_close(file->here);
	urxe_fd_close(file->far);
	urxe_umad_rings_end(file);
	urxe_fd_close(file->sock);
	urxe_fd_close(file->event);
	urxe_fd_close(file->held_fd);
	urxe_fd_close(file->fd);
	for (unsigned i = 0; i < URXE_UMAD_FLIGHTS; i++)
		while ((f = file->flights[i])) {
			file->flights[i] = f->next;
			free(f);
		}
	while ((f = file->late)) {
		file->late = f->next;
		free(f);
	}
	pthread_mutex_destroy(&file->lock);
	free(file);
}

/* ---- requests under way ---- */

static bool is_response(const uint8_t *mad)
{
	return mad[3] & 0x80 || mad[3] == 7 || (mad[1] == 5 && mad[23] & 1);
}

static bool same_destination(const struct ib_user_mad_hdr *a, const struct ib_user_mad_hdr *b)
{
	if (!a->grh_present != !b->grh_present)
		return false;
	return a->grh_present ? !memcmp(a->gid, b->gid, sizeof(a->gid)) : a->lid == b->lid;
}

/* A request has a number of its agent, the lower half of the transaction ID; a response one of the
 * agent that asked. */
static bool is_flight(const uint8_t *shown, const uint8_t *umad, bool response)
{
	const struct ib_user_mad_hdr *a = (const void *)shown, *b = (const void *)umad;
	const uint8_t *mad = umad + FABRIC_UMAD_HDR, *own = shown + FABRIC_UMAD_HDR;

	if (own[MAD_CLASS] != mad[MAD_CLASS] || is_response(own) != response ||
	    memcmp(own + MAD_TID + 4, mad + MAD_TID + 4, 4))
		return false;
	return response ? !memcmp(own + MAD_TID, mad + MAD_TID, 4) && same_destination(a, b)
			: a->id == b->id;
}

static struct urxe_umad_flight **flight_at(struct urxe_umad *file, const uint8_t *umad,
					   bool response)
{
	struct urxe_umad_flight **at;
	uint32_t tid;

	memcpy(&tid, umad + FABRIC_UMAD_HDR + MAD_TID + 4, sizeof(tid));
	at = &file->flights[(tid ^ tid >> 16 ^ tid >> 24) % URXE_UMAD_FLIGHTS];
	while (*at && !is_flight((*at)->shown, umad, response))
		at = &(*at)->next;
	return at;
}

/* Does the program make segments itself? Those of one MAD have one number. */
static bool is_own_segment(const struct urxe_umad *file, const uint8_t *umad)
{
	const struct ib_user_mad_hdr *hdr = (const void *)umad;
	const struct fabric_request *agent = &file->agents[hdr->id];
	const uint8_t *mad = umad + FABRIC_UMAD_HDR;

	return (!agent->rmpp_version || agent->flags & IB_USER_MAD_USER_RMPP) &&
	       class_has_rmpp(mad[MAD_CLASS]) && mad[RMPP_FLAGS] & RMPP_ACTIVE;
}

/* Under the lock. *begun: flight_drop() takes it back. -EINVAL: as user_mad.c's is_duplicate()
 * says. */
static int flight_begin(struct urxe_umad *file, const uint8_t *umad, bool *begun)
{
	const struct ib_user_mad_hdr *hdr = (const void *)umad;
	bool response = is_response(umad + FABRIC_UMAD_HDR);
	struct urxe_umad_flight **at = flight_at(file, umad, response), *f;

	*begun = false;
	if (*at)
		return is_own_segment(file, umad) ? 0 : -EINVAL;
	if (!hdr->timeout_ms)
		return 0;
	f = malloc(sizeof(*f));
	if (!f)
		return -ENOMEM;
	memcpy(f->shown, umad, sizeof(f->shown));
	f->next = NULL;
	*at = f;
	*begun = true;
	return 0;
}

/* Under the lock. */
static void flight_drop(struct urxe_umad *file, const uint8_t *umad, bool response)
{
	struct urxe_umad_flight **at = flight_at(file, umad, response), *f = *at;

	if (!f)
		return;
	*at = f->next;
	free(f);
}

/* What was read ends a request: it is its answer, or says that none came. Under the lock. */
static void flight_end(struct urxe_umad *file, const uint8_t *umad)
{
	const struct ib_user_mad_hdr *hdr = (const void *)umad;
	bool response = is_response(umad + FABRIC_UMAD_HDR);

	if (hdr->status || response)
		flight_drop(file, umad, hdr->status && response);
}

/* Those of an agent that goes. Under the lock. */
static void flights_end(struct urxe_umad *file, uint32_t id)
{
	struct urxe_umad_flight **at, *f;

	for (unsigned i = 0; i < URXE_UMAD_FLIGHTS; i++) {
		at = &file->flights[i];
		while ((f = *at)) {
			if (((const struct ib_user_mad_hdr *)(void *)f->shown)->id != id) {
				at = &f->next;
				continue;
			}
			*at = f->next;
			free(f);
		}
	}
}

/* ---- reading ---- */

/* Gives the program what it sees of a header. */
static size_t show_header(const struct urxe_umad *file, void *buf, const uint8_t *bytes)
{
	size_t len = file->pkey_index ? FABRIC_UMAD_HDR : OLD_HDR;
	struct ib_user_mad_hdr hdr;

	memcpy(&hdr, bytes, sizeof(hdr));
	if (!hdr.status) /* else it is as the program wrote it */
		hdr.length -= FABRIC_UMAD_HDR - len;
	memcpy(buf, &hdr, len);
	return len;
}

/* Under the lock: what is timed out because there is no fabric. */
static ssize_t read_late(struct urxe_umad *file, void *buf, size_t len)
{
	struct urxe_umad_flight *f = file->late;
	struct ib_user_mad_hdr hdr;
	uint64_t count;
	size_t at;

	if (!f)
		return -EAGAIN;
	if (len < (file->pkey_index ? FABRIC_UMAD_HDR : OLD_HDR) + 24u)
		return -EINVAL;
	memcpy(&hdr, f->shown, sizeof(hdr));
	hdr.status = ETIMEDOUT;
	at = show_header(file, buf, (const uint8_t *)&hdr);
	memcpy((char *)buf + at, f->shown + FABRIC_UMAD_HDR, 24);
	file->late = f->next;
	free(f);
	if (!file->late && file->held_fd < 0)
		(void)!urxe_libc.read(file->event, &count, sizeof(count));
	return at + 24;
}

/*
 * A long MAD is in a memory file; its beginning came with it. A program that has no room for all of
 * it gets the beginning and ENOSPC, and reads it again: it stays at the head, and the file
 * readable.
 */
static ssize_t read_held(struct urxe_umad *file, void *buf, size_t len)
{
	const struct ib_user_mad_hdr *hdr = (const void *)file->held;
	size_t shown = file->pkey_index ? FABRIC_UMAD_HDR : OLD_HDR;
	size_t mad = hdr->length - FABRIC_UMAD_HDR, at;
	uint64_t count;
	ssize_t n;

	if (len < shown + MAD_LEN)
		return -EINVAL;
	at = show_header(file, buf, file->held);
	if (len < shown + mad) {
		memcpy((char *)buf + at, file->held + FABRIC_UMAD_HDR, MAD_LEN);
		return -ENOSPC;
	}
	n = urxe_libc.pread(file->held_fd, (char *)buf + at, mad, FABRIC_UMAD_HDR);
	urxe_fd_close(file->held_fd);
	file->held_fd = -1;
	if (!file->late)
		(void)!urxe_libc.read(file->event, &count, sizeof(count));
	return n == (ssize_t)mad ? (ssize_t)(at + n) : -EIO;
}

static int hold(struct urxe_umad *file, const uint8_t *head, int fd)
{
	uint64_t one = 1;

	if (fd < 0)
		return -EIO;
	memcpy(file->held, head, FABRIC_INLINE);
	file->held_fd = urxe_fd_keep(fd);
	(void)!urxe_libc.write(file->event, &one, sizeof(one));
	return 0;
}

/* Takes a datagram off the socket, with the descriptor that came with it (-1: none). */
static ssize_t receive(struct urxe_umad *file, uint8_t *head, int *fd)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = {head, FABRIC_INLINE};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	ssize_t n = urxe_libc.recvmsg(file->sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&msg);

	*fd = -1;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(fd, CMSG_DATA(c), sizeof(*fd));
	return n;
}

/*
 * From the ring, or else from the socket: its length; -EAGAIN: there is none; 0: the fabric has
 * ended. room: for a header with the P_Key index and a MAD; what is longer is refused before it is
 * taken off: -EINVAL.
 */
static ssize_t next_mad(struct urxe_umad *file, uint8_t *head, size_t room, int *fd)
{
	ssize_t n = urxe_umad_rings_receive(file, head, room);

	*fd = -1;
	if (n != -EAGAIN)
		return n;
	if (room < FABRIC_INLINE &&
	    urxe_libc.recv(file->sock, head, 1, MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC) >
		    (ssize_t)room)
		return -EINVAL;
	n = receive(file, head, fd);
	/* Another process that has the file took the one that was looked at. */
	if (n > (ssize_t)room) {
		if (*fd >= 0)
			urxe_libc.close(*fd);
		return -EINVAL;
	}
	return n >= 0 ? n : errno == EAGAIN || errno == EINTR ? -EAGAIN : 0;
}

/* A thread that is cancelled in a system call would keep the lock: OpenSM
 * cancels the one that reads. */
static int enter(struct urxe_umad *file)
{
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&file->lock);
	return cancel;
}

static void leave(struct urxe_umad *file, int cancel)
{
	pthread_mutex_unlock(&file->lock);
	pthread_setcancelstate(cancel, NULL);
}

/* Under the lock: one MAD, if there is one. */
static ssize_t read_mad(struct urxe_umad *file, void *buf, size_t len)
{
	_Alignas(8) uint8_t head[FABRIC_INLINE];
	const struct ib_user_mad_hdr *hdr = (const void *)head;
	size_t hidden = file->pkey_index ? 0 : FABRIC_UMAD_HDR - OLD_HDR, at;
	ssize_t n;
	int fd;

	if (file->sock < 0)
		return -EAGAIN;
	n = next_mad(file, head, len < FABRIC_INLINE ? len + hidden : FABRIC_INLINE, &fd);
	if (n == -EAGAIN || n == -EINVAL)
		return n;
	if (n < FABRIC_UMAD_HDR + 24 && file->roce)
		return -EIO; /* the device is gone */
	if (n < FABRIC_UMAD_HDR + 24) {
		urxe_umad_file_lost(file);
		return read_late(file, buf, len);
	}
	flight_end(file, head);
	if (!hdr->status && hdr->length > (size_t)n) {
		int ret = hold(file, head, fd);

		return ret ? ret : read_held(file, buf, len);
	}
	at = show_header(file, buf, head);
	memcpy((char *)buf + at, head + FABRIC_UMAD_HDR, n - FABRIC_UMAD_HDR);
	return at + n - FABRIC_UMAD_HDR;
}

ssize_t urxe_umad_file_read(struct urxe_umad *file, void *buf, size_t len)
{
	struct pollfd p = {.fd = file->fd, .events = POLLIN};
	ssize_t ret;
	int cancel;

	if (file->issm)
		return -EINVAL;
	for (;;) {
		cancel = enter(file);
		ret = file->held_fd >= 0 ? read_held(file, buf, len) : read_late(file, buf, len);
		if (ret == -EAGAIN)
			ret = read_mad(file, buf, len);
		leave(file, cancel);
		if (ret != -EAGAIN || urxe_libc.fcntl(file->fd, F_GETFL) & O_NONBLOCK)
			return ret;
		if (urxe_libc.poll(&p, 1, -1) < 0)
			return -errno;
	}
}

/* ---- writing ---- */

static int send_long(int sock, const uint8_t *hdr, const uint8_t *mad, size_t len, int flags)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	struct iovec iov[2] = {{(void *)hdr, FABRIC_UMAD_HDR}, {(void *)mad, MAD_LEN}};
	struct msghdr msg = {.msg_iov = iov,
			     .msg_iovlen = 2,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	int fd = memfd_create("urxe-mad", MFD_CLOEXEC);
	int ret = 0;

	if (fd < 0)
		return -errno;
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	if (urxe_libc.write(fd, hdr, FABRIC_UMAD_HDR) != FABRIC_UMAD_HDR ||
	    urxe_libc.write(fd, mad, len) != (ssize_t)len ||
	    urxe_libc.sendmsg(sock, &msg, MSG_NOSIGNAL | flags) < 0)
		ret = -errno;
	urxe_libc.close(fd);
	return ret;
}

static int check(const struct urxe_umad *file, const uint8_t *umad, size_t len)
{
	const struct ib_user_mad_hdr *hdr = (const void *)umad;
	const uint8_t *mad = umad + FABRIC_UMAD_HDR;
	const struct fabric_request *agent;
	bool segments;

	if (hdr->id >= FABRIC_AGENTS)
		return -EINVAL;
	if (!(file->registered & 1u << hdr->id))
		return -EIO;
	/* Not even the headers of its class. */
	if (len < FABRIC_UMAD_HDR + class_header_len(mad[MAD_CLASS]))
		return -EINVAL;
	agent = &file->agents[hdr->id];
	segments = agent->rmpp_version && !(agent->flags & IB_USER_MAD_USER_RMPP) &&
		   class_has_rmpp(mad[1]) && mad[RMPP_FLAGS] & RMPP_ACTIVE;
	if (!segments && len > FABRIC_UMAD_HDR + MAD_LEN)
		return -EINVAL;
	/* mad.c: a directed route must begin at this port. */
	if (mad[1] == CLASS_SUBN_DR && len >= FABRIC_UMAD_HDR + MAD_LEN &&
	    get16(mad + SMP_DR_SLID) == LID_PERMISSIVE && !(mad[MAD_STATUS] & 0x80) &&
	    (mad[SMP_HOP_PTR] || (mad[SMP_HOP_COUNT] && mad[SMP_INIT_PATH + 1] != file->port)))
		return -EINVAL;
	return len <= FABRIC_MAX_MAD ? 0 : -ENOMEM;
}

static int transmit_fabric(struct urxe_umad *file, const uint8_t *umad, size_t len)
{
	int ret = 0;

	if (file->sock < 0) /* no fabric: nothing arrives anywhere */
		urxe_umad_file_lost(file);
	else if (urxe_umad_rings_send(file, umad, len))
		ret = 0;
	else if (len > FABRIC_INLINE)
		ret = send_long(file->sock, umad, umad + FABRIC_UMAD_HDR, len - FABRIC_UMAD_HDR, 0);
	else if (urxe_libc.sendto(file->sock, umad, len, MSG_NOSIGNAL, NULL, 0) < 0)
		ret = -errno;
	if (ret == -EPIPE || ret == -ECONNRESET || ret == -ENOTCONN) {
		urxe_umad_file_lost(file);
		ret = 0;
	}
	return ret;
}

static int transmit_roce(struct urxe_umad *file, const uint8_t *umad, size_t len)
{
	return file->here ? urxe_agents_send(file->here, umad, len) : -EIO;
}

static int transmit(struct urxe_umad *file, const uint8_t *umad, size_t len)
{
	int ret = check(file, umad, len);
	bool begun;

	if (!ret)
		ret = flight_begin(file, umad, &begun);
	if (ret)
		return ret;
	ret = file->roce ? transmit_roce(file, umad, len) : transmit_fabric(file, umad, len);
	if (ret && begun)
		flight_drop(file, umad, is_response(umad + FABRIC_UMAD_HDR));
	return ret;
}

/* A header of the old kind made into one with a P_Key index. */
static int transmit_old(struct urxe_umad *file, const void *buf, size_t len)
{
	uint8_t *umad = calloc(1, len + FABRIC_UMAD_HDR - OLD_HDR);
	int ret;

	if (!umad)
		return -ENOMEM;
	memcpy(umad, buf, OLD_HDR);
	memcpy(umad + FABRIC_UMAD_HDR, (const char *)buf + OLD_HDR, len - OLD_HDR);
	ret = transmit(file, umad, len + FABRIC_UMAD_HDR - OLD_HDR);
	free(umad);
	return ret;
}

ssize_t urxe_umad_file_write(struct urxe_umad *file, const void *buf, size_t len)
{
	size_t hdr = file->pkey_index ? FABRIC_UMAD_HDR : OLD_HDR;
	int ret, cancel;

	if (file->issm || len < hdr + MAD_RMPP_LEN)
		return -EINVAL;
	cancel = enter(file);
	ret = file->pkey_index ? transmit(file, buf, len) : transmit_old(file, buf, len);
	leave(file, cancel);
	return ret ? ret : (ssize_t)len;
}

/* ---- ioctl ---- */

/* Under the lock. The agent's number goes to the beginning of what the program has asked with. */
static int register_agent(struct urxe_umad *file, struct fabric_request *r, void *arg)
{
	struct fabric_reply reply;
	int ret;

	if (file->roce) {
		ret = file->here ? urxe_agents_register(file->here, r) : -EIO;
		reply.id = ret;
	} else {
		r->command = FABRIC_REGISTER;
		r->cookie = file->cookie;
		r->id = FABRIC_AGENTS;
		ret = urxe_fabric_request(r, &reply);
		if (!ret)
			ret = -reply.error;
	}
	if (ret < 0)
		return ret;
	file->agents[reply.id % FABRIC_AGENTS] = *r;
	file->registered |= 1u << reply.id % FABRIC_AGENTS;
	file->used = true;
	memcpy(arg, &reply.id, sizeof(reply.id));
	return 0;
}

_Static_assert(!offsetof(struct ib_user_mad_reg_req, id) &&
		       !offsetof(struct ib_user_mad_reg_req2, id),
	       "ABI");

static int ioctl_register(struct urxe_umad *file, void *arg)
{
	struct fabric_request r = {0};
	struct ib_user_mad_reg_req u;

	if (urxe_user_read(&u, (uintptr_t)arg, sizeof(u)))
		return -EFAULT;
	r.qpn = u.qpn;
	r.mgmt_class = u.mgmt_class;
	r.class_version = u.mgmt_class_version;
	r.rmpp_version = u.rmpp_version;
	r.oui = u.oui[0] << 16 | u.oui[1] << 8 | u.oui[2];
	memcpy(r.method_mask, u.method_mask, sizeof(r.method_mask));
	return register_agent(file, &r, arg);
}

static int ioctl_register2(struct urxe_umad *file, void *arg)
{
	struct fabric_request r = {0};
	struct ib_user_mad_reg_req2 u;

	if (urxe_user_read(&u, (uintptr_t)arg, sizeof(u)))
		return -EFAULT;
	if (u.flags & ~IB_USER_MAD_REG_FLAGS_CAP) {
		u.flags = IB_USER_MAD_REG_FLAGS_CAP;
		memcpy(arg, &u, sizeof(u));
		return -EINVAL;
	}
	if (u.oui & 0xff000000)
		return -EINVAL;
	r.qpn = u.qpn;
	r.flags = u.flags;
	r.mgmt_class = u.mgmt_class;
	r.class_version = u.mgmt_class_version;
	r.rmpp_version = u.rmpp_version;
	r.oui = u.oui;
	memcpy(r.method_mask, u.method_mask, sizeof(r.method_mask));
	return register_agent(file, &r, arg);
}

static int ioctl_unregister(struct urxe_umad *file, const void *arg)
{
	struct fabric_request r = {.command = FABRIC_UNREGISTER, .cookie = file->cookie};
	struct fabric_reply reply = {0};

	if (urxe_user_read(&r.id, (uintptr_t)arg, sizeof(r.id)))
		return -EFAULT;
	if (r.id >= FABRIC_AGENTS || !(file->registered & 1u << r.id))
		return -EINVAL;
	file->registered &= ~(1u << r.id);
	flights_end(file, r.id);
	if (file->here)
		urxe_agents_unregister(file->here, r.id);
	else if (!file->roce)
		urxe_fabric_request(&r, &reply);
	return -reply.error;
}

int urxe_umad_file_ioctl(struct urxe_umad *file, unsigned long request, void *arg)
{
	int ret = -ENOTTY, cancel = enter(file);

	if (file->issm)
		ret = -ENOTTY;
	else if (request == IB_USER_MAD_REGISTER_AGENT)
		ret = ioctl_register(file, arg);
	else if (request == IB_USER_MAD_REGISTER_AGENT2)
		ret = ioctl_register2(file, arg);
	else if (request == IB_USER_MAD_UNREGISTER_AGENT)
		ret = ioctl_unregister(file, arg);
	else if (request == IB_USER_MAD_ENABLE_PKEY) {
		ret = file->used ? -EINVAL : 0;
		file->pkey_index |= !ret;
	}
	leave(file, cancel);
	return ret;
}
