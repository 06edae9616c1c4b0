/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Connections by rdma_cm, with QPs of our own beside its ids. All of it is guarded by the NIC's
 * lock. Events are taken by a thread that waits for a connection, else by the helper (cm_take.c).
 * Nobody else destroys ids, since that waits until their events have been acknowledged.
 *
 *	VipConnectWait           listens at a port of its discriminator while somebody waits     listener.c
 *	VipConnectRequest        tries the ports, one after the other; each answers at once      request.c
 *	VipConnectAccept         the QP is ready before the answer is sent                       accept.c
 *	VipConnectPeerRequest    both: whoever has the larger nonce requests in the end          peer.c
 */
#ifndef VIPL_CM_H
#define VIPL_CM_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <rdma/rdma_cma.h>

#include "vipl/message.h"
#include "vipl/wait.h"

struct vipl_nic;
struct vipl_vi;

#define VIPL_KNOCK 5 /* milliseconds for a greeting to be returned */

/* What an id's context points to begins with this. */
enum vipl_cm_type {
	VIPL_CM_CONN,
	VIPL_CM_LISTENER,
	VIPL_CM_DYING,
};

enum vipl_conn_kind {
	VIPL_CONN_REQUEST,  /* VipConnectRequest() */
	VIPL_CONN_PEER,	    /* VipConnectPeerRequest() */
	VIPL_CONN_INCOMING, /* what VipConnectWait() has returned */
};

struct vipl_conn {
	enum vipl_cm_type type;
	enum vipl_conn_kind kind;
	LIST_ENTRY(vipl_conn) link;
	struct vipl_nic *nic;
	struct vipl_vi *vi;    /* NULL: not accepted yet */
	void *handle;	       /* of an incoming one until it is accepted */
	struct rdma_cm_id *id; /* NULL: between two attempts, or at the end */
	bool accepting;	       /* the id is one of a request that has come in */
	bool unanswered;       /* on iWARP: the kernel holds the QP until the peer answers */
	bool greeting;	       /* on iWARP: the greeting is to come (post.h) */
	struct vipl_address local, remote;
	struct vipl_message message; /* the other VI's */
	uint8_t responder_resources, initiator_depth;
	unsigned probe;
	uint64_t nonce;
	struct vipl_deadline deadline; /* of a peer */
	struct vipl_deadline retry;    /* of a peer; of a requester that awaits its greeting */
	bool retrying;
	unsigned retries;
	struct vipl_listener *listener; /* of a peer */
	bool finished;
	VIP_RETURN result;
	bool awaited;	     /* by a thread, which has the memory until it returns */
	pthread_cond_t cond; /* it is finished */
};

struct vipl_listen_waiter {
	TAILQ_ENTRY(vipl_listen_waiter) link;
	pthread_cond_t cond;
	struct vipl_conn *conn;
};

struct vipl_listener {
	enum vipl_cm_type type;
	LIST_ENTRY(vipl_listener) link;
	struct vipl_nic *nic;
	struct rdma_cm_id *id;
	struct vipl_address address;
	unsigned users;		     /* threads that wait, and peers */
	struct vipl_deadline unused; /* when one that nobody uses is closed */
	TAILQ_HEAD(, vipl_listen_waiter) waiters;
};

/*
 * An id on its way out. On iWARP the QP of a request that has not been answered goes with it: the
 * kernel destroys neither before the answer, and the thread that it would keep waiting may be the
 * one that has to answer.
 */
struct vipl_id {
	enum vipl_cm_type type;
	LIST_ENTRY(vipl_id) link;
	struct rdma_cm_id *id;
	struct ibv_qp *qp;  /* NULL: none */
	struct vipl_vi *vi; /* whose it was */
	bool linger;	    /* until its peer has confirmed the end, or has had time for it */
	struct vipl_deadline deadline;
};

/* cm_take.c. -errno; what has been opened is closed by the second one. */
int vipl_cm_open(struct vipl_nic *nic);
void vipl_cm_close(struct vipl_nic *nic);
/* With the NIC's lock: waits once, for something that vipl_cm_wake() tells. Within
 * vipl_nic_sleep(). True: the time has passed. */
bool vipl_cm_wait(struct vipl_nic *nic, pthread_cond_t *cond, const struct vipl_deadline *deadline);
void vipl_cm_wake(struct vipl_nic *nic, pthread_cond_t *cond);
/* The end of a thread's wait: in a moment, the helper takes events again. */
void vipl_cm_leave(struct vipl_nic *nic);
/* An id may be destroyed: whoever takes events does so. */
void vipl_cm_died(struct vipl_nic *nic);
/* The helper takes the events that there are, if it is to. Without locks. */
void vipl_cm_take(struct vipl_nic *nic);

/* cm.c */
void vipl_cm_event(struct vipl_nic *nic, struct rdma_cm_event *event);
/* Timers; destroys ids. Called by the helper without locks; milliseconds to the next timer, or -1.
 * */
int vipl_cm_turn(struct vipl_nic *nic);
/* Destroys ids that may be, with the lock released meanwhile. */
void vipl_cm_destroy_ids(struct vipl_nic *nic);
void vipl_cm_discard(struct vipl_nic *nic, struct rdma_cm_id *id, bool linger);
/* Destroys the QPs of a VI that wait for answers. */
void vipl_cm_reap(struct vipl_vi *vi);
/* Says goodbye to all peers, and gives the last words some time to arrive. */
void vipl_cm_disconnect_all(struct vipl_nic *nic);
void vipl_cm_fini(struct vipl_nic *nic);
void vipl_cm_refuse(struct rdma_cm_id *id, enum vipl_reason reason, VIP_RETURN result);
struct vipl_conn *vipl_conn_create(struct vipl_nic *nic, enum vipl_conn_kind kind);
/* Takes it off its VI and the NIC's list; its id goes. A thread that waits keeps the memory. */
void vipl_conn_free(struct vipl_conn *conn, bool linger);
/* The attempt has a result; whoever waits for it returns. */
void vipl_conn_finish(struct vipl_conn *conn, VIP_RETURN result);
/* The attempt under way is given up, and with it the QP that the peer has been told of. */
void vipl_conn_give_up(struct vipl_conn *conn);
/* It has failed: the VI is idle again and keeps its receives. */
void vipl_conn_fail(struct vipl_conn *conn, VIP_RETURN result);
void vipl_conn_established(struct vipl_conn *conn);
/*
 * Waits until it is finished. Success: it is the VI's, unless another thread has
 * disconnected it since; attributes of the peer's VI (NULL: not wanted). Else it is
 * freed. Within vipl_nic_sleep().
 */
VIP_RETURN vipl_conn_await(struct vipl_conn *conn, const struct vipl_deadline *deadline,
			   VIP_VI_ATTRIBUTES *attributes);
/* Takes the failed attempt of a peer off an idle VI, whose result nobody has asked for. */
void vipl_conn_forget(struct vipl_vi *vi);
/* Ends the connection of a VI that has failed; the VI keeps it until VipDisconnect(). */
void vipl_conn_hang_up(struct vipl_conn *conn);
/* Ends the connection of a VI that goes. */
void vipl_conn_drop(struct vipl_conn *conn);
struct rdma_conn_param vipl_conn_param(struct vipl_conn *conn, const void *data, size_t length);

/* request.c */
VIP_RETURN vipl_request_start(struct vipl_conn *conn);
void vipl_request_event(struct vipl_conn *conn, struct rdma_cm_event *event);
/* The two addresses of a request, checked and bound to an id of this NIC. */
VIP_RETURN vipl_request_addresses(struct vipl_nic *nic, const VIP_NET_ADDRESS *local,
				  const VIP_NET_ADDRESS *remote, struct vipl_conn *conn);
VIP_RETURN vipl_bind(struct vipl_nic *nic, struct rdma_cm_id *id,
		     const struct vipl_address *address, uint16_t port);

/* listener.c */
VIP_RETURN vipl_listener_get(struct vipl_nic *nic, const struct vipl_address *address,
			     struct vipl_listener **listener);
void vipl_listener_put(struct vipl_listener *listener);
void vipl_listener_free(struct vipl_listener *listener);
void vipl_listener_request(struct vipl_listener *listener, struct rdma_cm_event *event);
void vipl_listeners_wake(struct vipl_nic *nic);

/* accept.c: readies the VI's QP and answers the request of conn->id.
 * VIP_TIMEOUT: it is not open any more. */
VIP_RETURN vipl_accept_start(struct vipl_conn *conn, struct vipl_vi *vi);
VIP_RETURN vipl_accept_compare(const struct vipl_message *message, const VIP_VI_ATTRIBUTES *own);

/* peer.c */
bool vipl_peer_request(struct vipl_listener *listener, struct rdma_cm_id *id,
		       const struct vipl_message *message, const uint8_t host[VIPL_HOST_LENGTH],
		       const struct rdma_conn_param *param);
/* Nobody is there yet, or it is the other one's turn. */
void vipl_peer_again(struct vipl_conn *conn, bool soon);
/* message: NULL if the attempt has ended without one. */
void vipl_peer_refused(struct vipl_conn *conn, const struct vipl_message *message);

#endif
