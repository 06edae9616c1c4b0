/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * tap_copy A B: copies frames between two TAP interfaces, with one read() and one write() each:
 * what a switch in user space cannot do without. tap_copy --flood ADDRESS SECONDS: sends datagrams
 * as of RoCE to an address for so long; prints how many.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "measure.h"

static int open_tap(const char *name)
{
	struct ifreq ifr = {.ifr_flags = IFF_TAP | IFF_NO_PI};
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK);

	strncpy(ifr.ifr_name, name, IFNAMSIZ - 1);
	if (fd >= 0 && !ioctl(fd, TUNSETIFF, &ifr))
		return fd;
	perror(name);
	exit(1);
}

static void copy(int from, int to)
{
	static uint8_t frame[65536];

	for (int i = 0; i < 64; i++) {
		ssize_t n = read(from, frame, sizeof(frame));

		if (n <= 0 || write(to, frame, (size_t)n) != n)
			return;
	}
}

static int flood(const char *address, double seconds)
{
	static uint8_t payload[1040] = {10, 0x40, 0xff, 0xff, 0, 0, 0, 17};
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(4791)};
	struct mmsghdr messages[32] = {0};
	struct iovec iov = {payload, sizeof(payload)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	double end = now_s() + seconds;
	long sent = 0;

	if (fd < 0 || inet_pton(AF_INET, address, &to.sin_addr) != 1 ||
	    connect(fd, (struct sockaddr *)&to, sizeof(to))) {
		perror(address);
		return 1;
	}
	for (int i = 0; i < 32; i++) {
		messages[i].msg_hdr.msg_iov = &iov;
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	while (now_s() < end) {
		int n = sendmmsg(fd, messages, 32, 0);

		sent += n > 0 ? n : 0;
	}
	printf("%ld\n", sent);
	return 0;
}

int main(int argc, char **argv)
{
	struct pollfd fds[2] = {{.events = POLLIN}, {.events = POLLIN}};

	if (argc == 4 && !strcmp(argv[1], "--flood"))
		return flood(argv[2], atof(argv[3]));
	if (argc != 3) {
		fprintf(stderr, "usage: tap_copy A B | --flood ADDRESS SECONDS\n");
		return 2;
	}
	for (int i = 0; i < 2; i++)
		fds[i].fd = open_tap(argv[i + 1]);
	while (poll(fds, 2, -1) > 0) {
		if (fds[0].revents & POLLIN)
			copy(fds[0].fd, fds[1].fd);
		if (fds[1].revents & POLLIN)
			copy(fds[1].fd, fds[0].fd);
	}
	return 1;
}
