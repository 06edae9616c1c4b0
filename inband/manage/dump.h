/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A network as it was found, as text: to be kept as what it is to be from now on, to be compared
 * with, and to be looked at where the network is not (offline.h). Lines:
 *
 *	inband-dump 1
 *	device nrc 17 24	type (nrc, nic), ID, ports; the server's own comes first
 *	silent			... it was named, and did not answer
 *	port 3 nrc 18 9		what is at a port of the device before: type, ID and port; up
 *	port 3 lost nrc 18 9	... it has gone since
 *	port 4 nameless		a chip without an ID
 *	port 5 light		light comes in, without a handshake
 *	end			the last line: the file is whole
 *
 * # begins a comment. One thread.
 */
#ifndef INBAND_DUMP_H
#define INBAND_DUMP_H

#include <stdio.h>

#include "inband/machine.h"
#include "inband/manage/model.h"

/* 0, or -EIO. */
int dump_write(const struct model *model, FILE *file);
/*
 * 0; -ENOMEM; -EINVAL: error says what is wrong, and in which line. Ways are found anew, by links
 * that are up.
 */
int dump_read(FILE *file, struct model **model, char *error, size_t length);
/*
 * As a plan, for check_plan(). Chips that `like` (NULL: none) has too get their names and places
 * from there. -ENOTSUP: IDs that a plan cannot have.
 */
int dump_plan(const struct model *model, const struct machine *like, struct machine **plan);

#endif
