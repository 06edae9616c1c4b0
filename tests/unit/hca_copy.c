// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What a poller can see of a copy, by packets (hca/copy.c) and to memory that is mapped
 * (hca/direct_rseq.h): a child copies, and after each of its instructions its parent looks at the
 * destination.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hca/direct_rseq.h"
#include "hca/memory.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LONGEST 24 /* a copy has many more instructions */
#else
#define LONGEST 72 /* beyond it memcpy() uses longer stores, and more of them */
#endif

/* Zeros become ones; at: where, of how many bytes. */
struct scene {
	volatile bool copying;
	volatile unsigned at, len;
	_Alignas(64) uint8_t dst[256];
};

typedef void copy_fn(void *dst, const void *src, size_t len);

/* As a write to memory that is mapped does it. */
static void copy_mapped(void *dst, const void *src, size_t len)
{
	static const uint64_t word = 1;
	struct urxe_guard guard = {&word, 1, &word, 1};
	size_t last = urxe_rseq_last((uintptr_t)dst + len, len), n = len - last;

	if (urxe_rseq_copy(dst, src, n, dst, &guard) ||
	    urxe_rseq_commit((uint8_t *)dst + n, (const uint8_t *)src + n, last, &guard))
		_exit(2);
}

/* Sequences would begin anew after each step: the kernel shall know of none. */
static void unregister_rseq(void)
{
	void *area = (char *)__builtin_thread_pointer() + __rseq_offset;

	syscall(SYS_rseq, area, __rseq_size < 32 ? 32 : __rseq_size, RSEQ_FLAG_UNREGISTER,
		RSEQ_SIG);
}

static void copy_all(struct scene *scene, copy_fn *copy)
{
	static uint8_t ones[LONGEST + 1];

	memset(ones, 0xff, sizeof(ones));
	for (scene->at = 0; scene->at < 8; scene->at++) {
		for (scene->len = 1; scene->len <= LONGEST; scene->len++) {
			memset(scene->dst, 0, sizeof(scene->dst));
			scene->copying = true;
			kill(getpid(), SIGSTOP);
			copy(scene->dst + scene->at, ones + 1, scene->len);
			scene->copying = false;
			if (!scene->dst[scene->at])
				_exit(1);
		}
	}
}

/* Is each aligned word of so many bytes in the destination as it was, or as it will be? */
static bool words_are_whole(const struct scene *scene, unsigned size)
{
	unsigned end = scene->at + scene->len;

	for (unsigned i = (scene->at + size - 1) / size * size; i + size <= end; i += size)
		if (memchr(&scene->dst[i], 0, size) && memchr(&scene->dst[i], 0xff, size))
			return false;
	return true;
}

static bool last_is_last(const struct scene *scene)
{
	const uint8_t *from = scene->dst + scene->at;

	return !from[scene->len - 1] || !memchr(from, 0, scene->len);
}

static void step_through(pid_t pid, const struct scene *scene)
{
	unsigned torn = 0, early = 0, looked = 0;
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	while (WIFSTOPPED(status)) {
		if (scene->copying) {
			bool whole = words_are_whole(scene, 2) && words_are_whole(scene, 4) &&
				     words_are_whole(scene, 8);

			if (!torn && !early && (!whole || !last_is_last(scene)))
				print_message("%u bytes at %u\n", scene->len, scene->at);
			looked++;
			torn += !whole;
			early += !last_is_last(scene);
		}
		/* Between copies it runs to where it stops before the next one. */
		assert_int_equal(ptrace(scene->copying ? PTRACE_SINGLESTEP : PTRACE_CONT, pid, NULL,
					NULL),
				 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
	}
	assert_int_equal(status, 0);
	assert_true(looked > 8 * LONGEST);
	assert_int_equal(early, 0);
	assert_int_equal(torn, 0);
}

static void aligned_words_are_whole_and_the_last_byte_comes_last(copy_fn *copy)
{
	struct scene *scene = mmap(NULL, sizeof(*scene), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid;

	assert_ptr_not_equal(scene, MAP_FAILED);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		unregister_rseq();
		raise(SIGSTOP);
		copy_all(scene, copy);
		_exit(0);
	}
	step_through(pid, scene);
	munmap(scene, sizeof(*scene));
}

static void of_a_packet_words_are_whole_and_the_last_byte_comes_last(void **state)
{
	aligned_words_are_whole_and_the_last_byte_comes_last(urxe_copy_visible);
}

static void of_a_direct_write_words_are_whole_and_the_last_byte_comes_last(void **state)
{
	if (!urxe_rseq_available())
		skip();
	aligned_words_are_whole_and_the_last_byte_comes_last(copy_mapped);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_a_packet_words_are_whole_and_the_last_byte_comes_last),
		cmocka_unit_test(of_a_direct_write_words_are_whole_and_the_last_byte_comes_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
