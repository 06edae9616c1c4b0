// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Handles: stale, foreign and invented ones are not found. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "vipl/handle.h"
#include "vipl/object.h"
#include "vipl/vipl.h"

static int object;

static void a_handle_is_found_until_it_is_destroyed(void **state)
{
	void *handle = vipl_handle_create(VIPL_KIND_VI, &object);

	assert_non_null(handle);
	assert_ptr_equal(vipl_handle_lookup(handle, VIPL_KIND_VI), &object);
	assert_null(vipl_handle_lookup(handle, VIPL_KIND_CQ));
	vipl_handle_destroy(handle);
	assert_null(vipl_handle_lookup(handle, VIPL_KIND_VI));
}

static void no_handle_comes_twice(void **state)
{
	void *first = vipl_handle_create(VIPL_KIND_VI, &object), *other;

	vipl_handle_destroy(first);
	for (unsigned i = 0; i < 3 * VIPL_HANDLES; i++) {
		other = vipl_handle_create(VIPL_KIND_VI, &object);
		assert_ptr_not_equal(other, first);
		vipl_handle_destroy(other);
	}
}

static void any_other_number_is_none(void **state)
{
	assert_null(vipl_handle_lookup(NULL, VIPL_KIND_NIC));
	assert_null(vipl_handle_lookup(&object, VIPL_KIND_NIC));
	assert_null(vipl_handle_lookup((void *)-1, VIPL_KIND_NIC));
	for (uint64_t i = 0; i < 1000000; i++)
		assert_null(vipl_handle_lookup((void *)(uintptr_t)(i * 0x9e3779b97f4a7c15),
					       VIPL_KIND_CONN));
}

static void there_are_as_many_as_may_be(void **state)
{
	static void *handles[VIPL_HANDLES];
	unsigned count = 0;

	while (count < VIPL_HANDLES && (handles[count] = vipl_handle_create(VIPL_KIND_CQ, &object)))
		count++;
	assert_null(vipl_handle_create(VIPL_KIND_CQ, &object));
	while (count)
		vipl_handle_destroy(handles[--count]);
	assert_non_null(handles[0] = vipl_handle_create(VIPL_KIND_CQ, &object));
	vipl_handle_destroy(handles[0]);
}

static void a_child_has_none_of_its_parent(void **state)
{
	void *handle = vipl_handle_create(VIPL_KIND_VI, &object);
	pid_t child = fork();
	int status;

	if (!child)
		_exit(vipl_handle_lookup(handle, VIPL_KIND_VI) != NULL);
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
	assert_ptr_equal(vipl_handle_lookup(handle, VIPL_KIND_VI), &object);
	vipl_handle_destroy(handle);
}

static atomic_bool enough, found, wrong;

static void *look_up(void *handle)
{
	while (!atomic_load(&enough)) {
		void *got = vipl_handle_lookup(handle, VIPL_KIND_VI);

		if (got && got != &object)
			atomic_store_explicit(&wrong, true, memory_order_relaxed);
		if (got)
			atomic_store_explicit(&found, true, memory_order_relaxed);
	}
	return NULL;
}

/* A thread that looks a handle up, while its entry goes to others. */
static void a_handle_gives_no_other_object(void **state)
{
	void *handle = vipl_handle_create(VIPL_KIND_VI, &object);
	static int other;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, look_up, handle), 0);
	while (!atomic_load_explicit(&found, memory_order_relaxed))
		sched_yield();
	vipl_handle_destroy(handle);
	for (unsigned i = 0; i < 3 * VIPL_HANDLES; i++)
		vipl_handle_destroy(vipl_handle_create(VIPL_KIND_VI, &other));
	atomic_store(&enough, true);
	pthread_join(thread, NULL);
	atomic_store(&enough, false);
	assert_false(atomic_load(&wrong));
}

static void *make_objects(void *arg)
{
	while (!atomic_load(&enough))
		vipl_object_put(VIPL_KIND_PTAG, vipl_object_get(VIPL_KIND_PTAG, 64));
	return NULL;
}

/* A lock that another thread had at fork() would stay taken in the child. */
static void a_child_can_make_objects(void **state)
{
	pthread_t thread;
	int status = 0;

	vipl_handle_destroy(vipl_handle_create(VIPL_KIND_VI, &object));
	assert_int_equal(pthread_create(&thread, NULL, make_objects, NULL), 0);
	for (int i = 0; i < 100 && !status; i++) {
		pid_t child = fork();

		if (!child) {
			alarm(20);
			_exit(vipl_object_get(VIPL_KIND_PTAG, 64) == NULL);
		}
		waitpid(child, &status, 0);
	}
	atomic_store(&enough, true);
	pthread_join(thread, NULL);
	assert_int_equal(status, 0);
}

/* Every function with NULL, stale and invented handles, without a NIC at all. */
static void functions_refuse_them(void **state)
{
	void *stale = vipl_handle_create(VIPL_KIND_NIC, &object);
	void *const handles[] = {NULL, stale, (void *)-1, &object, (void *)1};

	vipl_handle_destroy(stale);
	for (unsigned i = 0; i < sizeof(handles) / sizeof(*handles); i++) {
		void *h = handles[i], *out;
		VIP_DESCRIPTOR *descriptor;
		VIP_VI_ATTRIBUTES vi_attributes = {0};
		VIP_MEM_ATTRIBUTES mem_attributes = {0};
		VIP_NIC_ATTRIBUTES nic_attributes;
		union {
			VIP_NET_ADDRESS net;
			char bytes[64];
		} address = {.net = {.HostAddressLen = 16}};
		VIP_VI_STATE vi_state;
		VIP_BOOLEAN yes, no;
		VIP_MEM_HANDLE memory;
		VIP_ULONG length = 10;
		char name[10];
		const VIP_RETURN results[] = {
			VipCloseNic(h),
			VipQueryNic(h, &nic_attributes),
			VipCreateVi(h, &vi_attributes, NULL, NULL, &out),
			VipDestroyVi(h),
			VipQueryVi(h, &vi_state, &vi_attributes, &yes, &no),
			VipSetViAttributes(h, &vi_attributes),
			VipCreatePtag(h, &out),
			VipDestroyPtag(h, h),
			VipRegisterMem(h, &object, 4, &mem_attributes, &memory),
			VipDeregisterMem(h, &object, 1),
			VipQueryMem(h, &object, 1, &mem_attributes),
			VipSetMemAttributes(h, &object, 1, &mem_attributes),
			VipConnectWait(h, &address.net, 1, &address.net, &vi_attributes, &out),
			VipConnectAccept(h, h),
			VipConnectReject(h),
			VipConnectRequest(h, &address.net, &address.net, 1, &vi_attributes),
			VipDisconnect(h),
			VipConnectPeerRequest(h, &address.net, &address.net, 1),
			VipConnectPeerDone(h, &vi_attributes),
			VipConnectPeerWait(h, &vi_attributes),
			VipPostSend(h, (VIP_DESCRIPTOR *)&object, 1),
			VipPostRecv(h, (VIP_DESCRIPTOR *)&object, 1),
			VipSendDone(h, &descriptor),
			VipRecvDone(h, &descriptor),
			VipSendWait(h, 1, &descriptor),
			VipRecvWait(h, 1, &descriptor),
			VipSendNotify(h, NULL, NULL),
			VipRecvNotify(h, NULL, NULL),
			VipCreateCQ(h, 1, &out),
			VipDestroyCQ(h),
			VipResizeCQ(h, 1),
			VipCQDone(h, &out, &yes),
			VipCQWait(h, 1, &out, &yes),
			VipCQNotify(h, NULL, NULL),
			VipErrorCallback(h, NULL, NULL),
			VipQuerySystemManagementInfo(h, VIP_SMI_AUTODISCOVERY, &object),
			VipNSInit(h, NULL),
			VipNSGetHostByName(h, name, &address.net, 0),
			VipNSGetHostByAddr(h, &address.net, name, &length),
			VipNSShutdown(h),
		};

		for (unsigned j = 0; j < sizeof(results) / sizeof(*results); j++)
			assert_int_equal(results[j], VIP_INVALID_PARAMETER);
	}
	assert_int_equal(VipOpenNic(NULL, &stale), VIP_INVALID_PARAMETER);
	assert_int_equal(VipOpenNic("nic0", NULL), VIP_INVALID_PARAMETER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_handle_is_found_until_it_is_destroyed),
		cmocka_unit_test(no_handle_comes_twice),
		cmocka_unit_test(any_other_number_is_none),
		cmocka_unit_test(there_are_as_many_as_may_be),
		cmocka_unit_test(a_handle_gives_no_other_object),
		cmocka_unit_test(a_child_has_none_of_its_parent),
		cmocka_unit_test(a_child_can_make_objects),
		cmocka_unit_test(functions_refuse_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
