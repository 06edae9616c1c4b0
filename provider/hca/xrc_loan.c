/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * XRC requests whose SRQ is another process's than the target QP. Packets reach the process that
 * made the QP. It lends the responder's state to the process that has the SRQ, with the packets
 * that are for that; the borrower carries them out, answers the initiator, and returns the state.
 * Meanwhile packets that come wait in order. So there is one responder at any time, and each
 * operation is carried out where its memory is.
 *
 *	initiator ── packets ──> owner ── LEND: state, packets ──> borrower
 *	    ^                      ^ <────── RETURN: state ──────────┘ │
 *	    └──── acknowledgements, data of reads ─────────────────────┘
 *
 * Messages go by urxe_wire_send_message(). A LEND that is not answered is repeated; its turn tells
 * the borrower that it has answered it already. A borrower keeps its copy of the QP, because a
 * message that has begun has a receive WR there, until the owner says DROP or dies.
 *
 * The owner sends an acknowledgement when the state that it is for has come back: if the borrower
 * dies before, owner and initiator still agree on what has been carried out. Only answers to reads
 * and atomics are sent by the borrower. Under the engine lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hca/direct.h"
#include "hca/responder.h"
#include "hca/xrc_private.h"

#define MOST_WAITING (1u << 20) /* bytes of packets; others are lost, and repeated */
#define REPEAT_NS    1000000000ull
#define LOOK_NS	     10000000ull /* after which a packet makes the owner look for the borrower */
#define BUCKETS	     64

enum kind { LEND = 1, RETURN, DROP };

/* What changes with a request. */
struct state {
	uint64_t va; /* of the RDMA WRITE under way */
	uint32_t rkey, left, total;
	uint32_t epsn, msn, executed_psn;
	uint32_t last_opcode; /* enum urxe_opcode */
	uint32_t busy;	      /* the borrower's SRQ that a message is being received by; 0 */
	uint32_t ack_psn;
	uint8_t ack_syndrome;
	uint8_t ack_due; /* in a RETURN: the owner is to acknowledge ack_psn */
	uint8_t nak_sent;
	uint8_t failed; /* the QP is in error, */
	uint8_t event;	/* with this event; 0 */
	uint8_t zero[7];
};

struct message {
	uint32_t kind, qpn;
	uint64_t turn;
	uint64_t dev, ino; /* of the domain */
	struct urxe_path path;
	uint32_t dest_qpn, mtu, access;
	uint16_t pkey;
	uint8_t min_rnr_timer, max_dest_rd_atomic;
	uint8_t migreq; /* of its packets' headers */
	uint8_t zero[7];
	struct state state;
};

/* A packet that waits, or behind a LEND. In bytes of a multiple of 4, which follow. */
struct packet_head {
	uint32_t len;
	uint16_t span;
	uint16_t zero;
};

struct waiting {
	struct cds_list_head node;
	uint32_t srqn;
	struct packet_head head;
	uint8_t bytes[];
};

struct urxe_xrc_loan {
	struct cds_list_head node; /* in lent, while it is */
	struct urxe_qp *qp;
	struct cds_list_head packets; /* struct waiting */
	uint32_t bytes;
	unsigned slot; /* of the borrower; 0: the state is here */
	uint32_t life;
	uint64_t turn, asked_at;
	uint32_t busy; /* as above */
	struct message *sent;
	uint32_t sent_len;
	uint64_t borrowers[URXE_MAX_SLOTS / 64]; /* a bit for each slot that has a copy */
};

struct borrowed {
	struct cds_list_head node;
	unsigned owner;
	uint32_t life;
	bool working;
	uint8_t event;
	struct message reply; /* to the last turn */
	uint16_t pkey;
	struct urxe_qp qp;
};

static CDS_LIST_HEAD(lent);
static struct cds_list_head borrowed[BUCKETS];

static void tell(unsigned slot, const struct message *message, uint32_t len)
{
	urxe_wire_send_message(urxe_hca.wire, slot, message, len);
}

/* ---- the owner ---- */

static bool is_elsewhere(const struct urxe_qp *qp, uint32_t srqn)
{
	unsigned slot = urxe_owner_of(urxe_hca.seg, srqn);

	return slot && slot != urxe_segment_slot(urxe_hca.seg) && qp->xrcd->domain->ino;
}

static struct urxe_xrc_loan *loan_of(struct urxe_qp *qp)
{
	if (!qp->loan)
		qp->loan = calloc(1, sizeof(*qp->loan));
	if (qp->loan && !qp->loan->qp) {
		qp->loan->qp = qp;
		qp->loan->turn = urxe_hca.now; /* none of a former QP of that number */
		CDS_INIT_LIST_HEAD(&qp->loan->node);
		CDS_INIT_LIST_HEAD(&qp->loan->packets);
	}
	return qp->loan;
}

/* A copy of all of it, headers as they have been checked, and with what lies in the sender's
 * memory. */
static struct waiting *copy_packet(const struct urxe_packet *pkt, const struct urxe_rx_packet *rx)
{
	uint32_t head = pkt->payload - rx->bytes, pad = urxe_pad_of(pkt->payload_len);
	uint32_t len = head + pkt->payload_len + pad;
	struct waiting *w = malloc(sizeof(*w) + len);
	struct iovec iov;

	if (!w)
		return NULL;
	memcpy(w->bytes, rx->bth, head);
	memset(w->bytes + len - pad, 0, pad);
	urxe_bth_set_pad((struct urxe_bth *)w->bytes, pad);
	iov = (struct iovec){w->bytes + head, pkt->payload_len};
	if (!pkt->refs) {
		memcpy(iov.iov_base, pkt->payload, iov.iov_len);
	} else if (urxe_direct_pull(pkt->refs, 0, &iov, 1, iov.iov_len)) {
		free(w);
		return NULL;
	}
	w->srqn = urxe_xrceth_srqn(pkt->xrceth);
	w->head = (struct packet_head){.len = len, .span = pkt->span};
	return w;
}

static void drop_waiting(struct urxe_xrc_loan *loan, struct waiting *w)
{
	loan->bytes -= w->head.len;
	cds_list_del(&w->node);
	free(w);
}

static struct waiting *first_waiting(struct urxe_xrc_loan *loan)
{
	return cds_list_empty(&loan->packets)
		       ? NULL
		       : cds_list_first_entry(&loan->packets, struct waiting, node);
}

static void put_state(const struct urxe_qp_protocol *p, struct state *s)
{
	*s = (struct state){
		.va = p->write.va,
		.rkey = p->write.rkey,
		.left = p->write.left,
		.total = p->write.total,
		.epsn = p->epsn,
		.msn = p->msn,
		.executed_psn = p->executed_psn,
		.last_opcode = p->last_opcode,
		.nak_sent = p->nak_sent,
	};
}

static void get_state(struct urxe_qp_protocol *p, const struct state *s)
{
	p->write.va = s->va;
	p->write.rkey = s->rkey;
	p->write.left = s->left;
	p->write.total = s->total;
	p->epsn = s->epsn & URXE_PSN_MASK;
	p->msn = s->msn & URXE_PSN_MASK;
	p->executed_psn = s->executed_psn & URXE_PSN_MASK;
	p->last_opcode = s->last_opcode < URXE_NUM_OPCODES ? s->last_opcode : URXE_NUM_OPCODES;
	p->nak_sent = s->nak_sent;
}

static void move_ack(struct urxe_qp_protocol *p, struct state *s)
{
	s->ack_due = p->ack_due;
	s->ack_syndrome = p->ack_syndrome;
	s->ack_psn = p->ack_psn;
	p->ack_due = false;
}

static void get_ack(struct urxe_qp_protocol *p, const struct state *s)
{
	if (!s->ack_due)
		return;
	p->ack_due = true;
	p->ack_syndrome = s->ack_syndrome;
	p->ack_psn = s->ack_psn & URXE_PSN_MASK;
}

static void fill_lend(const struct urxe_qp *qp, struct message *m)
{
	const struct urxe_qp_protocol *p = &qp->proto;

	*m = (struct message){
		.kind = LEND,
		.qpn = p->qpn,
		.turn = ++qp->loan->turn,
		.dev = qp->xrcd->domain->dev,
		.ino = qp->xrcd->domain->ino,
		.path = p->path,
		.dest_qpn = p->attr.dest_qp_num,
		.mtu = p->mtu,
		.access = p->attr.qp_access_flags,
		.pkey = urxe_qp_pkey(qp),
		.min_rnr_timer = p->attr.min_rnr_timer,
		.max_dest_rd_atomic = p->attr.max_dest_rd_atomic,
		.migreq = p->migreq,
	};
	put_state(p, &m->state);
	m->state.busy = qp->loan->busy;
}

/* Moves the first packets, those for one process, into a message. */
static uint32_t fill_packets(struct urxe_xrc_loan *loan, unsigned slot, uint8_t *to, uint32_t room)
{
	struct waiting *w;
	uint32_t len = 0;

	while ((w = first_waiting(loan)) && urxe_owner_of(urxe_hca.seg, w->srqn) == slot &&
	       sizeof(w->head) + w->head.len <= room - len) {
		memcpy(to + len, &w->head, sizeof(w->head) + w->head.len);
		len += sizeof(w->head) + w->head.len;
		drop_waiting(loan, w);
	}
	return len;
}
static_assert(offsetof(struct waiting, bytes) ==
		      offsetof(struct waiting, head) + sizeof(struct packet_head),
	      "they are copied together");

/* The responder of the packet's SRQ is refused one in the middle of another's message. */
static bool interrupts(const struct urxe_qp *qp, uint32_t srqn)
{
	return qp->proto.recv_busy || (qp->loan->busy && qp->loan->busy != srqn);
}

static void lend(struct urxe_qp *qp, unsigned slot)
{
	struct urxe_xrc_loan *loan = qp->loan;
	uint32_t room = sizeof(struct message) + loan->bytes +
			sizeof(struct packet_head) * (loan->bytes / sizeof(struct urxe_bth) + 1);
	struct message *m;

	room = room < URXE_MESSAGE_MAX ? room : URXE_MESSAGE_MAX;
	m = malloc(room);
	if (!m)
		return; /* the next packet tries again */
	fill_lend(qp, m);
	loan->sent = m;
	loan->sent_len =
		sizeof(*m) + fill_packets(loan, slot, (uint8_t *)(m + 1), room - sizeof(*m));
	loan->slot = slot;
	loan->life = urxe_segment_slot_life(urxe_hca.seg, slot);
	loan->asked_at = urxe_hca.now;
	loan->borrowers[slot / 64] |= 1ull << slot % 64;
	cds_list_add(&loan->node, &lent);
	tell(slot, m, loan->sent_len);
}

static void take_here(struct urxe_qp *qp, struct waiting *w)
{
	struct urxe_packet pkt;
	uint32_t psn = urxe_bth_psn((struct urxe_bth *)w->bytes);

	if (!urxe_packet_parse(w->bytes, w->head.len, &pkt)) {
		pkt.span = w->head.span;
		if (qp->loan->busy && psn == qp->proto.epsn)
			urxe_responder_refuse(qp, URXE_INVALID, psn);
		else
			xrc_take_request(qp, qp->xrcd->domain, &pkt);
	}
}

static bool is_failed(const struct urxe_qp *qp)
{
	return atomic_load(&qp->proto.state) == IBV_QPS_ERR;
}

void xrc_lend_next(struct urxe_qp *qp)
{
	struct urxe_xrc_loan *loan = qp->loan;
	struct waiting *w;

	while (!is_failed(qp) && !loan->slot && (w = first_waiting(loan))) {
		unsigned slot = urxe_owner_of(urxe_hca.seg, w->srqn);
		uint32_t psn = urxe_bth_psn((struct urxe_bth *)w->bytes);

		if (!is_elsewhere(qp, w->srqn)) {
			cds_list_del_init(&w->node);
			take_here(qp, w);
			drop_waiting(loan, w);
			continue;
		}
		/* Those of this process leave first: the run that sends them calls again. */
		if (urxe_answers_wait(qp))
			return;
		if (interrupts(qp, w->srqn) || !urxe_segment_slot_alive(urxe_hca.seg, slot)) {
			if (psn == qp->proto.epsn)
				urxe_responder_refuse(qp, URXE_INVALID, psn);
			else
				drop_waiting(loan, w);
			continue;
		}
		lend(qp, slot);
	}
}

static void take_back(struct urxe_xrc_loan *loan)
{
	cds_list_del_init(&loan->node);
	loan->slot = 0;
	free(loan->sent);
	loan->sent = NULL;
}

void urxe_xrc_end_loan(struct urxe_qp *qp)
{
	struct urxe_xrc_loan *loan = qp->loan;
	struct message drop = {.kind = DROP, .qpn = qp->proto.qpn};
	struct waiting *w;

	if (!loan)
		return;
	take_back(loan);
	loan->turn++;
	loan->busy = 0;
	while ((w = first_waiting(loan)))
		drop_waiting(loan, w);
	for (unsigned slot = 0; slot < URXE_MAX_SLOTS; slot++)
		if (loan->borrowers[slot / 64] >> slot % 64 & 1)
			tell(slot, &drop, sizeof(drop));
	memset(loan->borrowers, 0, sizeof(loan->borrowers));
}

static void returned(unsigned from, const struct message *m)
{
	struct urxe_qp *qp = urxe_engine_qp(m->qpn);
	struct urxe_xrc_loan *loan = qp ? qp->loan : NULL;

	if (!loan || loan->slot != from || loan->turn != m->turn)
		return;
	take_back(loan);
	get_state(&qp->proto, &m->state);
	loan->busy = m->state.busy;
	if (m->state.failed) {
		urxe_qp_fail(qp, m->state.event);
		return;
	}
	get_ack(&qp->proto, &m->state);
	urxe_responder_run(qp);
	xrc_lend_next(qp);
}

/* The borrower has died, or has not been heard of. */
static void look_after(struct urxe_xrc_loan *loan)
{
	struct urxe_qp *qp = loan->qp;

	if (urxe_segment_slot_life(urxe_hca.seg, loan->slot) != loan->life ||
	    !urxe_segment_slot_alive(urxe_hca.seg, loan->slot)) {
		take_back(loan);
		urxe_responder_refuse(qp, URXE_OPERATIONAL, qp->proto.epsn);
	} else if (urxe_hca.now - loan->asked_at >= REPEAT_NS) {
		loan->asked_at = urxe_hca.now;
		tell(loan->slot, loan->sent, loan->sent_len);
	}
}

bool xrc_lend(struct urxe_qp *qp, const struct urxe_packet *pkt, const struct urxe_rx_packet *rx)
{
	struct urxe_xrc_loan *loan = qp->loan;
	bool elsewhere = is_elsewhere(qp, urxe_xrceth_srqn(pkt->xrceth));
	struct waiting *w;

	if (!elsewhere && (!loan || (!loan->slot && !loan->busy && !first_waiting(loan))))
		return false;
	loan = loan_of(qp);
	w = loan && loan->bytes < MOST_WAITING ? copy_packet(pkt, rx) : NULL;
	if (!w)
		return true;
	cds_list_add_tail(&w->node, &loan->packets);
	loan->bytes += w->head.len;
	if (loan->slot && urxe_hca.now - loan->asked_at >= LOOK_NS)
		look_after(loan);
	else
		xrc_lend_next(qp);
	return true;
}

/* ---- the borrower ---- */

static struct cds_list_head *bucket(uint32_t qpn)
{
	return &borrowed[(qpn >> 8 ^ qpn) % BUCKETS];
}

static void give_back(struct borrowed *b)
{
	struct urxe_qp *qp = &b->qp;
	struct state *s = &b->reply.state;

	b->working = false;
	b->reply.kind = RETURN;
	put_state(&qp->proto, s);
	move_ack(&qp->proto, s);
	s->busy = qp->proto.recv_busy && qp->srq ? qp->srq->number : 0;
	s->failed = is_failed(qp);
	s->event = b->event;
	tell(b->owner, &b->reply, sizeof(b->reply));
}

static void borrowed_run(struct urxe_qp *qp)
{
	struct borrowed *b = caa_container_of(qp, struct borrowed, qp);

	if (!b->working)
		return;
	if (qp->proto.ack_due || urxe_answers_wait(qp))
		urxe_engine_ready(qp);
	else
		give_back(b);
}

static const struct urxe_transport borrowed_transport = {
	.type = IBV_QPT_XRC_RECV,
	.service = URXE_SERVICE_XRC,
	.reliable = true,
	.connected = true,
	.run = borrowed_run,
};

void urxe_xrc_event(struct urxe_qp *qp, enum ibv_event_type type)
{
	caa_container_of(qp, struct borrowed, qp)->event = type;
}

/* A message that has begun ends with the QP, as it does with an owner's. */
static void give_up(struct borrowed *b)
{
	struct urxe_qp *qp = &b->qp;

	b->working = false;
	urxe_qp_fail(qp, 0);
	urxe_engine_forget_qp(qp);
	cds_list_del(&qp->xrc_node);
	cds_list_del(&b->node);
	free(qp->recv_wqe);
	free(qp->responses);
	free(qp->atomics);
	free(b);
}

static struct borrowed *find_borrowed(unsigned owner, uint32_t qpn)
{
	struct borrowed *b;

	cds_list_for_each_entry (b, bucket(qpn), node)
		if (b->qp.proto.qpn == qpn && b->owner == owner)
			return b;
	return NULL;
}

static struct borrowed *new_borrowed(unsigned owner, const struct message *m)
{
	struct borrowed *b = calloc(1, sizeof(*b));
	struct urxe_qp *qp;

	if (!b)
		return NULL;
	qp = &b->qp;
	b->owner = owner;
	b->life = urxe_segment_slot_life(urxe_hca.seg, owner);
	qp->borrowed = true;
	qp->transport = &borrowed_transport;
	qp->pkey = &b->pkey;
	qp->proto.qpn = m->qpn;
	qp->proto.last_wqe_event = true;
	atomic_store(&qp->proto.state, IBV_QPS_RTR);
	CDS_INIT_LIST_HEAD(&qp->ready_node);
	CDS_INIT_LIST_HEAD(&qp->full_node);
	CDS_INIT_LIST_HEAD(&qp->held_node);
	CDS_INIT_LIST_HEAD(&qp->mcast);
	CDS_INIT_LIST_HEAD(&qp->xrc_node);
	qp->recv_wqe = malloc(sizeof(*qp->recv_wqe) + URXE_MAX_SGE * sizeof(struct ibv_sge));
	if (!qp->recv_wqe || urxe_qp_set_dest_rd_atomic(qp, m->max_dest_rd_atomic)) {
		free(qp->recv_wqe);
		free(b);
		return NULL;
	}
	cds_list_add(&b->node, bucket(m->qpn));
	return b;
}

static bool is_sound(const struct message *m)
{
	return m->qpn <= URXE_QPN_MASK && m->path.link < URXE_NUM_LINKS && m->mtu >= 256 &&
	       m->mtu <= URXE_MAX_PAYLOAD && !(m->mtu & (m->mtu - 1)) &&
	       m->max_dest_rd_atomic <= URXE_MAX_RD_ATOM;
}

/* False: its port is not one of this process's. */
static bool set_attributes(struct borrowed *b, const struct message *m)
{
	struct urxe_qp *qp = &b->qp;
	struct urxe_qp_protocol *p = &qp->proto;

	p->path = m->path;
	if (!urxe_adapter_adopt(&p->path))
		return false;
	qp->port = urxe_port(p->path.port);
	b->pkey = m->pkey;
	p->attr.dest_qp_num = m->dest_qpn & URXE_QPN_MASK;
	p->mtu = m->mtu;
	p->attr.qp_access_flags = m->access;
	p->attr.min_rnr_timer = m->min_rnr_timer & 31;
	p->migreq = m->migreq & URXE_BTH_MIGREQ;
	get_state(p, &m->state);
	return true;
}

static void take_packets(struct borrowed *b, const struct xrc_domain *domain, const uint8_t *bytes,
			 uint32_t len)
{
	struct packet_head head;
	struct urxe_packet pkt;

	while (len >= sizeof(head) && !is_failed(&b->qp)) {
		memcpy(&head, bytes, sizeof(head));
		bytes += sizeof(head);
		len -= sizeof(head);
		if (head.len > len)
			return;
		if (!urxe_packet_parse(bytes, head.len, &pkt) && pkt.xrceth &&
		    urxe_op_any(pkt.mask, URXE_OP_REQUEST)) {
			pkt.span = head.span ? head.span : 1;
			xrc_take_request(&b->qp, domain, &pkt);
		}
		bytes += head.len;
		len -= head.len;
	}
}

/* The domain of the SRQ that the first packet names, if it is the owner's too; NULL. */
static struct xrc_domain *domain_of(const struct message *m, const uint8_t *bytes, uint32_t len)
{
	const uint32_t at = sizeof(struct packet_head) + sizeof(struct urxe_bth);
	struct urxe_xrceth xrceth;
	struct urxe_srq *srq;

	if (len < at + sizeof(xrceth))
		return NULL;
	memcpy(&xrceth, bytes + at, sizeof(xrceth));
	srq = xrc_find_srq(urxe_xrceth_srqn(&xrceth));
	if (!srq || !m->ino || srq->xrcd->domain->ino != m->ino || srq->xrcd->domain->dev != m->dev)
		return NULL;
	return srq->xrcd->domain;
}

static void borrow(unsigned from, const struct message *m, const uint8_t *packets, uint32_t len)
{
	struct borrowed *b = find_borrowed(from, m->qpn);
	struct xrc_domain *domain = domain_of(m, packets, len);

	if (!is_sound(m))
		return;
	if (!b)
		b = new_borrowed(from, m);
	if (!b || b->working)
		return;
	if (b->reply.turn == m->turn) {
		tell(from, &b->reply, sizeof(b->reply));
		return;
	}
	b->reply = *m;
	b->working = true;
	if (!set_attributes(b, m)) {
		urxe_qp_fail(&b->qp, IBV_EVENT_QP_FATAL);
		borrowed_run(&b->qp);
		return;
	}
	if (domain) {
		cds_list_del(&b->qp.xrc_node);
		cds_list_add(&b->qp.xrc_node, &domain->targets);
	}
	take_packets(b, domain, packets, len);
	if (is_failed(&b->qp) || urxe_answers_wait(&b->qp)) {
		urxe_engine_send_ack(&b->qp);
		urxe_engine_ready(&b->qp);
	} else {
		give_back(b);
	}
}

/* ---- both ---- */

static void receive_message(unsigned from, const void *bytes, uint32_t len)
{
	struct message m;
	struct borrowed *b;

	if (len >= sizeof(m.kind)) {
		memcpy(&m.kind, bytes, sizeof(m.kind));
		if (m.kind >= XRC_CALL) {
			xrc_open_message(from, bytes, len);
			return;
		}
	}
	if (len < sizeof(m))
		return;
	memcpy(&m, bytes, sizeof(m));
	switch (m.kind) {
	case LEND: borrow(from, &m, (const uint8_t *)bytes + sizeof(m), len - sizeof(m)); break;
	case RETURN: returned(from, &m); break;
	case DROP:
		b = find_borrowed(from, m.qpn);
		if (b)
			give_up(b);
		break;
	}
}

void urxe_xrc_started(void)
{
	for (unsigned i = 0; i < BUCKETS; i++)
		CDS_INIT_LIST_HEAD(&borrowed[i]);
	urxe_wire_on_message(urxe_hca.wire, receive_message);
}

void urxe_xrc_housekeep(void)
{
	struct urxe_xrc_loan *loan, *next;
	struct borrowed *b, *following;

	xrc_openers_housekeep();
	cds_list_for_each_entry_safe (loan, next, &lent, node)
		look_after(loan);
	for (unsigned i = 0; i < BUCKETS; i++)
		cds_list_for_each_entry_safe (b, following, &borrowed[i], node)
			if (urxe_segment_slot_life(urxe_hca.seg, b->owner) != b->life ||
			    !urxe_segment_slot_alive(urxe_hca.seg, b->owner))
				give_up(b);
}

void urxe_xrc_stopped(void)
{
	struct borrowed *b, *next;

	for (unsigned i = 0; i < BUCKETS; i++)
		cds_list_for_each_entry_safe (b, next, &borrowed[i], node)
			give_up(b);
}

void xrc_loans_forked(void)
{
	CDS_INIT_LIST_HEAD(&lent);
	for (unsigned i = 0; i < BUCKETS; i++)
		CDS_INIT_LIST_HEAD(&borrowed[i]);
}
