// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * libFuzzer target for the ring of a neighbour (wire/ring.h, wire/shm_receive.c): records that no
 * sound producer writes, and a producer that changes the ring while it is read.
 *
 * The sources under test are compiled with a call in front of each load (trace-loads), and there
 * the input's changes are made, after as many loads as it says. So a run depends on its input
 * alone, and anything that is read twice is seen to differ.
 *
 * An input: a byte with the number of changes; for each the loads to wait for, where (16 bits), and
 * four bytes to write; then records: kind, flow, span, length (16 bits), place in the data (16
 * bits) and their bytes, a length byte in front.
 *
 * What must hold: whatever is handed up has headers that nobody else can change, a payload within
 * the packet, references that fit their sum; and a packet to QP 1 is private as a whole.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/shm.h"

#define DATA_USED 2048u /* of the ring's data */

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

/* Loads in here are not to be counted. */
#ifdef __clang__
#define UNCOUNTED __attribute__((no_sanitize("coverage")))
#else
#define UNCOUNTED
#endif

struct input {
	const uint8_t *at, *end;
};

struct change {
	unsigned loads;
	uint16_t where;
	uint8_t bytes[4];
};

static struct urxe_ring *ring;
static struct urxe_wire wire;
static struct urxe_shm shm;
static struct urxe_window *window;
static struct urxe_inlet inlet;
static uint64_t counters[URXE_NUM_COUNTERS];

static struct change changes[64];
static unsigned num_changes, next_change, loads;
static bool reading;

/* ---- the producer that writes in between ---- */

/* Most of what decides anything lies in the cells; the rest is at the beginning of the data. */
UNCOUNTED static void apply(const struct change *c)
{
	size_t cells = 8 * sizeof(ring->cells[0]), at = c->where % (cells + DATA_USED);

	if (at + 4 <= cells)
		memcpy((uint8_t *)ring->cells + at, c->bytes, 4);
	else
		memcpy(ring->data + (at < cells ? 0 : at - cells), c->bytes, 4);
}

UNCOUNTED static void on_load(void)
{
	if (!reading)
		return;
	loads++;
	while (next_change < num_changes && loads >= changes[next_change].loads)
		apply(&changes[next_change++]);
}

#define CALLBACK(size, type)                                  \
	void __sanitizer_cov_load##size(type *addr);          \
	UNCOUNTED void __sanitizer_cov_load##size(type *addr) \
	{                                                     \
		on_load();                                    \
	}

CALLBACK(1, uint8_t)
CALLBACK(2, uint16_t)
CALLBACK(4, uint32_t)
CALLBACK(8, uint64_t)
CALLBACK(16, __uint128_t)

/* ---- the edges ---- */

uint64_t *urxe_segment_counters(struct urxe_segment *s, int device)
{
	return counters;
}

void urxe_shm_look(struct urxe_wire *w)
{
}

/* As fault injection does: it keeps a copy, which is delivered later. */
void urxe_fault_in(struct urxe_wire *w, const struct urxe_arrival *from,
		   const struct urxe_record *rec)
{
	struct urxe_arrival held = *from;
	struct urxe_record copy = *rec;

	copy.bytes = malloc(rec->len);
	CHECK(copy.bytes);
	memcpy(copy.bytes, rec->bytes, rec->len);
	urxe_shm_receive_raw(w, &held, &copy);
	free(copy.bytes);
}

ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *to, unsigned long n,
				const struct iovec *from, unsigned long m, unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *to, unsigned long n,
				const struct iovec *from, unsigned long m, unsigned long flags)
{
	size_t a = 0, b = 0;

	for (unsigned long i = 0; i < n; i++)
		a += to[i].iov_len;
	for (unsigned long i = 0; i < m; i++)
		b += from[i].iov_len;
	CHECK(a == b && m <= URXE_MAX_REFS + 1);
	return a;
}

/* ---- what is handed up ---- */

static bool is_in_ring(const void *at)
{
	return (const uint8_t *)at >= (const uint8_t *)ring &&
	       (const uint8_t *)at < (const uint8_t *)(ring + 1);
}

static void check_refs(const struct urxe_rx_packet *pkt)
{
	static uint8_t to[URXE_MAX_REFERRED];
	struct iovec iov = {to, pkt->refs_len};
	uint64_t sum = 0;

	CHECK(pkt->refs->n <= URXE_MAX_REFS && pkt->refs_len <= URXE_MAX_REFERRED);
	for (unsigned k = 0; k < pkt->refs->n; k++)
		sum += pkt->refs->piece[k].iov_len & UINT32_MAX;
	CHECK(sum == pkt->refs_len);
	(void)urxe_wire_pull(pkt->refs, 0, &iov, 1, pkt->refs_len, 0);
	(void)urxe_wire_pull(pkt->refs, 0, &iov, 1, pkt->refs_len, 1);
}

static void receive(const struct urxe_rx_packet *pkt, void *arg)
{
	const struct urxe_bth *bth = (const struct urxe_bth *)pkt->bth;
	uint8_t before[URXE_MAX_HEADER] = {0};
	uint32_t len = pkt->len, head = len < sizeof(before) ? len : sizeof(before);
	struct urxe_packet p;

	CHECK(!is_in_ring(pkt->bth) && len >= sizeof(*bth) && len % 4 == 0 && pkt->span);
	memcpy(before, pkt->bth, head);
	while (next_change < num_changes)
		apply(&changes[next_change++]);
	CHECK(!memcmp(before, pkt->bth, head));
	CHECK(urxe_bth_qpn(bth) == URXE_QPN_GSI || urxe_packet_owner(&wire, bth) == wire.slot);
	if (urxe_bth_qpn(bth) == URXE_QPN_GSI && len <= 12 + 8 + 256)
		CHECK(pkt->bytes == pkt->bth);
	if (pkt->refs)
		check_refs(pkt);
	if (!urxe_packet_parse(pkt->bth, len, &p)) {
		uint8_t *payload = malloc(p.payload_len + 1);

		CHECK(payload);
		memcpy(payload, pkt->bytes + (p.payload - pkt->bth), p.payload_len);
		free(payload);
	}
}

/* ---- the input ---- */

static unsigned byte(struct input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

static unsigned word(struct input *in)
{
	unsigned low = byte(in);

	return low | byte(in) << 8;
}

static void take_changes(struct input *in)
{
	unsigned at = 0;

	num_changes = byte(in) % 64;
	next_change = loads = 0;
	for (unsigned i = 0; i < num_changes; i++) {
		changes[i].loads = at += byte(in);
		changes[i].where = word(in);
		for (unsigned k = 0; k < 4; k++)
			changes[i].bytes[k] = byte(in);
	}
}

static void put_record(struct input *in, unsigned n)
{
	struct urxe_cell *cell = &ring->cells[n % URXE_RING_CELLS];
	unsigned have, at;
	uint8_t *to;

	cell->kind = byte(in) % 8;
	cell->flow = byte(in);
	cell->span = byte(in);
	cell->len = word(in);
	cell->offset = word(in) % DATA_USED;
	have = byte(in);
	to = cell->len > URXE_RING_INLINE ? ring->data + cell->offset : cell->body;
	for (at = 0; at < have; at++) {
		uint8_t value = byte(in);

		if (cell->len > URXE_RING_INLINE || at < URXE_RING_INLINE)
			to[at] = value;
	}
	atomic_store(&cell->turn, n / URXE_RING_CELLS + 1);
}

static void make(void)
{
	CHECK(ring = aligned_alloc(4096, sizeof(*ring)));
	CHECK(window = calloc(1, 8192));
	wire.shm = &shm;
	wire.slot = 2;
	wire.fn = receive;
	shm.window = window;
	atomic_store(&shm.num_inlets, 1);
	atomic_store(&shm.inlets[0], &inlet);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, data + size};
	unsigned n = 0;

	if (!ring)
		make();
	memset(ring, 0, offsetof(struct urxe_ring, data) + DATA_USED);
	memset(&inlet, 0, sizeof(inlet));
	memset(wire.port, 0, sizeof(wire.port));
	inlet.life = 1;
	urxe_consumer_init(&inlet.in, ring);
	take_changes(&in);
	if (byte(&in) & 1)
		wire.port[URXE_NO_PORT].fault =
			(struct urxe_fault){.drop = 1, .dir = URXE_FAULT_IN};
	while (in.at < in.end && n < 6)
		put_record(&in, n++);
	reading = true;
	urxe_shm_receive(&wire, 64);
	reading = false;
	return 0;
}
