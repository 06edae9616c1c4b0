// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The rings by which MADs go between an open umad file and fabricd. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/server.h"

static struct mad_ring *ring;

static int fresh(void **state)
{
	free(ring);
	ring = aligned_alloc(_Alignof(struct mad_ring), sizeof(*ring));
	memset(ring, 0, sizeof(*ring));
	return 0;
}

static struct mad_slot *room(void)
{
	struct mad_slot *slot = mad_ring_room(ring);

	if (!slot)
		abort();
	return slot;
}

static void write_mad(uint32_t number)
{
	struct mad_slot *slot = room();

	slot->len = 64 + number % 256;
	memcpy(slot->bytes, &number, sizeof(number));
	slot->bytes[slot->len - 1] = number;
	mad_ring_publish(ring);
}

static void read_mad(uint32_t number)
{
	uint8_t bytes[FABRIC_INLINE];

	assert_int_equal(mad_ring_next(ring), 64 + number % 256);
	assert_int_equal(mad_ring_take(ring, bytes, FABRIC_INLINE), 64 + number % 256);
	assert_memory_equal(bytes, &number, sizeof(number));
	assert_int_equal(bytes[64 + number % 256 - 1], number & 0xff);
}

static void mads_come_out_as_they_went_in(void **state)
{
	uint8_t bytes[FABRIC_INLINE];

	for (uint32_t i = 0; i < 1000; i++) {
		write_mad(2 * i);
		write_mad(2 * i + 1);
		read_mad(2 * i);
		read_mad(2 * i + 1);
	}
	assert_int_equal(mad_ring_next(ring), -1);
	assert_int_equal(mad_ring_take(ring, bytes, FABRIC_INLINE), -1);
}

static void a_full_ring_has_no_room_until_one_is_taken(void **state)
{
	/* The counters wrap on the way. */
	atomic_store(&ring->head, UINT32_MAX - 5);
	atomic_store(&ring->tail, UINT32_MAX - 5);
	for (uint32_t i = 0; i < MAD_RING_SLOTS; i++)
		write_mad(i);
	assert_null(mad_ring_room(ring));
	read_mad(0);
	write_mad(MAD_RING_SLOTS);
	assert_null(mad_ring_room(ring));
	for (uint32_t i = 1; i <= MAD_RING_SLOTS; i++)
		read_mad(i);
}

static void an_idle_consumer_is_woken_once(void **state)
{
	assert_false(mad_ring_publish(ring));
	assert_true(mad_ring_sleep(ring));
	fresh(state);
	assert_false(mad_ring_sleep(ring));
	assert_true(mad_ring_publish(ring));
	assert_false(mad_ring_publish(ring));
}

static void a_length_beyond_the_slot_is_not_believed(void **state)
{
	uint8_t bytes[FABRIC_INLINE + 1] = {[FABRIC_INLINE] = 0x55};

	room()->len = UINT32_MAX;
	mad_ring_publish(ring);
	assert_int_equal(mad_ring_next(ring), FABRIC_INLINE);
	assert_int_equal(mad_ring_take(ring, bytes, FABRIC_INLINE), FABRIC_INLINE);
	assert_int_equal(bytes[FABRIC_INLINE], 0x55);
}

static void a_mad_that_is_too_long_stays(void **state)
{
	uint8_t bytes[100];

	write_mad(100);
	assert_int_equal(mad_ring_take(ring, bytes, 100), -EINVAL);
	read_mad(100);
}

/* Even where a turn has so much for programs that it is written before the turn ends. */
static void a_program_hears_of_its_ring_before_the_socket_has_more(void **state)
{
	static struct server s;
	static const uint8_t hdr[FABRIC_UMAD_HDR], mad[MAD_LEN];
	struct connection c = {.server = &s, .last = &c.first};
	int pair[2], fds[FABRIC_UMAD_FDS];
	uint8_t byte;
	uint64_t one;

	s.epoll = epoll_create1(0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	c.fd = pair[0];
	assert_int_equal(rings_open(&c, fds), 0);
	for (unsigned i = 0; i < MAD_RING_SLOTS + OUTBOX_LEN + 1; i++)
		server_deliver(&s.fabric, &c, hdr, mad, sizeof(mad));
	assert_int_equal(recv(pair[1], &byte, 1, MSG_PEEK), 1);
	for (unsigned i = 0; i < MAD_RING_SLOTS; i++)
		assert_int_equal(read(c.event, &one, sizeof(one)), sizeof(one));
	assert_int_equal(read(c.event, &one, sizeof(one)), -1);
	outbox_forget(&c);
	rings_forget(&c);
	rings_close(&c);
	close(fds[0]);
	close(pair[0]);
	close(pair[1]);
	close(s.epoll);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(mads_come_out_as_they_went_in, fresh),
		cmocka_unit_test_setup(a_full_ring_has_no_room_until_one_is_taken, fresh),
		cmocka_unit_test_setup(an_idle_consumer_is_woken_once, fresh),
		cmocka_unit_test_setup(a_length_beyond_the_slot_is_not_believed, fresh),
		cmocka_unit_test_setup(a_mad_that_is_too_long_stays, fresh),
		cmocka_unit_test(a_program_hears_of_its_ring_before_the_socket_has_more),
	};
	int ret = cmocka_run_group_tests(tests, NULL, NULL);

	free(ring);
	return ret;
}
