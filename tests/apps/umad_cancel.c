// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * umad_cancel ROUNDS: a thread that reads a umad file is cancelled wherever it is, as OpenSM
 * does at its end; the file can be used afterwards. The thread reads without a pause, and every
 * second time sleeps in the call.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/umad.h>

static int fd;

static void *reads(void *arg)
{
	char buf[4096];

	for (;;)
		if (read(fd, buf, sizeof(buf)) < 0 && errno != EAGAIN)
			pthread_testcancel();
	return NULL;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 100, port, agent;

	umad_init();
	port = umad_open_port("urxe0", 1);
	if (port < 0) {
		perror("umad_open_port");
		return 1;
	}
	fd = umad_get_fd(port);
	for (int i = 0; i < rounds; i++) {
		struct timespec a_while = {.tv_nsec = 1000 * (i % 997)};
		int flags = fcntl(fd, F_GETFL);
		pthread_t thread;

		fcntl(fd, F_SETFL, i % 2 ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
		pthread_create(&thread, NULL, reads, NULL);
		nanosleep(&a_while, NULL);
		pthread_cancel(thread);
		pthread_join(thread, NULL);
		agent = umad_register(port, 4, 1, 0, NULL);
		if (agent < 0 || umad_unregister(port, agent)) {
			printf("round %d: no agent\n", i);
			return 1;
		}
	}
	printf("%d threads cancelled\n", rounds);
	return umad_close_port(port) ? 1 : 0;
}
