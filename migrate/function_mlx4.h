/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * mlx4's virtual functions under a sysfs at any place, for tests of what is read and written there.
 * Any thread.
 *
 *	ROOT/class/infiniband/DEVICE/device/virtfnN -> …/0000:04:00.1
 *	ROOT/class/infiniband/DEVICE/iov/0000:04:00.1/ports/P/gid_idx/0	which of the admin_guids is its GUID
 *	…/iov/0000:04:00.1/ports/P/pkey_idx/I				which P_Key of the port its index I is
 *	…/iov/ports/P/admin_guids/M					64 bits in hex; all ones: none
 *	ROOT/class/infiniband/DEVICE/ports/P/pkeys/J			the port's P_Keys
 */
#ifndef MIGRATE_FUNCTION_MLX4_H
#define MIGRATE_FUNCTION_MLX4_H

#include "migrate/function.h"

int mlx4_list(const char *root, const char *where, struct function *functions, size_t room);
int mlx4_fits(const char *root, const char *where, const struct record *record, char *reason,
	      size_t len);
int mlx4_set(const char *root, const char *where, int number, const struct record *record);
int mlx4_clear(const char *root, const char *where, int number);

#endif
