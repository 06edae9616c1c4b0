/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Symbols of a loaded object, by the tables that its dynamic section names. It calls nothing and is
 * not instrumented, because the runtime of a sanitizer gets here before it has set itself up: its
 * own strcmp leads nowhere then. Any thread.
 */
#ifndef URXE_HOST_ELF_SYMBOLS_H
#define URXE_HOST_ELF_SYMBOLS_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/* For what may run while the runtime of a sanitizer sets itself up. */
#define URXE_UNINSTRUMENTED __attribute__((no_sanitize("address", "thread", "undefined")))

struct urxe_elf {
	uintptr_t base; /* where the object is loaded */
	const ElfW(Sym) * symbols;
	const char *strings;
	const ElfW(Half) * versions; /* NULL: no versions */
	const uint32_t *gnu_hash;
	const uint32_t *sysv_hash;
};

/* False: there is nothing to look symbols up in. */
bool urxe_elf_read(struct urxe_elf *elf, uintptr_t base, const ElfW(Dyn) * dyn);
/* A function's symbol in its default version; NULL: none. */
const ElfW(Sym) * urxe_elf_lookup(const struct urxe_elf *elf, const char *name);

#endif
