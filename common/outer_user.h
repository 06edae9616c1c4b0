/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The uid in names of files by which processes of one user find each other. Inside a user
 * namespace (`unshare -r`, `urxe ipoib`) a process mostly has uid 0: the name has the uid that this
 * stands for outside, so that it finds what is there. In a namespace within another one, as `urxe
 * ipoib` makes in a container, that is the uid of the next one outside: a program that makes one
 * leaves the uid that names have in the environment. Any thread.
 */
#ifndef COMMON_OUTER_USER_H
#define COMMON_OUTER_USER_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OUTER_USER "URXE_OUTER_USER"

/* geteuid() by the lines of /proc/self/uid_map (user_namespaces(7)): inside, outside, count. */
static inline uint32_t outer_user_of(uint32_t uid, const char *map)
{
	unsigned inside, outside, count;

	for (; map && sscanf(map, "%u %u %u", &inside, &outside, &count) == 3;
	     map = strchr(map, '\n'), map = map ? map + 1 : NULL)
		if (uid - inside < count && uid >= inside)
			return outside + (uid - inside);
	return uid;
}

static inline uint32_t outer_user_by_map(void)
{
	int fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
	char map[4096];
	ssize_t n = fd < 0 ? 0 : read(fd, map, sizeof(map) - 1);

	if (fd >= 0)
		close(fd);
	map[n > 0 ? n : 0] = '\0';
	return outer_user_of(geteuid(), map);
}

static inline uint32_t outer_user(void)
{
	const char *known = getenv(OUTER_USER);
	unsigned uid;

	return known && sscanf(known, "%u", &uid) == 1 ? uid : outer_user_by_map();
}

#endif
