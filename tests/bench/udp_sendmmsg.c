/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * 8-byte UDP datagrams per second through sendmmsg(2): what the message rate of ib_write_bw over
 * UDP is measured against. The receiver drains with recvmmsg(2) and counts. One thread each.
 *
 *	udp_sendmmsg PORT		the receiver, until it is killed; answers the question below
 *	udp_sendmmsg PORT ADDRESS SECONDS
 *					prints datagrams per second: sent, received
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "measure.h"

#define BATCH	 64
#define QUESTION 16 /* bytes of the datagram that asks for the count */

struct batch {
	struct mmsghdr msgs[BATCH];
	struct iovec iov[BATCH];
	struct sockaddr_in from[BATCH];
	char bytes[BATCH][QUESTION];
};

static void batch_init(struct batch *b, size_t len)
{
	for (int i = 0; i < BATCH; i++) {
		b->iov[i] = (struct iovec){b->bytes[i], len};
		b->msgs[i].msg_hdr = (struct msghdr){.msg_iov = &b->iov[i], .msg_iovlen = 1};
	}
}

static _Noreturn void receive(int fd)
{
	static struct batch b;
	uint64_t count = 0;

	batch_init(&b, QUESTION);
	for (int i = 0; i < BATCH; i++) {
		b.msgs[i].msg_hdr.msg_name = &b.from[i];
		b.msgs[i].msg_hdr.msg_namelen = sizeof(b.from[i]);
	}
	for (;;) {
		int n = recvmmsg(fd, b.msgs, BATCH, MSG_DONTWAIT, NULL);

		for (int i = 0; i < n; i++) {
			if (b.msgs[i].msg_len < QUESTION) {
				count++;
				continue;
			}
			sendto(fd, &count, sizeof(count), 0, (struct sockaddr *)&b.from[i],
			       sizeof(b.from[i]));
		}
	}
}

/* The count may have to be asked for several times: the receiver's buffer is full at the end. */
static uint64_t ask(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char question[QUESTION] = {0};
	uint64_t count = 0;

	for (int i = 0; i < 100; i++) {
		send(fd, question, sizeof(question), 0);
		if (poll(&p, 1, 100) == 1 && recv(fd, &count, sizeof(count), 0) == sizeof(count))
			return count;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static struct batch b;
	struct sockaddr_in addr = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if ((argc != 2 && argc != 4) || fd < 0) {
		fprintf(stderr, "usage: udp_sendmmsg PORT [ADDRESS SECONDS]\n");
		return 2;
	}
	addr.sin_port = htons(atoi(argv[1]));
	if (argc == 2) {
		if (bind(fd, (struct sockaddr *)&addr, sizeof(addr))) {
			perror("bind");
			return 1;
		}
		receive(fd);
	}
	if (inet_pton(AF_INET, argv[2], &addr.sin_addr) != 1 ||
	    connect(fd, (struct sockaddr *)&addr, sizeof(addr))) {
		fprintf(stderr, "udp_sendmmsg: no such address\n");
		return 1;
	}

	uint64_t before = ask(fd), sent = 0;
	double start = now_s(), seconds = atof(argv[3]), end;

	batch_init(&b, 8);
	do {
		int n = sendmmsg(fd, b.msgs, BATCH, 0);

		if (n > 0)
			sent += n;
		end = now_s();
	} while (end - start < seconds);

	uint64_t received = ask(fd) - before;

	if (!received) {
		fprintf(stderr, "udp_sendmmsg: the receiver does not answer\n");
		return 1;
	}
	printf("%.0f %.0f\n", sent / (end - start), received / (end - start));
	close(fd);
	return 0;
}
