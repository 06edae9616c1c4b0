/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Entries of the tables of sysfs_tree.c and sysfs_fabric.c. */
#ifndef URXE_PRELOAD_SYSFS_ATTR_H
#define URXE_PRELOAD_SYSFS_ATTR_H

#include "preload/sysfs_show.h"

#define FILE_SHOW(n, fn)                                       \
	{                                                      \
		.name = n, .type = URXE_SYSFS_FILE, .show = fn \
	}
#define FILE_TEXT(n, t)                                       \
	{                                                     \
		.name = n, .type = URXE_SYSFS_FILE, .text = t \
	}
#define FILE_INDEX(n, fn, i)                                               \
	{                                                                  \
		.name = n, .type = URXE_SYSFS_FILE, .show = fn, .index = i \
	}
#define LINK_TEXT(n, t)                                       \
	{                                                     \
		.name = n, .type = URXE_SYSFS_LINK, .text = t \
	}
#define DIRECTORY(n, d)                                     \
	{                                                   \
		.name = n, .type = URXE_SYSFS_DIR, .dir = d \
	}
/* d; or f, for a process on a host of a fabric. */
#define EITHER(n, d, f)                                                  \
	{                                                                \
		.name = n, .type = URXE_SYSFS_DIR, .dir = d, .fabric = f \
	}
#define END                  \
	{                    \
		.name = NULL \
	}

#endif
