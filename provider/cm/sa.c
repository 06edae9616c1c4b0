// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What rdma_cm ids ask the subnet administrator of their port, as the kernel's cma.c does: path
 * records, and membership of multicast groups. Link layers without one have no ask (wire/link.h). A
 * question is numbered by the handle of the id that asks and how often it has asked, so nothing
 * need be kept of it: an answer that no id waits for any more is dropped. Under the engine lock.
 */
#include "cm/sa.h"

#include <errno.h>
#include <string.h>

#include "cm/id.h"
#include "hca/adapter.h"
#include "host/fabric_sa.h"
#include "wire/link.h"

#define METHOD_GET    0x01
#define METHOD_SET    0x02
#define METHOD_DELETE 0x15

#define PATH_RECORD	0x35
#define MCMEMBER_RECORD 0x38

/* Components (15.2.5.16, 15.2.5.17), by bit. */
#define PATH_SERVICE_ID (3ull << 0)
#define PATH_DGID	(1ull << 2)
#define PATH_SGID	(1ull << 3)
#define PATH_TCLASS	(1ull << 10)
#define PATH_REVERSIBLE (1ull << 11)
#define PATH_NUMB_PATH	(1ull << 12)
#define PATH_PKEY	(1ull << 13)
#define GROUP_MGID	(1ull << 0)
#define GROUP_PORT_GID	(1ull << 1)
#define GROUP_QKEY	(1ull << 2)
#define GROUP_TCLASS	(1ull << 6)
#define GROUP_PKEY	(1ull << 7)
#define GROUP_SL	(1ull << 12)
#define GROUP_FLOW	(1ull << 13)
#define GROUP_STATE	(1ull << 16)

#define FULL_MEMBER	 1
#define SEND_ONLY_MEMBER 8 /* and full: one that a group may be made for */

#define REVERSIBLE_ONE (1 << 7 | 1) /* one path */
#define JOIN_TIMEOUT   3000	    /* ms: as the kernel's multicast.c waits in all */

#define HANDLE_BITS 24 /* id.c */

static uint32_t number_of(uint32_t handle, uint8_t asked)
{
	return handle | (uint32_t)asked << HANDLE_BITS;
}

static int ask(const struct urxe_port *port, struct urxe_sa_question *q, const void *record,
	       size_t len)
{
	memcpy(q->record, record, len);
	return urxe_link_of_port(port)->ask(port, q);
}

int urxe_sa_ask_path(struct urxe_id *id, uint32_t timeout_ms)
{
	struct ibv_path_record record = {
		.service_id = htobe64(urxe_id_service_id(id, &id->dst)),
		.dgid = id->dgid,
		.sgid = id->sgid,
		.tclass = id->options.tos_set ? id->options.tos : 0,
		.reversible_numpath = REVERSIBLE_ONE,
		.pkey = htobe16(id->pkey),
	};
	struct urxe_sa_question q = {
		.method = METHOD_GET,
		.attribute = PATH_RECORD,
		.mask = PATH_SERVICE_ID | PATH_DGID | PATH_SGID | PATH_REVERSIBLE | PATH_NUMB_PATH |
			PATH_PKEY | (id->options.tos_set ? PATH_TCLASS : 0),
		.timeout_ms = timeout_ms,
	};
	int ret;

	if (!urxe_link_of_port(id->port)->ask)
		return 1;
	q.number = number_of(id->handle, ++id->asked);
	ret = ask(id->port, &q, &record, sizeof(record));
	if (!ret)
		id->state = URXE_ID_ROUTE_QUERY;
	return ret;
}

static int ask_group(const struct urxe_id_mcast *mcast, uint8_t method, uint64_t mask,
		     uint8_t asked)
{
	const struct urxe_id *id = mcast->id;
	struct urxe_group group = {
		.mgid = mcast->mgid,
		.port_gid = id->sgid,
		.qkey = htobe32(id->qkey),
		.pkey = htobe16(id->pkey),
		.scope_state = mcast->send_only ? SEND_ONLY_MEMBER : FULL_MEMBER,
	};
	struct urxe_sa_question q = {
		.method = method,
		.attribute = MCMEMBER_RECORD,
		.mask = GROUP_MGID | GROUP_PORT_GID | GROUP_STATE | mask,
		.timeout_ms = JOIN_TIMEOUT,
		.number = number_of(mcast->handle, asked),
	};

	return ask(id->port, &q, &group, sizeof(group));
}

int urxe_sa_join(struct urxe_id_mcast *mcast)
{
	int ret;

	if (!urxe_link_of_port(mcast->id->port)->ask)
		return 1;
	ret = ask_group(mcast, METHOD_SET,
			GROUP_QKEY | GROUP_TCLASS | GROUP_PKEY | GROUP_SL | GROUP_FLOW, 0);
	mcast->asked = !ret;
	return ret;
}

/* Nobody waits for the answer. A question that is still under way is taken back by this one too. */
void urxe_sa_leave(struct urxe_id_mcast *mcast)
{
	if (mcast->asked || mcast->member)
		ask_group(mcast, METHOD_DELETE, 0, 1);
	mcast->asked = mcast->member = false;
}

/* ---- answers ---- */

static void answer_id(struct urxe_id *id, uint8_t asked, int error, const uint8_t *record)
{
	struct ibv_path_record path = {0};

	if (id->state != URXE_ID_ROUTE_QUERY || id->asked != asked)
		return;
	if (record)
		memcpy(&path, record, sizeof(path));
	urxe_id_route_answered(id, &path, error);
}

static void answer_mcast(struct urxe_id_mcast *mcast, uint8_t asked, int error,
			 const uint8_t *record)
{
	struct urxe_group group = {0};

	if (!mcast->asked || asked)
		return;
	mcast->asked = false;
	if (record)
		memcpy(&group, record, sizeof(group));
	urxe_id_joined(mcast, &group, error);
}

struct end {
	const struct urxe_port *port;
	int error;
};

static void end_questions(struct urxe_id *id, void *arg)
{
	const struct end *end = arg;
	struct urxe_id_mcast *mcast, *next;

	if (id->port != end->port)
		return;
	answer_id(id, id->asked, end->error, NULL);
	cds_list_for_each_entry_safe (mcast, next, &id->mcasts, node)
		answer_mcast(mcast, 0, end->error, NULL);
}

static void answered(const struct urxe_port *port, uint32_t number, int error,
		     const uint8_t *record)
{
	uint32_t handle = number & ((1u << HANDLE_BITS) - 1);
	struct end end = {port, error};
	struct urxe_id_mcast *mcast;
	struct urxe_id *id;

	urxe_engine_lock();
	if (number == URXE_SA_ALL) {
		urxe_id_each(end_questions, &end);
	} else {
		id = urxe_handle_get(URXE_HANDLE_ID, handle);
		mcast = urxe_handle_get(URXE_HANDLE_MCAST, handle);
		if (id && id->port == port)
			answer_id(id, number >> HANDLE_BITS, error, record);
		if (mcast && mcast->id->port == port)
			answer_mcast(mcast, number >> HANDLE_BITS, error, record);
	}
	urxe_engine_unlock();
}

void urxe_sa_init(void)
{
	urxe_fabric_sa_handler(answered);
}
