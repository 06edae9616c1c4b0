/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The program's memory, at addresses that it has named in a command or registered: reading or
 * writing what is not mapped is -EFAULT, as it would be from the kernel. Any thread, any lock.
 */
#ifndef URXE_HOST_USER_MEMORY_H
#define URXE_HOST_USER_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The thread's stack; 0: not asked for yet. */
extern __thread uintptr_t urxe_stack_low __attribute__((tls_model("initial-exec")));
extern __thread uintptr_t urxe_stack_high __attribute__((tls_model("initial-exec")));

int urxe_user_read_checked(void *to, uint64_t from, size_t len);
int urxe_user_write_checked(uint64_t to, const void *from, size_t len);

/*
 * What lies between the caller's frame and the end of the thread's stack is there and can be
 * written. A coroutine's stack is none of these: then this frame is not within the thread's.
 */
static inline bool urxe_on_own_stack(uint64_t addr, size_t len)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	return here >= urxe_stack_low && addr >= here && addr <= urxe_stack_high &&
	       len <= urxe_stack_high - addr;
}

static inline int urxe_user_read(void *to, uint64_t from, size_t len)
{
	if (!urxe_on_own_stack(from, len))
		return urxe_user_read_checked(to, from, len);
	memcpy(to, (const void *)(uintptr_t)from, len);
	return 0;
}

static inline int urxe_user_write(uint64_t to, const void *from, size_t len)
{
	if (!urxe_on_own_stack(to, len))
		return urxe_user_write_checked(to, from, len);
	memcpy((void *)(uintptr_t)to, from, len);
	return 0;
}

#endif
