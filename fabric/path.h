/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Where the socket of a fabric lies, and whether the fabric was killed. Any thread.
 */
#ifndef URXE_FABRIC_PATH_H
#define URXE_FABRIC_PATH_H

#include <stdbool.h>
#include <stddef.h>

#define FABRIC_DEFAULT_NAME "fabric"

/*
 * The path of the socket of the user's fabric of that name, in $XDG_RUNTIME_DIR/urxe-fabric or,
 * without one, in /tmp/urxe-fabric-UID; make: makes the folder. -EINVAL for a name that cannot be
 * one of a file, -EPERM if the folder is somebody else's or open to others, another -errno.
 */
int fabric_path(const char *name, bool make, char *path, size_t len);

/* Locks the folder of a socket's path against fabrics that begin: a descriptor to unlock it by, or
 * -errno. */
int fabric_lock_folder(const char *path);
void fabric_unlock_folder(int folder);
/* Is it a socket that nobody listens at, left by a fabric that was killed? With its folder locked:
 * until it listens, one that begins looks the same. */
bool fabric_is_abandoned(const char *path);
/* The same, for who has not locked it. */
bool fabric_was_killed(const char *path);
/* And removes it, with the control socket beside it; false: it was not killed. */
bool fabric_remove_killed(const char *path);

#endif
