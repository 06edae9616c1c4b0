/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Time of ibv_reg_mr and ibv_dereg_mr of memory that has been touched: reg_mr DEVICE MIB ROUNDS
 * prints the median of both together in µs. Runs on any verbs device. One thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <infiniband/verbs.h>

#include "device.h"
#include "measure.h"

int main(int argc, char **argv)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

	if (argc != 4) {
		fprintf(stderr, "usage: reg_mr DEVICE MIB ROUNDS\n");
		return 2;
	}

	struct ibv_context *ctx = open_device(argv[1]);
	struct ibv_pd *pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	size_t len = (size_t)atol(argv[2]) << 20;
	long rounds = atol(argv[3]);
	double *times = calloc(rounds, sizeof(*times));
	char *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (!pd || !times || memory == MAP_FAILED) {
		fprintf(stderr, "reg_mr: %s cannot be opened\n", argv[1]);
		return 1;
	}
	memset(memory, 1, len);
	for (long i = 0; i < rounds; i++) {
		double start = now_us();
		struct ibv_mr *mr = ibv_reg_mr(pd, memory, len, access);

		if (!mr || ibv_dereg_mr(mr)) {
			perror("reg_mr");
			return 1;
		}
		times[i] = now_us() - start;
	}
	printf("%.3f\n", median(times, rounds));
	ibv_dealloc_pd(pd);
	ibv_close_device(ctx);
	free(times);
	munmap(memory, len);
	return 0;
}
