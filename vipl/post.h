/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Descriptors, checked and given to the device. Called with the lock of the queue's CQ. */
#ifndef VIPL_POST_H
#define VIPL_POST_H

#include "vipl/queue.h"

/* A descriptor as work for the device. */
struct vipl_work {
	unsigned control;
	uint32_t length;
	uint32_t immediate;
	uint32_t rkey;
	uint64_t remote_addr;
	unsigned count; /* of sge */
	struct ibv_sge sge[VIPL_MAX_SEGMENTS];
};

/* Not a status: the descriptor cannot even be told that it is wrong. */
#define VIPL_UNPOSTABLE 0xffffffffu

/*
 * Checks a descriptor and fills in the work that it is. 0; VIPL_UNPOSTABLE: it is not aligned, or
 * not in memory of that handle that the VI may use; or the error bits of its status.
 */
uint32_t vipl_descriptor_read(struct vipl_queue *queue, const VIP_DESCRIPTOR *descriptor,
			      VIP_MEM_HANDLE handle, struct vipl_work *work);

/*
 * MPA forbids the responder to send before something has come from the initiator, and the kernel's
 * siw breaks such a connection. So the initiator greets, on iWARP; the responder is connected when
 * the greeting has come, and returns it; then the initiator is connected, too. The receive for a
 * greeting is posted before all others. -errno.
 */
int vipl_post_greeting(struct vipl_vi *vi);
int vipl_post_greeting_recv(struct vipl_vi *vi);

/*
 * siw does not look at what comes while it still accepts until something more comes: an RDMA write
 * of no bytes, which takes no receive.
 */
void vipl_post_knock(struct vipl_vi *vi);

/* Gives the descriptors of a receive queue that has held them to the QP. */
void vipl_post_held(struct vipl_queue *queue);
/* One of them is not the QP's any more. */
void vipl_post_take_back(struct vipl_queue *queue, struct vipl_slot *slot);

#endif
