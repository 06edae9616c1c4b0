/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Walks the dynamic linker's list of objects by hand; elf_symbols.h says why nothing is
 * called here. The objects it reads (libc, and libdl before glibc 2.34) are there from the
 * start and are never unloaded.
 */
#include "host/elf_symbols.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VERSYM_HIDDEN 0x8000

/* glibc's name for the head of its list; another libc may have none. */
extern struct r_debug _r_debug __attribute__((weak));

/* What an object's dynamic section names. */
struct tables {
	const ElfW(Sym) * symbols;
	const char *strings;
	const ElfW(Half) * versions; /* NULL: no versions */
	const uint32_t *hash;	     /* DT_GNU_HASH, which glibc's own libraries have */
};

/* False: there is nothing to look symbols up in. */
URXE_UNINSTRUMENTED static bool read_tables(struct tables *t, uintptr_t base, const ElfW(Dyn) * dyn)
{
	t->symbols = NULL;
	t->strings = NULL;
	t->versions = NULL;
	t->hash = NULL;
	for (; dyn->d_tag != DT_NULL; dyn++) {
		ElfW(Addr) value = dyn->d_un.d_ptr;
		/* glibc relocates these addresses in place on most architectures. */
		const void *p = (const void *)(value < base ? base + value : value);

		if (dyn->d_tag == DT_SYMTAB)
			t->symbols = p;
		else if (dyn->d_tag == DT_STRTAB)
			t->strings = p;
		else if (dyn->d_tag == DT_VERSYM)
			t->versions = p;
		else if (dyn->d_tag == DT_GNU_HASH)
			t->hash = p;
	}
	return t->symbols && t->strings && t->hash;
}

/* A function, in its default version. */
URXE_UNINSTRUMENTED static bool fits(const struct tables *t, uint32_t i, const char *name)
{
	const ElfW(Sym) *sym = &t->symbols[i];
	const char *s = t->strings + sym->st_name;

	if (sym->st_shndx == SHN_UNDEF || (sym->st_info & 0xf) != STT_FUNC ||
	    (t->versions && t->versions[i] & VERSYM_HIDDEN))
		return false;
	while (*s && *s == *name) {
		s++;
		name++;
	}
	return *s == *name;
}

/*
 * DT_GNU_HASH: nbuckets, index of the first hashed symbol, words of the Bloom filter, its shift;
 * the filter; the buckets; then a hash per symbol, whose lowest bit ends a bucket's chain.
 */
URXE_UNINSTRUMENTED static const ElfW(Sym) * lookup(const struct tables *t, const char *name)
{
	const uint32_t *h = t->hash;
	const uint32_t *buckets = h + 4 + h[2] * (sizeof(ElfW(Addr)) / sizeof(*h));
	const uint32_t *chain = buckets + h[0];
	uint32_t hash = 5381;
	uint32_t i;

	if (!h[0])
		return NULL;
	for (const char *s = name; *s; s++)
		hash = hash * 33 + (unsigned char)*s;
	i = buckets[hash % h[0]];
	if (i < h[1])
		return NULL;
	for (;; i++) {
		uint32_t link = chain[i - h[1]];

		if ((link | 1) == (hash | 1) && fits(t, i, name))
			return &t->symbols[i];
		if (link & 1)
			return NULL;
	}
}

URXE_UNINSTRUMENTED static bool begins(const char *s, const char *prefix)
{
	while (*prefix && *s == *prefix) {
		s++;
		prefix++;
	}
	return !*prefix;
}

URXE_UNINSTRUMENTED static bool is_libc(const char *path)
{
	const char *base = path, *p;

	for (p = path; p && *p; p++)
		if (*p == '/')
			base = p + 1;
	return base && (begins(base, "libc.so.6") || begins(base, "libdl.so.2"));
}

URXE_UNINSTRUMENTED void *urxe_elf_libc(const char *name)
{
	const struct link_map *map;
	const ElfW(Sym) * sym;
	struct tables t;

	for (map = &_r_debug ? _r_debug.r_map : NULL; map; map = map->l_next) {
		if (!is_libc(map->l_name) || !read_tables(&t, map->l_addr, map->l_ld))
			continue;
		sym = lookup(&t, name);
		if (sym)
			return (void *)(map->l_addr + sym->st_value);
	}
	return NULL;
}
