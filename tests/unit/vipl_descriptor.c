// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What is wrong with a descriptor, and what of a good one is given to the device; how many segments
 * become few. Regions are looked up in a table of the test's own.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "vipl/post.h"
#include "vipl/vi.h"

enum { READ_WRITE = 1, READ_ONLY, OTHER_TAG };

static _Alignas(64) char memory[65536];
static _Atomic uint32_t generation;
static struct vipl_vi vi;
static struct vipl_work work;

int __wrap_vipl_memory_access(struct vipl_nic *nic, VIP_MEM_HANDLE handle, struct vipl_ptag *ptag,
			      struct vipl_access *access);

int __wrap_vipl_memory_access(struct vipl_nic *nic, VIP_MEM_HANDLE handle, struct vipl_ptag *ptag,
			      struct vipl_access *access)
{
	if (handle == OTHER_TAG)
		return -EACCES;
	if (!handle || handle > OTHER_TAG)
		return -ENOENT;
	*access = (struct vipl_access){.key = vipl_access_key(handle, generation),
				       .addr = (uintptr_t)memory,
				       .length = sizeof(memory),
				       .lkey = 100 + handle,
				       .writable = handle != READ_ONLY};
	return 0;
}

static VIP_DESCRIPTOR *fresh(unsigned segments)
{
	VIP_DESCRIPTOR *d = (VIP_DESCRIPTOR *)memory;

	memset(memory, 0, 16384);
	for (unsigned i = 0; i < segments; i++) {
		d->DS[i].Local.Data.Address = memory + 32768 + 20 * i;
		d->DS[i].Local.Length = 10;
		d->DS[i].Local.Handle = READ_WRITE;
	}
	d->CS.SegCount = segments;
	d->CS.Length = 10 * segments;
	generation++;
	return d;
}

static uint32_t read_send(VIP_DESCRIPTOR *d)
{
	return vipl_descriptor_read(&vi.sq, d, READ_WRITE, &work);
}

static uint32_t read_recv(VIP_DESCRIPTOR *d)
{
	return vipl_descriptor_read(&vi.rq, d, READ_WRITE, &work);
}

static void a_good_one(void **state)
{
	VIP_DESCRIPTOR *d = fresh(2);

	d->CS.Control = VIP_CONTROL_IMMEDIATE;
	d->CS.ImmediateData = 5;
	assert_int_equal(read_send(d), 0);
	assert_int_equal(work.count, 2);
	assert_int_equal(work.length, 20);
	assert_int_equal(work.immediate, 5);
	assert_int_equal(work.sge[1].addr, (uintptr_t)memory + 32768 + 20);
	assert_int_equal(work.sge[1].lkey, 100 + READ_WRITE);
	assert_int_equal(read_recv(d), 0);
}

static void of_no_length(void **state)
{
	assert_int_equal(read_send(fresh(0)), 0);
	assert_int_equal(work.count, 0);
}

static void rdma_has_an_address_segment(void **state)
{
	VIP_DESCRIPTOR *d = fresh(2);

	d->CS.Control = VIP_CONTROL_OP_RDMAWRITE;
	d->CS.Length = 10;
	d->DS[0].Remote.Data.AddressBits = 4711;
	d->DS[0].Remote.Handle = 99;
	assert_int_equal(read_send(d), 0);
	assert_int_equal(work.count, 1);
	assert_int_equal(work.remote_addr, 4711);
	assert_int_equal(work.rkey, 99);
	assert_int_equal(read_recv(d), VIP_STATUS_FORMAT_ERROR);
	d->CS.SegCount = 0;
	assert_int_equal(read_send(d), VIP_STATUS_FORMAT_ERROR);
}

static void where_it_may_not_lie(void **state)
{
	VIP_DESCRIPTOR *d = fresh(1);

	assert_int_equal(read_send((VIP_DESCRIPTOR *)(memory + 8)), VIPL_UNPOSTABLE);
	assert_int_equal(vipl_descriptor_read(&vi.sq, d, 77, &work), VIPL_UNPOSTABLE);
	assert_int_equal(vipl_descriptor_read(&vi.sq, d, 0, &work), VIPL_UNPOSTABLE);
	assert_int_equal(vipl_descriptor_read(&vi.sq, d, OTHER_TAG, &work), VIPL_UNPOSTABLE);
	assert_int_equal(vipl_descriptor_read(&vi.sq, d, READ_ONLY, &work), VIPL_UNPOSTABLE);
	/* Nothing there is read. */
	assert_int_equal(read_send((VIP_DESCRIPTOR *)(uintptr_t)64), VIPL_UNPOSTABLE);
	assert_int_equal(read_send((VIP_DESCRIPTOR *)(uintptr_t)-64), VIPL_UNPOSTABLE);
	assert_int_equal(read_send((VIP_DESCRIPTOR *)(memory + sizeof(memory))), VIPL_UNPOSTABLE);
	/* Its segments are beyond the region. */
	d = (VIP_DESCRIPTOR *)(memory + sizeof(memory) - 64);
	memset(d, 0, 64);
	d->CS.SegCount = 3;
	assert_int_equal(read_send(d), VIPL_UNPOSTABLE);
}

static void malformed_ones(void **state)
{
	static const unsigned controls[] = {0x10, 0x8000, VIP_CONTROL_OP_RESERVED,
					    VIP_CONTROL_OP_RDMAREAD | VIP_CONTROL_IMMEDIATE};
	VIP_DESCRIPTOR *d = fresh(1);

	for (unsigned i = 0; i < sizeof(controls) / sizeof(*controls); i++) {
		d->CS.Control = controls[i];
		assert_int_equal(read_send(d), VIP_STATUS_FORMAT_ERROR);
	}
	d->CS.Control = VIP_CONTROL_OP_RDMAREAD;
	d->CS.Length = 0;
	vi.may_read = false;
	assert_int_equal(read_send(d), VIP_STATUS_FORMAT_ERROR);
	vi.may_read = true;
	assert_int_equal(read_send(d), 0);
	d = fresh(0);
	d->CS.SegCount = VIPL_MAX_SEGMENTS + 1;
	assert_int_equal(read_send(d), VIP_STATUS_FORMAT_ERROR);
}

#define OVER_THE_END 0x123456789

static void segments_that_may_not_be_used(void **state)
{
	static const struct {
		uint64_t offset;
		uint32_t length, handle;
		uint32_t send, recv;
	} rows[] = {
		{sizeof(memory) - 10, 10, READ_WRITE, 0, 0},
		{sizeof(memory) - 9, 10, READ_WRITE, 1, 1},
		{0, 10, READ_ONLY, 0, 1},
		{0, 10, OTHER_TAG, 1, 1},
		{0, 10, 1234, 1, 1},
		{0, 10, 0, 1, 1},
		{-1, 10, READ_WRITE, 1, 1},
		{0, 0xffffffff, READ_WRITE, 1, 1},
		{OVER_THE_END, 10, READ_WRITE, 1, 1}, /* to the end of memory, and over it */
		{1234567, 0, 1234, 0, 0},	      /* of no length */
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		VIP_DESCRIPTOR *d = fresh(1);

		d->DS[0].Local.Data.AddressBits = (uintptr_t)memory + rows[i].offset;
		if (rows[i].offset == OVER_THE_END)
			d->DS[0].Local.Data.AddressBits = UINT64_MAX - 4;
		d->DS[0].Local.Length = rows[i].length;
		d->DS[0].Local.Handle = rows[i].handle;
		d->CS.Length = rows[i].length;
		assert_int_equal(read_send(d), rows[i].send ? VIP_STATUS_PROTECTION_ERROR : 0);
		assert_int_equal(read_recv(d), rows[i].recv ? VIP_STATUS_PROTECTION_ERROR : 0);
	}
}

static void lengths_that_do_not_fit(void **state)
{
	VIP_DESCRIPTOR *d = fresh(2);

	d->CS.Length = 19;
	assert_int_equal(read_send(d), VIP_STATUS_LENGTH_ERROR);
	assert_int_equal(read_recv(d), 0);
	d = fresh(1);
	d->DS[0].Local.Length = d->CS.Length = 20001;
	assert_int_equal(read_send(d), VIP_STATUS_LENGTH_ERROR);
	d->DS[0].Local.Length = d->CS.Length = 20000;
	assert_int_equal(read_send(d), 0);
}

static void neighbours_become_one_segment(void **state)
{
	VIP_DESCRIPTOR *d = fresh(300);

	for (unsigned i = 0; i < 300; i++)
		d->DS[i].Local.Data.Address = memory + 32768 + 10 * i;
	assert_int_equal(read_send(d), 0);
	assert_int_equal(work.count, 1);
	assert_int_equal(work.sge[0].length, 3000);
}

static void the_cheapest_run_is_copied(void **state)
{
	struct ibv_sge list[10];
	struct vipl_window window;

	for (unsigned i = 0; i < 10; i++)
		list[i] = (struct ibv_sge){.length = i == 6 || i == 7 ? 1 : 100};
	window = vipl_segments_window(list, 10, 9);
	assert_int_equal(window.first, 6);
	assert_int_equal(window.count, 2);
	assert_int_equal(window.offset, 600);
	assert_int_equal(window.length, 2);
	window = vipl_segments_window(list, 10, 1);
	assert_int_equal(window.first, 0);
	assert_int_equal(window.count, 10);
	assert_int_equal(window.length, 802);
}

/* Any list: as many elements as there is room for are left, and no run of that length is cheaper.
 * */
static void the_cheapest_run_of_any_list(void **state)
{
	struct ibv_sge list[40];

	srandom(2);
	for (unsigned round = 0; round < 2000; round++) {
		unsigned count = 2 + random() % 39, room = 1 + random() % (count - 1);
		struct vipl_window window;

		for (unsigned i = 0; i < count; i++)
			list[i].length = 1 + random() % 1000;
		window = vipl_segments_window(list, count, room);
		assert_int_equal(count - window.count + 1, room);
		assert_true(window.first + window.count <= count);
		for (unsigned first = 0; first + window.count <= count; first++) {
			uint64_t length = 0, offset = 0;

			for (unsigned i = 0; i < first; i++)
				offset += list[i].length;
			for (unsigned i = 0; i < window.count; i++)
				length += list[first + i].length;
			assert_true(length >= window.length);
			if (first == window.first) {
				assert_int_equal(length, window.length);
				assert_int_equal(offset, window.offset);
			}
		}
	}
}

static int set_up(void **state)
{
	vi.attributes.MaxTransferSize = 20000;
	vi.may_read = true;
	vi.sq.vi = vi.rq.vi = &vi;
	vi.rq.recv = true;
	vi.sq.memory_generation = vi.rq.memory_generation = &generation;
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_good_one),
		cmocka_unit_test(of_no_length),
		cmocka_unit_test(rdma_has_an_address_segment),
		cmocka_unit_test(where_it_may_not_lie),
		cmocka_unit_test(malformed_ones),
		cmocka_unit_test(segments_that_may_not_be_used),
		cmocka_unit_test(lengths_that_do_not_fit),
		cmocka_unit_test(neighbours_become_one_segment),
		cmocka_unit_test(the_cheapest_run_is_copied),
		cmocka_unit_test(the_cheapest_run_of_any_list),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
