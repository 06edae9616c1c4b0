/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Within XRC: xrc_domain.c has the domains, xrc.c SRQs and target QPs of this process, xrc_loan.c
 * requests whose SRQ is another process's, xrc_open.c handles of target QPs.
 */
#ifndef URXE_HCA_XRC_PRIVATE_H
#define URXE_HCA_XRC_PRIVATE_H

#include "hca/engine.h"
#include "hca/xrc.h"

/* What all handles of a domain in this process share. */
struct xrc_domain {
	struct cds_list_head node;
	uint64_t dev, ino; /* of its file; 0, 0: it has none, and no other process has it */
	int fd;		   /* of the file, locked; -1 */
	unsigned handles;
	struct cds_list_head targets; /* QPs, by xrc_node, also borrowed ones. Engine lock. */
};

struct urxe_xrcd {
	struct ibv_xrcd ibv;
	struct xrc_domain *domain;
	atomic_int users; /* SRQs and target QPs */
	/* Of a target QP between requests. */
	struct ibv_pd *pd;
	struct ibv_cq *cq;
};

static inline struct urxe_xrcd *to_xrcd(struct ibv_xrcd *xrcd)
{
	return caa_container_of(xrcd, struct urxe_xrcd, ibv);
}

void xrc_domains_forked(void);
void xrc_loans_forked(void);
void xrc_openers_forked(void);

/* The SRQ of this process that has a number; NULL. Engine lock. */
struct urxe_srq *xrc_find_srq(uint32_t number);
/* A request for an SRQ of this process, to a QP of that domain: carried out. Engine lock. */
void xrc_take_request(struct urxe_qp *qp, const struct xrc_domain *domain,
		      const struct urxe_packet *pkt);
/*
 * A request that was not taken here, because its SRQ is another process's, or because one before it
 * is still with that: true. Engine lock.
 */
bool xrc_lend(struct urxe_qp *qp, const struct urxe_packet *pkt, const struct urxe_rx_packet *rx);
/* Requests that wait are lent, or taken, when those before them have been answered. */
void xrc_lend_next(struct urxe_qp *qp);

/* Messages begin with their kind: those of xrc_open.c. */
enum { XRC_CALL = 16, XRC_ANSWER };
void xrc_open_message(unsigned from, const void *bytes, uint32_t len);
/* A target QP ends: handles that others have of it lead nowhere. Engine lock. */
void xrc_forget_openers(const struct urxe_qp *qp);
void xrc_openers_housekeep(void);
/* A handle of a target QP; NULL and errno. Without the engine lock. */
struct urxe_qp *xrc_open(struct ibv_context *context, const struct ibv_qp_open_attr *attr);

#endif
