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

void urxe_dispatch(const struct urxe_rx_packet *rx, void *arg)
{
	struct urxe_packet pkt;
	struct urxe_mcast *member;
	struct urxe_qp *qp;
	uint32_t qpn;

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
