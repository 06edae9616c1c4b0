/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The responder of UD (IBTA vol. 1, 9.8.3; annex A17): a packet is a message, and in the receive
 * buffer stand 40 bytes before it that say where it came from. Under the engine lock.
 */
#include "hca/responder.h"

void urxe_ud_request(struct urxe_qp *qp, const struct urxe_packet *pkt,
		     const struct urxe_rx_packet *rx)
{
	struct urxe_cqe cqe = {
		.status = IBV_WC_SUCCESS,
		.opcode = IBV_WC_RECV,
		.solicited = urxe_bth_se(pkt->bth),
	};
	struct urxe_link_wc link;
	uint8_t grh[40];

	if (urxe_deth_qkey(pkt->deth) != qp->proto.attr.qkey) {
		urxe_refused(rx, true);
		return;
	}
	if (pkt->payload_len > qp->proto.mtu)
		return;
	if (!urxe_recv_take(qp))
		return;
	qp->proto.recv_offset = 0;
	urxe_link_of(&rx->path)->received(rx, grh, &link);
	if (qp->recv_wqe->length < sizeof(grh) + pkt->payload_len) {
		urxe_recv_failed(qp, IBV_WC_LOC_LEN_ERR);
		return;
	}
	if (urxe_recv_data(qp, grh, sizeof(grh)) != IBV_WC_SUCCESS ||
	    urxe_recv_data(qp, pkt->payload, pkt->payload_len) != IBV_WC_SUCCESS) {
		urxe_recv_failed(qp, IBV_WC_LOC_PROT_ERR);
		return;
	}
	cqe.byte_len = qp->proto.recv_offset;
	cqe.src_qp = urxe_deth_sqp(pkt->deth);
	cqe.wc_flags = link.grh ? IBV_WC_GRH : 0;
	cqe.sl = link.sl;
	cqe.slid = link.slid;
	cqe.dlid_path_bits = link.dlid_path_bits;
	cqe.pkey_index = qp->proto.attr.pkey_index;
	if (pkt->imm) {
		cqe.wc_flags |= IBV_WC_WITH_IMM;
		cqe.imm = pkt->imm->imm;
	}
	urxe_recv_complete(qp, &cqe);
}
