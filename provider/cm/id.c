/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The life of rdma_cm ids, and the table of handles, by which programs name ids and multicast
 * memberships. A handle is the lowest number that is free, as the kernel gives them out: librdmacm
 * has an array of 65,536 of them. Everything under the engine lock.
 *
 *	handles   +--------+--------+--------+--------+
 *	          | object | object | next   | object |    kind 0: free, in a list
 *	          +--------+--------+--------+--------+
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "cm/id.h"
#include "cm/kernel.h"
#include "cm/port_space.h"
#include "host/heap.h"

#define BYTES_OF_ID 1536 /* with its connection, path, message and event */

#define NO_HANDLE   UINT32_MAX
#define MAX_HANDLES (1u << 24) /* far from 2^31, which librdmacm takes for errors */

static struct handle {
	union {
		void *object;
		uint32_t next;
	};
	uint8_t kind;
} * handles;

static uint32_t num_handles, free_handle = NO_HANDLE;

/* Random numbers, of which a system call gives many at the price of one. */
static struct {
	uint32_t words[64];
	unsigned left;
} chance;

static uint32_t starting_psn(void)
{
	uint32_t *word;

	if (!chance.left) {
		(void)!getrandom(chance.words, sizeof(chance.words), GRND_NONBLOCK);
		chance.left = sizeof(chance.words) / sizeof(chance.words[0]);
	}
	word = &chance.words[--chance.left];
	return *word & 0xffffff;
}

static int grow(void)
{
	uint32_t num = num_handles ? num_handles * 2 : 64;
	struct handle *more;

	if (num > MAX_HANDLES)
		return -ENOMEM;
	more = realloc(handles, num * sizeof(*more));
	if (!more)
		return -ENOMEM;
	handles = more;
	for (uint32_t i = num; i-- > num_handles;) {
		handles[i].kind = 0;
		handles[i].next = free_handle;
		free_handle = i;
	}
	num_handles = num;
	return 0;
}

int urxe_handle_new(enum urxe_handle_kind kind, void *object, uint32_t *handle)
{
	int ret = free_handle == NO_HANDLE ? grow() : 0;

	if (ret)
		return ret;
	*handle = free_handle;
	free_handle = handles[*handle].next;
	handles[*handle].kind = kind;
	handles[*handle].object = object;
	return 0;
}

void *urxe_handle_get(enum urxe_handle_kind kind, uint32_t handle)
{
	if (handle >= num_handles || handles[handle].kind != kind)
		return NULL;
	return handles[handle].object;
}

void urxe_handle_free(uint32_t handle)
{
	handles[handle].kind = 0;
	handles[handle].next = free_handle;
	free_handle = handle;
}

void urxe_id_forked(void)
{
	handles = NULL;
	num_handles = 0;
	free_handle = NO_HANDLE;
	chance.left = 0;
	urxe_port_space_forked();
	urxe_id_query_forked();
}

static int qp_type_of(uint16_t ps, uint8_t *qp_type)
{
	switch (ps) {
	case RDMA_PS_TCP: *qp_type = IBV_QPT_RC; return 0;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB: *qp_type = IBV_QPT_UD; return 0;
	case RDMA_PS_IB: return 0;
	default: return -EINVAL;
	}
}

int urxe_id_create(struct urxe_ucma *file, uint16_t ps, uint8_t qp_type, uint64_t uid,
		   struct urxe_id **out)
{
	struct urxe_id *id;
	int ret = qp_type_of(ps, &qp_type);

	if (ret)
		return ret;
	urxe_heap_expect(BYTES_OF_ID);
	id = calloc(1, sizeof(*id));
	if (!id)
		return -ENOMEM;
	ret = urxe_handle_new(URXE_HANDLE_ID, id, &id->handle);
	if (ret) {
		free(id);
		return ret;
	}
	id->uid = uid;
	id->file = file;
	id->ps = ps;
	id->qp_type = qp_type;
	CDS_INIT_LIST_HEAD(&id->events);
	CDS_INIT_LIST_HEAD(&id->mcasts);
	id->psn = starting_psn();
	cds_list_add_tail(&id->node, &file->ids);
	*out = id;
	return 0;
}

/* Requests in the queue that nobody has taken go with their listener. */
static void drop_events(struct urxe_id *id)
{
	struct urxe_id_event *event, *next;

	cds_list_for_each_entry_safe (event, next, &id->events, id_node) {
		struct urxe_id *conn = event->conn;

		urxe_id_event_drop(event);
		if (conn)
			urxe_id_destroy(conn);
	}
}

uint32_t urxe_id_destroy(struct urxe_id *id)
{
	struct urxe_id_mcast *mcast, *next;
	uint32_t reported = id->events_reported;

	/* First of all: nothing that happens below may make a new event. */
	id->uid = 0;
	urxe_id_drop_connection(id);
	if (id->request) {
		id->request->id->backlog++;
		urxe_id_event_drop(id->request);
	}
	drop_events(id);
	cds_list_for_each_entry_safe (mcast, next, &id->mcasts, node)
		urxe_id_leave(mcast);
	urxe_id_unbind(id);
	urxe_twin_drop(&id->twin);
	if (id->file->spare == id) /* a program has guessed its handle */
		id->file->spare = NULL;
	urxe_handle_free(id->handle);
	cds_list_del(&id->node);
	free(id->paths);
	free(id);
	return reported;
}

struct urxe_id *urxe_id_of_handle(uint32_t handle)
{
	return urxe_handle_get(URXE_HANDLE_ID, handle);
}

int urxe_id_find(struct urxe_ucma *file, uint32_t handle, struct urxe_id **out)
{
	struct urxe_id *id = urxe_id_of_handle(handle);

	if (!id)
		return -ENOENT;
	if (id->file != file)
		return -EINVAL;
	*out = id;
	return id->state == URXE_ID_DEVICE_REMOVAL ? -ENXIO : 0;
}

void urxe_id_each(void (*fn)(struct urxe_id *id, void *arg), void *arg)
{
	for (uint32_t i = 0; i < num_handles; i++)
		if (handles[i].kind == URXE_HANDLE_ID)
			fn(handles[i].object, arg);
}
