/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Raw packet QPs and their flow rules. A netdev's frames come to this process once (wire/raw.h) and
 * are offered to the rules of its QPs there: first to sniffers, which all get a copy, then by
 * priority to normal rules and at last to default rules, until one takes the frame. Rules of one
 * priority are asked in the order in which they were made. Under the engine lock.
 *
 * Rules of another process have their own copies of the frames: what hardware would do with two
 * rules of one match, each gets the frame.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hca/completer.h"
#include "hca/counters.h"
#include "hca/flow_rule.h"
#include "hca/memory.h"
#include "hca/pace.h"
#include "hca/raw_packet.h"
#include "hca/requester.h"
#include "hca/responder.h"
#include "hca/service.h"
#include "hca/wq.h"
#include "wire/raw.h"

/* Of an 802.1Q tag in a frame: bytes before it, and its own. */
#define TAG_AT 12
#define TAG    4

/* A rule in its place. */
struct urxe_flow {
	struct ibv_flow ibv;
	unsigned forks;
	struct cds_list_head node;
	struct urxe_flow_rule rule;
	struct urxe_qp *qp;
};

/* A port with raw packet QPs. */
static struct raw_port {
	struct urxe_raw *raw;	    /* NULL: none */
	unsigned users;		    /* QPs */
	struct cds_list_head flows; /* in the order in which they are asked */
} ports[URXE_MAX_PORTS];

static struct raw_port *port_of(const struct urxe_qp *qp)
{
	return &ports[qp->port->index];
}

/* ---- receiving ---- */

/* The frame into the buffer, with its tag or without. */
static enum ibv_wc_status put_frame(struct urxe_qp *qp, const uint8_t *frame, uint32_t len,
				    bool strip)
{
	enum ibv_wc_status status = urxe_recv_data(qp, frame, strip ? TAG_AT : len);

	if (strip && status == IBV_WC_SUCCESS)
		status = urxe_recv_data(qp, frame + TAG_AT + TAG, len - TAG_AT - TAG);
	return status;
}

static bool is_tagged(const uint8_t *frame, uint32_t len)
{
	return len >= TAG_AT + TAG && frame[TAG_AT] == 0x81 && !frame[TAG_AT + 1];
}

static void receive(struct urxe_qp *qp, const struct urxe_flow_rule *rule, const uint8_t *frame,
		    uint32_t len)
{
	bool strip = qp->strip_vlan && is_tagged(frame, len);
	struct urxe_cqe cqe = {
		.opcode = IBV_WC_RECV,
		.byte_len = strip ? len - TAG : len,
		.imm = strip ? frame[TAG_AT + 2] << 8 | frame[TAG_AT + 3] : 0,
		.flow_tag = rule->tag,
	};
	int state = atomic_load(&qp->proto.state);

	if ((state != IBV_QPS_RTR && state != IBV_QPS_RTS && state != IBV_QPS_SQD) ||
	    !urxe_recv_take(qp))
		return;
	/* A buffer that is too short, or not the program's, is used up: adapters with raw packets
	 * say so. */
	qp->proto.recv_offset = 0;
	if (qp->recv_wqe->length < cqe.byte_len)
		cqe.status = IBV_WC_LOC_LEN_ERR;
	else
		cqe.status = put_frame(qp, frame, len, strip);
	urxe_recv_complete(qp, &cqe);
}

static void take_frame(const uint8_t *bytes, uint32_t len, void *arg)
{
	struct raw_port *port = arg;
	struct urxe_flow *flow, *next;
	struct urxe_frame frame;

	urxe_frame_read(&frame, bytes, len);
	cds_list_for_each_entry_safe (flow, next, &port->flows, node) {
		const struct urxe_flow_rule *rule = &flow->rule;

		if (!urxe_flow_rule_matches(rule, &frame))
			continue;
		if (rule->counters)
			urxe_counters_add(rule->counters, len);
		if (!rule->drop)
			receive(flow->qp->rss ? urxe_rss_choose(flow->qp->rss, &frame) : flow->qp,
				rule, bytes, len);
		if (rule->type != IBV_FLOW_ATTR_SNIFFER && !rule->dont_trap)
			return;
	}
}

/* ---- sending ---- */

#define BATCH	  64
#define CALL_MOST 1000000 /* ns */

struct batch {
	struct mmsghdr frames[BATCH]; /* zeros but for the pieces */
	struct iovec iov[BATCH * URXE_MAX_SGE];
	unsigned n, pieces;
};

/* What failed stops the queue, as in every service that is not reliable (SQE). */
static enum ibv_wc_status status_of(int error)
{
	return error == -EMSGSIZE ? IBV_WC_LOC_LEN_ERR : IBV_WC_LOC_QP_OP_ERR;
}

/* The WRs from the cursor on, as frames; stops at one whose memory is not the program's. */
static void gather(struct urxe_qp *qp, struct batch *batch)
{
	uint32_t at = qp->sq.send, head = atomic_load(&qp->sq.head);

	batch->n = batch->pieces = 0;
	for (; at != head && batch->n < BATCH && urxe_pace_admits(qp); at++) {
		struct urxe_send_wqe *wqe = sq_wqe(&qp->sq, at);
		struct iovec *iov = &batch->iov[batch->pieces];
		int n = urxe_gather(qp, wqe, 0, wqe->length, 0, iov);

		wqe->started = true;
		if (n <= 0) {
			wqe->error = n < 0 ? IBV_WC_LOC_PROT_ERR : IBV_WC_LOC_LEN_ERR;
			return;
		}
		urxe_pace_charge(qp, wqe->length);
		batch->frames[batch->n].msg_hdr.msg_iov = iov;
		batch->frames[batch->n++].msg_hdr.msg_iovlen = n;
		batch->pieces += n;
	}
}

/*
 * The call takes longer than the shortest lease, and what it sends may be in the ring before it
 * ends. So a program that polls does so meanwhile: the service thread, woken in it for nothing,
 * would often have the same processor.
 */
static unsigned send_batch(struct urxe_qp *qp, struct batch *batch, int *error)
{
	bool polls = atomic_load(&urxe_hca.polled_at);
	unsigned sent;

	if (polls)
		urxe_engine_polled(urxe_now() + CALL_MOST);
	sent = urxe_raw_send(port_of(qp)->raw, batch->frames, batch->n, error);
	if (polls)
		urxe_engine_polled(urxe_now());
	return sent;
}

void urxe_raw_run(struct urxe_qp *qp)
{
	static struct batch batch; /* under the engine lock */
	int error = 0;

	if (!urxe_requester_may_run(qp))
		return;
	while (!error && urxe_requester_has_work(qp) && urxe_pace_wait(qp)) {
		unsigned sent = 0;

		gather(qp, &batch);
		if (batch.n)
			sent = send_batch(qp, &batch, &error);
		for (unsigned i = 0; i < sent; i++)
			sq_wqe(&qp->sq, qp->sq.send++)->done = true;
		if (error == -EAGAIN)
			urxe_requester_pause(qp);
		else if (error)
			sq_wqe(&qp->sq, qp->sq.send)->error = status_of(error);
		if (sent == batch.n && urxe_requester_has_work(qp) &&
		    sq_wqe(&qp->sq, qp->sq.send)->error)
			break;
	}
	if (!urxe_requester_has_work(qp))
		urxe_pace_idle(qp);
	urxe_completer_retire(qp);
}

/* ---- QPs and flows ---- */

void urxe_raw_packet_forked(void)
{
	for (unsigned i = 0; i < URXE_MAX_PORTS; i++)
		if (ports[i].raw)
			urxe_raw_forked(ports[i].raw);
	memset(ports, 0, sizeof(ports));
}

int urxe_raw_attach(struct urxe_qp *qp)
{
	struct raw_port *port = port_of(qp);
	int ret = urxe_raw_permitted();

	if (!ret && !port->raw) {
		CDS_INIT_LIST_HEAD(&port->flows);
		ret = urxe_raw_open(urxe_hca.wire, qp->port, take_frame, port, &port->raw);
	}
	if (!ret)
		port->users++;
	return ret;
}

static void remove_flow(struct urxe_flow *flow)
{
	struct raw_port *port = port_of(flow->qp);

	cds_list_del(&flow->node);
	if (flow->rule.counters)
		urxe_counters_use(flow->rule.counters, -1);
	flow->qp->flows--;
	flow->qp = NULL;
	if (cds_list_empty(&port->flows))
		urxe_raw_listen(port->raw, false);
}

void urxe_raw_detach(struct urxe_qp *qp)
{
	struct raw_port *port = port_of(qp);
	struct urxe_flow *flow, *next;

	cds_list_for_each_entry_safe (flow, next, &port->flows, node)
		if (flow->qp == qp)
			remove_flow(flow);
	if (!--port->users) {
		urxe_raw_close(port->raw);
		port->raw = NULL;
	}
}

/* Sniffers, normal rules by priority, defaults. */
static unsigned rank(const struct urxe_flow_rule *rule)
{
	switch (rule->type) {
	case IBV_FLOW_ATTR_SNIFFER: return 0;
	case IBV_FLOW_ATTR_NORMAL: return 1 + rule->priority;
	case IBV_FLOW_ATTR_MC_DEFAULT: return 1 + URXE_FLOW_PRIORITIES;
	default: return 2 + URXE_FLOW_PRIORITIES;
	}
}

static void insert(struct raw_port *port, struct urxe_flow *flow)
{
	struct urxe_flow *other;
	struct cds_list_head *before = &port->flows;

	cds_list_for_each_entry (other, &port->flows, node) {
		if (rank(&other->rule) > rank(&flow->rule)) {
			before = &other->node;
			break;
		}
	}
	cds_list_add_tail(&flow->node, before);
	flow->qp->flows++;
}

struct ibv_flow *urxe_create_flow(struct ibv_qp *ibv, struct ibv_flow_attr *attr)
{
	static _Atomic uint32_t next_handle = 1;
	struct urxe_qp *qp = to_qp(ibv);
	struct urxe_flow *flow = calloc(1, sizeof(*flow));
	int ret;

	if (!flow)
		return NULL;
	if (urxe_inherited(qp->forks))
		ret = EIO;
	else if (!attr || ibv->qp_type != IBV_QPT_RAW_PACKET)
		ret = EINVAL;
	else
		ret = urxe_flow_rule_read(&flow->rule, attr);
	flow->forks = urxe_forks;
	if (!ret && flow->rule.counters && flow->rule.counters->context != ibv->context)
		ret = EINVAL;
	if (!ret) {
		flow->qp = qp;
		flow->ibv.context = ibv->context;
		flow->ibv.handle = atomic_fetch_add(&next_handle, 1);
		urxe_engine_lock();
		ret = -urxe_raw_listen(port_of(qp)->raw, true);
		if (!ret)
			insert(port_of(qp), flow);
		if (!ret && flow->rule.counters)
			urxe_counters_use(flow->rule.counters, 1);
		urxe_engine_unlock();
	}
	if (!ret) {
		urxe_engine_watch();
		return &flow->ibv;
	}
	free(flow);
	return urxe_fail(ret);
}

int urxe_flow_count(struct ibv_flow *ibv, struct ibv_counters *counters)
{
	struct urxe_flow *flow = caa_container_of(ibv, struct urxe_flow, ibv);
	int ret = EINVAL;

	if (urxe_inherited(flow->forks))
		return EIO;
	urxe_engine_lock();
	if (flow->qp && (!flow->rule.counters || flow->rule.counters == counters)) {
		if (!flow->rule.counters)
			urxe_counters_use(counters, 1);
		flow->rule.counters = counters;
		ret = 0;
	}
	urxe_engine_unlock();
	return ret;
}

int urxe_destroy_flow(struct ibv_flow *ibv)
{
	struct urxe_flow *flow = caa_container_of(ibv, struct urxe_flow, ibv);

	if (!urxe_inherited(flow->forks)) {
		urxe_engine_lock();
		if (flow->qp)
			remove_flow(flow);
		urxe_engine_unlock();
	} else if (flow->qp && flow->rule.counters) {
		urxe_counters_use(flow->rule.counters, -1);
	}
	free(flow);
	return 0;
}
