/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Host names of a hosts file (hosts(5)), kept in memory: they are looked up in the loop's thread,
 * which must not wait for a disk. A worker thread reads the file again when inotify reports a
 * change. getaddrinfo() is not used: it may wait for a name server.
 *
 * The loop's thread.
 */
#ifndef SACACHED_NAMES_H
#define SACACHED_NAMES_H

#include <netinet/in.h>
#include <stdbool.h>

#include <event2/event.h>

struct names;

/* Reads the file, and waits for that: before the loop runs. 0 or a negative errno after a line
 * in the log. */
int names_start(struct event_base *base, const char *path, struct names **names);
void names_stop(struct names *names);
/* Reads the file again in a worker thread. */
void names_reload(struct names *names);

/* The address of a name (IPv4 as IPv4-mapped): of an address in text itself, else of the first
 * line that has it. */
bool names_find(const struct names *names, const char *name, struct in6_addr *ip);
/* Parses an address in text. */
bool names_parse(const char *text, struct in6_addr *ip);

#endif
