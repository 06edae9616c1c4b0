/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * From the wire to the QPs: the checks of a packet's header (IBTA vol. 1, 9.6.1) that every
 * transport service has in common. A packet that fails them is dropped without an answer. Under the
 * engine lock.
 */

#include "hca/completer.h"
#include "hca/dead_qp.h"
#include "hca/engine.h"
#include "hca/gsi.h"
#include "hca/mcast.h"
#include "hca/path_migration.h"
#include "hca/responder.h"

/* Connected QPs take packets of their peer alone. */
static bool peer_fits(struct urxe_qp *qp, const struct urxe_packet *pkt,
		      const struct urxe_rx_packet *rx)
{
	if (!qp->transport->connected)
		return true;
	if (qp->proto.attr.path_mig_state != IBV_MIG_MIGRATED &&
	    !urxe_migration_hear(qp, pkt->bth, rx))
		return false;
	return urxe_came_by(rx, &qp->proto.path);
}

/* A request for a QP in RTR raises COMM_EST once: the program may not know
 * yet that it is connected. */
static void establish(struct urxe_qp *qp)
{
	if (!qp->transport->connected || qp->proto.established)
		return;
	qp->proto.established = true;
	urxe_event_qp(qp, IBV_EVENT_COMM_EST);
}

static void deliver(struct urxe_qp *qp, const struct urxe_packet *pkt,
		    const struct urxe_rx_packet *rx)
{
	int state = atomic_load(&qp->proto.state);

	if (state != IBV_QPS_RTR && state != IBV_QPS_RTS && state != IBV_QPS_SQD &&
	    state != IBV_QPS_SQE)
		return;
	if ((pkt->opcode & URXE_SERVICE_MASK) != qp->transport->service || !peer_fits(qp, pkt, rx))
		return;
	if (!urxe_pkeys_match(urxe_bth_pkey(pkt->bth), urxe_qp_pkey(qp))) {
		urxe_refused(rx, false);
		return;
	}
	if (urxe_op_any(pkt->mask, URXE_OP_REQUEST)) {
		if (state == IBV_QPS_RTR)
			establish(qp);
		if (qp->transport->request)
			qp->transport->request(qp, pkt, rx);
	} else if (state == IBV_QPS_RTS || state == IBV_QPS_SQD) {
		urxe_completer_packet(qp, pkt);
	}
}

/* Has this QP sent the packet, and does not want it back? Another host may
 * have a QP of that number. */
static bool ignores_own(const struct urxe_qp *qp, const struct urxe_packet *pkt,
			const struct urxe_rx_packet *rx)
{
	struct urxe_path back;

	if (!qp->deaf_to_own || urxe_deth_sqp(pkt->deth) != qp->proto.source_qpn)
		return false;
	urxe_link_of(&rx->path)->reverse(&back, &rx->path);
	return urxe_link_of(&back)->is_here(&back);
}

static bool acknowledge_short(struct urxe_qp *qp, const struct urxe_rx_packet *rx,
			      const struct urxe_bth *bth)
{
	const struct urxe_aeth *aeth = (const struct urxe_aeth *)(bth + 1);

	return rx->len == URXE_ACK_LEN && !urxe_bth_pad(bth) &&
	       urxe_aeth_kind(urxe_aeth_syndrome(aeth)) == URXE_AETH_ACK &&
	       urxe_completer_short(qp, urxe_bth_psn(bth));
}

/*
 * Most packets of small messages: a whole one to a connected QP that expects it, and its
 * acknowledgement. False: look closer.
 */
static bool deliver_short(const struct urxe_rx_packet *rx)
{
	const struct urxe_bth *bth = (const struct urxe_bth *)rx->bth;
	struct urxe_qp *qp;

	if ((bth->opcode != URXE_RC_SEND_ONLY && bth->opcode != URXE_RC_SEND_ONLY_IMM &&
	     bth->opcode != URXE_RC_ACKNOWLEDGE) ||
	    urxe_bth_tver(bth) != URXE_TVER)
		return false;
	qp = urxe_engine_qp(urxe_bth_qpn(bth));
	if (!qp || qp->transport->service != URXE_SERVICE_RC ||
	    qp->proto.attr.path_mig_state != IBV_MIG_MIGRATED ||
	    !urxe_came_by(rx, &qp->proto.path) ||
	    !urxe_pkeys_match(urxe_bth_pkey(bth), urxe_qp_pkey(qp)) ||
	    atomic_load_explicit(&qp->proto.state, memory_order_relaxed) != IBV_QPS_RTS)
		return false;
	if (bth->opcode == URXE_RC_ACKNOWLEDGE)
		return acknowledge_short(qp, rx, bth);
	return urxe_responder_short(qp, rx);
}

/* SENDs and RDMA WRITEs of connected services may have their payload elsewhere (wire.h). */
static bool refer(struct urxe_packet *pkt, const struct urxe_rx_packet *rx)
{
	if (pkt->deth || !urxe_op_any(pkt->mask, URXE_OP_SEND | URXE_OP_WRITE))
		return false;
	pkt->refs = rx->refs;
	pkt->payload_len = rx->refs_len;
	return true;
}

void urxe_dispatch(const struct urxe_rx_packet *rx, void *arg)
{
	struct urxe_packet pkt;
	struct urxe_mcast *member;
	struct urxe_qp *qp;
	uint32_t qpn;

	if (deliver_short(rx))
		return;
	urxe_hca.now_is_old = true;
	if (urxe_packet_parse(rx->bth, rx->len, &pkt))
		return;
	pkt.payload = rx->bytes + (pkt.payload - rx->bth);
	if (rx->span)
		pkt.span = rx->span;
	if (rx->refs && !refer(&pkt, rx))
		return;
	qpn = urxe_bth_qpn(pkt.bth);
	if (qpn == URXE_QPN_GSI) {
		urxe_gsi_packet(&pkt, rx);
		return;
	}
	if (qpn != URXE_QPN_MULTICAST) {
		qp = urxe_engine_qp(qpn);
		if (qp)
			deliver(qp, &pkt, rx);
		else
			urxe_dead_qp_packet(&pkt, rx);
		return;
	}
	if (!rx->path.multicast || !pkt.deth)
		return;
	cds_list_for_each_entry (member, urxe_mcast_bucket(&rx->path.dst), node) {
		if (urxe_same_addr(&member->group, &rx->path.dst) &&
		    (rx->path.port == URXE_NO_PORT || member->qp->port->index == rx->path.port) &&
		    !ignores_own(member->qp, &pkt, rx))
			deliver(member->qp, &pkt, rx);
	}
}
