/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * RC QPs of processes that have died (dead_qp.h): their records, and the answers in their place.
 */
#include <stdlib.h>
#include <string.h>

#include "hca/dead_qp.h"
#include "hca/engine.h"
#include "hca/responder.h"
#include "host/segment_records.h"
#include "wire/opcode.h"

#define KEEP_NS	  1000000000ull
#define REPEAT_NS 250000000ull /* the NAK may be lost */
#define FIRST_NS  100000000ull /* a DREQ, which says more, shall be there first */
#define ANSWERS	  4
#define BUCKETS	  256

struct qp_record {
	struct urxe_path path;
	uint32_t qpn, dest_qpn;
	uint32_t expected; /* PSN; kept up to date in place */
	uint16_t pkey;
	uint8_t migreq; /* 0: its packets had none, URXE_BTH_MIGREQ */
	uint8_t zero;
};
_Static_assert(sizeof(struct qp_record) == 64, "shared between processes");

struct dead_qp {
	struct cds_list_head node;
	struct qp_record was;
	unsigned answers;	   /* still to be sent unasked */
	uint64_t answer_at, until; /* ns */
};

static struct cds_list_head buckets[BUCKETS];
static unsigned num_dead;

/* ---- of this process ---- */

void urxe_dead_qp_record(struct urxe_qp *qp)
{
	struct qp_record rec = {
		.path = qp->proto.path,
		.qpn = qp->proto.qpn,
		.dest_qpn = qp->proto.attr.dest_qp_num,
		.expected = qp->proto.epsn,
		.pkey = urxe_qp_pkey(qp),
		.migreq = qp->proto.migreq,
	};
	uint8_t bytes[URXE_RECORD_BYTES] = {0}, *at;

	urxe_dead_qp_forget(qp);
	memcpy(bytes, &rec, sizeof(rec));
	if (urxe_segment_records_put(urxe_hca.seg, URXE_RECORD_QP, bytes, &qp->record))
		return;
	at = urxe_segment_record(urxe_hca.seg, qp->record);
	qp->shown_epsn = (uint32_t *)(at + offsetof(struct qp_record, expected));
}

void urxe_dead_qp_forget(struct urxe_qp *qp)
{
	if (!qp->shown_epsn)
		return;
	qp->shown_epsn = NULL;
	urxe_segment_records_clear(urxe_hca.seg, qp->record);
}

/* ---- of others ---- */

static void answer(struct dead_qp *dead, uint32_t psn)
{
	struct urxe_tx_packet pkt = {.header_len = URXE_ACK_LEN};

	urxe_bth_fill((struct urxe_bth *)pkt.header, URXE_RC_ACKNOWLEDGE, dead->was.migreq, 0,
		      dead->was.pkey, dead->was.dest_qpn, false, psn);
	urxe_aeth_fill((struct urxe_aeth *)(pkt.header + sizeof(struct urxe_bth)),
		       URXE_AETH_NAK | URXE_NAK_REMOTE_OPERATIONAL, 0);
	urxe_wire_send(urxe_hca.wire, &dead->was.path, &pkt, 1);
}

static struct cds_list_head *bucket(uint32_t qpn)
{
	struct cds_list_head *head = &buckets[(qpn >> 8 ^ qpn) % BUCKETS];

	if (!head->next)
		CDS_INIT_LIST_HEAD(head);
	return head;
}

/* Is its peer a process of this host that is dead as well? */
static bool both_dead(const struct qp_record *rec)
{
	return urxe_link_of(&rec->path)->is_here(&rec->path) &&
	       !urxe_segment_slot_alive(urxe_hca.seg, urxe_owner_of(urxe_hca.seg, rec->dest_qpn));
}

static void adopt(const uint8_t *bytes, void *arg)
{
	struct dead_qp *dead = calloc(1, sizeof(*dead));

	if (!dead)
		return;
	memcpy(&dead->was, bytes, sizeof(dead->was));
	if (!urxe_adapter_adopt(&dead->was.path) || both_dead(&dead->was)) {
		free(dead);
		return;
	}
	dead->was.migreq &= URXE_BTH_MIGREQ;
	dead->was.dest_qpn &= URXE_QPN_MASK;
	dead->was.expected &= URXE_PSN_MASK;
	dead->answers = ANSWERS;
	dead->answer_at = urxe_hca.now + FIRST_NS;
	dead->until = urxe_hca.now + KEEP_NS;
	cds_list_add(&dead->node, bucket(dead->was.qpn));
	num_dead++;
}

void urxe_dead_qp_adopt(void)
{
	urxe_segment_records_walk(urxe_hca.seg, URXE_RECORD_QP, adopt, NULL);
}

void urxe_dead_qp_packet(const struct urxe_packet *pkt, const struct urxe_rx_packet *rx)
{
	uint32_t qpn = urxe_bth_qpn(pkt->bth), psn = urxe_bth_psn(pkt->bth);
	struct dead_qp *dead;

	if (!num_dead || (pkt->opcode & URXE_SERVICE_MASK) != URXE_SERVICE_RC ||
	    !urxe_op_any(pkt->mask, URXE_OP_REQUEST))
		return;
	cds_list_for_each_entry (dead, bucket(qpn), node) {
		if (dead->was.qpn != qpn || !urxe_same_addr(&rx->path.src, &dead->was.path.dst))
			continue;
		/* One asked for again has an answer that cannot be given any more. */
		if (urxe_psn_diff(psn, dead->was.expected) < 0 &&
		    urxe_op_any(pkt->mask, URXE_OP_ANSWERED))
			answer(dead, psn);
		else
			answer(dead, dead->was.expected);
		return;
	}
}

static void drop(struct dead_qp *dead)
{
	cds_list_del(&dead->node);
	free(dead);
	num_dead--;
}

unsigned urxe_dead_qp_run(uint64_t now)
{
	struct dead_qp *dead, *next;

	for (unsigned i = 0; num_dead && i < BUCKETS; i++) {
		cds_list_for_each_entry_safe (dead, next, bucket(i << 8), node) {
			if (now >= dead->until) {
				drop(dead);
			} else if (dead->answers && now >= dead->answer_at) {
				dead->answers--;
				dead->answer_at = now + REPEAT_NS;
				answer(dead, dead->was.expected);
			}
		}
	}
	return num_dead;
}

void urxe_dead_qp_clear(void)
{
	urxe_dead_qp_run(UINT64_MAX);
}
