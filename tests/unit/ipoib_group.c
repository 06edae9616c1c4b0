/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Groups of an IPoIB interface (RFC 4391, 4, 5 and 10): joins, refusals, leaving, and another
 * subnet manager. The subnet administrator and the kernel's groups are this test's.
 */
#include "ipoib_test.h"

#include <infiniband/umad_sa_mcm.h>

#define FULL	  UMAD_SA_MCM_JOIN_STATE_FULL_MEMBER
#define SEND_ONLY UMAD_SA_MCM_JOIN_STATE_SEND_ONLY_NON_MEMBER

/* ---- the rest of an interface ---- */

struct question {
	struct umad_sa_mcmember_record record;
	uint64_t mask;
	sa_done *done;
	void *arg;
	bool open;
};

static struct question joins[64];
static struct umad_sa_mcmember_record leaves[64];
static unsigned num_joins, num_leaves, num_attached;
static int sa_error, attach_error, port_error;
static unsigned port_mtu;
static uint32_t qkey;
static struct in6_addr host_groups[4];
static unsigned num_host_groups;

int sa_join(struct ipoib *of, const struct umad_sa_mcmember_record *record, uint64_t mask,
	    sa_done *done, void *arg)
{
	assert_true(num_joins < 64);
	joins[num_joins] = (struct question){*record, mask, done, arg, !sa_error};
	num_joins++;
	return sa_error;
}

void sa_leave(struct ipoib *of, const struct umad_sa_mcmember_record *record)
{
	leaves[num_leaves++ % 64] = *record;
}

void sa_forget(struct ipoib *of, const void *arg)
{
	for (unsigned i = 0; i < num_joins; i++)
		if (joins[i].arg == arg)
			joins[i].open = false;
}

int queue_set_qkey(struct ipoib *of, uint32_t key)
{
	qkey = key;
	return 0;
}

int queue_attach(struct ipoib *of, const uint8_t mgid[16], uint16_t mlid)
{
	if (!attach_error)
		num_attached++;
	return attach_error;
}

void queue_detach(struct ipoib *of, const uint8_t mgid[16], uint16_t mlid)
{
	num_attached--;
}

void port_joined(struct ipoib *of, int error, unsigned mtu)
{
	port_error = error;
	port_mtu = mtu;
}

void kernel_each_address(struct ipoib *of, void (*fn)(struct ipoib *of, const struct in6_addr *ip))
{
	struct in6_addr own = address("fe80::12:3456"), own4 = address("10.0.0.1");

	fn(of, &own);
	fn(of, &own4);
}

void kernel_each_group(struct ipoib *of, void (*fn)(struct ipoib *of, const struct in6_addr *ip))
{
	for (unsigned i = 0; i < num_host_groups; i++)
		fn(of, &host_groups[i]);
}

/* ---- what the subnet administrator does ---- */

static void sa_answers(unsigned i, int error, uint16_t mlid)
{
	struct umad_sa_mcmember_record r = joins[i].record;

	assert_true(joins[i].open);
	joins[i].open = false;
	r.mlid = htobe16(mlid);
	r.mtu = 2 << 6 | 4; /* 2048 */
	r.rate = 2 << 6 | 3;
	r.qkey = htobe32(0xb1b);
	r.tclass = 7;
	r.sl_flow_hop = htobe32(3u << 28 | 5 << 8 | 1);
	joins[i].done(&ib, joins[i].arg, error, error ? NULL : &r);
}

static struct in6_addr group_a, group_b;

/* The last question about a group; fails where there is none. */
static unsigned asked_about(const struct in6_addr *ip)
{
	uint8_t mgid[16];

	ipoib_mgid(ip, ib.pkey, IPOIB_SCOPE_LINK, mgid);
	for (unsigned i = num_joins; i--;)
		if (!memcmp(joins[i].record.mgid, mgid, 16))
			return i;
	fail();
	return 0;
}

static struct group_info found;

static void find_group(void *arg, const struct group_info *g)
{
	if (!memcmp(g->mgid, arg, 16))
		found = *g;
}

static bool is_joined(const struct in6_addr *ip)
{
	uint8_t mgid[16];

	ipoib_mgid(ip, ib.pkey, IPOIB_SCOPE_LINK, mgid);
	found = (struct group_info){};
	groups_each(&ib, find_group, mgid);
	return found.joined;
}

static void say(const struct in6_addr *group, uint8_t number)
{
	group_send(&ib, group, numbered(number));
}

/* The broadcast group is joined, and those that every host is in. */
static void bring_up(void)
{
	groups_start(&ib);
	sa_answers(0, 0, 0xc000);
	groups_follow(&ib);
	for (unsigned i = 1; i < num_joins; i++)
		sa_answers(i, 0, (uint16_t)(0xc000 + i));
	assert_int_equal(num_attached, num_joins);
}

static void host_joins(const struct in6_addr *group)
{
	host_groups[num_host_groups++] = *group;
	groups_follow(&ib);
}

static void host_leaves_all(void)
{
	num_host_groups = 0;
	groups_follow(&ib);
}

static int set_up(void **state)
{
	group_a = address("239.1.2.3");
	group_b = address("ff05::77");
	num_joins = num_leaves = num_attached = num_host_groups = 0;
	sa_error = attach_error = port_error = 0;
	port_mtu = qkey = 0;
	begin_test();
	return groups_create(&ib);
}

static int tear_down(void **state)
{
	groups_destroy(&ib);
	assert_int_equal(num_attached, 0);
	return end_test();
}

/* ---- joining ---- */

static void the_broadcast_group_is_joined_and_not_made(void **state)
{
	struct in6_addr mgid = address("ff12:401b:ffff::ffff:ffff");

	groups_start(&ib);
	assert_int_equal(num_joins, 1);
	assert_memory_equal(joins[0].record.mgid, &mgid, 16);
	assert_memory_equal(joins[0].record.portgid, &ib.gid, 16);
	assert_int_equal(joins[0].record.scope_state, FULL);
	/* Without a Q_Key nobody can make a group (IBTA vol. 1, 15.2.5.17.2). */
	assert_false(joins[0].mask & UMAD_SA_MCM_COMP_MASK_QKEY);
	sa_answers(0, 0, 0xc000);
	assert_int_equal(port_error, 0);
	assert_int_equal(port_mtu, 2048);
	assert_int_equal(qkey, 0xb1b);
	assert_int_equal(num_attached, 1);
}

static void other_groups_have_the_parameters_of_the_broadcast_group(void **state)
{
	const struct umad_sa_mcmember_record *r;
	unsigned i;

	bring_up();
	host_joins(&group_a);
	i = asked_about(&group_a);
	r = &joins[i].record;
	assert_int_equal(r->scope_state, FULL);
	assert_int_equal(be32toh(r->qkey), 0xb1b);
	assert_int_equal(r->mtu, 2 << 6 | 4);
	assert_int_equal(r->rate, 2 << 6 | 3);
	assert_int_equal(r->tclass, 7);
	assert_int_equal(be32toh(r->sl_flow_hop), 3u << 28 | 5 << 8 | 1);
	assert_true(joins[i].mask & UMAD_SA_MCM_COMP_MASK_QKEY);
}

static void the_host_is_in_all_hosts_all_nodes_and_solicited_nodes(void **state)
{
	static const char *const every[] = {"224.0.0.1", "ff02::1", "ff02::1:ff12:3456"};

	bring_up();
	assert_int_equal(num_joins, 4);
	for (unsigned i = 0; i < 3; i++) {
		struct in6_addr ip = address(every[i]);

		assert_int_equal(joins[asked_about(&ip)].record.scope_state, FULL);
		assert_true(is_joined(&ip));
	}
}

static void before_the_broadcast_group_is_joined_no_other_one_is(void **state)
{
	groups_follow(&ib);
	groups_start(&ib);
	groups_follow(&ib);
	assert_int_equal(num_joins, 1);
}

/* RFC 4391, 10 */
static void a_group_that_is_only_sent_to_is_joined_for_sending(void **state)
{
	unsigned attached, i;

	bring_up();
	attached = num_attached;
	say(&group_b, 1);
	say(&group_b, 2);
	i = asked_about(&group_b);
	assert_int_equal(joins[i].record.scope_state, SEND_ONLY);
	assert_false(joins[i].mask & UMAD_SA_MCM_COMP_MASK_QKEY);
	assert_int_equal(num_sent, 0);
	sa_answers(i, 0, 0xc123);
	assert_int_equal(num_attached, attached);
	assert_int_equal(num_sent, 2);
	assert_int_equal(number_of(0), 1);
	assert_int_equal(sent[0].lid, 0xc123);
	assert_int_equal(sent[0].qpn, 0xffffff);
	say(&group_b, 3);
	assert_int_equal(num_sent, 3);
}

static void a_group_that_was_only_sent_to_is_joined_in_full_when_the_host_is_in_it(void **state)
{
	unsigned attached;

	bring_up();
	attached = num_attached;
	say(&group_a, 1);
	sa_answers(asked_about(&group_a), 0, 0xc123);
	host_joins(&group_a);
	assert_int_equal(joins[asked_about(&group_a)].record.scope_state, FULL);
	say(&group_a, 2); /* goes meanwhile */
	assert_int_equal(num_sent, 2);
	sa_answers(asked_about(&group_a), 0, 0xc123);
	assert_int_equal(num_attached, attached + 1);
	host_leaves_all();
	assert_int_equal(num_leaves, 1);
	assert_int_equal(leaves[0].scope_state, FULL | SEND_ONLY);
}

static void a_full_join_that_fails_after_one_for_sending_is_tried_again(void **state)
{
	unsigned n;

	bring_up();
	say(&group_a, 1);
	sa_answers(asked_about(&group_a), 0, 0xc123);
	host_joins(&group_a);
	n = num_joins;
	sa_answers(n - 1, -ETIMEDOUT, 0);
	pass(9999);
	groups_follow(&ib);
	assert_int_equal(num_joins, n);
	pass(1);
	groups_follow(&ib);
	assert_int_equal(num_joins, n + 1);
	assert_int_equal(joins[n].record.scope_state, FULL);
	groups_follow(&ib);
	assert_int_equal(num_joins, n + 1);
	sa_answers(n, 0, 0xc123);
	groups_follow(&ib);
	assert_int_equal(num_joins, n + 1);
}

static void a_host_that_joins_while_a_join_for_sending_is_under_way_is_joined_in_full(void **state)
{
	unsigned n;

	bring_up();
	say(&group_a, 1);
	n = num_joins;
	host_joins(&group_a);
	assert_int_equal(num_joins, n);
	sa_answers(n - 1, 0, 0xc123);
	assert_int_equal(num_joins, n + 1);
	assert_int_equal(joins[n].record.scope_state, FULL);
}

static void sixteen_packets_wait_for_a_group(void **state)
{
	bring_up();
	for (uint8_t n = 1; n <= 20; n++)
		say(&group_b, n);
	assert_int_equal(ib.stats.drop_no_group, 4);
	sa_answers(asked_about(&group_b), 0, 0xc123);
	assert_int_equal(num_sent, 16);
	assert_int_equal(number_of(15), 16);
}

/* ---- joins that fail ---- */

static void a_broadcast_group_that_fails_is_the_port_s_to_ask_for_again(void **state)
{
	static const int errors[] = {-ENOENT, -ETIMEDOUT, -EBUSY};

	for (unsigned i = 0; i < 3; i++) {
		groups_start(&ib);
		sa_answers(i, errors[i], 0);
		assert_int_equal(port_error, errors[i]);
	}
	sa_error = -EAGAIN;
	groups_start(&ib);
	assert_int_equal(port_error, -EAGAIN);
	sa_error = 0;
	groups_start(&ib);
	sa_answers(num_joins - 1, 0, 0xc000);
	assert_int_equal(port_error, 0);
}

static void a_broadcast_group_of_an_mtu_that_is_none_is_not_taken(void **state)
{
	for (unsigned again = 0; again < 2; again++) {
		struct umad_sa_mcmember_record r = {.mtu = 2 << 6 | 40};
		struct question *q;

		groups_start(&ib);
		q = &joins[num_joins - 1];
		q->open = false;
		q->done(&ib, q->arg, 0, &r);
		/* One that was joined goes on as it was. */
		assert_int_equal(port_error, again ? 0 : -EPROTO);
		if (again)
			assert_int_equal(port_mtu, 2048);
		groups_start(&ib);
		sa_answers(num_joins - 1, 0, 0xc000);
	}
}

/* RFC 4391, 10: nobody has made the group. */
static void the_sa_is_not_asked_again_for_ten_seconds_after_a_refusal(void **state)
{
	unsigned n;

	bring_up();
	say(&group_b, 1);
	n = num_joins;
	sa_answers(n - 1, -ENOENT, 0);
	assert_int_equal(ib.stats.drop_no_group, 1);
	pass(9999);
	say(&group_b, 2);
	assert_int_equal(ib.stats.drop_no_group, 2);
	assert_int_equal(num_joins, n);
	pass(1);
	say(&group_b, 3);
	assert_int_equal(num_joins, n + 1);
	sa_answers(n, 0, 0xc123);
	assert_int_equal(num_sent, 1);
	assert_int_equal(number_of(0), 3);
}

static void a_group_of_the_host_s_that_failed_is_joined_after_ten_seconds(void **state)
{
	unsigned n;

	bring_up();
	host_joins(&group_a);
	n = num_joins;
	sa_answers(n - 1, -ETIMEDOUT, 0);
	groups_follow(&ib);
	assert_int_equal(num_joins, n);
	pass(10000);
	groups_follow(&ib);
	assert_int_equal(num_joins, n + 1);
	sa_answers(n, 0, 0xc123);
	assert_true(is_joined(&group_a));
}

static void a_group_that_could_not_be_attached_is_joined_again_and_left_in_the_end(void **state)
{
	unsigned n, attached;

	bring_up();
	attached = num_attached;
	attach_error = -ENOMEM;
	host_joins(&group_a);
	n = num_joins;
	sa_answers(n - 1, 0, 0xc123);
	assert_false(is_joined(&group_a));
	assert_int_equal(ib.stats.joins_failed, 1);
	attach_error = 0;
	pass(10000);
	groups_follow(&ib);
	assert_int_equal(num_joins, n + 1);
	attach_error = -ENOMEM;
	sa_answers(n, 0, 0xc123);
	attach_error = 0;
	host_leaves_all();
	assert_int_equal(num_leaves, 1);
	assert_int_equal(num_attached, attached);
}

/* ---- leaving ---- */

static void a_group_that_the_host_has_left_is_left(void **state)
{
	unsigned attached;

	bring_up();
	attached = num_attached;
	host_joins(&group_a);
	sa_answers(asked_about(&group_a), 0, 0xc123);
	assert_int_equal(num_attached, attached + 1);
	host_leaves_all();
	assert_int_equal(num_attached, attached);
	assert_int_equal(num_leaves, 1);
	assert_memory_equal(leaves[0].mgid, joins[asked_about(&group_a)].record.mgid, 16);
	assert_memory_equal(leaves[0].portgid, &ib.gid, 16);
	assert_int_equal(leaves[0].scope_state, FULL);
	assert_false(is_joined(&group_a));
}

static void a_group_that_is_left_while_it_is_joined_is_left_at_the_sa(void **state)
{
	unsigned i;

	bring_up();
	host_joins(&group_a);
	i = asked_about(&group_a);
	say(&group_a, 1);
	host_leaves_all();
	assert_false(joins[i].open);
	assert_int_equal(num_leaves, 1);
	assert_int_equal(num_packets, 0);
}

static void a_group_that_was_refused_is_not_left(void **state)
{
	bring_up();
	host_joins(&group_a);
	sa_answers(asked_about(&group_a), -ENOENT, 0);
	host_leaves_all();
	assert_int_equal(num_leaves, 0);
}

static void all_groups_are_left_at_the_end(void **state)
{
	bring_up();
	groups_destroy(&ib);
	assert_int_equal(num_leaves, 4);
	assert_int_equal(num_attached, 0);
	assert_int_equal(groups_create(&ib), 0);
}

static void when_the_port_is_down_groups_are_forgotten_and_nobody_is_told(void **state)
{
	bring_up();
	say(&group_b, 1);
	groups_stop(&ib);
	assert_int_equal(num_leaves, 0);
	assert_int_equal(num_attached, 0);
	assert_int_equal(num_packets, 0);
	for (unsigned i = 0; i < num_joins; i++)
		assert_false(joins[i].open);
	num_joins = 0;
	bring_up();
}

/* ---- another subnet manager ---- */

static void every_minute_memberships_are_renewed(void **state)
{
	bring_up();
	pass(59999);
	assert_int_equal(num_joins, 4);
	pass(1);
	assert_int_equal(num_joins, 8);
	for (unsigned i = 4; i < 8; i++)
		assert_int_equal(joins[i].record.scope_state, FULL);
}

static void packets_go_on_while_memberships_are_renewed(void **state)
{
	bring_up();
	host_joins(&group_a);
	sa_answers(asked_about(&group_a), 0, 0xc123);
	groups_renew(&ib);
	say(&group_a, 1);
	assert_int_equal(num_sent, 1);
	sa_answers(asked_about(&group_a), -ETIMEDOUT, 0);
	say(&group_a, 2);
	assert_int_equal(num_sent, 2);
	assert_true(is_joined(&group_a));
}

static void a_renewal_under_way_when_the_subnet_manager_changes_is_done_again(void **state)
{
	unsigned n;

	groups_start(&ib);
	groups_renew(&ib);
	groups_renew(&ib);
	assert_int_equal(num_joins, 1);
	sa_answers(0, 0, 0xc000);
	n = num_joins;
	assert_int_equal(n, 2);
	sa_answers(1, 0, 0xc000);
	assert_int_equal(num_joins, 2);
}

static void another_mlid_is_attached_in_place_of_the_old_one(void **state)
{
	unsigned attached;

	bring_up();
	host_joins(&group_a);
	sa_answers(asked_about(&group_a), 0, 0xc123);
	attached = num_attached;
	groups_renew(&ib);
	sa_answers(asked_about(&group_a), 0, 0xc200);
	assert_int_equal(num_attached, attached);
	say(&group_a, 1);
	assert_int_equal(sent[0].lid, 0xc200);
	assert_true(is_joined(&group_a));
	assert_int_equal(found.mlid, 0xc200);
}

static void a_group_that_a_new_sa_refuses_is_not_sent_to_any_more(void **state)
{
	unsigned attached;

	bring_up();
	attached = num_attached;
	host_joins(&group_a);
	sa_answers(asked_about(&group_a), 0, 0xc123);
	groups_renew(&ib);
	sa_answers(asked_about(&group_a), -ENOENT, 0);
	assert_int_equal(num_attached, attached);
	say(&group_a, 1);
	assert_int_equal(num_sent, 0);
	assert_int_equal(ib.stats.drop_no_group, 1);
}

static void a_broadcast_group_that_a_new_sa_does_not_have_takes_the_link_down(void **state)
{
	bring_up();
	groups_renew(&ib);
	sa_answers(4, -ENOENT, 0);
	assert_int_equal(port_error, -ENOENT);
	groups_start(&ib);
	sa_answers(num_joins - 1, 0, 0xc001);
	assert_int_equal(port_error, 0);
}

static void groups_are_as_many_as_the_table_holds(void **state)
{
	struct in6_addr ip = address("239.0.0.0");

	sa_error = -EBUSY;
	for (unsigned i = 0; i < 1025; i++) {
		num_joins = 0;
		ip.s6_addr[14] = (uint8_t)(i >> 8);
		ip.s6_addr[15] = (uint8_t)i;
		say(&ip, 1);
	}
	assert_int_equal(ib.stats.drop_table, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_broadcast_group_is_joined_and_not_made),
		TEST(other_groups_have_the_parameters_of_the_broadcast_group),
		TEST(the_host_is_in_all_hosts_all_nodes_and_solicited_nodes),
		TEST(before_the_broadcast_group_is_joined_no_other_one_is),
		TEST(a_group_that_is_only_sent_to_is_joined_for_sending),
		TEST(a_group_that_was_only_sent_to_is_joined_in_full_when_the_host_is_in_it),
		TEST(a_full_join_that_fails_after_one_for_sending_is_tried_again),
		TEST(a_host_that_joins_while_a_join_for_sending_is_under_way_is_joined_in_full),
		TEST(sixteen_packets_wait_for_a_group),
		TEST(a_broadcast_group_that_fails_is_the_port_s_to_ask_for_again),
		TEST(a_broadcast_group_of_an_mtu_that_is_none_is_not_taken),
		TEST(the_sa_is_not_asked_again_for_ten_seconds_after_a_refusal),
		TEST(a_group_of_the_host_s_that_failed_is_joined_after_ten_seconds),
		TEST(a_group_that_could_not_be_attached_is_joined_again_and_left_in_the_end),
		TEST(a_group_that_the_host_has_left_is_left),
		TEST(a_group_that_is_left_while_it_is_joined_is_left_at_the_sa),
		TEST(a_group_that_was_refused_is_not_left),
		TEST(all_groups_are_left_at_the_end),
		TEST(when_the_port_is_down_groups_are_forgotten_and_nobody_is_told),
		TEST(every_minute_memberships_are_renewed),
		TEST(packets_go_on_while_memberships_are_renewed),
		TEST(a_renewal_under_way_when_the_subnet_manager_changes_is_done_again),
		TEST(another_mlid_is_attached_in_place_of_the_old_one),
		TEST(a_group_that_a_new_sa_refuses_is_not_sent_to_any_more),
		TEST(a_broadcast_group_that_a_new_sa_does_not_have_takes_the_link_down),
		TEST(groups_are_as_many_as_the_table_holds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
