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
/* In the middle the code that ends with label 2. The signature is the operand of an instruction that
 * cannot be executed. */
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

long urxe_rseq_copy(void *dst, const void *src, size_t len, const struct urxe_guard *guard)
{
	void *cs = rseq_cs();
	long ret;

	__asm__ volatile(BEGIN "rep movsb\n"
			       "2:\txorl %%eax, %%eax\n\t" END
			 : "=&a"(ret), "+D"(dst), "+S"(src), "+c"(len)
			 : [g] "r"(guard), [cs] "r"(cs)
			 : "r11", "cc", "memory");
	return ret;
}

static long commit_word(void *dst, uint64_t word, const struct urxe_guard *guard)
{
	void *cs = rseq_cs();
	long ret;

	__asm__ volatile(BEGIN "movq %[word], (%[d])\n"
			       "2:\txorl %%eax, %%eax\n\t" END
			 : "=&a"(ret)
			 : [d] "r"(dst), [word] "r"(word), [g] "r"(guard), [cs] "r"(cs)
			 : "r11", "cc", "memory");
	return ret;
}

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

long urxe_rseq_copy(void *dst, const void *src, size_t len, const struct urxe_guard *guard)
{
	void *cs = rseq_cs();
	long ret = 0;

	/* The loads behind must not be carried out before the guard was looked at, nor the stores:
	 * those wait for the branch, the loads do not, and need not. */
	__asm__ volatile(BEGIN "7:\tsubs %[n], %[n], #16\n\t"
			       "b.lo 8f\n\t"
			       "ldp x16, x17, [%[s]], #16\n\t"
			       "stp x16, x17, [%[d]], #16\n\t"
			       "b 7b\n"
			       "8:\tadds %[n], %[n], #16\n\t"
			       "b.eq 2f\n"
			       "9:\tldrb w16, [%[s]], #1\n\t"
			       "strb w16, [%[d]], #1\n\t"
			       "subs %[n], %[n], #1\n\t"
			       "b.ne 9b\n"
			       "2:\t" END
			 : [ret] "+r"(ret), [d] "+r"(dst), [s] "+r"(src), [n] "+&r"(len)
			 : [g] "r"(guard), [cs] "r"(cs)
			 : "x16", "x17", "cc", "memory");
	return ret;
}

static long commit_word(void *dst, uint64_t word, const struct urxe_guard *guard)
{
	void *cs = rseq_cs();
	long ret = 0;

	__asm__ volatile(BEGIN "stlr %[word], [%[d]]\n"
			       "2:\t" END
			 : [ret] "+r"(ret)
			 : [d] "r"(dst), [word] "r"(word), [g] "r"(guard), [cs] "r"(cs)
			 : "x16", "x17", "cc", "memory");
	return ret;
}

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
	if (len == sizeof(word) && !((uintptr_t)dst % sizeof(word)))
		return commit_word(dst, word, guard);
	return commit_bytes(dst, word, len, guard);
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

long urxe_rseq_copy(void *dst, const void *src, size_t len, const struct urxe_guard *guard)
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
