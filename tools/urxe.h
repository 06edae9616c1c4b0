/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The parts of the urxe command. Each subcommand gets its arguments from its own name on and
 * returns the exit status: 0, 1 for what went wrong, 2 for a command line that cannot be
 * understood; run returns, when it cannot start the program, 127 (not found) or 126, as a shell
 * does.
 */
#ifndef URXE_TOOLS_URXE_H
#define URXE_TOOLS_URXE_H

#include <limits.h>
#include <stdbool.h>

#define URXE_EXIT_USAGE	    2
#define URXE_EXIT_CANNOT    126
#define URXE_EXIT_NOT_FOUND 127

int urxe_cmd_run(int argc, char **argv);
int urxe_cmd_devices(int argc, char **argv);
int urxe_cmd_counters(int argc, char **argv);
int urxe_cmd_listeners(int argc, char **argv);
int urxe_cmd_fault(int argc, char **argv);
int urxe_cmd_fabric(int argc, char **argv);
int urxe_cmd_ipoib(int argc, char **argv);

/* This process, and what it becomes, is on that host of a fabric; false after a complaint. */
bool urxe_on_host(const char *fabric, const char *host);

/* Complains that there is no such fabric, with the command that starts it. */
void urxe_fabric_is_down(const char *fabric);
/* Is it up, by its socket? False after a complaint, which says so if it was killed. */
bool urxe_fabric_is_up(const char *fabric, const char *path);

/* On a host of a fabric: a program's arguments, NULL-terminated, with a place for OpenSM's files
 * where the user may not write to the standard one. */
char **urxe_opensm(char **argv);

/* One line on stderr, "urxe: ..." in front, with the cure in it. */
void urxe_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The program of a daemon: beside this one, or in the build folder's
 * place; false after a complaint. */
bool urxe_find_daemon(const char *name, char path[PATH_MAX]);

/* What the dynamic linker will make of a file. */
enum urxe_elf_kind {
	URXE_ELF_DYNAMIC, /* LD_PRELOAD reaches it */
	URXE_ELF_STATIC,  /* no interpreter: nothing can be preloaded */
	URXE_ELF_MUSL,	  /* its libc is musl, where a library for glibc cannot be loaded */
	URXE_ELF_FOREIGN, /* of another architecture or word size */
	URXE_ELF_OTHER,	  /* a script, or nothing we know */
};

/* Looks at a file; -errno if it cannot be read. Any thread. */
int urxe_elf_kind(const char *path);
/* The first needed library whose name begins with prefix, into name; false if none. */
bool urxe_elf_needs(const char *path, const char *prefix, char *name, unsigned size);

#endif
