/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Clients of sacached in large numbers and of all manners, which write ibacm's messages themselves:
 *
 *	sacached_clients SOCKET many N		N at once ask for paths, twice
 *	sacached_clients SOCKET garbage SEED N	N send what no client would, and all sorts of pieces
 *	sacached_clients SOCKET deaf		one asks and asks and does not read
 *	sacached_clients SOCKET late MS		one asks an SA that is silent: answered after MS
 *	sacached_clients SOCKET full N		more than N are not let in, until some have left
 *	sacached_clients SOCKET stay		one asks for each line of the input, by one connection
 *
 * The SA is that of sacached_sa.c: fe80::N has LID N.
 */
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, \
				#condition, strerror(errno));                           \
			exit(1);                                                        \
		}                                                                       \
	} while (0)

enum {
	RESOLVE = 1,
	PERF = 2,
	HEADER = 16,
	ENTRY = 72,
	PATH = 16,
	ETIMEDOUT_STATUS = 6,
	ENODATA_STATUS = 3
};

struct message {
	uint8_t version, op, status, data[3];
	uint16_t length;
	uint64_t tid;
	uint32_t flags;
	uint16_t type, reserved;
	uint8_t record[64];
};
_Static_assert(sizeof(struct message) == HEADER + ENTRY, "as on the socket");

static struct sockaddr_un address = {.sun_family = AF_UNIX};

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000ull + now.tv_nsec / 1000000;
}

/* -1: nobody is there. */
static int try_connect(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct timeval patience = {.tv_sec = 20};

	CHECK(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (!connect(fd, (struct sockaddr *)&address, sizeof(address)))
		return fd;
	CHECK(errno == ENOENT || errno == ECONNREFUSED);
	close(fd);
	return -1;
}

static int must_connect(void)
{
	int fd = try_connect();

	CHECK(fd >= 0);
	return fd;
}

static struct message question(uint16_t lid)
{
	struct message message = {.version = 1, .op = RESOLVE, .length = sizeof(message)};

	message.tid = lid * 1000ull;
	message.type = PATH;
	message.record[8] = 0xfe;
	message.record[9] = 0x80;
	message.record[8 + 14] = lid >> 8;
	message.record[8 + 15] = lid;
	return message;
}

static void ask(int fd, uint16_t lid)
{
	struct message message = question(lid);

	CHECK(send(fd, &message, sizeof(message), MSG_NOSIGNAL) == sizeof(message));
}

static void read_all(int fd, void *to, size_t length)
{
	CHECK(recv(fd, to, length, MSG_WAITALL) == (ssize_t)length);
}

/* An answer's status; without an error the path is to that LID. */
static uint8_t hear(int fd, uint16_t lid)
{
	struct message got;

	read_all(fd, &got, HEADER);
	CHECK(got.version == 1 && got.op == (RESOLVE | 0x80) && got.tid == lid * 1000ull);
	if (got.status) {
		CHECK(got.length == HEADER);
		return got.status;
	}
	CHECK(got.length == sizeof(got));
	read_all(fd, (uint8_t *)&got + HEADER, ENTRY);
	CHECK(got.type == PATH && got.record[40] == lid >> 8 && got.record[41] == (lid & 0xff));
	return 0;
}

static void serves(int fd, uint16_t lid)
{
	ask(fd, lid);
	CHECK(hear(fd, lid) == 0);
}

static void many(unsigned n)
{
	int *fds = calloc(n, sizeof(*fds));
	uint64_t begin = now_ms();

	CHECK(fds);
	for (unsigned i = 0; i < n; i++)
		fds[i] = must_connect();
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < n; i++)
			ask(fds[i], 2 + i % 3000);
		for (unsigned i = 0; i < n; i++)
			CHECK(hear(fds[i], 2 + i % 3000) == 0);
	}
	printf("%u clients, two answers each: %llu ms\n", n,
	       (unsigned long long)(now_ms() - begin));
	for (unsigned i = 0; i < n; i++)
		close(fds[i]);
	free(fds);
}

static uint64_t draw(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* A byte after another, two at once, half of one: what is whole is answered. */
static void pieces(void)
{
	struct message two[2] = {question(2), question(3)};
	int fd = must_connect();

	for (size_t i = 0; i < sizeof(two[0]); i++)
		CHECK(send(fd, (uint8_t *)&two[0] + i, 1, 0) == 1);
	CHECK(hear(fd, 2) == 0);
	CHECK(send(fd, two, sizeof(two), 0) == sizeof(two));
	CHECK(hear(fd, 2) == 0);
	CHECK(hear(fd, 3) == 0);
	CHECK(send(fd, two, 100, 0) == 100);
	CHECK(hear(fd, 2) == 0);
	CHECK(send(fd, (uint8_t *)two + 100, sizeof(two) - 100, 0) == sizeof(two) - 100);
	CHECK(hear(fd, 3) == 0);
	CHECK(send(fd, two, 20, 0) == 20);
	close(fd);
}

/* Random bytes, or a message with a few wrong ones: answered, or the end. */
static void garbage(uint64_t seed, unsigned n)
{
	int good = must_connect();

	for (unsigned i = 0; i < n; i++) {
		struct message message = question(2);
		uint8_t noise[1500];
		size_t length = sizeof(message);
		int fd = must_connect();

		for (size_t b = 0; b < sizeof(noise); b++)
			noise[b] = draw(&seed) >> 32;
		if (i % 2) {
			for (unsigned b = 0; b < 3; b++)
				((uint8_t *)&message)[draw(&seed) % (i % 4 == 1 ? 24 : 88)] =
					draw(&seed) >> 40;
			memcpy(noise, &message, sizeof(message));
		} else {
			length = 1 + draw(&seed) % sizeof(noise);
		}
		CHECK(send(fd, noise, length, MSG_NOSIGNAL) > 0);
		shutdown(fd, SHUT_WR);
		while (recv(fd, noise, sizeof(noise), 0) > 0)
			;
		CHECK(errno != EAGAIN);
		close(fd);
		if (i % 50 == 0)
			serves(good, 2 + i);
	}
	pieces();
	serves(good, 9);
	close(good);
}

/* Until the daemon stops reading; then all that it read is answered, in order. */
static void deaf(void)
{
	int fd = must_connect(), other = must_connect();
	struct message message = question(2);
	unsigned long asked = 0;
	size_t part = 0;
	ssize_t sent;

	serves(fd, 2);
	do {
		sent = send(fd, (uint8_t *)&message + part, sizeof(message) - part,
			    MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent < 0) {
			/* It may only be slow. */
			struct pollfd room = {.fd = fd, .events = POLLOUT};

			CHECK(errno == EAGAIN);
			if (!poll(&room, 1, 500))
				break;
			continue;
		}
		part = (part + sent) % sizeof(message);
		asked += !part;
	} while (asked < 1000000);
	CHECK(asked > 10 && asked < 1000000);
	for (unsigned i = 0; i < 100; i++)
		serves(other, 2 + i);
	for (unsigned long i = 0; i < asked; i++)
		CHECK(hear(fd, 2) == 0);
	if (part) {
		CHECK(send(fd, (uint8_t *)&message + part, sizeof(message) - part, 0) > 0);
		CHECK(hear(fd, 2) == 0);
	}
	serves(fd, 3);
	printf("%lu unread\n", asked);
}

static void late(unsigned ms)
{
	int fd = must_connect(), other = must_connect();
	uint64_t begin = now_ms();

	ask(fd, 2);
	ask(other, 2);
	CHECK(hear(fd, 2) == ETIMEDOUT_STATUS && hear(other, 2) == ETIMEDOUT_STATUS);
	CHECK(now_ms() - begin >= ms - 1 && now_ms() - begin < ms + 1000);
}

/* The daemon accepts connections that were queued when it paused the
 * listener; none is disconnected. */
static void full(unsigned n)
{
	int fds[2048], fd = 0;
	unsigned count = 0, tries = 0;

	while (count < 2000 && (fd = try_connect()) >= 0) {
		fds[count++] = fd;
		if (count > n)
			serves(fd, 7);
	}
	CHECK(fd < 0 && count >= n && count < n + 300);
	for (unsigned i = 0; i < count; i++)
		serves(fds[i], 2 + i);
	for (unsigned i = n / 2; i < count; i++)
		close(fds[i]);
	while ((fd = try_connect()) < 0) {
		CHECK(tries++ < 200);
		usleep(10000);
	}
	serves(fd, 8);
	for (unsigned i = 0; i < n / 2; i++)
		serves(fds[i], 2 + i);
}

static void stay(void)
{
	int fd = must_connect();
	char line[64];

	while (fgets(line, sizeof(line), stdin)) {
		uint16_t lid = atoi(line);

		ask(fd, lid);
		printf("%u: status %u\n", lid, hear(fd, lid));
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[2] : "";
	struct rlimit files;
	long n = argc > 3 ? atol(argv[3]) : 0;

	CHECK(argc > 2 && strlen(argv[1]) < sizeof(address.sun_path));
	strcpy(address.sun_path, argv[1]);
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	if (!strcmp(what, "many"))
		many(n);
	else if (!strcmp(what, "garbage"))
		garbage(n, atol(argv[4]));
	else if (!strcmp(what, "deaf"))
		deaf();
	else if (!strcmp(what, "late"))
		late(n);
	else if (!strcmp(what, "full"))
		full(n);
	else
		stay();
	return 0;
}
