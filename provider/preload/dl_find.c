/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Finds the real dlsym and dlvsym without calling anything. The runtime of a sanitizer, ours or
 * that of the program, looks the functions up that it is about to replace, through our dlsym hook:
 * before any constructor has run, when its own strcmp leads nowhere yet and instrumented code
 * cannot run. urxe_libc_init() comes too early then; this walks the dynamic linker's list of
 * objects by hand, and is not instrumented.
 *
 * Any thread: the objects it reads (libc, and libdl before glibc 2.34) are there from the start and
 * are never unloaded.
 */
#include <link.h>
#include <stddef.h>

#include "host/elf_symbols.h"
#include "preload/preload.h"

/* glibc's name for the head of its list; another libc may have none. */
extern struct r_debug _r_debug __attribute__((weak));

URXE_UNINSTRUMENTED static bool begins(const char *s, const char *prefix)
{
	while (*prefix && *s == *prefix) {
		s++;
		prefix++;
	}
	return !*prefix;
}

URXE_UNINSTRUMENTED static bool may_define(const char *path)
{
	const char *base = path, *p;

	for (p = path; p && *p; p++)
		if (*p == '/')
			base = p + 1;
	return base && (begins(base, "libc.so.6") || begins(base, "libdl.so.2"));
}

URXE_UNINSTRUMENTED void *urxe_dl_find(const char *name)
{
	const struct link_map *map;
	const ElfW(Sym) * sym;
	struct urxe_elf elf;

	for (map = &_r_debug ? _r_debug.r_map : NULL; map; map = map->l_next) {
		if (!may_define(map->l_name) || !urxe_elf_read(&elf, map->l_addr, map->l_ld))
			continue;
		sym = urxe_elf_lookup(&elf, name);
		if (sym)
			return (void *)(map->l_addr + sym->st_value);
	}
	return NULL;
}
