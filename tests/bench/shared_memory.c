// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What shared memory itself can do between two processes:
 *
 *	shared_memory bounce COUNT	a cache line goes to and fro: half a round in microseconds
 *	shared_memory copy BYTES COUNT	memcpy from one mapping to another: MB/s
 *
 * The two sides of a bounce run on CPUs 0 and 1, the copy on CPU 0; medians.
 */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "measure.h"

#define BATCH 100 /* rounds of a bounce that are timed together */

static void run_on(unsigned cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu % sysconf(_SC_NPROCESSORS_ONLN), &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void *shared(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	memset(p, 0, bytes);
	return p;
}

/* Odd numbers are answered with the next even one. */
static void answer(_Atomic uint64_t *word)
{
	uint64_t last = 0, is;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	run_on(1);
	for (;;) {
		do
			is = atomic_load_explicit(word, memory_order_acquire);
		while (is == last || !(is & 1));
		last = is + 1;
		atomic_store_explicit(word, last, memory_order_release);
	}
}

static double bounce(size_t count)
{
	_Atomic uint64_t *word = shared(4096);
	size_t batches = count / BATCH + 1;
	double *times = calloc(batches, sizeof(*times)), start;
	pid_t pid = fork();
	uint64_t n = 1;

	if (!pid)
		answer(word);
	run_on(0);
	for (size_t i = 0; i < batches; i++) {
		start = now_us();
		for (unsigned k = 0; k < BATCH; k++, n += 2) {
			atomic_store_explicit(word, n, memory_order_release);
			while (atomic_load_explicit(word, memory_order_acquire) != n + 1)
				;
		}
		times[i] = (now_us() - start) / BATCH / 2;
	}
	kill(pid, SIGKILL);
	return median(times, batches);
}

static double copy(size_t bytes, size_t count)
{
	char *from = shared(bytes), *to = shared(bytes);
	double *times = calloc(count, sizeof(*times));

	run_on(0);
	for (size_t i = 0; i < count; i++) {
		double start = now_us();

		memcpy(to, from, bytes);
		__asm__ volatile("" : : "r"(to) : "memory");
		times[i] = now_us() - start;
	}
	return bytes / median(times, count);
}

int main(int argc, char **argv)
{
	size_t first = argc > 2 ? strtoul(argv[2], NULL, 0) : 0;
	size_t second = argc > 3 ? strtoul(argv[3], NULL, 0) : 0;

	if (first && !strcmp(argv[1], "bounce")) {
		printf("%.4f\n", bounce(first));
	} else if (first && second && !strcmp(argv[1], "copy")) {
		printf("%.0f\n", copy(first, second));
	} else {
		fprintf(stderr, "usage: shared_memory bounce COUNT | copy BYTES COUNT\n");
		return 2;
	}
	return 0;
}
