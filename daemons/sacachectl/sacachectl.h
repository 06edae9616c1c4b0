/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sacachectl, in two parts: main.c what the command line asks for, print.c the answer for people.
 * One thread.
 */
#ifndef SACACHECTL_H
#define SACACHECTL_H

#include "daemons/common/client.h"

void print_status(struct json_object *answer);
void print_entry(struct json_object *line);
void print_entries(struct json_object *answer);
void print_lookup(struct json_object *answer);
void print_flush(struct json_object *answer);
void print_prefetch(struct json_object *answer);
void print_save(struct json_object *answer);

#endif
