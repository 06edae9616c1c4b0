/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The responder of UC (IBTA vol. 1, 9.8.2.2): nothing is acknowledged, and what a lost packet
 * belongs to is dropped. Under the engine lock.
 */
#include "hca/responder.h"

#define UC_LATE (1 << 16) /* PSNs */

/* A lost packet loses its message, silently; the next first packet starts anew (9.8.2.2). */
void urxe_uc_request(struct urxe_qp *qp, const struct urxe_packet *pkt,
		     const struct urxe_rx_packet *rx)
{
	uint32_t psn = urxe_bth_psn(pkt->bth);
	int32_t ahead = urxe_psn_diff(psn, qp->proto.epsn);

	/* Just behind what was received: a duplicate, or too late to be in order. Far behind, and
	 * before the first packet, it is a peer that counts from elsewhere. */
	if (qp->proto.uc_received && ahead < 0 && ahead > -UC_LATE)
		return;
	qp->proto.uc_received = true;
	if (urxe_op_any(pkt->mask, URXE_OP_START)) {
		qp->proto.drop_message = false;
		qp->proto.last_opcode = URXE_NUM_OPCODES;
		qp->proto.recv_offset = 0;
	} else if (psn != qp->proto.epsn) {
		qp->proto.drop_message = true;
	}
	qp->proto.epsn = urxe_psn_add(psn, pkt->span);
	if (qp->proto.drop_message)
		return;
	if (!urxe_sequence_ok(qp, pkt) || urxe_execute(qp, pkt, psn) != URXE_DONE) {
		qp->proto.drop_message = true;
		qp->proto.last_opcode = URXE_NUM_OPCODES;
		return;
	}
	qp->proto.last_opcode =
		urxe_op_any(pkt->mask, URXE_OP_END) ? URXE_NUM_OPCODES : pkt->opcode;
}
