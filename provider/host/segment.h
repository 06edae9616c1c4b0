/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The host segment: a file of shared memory (mode 0600, one per user and network namespace, named
 * by the namespace's inode; in $URXE_RUNTIME_DIR, else /dev/shm, else $XDG_RUNTIME_DIR, else /tmp)
 * in which the processes of one host meet. It hands out process slots and with them QPNs, keeps the
 * 24-bit indices of keys apart, lists the members of the reuseport
 * groups, holds every process's counters, and the ports of the connection manager
 * (segment_ports.h). All of it is claimed with fallocate, so that a full
 * /dev/shm is -ENOSPC and never SIGBUS.
 *
 * A slot belongs to its process as long as that holds a lock on the slot's byte of the file (an OFD
 * lock that lives and dies with the mapping: however the process ends, and whatever descriptors it
 * closes). A process that joins, or finds a stale slot, reaps the dead: their key indices, group
 * membership, ports and counters (added to the retired ones). The file stays when the last one
 * leaves.
 *
 * Any thread, unless said otherwise.
 *
 * A QPN is (index << 8) | slot: unique on the host, and its owner is read off its low byte. Slots
 * run from 2 to 253, so that neither QP 0, QP 1 nor the multicast QPN 0xffffff is ever handed out.
 * All hosts of a fabric share a segment, whose slots run to 1022; there the upper two bits of a
 * QPN are the upper two of the slot, which leaves a process 16,384 of them.
 */
#ifndef URXE_HOST_SEGMENT_H
#define URXE_HOST_SEGMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/device.h"

#define URXE_SLOT_FIRST 2
#define URXE_SLOT_LAST	253
#define URXE_WIDE_LAST	1022 /* on a fabric */
#define URXE_MAX_SLOTS	1024

/* The last slot of this process's segment, and which of a slot's bits are the uppermost two of a
 * QPN: set when a segment is opened, and by URXE_FABRIC alone. */
extern struct urxe_slots {
	unsigned last;
	unsigned high;
} urxe_slots;

/* Counters under the names that rxe has in hw_counters/, and the port's standard ones. */
#define URXE_COUNTERS(X)                              \
	X(SENT_PKTS, sent_pkts)                       \
	X(RCVD_PKTS, rcvd_pkts)                       \
	X(DUP_REQ, duplicate_request)                 \
	X(OUT_OF_SEQ_REQ, out_of_seq_request)         \
	X(RCV_RNR, rcvd_rnr_err)                      \
	X(SND_RNR, send_rnr_err)                      \
	X(RCV_SEQ_ERR, rcvd_seq_err)                  \
	X(ACK_DEFERRED, ack_deferred)                 \
	X(RETRY_EXCEEDED, retry_exceeded_err)         \
	X(RNR_RETRY_EXCEEDED, retry_rnr_exceeded_err) \
	X(COMP_RETRY, completer_retry_err)            \
	X(SEND_ERR, send_err)                         \
	X(LINK_DOWNED, link_downed)                   \
	X(RDMA_SEND, rdma_sends)                      \
	X(RDMA_RECV, rdma_recvs)                      \
	X(ICRC_ERR, icrc_err)                         \
	X(RCVD_BAD, rcvd_malformed)                   \
	X(FORWARDED, forwarded_pkts)                  \
	X(SENT_BYTES, sent_bytes)                     \
	X(RCVD_BYTES, rcvd_bytes)                     \
	X(QP1_DROPPED, qp1_dropped)

enum urxe_counter {
#define URXE_COUNTER_ENUM(id, name) URXE_CNT_##id,
	URXE_COUNTERS(URXE_COUNTER_ENUM)
#undef URXE_COUNTER_ENUM
		URXE_NUM_COUNTERS,
};

extern const char *const urxe_counter_names[URXE_NUM_COUNTERS];

#define URXE_FAULT_SPEC_LEN 256

struct urxe_segment;

/*
 * The slot of the process of this host that has the QP of a number; 0: none has it, and it is of
 * another host, QP 0, QP 1, or multicast. This is the one place that knows: a QP that has left the
 * process that made it would be looked up here. The program that steers packets to sockets
 * (wire/steer.c) goes by the low byte too; what it gives to the wrong process is handed on to the
 * owner. Any thread.
 */
static inline unsigned urxe_owner_of(const struct urxe_segment *seg, uint32_t qpn)
{
	unsigned slot = (qpn & 0xff) | (qpn >> 14 & urxe_slots.high);

	return slot >= URXE_SLOT_FIRST && slot <= urxe_slots.last ? slot : 0;
}

/* The number, of a QP or an XRC SRQ, that a slot has at an index below urxe_qpn_indices(). */
static inline uint32_t urxe_qpn_of(unsigned slot, uint32_t index)
{
	return (slot & urxe_slots.high) << 14 | index << 8 | (slot & 0xff);
}

/* Where a QPN stands in tables of the process that made it, below 65536. */
static inline unsigned urxe_qpn_index(uint32_t qpn)
{
	return qpn >> 8;
}

/* Communication IDs of the connection manager say in the same way whose they are, everywhere. */
static inline uint32_t urxe_comm_id(unsigned slot, uint32_t number)
{
	return (slot & 0x300) << 22 | (number & 0x3fffff) << 8 | (slot & 0xff);
}

static inline unsigned urxe_comm_id_slot(uint32_t id)
{
	return (id & 0xff) | (id >> 22 & 0x300);
}

/* How many QPNs a process has. */
static inline unsigned urxe_qpn_indices(void)
{
	return urxe_slots.high ? 16384 : 65536;
}

/*
 * Maps the host segment, making it if there is none, and takes a slot. One membership per process
 * (counted; a second join returns the same). Errors: -ENOSPC no room in /dev/shm, -EUSERS all slots
 * taken, -EACCES, -EPROTO a segment of another version is in use by running processes; each
 * explained by one line on stderr.
 */
int urxe_segment_join(struct urxe_segment **seg);
/* Gives up one join (or a view). */
void urxe_segment_leave(struct urxe_segment *seg);
/*
 * In the child of a fork, before anything else touches the segment there (its mapping is not
 * inherited): closes what was inherited without giving up the parent's slot, and puts private
 * zeros where the mapping was, so that pointers into it stay harmless. The handle is then a member
 * of nothing (slot 0, no numbers); leave it or forget it. urxe_segment_join() joins anew.
 */
void urxe_segment_forked(struct urxe_segment *seg);

/*
 * Maps the segment without a slot, for readers (the urxe command, the sysfs view), which may also
 * set faults. -ENOENT if there is none, -EPROTO if it is of another version; silent in these cases.
 */
int urxe_segment_view(struct urxe_segment **seg);

/*
 * A fabric's segment goes with the fabric: with the last process that leaves it when the fabric is
 * down, or by this call, when nobody is left to do so. Nothing happens while the fabric is up, or
 * processes use the segment, or to a network namespace's.
 */
void urxe_segment_remove(void);

/* The file that it lies in, for messages. */
const char *urxe_segment_path(const struct urxe_segment *seg);

unsigned urxe_segment_slot(const struct urxe_segment *seg);
bool urxe_segment_slot_alive(struct urxe_segment *seg, unsigned slot);
/* Which of the processes that had the slot one after the other this is, its number in its own pid
 * namespace; 0: the slot is free. Cheap, and true of a process that has died until it is reaped. */
uint32_t urxe_segment_slot_life(const struct urxe_segment *seg, unsigned slot);
uint32_t urxe_segment_slot_pid(const struct urxe_segment *seg, unsigned slot);
/* Removes what dead processes left. Cheap when there are none; call it now and then (seconds). */
void urxe_segment_reap(struct urxe_segment *seg);
/* The same for all processes at once, not for some in turn: for a caller that has met what a dead
 * process may have left. */
void urxe_segment_reap_all(struct urxe_segment *seg);

/* QPNs of this process: random start, cyclic: a number is not soon used again. 0 if none. */
uint32_t urxe_segment_qpn_alloc(struct urxe_segment *seg);
void urxe_segment_qpn_free(struct urxe_segment *seg, uint32_t qpn);

/*
 * Key indices (the upper 24 bits of an L_Key or R_Key): unique on the host, unpredictable, and not
 * soon used again. 0 if none is left: all processes together have 2^24, one may take 15/16 (on a
 * fabric 3/4).
 */
uint32_t urxe_segment_key_index_alloc(struct urxe_segment *seg);
void urxe_segment_key_index_free(struct urxe_segment *seg, uint32_t index);

/*
 * The members of a reuseport group (0: IPv4, 1: IPv6) in the kernel's order: the order of bind(),
 * where a socket that closes is replaced by the last one. bind and close must happen between lock
 * and unlock, and so must becoming a member and ceasing to be one; the lock may be taken again by
 * the thread that has it. urxe_segment_group() copies the slots in order and returns their number;
 * generation changes whenever the order may have changed, so that a stale steering program is
 * noticed by a comparison.
 */
void urxe_segment_lock(struct urxe_segment *seg);
void urxe_segment_unlock(struct urxe_segment *seg);
void urxe_segment_group_set(struct urxe_segment *seg, unsigned group, bool member);
unsigned urxe_segment_group(struct urxe_segment *seg, unsigned group, uint8_t *slots, unsigned max);
uint32_t urxe_segment_group_generation(const struct urxe_segment *seg);

/*
 * What was sent to a process without being acknowledged, and what it took of that: bytes as the
 * wire counts them. NULL: no such process.
 */
struct urxe_unacked {
	_Atomic uint64_t sent, taken;
};
struct urxe_unacked *urxe_segment_unacked(struct urxe_segment *seg, unsigned slot);

/*
 * Which processes serve QP 1 (their connection manager runs): sets it for this one; returns whether
 * one does, and was seen running in the last few seconds, being neither stopped nor starved; and
 * finds another than this one, going round from a slot, stopped ones only where there are no
 * others; 0: none.
 */
void urxe_segment_gsi_set(struct urxe_segment *seg, bool serves);
void urxe_segment_beat(struct urxe_segment *seg); /* this one runs: to be said every second */
bool urxe_segment_gsi_awake(const struct urxe_segment *seg, unsigned slot);
/* Has the process listeners (segment_ports.h)? And: has this one got its first or lost its last
 * since this was last asked? */
bool urxe_segment_gsi_listens(const struct urxe_segment *seg, unsigned slot);
bool urxe_segment_servers_changed(struct urxe_segment *seg);
unsigned urxe_segment_gsi_next(struct urxe_segment *seg, unsigned after);

/*
 * On a fabric all its hosts share one segment, so that their processes can share memory, and each
 * slot says of which host it is. What is asked above of "the host" then concerns slots of the same
 * one. Here: the host of a slot; to set it for this process, when the fabric has come back; the
 * slot that serves QP 1 at a host, going round from a slot (0: none); and whether a slot has QPs in
 * multicast groups, whose number the second says of this process.
 */
uint32_t urxe_segment_slot_host(const struct urxe_segment *seg, unsigned slot);
void urxe_segment_set_host(struct urxe_segment *seg, uint32_t host);
unsigned urxe_segment_gsi_of(struct urxe_segment *seg, uint32_t host, unsigned after);
void urxe_segment_count_groups(struct urxe_segment *seg, int change);
bool urxe_segment_slot_has_groups(const struct urxe_segment *seg, unsigned slot);

/*
 * This process's counters of a device, by device index (0 … URXE_MAX_DEVICES - 1): an array of
 * URXE_NUM_COUNTERS, to be incremented without a lock by one thread at a time; NULL for a view or
 * another index. And the sum over the living and the retired.
 */
uint64_t *urxe_segment_counters(struct urxe_segment *seg, int device);
void urxe_segment_counters_sum(struct urxe_segment *seg, int device,
			       uint64_t sum[URXE_NUM_COUNTERS]);

/*
 * The fault specification of a device, set at run time ("" for none; kept, not understood, here).
 * -EINVAL: no such index, or longer than URXE_FAULT_SPEC_LEN - 1. Setting bumps the generation.
 */
int urxe_segment_fault_set(struct urxe_segment *seg, int device, const char *spec);
void urxe_segment_fault_get(struct urxe_segment *seg, int device, char spec[URXE_FAULT_SPEC_LEN]);
uint32_t urxe_segment_fault_generation(const struct urxe_segment *seg);

#endif
