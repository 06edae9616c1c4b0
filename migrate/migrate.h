/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libmigrate's public header: what a program needs that keeps ports' LIDs where OpenSM gives them.
 * The rest of migrate/ is lidtrackd's.
 *
 * Structures may grow with the library, and are passed with their size as the program knows it: a
 * member that only the program knows must be 0 (-EINVAL), or is written as 0. struct guid2lid,
 * struct guid2lid_entry, struct lid_host and struct lid_guest do not change.
 */
#ifndef MIGRATE_MIGRATE_H
#define MIGRATE_MIGRATE_H

#include "migrate/guid2lid.h"
#include "migrate/lid_plan.h"

#endif
