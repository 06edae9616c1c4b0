// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Hash tables of symbols; elf_symbols.h says why nothing is called here. A symbol is taken in its
 * default (not hidden) version.
 */
#include <elf.h>
#include <stddef.h>

#include "host/elf_symbols.h"

#define VERSYM_HIDDEN 0x8000

URXE_UNINSTRUMENTED bool urxe_elf_read(struct urxe_elf *elf, uintptr_t base, const ElfW(Dyn) * dyn)
{
	elf->base = base;
	elf->symbols = NULL;
	elf->strings = NULL;
	elf->versions = NULL;
	elf->gnu_hash = NULL;
	elf->sysv_hash = NULL;
	for (; dyn->d_tag != DT_NULL; dyn++) {
		ElfW(Addr) value = dyn->d_un.d_ptr;
		/* glibc relocates these addresses in place on most architectures, musl on none. */
		const void *p = (const void *)(value < base ? base + value : value);

		if (dyn->d_tag == DT_SYMTAB)
			elf->symbols = p;
		else if (dyn->d_tag == DT_STRTAB)
			elf->strings = p;
		else if (dyn->d_tag == DT_VERSYM)
			elf->versions = p;
		else if (dyn->d_tag == DT_GNU_HASH)
			elf->gnu_hash = p;
		else if (dyn->d_tag == DT_HASH)
			elf->sysv_hash = p;
	}
	return elf->symbols && elf->strings && (elf->gnu_hash || elf->sysv_hash);
}

URXE_UNINSTRUMENTED static bool fits(const struct urxe_elf *elf, uint32_t i, const char *name)
{
	const ElfW(Sym) *sym = &elf->symbols[i];
	const char *s = elf->strings + sym->st_name;
	unsigned type = sym->st_info & 0xf;

	if (sym->st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_GNU_IFUNC) ||
	    (elf->versions && elf->versions[i] & VERSYM_HIDDEN))
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
URXE_UNINSTRUMENTED static const ElfW(Sym) *
	lookup_gnu(const struct urxe_elf *elf, const char *name)
{
	const uint32_t *t = elf->gnu_hash;
	const uint32_t *buckets = t + 4 + t[2] * (sizeof(ElfW(Addr)) / sizeof(*t));
	const uint32_t *chain = buckets + t[0];
	uint32_t hash = 5381;
	uint32_t i;

	if (!t[0])
		return NULL;
	for (const char *s = name; *s; s++)
		hash = hash * 33 + (unsigned char)*s;
	i = buckets[hash % t[0]];
	if (i < t[1])
		return NULL;
	for (;; i++) {
		uint32_t h = chain[i - t[1]];

		if ((h | 1) == (hash | 1) && fits(elf, i, name))
			return &elf->symbols[i];
		if (h & 1)
			return NULL;
	}
}

/* DT_HASH: nbuckets, number of symbols, the buckets, a link per symbol. Only counted through. */
URXE_UNINSTRUMENTED static const ElfW(Sym) *
	lookup_sysv(const struct urxe_elf *elf, const char *name)
{
	for (uint32_t i = 0; i < elf->sysv_hash[1]; i++)
		if (fits(elf, i, name))
			return &elf->symbols[i];
	return NULL;
}

URXE_UNINSTRUMENTED const ElfW(Sym) * urxe_elf_lookup(const struct urxe_elf *elf, const char *name)
{
	return elf->gnu_hash ? lookup_gnu(elf, name) : lookup_sysv(elf, name);
}
