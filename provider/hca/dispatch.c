/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * From the wire to the QPs: the checks of a packet's header (IBTA vol. 1, 9.6.1) that every
 * transport service has in common. A packet that fails them is dropped without an answer. Under the
 * engine lock.
 */
#include <string.h>

#include "hca/engine.h"
#include "hca/gsi.h"
#include "hca/mcast.h"

static bool same_gid(const struct in6_addr *a, const struct in6_addr *b)
{
	return !memcmp(a, b, sizeof(*a));
}

static bool service_fits(const struct urxe_qp *qp, const struct urxe_packet *pkt)
{
	switch (pkt->opcode & URXE_SERVICE_MASK) {
	case URXE_SERVICE_RC: return qp->ibv.qp_type == IBV_QPT_RC;
	case URXE_SERVICE_UC: return qp->ibv.qp_type == IBV_QPT_UC;
	default: return qp->ibv.qp_type == IBV_QPT_UD;
	}
}

/* Connected QPs take packets of their peer alone. */
static bool peer_fits(const struct urxe_qp *qp, const struct urxe_rx_packet *rx)
{
	if (qp->ibv.qp_type == IBV_QPT_UD)
		return true;
	return same_gid(&rx->sgid, &qp->path.dgid) && same_gid(&rx->dgid, &qp->path.sgid);
}

static bool pkey_fits(uint16_t pkey)
{
	return (pkey & URXE_PKEY_BASE) == (URXE_PKEY_DEFAULT & URXE_PKEY_BASE);
}

static void deliver(struct urxe_qp *qp, const struct urxe_packet *pkt,
		    const struct urxe_rx_packet *rx)
{
	int state = atomic_load(&qp->state);

	if (state != IBV_QPS_RTR && state != IBV_QPS_RTS && state != IBV_QPS_SQD &&
	    state != IBV_QPS_SQE)
		return;
	if (!service_fits(qp, pkt) || !peer_fits(qp, rx))
		return;
	if (urxe_op_any(pkt->mask, URXE_OP_REQUEST))
		urxe_responder_packet(qp, pkt, rx);
	else if (state == IBV_QPS_RTS || state == IBV_QPS_SQD)
		urxe_completer_packet(qp, pkt);
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
	    urxe_bth_tver(bth) != URXE_TVER || !pkey_fits(urxe_bth_pkey(bth)))
		return false;
	qp = urxe_engine_qp(urxe_bth_qpn(bth));
	if (!qp || qp->ibv.qp_type != IBV_QPT_RC || !peer_fits(qp, rx) ||
	    atomic_load_explicit(&qp->state, memory_order_relaxed) != IBV_QPS_RTS)
		return false;
	if (bth->opcode == URXE_RC_ACKNOWLEDGE)
		return acknowledge_short(qp, rx, bth);
	return urxe_responder_short(qp, rx);
}

void urxe_dispatch(const struct urxe_rx_packet *rx, void *arg)
{
	struct urxe_packet pkt;
	struct urxe_mcast *member;
	struct urxe_qp *qp;
	uint32_t qpn;

	if (deliver_short(rx))
		return;
	if (urxe_packet_parse(rx->bth, rx->len, &pkt) || !pkey_fits(urxe_bth_pkey(pkt.bth)))
		return;
	if (rx->span)
		pkt.span = rx->span;
	if (rx->refs) {
		pkt.refs = rx->refs;
		pkt.payload_len = rx->refs_len;
	}
	qpn = urxe_bth_qpn(pkt.bth);
	if (qpn == URXE_QPN_GSI) {
		urxe_gsi_packet(&pkt, rx);
		return;
	}
	if (qpn != URXE_QPN_MULTICAST) {
		qp = urxe_engine_qp(qpn);
		if (qp)
			deliver(qp, &pkt, rx);
		return;
	}
	if (!rx->multicast || !pkt.deth)
		return;
	cds_list_for_each_entry (member, urxe_mcast_bucket(&rx->dgid), node) {
		if (same_gid(&member->group, &rx->dgid) && (!rx->dev || member->qp->dev == rx->dev))
			deliver(member->qp, &pkt, rx);
	}
}
