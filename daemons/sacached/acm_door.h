/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Where ibacm's clients knock:
 *
 *	RUN_DIR/acm.sock		the socket
 *	IBACM_DIR/ibacm-unix.sock	a link to it: ib_acme
 *	IBACM_DIR/ibacm.sock		a link to it: librdmacm
 *	IBACM_DIR/ibacm-tcp.port	with tcp only, the port's number: ib_acme
 *	IBACM_DIR/ibacm.port		a link to that; if it is there librdmacm connects by TCP
 *	RUN_DIR/lock			held by the sacached that runs
 *
 * What a dead daemon has left is replaced; a living ibacm or sacached is not. A door that is shut
 * lets clients fail to connect, for which they are prepared, where one that is accepted and closed
 * would die of SIGPIPE. The loop's thread.
 */
#ifndef SACACHED_ACM_DOOR_H
#define SACACHED_ACM_DOOR_H

#include <sys/un.h>

#include "daemons/sacached/sacached.h"

#define DOOR_BACKLOG 256
#define DOOR_PATH    128

struct acm_door {
	int fd;	     /* the unix socket; -1 */
	int tcp_fd;  /* -1 */
	int lock_fd; /* -1 */
	bool shut;
	bool kept; /* systemd keeps the socket, so that the name stays at the end */
	bool port_files;
	enum config_tcp tcp;
	unsigned tcp_port;
	struct sockaddr_un address;
	char dir[64];
};

/* 0, or a negative errno after a line in the log. */
int acm_door_open(struct sacached *d, struct acm_door *door);
/* For the time being; false: it could not be shut or opened. tcp_fd may be another one afterwards.
 * */
bool acm_door_shut(struct acm_door *door, bool shut);
void acm_door_close(struct acm_door *door);

#endif
