/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The parts of lidtrackctl. */
#ifndef LIDTRACKCTL_H
#define LIDTRACKCTL_H

#include <stdbool.h>

/* guid2lid.c: looks at the file, or changes it; from, set: NULL or what --from and --set say. A
 * status. */
int guid2lid_command(const char *path, bool repair, const char *from, const char *set);

#endif
