/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libmigrate's public header: what a program needs that keeps ports' LIDs where OpenSM gives them.
 * The rest of migrate/ is lidtrackd's.
 */
#ifndef MIGRATE_MIGRATE_H
#define MIGRATE_MIGRATE_H

#include "migrate/guid2lid.h"
#include "migrate/lid_plan.h"

#endif
