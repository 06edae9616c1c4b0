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
 * returns a number out of range where nobody suits; the kernel then chooses by its hash.
 *
 * A MAD to QP 1 concerns one process too, although its QPN does not say which. Rules of the floors
 * above (urxe_steer_mads()) say for each management class which byte of a MAD is the slot of that
 * process, or that any process may answer: then it goes to one that has listeners (else to any that
 * serves QP 1) and was lately seen running, at random, so that a stopped one that is still taken
 * for running does not swallow every repetition. All processes of a host have the same rules, for
 * the program of one serves all.
 *
 * Slots are found by binary search:
 *
 *	ld [7]
 *	jeq #1 ? QP 1 : search
 *	QP 1:					for each rule
 *	ld [21]; jeq #class ? : next rule
 *	ldh [36]; jeq #attribute ? : next rule
 *	ld [20 + id_at + 3]; ja search, or ja any
 *	ja any
 *	search:
 *	jge #slots[mid] ? next+1 : next		inner node; its left half follows,
 *	ja  right half				its right half after that
 *	jeq #slot ? ret index : any		leaf
 *	any:
 *	ld random; mod #n; jeq #0 ? ret index ...
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
#define MAX_SERVERS  32 /* of those that serve QP 1 this many are enough */
#define MAX_RULES    16
#define MAX_INSNS    (16 + 6 * MAX_RULES + 5 * MAX_MEMBERS + 2 * MAX_SERVERS)

/* BTH and DETH are 20 bytes; where in a MAD its class and attribute ID are. */
#define MAD	      20
#define MAD_CLASS     (MAD + 1)
#define MAD_ATTRIBUTE (MAD + 16)

struct member {
	uint8_t slot;
	uint8_t index;
};

struct program {
	unsigned len;
	struct sock_filter insns[MAX_INSNS];
};

static struct urxe_mad_rule rules[MAX_RULES];
static unsigned num_rules;

int urxe_steer_mads(const struct urxe_mad_rule *more, unsigned n)
{
	if (n > MAX_RULES - num_rules)
		return -ENOSPC;
	memcpy(rules + num_rules, more, n * sizeof(*more));
	num_rules += n;
	return 0;
}

static unsigned slot_at(const uint8_t id[4])
{
	return urxe_comm_id_slot((uint32_t)id[0] << 24 | id[3]);
}

unsigned urxe_steer_mad(const uint8_t *mad)
{
	for (unsigned k = 0; k < num_rules; k++)
		if (mad[1] == rules[k].mgmt_class &&
		    (!rules[k].attr_id || (mad[16] << 8 | mad[17]) == rules[k].attr_id))
			return rules[k].id_at ? slot_at(mad + rules[k].id_at) : 0;
	return 0;
}

static void emit(struct program *prog, uint16_t code, uint32_t k, uint8_t jt, uint8_t jf)
{
	prog->insns[prog->len++] = (struct sock_filter){code, jt, jf, k};
}

/* A jump whose distance is found later. */
static unsigned emit_jump(struct program *prog)
{
	emit(prog, BPF_JMP | BPF_JA, 0, 0, 0);
	return prog->len - 1;
}

static void land(struct program *prog, unsigned jump)
{
	prog->insns[jump].k = prog->len - jump - 1;
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
	jump = emit_jump(prog);
	emit_search(prog, members, left);
	land(prog, jump);
	emit_search(prog, members + left, n - left);
}

/* Is it a MAD of that rule? If not, the next rule follows. Returns a jump, to the search for a slot
 * that is loaded or to any server. */
static unsigned emit_rule(struct program *prog, const struct urxe_mad_rule *rule)
{
	unsigned rest = 1 + (rule->id_at > 0);

	emit(prog, BPF_LD | BPF_B | BPF_ABS, MAD_CLASS, 0, 0);
	emit(prog, BPF_JMP | BPF_JEQ | BPF_K, rule->mgmt_class, 0, rest + (rule->attr_id ? 2 : 0));
	if (rule->attr_id) {
		emit(prog, BPF_LD | BPF_H | BPF_ABS, MAD_ATTRIBUTE, 0, 0);
		emit(prog, BPF_JMP | BPF_JEQ | BPF_K, rule->attr_id, 0, rest);
	}
	if (rule->id_at)
		emit(prog, BPF_LD | BPF_B | BPF_ABS, MAD + rule->id_at + 3, 0, 0);
	return emit_jump(prog);
}

/*
 * The slot that a packet is for is loaded and the search follows; for what may be anybody's, jumps
 * are left in any[], *n of them.
 */
static void emit_slot(struct program *prog, unsigned any[MAX_RULES + 1], unsigned *n)
{
	unsigned found[MAX_RULES], num_found = 0, qp;

	*n = 0;
	emit(prog, BPF_LD | BPF_B | BPF_ABS, QPN_LOW_BYTE, 0, 0);
	emit(prog, BPF_JMP | BPF_JEQ | BPF_K, URXE_QPN_GSI, 1, 0);
	qp = emit_jump(prog);
	for (unsigned k = 0; k < num_rules; k++) {
		unsigned jump = emit_rule(prog, &rules[k]);

		if (rules[k].id_at)
			found[num_found++] = jump;
		else
			any[(*n)++] = jump;
	}
	any[(*n)++] = emit_jump(prog);
	land(prog, qp);
	while (num_found)
		land(prog, found[--num_found]);
}

static void emit_any(struct program *prog, const uint8_t *indices, unsigned n)
{
	if (!n) {
		emit(prog, BPF_RET | BPF_K, NOBODY, 0, 0);
		return;
	}
	emit(prog, BPF_LD | BPF_W | BPF_ABS, SKF_AD_OFF + SKF_AD_RANDOM, 0, 0);
	emit(prog, BPF_ALU | BPF_MOD | BPF_K, n, 0, 0);
	for (unsigned k = 0; k + 1 < n; k++) {
		emit(prog, BPF_JMP | BPF_JEQ | BPF_K, k, 0, 1);
		emit(prog, BPF_RET | BPF_K, indices[k], 0, 0);
	}
	emit(prog, BPF_RET | BPF_K, indices[n - 1], 0, 0);
}

static int by_slot(const void *a, const void *b)
{
	return ((const struct member *)a)->slot - ((const struct member *)b)->slot;
}

static bool serves(const struct urxe_wire *wire, unsigned slot)
{
	return wire->steered_gsi[slot / 64] >> slot % 64 & 1;
}

static int attach(const struct urxe_wire *wire, int fd, const uint8_t *slots, unsigned n)
{
	struct member members[MAX_MEMBERS];
	uint8_t servers[MAX_SERVERS];
	unsigned num_servers = 0, any[MAX_RULES + 1], num_any, search;
	struct program prog;
	struct sock_fprog fprog;

	memset(&fprog, 0, sizeof(fprog)); /* memcheck looks at what lies between its members, too */
	for (unsigned k = 0; k < n; k++) {
		members[k] = (struct member){slots[k], k};
		if (serves(wire, slots[k]) && num_servers < MAX_SERVERS)
			servers[num_servers++] = k;
	}
	qsort(members, n, sizeof(members[0]), by_slot);
	prog.len = 0;
	emit_slot(&prog, any, &num_any);
	search = prog.len;
	if (n)
		emit_search(&prog, members, n);
	else
		emit(&prog, BPF_RET | BPF_K, NOBODY, 0, 0);
	/* What is for a slot that nobody has, any server may answer. */
	for (unsigned k = search; num_servers && k < prog.len; k++)
		if (prog.insns[k].code == (BPF_RET | BPF_K) && prog.insns[k].k == NOBODY)
			prog.insns[k] = (struct sock_filter){.code = BPF_JMP | BPF_JA,
							     .k = prog.len - k - 1};
	while (num_any)
		land(&prog, any[--num_any]);
	emit_any(&prog, servers, num_servers);
	fprog.len = prog.len;
	fprog.filter = prog.insns;
	return urxe_libc.setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &fprog, sizeof(fprog))
		       ? -errno
		       : 0;
}

/* The processes that listen; where none does, those that can refuse. */
static void find_servers(const struct urxe_wire *wire, uint64_t set[4])
{
	uint64_t listening[4] = {0};
	bool any = false;

	memset(set, 0, 4 * sizeof(*set));
	for (unsigned s = URXE_SLOT_FIRST; s <= URXE_SLOT_LAST; s++) {
		if (!urxe_segment_gsi_awake(wire->seg, s))
			continue;
		set[s / 64] |= 1ull << s % 64;
		if (urxe_segment_gsi_listens(wire->seg, s)) {
			listening[s / 64] |= 1ull << s % 64;
			any = true;
		}
	}
	if (any)
		memcpy(set, listening, sizeof(listening));
}

void urxe_steer(struct urxe_wire *wire)
{
	find_servers(wire, wire->steered_gsi);
	for (unsigned f = 0; f < URXE_NUM_FAMILIES; f++) {
		uint8_t slots[MAX_MEMBERS];
		unsigned n;
		int ret;

		if (wire->recv[f].fd < 0)
			continue;
		n = urxe_segment_group(wire->seg, f, slots, MAX_MEMBERS);
		ret = attach(wire, wire->recv[f].fd, slots, n);
		if (ret)
			urxe_log(URXE_LOG_WARN, "cannot steer packets between processes: %s",
				 strerror(-ret));
	}
	wire->steered = urxe_segment_group_generation(wire->seg);
}

void urxe_steer_renew(struct urxe_wire *wire)
{
	uint64_t set[4];

	find_servers(wire, set);
	if (wire->steered == urxe_segment_group_generation(wire->seg) &&
	    !memcmp(set, wire->steered_gsi, sizeof(set)))
		return;
	urxe_segment_lock(wire->seg);
	urxe_steer(wire);
	urxe_segment_unlock(wire->seg);
}
