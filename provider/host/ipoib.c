// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Asks urxe-ipoib (ipoib.h): a line of JSON each way. A lock guards what it has said of late.
 */
#include "host/ipoib.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <net/if.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "host/address.h"
#include "host/libc.h"
#include "host/mutex.h"
#include "host/ticks.h"

#define SOCKET	    "urxe-ipoib/" /* and the interface's name; abstract */
#define WAIT_MS	    100
#define HOLDS_NS    1000000000ull
#define NUM_ANSWERS 256

struct answer {
	struct in6_addr ip;
	uint64_t at; /* ns; 0: none */
	int ret;
	struct urxe_ipoib found;
};

static struct answer answers[NUM_ANSWERS];
static URXE_MUTEX(lock);

/* Whether it is one that this user may believe: its own, or root's. */
static bool is_trusted(int fd)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	return !urxe_libc.getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) &&
	       (!peer.uid || peer.uid == geteuid());
}

static int connect_to(const char *interface)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = urxe_libc.socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	/* The zeros behind it are a part of such a name. */
	snprintf(to.sun_path + 1, sizeof(to.sun_path) - 1, SOCKET "%s", interface);
	if (!urxe_libc.connect(fd, (struct sockaddr *)&to, sizeof(to)) && is_trusted(fd))
		return fd;
	urxe_libc.close(fd);
	return -ENOENT;
}

/* One line, without the end; false: there is none in time. */
static bool read_line(int fd, char *line, size_t size)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	size_t len = 0;

	while (len + 1 < size) {
		ssize_t n;

		if (urxe_libc.poll(&ready, 1, WAIT_MS) != 1)
			return false;
		n = urxe_libc.recv(fd, line + len, size - 1 - len, 0);
		if (n <= 0)
			return false;
		len += (size_t)n;
		line[len] = '\0';
		if (line[len - 1] == '\n')
			return true;
	}
	return false;
}

/* The text of a member; NULL: it has none. The daemon's answers have no escapes. */
static const char *member(const char *line, const char *key, char text[64])
{
	char quoted[32];
	const char *at;
	size_t len;

	snprintf(quoted, sizeof(quoted), "\"%s\":\"", key);
	at = strstr(line, quoted);
	if (!at)
		return NULL;
	at += strlen(quoted);
	len = strcspn(at, "\"");
	if (len >= 64)
		return NULL;
	memcpy(text, at, len);
	text[len] = '\0';
	return text;
}

static bool read_address(const char *line, const char *key, void *address)
{
	struct in6_addr *ip = address;
	char text[64];

	if (!member(line, key, text))
		return false;
	*ip = urxe_v4mapped((struct in_addr){0});
	return inet_pton(AF_INET, text, &ip->s6_addr[12]) == 1 ||
	       inet_pton(AF_INET6, text, ip) == 1;
}

static int understand(const char *line, struct urxe_ipoib *found)
{
	char text[64];

	if (member(line, "error", text))
		return strcmp(text, "EHOSTUNREACH") ? -ENETUNREACH : -EHOSTUNREACH;
	if (!member(line, "pkey", text) || !read_address(line, "own", &found->own) ||
	    !read_address(line, "from", &found->from))
		return -ENETUNREACH;
	found->pkey = (uint16_t)strtoul(text, NULL, 16);
	return read_address(line, "gid", &found->gid) ? 0 : -EINPROGRESS;
}

static int ask(const char *interface, const struct in6_addr *ip, struct urxe_ipoib *found)
{
	bool ipv4 = urxe_is_ipv4(ip);
	char text[INET6_ADDRSTRLEN], line[512];
	int fd = connect_to(interface), len, ret = -ENETUNREACH;

	if (fd < 0)
		return ret;
	inet_ntop(ipv4 ? AF_INET : AF_INET6, &ip->s6_addr[ipv4 ? 12 : 0], text, sizeof(text));
	len = snprintf(line, sizeof(line), "{\"command\":\"resolve\",\"ip\":\"%s\"}\n", text);
	if (urxe_libc.sendto(fd, line, (size_t)len, MSG_NOSIGNAL, NULL, 0) == len &&
	    read_line(fd, line, sizeof(line)))
		ret = understand(line, found);
	urxe_libc.close(fd);
	return ret;
}

/* All interfaces but lo may have one; what one leads to counts more than that another does not. */
static int ask_all(const struct in6_addr *ip, struct urxe_ipoib *found)
{
	struct if_nameindex *list = if_nameindex();
	int ret = -ENETUNREACH;

	for (struct if_nameindex *p = list; p && p->if_index; p++) {
		int one = strcmp(p->if_name, "lo") ? ask(p->if_name, ip, found) : -ENETUNREACH;

		if (one != -ENETUNREACH)
			ret = one;
		if (!one || one == -EINPROGRESS)
			break;
	}
	if (list)
		if_freenameindex(list);
	return ret;
}

static struct answer *slot_of(const struct in6_addr *ip)
{
	uint32_t h = ip->s6_addr32[0] ^ ip->s6_addr32[2] ^ ip->s6_addr32[3];

	return &answers[h * 2654435761u >> 24 & (NUM_ANSWERS - 1)];
}

/* Any, and the machine's own. */
static bool is_nobodys(const struct in6_addr *ip)
{
	uint8_t first = ip->s6_addr[12];

	if (urxe_is_ipv4(ip))
		return !first || first == IN_LOOPBACKNET;
	return IN6_IS_ADDR_UNSPECIFIED(ip) || IN6_IS_ADDR_LOOPBACK(ip);
}

int urxe_ipoib_look(const struct in6_addr *ip, struct urxe_ipoib *found)
{
	struct answer *slot = slot_of(ip);
	uint64_t now = urxe_now();
	int ret;

	memset(found, 0, sizeof(*found));
	if (is_nobodys(ip))
		return -ENETUNREACH;
	pthread_mutex_lock(&lock);
	if (slot->at && now - slot->at < HOLDS_NS && IN6_ARE_ADDR_EQUAL(&slot->ip, ip)) {
		*found = slot->found;
		ret = slot->ret;
		pthread_mutex_unlock(&lock);
		return ret;
	}
	pthread_mutex_unlock(&lock);
	ret = ask_all(ip, found);
	if (ret == -EINPROGRESS)
		return ret;
	pthread_mutex_lock(&lock);
	*slot = (struct answer){.ip = *ip, .at = now, .ret = ret, .found = *found};
	pthread_mutex_unlock(&lock);
	return ret;
}
