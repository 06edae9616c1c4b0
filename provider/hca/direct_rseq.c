// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Restartable sequences in assembler (direct_rseq.h). The descriptor of a sequence says where it
 * begins, how long it is and where the kernel sends a thread that lost its CPU inside. Just before
 * that place lies a signature, so that a descriptor cannot be made to lead anywhere else. The
 * thread's own struct rseq points to the descriptor; it is cleared behind, because the library may
 * be unloaded and the kernel looks at it whenever the thread is preempted.
 */
#include "hca/direct_rseq.h"

#include <assert.h>
#include <string.h>

#if defined(__has_include)
#if __has_include(<sys/rseq.h>) && (defined(__x86_64__) || defined(__aarch64__))
#define HAVE_RSEQ
#endif
#endif

#ifdef HAVE_RSEQ

#include <sys/rseq.h>

/* Missing in a libc older than the one that this was built with. */
#pragma weak __rseq_size
#pragma weak __rseq_offset

bool urxe_rseq_available(void)
{
	return &__rseq_size && &__rseq_offset && __rseq_size;
}

static void *rseq_cs(void)
{
	struct rseq *area = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);

	return &area->rseq_cs;
}

#define STR_(x) #x
#define STR(x)	STR_(x)
#define DESCRIPTOR                           \
	".pushsection __rseq_cs, \"aw\"\n\t" \
	".balign 32\n"                       \
	"33:\t.long 0, 0\n\t"                \
	".quad 1f, 2f - 1f, 4f\n\t"          \
	".popsection\n\t"

static_assert(URXE_RSEQ_ABORTED == -4097 && URXE_RSEQ_STALE == -4098, "written out below");

/*
 * How a copy goes so that aligned words of one side, at that address, are loaded or stored at once:
 * as many bytes, pairs and fours of bytes as lead to an aligned word, words, and what is left.
 */
struct steps {
	unsigned before; /* 1, 2, 4, or several of them */
	unsigned after;	 /* the same, the largest first */
	size_t words;
};

static struct steps steps_of(const void *at, size_t len)
{
	struct steps steps = {0};
	unsigned unaligned = -(uintptr_t)at & 7;

	for (unsigned size = 1; size < 8 && size <= len; size *= 2) {
		if (unaligned & size) {
			steps.before |= size;
			len -= size;
		}
	}
	steps.words = len / 8;
	steps.after = len % 8;
	return steps;
}

#ifdef __x86_64__

#define BEGIN                        \
	DESCRIPTOR                   \
	"leaq 33b(%%rip), %%r11\n\t" \
	"movq %%r11, (%[cs])\n"      \
	"1:\tmovq (%[g]), %%r11\n\t" \
	"movq 8(%[g]), %%rax\n\t"    \
	"cmpq %%rax, (%%r11)\n\t"    \
	"jne 5f\n\t"                 \
	"movq 16(%[g]), %%r11\n\t"   \
	"movl 24(%[g]), %%eax\n\t"   \
	"cmpl %%eax, (%%r11)\n\t"    \
	"jne 5f\n\t"
/* In the middle the code that ends with label 2. The signature is the operand of an
 * instruction that cannot be executed. */
#define END                                                 \
	"jmp 6f\n\t"                                        \
	".byte 0x0f, 0xb9, 0x3d\n\t"                        \
	".long " STR(RSEQ_SIG) "\n"                         \
			       "4:\tmovq $-4097, %%rax\n\t" \
			       "jmp 6f\n"                   \
			       "5:\tmovq $-4098, %%rax\n"   \
			       "6:\tmovq $0, (%[cs])\n\t"

long urxe_rseq_vm(long number, int pid, const struct iovec *local, unsigned num_local,
		  const struct iovec *remote, unsigned num_remote, const struct urxe_guard *guard)
{
	/* Before the registers are loaded, which a call would overwrite. */
	void *cs = rseq_cs();
	register long r10 __asm__("r10") = (long)remote;
	register long r8 __asm__("r8") = num_remote;
	register long r9 __asm__("r9") = 0;
	long ret;

	__asm__ volatile(BEGIN "movq %[nr], %%rax\n\t"
			       "syscall\n"
			       "2:\t" END
			 : "=&a"(ret)
			 : [nr] "r"(number), "D"((long)pid), "S"(local), "d"((long)num_local),
			   "r"(r10), "r"(r8), "r"(r9), [g] "r"(guard), [cs] "r"(cs)
			 : "rcx", "r11", "cc", "memory");
	return ret;
}

long urxe_rseq_copy(void *dst, const void *src, size_t len, const void *at_once,
		    const struct urxe_guard *guard)
{
	struct steps steps = steps_of(at_once, len);
	void *cs = rseq_cs();
	long ret;

	__asm__ volatile(
		BEGIN "testb $1, %b[before]\n\t"
		      "jz 10f\n\t"
		      "movsb\n"
		      "10:\ttestb $2, %b[before]\n\t"
		      "jz 11f\n\t"
		      "movsw\n"
		      "11:\ttestb $4, %b[before]\n\t"
		      "jz 12f\n\t"
		      "movsl\n"
		      "12:\trep movsq\n\t"
		      "testb $4, %b[after]\n\t"
		      "jz 13f\n\t"
		      "movsl\n"
		      "13:\ttestb $2, %b[after]\n\t"
		      "jz 14f\n\t"
		      "movsw\n"
		      "14:\ttestb $1, %b[after]\n\t"
		      "jz 2f\n\t"
		      "movsb\n"
		      "2:\txorl %%eax, %%eax\n\t" END
		: "=&a"(ret), "+D"(dst), "+S"(src), "+c"(steps.words)
		: [before] "r"(steps.before), [after] "r"(steps.after), [g] "r"(guard), [cs] "r"(cs)
		: "r11", "cc", "memory");
	return ret;
}

/* store: an instruction, with the part of the register that it stores. */
#define COMMIT(name, store)                                                                     \
	static long name(void *dst, uint64_t word, const struct urxe_guard *guard)              \
	{                                                                                       \
		void *cs = rseq_cs();                                                           \
		long ret;                                                                       \
                                                                                                \
		__asm__ volatile(BEGIN store ", (%[d])\n"                                       \
					     "2:\txorl %%eax, %%eax\n\t" END                    \
				 : "=&a"(ret)                                                   \
				 : [d] "r"(dst), [word] "r"(word), [g] "r"(guard), [cs] "r"(cs) \
				 : "r11", "cc", "memory");                                      \
		return ret;                                                                     \
	}

COMMIT(commit_8, "movq %q[word]")
COMMIT(commit_4, "movl %k[word]")
COMMIT(commit_2, "movw %w[word]")

static long commit_bytes(void *dst, uint64_t word, size_t len, const struct urxe_guard *guard)
{
	void *cs = rseq_cs();
	long ret;

	__asm__ volatile(BEGIN "decq %[n]\n\t"
			       "jz 8f\n"
			       "7:\tmovb %b[word], (%[d])\n\t"
			       "shrq $8, %[word]\n\t"
			       "incq %[d]\n\t"
			       "decq %[n]\n\t"
			       "jnz 7b\n"
			       "8:\tmovb %b[word], (%[d])\n"
			       "2:\txorl %%eax, %%eax\n\t" END
			 : "=&a"(ret), [d] "+&r"(dst), [word] "+&r"(word), [n] "+&r"(len)
			 : [g] "r"(guard), [cs] "r"(cs)
			 : "r11", "cc", "memory");
	return ret;
}

long urxe_rseq_fetch_add(uint64_t *at, uint64_t *value, const struct urxe_guard *guard)
{
	void *cs = rseq_cs();
	uint64_t word = *value;
	long ret;

	__asm__ volatile(BEGIN "lock xaddq %[word], (%[at])\n"
			       "2:\txorl %%eax, %%eax\n\t" END
			 : "=&a"(ret), [word] "+&r"(word)
			 : [at] "r"(at), [g] "r"(guard), [cs] "r"(cs)
			 : "r11", "cc", "memory");
	*value = word;
	return ret;
}

long urxe_rseq_compare_swap(uint64_t *at, uint64_t *value, uint64_t swap,
			    const struct urxe_guard *guard)
{
	void *cs = rseq_cs();
	uint64_t word = *value;
	long ret;

	__asm__ volatile(BEGIN "movq %[word], %%rax\n\t"
			       "lock cmpxchgq %[swap], (%[at])\n"
			       "2:\tmovq %%rax, %[word]\n\t"
			       "xorl %%eax, %%eax\n\t" END
			 : "=&a"(ret), [word] "+&r"(word)
			 : [at] "r"(at), [swap] "r"(swap), [g] "r"(guard), [cs] "r"(cs)
			 : "r11", "cc", "memory");
	*value = word;
	return ret;
}

#else /* aarch64 */

#define BEGIN                          \
	DESCRIPTOR                     \
	"adrp x16, 33b\n\t"            \
	"add x16, x16, :lo12:33b\n\t"  \
	"str x16, [%[cs]]\n"           \
	"1:\tldp x16, x17, [%[g]]\n\t" \
	"ldr x16, [x16]\n\t"           \
	"cmp x16, x17\n\t"             \
	"b.ne 5f\n\t"                  \
	"ldp x16, x17, [%[g], 16]\n\t" \
	"ldr w16, [x16]\n\t"           \
	"cmp w16, w17\n\t"             \
	"b.ne 5f\n\t"
#define END                                                      \
	"b 6f\n\t"                                               \
	".inst " STR(RSEQ_SIG_CODE) "\n"                         \
				    "4:\tmov %[ret], #-4097\n\t" \
				    "b 6f\n"                     \
				    "5:\tmov %[ret], #-4098\n"   \
				    "6:\tstr xzr, [%[cs]]\n\t"

long urxe_rseq_vm(long number, int pid, const struct iovec *local, unsigned num_local,
		  const struct iovec *remote, unsigned num_remote, const struct urxe_guard *guard)
{
	/* Before the registers are loaded, which a call would overwrite. */
	void *cs = rseq_cs();
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = pid;
	register long x1 __asm__("x1") = (long)local;
	register long x2 __asm__("x2") = num_local;
	register long x3 __asm__("x3") = (long)remote;
	register long x4 __asm__("x4") = num_remote;
	register long x5 __asm__("x5") = 0;

	__asm__ volatile(BEGIN "svc #0\n"
			       "2:\t" END
			 : [ret] "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4),
			   "r"(x5), [g] "r"(guard), [cs] "r"(cs)
			 : "x16", "x17", "cc", "memory");
	return x0;
}

long urxe_rseq_copy(void *dst, const void *src, size_t len, const void *at_once,
		    const struct urxe_guard *guard)
{
	struct steps steps = steps_of(at_once, len);
	size_t bytes = steps.words * 8;
	void *cs = rseq_cs();
	long ret = 0;

	/* The loads behind must not be carried out before the guard was looked at, nor the stores:
	 * those wait for the branch, the loads do not, and need not. Of a pair each word is loaded
	 * and stored at once. */
	__asm__ volatile(
		BEGIN "tbz %w[before], #0, 10f\n\t"
		      "ldrb w16, [%[s]], #1\n\t"
		      "strb w16, [%[d]], #1\n"
		      "10:\ttbz %w[before], #1, 11f\n\t"
		      "ldrh w16, [%[s]], #2\n\t"
		      "strh w16, [%[d]], #2\n"
		      "11:\ttbz %w[before], #2, 7f\n\t"
		      "ldr w16, [%[s]], #4\n\t"
		      "str w16, [%[d]], #4\n"
		      "7:\tsubs %[n], %[n], #16\n\t"
		      "b.lo 8f\n\t"
		      "ldp x16, x17, [%[s]], #16\n\t"
		      "stp x16, x17, [%[d]], #16\n\t"
		      "b 7b\n"
		      "8:\ttbz %[n], #3, 12f\n\t"
		      "ldr x16, [%[s]], #8\n\t"
		      "str x16, [%[d]], #8\n"
		      "12:\ttbz %w[after], #2, 13f\n\t"
		      "ldr w16, [%[s]], #4\n\t"
		      "str w16, [%[d]], #4\n"
		      "13:\ttbz %w[after], #1, 14f\n\t"
		      "ldrh w16, [%[s]], #2\n\t"
		      "strh w16, [%[d]], #2\n"
		      "14:\ttbz %w[after], #0, 2f\n\t"
		      "ldrb w16, [%[s]]\n\t"
		      "strb w16, [%[d]]\n"
		      "2:\t" END
		: [ret] "+r"(ret), [d] "+&r"(dst), [s] "+&r"(src), [n] "+&r"(bytes)
		: [before] "r"(steps.before), [after] "r"(steps.after), [g] "r"(guard), [cs] "r"(cs)
		: "x16", "x17", "cc", "memory");
	return ret;
}

/* store: an instruction, with the part of the register that it stores. */
#define COMMIT(name, store)                                                                     \
	static long name(void *dst, uint64_t word, const struct urxe_guard *guard)              \
	{                                                                                       \
		void *cs = rseq_cs();                                                           \
		long ret = 0;                                                                   \
                                                                                                \
		__asm__ volatile(BEGIN store ", [%[d]]\n"                                       \
					     "2:\t" END                                         \
				 : [ret] "+r"(ret)                                              \
				 : [d] "r"(dst), [word] "r"(word), [g] "r"(guard), [cs] "r"(cs) \
				 : "x16", "x17", "cc", "memory");                               \
		return ret;                                                                     \
	}

COMMIT(commit_8, "stlr %x[word]")
COMMIT(commit_4, "stlr %w[word]")
COMMIT(commit_2, "stlrh %w[word]")

static long commit_bytes(void *dst, uint64_t word, size_t len, const struct urxe_guard *guard)
{
	void *cs = rseq_cs();
	long ret = 0;

	__asm__ volatile(BEGIN "7:\tsubs %[n], %[n], #1\n\t"
			       "b.eq 8f\n\t"
			       "strb %w[word], [%[d]], #1\n\t"
			       "lsr %[word], %[word], #8\n\t"
			       "b 7b\n"
			       "8:\tstlrb %w[word], [%[d]]\n"
			       "2:\t" END
			 : [ret] "+r"(ret), [d] "+&r"(dst), [word] "+&r"(word), [n] "+&r"(len)
			 : [g] "r"(guard), [cs] "r"(cs)
			 : "x16", "x17", "cc", "memory");
	return ret;
}

/* An exclusive store that did not happen counts as an abort. */
long urxe_rseq_fetch_add(uint64_t *at, uint64_t *value, const struct urxe_guard *guard)
{
	void *cs = rseq_cs();
	uint64_t old = *value;
	long ret = 0;

	__asm__ volatile(BEGIN "ldaxr %[old], [%[at]]\n\t"
			       "add x16, %[old], %[add]\n\t"
			       "stlxr w17, x16, [%[at]]\n"
			       "2:\tcbz w17, 8f\n\t"
			       "mov %[ret], #-4097\n"
			       "8:\t" END
			 : [ret] "+r"(ret), [old] "=&r"(old)
			 : [at] "r"(at), [add] "r"(*value), [g] "r"(guard), [cs] "r"(cs)
			 : "x16", "x17", "cc", "memory");
	if (!ret)
		*value = old;
	return ret;
}

long urxe_rseq_compare_swap(uint64_t *at, uint64_t *value, uint64_t swap,
			    const struct urxe_guard *guard)
{
	void *cs = rseq_cs();
	uint64_t old = *value;
	long ret = 0;

	__asm__ volatile(
		BEGIN "mov w17, #0\n\t"
		      "ldaxr %[old], [%[at]]\n\t"
		      "cmp %[old], %[is]\n\t"
		      "b.ne 2f\n\t"
		      "stlxr w17, %[swap], [%[at]]\n"
		      "2:\tcbz w17, 8f\n\t"
		      "mov %[ret], #-4097\n"
		      "8:\t" END
		: [ret] "+r"(ret), [old] "=&r"(old)
		: [at] "r"(at), [is] "r"(*value), [swap] "r"(swap), [g] "r"(guard), [cs] "r"(cs)
		: "x16", "x17", "cc", "memory");
	if (!ret)
		*value = old;
	return ret;
}

#endif /* aarch64 */

long urxe_rseq_commit(void *dst, const void *src, size_t len, const struct urxe_guard *guard)
{
	uint64_t word = 0;

	memcpy(&word, src, len);
	switch ((uintptr_t)dst & (len - 1) ? 1 : len) {
	case 8: return commit_8(dst, word, guard);
	case 4: return commit_4(dst, word, guard);
	case 2: return commit_2(dst, word, guard);
	default: return commit_bytes(dst, word, len, guard);
	}
}

#else /* no rseq */

bool urxe_rseq_available(void)
{
	return false;
}

long urxe_rseq_vm(long number, int pid, const struct iovec *local, unsigned num_local,
		  const struct iovec *remote, unsigned num_remote, const struct urxe_guard *guard)
{
	return URXE_RSEQ_STALE;
}

long urxe_rseq_copy(void *dst, const void *src, size_t len, const void *at_once,
		    const struct urxe_guard *guard)
{
	return URXE_RSEQ_STALE;
}

long urxe_rseq_commit(void *dst, const void *src, size_t len, const struct urxe_guard *guard)
{
	return URXE_RSEQ_STALE;
}

long urxe_rseq_fetch_add(uint64_t *at, uint64_t *value, const struct urxe_guard *guard)
{
	return URXE_RSEQ_STALE;
}

long urxe_rseq_compare_swap(uint64_t *at, uint64_t *value, uint64_t swap,
			    const struct urxe_guard *guard)
{
	return URXE_RSEQ_STALE;
}

#endif
