// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Finds libc's own functions in the symbol table of the libc that is loaded: dlsym() cannot be
 * asked, because this library replaces it and because its answer is whatever another preload put
 * first. dl_iterate_phdr() gives libc's PT_DYNAMIC, and that the tables (elf_symbols.h).
 *
 * Runs in an early constructor and again from any interposed function that is called before it. It
 * takes no lock: a lock here and the loader's lock inside dl_iterate_phdr() would be taken in
 * both orders. Threads that race compute the same addresses and store them one by one.
 *
 * In a static program there is no libc object, and nothing is interposed: the plain functions
 * are used. musl is found by its own file names. Calling libc behind the back of the address
 * sanitizer only loses checks; the thread sanitizer would miss that a descriptor orders memory
 * accesses, and is told so by the wrappers in libc_tsan.c. (Its interceptors cannot be called
 * instead: under a preload they call the interposed function, which would call them again.)
 */
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "host/elf_symbols.h"
#include "host/libc.h"
#include "host/libc_tsan.h"

struct urxe_libc urxe_libc;

/* Where functions are searched, in this order: before glibc 2.34 dlsym() lived in libdl. */
enum { LIBC, LIBDL, NUM_OBJECTS };

struct functions {
	struct urxe_elf objects[NUM_OBJECTS];
	bool found[NUM_OBJECTS];
};

static int object_of_name(const char *path)
{
	static const struct {
		const char *prefix;
		int object;
	} names[] = {
		{"libc.so.6", LIBC},
		{"libdl.so.2", LIBDL},
		{"ld-musl-", LIBC},
		{"libc.musl-", LIBC},
	};
	const char *base = strrchr(path, '/');

	base = base ? base + 1 : path;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(base, names[i].prefix, strlen(names[i].prefix)))
			return names[i].object;
	return -1;
}

static int visit_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct functions *f = arg;
	int which = object_of_name(info->dlpi_name ? info->dlpi_name : "");

	/* The first of a name: a second libc belongs to another link namespace (dlmopen). */
	if (which < 0 || f->found[which])
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type == PT_DYNAMIC)
			f->found[which] =
				urxe_elf_read(&f->objects[which], info->dlpi_addr,
					      (const void *)(info->dlpi_addr + ph->p_vaddr));
	}
	return 0;
}

/* An indirect function's symbol is a resolver; its arguments are the architecture's. */
static void *resolve_ifunc(uintptr_t resolver)
{
#if defined(__aarch64__)
	/* struct __ifunc_arg_t; bit 62 of the first argument says that it is passed. */
	const struct {
		unsigned long size, hwcap, hwcap2;
	} arg = {sizeof(arg), getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};

	return ((void *(*)(uint64_t, const void *))resolver)(arg.hwcap | 1ULL << 62, &arg);
#else
	return ((void *(*)(unsigned long))resolver)(getauxval(AT_HWCAP));
#endif
}

static void *lookup(const struct functions *f, const char *name, void *plain)
{
	for (int i = 0; i < NUM_OBJECTS; i++) {
		const struct urxe_elf *obj = &f->objects[i];
		const ElfW(Sym) * sym;

		if (!f->found[i])
			continue;
		sym = urxe_elf_lookup(obj, name);
		if (!sym)
			continue;
		if ((sym->st_info & 0xf) == STT_GNU_IFUNC)
			return resolve_ifunc(obj->base + sym->st_value);
		return (void *)(obj->base + sym->st_value);
	}
	return plain;
}

#define FUNCTIONS(X)       \
	X(open)            \
	X(openat)          \
	X(close)           \
	X(read)            \
	X(write)           \
	X(pread)           \
	X(fcntl)           \
	X(ioctl)           \
	X(dup)             \
	X(poll)            \
	X(socket)          \
	X(bind)            \
	X(connect)         \
	X(getsockname)     \
	X(setsockopt)      \
	X(getsockopt)      \
	X(sendto)          \
	X(sendmsg)         \
	X(sendmmsg)        \
	X(recv)            \
	X(recvmsg)         \
	X(recvmmsg)        \
	X(epoll_create1)   \
	X(epoll_ctl)       \
	X(epoll_wait)      \
	X(eventfd)         \
	X(timerfd_create)  \
	X(timerfd_settime) \
	X(dlsym)           \
	X(dlvsym)          \
	X(dlopen)

#define COUNT(name) +1
_Static_assert(sizeof(struct urxe_libc) == (0 FUNCTIONS(COUNT)) * sizeof(void *),
	       "a function of struct urxe_libc is not in the list above");

__attribute__((constructor(101))) void urxe_libc_init(void)
{
	static int ready;
	struct functions f = {0};
	struct urxe_libc found;

	if (__atomic_load_n(&ready, __ATOMIC_ACQUIRE))
		return;
	dl_iterate_phdr(visit_object, &f);
#define FIND(name) found.name = (__typeof__(found.name))lookup(&f, #name, (void *)name);
	FUNCTIONS(FIND)
	urxe_libc_tsan_wrap(&found);
#define STORE(name) __atomic_store_n(&urxe_libc.name, found.name, __ATOMIC_RELAXED);
	FUNCTIONS(STORE)
	__atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
}
