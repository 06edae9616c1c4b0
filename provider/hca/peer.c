/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The window towards a peer address: how many bytes all QPs of this process together may have in
 * flight to it. A receiver's socket buffer may be as small as 208 KiB and is shared by all its
 * senders; RoCE has no credits across QPs, so the window finds out by loss, as TCP does: it doubles
 * per round trip until the first loss, then grows by a packet per round trip, and is halved by a
 * loss, at most once per round trip. Neighbours have rings that say when they are full, and need no
 * window. Under the engine lock.
 */
#include <stdlib.h>
#include <string.h>

#include "hca/engine.h"
#include "hca/peer.h"

#define WINDOW_INITIAL (64u << 10)
#define WINDOW_MIN     (8u << 10)
#define WINDOW_MAX     (1u << 20)
#define CUT_INTERVAL   200000ull /* ns; where no round trip was measured yet */

static struct cds_list_head *bucket(const struct urxe_link_addr *addr)
{
	uint64_t h = (addr->word[0] ^ addr->word[1]) * 0x9e3779b97f4a7c15ull;

	return &urxe_hca.peers[h >> 58];
}

struct urxe_peer *urxe_peer_get(const struct urxe_link_addr *addr)
{
	struct cds_list_head *head = bucket(addr);
	struct urxe_peer *peer;

	cds_list_for_each_entry (peer, head, node) {
		if (urxe_same_addr(&peer->addr, addr)) {
			peer->users++;
			return peer;
		}
	}
	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return NULL;
	peer->addr = *addr;
	peer->users = 1;
	peer->window = WINDOW_INITIAL;
	peer->threshold = WINDOW_MAX;
	CDS_INIT_LIST_HEAD(&peer->waiting);
	cds_list_add(&peer->node, head);
	return peer;
}

void urxe_peer_put(struct urxe_peer *peer)
{
	if (--peer->users)
		return;
	cds_list_del(&peer->node);
	free(peer);
}

/* A QP that has nothing in flight may always send: a window can be full of others' packets. */
bool urxe_peer_admits(struct urxe_qp *qp)
{
	return !qp->peer || qp->near || !qp->in_flight || qp->peer->in_flight < qp->peer->window;
}

void urxe_peer_sent(struct urxe_qp *qp, uint64_t bytes)
{
	if (!qp->peer || qp->near)
		return;
	qp->in_flight += bytes;
	qp->peer->in_flight += bytes;
}

void urxe_peer_wait(struct urxe_qp *qp)
{
	if (qp->waiting)
		return;
	qp->waiting = true;
	cds_list_add_tail(&qp->wait_node, &qp->peer->waiting);
}

static void give_back(struct urxe_qp *qp, uint64_t bytes)
{
	struct urxe_peer *peer = qp->peer;

	if (bytes > qp->in_flight)
		bytes = qp->in_flight;
	qp->in_flight -= bytes;
	peer->in_flight -= bytes;
	while (peer->in_flight < peer->window && !cds_list_empty(&peer->waiting)) {
		struct urxe_qp *next =
			cds_list_first_entry(&peer->waiting, struct urxe_qp, wait_node);

		cds_list_del(&next->wait_node);
		next->waiting = false;
		urxe_engine_ready(next);
		/* One at a time, unless much is free: each will take what it can. */
		if (peer->window - peer->in_flight < WINDOW_MIN)
			break;
	}
}

void urxe_peer_acked(struct urxe_qp *qp, uint64_t bytes)
{
	struct urxe_peer *peer = qp->peer;

	if (!peer || qp->near)
		return;
	/* Grow only when the window was in use; one that is not needed proves nothing. */
	if (peer->in_flight * 2 >= peer->window) {
		if (peer->window < peer->threshold)
			peer->window += bytes;
		else
			peer->window += URXE_MAX_PAYLOAD * bytes / peer->window + 1;
		if (peer->window > WINDOW_MAX)
			peer->window = WINDOW_MAX;
	}
	give_back(qp, bytes);
}

void urxe_peer_lost(struct urxe_qp *qp, bool timeout)
{
	struct urxe_peer *peer = qp->peer;
	uint64_t interval;

	if (!peer || qp->near)
		return;
	interval = peer->rtt ? peer->rtt : CUT_INTERVAL;
	if (urxe_hca.now - peer->cut_at < interval)
		return;
	peer->cut_at = urxe_hca.now;
	/* Nothing has come back yet, so it may be that the way is long or the peer slow, and
	 * not that it was too much. */
	if (!timeout || peer->rtt)
		peer->threshold = peer->window / 2 > WINDOW_MIN ? peer->window / 2 : WINDOW_MIN;
	peer->window = timeout ? WINDOW_MIN : peer->threshold;
}

void urxe_peer_forget(struct urxe_qp *qp)
{
	if (!qp->peer)
		return;
	if (qp->waiting) {
		qp->waiting = false;
		cds_list_del(&qp->wait_node);
	}
	give_back(qp, qp->in_flight);
}
