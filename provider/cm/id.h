/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rdma_cm ids: what the commands of an rdma_cm file work on, with the states, the errors and the
 * events that the kernel's have (rdma_cm(7)). Private to id*.c, ucma*.c, address.c, event.c,
 * mcast.c.
 *
 *	IDLE -- bind ----------> ADDR_BOUND -- listen --> LISTEN
 *	  |                          |                      | a request: a new id, in CONNECT
 *	  +-- resolve_addr ----------+--> ADDR_QUERY        v
 *	                             |       |
 *	                             +--> ADDR_RESOLVED
 *	                                     | resolve_route --> ROUTE_QUERY
 *	                                     v                        |
 *	                               ROUTE_RESOLVED <---------------+
 *	                                     | connect
 *	                                     v
 *	                                  CONNECT --> DISCONNECT
 *
 *	any of them, when its device goes: DEVICE_REMOVAL
 *	IDLE, ADDR_BOUND, when a device of the kernel's is chosen: FOREIGN (kernel.h)
 *
 * An id is in ADDR_QUERY only while the kernel looks for a neighbour; else an address is resolved,
 * and its event waits in the queue, when the command returns. So is a route where no subnet
 *administrator need be asked (sa.c), whose answer an id in ROUTE_QUERY waits for.
 *
 * Everything is under the engine lock, unless it says otherwise. While the engine does not run
 * (manager.h), ids can be made and ended, but not bound.
 */
#ifndef URXE_CM_ID_H
#define URXE_CM_ID_H

/* Before the kernel's own, which gives way to it. */
#include <netinet/in.h>

#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_user_cm.h>
#include <stdbool.h>
#include <stdint.h>
#include <urcu/list.h>

#include "cm/address.h"
#include "cm/connection.h"
#include "cm/ucma.h"
#include "host/device.h"

enum urxe_id_state {
	URXE_ID_IDLE,
	URXE_ID_ADDR_BOUND,
	URXE_ID_LISTEN,
	URXE_ID_ADDR_QUERY,
	URXE_ID_ADDR_RESOLVED,
	URXE_ID_ROUTE_QUERY,
	URXE_ID_ROUTE_RESOLVED,
	URXE_ID_CONNECT,
	URXE_ID_DISCONNECT,
	URXE_ID_DEVICE_REMOVAL,
	URXE_ID_FOREIGN, /* the kernel's alone, as is the rest of its state */
};

/* An rdma_cm file (ucma.h). Its fields other than users are under the engine lock. */
struct urxe_ucma {
	_Atomic unsigned users;
	unsigned generation;  /* of the process that opened it: a forked child has another */
	int fd;		      /* the program's first descriptor; only handed out */
	int event_fd;	      /* readable when events wait (event.c) */
	uint64_t signalled;   /* what was written to it */
	_Atomic bool manager; /* holds the manager (manager.h); set once */
	struct cds_list_head ids;
	struct cds_list_head events; /* struct urxe_id_event */

	/* The kernel's own, for ids of its devices (kernel.h). */
	_Atomic int kernel_fd; /* -1: not opened */
	struct cds_list_head watched;
	uint64_t serial;	  /* of all files that are watched */
	bool fired;		  /* an event waits there */
	bool kernels_turn;	  /* to be asked first */
	pthread_mutex_t fetching; /* held while an event is fetched from there; guards spare */
	struct urxe_id *spare;	  /* for a connection request */
};

/* What the kernel's rdma_cm has as well, or instead. */
struct urxe_twin {
	struct cds_list_head node;
	uint32_t kernel; /* its handle there */
	uint32_t handle; /* ours */
	uint8_t kind;	 /* enum urxe_handle_kind; 0: there is none */
};

/* A row of the shared port space. A listener's outlives it while connections that came through it
 * may still be asked for. */
struct urxe_port_row {
	uint32_t row;
	unsigned users; /* the id that bound it, and connections not yet established */
};

/* Options of an id that its program set (RDMA_OPTION_ID_…). */
struct urxe_id_options {
	bool tos_set, timeout_set, afonly_set;
	bool reuse, afonly;
	uint8_t tos;
	uint8_t timeout; /* local ACK timeout, 4.096 µs * 2^timeout */
};

struct urxe_id {
	uint32_t handle; /* index in the table of ids and multicasts */
	enum urxe_id_state state;
	uint64_t uid; /* 0: a request not yet accepted, which gets no events */
	struct urxe_ucma *file;
	struct cds_list_head node;   /* in file->ids */
	struct cds_list_head events; /* its own in the file's queue, by their id_node */
	uint32_t events_reported;
	uint32_t backlog; /* LISTEN: requests that may still be queued */

	uint16_t ps;	 /* enum rdma_ucm_port_space */
	uint8_t qp_type; /* enum ibv_qp_type; 0: any (RDMA_PS_IB) */
	bool srq;
	struct urxe_id_options options;
	union urxe_sockaddr src, dst;
	uint32_t ifindex;	  /* of the netdev it is bound to, 0: not yet */
	struct urxe_port *port;	  /* NULL: not yet bound to one */
	union ibv_gid sgid, dgid; /* of src, with port; of dst, once that is resolved */
	uint16_t pkey;		  /* with port: the partition, as of a full member */
	uint8_t mac[6];		  /* its netdev's, when it was bound */
	bool addr_changed;	  /* ADDR_CHANGE was reported */
	struct urxe_port_row *binding;
	struct urxe_id_query *query;   /* ADDR_QUERY */
	uint8_t asked;		       /* ROUTE_QUERY: which of its questions is answered yet */
	struct urxe_port_row *through; /* passive, not yet established: the listener's */
	struct urxe_id_event *request; /* passive, not yet delivered: in the listener's events */

	struct ibv_path_record *paths; /* num_paths of them */
	uint8_t num_paths;

	uint32_t qkey;
	uint32_t qp_num;
	uint32_t psn; /* our starting PSN */
	struct rdma_ucm_ece ece;
	struct urxe_cm_id *conn;     /* NULL: none */
	struct cds_list_head mcasts; /* struct urxe_id_mcast */
	struct urxe_twin twin;
};

/* Events, as <rdma/rdma_cma.h> numbers them. */
enum urxe_id_event_type {
	URXE_EVENT_ADDR_RESOLVED,
	URXE_EVENT_ADDR_ERROR,
	URXE_EVENT_ROUTE_RESOLVED,
	URXE_EVENT_ROUTE_ERROR,
	URXE_EVENT_CONNECT_REQUEST,
	URXE_EVENT_CONNECT_RESPONSE,
	URXE_EVENT_CONNECT_ERROR,
	URXE_EVENT_UNREACHABLE,
	URXE_EVENT_REJECTED,
	URXE_EVENT_ESTABLISHED,
	URXE_EVENT_DISCONNECTED,
	URXE_EVENT_DEVICE_REMOVAL,
	URXE_EVENT_MULTICAST_JOIN,
	URXE_EVENT_MULTICAST_ERROR,
	URXE_EVENT_ADDR_CHANGE,
	URXE_EVENT_TIMEWAIT_EXIT,
	URXE_EVENT_NONE,
};

/* An event that waits for GET_EVENT. */
struct urxe_id_event {
	struct cds_list_head node;    /* in file->events */
	struct cds_list_head id_node; /* in id->events */
	struct urxe_id *id;	      /* counts it; of a CONNECT_REQUEST the listener */
	struct urxe_id *conn;	      /* CONNECT_REQUEST: the new id, which nobody knows yet */
	struct urxe_id_mcast *mcast;  /* MULTICAST_…: counts it too */
	struct rdma_ucm_event_resp resp;
};

/* A membership of an id in a multicast group (mcast.c). */
struct urxe_id_mcast {
	struct cds_list_head node; /* in id->mcasts */
	struct urxe_id *id;
	uint32_t handle;
	uint32_t events_reported;
	uint64_t uid;
	bool joined; /* on the wire */
	bool send_only;
	bool asked, member; /* the subnet administrator is asked to let it join; and has done so */
	bool lost;	    /* an event has said that the membership may be over */
	struct urxe_twin twin;
	union urxe_sockaddr addr;
	union ibv_gid mgid;
};

/* id.c: life of an id. */

/* -EINVAL for a port space that there is not, -ENOMEM. The id is on the file and has a handle. */
int urxe_id_create(struct urxe_ucma *file, uint16_t ps, uint8_t qp_type, uint64_t uid,
		   struct urxe_id **id);
/* Ends it, with its connection, its events and requests that nobody has taken from its queue.
 * Returns the number of events that were reported about it. */
uint32_t urxe_id_destroy(struct urxe_id *id);
/* -ENOENT no such handle, -EINVAL on another file, -ENXIO its device has gone. */
int urxe_id_find(struct urxe_ucma *file, uint32_t handle, struct urxe_id **id);
/* The id behind a handle on whatever file; NULL. */
struct urxe_id *urxe_id_of_handle(uint32_t handle);
/* Calls fn for each id; fn may destroy none. */
void urxe_id_each(void (*fn)(struct urxe_id *id, void *arg), void *arg);
/* A forked child forgets the ids of its parent. */
void urxe_id_forked(void);

/* The table of handles, which ids and multicasts share. */
enum urxe_handle_kind { URXE_HANDLE_ID = 1, URXE_HANDLE_MCAST };
int urxe_handle_new(enum urxe_handle_kind kind, void *object, uint32_t *handle);
void *urxe_handle_get(enum urxe_handle_kind kind, uint32_t handle);
void urxe_handle_free(uint32_t handle);

/* id_bind.c: addresses, ports, routes, listening. -errno as rdma_cm has them. */

/* found: what urxe_address_local() says of addr, asked before without the lock. */
int urxe_id_bind(struct urxe_id *id, const union urxe_sockaddr *addr,
		 const struct urxe_source *found);
int urxe_id_listen(struct urxe_id *id, uint32_t backlog);
int urxe_id_set_reuseaddr(struct urxe_id *id, bool on);
int urxe_id_set_afonly(struct urxe_id *id, bool on);
/* local: as above, of src; found: what urxe_address_source() says of dst. src and local are not
 * looked at when the id is bound. */
int urxe_id_resolve_addr(struct urxe_id *id, const union urxe_sockaddr *src,
			 const struct urxe_source *local, const union urxe_sockaddr *dst,
			 const struct urxe_source *found, uint32_t timeout_ms);
/* The end of that: the id is bound where found says, and its program gets the event. */
void urxe_id_resolved(struct urxe_id *id, const struct urxe_source *found);
int urxe_id_resolve_route(struct urxe_id *id, uint32_t timeout_ms);
/* The end of that, where it took a question: a record, or why there is none. */
void urxe_id_route_answered(struct urxe_id *id, const struct ibv_path_record *path, int error);
int urxe_id_set_path(struct urxe_id *id, const struct ibv_path_record *path);
void urxe_id_attach(struct urxe_id *id, struct urxe_port *port);
void urxe_id_unbind(struct urxe_id *id);
/* Takes binding back: the id is IDLE again. */
void urxe_id_unbind_any(struct urxe_id *id);
void urxe_port_row_put(struct urxe_port_row *row);
/* The service ID of an address of this id (annex A11.4.1), host order. */
uint64_t urxe_id_service_id(const struct urxe_id *id, const union urxe_sockaddr *addr);

/* id_query.c: the wait for a neighbour. */
int urxe_id_query_start(struct urxe_id *id, const struct urxe_source *found, uint32_t timeout_ms);
void urxe_id_query_stop(struct urxe_id *id); /* does nothing where there is none */
uint64_t urxe_id_query_deadline(void);
void urxe_id_query_run(uint64_t now);
void urxe_id_query_forked(void);

/* id_connect.c: connections. */

/* What the communication manager calls for a request to a listening id. */
int urxe_id_request(struct urxe_cm_id *conn, const struct urxe_cm_event *event);
int urxe_id_connect(struct urxe_id *id, const struct rdma_ucm_conn_param *param,
		    const struct rdma_ucm_ece *ece);
int urxe_id_accept(struct urxe_id *id, const struct rdma_ucm_conn_param *param,
		   const struct rdma_ucm_ece *ece);
int urxe_id_reject(struct urxe_id *id, const void *data, uint8_t len, uint8_t reason);
int urxe_id_disconnect(struct urxe_id *id);
int urxe_id_notify(struct urxe_id *id, uint32_t event);
/* Takes the connection away from an id that ends. */
void urxe_id_drop_connection(struct urxe_id *id);
void urxe_id_default_qkey(struct urxe_id *id);

/* id_path.c: path records, address vectors, and what a QP is to be set to. */

/* The path of a record; port has its source GID. -EINVAL for one that cannot be used. */
int urxe_path_of_record(struct urxe_cm_path *path, struct urxe_port *port,
			const struct ibv_path_record *record);
/* A record of a path from sgid, as the kernel makes them for RoCE: the address vector says where
 * it goes, the path the rest. */
void urxe_path_record(struct ibv_path_record *record, const struct urxe_cm_path *path,
		      const union ibv_gid *sgid, const struct ibv_ah_attr *attr,
		      uint64_t service_id);
/* The address vector of a record, or to a group of that LID, from the port of an id. -EINVAL: its
 * source GID is gone. */
int urxe_id_ah_attr(const struct urxe_id *id, const struct ibv_path_record *record,
		    struct ib_uverbs_ah_attr *ah);
/* As the kernel's user ABI has it. */
void urxe_id_copy_ah(struct ib_uverbs_ah_attr *to, const struct ibv_ah_attr *from);
/* *mask: enum ibv_qp_attr_mask. */
int urxe_id_init_qp_attr(struct urxe_id *id, struct ibv_qp_attr *attr, int *mask);

/* event.c */

/* A new event about an id, its fields zero; NULL without memory. */
struct urxe_id_event *urxe_id_event_new(struct urxe_id *id, enum urxe_id_event_type type,
					int status);
/* Queues it, or drops it if the id gets none yet. */
void urxe_id_event_push(struct urxe_id_event *event);
/* Both, for an event that says no more. */
void urxe_id_report(struct urxe_id *id, enum urxe_id_event_type type, int status);
void urxe_id_event_drop(struct urxe_id_event *event);
/* Moves an id to another file, with its events. */
void urxe_id_migrate(struct urxe_id *id, struct urxe_ucma *to);
/* Makes event_fd readable or not, after its state has changed. */
void urxe_ucma_tell(struct urxe_ucma *file);
/* Waits for an event and writes it to the program's memory; urxe_ucma_write() has the errors. */
int urxe_ucma_get_event(struct urxe_ucma *file, int fd, uint64_t response, uint16_t out);

/* sa.c: what the subnet administrator is asked, where there is one. */

/* 0: its answer comes; 1: there is none to ask; -errno. */
int urxe_sa_ask_path(struct urxe_id *id, uint32_t timeout_ms);
int urxe_sa_join(struct urxe_id_mcast *mcast);
void urxe_sa_leave(struct urxe_id_mcast *mcast);
void urxe_sa_init(void);

/* mcast.c */
int urxe_id_join(struct urxe_id *id, const union urxe_sockaddr *addr, uint64_t uid, bool send_only,
		 struct urxe_id_mcast **mcast);
/* The subnet administrator's answer: what packets to the group are sent by, or with an error why
 * not. */
struct urxe_group;
void urxe_id_joined(struct urxe_id_mcast *mcast, const struct urxe_group *group, int error);
/* The port's memberships have ended: raises their events. */
void urxe_id_mcasts_lost(struct urxe_id *id);
/* Its packets are no longer wanted; it stays until its program leaves. */
void urxe_id_stop(struct urxe_id_mcast *mcast);
/* Returns the number of events that were reported about it. */
uint32_t urxe_id_leave(struct urxe_id_mcast *mcast);

#endif
