/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Moderation of completion events (ibv_modify_cq(3)): an armed CQ raises its event with the
 * cq_count-th completion that is one for it, or cq_period microseconds after the first. Without
 * both it raises it with the first. Under the engine lock, unless said otherwise.
 */
#ifndef URXE_HCA_MODERATION_H
#define URXE_HCA_MODERATION_H

#include "hca/engine.h"

/* A completion that an armed CQ has an event for: true, and the event
 * comes later. cq->lock, too. */
bool urxe_moderation_waits(struct urxe_cq *cq);
/* The CQ raises no events any more. */
void urxe_moderation_forget(struct urxe_cq *cq);
/* Raises the events that are due; and when the next one is, UINT64_MAX: none waits. */
void urxe_moderation_run(uint64_t now);
uint64_t urxe_moderation_deadline(void);
/* An event that waits is raised. Takes the lock. */
void urxe_moderation_set(struct urxe_cq *cq, const struct ibv_moderate_cq *to);
/* In the child of a fork. */
void urxe_moderation_forked(void);

#endif
