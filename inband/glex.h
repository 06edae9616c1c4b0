/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libglex as far as management goes: the calls of the paper (3.4.1), on an endpoint of a machine
 * that thsim models. An endpoint is used by one thread at a time.
 *
 * Names are the paper's. Times that the machine sees are virtual: they pass while the endpoint
 * waits.
 */
#ifndef INBAND_GLEX_H
#define INBAND_GLEX_H

#include <stdint.h>

#include "inband/nmp.h"

typedef enum glex_ret {
	GLEX_OK,
	GLEX_BUSY,    /* the descriptor queue is full: receive first */
	GLEX_TIMEOUT, /* nothing came in */
	GLEX_INVALID, /* a wrong argument */
	GLEX_NO_HOST, /* no thsim there, or not that NIC */
	GLEX_GONE,    /* thsim has ended */
	GLEX_NO_MEMORY,
} glex_ret_t;

typedef struct glex_ep *glex_ep_handle_t;

/* Requests and responses in memory, with all fields of a management packet. */
struct glex_mgmt_info {
	struct nmp nmp;
	uint64_t time; /* of the arrival; ps of virtual time */
};

#define GLEX_FOREVER UINT64_MAX

/* For flag of glex_send_mgmt_req(). */
#define GLEX_FENCE 1 /* not before the one before it */

/* thsim's socket: THSIM_SOCKET in the environment, or /run/user/UID/thsim.sock, or
 * /tmp/thsim-UID.sock. */
const char *glex_default_path(char *path, size_t length);

/* path: NULL for the default; nic: which of the machine's management NICs, from 0. */
glex_ret_t glex_create_ep(const char *path, unsigned nic, glex_ep_handle_t *ep);
void glex_destroy_ep(glex_ep_handle_t ep);

/* Fills in what the endpoint knows (VPs, type, head), and submits. */
glex_ret_t glex_send_mgmt_req(glex_ep_handle_t ep, struct glex_mgmt_info *req, int32_t flag);
/* timeout: milliseconds of virtual time; 0: does not wait; < 0: for ever. */
glex_ret_t glex_receive_mgmt_ack(glex_ep_handle_t ep, int32_t timeout, struct glex_mgmt_info *ack);

/*
 * The same in parts, for event loops: arms the endpoint until a time of glex_now(), and afterwards,
 * when glex_fd() is readable, takes what has come in with timeout 0. GLEX_OK: there is something
 * already.
 */
glex_ret_t glex_arm(glex_ep_handle_t ep, uint64_t until);
int glex_fd(glex_ep_handle_t ep);
/* Whether what it was armed for has come, or the time. GLEX_OK, GLEX_TIMEOUT (not yet), GLEX_GONE.
 * */
glex_ret_t glex_check(glex_ep_handle_t ep);

/* The server's virtual time, ps. */
uint64_t glex_now(glex_ep_handle_t ep);
uint32_t glex_nic_id(glex_ep_handle_t ep);
uint32_t glex_vp(glex_ep_handle_t ep);
/* Of the server's own cost for a request and a response, in place of thsim's; ps. */
void glex_set_cost(glex_ep_handle_t ep, uint64_t send, uint64_t receive);

/* Sends a command to thsim; its answer as text, to be freed, or NULL. */
char *glex_tell(const char *path, const char *command);
const char *glex_ret_name(glex_ret_t ret);

#endif
