// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Questions to the subnet administrator (sa.c) over a umad port that is this test's. */
#include "ipoib_test.h"

#include <infiniband/umad.h>
#include <infiniband/umad_sa_mcm.h>

#undef ibv_query_port

static unsigned num_joins, num_leaves, num_answered;
static struct umad_sa_mcmember_record record;

int umad_init(void)
{
	return 0;
}

int umad_open_port(const char *device, int port)
{
	return 7;
}

int umad_close_port(int port)
{
	return 0;
}

int umad_get_fd(int port)
{
	return -1;
}

int umad_register(int port, int class, int version, uint8_t rmpp, long methods[16 / sizeof(long)])
{
	return 3;
}

int umad_unregister(int port, int sender)
{
	return 0;
}

int umad_send(int port, int sender, void *umad, int len, int timeout, int retries)
{
	const struct umad_hdr *mad = umad_get_mad(umad);

	num_joins += mad->method == UMAD_METHOD_SET;
	num_leaves += mad->method == UMAD_SA_METHOD_DELETE;
	return 0;
}

int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	((struct ibv_port_attr *)attr)->sm_lid = 1;
	return 0;
}

static void answered(struct ipoib *of, void *arg, int error,
		     const struct umad_sa_mcmember_record *answer)
{
	num_answered++;
}

static int set_up(void **state)
{
	static struct ibv_device device = {.name = "ib"};
	static struct ibv_context context = {.device = &device};

	begin_test();
	ib.context = &context;
	num_joins = num_leaves = num_answered = 0;
	return 0;
}

/* All are left at the end, though their answers are not waited for. */
static void as_many_groups_are_left_as_were_joined(void **state)
{
	static char groups[1000];
	unsigned asked = 0;

	assert_int_equal(sa_create(&ib), 0);
	for (unsigned i = 0; i < 1000; i++)
		asked += !sa_join(&ib, &record, 0, answered, &groups[i]);
	assert_int_equal(num_joins, asked);
	assert_in_range(asked, 1, 999); /* of the others the caller hears */
	for (unsigned i = 0; i < 1000; i++)
		sa_leave(&ib, &record);
	assert_int_equal(num_leaves, 1000);
	sa_destroy(&ib);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(as_many_groups_are_left_as_were_joined, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
