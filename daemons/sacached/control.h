/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The control socket, by which sacachectl looks into sacached and tells it what to do: a unix socket,
 * one JSON object a line both ways. A client sends
 *
 *	{"command":"lookup","gid":"fe80::1"}
 *
 * and gets one object with "ok":true and what was asked for, or "ok":false and "error":"…". "list"
 * alone answers with a line for each entry, {"entry":{…}}, before that one. Questions of a client are
 * answered one after the other. sacachectl(8) has the commands; control_commands.c does what they say.
 *
 * The loop's thread.
 */
#ifndef SACACHED_CONTROL_H
#define SACACHED_CONTROL_H

#include "daemons/sacached/sacached.h"

int control_start(struct sacached *d, struct control **control);
void control_stop(struct control *control);

#endif
