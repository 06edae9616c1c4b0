/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Who provides virtual functions: a table of operations for each kind.
 *
 *	fabric	a host of `urxe fabric` (function_fabric.c); where: HOST or FABRIC:HOST
 *	mlx5	a network interface with SR-IOV (function_mlx5.c); where: its name
 *	mlx4	a device with SR-IOV (function_mlx4.c); where: DEVICE:PORT
 *	file	a file that the host's own tools read (function_file.c); where: its path
 *
 * Operations wait for the provider and can be called by any thread; a caller that chooses a free
 * function and sets it holds a lock of its own around both.
 */
#ifndef MIGRATE_FUNCTION_H
#define MIGRATE_FUNCTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "migrate/record.h"

#define FUNCTION_MAX	   256
#define FUNCTION_WHERE_LEN 128

struct function {
	int number;
	uint64_t guid; /* of its port; 0: none */
	bool busy;     /* something holds it that lidtrackd has not given it to */
};

struct function_provider {
	const char *name;
	/* All functions, at most room; how many, or -errno, also where the
	 * GUID of one cannot be told. */
	int (*list)(const char *where, struct function *functions, size_t room);
	/* Can a function take these P_Keys? NULL: the subnet manager alone gives them. -errno and a
	 * reason. */
	int (*fits)(const char *where, const struct record *record, char *reason, size_t len);
	/* Gives a function the record's GUID and P_Keys. It may be done twice. */
	int (*set)(const char *where, int number, const struct record *record);
	/* Takes the GUID away. */
	int (*clear)(const char *where, int number);
};

/* NULL: there is no such kind. */
const struct function_provider *function_provider(const char *name);

/* Of list(). */
const char *function_strerror(int error);

extern const struct function_provider function_fabric, function_mlx5, function_mlx4, function_file;

#endif
