// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * One process_vm_writev(2) to a process that sleeps: process_vm BYTES CALLS. Prints the median in
 * microseconds.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "measure.h"

int main(int argc, char **argv)
{
	size_t bytes = argc > 1 ? strtoul(argv[1], NULL, 0) : 0;
	size_t calls = argc > 2 ? strtoul(argv[2], NULL, 0) : 0;
	char *from = malloc(bytes), *to = malloc(bytes);
	double *times = calloc(calls, sizeof(*times));
	struct iovec local = {from, bytes}, remote = {to, bytes};
	pid_t pid;

	if (!bytes || !calls || !from || !to || !times) {
		fprintf(stderr, "usage: process_vm BYTES CALLS\n");
		return 2;
	}
	memset(from, 1, bytes);
	memset(to, 2, bytes);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		memset(to, 3, bytes); /* pages of its own */
		for (;;)
			pause();
	}
	usleep(10000);
	for (size_t i = 0; i < calls; i++) {
		double start = now_us();

		if (process_vm_writev(pid, &local, 1, &remote, 1, 0) != (ssize_t)bytes) {
			perror("process_vm_writev");
			kill(pid, SIGKILL);
			return 1;
		}
		times[i] = now_us() - start;
	}
	kill(pid, SIGKILL);
	printf("%.3f\n", median(times, calls));
	return 0;
}
