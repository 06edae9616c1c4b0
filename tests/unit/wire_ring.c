/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The ring of wire/ring.h: order, room, laps, records that nobody sound wrote, and two threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "wire/ring.h"

struct ends {
	struct urxe_producer p;
	struct urxe_consumer c;
};

static int setup(void **state)
{
	struct ends *e = calloc(1, sizeof(*e));
	struct urxe_ring *ring = aligned_alloc(4096, sizeof(*ring));

	memset(ring, 0, sizeof(*ring));
	urxe_producer_init(&e->p, ring);
	urxe_consumer_init(&e->c, ring);
	*state = e;
	return 0;
}

static int teardown(void **state)
{
	struct ends *e = *state;

	free(e->p.ring);
	free(e);
	return 0;
}

/* Bytes that say which record they are of, and where in it. */
static uint8_t byte_of(uint32_t record, uint32_t at)
{
	return record * 31 + at * 7 + (at >> 8);
}

static bool put_behind(struct urxe_producer *p, uint32_t skip, uint32_t record, uint32_t len)
{
	uint8_t *claimed = urxe_ring_claim(p, skip + len), *to = claimed;

	if (!to)
		return false;
	if (skip)
		to = urxe_ring_skip(p, skip);
	assert_ptr_equal(to, claimed + skip);
	for (uint32_t i = 0; i < len; i++)
		to[i] = byte_of(record, i);
	urxe_ring_publish(p, URXE_RECORD_PACKET, record % 16, record % 1000 + 1, len);
	return true;
}

static bool put(struct urxe_producer *p, uint32_t record, uint32_t len)
{
	return put_behind(p, 0, record, len);
}

static void get(struct urxe_consumer *c, uint32_t record, uint32_t len)
{
	struct urxe_record rec;
	const uint8_t *bytes;

	assert_true(urxe_ring_next(c, &rec));
	assert_int_equal(rec.kind, URXE_RECORD_PACKET);
	assert_int_equal(rec.flow, record % 16);
	assert_int_equal(rec.span, record % 1000 + 1);
	assert_int_equal(rec.len, len);
	bytes = rec.bytes;
	for (uint32_t i = 0; i < len; i++)
		if (bytes[i] != byte_of(record, i))
			fail_msg("record %u, byte %u of %u", record, i, len);
	urxe_ring_take(c);
}

static void records_come_in_order(void **state)
{
	struct ends *e = *state;
	struct urxe_record rec;

	assert_false(urxe_ring_waits(&e->c));
	assert_false(urxe_ring_next(&e->c, &rec));
	for (uint32_t i = 0; i < 5000; i++) {
		uint32_t len = 1 + i * 37 % 5000;

		assert_true(put(&e->p, 2 * i, len));
		assert_true(put(&e->p, 2 * i + 1, URXE_RING_INLINE));
		get(&e->c, 2 * i, len);
		get(&e->c, 2 * i + 1, URXE_RING_INLINE);
		assert_false(urxe_ring_waits(&e->c));
	}
}

static void a_full_ring_takes_no_more(void **state)
{
	struct ends *e = *state;
	uint32_t n = 0;

	while (put(&e->p, n, 20))
		n++;
	assert_int_equal(n, URXE_RING_CELLS);
	assert_false(urxe_ring_moved(&e->p));
	get(&e->c, 0, 20);
	urxe_ring_report(&e->c);
	assert_true(urxe_ring_moved(&e->p));
	assert_true(put(&e->p, n, 20));
	assert_false(put(&e->p, n + 1, 20));
	for (uint32_t i = 1; i <= n; i++)
		get(&e->c, i, 20);
	assert_false(urxe_ring_waits(&e->c));
}

/* Also one that ends with the data. */
static void a_record_may_begin_behind_its_claim(void **state)
{
	struct ends *e = *state;

	for (uint32_t i = 0; i < 1000; i++) {
		uint32_t skip = 4 + i % 15 * 4, len = 4096 - skip + i % 3 * 64;

		assert_true(put_behind(&e->p, skip, i, len));
		get(&e->c, i, len);
		urxe_ring_report(&e->c);
	}
}

/* Data can be used up before the cells are; what is taken comes back, also across the end. */
static void long_records_wait_for_room_in_the_data(void **state)
{
	struct ends *e = *state;
	uint32_t head = 0, tail = 0;

	assert_null(urxe_ring_claim(&e->p, URXE_RING_MAX + 1));
	for (unsigned round = 0; round < 200; round++) {
		while (put(&e->p, head, 20000 + head % 5 * 1111))
			head++;
		assert_in_range(head - tail, 8, URXE_RING_CELLS - 1);
		for (unsigned k = 0; k < 3; k++, tail++)
			get(&e->c, tail, 20000 + tail % 5 * 1111);
		urxe_ring_report(&e->c);
	}
	for (; tail < head; tail++)
		get(&e->c, tail, 20000 + tail % 5 * 1111);
	urxe_ring_report(&e->c);
	for (unsigned k = 0; k < 8; k++) {
		assert_true(put(&e->p, head, URXE_RING_MAX));
		get(&e->c, head++, URXE_RING_MAX);
		urxe_ring_report(&e->c);
	}
}

/* Telling does not wait for ever, or a producer could wait for what was taken long ago. */
static void a_consumer_that_takes_much_tells_by_itself(void **state)
{
	struct ends *e = *state;
	uint32_t n = 0;

	while (put(&e->p, n, 30000))
		n++;
	for (uint32_t i = 0; i < 2; i++)
		get(&e->c, i, 30000);
	assert_true(urxe_ring_moved(&e->p));
}

static void a_claim_that_is_not_published_is_nothing(void **state)
{
	struct ends *e = *state;

	for (unsigned k = 0; k < 100; k++)
		assert_non_null(urxe_ring_claim(&e->p, URXE_RING_MAX));
	assert_false(urxe_ring_waits(&e->c));
	assert_true(put(&e->p, 7, 100));
	get(&e->c, 7, 100);
}

static void counters_may_wrap(void **state)
{
	struct ends *e = *state;
	uint32_t near_end = (uint32_t)-3 * URXE_RING_CELLS;

	/* As after 2^32 cells, of a ring that was full of them. */
	e->p.head = e->p.taken = near_end;
	e->p.data_head = e->p.data_tail = (uint32_t)-100 * 64;
	atomic_store(&e->c.tail, near_end);
	e->c.reported = near_end;
	atomic_store(&e->p.ring->taken, near_end);
	for (uint32_t i = 0; i < 10 * URXE_RING_CELLS; i++) {
		assert_true(put(&e->p, i, 60));
		get(&e->c, i, 60);
	}
}

static void records_that_lie_are_skipped(void **state)
{
	struct ends *e = *state;
	struct urxe_cell *cells = e->p.ring->cells;

	for (unsigned k = 0; k < 7; k++)
		assert_true(put(&e->p, k, 100));
	cells[0].kind = 77;
	cells[1].len = 0;
	cells[2].offset = URXE_RING_DATA;
	cells[3].len = URXE_RING_DATA + 1;
	cells[4].offset = URXE_RING_DATA - 96;
	cells[5].offset = 2;
	get(&e->c, 6, 100);
	assert_false(urxe_ring_waits(&e->c));
}

/* A word from the other side that cannot be true changes nothing. */
static void a_consumer_that_lies_gets_nothing(void **state)
{
	struct ends *e = *state;
	uint32_t n = 0;

	while (put(&e->p, n, 20))
		n++;
	atomic_store(&e->p.ring->taken, n + 5);
	assert_false(put(&e->p, n, 20));
	atomic_store(&e->p.ring->taken, (uint32_t)-1);
	assert_false(put(&e->p, n, 20));
}

static void a_cleared_ring_is_new(void **state)
{
	struct ends *e = *state;

	for (unsigned k = 0; k < 300; k++) {
		assert_true(put(&e->p, k, 100));
		get(&e->c, k, 100);
		urxe_ring_report(&e->c);
	}
	assert_true(put(&e->p, 300, 100));
	urxe_ring_clear(e->p.ring);
	urxe_producer_init(&e->p, e->p.ring);
	urxe_consumer_init(&e->c, e->p.ring);
	assert_false(urxe_ring_waits(&e->c));
	assert_true(put(&e->p, 1, 100));
	get(&e->c, 1, 100);
}

#define RECORDS 20000

static uint32_t length_of(uint32_t record)
{
	return record % 7 ? 1 + record % 90 : 1 + record % 9000;
}

static void *produce(void *arg)
{
	for (uint32_t i = 0; i < RECORDS;) {
		if (put(arg, i, length_of(i)))
			i++;
		else
			sched_yield();
	}
	return NULL;
}

static void two_threads(void **state)
{
	struct ends *e = *state;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, produce, &e->p), 0);
	for (uint32_t i = 0; i < RECORDS;) {
		if (urxe_ring_waits(&e->c)) {
			get(&e->c, i, length_of(i));
			i++;
		} else {
			urxe_ring_report(&e->c);
			sched_yield();
		}
	}
	pthread_join(thread, NULL);
}

static _Atomic bool seen;

static void *look(void *consumer)
{
	while (!urxe_ring_waits(consumer))
		;
	atomic_store(&seen, true);
	return NULL;
}

/* Other threads look without a lock: they see the ring as it was, or cleared. */
static void cleared_while_somebody_looks(void **state)
{
	struct ends *e = *state;
	pthread_t thread;

	for (unsigned k = 0; k < 1000; k++) {
		assert_true(put(&e->p, k, 8));
		get(&e->c, k, 8);
		urxe_ring_report(&e->c);
	}
	assert_int_equal(pthread_create(&thread, NULL, look, &e->c), 0);
	for (unsigned i = 0; i < 1000; i++) {
		urxe_ring_clear(e->p.ring);
		urxe_consumer_reset(&e->c);
		sched_yield();
	}
	assert_false(atomic_load(&seen));
	urxe_producer_init(&e->p, e->p.ring);
	assert_true(put(&e->p, 1, 8));
	pthread_join(thread, NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(records_come_in_order),
		TEST(a_full_ring_takes_no_more),
		TEST(a_record_may_begin_behind_its_claim),
		TEST(long_records_wait_for_room_in_the_data),
		TEST(a_consumer_that_takes_much_tells_by_itself),
		TEST(a_claim_that_is_not_published_is_nothing),
		TEST(counters_may_wrap),
		TEST(records_that_lie_are_skipped),
		TEST(a_consumer_that_lies_gets_nothing),
		TEST(a_cleared_ring_is_new),
		TEST(two_threads),
		TEST(cleared_while_somebody_looks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
