/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Reports of the SA: a link of a switch has changed (trap 128), a port has (144). The trap says
 * which device, not what has happened there, so the server looks. A subscription ends with the
 * subnet manager that it was made at, and is made again at each discovery and when the server's way
 * to it changes.
 */
#include <errno.h>
#include <stdlib.h>

#include "inband/manage/ib_mad.h"

#define TRAP_LINK   128
#define TRAP_CHANGE 144
#define AGAIN_MS    10000

static void refuse_nothing(struct ib_op *op, const struct ib_ask *ask, int status,
			   const uint8_t *data)
{
	if (status)
		op->ib->subscribed = 0;
}

static void ask_for(struct ib_op *op, unsigned trap)
{
	struct ib_ask *ask = ib_ask(op, IB_SA, IB_INFORM_INFO, 0, refuse_nothing);
	uint8_t *inform;

	if (!ask)
		return;
	ask->data = calloc(1, IB_MAD - 56);
	if (!ask->data) {
		free(ask);
		ib_op_end(op, -ENOMEM);
		return;
	}
	ask->method = IB_SET;
	ask->lid = op->ib->sm_lid;
	inform = ask->data;
	put16(inform + 16, 0xffff); /* of all LIDs */
	inform[22] = 1;		    /* generic */
	inform[23] = 1;		    /* subscribe */
	put16(inform + 24, 0xffff); /* of all types */
	put16(inform + 26, trap);
	put32(inform + 28, 1u << 8 | 18); /* QP 1, an answer within 1 s */
	put32(inform + 32, 0xffffff);	  /* of all producers */
	ib_submit(ask);
}

static void find_sm(struct ib *ib)
{
	umad_port_t port;

	if (umad_get_port(ib->ca, ib->port, &port))
		return;
	if (port.sm_lid != ib->sm_lid)
		ib->subscribed = 0;
	ib->lid = port.base_lid;
	ib->sm_lid = port.sm_lid;
	ib->sm_sl = port.sm_sl;
	umad_release_port(&port);
}

int ib_subscribe(struct fabric *f, struct target *t, fabric_done *done, void *arg)
{
	struct ib *ib = ib_of(f);
	struct ib_op *op = ib_op_begin(f, t, done, arg);
	uint64_t now = ib_clock();

	if (!op)
		return -ENOMEM;
	/* One subscription is for all devices. */
	if (!ib->subscribed || now > ib->subscribed + AGAIN_MS) {
		ib->subscribed = now;
		find_sm(ib);
		if (ib->sa >= 0 && ib->sm_lid) {
			ask_for(op, TRAP_LINK);
			ask_for(op, TRAP_CHANGE);
		}
	}
	ib_op_end_later(op);
	return 0;
}

static void answer(struct ib *ib, const uint8_t *report)
{
	uint8_t *mad = umad_get_mad(ib->out);

	memset(ib->out, 0, umad_size());
	memcpy(mad, report, IB_MAD);
	mad[3] = IB_REPORT_RESP;
	umad_set_addr(ib->out, be16toh(umad_get_mad_addr(ib->in)->lid), 1, ib->sm_sl, 0x80010000);
	umad_send(ib->fd, ib->sa, ib->out, IB_MAD, 0, 0);
}

void ib_report(struct ib *ib, const uint8_t *mad)
{
	const uint8_t *notice = mad + 56;
	unsigned trap = get16(notice + 4);
	struct fabric_report report = {.look = true};
	struct ib_node *n;

	if (be16toh(umad_get_mad_addr(ib->in)->lid) != ib->sm_lid || get16(mad + 16) != IB_NOTICE)
		return;
	answer(ib, mad);
	ib->counts.reports++;
	if ((trap != TRAP_LINK && trap != TRAP_CHANGE) || !ib->fabric.report)
		return;
	/* A switch's GUID is its port 0's; LIDs are known of those that were asked for them. */
	n = ib_node_find(ib, get64(notice + 72)) ?: ib_node_lid(ib, get16(notice + 6));
	report.id = n ? n->guid : FABRIC_NO_ID;
	report.type = n ? n->type : NMP_NRC;
	ib->fabric.report(ib->fabric.report_arg, &report);
}
