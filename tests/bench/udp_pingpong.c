/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Half a round trip of two bytes between two spinning UDP sockets: what ib_send_lat over UDP is
 * measured against, in perftest's terms. Two processes of one thread each; neither ever blocks.
 *
 *	udp_pingpong PORT			the side that answers, until it is killed
 *	udp_pingpong PORT ADDRESS ROUNDS	prints the median in µs
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "measure.h"

#define WARM_UP 1000

static _Noreturn void answer(int fd)
{
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	char bytes[2];

	for (;;) {
		ssize_t n = recvfrom(fd, bytes, sizeof(bytes), MSG_DONTWAIT,
				     (struct sockaddr *)&from, &len);

		if (n > 0)
			sendto(fd, bytes, n, 0, (struct sockaddr *)&from, len);
	}
}

/* A lost datagram is sent again after a while; it then counts as a slow round, not as the end. */
static void round_trip(int fd)
{
	char bytes[2] = {0};

	for (;;) {
		double until = now_us() + 100000;

		if (send(fd, bytes, sizeof(bytes), 0) < 0)
			usleep(1000);
		while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) < 0)
			if (now_us() > until)
				break;
		if (now_us() <= until)
			return;
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in addr = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if ((argc != 2 && argc != 4) || fd < 0) {
		fprintf(stderr, "usage: udp_pingpong PORT [ADDRESS ROUNDS]\n");
		return 2;
	}
	addr.sin_port = htons(atoi(argv[1]));
	if (argc == 2) {
		if (bind(fd, (struct sockaddr *)&addr, sizeof(addr))) {
			perror("bind");
			return 1;
		}
		answer(fd);
	}

	long rounds = atol(argv[3]);
	double *halves = calloc(rounds, sizeof(*halves));

	if (inet_pton(AF_INET, argv[2], &addr.sin_addr) != 1 || rounds < 1 || !halves ||
	    connect(fd, (struct sockaddr *)&addr, sizeof(addr))) {
		fprintf(stderr, "udp_pingpong: no such address or number of rounds\n");
		return 1;
	}
	for (long i = 0; i < WARM_UP; i++)
		round_trip(fd);
	for (long i = 0; i < rounds; i++) {
		double start = now_us();

		round_trip(fd);
		halves[i] = (now_us() - start) / 2;
	}
	printf("%.3f\n", median(halves, rounds));
	free(halves);
	close(fd);
	return 0;
}
