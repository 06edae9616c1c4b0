// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * QP 1 and its user (gsi.h). Everything here is guarded by the engine lock and runs in whichever
 * thread has it.
 *
 * A process without a connection manager may be given a MAD all the same: the kernel hashes, and
 * would give it every repetition too. It passes it on to one that has, which knows (or finds in the
 * segment) whom it concerns.
 */
#include <errno.h>
#include <string.h>

#include "hca/engine.h"
#include "hca/gsi.h"
#include "host/segment_records.h"
#include "wire/opcode.h"

_Static_assert(URXE_GSI_QPN == URXE_QPN_GSI, "one number");

static const struct urxe_gsi_user *user;
static uint32_t next_psn;
static unsigned last_server; /* whom the last MAD was passed on to */

void urxe_gsi_register(const struct urxe_gsi_user *new_user)
{
	user = new_user;
	urxe_gsi_started();
}

void urxe_gsi_started(void)
{
	if (!urxe_hca.seg)
		return;
	urxe_segment_gsi_set(urxe_hca.seg, user && user->receive);
	/* Renews the steering. */
	urxe_wire_housekeep(urxe_hca.wire);
}

void urxe_gsi_forked(void)
{
	user = NULL;
}

bool urxe_gsi_is_here(const struct urxe_path *path)
{
	bool scoped = IN6_IS_ADDR_LINKLOCAL(&path->dgid);

	return urxe_device_has_address(&path->dgid, scoped ? path->dev->ifindex : 0);
}

static bool send_near(const struct urxe_path *path, unsigned slot, const struct urxe_tx_packet *pkt)
{
	struct urxe_path near = *path;

	near.here = true;
	return !urxe_wire_send_near(urxe_hca.wire, &near, slot, pkt, urxe_now_coarse());
}

int urxe_gsi_send(const struct urxe_path *path, uint32_t qpn, unsigned slot,
		  const uint8_t mad[URXE_MAD_BYTES])
{
	struct iovec iov = {(void *)mad, URXE_MAD_BYTES};
	struct urxe_tx_packet pkt = {
		.header_len = sizeof(struct urxe_bth) + sizeof(struct urxe_deth),
		.iov = &iov,
		.iovcnt = 1,
		.payload_len = URXE_MAD_BYTES,
	};
	struct urxe_deth deth;
	struct urxe_bth bth;
	int ret;

	if (!urxe_hca.wire)
		return -ENODEV;
	urxe_bth_fill(&bth, URXE_UD_SEND_ONLY, false, 0, URXE_PKEY_DEFAULT, qpn, false, next_psn++);
	urxe_deth_fill(&deth, URXE_GSI_QKEY, URXE_GSI_QPN);
	memcpy(pkt.header, &bth, sizeof(bth));
	memcpy(pkt.header + sizeof(bth), &deth, sizeof(deth));
	if (slot && send_near(path, slot, &pkt))
		return 0;
	ret = urxe_wire_send(urxe_hca.wire, path, &pkt, 1);
	return ret < 0 ? ret : 0;
}

int urxe_gsi_forward(const struct urxe_gsi_rx *rx, unsigned slot)
{
	return urxe_hca.wire ? urxe_wire_forward(urxe_hca.wire, slot, rx->rx) : -ENODEV;
}

int urxe_gsi_forward_all(const struct urxe_gsi_rx *rx)
{
	return urxe_hca.wire ? urxe_wire_forward_all(urxe_hca.wire, rx->rx) : -ENODEV;
}

/* To the connection managers in turn: one may be stopped, and the sender will try again. */
static void pass_on(const struct urxe_rx_packet *rx)
{
	unsigned slot = urxe_segment_gsi_next(urxe_hca.seg, last_server);

	for (unsigned tries = 0; slot && tries < 4; tries++) {
		last_server = slot;
		if (urxe_wire_forward(urxe_hca.wire, slot, rx) != -ESRCH)
			return;
		slot = urxe_segment_gsi_next(urxe_hca.seg, last_server);
	}
}

void urxe_gsi_packet(const struct urxe_packet *pkt, const struct urxe_rx_packet *rx)
{
	struct urxe_gsi_rx mad = {.mad = pkt->payload, .rx = rx};

	if (pkt->opcode != URXE_UD_SEND_ONLY || pkt->payload_len != URXE_MAD_BYTES ||
	    urxe_deth_qkey(pkt->deth) != URXE_GSI_QKEY || rx->multicast)
		return;
	if (!user || !user->receive) {
		pass_on(rx);
		return;
	}
	mad.src_qpn = urxe_deth_sqp(pkt->deth);
	mad.pkey = urxe_bth_pkey(pkt->bth);
	user->receive(&mad);
}

uint64_t urxe_gsi_deadline(void)
{
	return user && user->deadline ? user->deadline() : UINT64_MAX;
}

void urxe_gsi_run(uint64_t now)
{
	if (user && user->run && urxe_gsi_deadline() <= now)
		user->run(now);
}

void urxe_gsi_device_event(struct urxe_device *dev, enum ibv_event_type event)
{
	if (user && user->device_event)
		user->device_event(dev, event);
}

void urxe_gsi_housekeep(void)
{
	unsigned slot;

	/* Without a user the dead wait for another process to be told of them. */
	while (user && user->slot_died && (slot = urxe_segment_dead_take(urxe_hca.seg)))
		user->slot_died(slot);
}
