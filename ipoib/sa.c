// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memberships at the subnet administrator: SubnAdmSet and SubnAdmDelete of MCMemberRecords (IBTA
 * vol. 1, 15.2.5.17), by libibumad, which sends them again until they are answered. The loop's
 * thread.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/umad.h>
#include <infiniband/umad_sa_mcm.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/common/log.h"
#include "ipoib/ipoib.h"

#define TIMEOUT_MS 1000
#define RETRIES	   3
#define SA_QPN	   1
#define MANY	   256 /* questions under way: groups are few */

struct question {
	uint32_t tid; /* 0: none */
	sa_done *done;
	void *arg;
};

struct ipoib_sa {
	int port, agent;
	struct event *readable;
	uint32_t tid;
	struct question questions[MANY];
	void *umad;
};

/* As of 15.2.1.1. */
struct sa_mad {
	struct umad_hdr header;
	struct umad_rmpp_hdr rmpp;
	__be64 key;
	__be16 offset, reserved;
	__be64 mask;
	uint8_t record[UMAD_LEN_SA_DATA];
} __attribute__((packed));
_Static_assert(sizeof(struct sa_mad) == 256, "MAD");

static struct question *find(struct ipoib_sa *sa, uint32_t tid)
{
	for (unsigned i = 0; i < MANY; i++)
		if (sa->questions[i].tid == tid)
			return &sa->questions[i];
	return NULL;
}

static int error_of(void *umad, const struct sa_mad *mad)
{
	if (umad_status(umad))
		return -ETIMEDOUT;
	if (mad->header.status & htobe16(UMAD_STATUS_BUSY))
		return -EBUSY;
	return mad->header.status ? -ENOENT : 0;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct ipoib *ib = arg;
	struct ipoib_sa *sa = ib->sa;
	struct umad_sa_mcmember_record record;

	for (;;) {
		int len = sizeof(struct sa_mad);
		struct sa_mad *mad = umad_get_mad(sa->umad);
		struct question *q;
		sa_done *done;

		if (umad_recv(sa->port, sa->umad, &len, 0) < 0)
			return;
		q = find(sa, (uint32_t)be64toh(mad->header.tid));
		if (!q || !q->tid)
			continue;
		q->tid = 0;
		done = q->done;
		memcpy(&record, mad->record, sizeof(record));
		if (done)
			done(ib, q->arg, error_of(sa->umad, mad), &record);
	}
}

/* The subnet manager's LID and SL are those of now. */
static int ask(struct ipoib *ib, uint8_t method, const struct umad_sa_mcmember_record *record,
	       uint64_t mask, sa_done *done, void *arg)
{
	struct ipoib_sa *sa = ib->sa;
	struct question *q = done ? find(sa, 0) : NULL;
	struct sa_mad *mad = umad_get_mad(sa->umad);
	struct ibv_port_attr attr;

	if (ibv_query_port(ib->context, (uint8_t)ib->options.port, &attr) || !attr.sm_lid)
		return -EAGAIN;
	if (done && !q)
		return -EBUSY;
	memset(sa->umad, 0, umad_size() + sizeof(*mad));
	if (!++sa->tid)
		sa->tid = 1;
	mad->header = (struct umad_hdr){
		.base_version = 1,
		.mgmt_class = UMAD_CLASS_SUBN_ADM,
		.class_version = UMAD_SA_CLASS_VERSION,
		.method = method,
		.tid = htobe64(sa->tid),
		.attr_id = htobe16(UMAD_SA_ATTR_MCMEMBER_REC),
	};
	mad->mask = htobe64(mask);
	memcpy(mad->record, record, sizeof(*record));
	umad_set_addr(sa->umad, attr.sm_lid, SA_QPN, attr.sm_sl, UMAD_QKEY);
	if (umad_send(sa->port, sa->agent, sa->umad, sizeof(*mad), TIMEOUT_MS, RETRIES) < 0)
		return -EAGAIN;
	if (q)
		*q = (struct question){.tid = sa->tid, .done = done, .arg = arg};
	return 0;
}

int sa_join(struct ipoib *ib, const struct umad_sa_mcmember_record *record, uint64_t mask,
	    sa_done *done, void *arg)
{
	return ask(ib, UMAD_METHOD_SET, record, mask, done, arg);
}

void sa_leave(struct ipoib *ib, const struct umad_sa_mcmember_record *record)
{
	const uint64_t mask = UMAD_SA_MCM_COMP_MASK_MGID | UMAD_SA_MCM_COMP_MASK_PORT_GID |
			      UMAD_SA_MCM_COMP_MASK_JOIN_STATE;

	ask(ib, UMAD_SA_METHOD_DELETE, record, mask, NULL, NULL);
}

void sa_forget(struct ipoib *ib, const void *arg)
{
	for (unsigned i = 0; ib->sa && i < MANY; i++)
		if (ib->sa->questions[i].arg == arg)
			ib->sa->questions[i].done = NULL;
}

int sa_create(struct ipoib *ib)
{
	const char *device = ibv_get_device_name(ib->context->device);
	struct ipoib_sa *sa = calloc(1, sizeof(*sa));

	if (!sa)
		return ipoib_fail(ib, ENOMEM);
	ib->sa = sa;
	sa->port = sa->agent = -1;
	umad_init();
	sa->port = umad_open_port(device, (int)ib->options.port);
	if (sa->port >= 0)
		sa->agent = umad_register(sa->port, UMAD_CLASS_SUBN_ADM, UMAD_SA_CLASS_VERSION, 0,
					  NULL);
	if (sa->agent < 0) {
		log_error("cannot talk to the subnet administrator by %s port %u: %s; with real "
			  "devices this needs the right to open /dev/infiniband/umad0",
			  device, ib->options.port, strerror(errno));
		return -EACCES;
	}
	/* umad_size() is known from the first open on. */
	sa->umad = umad_alloc(1, umad_size() + sizeof(struct sa_mad));
	if (!sa->umad)
		return ipoib_fail(ib, ENOMEM);
	fcntl(umad_get_fd(sa->port), F_SETFL, fcntl(umad_get_fd(sa->port), F_GETFL) | O_NONBLOCK);
	sa->readable = event_new(ib->loop.base, umad_get_fd(sa->port), EV_READ | EV_PERSIST,
				 on_readable, ib);
	return sa->readable && !event_add(sa->readable, NULL) ? 0 : ipoib_fail(ib, ENOMEM);
}

void sa_destroy(struct ipoib *ib)
{
	struct ipoib_sa *sa = ib->sa;

	if (!sa)
		return;
	if (sa->readable)
		event_free(sa->readable);
	if (sa->agent >= 0)
		umad_unregister(sa->port, sa->agent);
	if (sa->port >= 0)
		umad_close_port(sa->port);
	free(sa->umad);
	free(sa);
	ib->sa = NULL;
}
