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
#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/preload.h"

#define VERSYM_HIDDEN 0x8000

/* glibc's name for the head of its list; another libc may have none. */
extern struct r_debug _r_debug __attribute__((weak));

struct tables {
	const ElfW(Sym) * symbols;
	const char *strings;
	const ElfW(Half) * versions;
	const uint32_t *hash; /* DT_GNU_HASH */
};

URXE_UNINSTRUMENTED static bool begins(const char *s, const char *prefix)
{
	while (*prefix && *s == *prefix) {
		s++;
		prefix++;
	}
	return !*prefix;
}

URXE_UNINSTRUMENTED static bool equal(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

URXE_UNINSTRUMENTED static bool may_define(const char *path)
{
	const char *base = path, *p;

	for (p = path; p && *p; p++)
		if (*p == '/')
			base = p + 1;
	return base && (begins(base, "libc.so.6") || begins(base, "libdl.so.2"));
}

URXE_UNINSTRUMENTED static bool read_tables(const struct link_map *map, struct tables *t)
{
	const ElfW(Dyn) * d;

	t->symbols = NULL;
	t->strings = NULL;
	t->versions = NULL;
	t->hash = NULL;
	for (d = map->l_ld; d->d_tag != DT_NULL; d++) {
		/* Relocated in place on most architectures. */
		ElfW(Addr) at = d->d_un.d_ptr + (d->d_un.d_ptr < map->l_addr ? map->l_addr : 0);

		if (d->d_tag == DT_SYMTAB)
			t->symbols = (const void *)at;
		else if (d->d_tag == DT_STRTAB)
			t->strings = (const void *)at;
		else if (d->d_tag == DT_VERSYM)
			t->versions = (const void *)at;
		else if (d->d_tag == DT_GNU_HASH)
			t->hash = (const void *)at;
	}
	return t->symbols && t->strings && t->hash && t->hash[0];
}

/* The symbol in its default version. The layout of DT_GNU_HASH is explained in host/libc.c. */
URXE_UNINSTRUMENTED static const ElfW(Sym) * lookup(const struct tables *t, const char *name)
{
	const uint32_t *buckets =
		t->hash + 4 + t->hash[2] * (sizeof(ElfW(Addr)) / sizeof(*t->hash));
	const uint32_t *chain = buckets + t->hash[0];
	uint32_t hash = 5381, i;
	const char *p;

	for (p = name; *p; p++)
		hash = hash * 33 + (unsigned char)*p;
	i = buckets[hash % t->hash[0]];
	if (i < t->hash[1])
		return NULL;
	for (;; i++) {
		const ElfW(Sym) *sym = &t->symbols[i];
		uint32_t h = chain[i - t->hash[1]];

		if ((h | 1) == (hash | 1) && sym->st_shndx != SHN_UNDEF &&
		    !(t->versions && (t->versions[i] & VERSYM_HIDDEN)) &&
		    equal(t->strings + sym->st_name, name))
			return sym;
		if (h & 1)
			return NULL;
	}
}

URXE_UNINSTRUMENTED void *urxe_dl_find(const char *name)
{
	const struct link_map *map;
	const ElfW(Sym) * sym;
	struct tables t;

	for (map = &_r_debug ? _r_debug.r_map : NULL; map; map = map->l_next) {
		if (!may_define(map->l_name) || !read_tables(map, &t))
			continue;
		sym = lookup(&t, name);
		if (sym)
			return (void *)(map->l_addr + sym->st_value);
	}
	return NULL;
}
