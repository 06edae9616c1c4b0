/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The memory that a management server's process shares with thsim: a VP's descriptor queue and its
 * queue of packets that came in (paper, 2.1), and the words by which virtual time is agreed on.
 *
 *	server ──descriptors──► SDQ ──► thsim		sdq_tail is the server's, sdq_head thsim's
 *	server ◄──── MPQ ◄──entries──── thsim		mpq_tail is thsim's, mpq_head the server's
 *
 * Time moves on as far as every server allows. A server stores its clock, before which it sends
 * nothing any more, as it works; thsim follows it meanwhile. A server that waits stores until when:
 * as long as its MPQ is empty, time may pass up to there. thsim stores how far it has come. Both
 * limits are exclusive, so that what happens at one time happens in the same order in each run.
 *
 *	stored by a server: the SDQ and its tail, then clock; until and clock, then mpq_head
 *	read by thsim:	    mpq_head, until, clock; then the SDQ
 *
 * Who sleeps is woken by an eventfd: it says that it sleeps, and looks once more. thsim wakes a
 * server when it can go no further, and not for each entry.
 *
 * Neither side trusts the other's indices further than their lower bits.
 */
#ifndef INBAND_GLEX_SHARED_H
#define INBAND_GLEX_SHARED_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#include "inband/nmp.h"

#define GLEX_MAGIC 0x3178656c67736874ull /* thsglex1 */
#define GLEX_SDQ   1024			 /* entries; powers of two */
#define GLEX_MPQ   4096

struct glex_slot {
	struct nmp_descriptor descriptor;
	uint64_t time; /* ps: of the doorbell, or of the arrival */
	uint64_t unused[7];
};

struct glex_shared {
	uint64_t magic;
	uint32_t sdq_entries, mpq_entries;
	uint32_t nic_id, vp;
	uint64_t send_cost,
		receive_cost; /* ps of the server's time, for each request and response */

	/* The server's. */
	_Alignas(64) _Atomic uint32_t sdq_tail;
	_Atomic uint32_t mpq_head;
	_Atomic uint32_t server_sleeps;
	_Atomic uint64_t clock, until; /* until: 0, it works */

	/* thsim's. */
	_Alignas(64) _Atomic uint32_t sdq_head;
	_Atomic uint32_t mpq_tail;
	_Atomic uint32_t sim_sleeps;
	_Atomic uint64_t done; /* all before it has happened */

	_Alignas(64) struct glex_slot sdq[GLEX_SDQ];
	struct glex_slot mpq[GLEX_MPQ];
};

static_assert(sizeof(struct glex_slot) == 128, "two cache lines");
static_assert(offsetof(struct glex_shared, sdq_tail) % 64 == 0, "a line for each side");
static_assert(offsetof(struct glex_shared, sdq_head) % 64 == 0, "a line for each side");

/*
 * The unix socket (SOCK_SEQPACKET) by which thsim is reached. A client sends one message, and more
 * of the second kind if it likes:
 *
 *	"endpoint N"	a VP of management NIC N. The answer is "ok" with three descriptors: the shared memory,
 *			the eventfd that wakes thsim and the one that wakes the server. It lives as long as the
 *			connection does.
 *	others		a command of thsim(1), answered by text.
 */
#define GLEX_MESSAGE 65536

#endif
