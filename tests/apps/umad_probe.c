// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Asks /dev/infiniband/umad0 ($UMAD: of another number) what it does, by <rdma/ib_user_mad.h> alone, and prints one line for
 * each question: the kernel's, on a RoCE device (QP 1), and that of a host of a virtual fabric must
 * print the same. MADs go to the port itself.
 *
 *	umad_probe GID-INDEX		what both have
 *	umad_probe GID-INDEX roce	what a RoCE device has: no QP 0, a GRH always; two processes
 *	umad_probe GID-INDEX old	what a file without the P_Key index has
 *	umad_probe GID-INDEX failing	a write that fails, and once more
 *	umad_probe GID-INDEX full	answers more questions with many segments than who asked reads
 *	umad_probe GID-INDEX serve	answers questions with many segments, until it is killed
 *	umad_probe GID-INDEX ask GID	asks one
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/ib_user_mad.h>
#include <rdma/rdma_user_ioctl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HDR	   64
#define OLD_HDR	   56
#define VENDOR	   0x32
#define OUI	   0x001405
#define GET	   1
#define GET_RESP   0x81
#define DATA	   5000
#define VENDOR_HDR 40

static int number, gid_index;
static uint8_t gid[16];
static uint16_t lid;

static int open_umad_as(bool pkey_index)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/dev/infiniband/umad%d", number);
	fd = open(path, O_RDWR | O_NONBLOCK);
	if (fd < 0 || (pkey_index && ioctl(fd, IB_USER_MAD_ENABLE_PKEY, NULL))) {
		perror(path);
		exit(1);
	}
	return fd;
}

static int open_umad(void)
{
	return open_umad_as(true);
}

static int find_self(void)
{
	char path[128], name[64] = "", text[64];
	unsigned g[8];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/infiniband_mad/umad%d/ibdev", number);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%63s", name) != 1)
		return -1;
	fclose(f);
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/gids/%d", name, gid_index);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%63s", text) != 1 ||
	    sscanf(text, "%x:%x:%x:%x:%x:%x:%x:%x", &g[0], &g[1], &g[2], &g[3], &g[4], &g[5], &g[6],
		   &g[7]) != 8)
		return -1;
	fclose(f);
	for (int i = 0; i < 8; i++) {
		gid[2 * i] = g[i] >> 8;
		gid[2 * i + 1] = g[i];
	}
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/lid", name);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%x", &g[0]) != 1)
		return -1;
	fclose(f);
	lid = g[0];
	return 0;
}

/* The agent's number, or -errno. */
static int reg(int fd, int qpn, int class, int version, int rmpp, int oui, uint64_t methods)
{
	struct ib_user_mad_reg_req r = {0};

	r.qpn = qpn;
	r.mgmt_class = class;
	r.mgmt_class_version = version;
	r.rmpp_version = rmpp;
	r.oui[0] = oui >> 16;
	r.oui[1] = oui >> 8;
	r.oui[2] = oui;
	memcpy(r.method_mask, &methods, sizeof(methods));
	return ioctl(fd, IB_USER_MAD_REGISTER_AGENT, &r) ? -errno : (int)r.id;
}

static int unreg(int fd, uint32_t id)
{
	return ioctl(fd, IB_USER_MAD_UNREGISTER_AGENT, &id) ? -errno : 0;
}

static const char *result(long ret)
{
	static char text[2][64];
	static int turn;

	turn = !turn;
	snprintf(text[turn], sizeof(text[turn]), ret < 0 ? "errno %ld" : "%ld", labs(ret));
	return text[turn];
}

/* A MAD for this port, of len bytes behind the header. */
static uint8_t *mad_of(int agent, int class, int version, int method, uint32_t tid, int timeout,
		       size_t len)
{
	uint8_t *umad = calloc(1, HDR + len + 256), *mad = umad + HDR;
	struct ib_user_mad_hdr *h = (struct ib_user_mad_hdr *)umad;

	h->id = agent;
	h->timeout_ms = timeout;
	h->qpn = htonl(1);
	h->qkey = htonl(0x80010000);
	h->lid = htons(lid);
	h->grh_present = 1;
	h->gid_index = gid_index;
	h->hop_limit = 64;
	memcpy(h->gid, gid, 16);
	mad[0] = 1;
	mad[1] = class;
	mad[2] = version;
	mad[3] = method;
	memcpy(mad + 12, &tid, 4);
	mad[17] = 0x20;
	mad[37] = OUI >> 16;
	mad[38] = OUI >> 8 & 0xff;
	mad[39] = OUI & 0xff;
	return umad;
}

static long put(int fd, uint8_t *umad, size_t len)
{
	long ret = write(fd, umad, len);

	ret = ret < 0 ? -errno : ret;
	free(umad);
	return ret;
}

static long get(int fd, uint8_t *buf, size_t len, int ms)
{
	struct pollfd p = {fd, POLLIN, 0};
	long ret;

	if (poll(&p, 1, ms) <= 0)
		return -EAGAIN;
	ret = read(fd, buf, len);
	return ret < 0 ? -errno : ret;
}

static void registrations(int fd)
{
	static const struct {
		const char *what;
		int qpn, class, version, rmpp, oui;
	} cases[] = {
		{"QP 2", 2, 3, 2, 0, 0},
		{"SMPs on QP 1", 1, 1, 1, 0, 0},
		{"RMPP on class 4", 1, 4, 1, 1, 0},
		{"RMPP version 2", 1, 3, 2, 2, 0},
		{"class 0x50", 1, 0x50, 1, 0, 0},
		{"class 0x82", 1, 0x82, 1, 0, 0},
		{"class version 0x83", 1, 3, 0x83, 0, 0},
		{"vendor class without OUI", 1, VENDOR, 1, 0, 0},
		{"sender only", 1, 0, 0, 0, 0},
		{"class 3", 1, 3, 2, 1, 0},
		{"class 3 of another version", 1, 3, 1, 1, 0},
		{"class 3 once more", 1, 3, 2, 0, 0},
		{"vendor class", 1, VENDOR, 1, 1, OUI},
		{"vendor class of another OUI", 1, VENDOR, 1, 1, OUI + 1},
		{"vendor class once more", 1, VENDOR, 1, 1, OUI},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		int id = reg(fd, cases[i].qpn, cases[i].class, cases[i].version, cases[i].rmpp,
			     cases[i].oui, 1 << 5);

		printf("register %s: %s\n", cases[i].what, id < 0 ? result(id) : "yes");
	}
	printf("unregister 0: %s\n", result(unreg(fd, 0)));
	printf("unregister it again: %s\n", result(unreg(fd, 0)));
	printf("unregister 99: %s\n", result(unreg(fd, 99)));
	printf("enable P_Keys late: %s\n",
	       result(ioctl(fd, IB_USER_MAD_ENABLE_PKEY, NULL) ? -errno : 0));
}

static void too_many(void)
{
	int fd = open_umad(), n = 0, ret;

	while ((ret = reg(fd, 1, 0, 0, 0, 0, 0)) >= 0)
		n++;
	printf("agents of a file: %d, then %s\n", n, result(ret));
	close(fd);
}

static void refused_writes(int fd)
{
	int plain = reg(fd, 1, 0, 0, 0, 0, 0), rmpp = reg(fd, 1, 0x33, 1, 1, OUI, 2);
	uint8_t *m;

	printf("write of 99: %s\n", result(put(fd, mad_of(plain, VENDOR, 1, GET, 1, 0, 256), 99)));
	printf("write of 100: %s\n",
	       result(put(fd, mad_of(plain, VENDOR, 1, GET, 2, 0, 256), 100)));
	printf("write for agent 31: %s\n",
	       result(put(fd, mad_of(31, VENDOR, 1, GET, 3, 0, 256), HDR + 256)));
	printf("write for agent 32: %s\n",
	       result(put(fd, mad_of(32, VENDOR, 1, GET, 3, 0, 256), HDR + 256)));
	printf("long write without RMPP: %s\n",
	       result(put(fd, mad_of(plain, VENDOR, 1, GET, 4, 0, 1000), HDR + 1000)));
	m = mad_of(rmpp, 0x33, 1, GET, 5, 0, 1000);
	printf("long write without its flag: %s\n", result(put(fd, m, HDR + 1000)));
	printf("read of nothing: %s\n", result(get(fd, (uint8_t[400]){0}, 400, 200)));
}

static void requests(int fd)
{
	int asks = reg(fd, 1, 0, 0, 0, 0, 0);
	uint8_t buf[400];
	struct ib_user_mad_hdr *h = (struct ib_user_mad_hdr *)buf;
	struct timespec a, b;
	long n, ms;

	/* A class that nobody serves: only a SEND gets no answer at all. */
	clock_gettime(CLOCK_MONOTONIC, &a);
	printf("request: %s\n", result(put(fd, mad_of(asks, 0x34, 1, 3, 77, 300, 256), HDR + 256)));
	printf("the same again: %s\n",
	       result(put(fd, mad_of(asks, 0x34, 1, 3, 77, 300, 256), HDR + 256)));
	printf("of another class: %s\n",
	       result(put(fd, mad_of(asks, 0x35, 1, 3, 77, 300, 256), HDR + 256)));
	for (int i = 0; i < 2; i++) {
		n = get(fd, buf, sizeof(buf), 3000);
		clock_gettime(CLOCK_MONOTONIC, &b);
		ms = (b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000;
		printf("timed out: %s bytes, status %u, length %u, method %u, %s\n", result(n),
		       h->status, h->length, buf[HDR + 3],
		       ms >= 280 ? "not too early" : "too early");
	}
	printf("the number is free again: %s\n",
	       result(put(fd, mad_of(asks, 0x34, 1, 3, 77, 0, 256), HDR + 256)));
	put(fd, mad_of(asks, 0x34, 1, GET, 78, 1000, 256), HDR + 256);
	n = get(fd, buf, sizeof(buf), 3000);
	printf("a Get that nobody serves: %s bytes, status %u, length %u, method 0x%x, MAD status "
	       "%u\n",
	       result(n), h->status, h->length, buf[HDR + 3], buf[HDR + 4] << 8 | buf[HDR + 5]);
}

/* Which numbers are taken: those of an agent, as long as it is there, and not by segments that a
 * program makes itself. */
static void numbers(int fd)
{
	int first = reg(fd, 1, 0, 0, 0, 0, 0), second = reg(fd, 1, 0, 0, 0, 0, 0);
	uint8_t buf[400];

	put(fd, mad_of(first, 0x34, 1, 3, 80, 3000, 256), HDR + 256);
	printf("the number of another agent: %s\n",
	       result(put(fd, mad_of(second, 0x34, 1, 3, 80, 200, 256), HDR + 256)));
	printf("timed out: %s bytes\n", result(get(fd, buf, sizeof(buf), 3000)));
	unreg(fd, first);
	first = reg(fd, 1, 0, 0, 0, 0, 0);
	printf("the number of an agent that was there: %s\n",
	       result(put(fd, mad_of(first, 0x34, 1, 3, 80, 0, 256), HDR + 256)));
	put(fd, mad_of(first, 0x34, 1, 3, 81, 200, 256), HDR + 256);
	for (int i = 0; i < 2; i++) {
		uint8_t *m = mad_of(first, 0x34, 1, 3, 81, 0, 256);

		m[HDR + 24] = m[HDR + 25] = m[HDR + 26] = 1;
		printf("a segment of that number: %s\n", result(put(fd, m, HDR + 256)));
	}
	printf("timed out: %s bytes\n", result(get(fd, buf, sizeof(buf), 3000)));
	unreg(fd, first);
	unreg(fd, second);
}

/* A descriptor's copy is the file when the first one is closed; and it waits. */
static void copied(int fd)
{
	int copy = dup(fd), asks;
	uint8_t buf[400];
	long n;

	fcntl(copy, F_SETFL, fcntl(copy, F_GETFL) & ~O_NONBLOCK);
	close(fd);
	asks = reg(copy, 1, 0, 0, 0, 0, 0);
	put(copy, mad_of(asks, 0x34, 1, 3, 82, 300, 256), HDR + 256);
	n = read(copy, buf, sizeof(buf));
	printf("read by a copy: %s\n", result(n < 0 ? -errno : n));
	close(copy);
}

/* To a question of which buf is the MAD with its header. */
static uint8_t *long_answer(int agent, const uint8_t *buf)
{
	uint8_t *m = mad_of(agent, VENDOR, 2, GET_RESP, 99, 0, VENDOR_HDR + DATA);

	memcpy(m + HDR + 8, buf + HDR + 8, 8);
	m[HDR + 24] = 1;
	m[HDR + 25] = 1;
	m[HDR + 26] = 1;
	for (int i = 0; i < DATA; i++)
		m[HDR + VENDOR_HDR + i] = i * 13 + i / 256;
	return m;
}

static int wrong_bytes(const uint8_t *buf)
{
	int bad = 0;

	for (int i = 0; i < DATA; i++)
		bad += buf[HDR + VENDOR_HDR + i] != (uint8_t)(i * 13 + i / 256);
	return bad;
}

static void echo_in_segments(int fd)
{
	int serves = reg(fd, 1, VENDOR, 2, 1, OUI, 1 << GET),
	    asks = reg(fd, 1, VENDOR, 3, 1, OUI, 0);
	static uint8_t buf[HDR + VENDOR_HDR + DATA + 1000];
	struct ib_user_mad_hdr *h = (struct ib_user_mad_hdr *)buf;
	uint8_t *m;
	uint32_t tid;
	long n;

	put(fd, mad_of(asks, VENDOR, 2, GET, 99, 3000, 256), HDR + 256);
	n = get(fd, buf, sizeof(buf), 3000);
	memcpy(&tid, buf + HDR + 12, 4);
	printf("question: %s bytes, to %s, number %u, of QP %u\n", result(n),
	       (int)h->id == serves ? "the server" : "nobody", tid, ntohl(h->qpn));
	m = long_answer(serves, buf);
	printf("answer: %s\n", result(put(fd, m, HDR + VENDOR_HDR + DATA)));
	n = get(fd, buf, 100, 3000);
	printf("read of 100: %s\n", result(n));
	n = get(fd, buf, HDR + 256, 3000);
	printf("read of 320: %s, to %s, length %u\n", result(n),
	       (int)h->id == asks ? "who asked" : "nobody", h->length);
	n = get(fd, buf, sizeof(buf), 3000);
	printf("read of all: %s, %d bytes wrong\n", result(n), wrong_bytes(buf));
	printf("nothing more: %s\n", result(get(fd, buf, sizeof(buf), 200)));
}

/* A header without the P_Key index, and room for exactly what arrives. */
static void old_header(void)
{
	int fd = open_umad_as(false), asks = reg(fd, 1, 0, 0, 0, 0, 0);
	uint8_t buf[OLD_HDR + 256], *m = mad_of(asks, 0x34, 1, GET, 78, 3000, 256);

	memmove(m + OLD_HDR, m + HDR, 256);
	put(fd, m, OLD_HDR + 256);
	printf("read of 311: %s\n", result(get(fd, buf, sizeof(buf) - 1, 3000)));
	printf("read of 312: %s", result(get(fd, buf, sizeof(buf), 3000)));
	printf(", length %u\n", ((struct ib_user_mad_hdr *)buf)->length);
	m = mad_of(asks, 0x34, 1, 3, 77, 1, 256);
	memmove(m + OLD_HDR, m + HDR, 256);
	put(fd, m, OLD_HDR + 256);
	printf("timed out, read of 79: %s\n", result(get(fd, buf, OLD_HDR + 23, 3000)));
	printf("timed out, read of 80: %s\n", result(get(fd, buf, OLD_HDR + 24, 3000)));
	close(fd);
}

/* A request in segments fails for want of a descriptor, and was never under way. */
static void failing(void)
{
	int fd = open_umad(), asks = reg(fd, 1, VENDOR, 2, 1, OUI, 0);
	struct rlimit limit, none;

	getrlimit(RLIMIT_NOFILE, &limit);
	none = (struct rlimit){0, limit.rlim_max};
	for (int i = 0; i < 2; i++) {
		uint8_t *m = mad_of(asks, VENDOR, 2, GET, 5, 100, 1000);

		m[HDR + 24] = m[HDR + 25] = m[HDR + 26] = 1;
		setrlimit(RLIMIT_NOFILE, i ? &limit : &none);
		printf("%s\n", result(put(fd, m, HDR + 1000)));
	}
	close(fd);
}

/* Who asks does not read what it is answered: more of two segments than its socket has room for,
 * which is 8 MiB at most. */
static void full(void)
{
	int server = open_umad(), fd = open_umad();
	int serves = reg(server, 1, VENDOR, 2, 1, OUI, 1 << GET);
	int asks = reg(fd, 1, VENDOR, 2, 1, OUI, 0), n = 0;
	uint8_t buf[HDR + 256];

	for (; n < 8000; n++) {
		put(fd, mad_of(asks, VENDOR, 2, GET, 1000 + n, 10000, 256), HDR + 256);
		if (get(server, buf, sizeof(buf), 3000) < 0)
			break;
		put(server, long_answer(serves, buf), HDR + VENDOR_HDR + 300);
	}
	printf("answered: %d\n", n);
	printf("read of 320: %s\n", result(get(fd, buf, sizeof(buf), 3000)));
}

/* ---- RoCE ---- */

static void show_header(const struct ib_user_mad_hdr *h)
{
	printf("header: QP %u, LID %u, path bits %u, P_Key index %u, GRH %u, GID index %s, GID %s, "
	       "traffic class %u\n",
	       ntohl(h->qpn), ntohs(h->lid), h->path_bits, h->pkey_index, h->grh_present,
	       h->gid_index == gid_index ? "right" : "wrong",
	       memcmp(h->gid, gid, 16) ? "wrong" : "right", h->traffic_class);
}

static void addresses(int fd)
{
	int asks = reg(fd, 1, 0, 0, 0, 0, 0), serves = reg(fd, 1, 0x36, 1, 0, OUI, 1 << GET);
	uint8_t buf[400] = {0}, *m;

	printf("register on QP 0: %s\n", result(reg(fd, 0, 1, 1, 0, 0, 1 << GET)));
	printf("register for the communication manager's: %s\n",
	       result(reg(fd, 1, 7, 2, 0, 0, 1 << 3)));
	m = mad_of(asks, 0x36, 1, GET, 1, 0, 256);
	((struct ib_user_mad_hdr *)m)->grh_present = 0;
	printf("write without a GRH: %s\n", result(put(fd, m, HDR + 256)));
	m = mad_of(asks, 0x36, 1, GET, 2, 0, 256);
	memset(((struct ib_user_mad_hdr *)m)->gid, 0, 16);
	printf("write to no GID: %s\n", result(put(fd, m, HDR + 256)));
	m = mad_of(asks, 0x36, 1, GET, 4, 1000, 256);
	((struct ib_user_mad_hdr *)m)->traffic_class = 0x20;
	printf("write: %s\n", result(put(fd, m, HDR + 256)));
	printf("read: %s\n", result(get(fd, buf, sizeof(buf), 3000)));
	printf("to %s\n", buf[0] == serves ? "the server" : "nobody");
	show_header((struct ib_user_mad_hdr *)buf);
}

/* Serves a class until it is killed; says when it has begun. */
static pid_t server(void)
{
	int ready[2], fd, id;
	uint8_t buf[400], *m;
	pid_t pid;
	char byte;

	if (pipe(ready))
		exit(1);
	pid = fork();
	if (pid) {
		close(ready[1]);
		if (read(ready[0], &byte, 1) != 1)
			exit(1);
		close(ready[0]);
		return pid;
	}
	fd = open_umad();
	id = reg(fd, 1, 0x37, 1, 0, OUI, 1 << GET);
	if (write(ready[1], "", 1) != 1)
		_exit(1);
	while (get(fd, buf, sizeof(buf), -1) > 0) {
		m = mad_of(id, 0x37, 1, GET_RESP, 0, 0, 256);
		memcpy(m + HDR + 8, buf + HDR + 8, 8);
		m[HDR + 100] = buf[HDR + 100] + 1;
		put(fd, m, HDR + 256);
	}
	_exit(1);
}

static void two_processes(void)
{
	pid_t other = server();
	int fd = open_umad(), asks = reg(fd, 1, 0, 0, 0, 0, 0);
	uint8_t buf[400] = {0}, *m;
	long n;

	printf("register what another process has: %s\n",
	       result(reg(fd, 1, 0x37, 1, 0, OUI, 1 << GET)));
	printf("another method of it: %s\n",
	       reg(fd, 1, 0x37, 1, 0, OUI, 1 << 3) < 0 ? "no" : "yes");
	m = mad_of(asks, 0x37, 1, GET, 5, 2000, 256);
	m[HDR + 100] = 41;
	put(fd, m, HDR + 256);
	n = get(fd, buf, sizeof(buf), 5000);
	printf("its answer: %s, method 0x%x, %u\n", result(n), buf[HDR + 3], buf[HDR + 100]);
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	put(fd, mad_of(asks, 0x37, 1, GET, 6, 1000, 256), HDR + 256);
	n = get(fd, buf, sizeof(buf), 5000);
	printf("after its end: %s, method 0x%x, MAD status %u\n", result(n), buf[HDR + 3],
	       buf[HDR + 4] << 8 | buf[HDR + 5]);
	printf("register it now: %s\n", reg(fd, 1, 0x37, 1, 0, OUI, 1 << GET) < 0 ? "no" : "yes");
	close(fd);
}

/* ---- two hosts ---- */

static void serve(int fd)
{
	int id = reg(fd, 1, VENDOR, 2, 1, OUI, 1 << GET);
	uint8_t buf[400], *m;
	long n;

	printf("serving\n");
	while ((n = get(fd, buf, sizeof(buf), -1)) > 0) {
		struct ib_user_mad_hdr *from = (struct ib_user_mad_hdr *)buf, *to;

		m = long_answer(id, buf);
		to = (struct ib_user_mad_hdr *)m;
		to->lid = from->lid;
		to->gid_index = from->gid_index;
		memcpy(to->gid, from->gid, sizeof(to->gid));
		put(fd, m, HDR + VENDOR_HDR + DATA);
	}
	printf("no more: %s\n", result(n));
}

static int ask(int fd, const char *to)
{
	int id = reg(fd, 1, VENDOR, 2, 1, OUI, 0);
	static uint8_t buf[HDR + VENDOR_HDR + DATA + 1000];
	uint8_t *m = mad_of(id, VENDOR, 2, GET, 99, 1000, 256);
	long n;

	((struct ib_user_mad_hdr *)m)->retries = 10;
	if (inet_pton(AF_INET6, to, ((struct ib_user_mad_hdr *)m)->gid) != 1)
		return 2;
	n = put(fd, m, HDR + 256);
	if (n > 0)
		n = get(fd, buf, sizeof(buf), 30000);
	printf("answer: %s bytes, status %u, %d bytes wrong\n", result(n),
	       ((struct ib_user_mad_hdr *)buf)->status, wrong_bytes(buf));
	return n != HDR + VENDOR_HDR + DATA;
}

int main(int argc, char **argv)
{
	int fd;

	gid_index = argc > 1 ? atoi(argv[1]) : 0;
	number = getenv("UMAD") ? atoi(getenv("UMAD")) : 0;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (find_self()) {
		fprintf(stderr, "umad_probe: no port\n");
		return 1;
	}
	if (argc > 2 && !strcmp(argv[2], "serve")) {
		serve(open_umad());
		return 1;
	}
	if (argc > 2 && !strcmp(argv[2], "old")) {
		old_header();
		return 0;
	}
	if (argc > 2 && !strcmp(argv[2], "failing")) {
		failing();
		return 0;
	}
	if (argc > 2 && !strcmp(argv[2], "full")) {
		full();
		return 0;
	}
	if (argc > 3)
		return ask(open_umad(), argv[3]);
	if (argc > 2) {
		fd = open_umad();
		addresses(fd);
		close(fd);
		two_processes();
		return 0;
	}
	fd = open_umad();
	registrations(fd);
	close(fd);
	too_many();
	fd = open_umad();
	refused_writes(fd);
	requests(fd);
	numbers(fd);
	echo_in_segments(fd);
	copied(fd);
	return 0;
}
