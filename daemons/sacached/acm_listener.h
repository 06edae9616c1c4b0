/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The sockets that ibacm's clients connect to:
 *
 *	RUN_DIR/acm.sock		the socket
 *	IBACM_DIR/ibacm-unix.sock	a link to it: ib_acme
 *	IBACM_DIR/ibacm.sock		a link to it: librdmacm
 *	IBACM_DIR/ibacm-tcp.port	with tcp only, the port's number: ib_acme
 *	IBACM_DIR/ibacm.port		a link to that; if it is there librdmacm connects by TCP
 *	RUN_DIR/lock			held by the sacached that runs
 *
 * Files of a dead daemon are replaced, those of a running ibacm or sacached are not. At the limit
 * of clients the listener is paused: connect() then fails, which clients handle, whereas a
 * connection that is accepted and closed would end them by SIGPIPE. The loop's thread.
 */
#ifndef SACACHED_ACM_LISTENER_H
#define SACACHED_ACM_LISTENER_H

#include <sys/un.h>

#include "daemons/sacached/sacached.h"

#define LISTEN_BACKLOG 256
#define LISTEN_PATH    128

struct acm_listener {
	int fd;	     /* the unix socket; -1 */
	int tcp_fd;  /* -1 */
	int lock_fd; /* -1 */
	bool paused;
	bool kept; /* systemd keeps the socket, so that the name stays at the end */
	bool port_files;
	enum config_tcp tcp;
	unsigned tcp_port;
	struct sockaddr_un address;
	char dir[64];
};

/* 0, or a negative errno after a line in the log. */
int acm_listener_open(struct sacached *d, struct acm_listener *listener);
/* Pauses and resumes accepting. False: it could not. tcp_fd may change. */
bool acm_listener_pause(struct acm_listener *listener, bool pause);
void acm_listener_close(struct acm_listener *listener);

#endif
