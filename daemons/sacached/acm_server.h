/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ibacm's clients: their connections, requests and pending answers. A client keeps its connection
 * for as long as it lives and waits for an answer without a limit. So each answer has a deadline,
 * and a client is disconnected only for an invalid message, not even by a restart.
 *
 *	idle ──message──► answered		what the table has, or an error
 *	  ▲		  └─► asks the SA	reads nothing more until then
 *	  └──sent whole───┴─► writes		reads nothing more until then
 *
 * An idle client takes some 200 bytes, a waiting one some 600 more, one that does not read its
 * answer as much as the answer. The loop's thread.
 */
#ifndef SACACHED_ACM_SERVER_H
#define SACACHED_ACM_SERVER_H

#include "daemons/sacached/acm_answer.h"

int acm_server_start(struct sacached *d, struct acm_server **server);
/* Waiting clients get an error first. */
void acm_server_stop(struct acm_server *server);

const struct acm_stats *acm_server_stats(const struct acm_server *server);

#endif
