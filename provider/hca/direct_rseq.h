/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Restartable sequences (rseq(2)): an access to a neighbour's memory that happens at once after a
 * permission was looked at, or not at all.
 *
 * A thread may lose its CPU between looking and copying: it is preempted, it is stopped for an
 * hour, it is frozen; and when it comes back, the region may be gone. In a restartable sequence the
 * kernel sends such a thread elsewhere when it comes back, before it runs one more instruction of
 * the sequence. So the thread that has taken a permission away and has seen the other off the
 * CPU knows that it will not store another byte.
 *
 * glibc registers every thread (2.35 or later). Where it does not, or on other processors than
 * x86-64 and aarch64, nothing here works and urxe_rseq_available() says so. Any thread.
 */
#ifndef URXE_HCA_DIRECT_RSEQ_H
#define URXE_HCA_DIRECT_RSEQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* What a sequence looks at: two words that must still have these values. */
struct urxe_guard {
	const void *epoch; /* uint64_t */
	uint64_t epoch_is;
	const void *life; /* uint32_t */
	uint64_t life_is;
};

/* Beside what the system call returns (bytes, or -errno): */
#define URXE_RSEQ_ABORTED (-4097l) /* lost the CPU; nothing, or part of it, was copied */
#define URXE_RSEQ_STALE	  (-4098l) /* a word has another value: nothing was copied */

bool urxe_rseq_available(void);

/*
 * process_vm_writev(2) or process_vm_readv(2), by number: the sequence is from looking at the guard
 * to the instruction that enters the kernel. The call itself, once it has begun, is carried out
 * before the thread can be stopped.
 */
long urxe_rseq_vm(long number, int pid, const struct iovec *local, unsigned num_local,
		  const struct iovec *remote, unsigned num_remote, const struct urxe_guard *guard);

/*
 * Copies len bytes between mapped memory; all of it is the sequence. Begin anew when aborted. 0 or
 * one of the above. Bytes may become visible in any order, but integers that are aligned in
 * at_once, which is dst or src, are stored or loaded at once.
 */
long urxe_rseq_copy(void *dst, const void *src, size_t len, const void *at_once,
		    const struct urxe_guard *guard);

/*
 * These end with the store that makes them done: when they are aborted that has not been made. They
 * become visible behind what was copied before.
 *
 * 1 … 8 bytes: an aligned integer at once, others byte by byte, the last one last. Atomics on an
 * aligned word: what it was goes to *value, which begins as what is added or compared with.
 */
long urxe_rseq_commit(void *dst, const void *src, size_t len, const struct urxe_guard *guard);
long urxe_rseq_fetch_add(uint64_t *at, uint64_t *value, const struct urxe_guard *guard);
long urxe_rseq_compare_swap(uint64_t *at, uint64_t *value, uint64_t swap,
			    const struct urxe_guard *guard);

/* The bytes that are left for urxe_rseq_commit(): the aligned integer at the end of len bytes. */
static inline size_t urxe_rseq_last(uint64_t end, size_t len)
{
	size_t last = 8;

	while (last > 1 && (last > len || end & (last - 1)))
		last /= 2;
	return last;
}

#endif
