/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Functions of the libc that is loaded, by its table of symbols. It calls nothing and is not
 * instrumented, because the runtime of a sanitizer, ours or that of the program, gets here before
 * any constructor has run: through our dlsym hook it looks the functions up that it is about to
 * replace, and its own strcmp leads nowhere yet. Any thread.
 */
#ifndef URXE_HOST_ELF_SYMBOLS_H
#define URXE_HOST_ELF_SYMBOLS_H

/* For what may run while the runtime of a sanitizer sets itself up. */
#define URXE_UNINSTRUMENTED __attribute__((no_sanitize("address", "thread", "undefined")))

/* A function of libc or libdl in its default version; NULL: none, or this is no glibc. */
void *urxe_elf_libc(const char *name);

#endif
