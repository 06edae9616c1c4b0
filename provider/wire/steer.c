/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Steering: a classic BPF program on the reuseport group that looks at the low byte of the
 * destination QPN, which is the slot of the process that owns the QP, and returns the place of
 * that process's socket in the group. It makes the wrong process's getting a packet rare and is
 * never relied upon: the kernel steers a whole GRO batch by its first packet, and the order
 * changes when sockets close.
 *
 * The program sees the UDP payload from its first byte on (the kernel pulls the UDP header before
 * it runs it), so the byte is number 7: BTH byte 4 is reserved bits, 5 to 7 are the QPN. It
 * returns a number out of range for slots that nobody has; the kernel then chooses by its hash.
 *
 * Slots are found by binary search:
 *
 *	ld [7]
 *	jge #slots[mid] ? next+1 : next		inner node; its left half follows,
 *	ja  right half				its right half after that
 *	jeq #slot ? ret index : ret nobody	leaf
 */
#include <errno.h>
#include <linux/filter.h>
#include <stdlib.h>
#include <string.h>

#include "wire/private.h"

#ifndef SO_ATTACH_REUSEPORT_CBPF
#define SO_ATTACH_REUSEPORT_CBPF 51
#endif

#define QPN_LOW_BYTE 7
#define NOBODY	     0xffffffffu
#define MAX_MEMBERS  256
#define MAX_INSNS    (1 + 5 * MAX_MEMBERS)

struct member {
	uint8_t slot;
	uint8_t index;
};

struct program {
	unsigned len;
	struct sock_filter insns[MAX_INSNS];
};

static void emit(struct program *prog, uint16_t code, uint32_t k, uint8_t jt, uint8_t jf)
{
	prog->insns[prog->len++] = (struct sock_filter){code, jt, jf, k};
}

static void emit_search(struct program *prog, const struct member *members, unsigned n)
{
	unsigned jump, left = n / 2;

	if (n == 1) {
		emit(prog, BPF_JMP | BPF_JEQ | BPF_K, members[0].slot, 0, 1);
		emit(prog, BPF_RET | BPF_K, members[0].index, 0, 0);
		emit(prog, BPF_RET | BPF_K, NOBODY, 0, 0);
		return;
	}
	emit(prog, BPF_JMP | BPF_JGE | BPF_K, members[left].slot, 0, 1);
	jump = prog->len;
	emit(prog, BPF_JMP | BPF_JA, 0, 0, 0);
	emit_search(prog, members, left);
	prog->insns[jump].k = prog->len - jump - 1;
	emit_search(prog, members + left, n - left);
}

static int by_slot(const void *a, const void *b)
{
	return ((const struct member *)a)->slot - ((const struct member *)b)->slot;
}

static int attach(int fd, const uint8_t *slots, unsigned n)
{
	struct member members[MAX_MEMBERS];
	struct program prog;
	struct sock_fprog fprog;

	for (unsigned k = 0; k < n; k++)
		members[k] = (struct member){slots[k], k};
	qsort(members, n, sizeof(members[0]), by_slot);
	prog.len = 0;
	emit(&prog, BPF_LD | BPF_B | BPF_ABS, QPN_LOW_BYTE, 0, 0);
	if (n)
		emit_search(&prog, members, n);
	else
		emit(&prog, BPF_RET | BPF_K, NOBODY, 0, 0);
	fprog = (struct sock_fprog){.len = prog.len, .filter = prog.insns};
	return urxe_libc.setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &fprog, sizeof(fprog))
		       ? -errno
		       : 0;
}

/* The order after the member of that slot has gone: the last one takes its place. */
static unsigned without(uint8_t *slots, unsigned n, unsigned slot)
{
	for (unsigned k = 0; k < n; k++) {
		if (slots[k] == slot) {
			slots[k] = slots[n - 1];
			return n - 1;
		}
	}
	return n;
}

void urxe_steer(struct urxe_wire *wire, bool leaving)
{
	for (unsigned f = 0; f < URXE_NUM_FAMILIES; f++) {
		uint8_t slots[MAX_MEMBERS];
		unsigned n;
		int ret;

		if (wire->recv[f].fd < 0)
			continue;
		n = urxe_segment_group(wire->seg, f, slots, MAX_MEMBERS);
		if (n > MAX_MEMBERS)
			n = MAX_MEMBERS;
		if (leaving)
			n = without(slots, n, wire->slot);
		ret = attach(wire->recv[f].fd, slots, n);
		if (ret)
			urxe_log(URXE_LOG_WARN, "cannot steer packets between processes: %s",
				 strerror(-ret));
	}
	wire->steered = urxe_segment_group_generation(wire->seg);
}

void urxe_steer_renew(struct urxe_wire *wire)
{
	if (wire->steered == urxe_segment_group_generation(wire->seg))
		return;
	urxe_segment_lock(wire->seg);
	urxe_steer(wire, false);
	urxe_segment_unlock(wire->seg);
}
