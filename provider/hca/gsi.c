// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * QP 1 and its users, one for each management class (gsi.h), and what is for the agents
 * of programs (host/mad_agent.h). Everything here is guarded by the engine lock and runs
 * in whichever thread has it.
 *
 * A process without users may be given a MAD all the same: the kernel hashes, and would give it
 * every repetition too. It passes it on to one that has some, which knows (or finds in the segment)
 * the process that it concerns.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/mad.h"
#include "hca/dead_qp.h"
#include "hca/engine.h"
#include "hca/gsi.h"
#include "host/mad_agent.h"
#include "host/segment_records.h"
#include "wire/opcode.h"

_Static_assert(URXE_GSI_QPN == URXE_QPN_GSI, "one number");

static const struct urxe_gsi_user *users[URXE_GSI_USERS];
static unsigned num_users;
static uint32_t next_psn;
static unsigned last_server; /* the process that the last MAD was passed on to */

/* A MAD to be sent. One that no ring had room for, on a link layer without other ways, waits until
 * there is, as in an adapter's send queue. */
struct outgoing {
	struct cds_list_head node;
	struct urxe_path path;
	uint16_t pkey;
	unsigned slot;
	uint32_t qpn, qkey;
	uint8_t mad[URXE_MAD_BYTES];
};
#define WAITING_MOST 16384
#define WAITING_NS   100000 /* until the next try */

static CDS_LIST_HEAD(waiting);
static unsigned num_waiting;
static uint64_t try_at;

static void drop(struct outgoing *w)
{
	cds_list_del(&w->node);
	free(w);
	num_waiting--;
}

static void drop_waiting(void)
{
	struct outgoing *w, *next;

	cds_list_for_each_entry_safe (w, next, &waiting, node)
		drop(w);
}

static const struct urxe_gsi_user *user_of(uint8_t mgmt_class)
{
	for (unsigned i = 0; i < num_users; i++)
		if (users[i]->mgmt_class == mgmt_class)
			return users[i];
	return NULL;
}

int urxe_gsi_register(const struct urxe_gsi_user *user)
{
	if (user_of(user->mgmt_class))
		return -EBUSY;
	if (num_users == URXE_GSI_USERS)
		return -ENOSPC;
	users[num_users++] = user;
	urxe_gsi_started();
	return 0;
}

void urxe_gsi_unregister(const struct urxe_gsi_user *user)
{
	for (unsigned i = 0; i < num_users; i++)
		if (users[i] == user)
			users[i--] = users[--num_users];
	if (!num_users)
		drop_waiting();
	urxe_gsi_started();
}

void urxe_gsi_started(void)
{
	bool serves = false;

	if (!urxe_hca.seg)
		return;
	for (unsigned i = 0; i < num_users; i++)
		serves = serves || (users[i]->receive && users[i]->mgmt_class);
	urxe_segment_gsi_set(urxe_hca.seg, serves);
	/* Renews the steering. */
	urxe_wire_housekeep(urxe_hca.wire);
}

void urxe_gsi_forked(void)
{
	num_users = 0;
	drop_waiting();
}

/* The one of the port's P_Keys that is of a partition; the first one, if none is. */
static uint16_t pkey_in(const struct urxe_path *path, uint16_t partition)
{
	const struct urxe_port *port = urxe_port(path->port);
	int index = port ? urxe_port_partition(port, partition) : -1;

	if (!port)
		return URXE_PKEY_DEFAULT;
	return urxe_port_pkey(port, index < 0 ? 0 : index);
}

static int send_near(const struct urxe_path *path, unsigned slot, const struct urxe_tx_packet *pkt)
{
	struct urxe_path near = *path;

	near.here = true;
	return urxe_wire_send_near(urxe_hca.wire, &near, slot, pkt, urxe_now_coarse());
}

/* -ENOBUFS: there is no room now, but will be. */
static int transmit(const struct outgoing *w)
{
	bool patient = !urxe_link_of(&w->path)->has_other_ways;
	struct iovec iov = {(void *)w->mad, URXE_MAD_BYTES};
	struct urxe_tx_packet pkt = {
		.header_len = sizeof(struct urxe_bth) + sizeof(struct urxe_deth),
		.iov = &iov,
		.iovcnt = 1,
		.payload_len = URXE_MAD_BYTES,
	};
	struct urxe_deth deth;
	struct urxe_bth bth;
	int ret;

	urxe_bth_fill(&bth, URXE_UD_SEND_ONLY, URXE_BTH_MIGREQ, 0, pkey_in(&w->path, w->pkey),
		      w->qpn, false, next_psn++);
	urxe_deth_fill(&deth, w->qkey, URXE_GSI_QPN);
	memcpy(pkt.header, &bth, sizeof(bth));
	memcpy(pkt.header + sizeof(bth), &deth, sizeof(deth));
	ret = w->slot ? send_near(&w->path, w->slot, &pkt) : -ESRCH;
	if (!ret || (ret == -ENOBUFS && patient))
		return ret;
	ret = urxe_wire_send(urxe_hca.wire, &w->path, &pkt, 1);
	if (!ret && patient)
		return -ENOBUFS;
	return ret < 0 ? ret : 0;
}

/* Those for a process whose ring is full are passed over. */
static void send_waiting(void)
{
	unsigned full = UINT_MAX;
	struct outgoing *w, *next;

	cds_list_for_each_entry_safe (w, next, &waiting, node) {
		if (w->slot == full)
			continue;
		if (urxe_hca.wire && transmit(w) == -ENOBUFS)
			full = w->slot;
		else
			drop(w);
	}
	try_at = urxe_hca.now + WAITING_NS;
}

static void keep(const struct outgoing *packet)
{
	struct outgoing *w = num_waiting < WAITING_MOST ? malloc(sizeof(*w)) : NULL;

	if (!w)
		return;
	*w = *packet;
	cds_list_add_tail(&w->node, &waiting);
	if (!num_waiting++)
		try_at = urxe_hca.now + WAITING_NS;
}

int urxe_gsi_send_qp(const struct urxe_path *path, uint16_t pkey, unsigned slot, uint32_t qpn,
		     uint32_t qkey, const uint8_t mad[URXE_MAD_BYTES])
{
	struct outgoing w = {.path = *path, .pkey = pkey, .slot = slot, .qpn = qpn, .qkey = qkey};
	int ret;

	memcpy(w.mad, mad, sizeof(w.mad));
	ret = urxe_hca.wire ? transmit(&w) : -ENODEV;
	if (ret != -ENOBUFS)
		return ret;
	keep(&w);
	return 0;
}

int urxe_gsi_send(const struct urxe_path *path, uint16_t pkey, unsigned slot,
		  const uint8_t mad[URXE_MAD_BYTES])
{
	return urxe_gsi_send_qp(path, pkey, slot, URXE_GSI_QPN, URXE_GSI_QKEY, mad);
}

int urxe_gsi_forward(const struct urxe_gsi_rx *rx, unsigned slot)
{
	return urxe_hca.wire ? urxe_wire_forward(urxe_hca.wire, slot, rx->rx) : -ENODEV;
}

int urxe_gsi_forward_all(const struct urxe_gsi_rx *rx)
{
	return urxe_hca.wire ? urxe_wire_forward_all(urxe_hca.wire, rx->rx) : -ENODEV;
}

/* To the processes that have users, in turn: one may be stopped, and the sender will try again. */
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

/* QP 1 is in all partitions of the port (10.9.8). */
static bool takes_pkey(const struct urxe_port *port, uint16_t pkey)
{
	for (unsigned i = 0; i < port->pkey_len; i++)
		if (urxe_pkeys_match(urxe_port_pkey(port, i), pkey))
			return true;
	return false;
}

/* A question that nobody on this host serves. */
static void answer_unmatched(const struct urxe_gsi_rx *rx)
{
	uint8_t mad[URXE_MAD_BYTES];
	struct urxe_path back;

	memcpy(mad, rx->mad, sizeof(mad));
	if (!urxe_port(rx->rx->path.port) || !mad_make_unmatched(mad))
		return;
	urxe_link_of(&rx->rx->path)->reverse(&back, &rx->rx->path);
	urxe_gsi_send_qp(&back, rx->pkey, 0, rx->src_qpn, URXE_GSI_QKEY, mad);
}

/* A class without a user in this process: a program's agent here or in another one. */
static void to_agent(const struct urxe_gsi_rx *rx)
{
	const struct urxe_gsi_user *agents = user_of(URXE_GSI_ANY_CLASS);
	const struct urxe_port *port = urxe_port(rx->rx->path.port);
	unsigned slot = 0;

	if (port)
		slot = urxe_mad_agent_owner(urxe_hca.seg, urxe_port_ifindex(port), rx->mad);
	if (slot && slot == urxe_segment_slot(urxe_hca.seg)) {
		if (agents)
			agents->receive(rx);
	} else if (!slot || urxe_gsi_forward(rx, slot) == -ESRCH) {
		answer_unmatched(rx);
	}
}

void urxe_gsi_packet(const struct urxe_packet *pkt, const struct urxe_rx_packet *rx)
{
	const struct urxe_port *port = urxe_port(rx->path.port);
	struct urxe_gsi_rx mad = {.mad = pkt->payload, .rx = rx, .pkey = urxe_bth_pkey(pkt->bth)};
	const struct urxe_gsi_user *user;

	if (pkt->opcode != URXE_UD_SEND_ONLY || pkt->payload_len != URXE_MAD_BYTES ||
	    urxe_deth_qkey(pkt->deth) != URXE_GSI_QKEY || rx->path.multicast ||
	    (port && !takes_pkey(port, mad.pkey)))
		return;
	mad.src_qpn = urxe_deth_sqp(pkt->deth);
	user = user_of(mad.mad[MAD_CLASS]);
	if (user && user->receive)
		user->receive(&mad);
	else if (mad.mad[MAD_CLASS] == CLASS_CM)
		pass_on(rx);
	else
		to_agent(&mad);
}

uint64_t urxe_gsi_deadline(void)
{
	uint64_t deadline = num_waiting ? try_at : UINT64_MAX;

	for (unsigned i = 0; i < num_users; i++) {
		uint64_t at = users[i]->deadline ? users[i]->deadline() : UINT64_MAX;

		if (at < deadline)
			deadline = at;
	}
	return deadline;
}

void urxe_gsi_run(uint64_t now)
{
	if (num_waiting && try_at <= now)
		send_waiting();
	for (unsigned i = 0; i < num_users; i++)
		if (users[i]->run && users[i]->deadline && users[i]->deadline() <= now)
			users[i]->run(now);
}

void urxe_gsi_dropped(unsigned port)
{
	urxe_count(urxe_port(port), URXE_CNT_QP1_DROPPED);
}

void urxe_gsi_port_event(struct urxe_port *port, enum ibv_event_type event)
{
	for (unsigned i = 0; i < num_users; i++)
		if (users[i]->port_event)
			users[i]->port_event(port, event);
}

/* Without a user that asks for them, another process takes the dead. */
void urxe_gsi_housekeep(void)
{
	for (unsigned i = 0; i < num_users; i++) {
		unsigned slot;

		while (users[i]->slot_died && (slot = urxe_segment_dead_take(urxe_hca.seg))) {
			urxe_dead_qp_adopt();
			users[i]->slot_died(slot);
		}
	}
	urxe_dead_qp_run(urxe_hca.now);
}
