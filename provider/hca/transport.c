/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The table of transport services (transport.h). */
#include "hca/engine.h"
#include "hca/raw_packet.h"
#include "hca/requester.h"
#include "hca/responder.h"
#include "hca/transport.h"
#include "hca/xrc.h"

#define SENDS	(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)
#define WRITES	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
#define WINDOWS (IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW)
#define ANSWERED                                                        \
	(IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | \
	 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

static_assert(IBV_QP_EX_WITH_SEND_WITH_INV == 1 << IBV_WR_SEND_WITH_INV &&
		      IBV_QP_EX_WITH_RDMA_WRITE == 1 << IBV_WR_RDMA_WRITE &&
		      IBV_QP_EX_WITH_BIND_MW == 1 << IBV_WR_BIND_MW,
	      "the bits are those of the opcodes");

static const struct urxe_transport transports[] = {
	{
		.type = IBV_QPT_RC,
		.service = URXE_SERVICE_RC,
		.reliable = true,
		.connected = true,
		.operations = SENDS | WRITES | WINDOWS | ANSWERED | IBV_QP_EX_WITH_SEND_WITH_INV |
			      IBV_QP_EX_WITH_ATOMIC_WRITE,
		.direct = DIRECT_RC,
		.run = urxe_requester_run,
		.request = urxe_rc_request,
	},
	{
		.type = IBV_QPT_UC,
		.service = URXE_SERVICE_UC,
		.connected = true,
		.operations = SENDS | WRITES | WINDOWS,
		.direct = DIRECT_UC,
		.run = urxe_requester_run,
		.request = urxe_uc_request,
	},
	{
		.type = IBV_QPT_UD,
		.service = URXE_SERVICE_UD,
		.addressed = true,
		.operations = SENDS,
		.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB | IBV_QP_CREATE_SOURCE_QPN,
		.run = urxe_requester_run,
		.request = urxe_ud_request,
	},
	{
		.type = IBV_QPT_XRC_SEND,
		.service = URXE_SERVICE_XRC,
		.reliable = true,
		.connected = true,
		.shared_receive = true,
		.operations = SENDS | WRITES | WINDOWS | ANSWERED | IBV_QP_EX_WITH_SEND_WITH_INV,
		.run = urxe_requester_run,
	},
	{
		.type = IBV_QPT_XRC_RECV,
		.service = URXE_SERVICE_XRC,
		.reliable = true,
		.connected = true,
		.run = urxe_xrc_run,
		.request = urxe_xrc_request,
		.detach = urxe_xrc_retract,
	},
	{
		.type = IBV_QPT_RAW_PACKET,
		.service = URXE_SERVICE_NONE,
		.operations = IBV_QP_EX_WITH_SEND,
		.create_flags = IBV_QP_CREATE_CVLAN_STRIPPING,
		.run = urxe_raw_run,
		.attach = urxe_raw_attach,
		.detach = urxe_raw_detach,
	},
};

const struct urxe_transport *urxe_transport_of(enum ibv_qp_type type)
{
	for (size_t i = 0; i < sizeof(transports) / sizeof(transports[0]); i++)
		if (transports[i].type == type)
			return &transports[i];
	return NULL;
}
