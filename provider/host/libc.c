/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Finds libc's own functions in the symbol table of the libc that is loaded (elf_symbols.h):
 * dlsym() cannot be asked, because this library replaces it and because its answer is whatever
 * another preload put first. In a static program there is no libc object, and nothing is
 * interposed: the plain functions are used.
 *
 * Runs in an early constructor and again from any interposed function that is called before it. It
 * takes no lock. Threads that race compute the same addresses and store them one by one.
 *
 * Calling libc behind the back of the address sanitizer only loses checks; the thread sanitizer
 * would miss that a descriptor orders memory accesses, and is told so by the wrappers in
 * libc_tsan.c. (Its interceptors cannot be called instead: under a preload they call the interposed
 * function, which would call them again.)
 */
#include "host/libc.h"

#include "host/elf_symbols.h"
#include "host/libc_tsan.h"

struct urxe_libc urxe_libc;

static void *find(const char *name, void *plain)
{
	void *own = urxe_elf_libc(name);

	return own ? own : plain;
}

__attribute__((constructor(101))) void urxe_libc_init(void)
{
	static int ready;
	struct urxe_libc found;

	if (__atomic_load_n(&ready, __ATOMIC_ACQUIRE))
		return;
#define FIND(name) found.name = (__typeof__(found.name))find(#name, (void *)name);
	URXE_LIBC_FUNCTIONS(FIND)
	urxe_libc_tsan_wrap(&found);
#define STORE(name) __atomic_store_n(&urxe_libc.name, found.name, __ATOMIC_RELAXED);
	URXE_LIBC_FUNCTIONS(STORE)
	__atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
}
