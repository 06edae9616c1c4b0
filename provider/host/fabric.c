// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The process's connection to its fabric. See fabric.h. lock guards it; the host that was found
 * last is an immutable structure behind an atomic pointer and is never freed.
 */
#include "host/fabric.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "host/fd.h"
#include "host/libc.h"
#include "host/log.h"
#include "host/mutex.h"
#include "host/sysinfo.h"

static URXE_MUTEX(lock);
static int connection = -1;
static _Atomic(const struct urxe_fabric_host *) current;
static bool complained;

bool urxe_fabric_wanted(void)
{
	const char *path = getenv("URXE_FABRIC");

	return path && *path;
}

static int connect_socket(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const char *path = getenv("URXE_FABRIC");
	int fd, err;

	if (!path || strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	fd = urxe_fd_keep(urxe_libc.socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
	if (fd >= 0 && !urxe_libc.connect(fd, (struct sockaddr *)&address, sizeof(address)))
		return fd;
	err = -errno;
	urxe_fd_close(fd);
	return err;
}

/* The answer, and the descriptors that came with it (-1: none). */
static int receive_welcome(int sock, struct fabric_welcome *welcome, int fds[FABRIC_UMAD_FDS])
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(FABRIC_UMAD_FDS * sizeof(int))];
	struct iovec iov = {welcome, sizeof(*welcome)};
	/* Without the padding, where one more descriptor would have room. */
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = CMSG_LEN(FABRIC_UMAD_FDS * sizeof(int))};
	struct cmsghdr *c;
	ssize_t n;

	do
		n = urxe_libc.recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n != sizeof(*welcome))
		return n < 0 ? -errno : -EPROTO;
	c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
	welcome->message[sizeof(welcome->message) - 1] = '\0';
	return -welcome->error;
}

/* The first datagram, with a descriptor beside it; -1: none. */
static int send_hello(int sock, const struct fabric_hello *hello, int fd)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {(void *)hello, sizeof(*hello)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd >= 0) {
		struct cmsghdr *c;

		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
	}
	return urxe_libc.sendmsg(sock, &msg, MSG_NOSIGNAL) == sizeof(*hello) ? 0 : -errno;
}

static void close_all(const int fds[FABRIC_UMAD_FDS])
{
	for (unsigned i = 0; i < FABRIC_UMAD_FDS; i++)
		if (fds[i] >= 0)
			urxe_libc.close(fds[i]);
}

int urxe_fabric_connect(uint32_t kind, uint32_t port, int fd, struct fabric_welcome *welcome,
			int fds[FABRIC_UMAD_FDS])
{
	struct fabric_hello hello = {FABRIC_HELLO_MAGIC, FABRIC_PROTOCOL, kind, port, ""};
	const char *host = getenv("URXE_HOST");
	int sock = connect_socket(), unwanted[FABRIC_UMAD_FDS], *came = fds ? fds : unwanted, ret;

	for (unsigned i = 0; i < FABRIC_UMAD_FDS; i++)
		came[i] = -1;
	if (sock < 0)
		return sock;
	snprintf(hello.host, sizeof(hello.host), "%s", host ? host : "");
	ret = send_hello(sock, &hello, fd) ?: receive_welcome(sock, welcome, came);
	if (ret || !fds)
		close_all(came);
	if (!ret)
		return sock;
	urxe_fd_close(sock);
	return ret;
}

static bool has_table(const struct fabric_map *map, uint64_t at, uint64_t num, size_t size)
{
	return at >= sizeof(*map) && at <= map->size && num <= (map->size - at) / size;
}

/* Whole, and sealed so that it stays so: what is read beyond its end would be SIGBUS. */
static bool is_whole(int fd, const struct fabric_map *map)
{
	int seals = urxe_libc.fcntl(fd, F_GET_SEALS);
	struct urxe_stat st;

	return seals >= 0 && seals & F_SEAL_SHRINK && !urxe_fstat(fd, &st) &&
	       map->magic == FABRIC_MAP_MAGIC && map->size <= st.size &&
	       has_table(map, map->nodes, map->num_nodes, sizeof(struct fabric_node)) &&
	       has_table(map, map->ports, map->num_ports, sizeof(struct fabric_port));
}

static const struct fabric_map *map_of(int fd)
{
	struct fabric_map head;
	void *map;

	if (urxe_libc.pread(fd, &head, sizeof(head), 0) != sizeof(head) || !is_whole(fd, &head))
		return NULL;
	map = mmap(NULL, head.size, PROT_READ, MAP_SHARED, fd, 0);
	return map == MAP_FAILED ? NULL : map;
}

static bool has_adapters(const struct fabric_map *map, const struct fabric_welcome *welcome)
{
	if (welcome->num_adapters > FABRIC_HOST_ADAPTERS)
		return false;
	for (unsigned i = 0; i < welcome->num_adapters; i++)
		if (welcome->adapters[i] >= map->num_nodes)
			return false;
	return true;
}

static void complain(const struct fabric_welcome *welcome, int err)
{
	if (complained)
		return;
	complained = true;
	if (err == -ENODEV && *welcome->message)
		urxe_log(URXE_LOG_ERROR, "%s", welcome->message);
	else
		urxe_log(URXE_LOG_ERROR, "the fabric %s: %s; urxe fabric up starts it",
			 getenv("URXE_FABRIC"), strerror(-err));
}

/* Under lock. */
static const struct urxe_fabric_host *attach(void)
{
	struct fabric_welcome welcome = {0};
	struct urxe_fabric_host *host;
	int fds[FABRIC_UMAD_FDS], sock = urxe_fabric_connect(FABRIC_HOST, 0, -1, &welcome, fds);

	if (sock < 0) {
		complain(&welcome, sock);
		return NULL;
	}
	host = calloc(1, sizeof(*host));
	if (host)
		host->map = map_of(fds[0]);
	close_all(fds);
	if (!host || !host->map || !has_adapters(host->map, &welcome)) {
		complain(&welcome, host ? -EPROTO : -ENOMEM);
		urxe_fd_close(sock);
		free(host);
		return NULL;
	}
	host->num_adapters = welcome.num_adapters;
	memcpy(host->adapters, welcome.adapters, sizeof(host->adapters));
	connection = sock;
	complained = false;
	return host;
}

/* Under lock. */
static bool connected(void)
{
	char byte;
	ssize_t n =
		connection < 0 ? 0 : urxe_libc.recv(connection, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	return n > 0 || (n < 0 && errno == EAGAIN);
}

bool urxe_fabric_alive(const struct urxe_fabric_host *host)
{
	bool alive;

	pthread_mutex_lock(&lock);
	alive = atomic_load(&current) == host && connected();
	pthread_mutex_unlock(&lock);
	return alive;
}

const struct urxe_fabric_host *urxe_fabric_host(void)
{
	const struct urxe_fabric_host *host;

	if (!urxe_fabric_wanted())
		return NULL;
	pthread_mutex_lock(&lock);
	if (!connected()) {
		urxe_fd_close(connection);
		connection = -1;
		host = attach();
		if (host)
			atomic_store(&current, host);
	}
	pthread_mutex_unlock(&lock);
	/* While there is none, the last one shows what was there. */
	return atomic_load(&current);
}

uint32_t urxe_fabric_host_number(void)
{
	const struct urxe_fabric_host *host = urxe_fabric_host();

	if (!host || !host->num_adapters)
		return 0;
	return fabric_map_node(host->map, host->adapters[0])->host + 1;
}

static int ask(const struct fabric_request *request, void *reply, ssize_t len)
{
	ssize_t n = -1;

	urxe_fabric_host();
	pthread_mutex_lock(&lock);
	errno = ENODEV;
	if (connection >= 0 && urxe_libc.sendto(connection, request, sizeof(*request), MSG_NOSIGNAL,
						NULL, 0) == sizeof(*request))
		do
			n = urxe_libc.recv(connection, reply, len, 0);
		while (n < 0 && errno == EINTR);
	pthread_mutex_unlock(&lock);
	if (n == len)
		return 0;
	return n < 0 ? -errno : -ENODEV;
}

int urxe_fabric_request(const struct fabric_request *request, struct fabric_reply *reply)
{
	return ask(request, reply, sizeof(*reply));
}

int urxe_fabric_counters(uint32_t port, uint16_t attribute, struct fabric_counters *counters)
{
	struct fabric_request request = {
		.command = FABRIC_COUNTERS, .id = port, .flags = attribute};
	int ret = ask(&request, counters, sizeof(*counters));

	return ret ? ret : -counters->reply.error;
}

void urxe_fabric_forked(void)
{
	urxe_fd_close(connection);
	connection = -1;
}
