/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Neighbours of an IPoIB interface: states and times of RFC 4861, 7.3.2 and 10, for ARP as well;
 * what waits, changed addresses, and paths. Groups, routes and path records are this test's.
 */
#include "ipoib_test.h"

#include "libsacache/sacache.h"

#define GONE -1

static struct in6_addr peer, own, own6;
static const struct ipoib_link at_first = {.qpn = 0x222, .gid = {[15] = 0x22}};
static const struct ipoib_link other_qpn = {.qpn = 0x333, .gid = {[15] = 0x22}};
static const struct ipoib_link other_gid = {.qpn = 0x444, .gid = {[15] = 0x44}};

/* ---- the rest of an interface ---- */

static struct to_all {
	struct in6_addr group;
	struct ipoib_discovery msg;
} to_all[16];
static unsigned num_to_all, num_unreachable;

void group_send(struct ipoib *of, const struct in6_addr *ip, struct ipoib_packet *packet)
{
	struct to_all *t = &to_all[num_to_all++ % 16];

	t->group = *ip;
	assert_int_equal(ipoib_parse(packet->data, packet->len, &t->msg), IPOIB_DISCOVERY);
	queue_free(of, packet);
}

void receive_unreachable(struct ipoib *of, const struct ipoib_packet *packet)
{
	num_unreachable++;
}

bool kernel_is_own(const struct ipoib *of, const struct in6_addr *ip)
{
	return IN6_ARE_ADDR_EQUAL(ip, &own) || IN6_ARE_ADDR_EQUAL(ip, &own6);
}

bool kernel_source(const struct ipoib *of, const struct in6_addr *ip, struct in6_addr *source)
{
	*source = ipoib_is_ipv4(ip) ? own : own6;
	return true;
}

void kernel_each_address(struct ipoib *of, void (*fn)(struct ipoib *of, const struct in6_addr *ip))
{
	fn(of, &own);
	fn(of, &own6);
}

static struct path_question {
	uint8_t gid[16];
	bool again;
} path_questions[16];
static unsigned num_path_questions;
static int path_error;

int path_ask(struct ipoib *of, const struct in6_addr *ip, const uint8_t gid[16], bool again)
{
	struct path_question *q = &path_questions[num_path_questions++ % 16];

	memcpy(q->gid, gid, 16);
	q->again = again;
	return path_error;
}

static void path_comes(const struct ipoib_link *link, uint16_t lid)
{
	struct sacache_path path = {.dlid = lid};

	memcpy(path.dgid, link->gid, 16);
	neighbour_path(&ib, &peer, 0, &path);
}

static void path_fails(int error)
{
	neighbour_path(&ib, &peer, error, NULL);
}

/* ---- what happens to the peer ---- */

static void say(uint8_t number)
{
	neighbour_send(&ib, &peer, numbered(number));
}

static void hears_answer(const struct ipoib_link *link, bool solicited, bool override)
{
	struct ipoib_discovery msg = {.answer = true,
				      .solicited = solicited,
				      .override = override,
				      .has_sender = true,
				      .from = peer,
				      .target = peer,
				      .sender = *link};

	neighbour_heard(&ib, &msg, 0x22);
}

static void hears_question(const struct in6_addr *from, const struct in6_addr *target,
			   const struct ipoib_link *link, uint16_t slid)
{
	struct ipoib_discovery msg = {.has_sender = link,
				      .from = *from,
				      .target = *target,
				      .sender = link ? *link : at_first};

	neighbour_heard(&ib, &msg, slid);
}

static struct neighbour_info seen;
static int seen_state;

static void see(void *arg, const struct neighbour_info *n)
{
	if (!IN6_ARE_ADDR_EQUAL(&n->ip, &peer))
		return;
	seen = *n;
	seen_state = (int)n->state;
}

static int state_now(void)
{
	seen_state = GONE;
	neighbours_each(&ib, see, NULL);
	return seen_state;
}

static void forget_log(void)
{
	num_sent = num_to_all = num_path_questions = num_unreachable = 0;
}

/* A neighbour in that state, with a path where it has an address. */
static void bring(enum neighbour_state to)
{
	neighbours_forget(&ib);
	say(0);
	if (to == NEIGHBOUR_FAILED)
		pass(3000);
	if (to != NEIGHBOUR_FAILED && to != NEIGHBOUR_INCOMPLETE) {
		hears_answer(&at_first, true, true);
		path_comes(&at_first, 0x22);
	}
	if (to == NEIGHBOUR_STALE || to == NEIGHBOUR_DELAY || to == NEIGHBOUR_PROBE)
		pass(30000);
	if (to == NEIGHBOUR_DELAY || to == NEIGHBOUR_PROBE)
		say(0);
	if (to == NEIGHBOUR_PROBE)
		pass(5000);
	assert_int_equal(state_now(), to);
	forget_log();
}

static int set_up(void **state)
{
	peer = address("10.0.0.2");
	own = address("10.0.0.1");
	own6 = address("fe80::1");
	path_error = 0;
	forget_log();
	begin_test();
	return neighbours_create(&ib);
}

static int tear_down(void **state)
{
	neighbours_destroy(&ib);
	return end_test();
}

/* ---- states ---- */

static const struct {
	enum neighbour_state from;
	unsigned ms;
	int to;
} times[] = {
	{NEIGHBOUR_INCOMPLETE, 3000, NEIGHBOUR_FAILED},
	{NEIGHBOUR_REACHABLE, 30000, NEIGHBOUR_STALE},
	{NEIGHBOUR_STALE, 120000, GONE},
	{NEIGHBOUR_DELAY, 5000, NEIGHBOUR_PROBE},
	{NEIGHBOUR_PROBE, 3000, NEIGHBOUR_INCOMPLETE},
	{NEIGHBOUR_FAILED, 120000, GONE},
};

static void states_last_as_long_as_in_rfc_4861_10(void **state)
{
	for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++) {
		bring(times[i].from);
		pass(times[i].ms - 1);
		assert_int_equal(state_now(), times[i].from);
		pass(1);
		assert_int_equal(state_now(), times[i].to);
	}
}

/* RFC 4861, 7.2.5 and appendix C. */
static const struct {
	enum neighbour_state from;
	bool solicited, override, other;
	enum neighbour_state to;
	bool taken; /* the other address */
} answers[] = {
	{NEIGHBOUR_INCOMPLETE, true, false, false, NEIGHBOUR_REACHABLE},
	{NEIGHBOUR_INCOMPLETE, false, true, false, NEIGHBOUR_STALE},
	{NEIGHBOUR_REACHABLE, true, false, false, NEIGHBOUR_REACHABLE},
	{NEIGHBOUR_STALE, true, false, false, NEIGHBOUR_REACHABLE},
	{NEIGHBOUR_DELAY, true, false, false, NEIGHBOUR_REACHABLE},
	{NEIGHBOUR_PROBE, true, false, false, NEIGHBOUR_REACHABLE},
	{NEIGHBOUR_REACHABLE, true, false, true, NEIGHBOUR_STALE},
	{NEIGHBOUR_STALE, true, false, true, NEIGHBOUR_STALE},
	{NEIGHBOUR_DELAY, true, false, true, NEIGHBOUR_DELAY},
	{NEIGHBOUR_PROBE, true, false, true, NEIGHBOUR_PROBE},
	{NEIGHBOUR_REACHABLE, true, true, true, NEIGHBOUR_REACHABLE, true},
	{NEIGHBOUR_PROBE, true, true, true, NEIGHBOUR_REACHABLE, true},
	{NEIGHBOUR_REACHABLE, false, true, true, NEIGHBOUR_STALE, true},
	{NEIGHBOUR_DELAY, false, true, true, NEIGHBOUR_STALE, true},
	{NEIGHBOUR_REACHABLE, false, true, false, NEIGHBOUR_REACHABLE},
	{NEIGHBOUR_PROBE, false, true, false, NEIGHBOUR_PROBE},
	{NEIGHBOUR_DELAY, false, false, false, NEIGHBOUR_DELAY},
};

static void answers_count_as_in_rfc_4861_7_2_5(void **state)
{
	for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
		bring(answers[i].from);
		hears_answer(answers[i].other ? &other_gid : &at_first, answers[i].solicited,
			     answers[i].override);
		if (state_now() != (int)answers[i].to)
			fail_msg("row %zu: state %d", i, state_now());
		assert_int_equal(seen.link.qpn, answers[i].taken ? other_gid.qpn : at_first.qpn);
	}
}

static void three_questions_a_second_apart_go_to_all(void **state)
{
	say(1);
	for (unsigned n = 1; n <= 3; n++) {
		assert_int_equal(num_to_all, n);
		assert_memory_equal(&to_all[n - 1].msg.target, &peer, 16);
		assert_memory_equal(&to_all[n - 1].msg.from, &own, 16);
		assert_int_equal(to_all[n - 1].msg.sender.qpn, ib.qpn);
		pass(1000);
	}
	pass(60000);
	assert_int_equal(num_to_all, 3);
	assert_int_equal(num_sent, 0);
}

/* RFC 4391, 9.2, and RFC 4861, 7.2.2 */
static void an_ipv6_address_is_asked_for_at_its_solicited_node_group(void **state)
{
	struct in6_addr ip = address("fe80::12:3456"), group = address("ff02::1:ff12:3456");

	neighbour_send(&ib, &ip, numbered(1));
	assert_int_equal(num_to_all, 1);
	assert_memory_equal(&to_all[0].group, &group, 16);
	assert_memory_equal(&to_all[0].msg.from, &own6, 16);
}

static void probes_go_to_the_neighbour_alone(void **state)
{
	struct ipoib_discovery msg;

	bring(NEIGHBOUR_DELAY);
	pass(5000 + 2000);
	assert_int_equal(num_to_all, 0);
	assert_int_equal(num_sent, 3);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(sent[i].qpn, at_first.qpn);
		assert_int_equal(ipoib_parse(sent[i].data, sent[i].len, &msg), IPOIB_DISCOVERY);
		assert_false(msg.answer);
		assert_memory_equal(&msg.target, &peer, 16);
	}
	pass(1000);
	assert_int_equal(num_to_all, 1);
}

static void packets_go_on_while_a_neighbour_is_confirmed(void **state)
{
	bring(NEIGHBOUR_DELAY);
	say(1);
	assert_int_equal(num_sent, 1);
	bring(NEIGHBOUR_PROBE);
	say(2);
	assert_int_equal(num_sent, 1);
}

static void a_neighbour_that_failed_is_asked_for_with_the_next_packet(void **state)
{
	bring(NEIGHBOUR_FAILED);
	say(1);
	assert_int_equal(state_now(), NEIGHBOUR_INCOMPLETE);
	assert_int_equal(num_to_all, 1);
}

/* ---- what waits ---- */

static void packets_wait_for_address_and_path_and_leave_in_order(void **state)
{
	for (uint8_t n = 1; n <= 10; n++)
		say(n);
	hears_answer(&at_first, true, true);
	assert_int_equal(num_sent, 0);
	assert_int_equal(num_path_questions, 1);
	say(11);
	path_comes(&at_first, 0x22);
	assert_int_equal(num_sent, 11);
	for (unsigned i = 0; i < 11; i++) {
		assert_int_equal(number_of(i), i + 1);
		assert_int_equal(sent[i].lid, 0x22);
		assert_int_equal(sent[i].qpn, at_first.qpn);
	}
}

/* RFC 4861, 7.2.2 */
static void when_too_many_wait_the_oldest_make_room(void **state)
{
	for (uint8_t n = 1; n <= 70; n++)
		say(n);
	assert_int_equal(ib.stats.drop_queue, 6);
	assert_int_equal(num_packets, 64);
	hears_answer(&at_first, true, true);
	path_comes(&at_first, 0x22);
	assert_int_equal(num_sent, 64);
	assert_int_equal(number_of(0), 7);
	assert_int_equal(number_of(63), 70);
}

static void when_slots_are_scarce_no_more_wait_than_do(void **state)
{
	scarce = true;
	say(1);
	assert_int_equal(num_packets, 0);
	scarce = false;
	say(2);
	scarce = true;
	say(3);
	assert_int_equal(num_packets, 1);
	assert_int_equal(ib.stats.drop_queue, 2);
	hears_answer(&at_first, true, true);
	path_comes(&at_first, 0x22);
	assert_int_equal(num_sent, 1);
	assert_int_equal(number_of(0), 3);
}

/* RFC 4861, 7.2.2 */
static void who_waited_in_vain_is_told(void **state)
{
	for (uint8_t n = 1; n <= 20; n++)
		say(n);
	pass(3000);
	assert_int_equal(num_unreachable, 8);
	assert_int_equal(ib.stats.drop_unreachable, 20);
	assert_int_equal(num_packets, 0);
}

/* ---- addresses that change ---- */

static void packets_follow_a_new_qpn_by_the_same_path(void **state)
{
	bring(NEIGHBOUR_REACHABLE);
	hears_question(&peer, &peer, &other_qpn, 0x22);
	assert_int_equal(state_now(), NEIGHBOUR_STALE);
	say(1);
	assert_int_equal(num_path_questions, 0);
	assert_int_equal(num_sent, 1);
	assert_int_equal(sent[0].qpn, other_qpn.qpn);
}

static void packets_for_a_new_gid_wait_for_its_path(void **state)
{
	bring(NEIGHBOUR_REACHABLE);
	hears_answer(&other_gid, false, true);
	say(1);
	assert_int_equal(num_sent, 0);
	assert_int_equal(num_path_questions, 1);
	assert_memory_equal(path_questions[0].gid, other_gid.gid, 16);
	path_comes(&other_gid, 0x44);
	assert_int_equal(num_sent, 1);
	assert_int_equal(sent[0].lid, 0x44);
}

static void an_answer_about_the_former_gid_is_not_about_the_new_one(void **state)
{
	static const int errors[] = {0, -EHOSTUNREACH, -ETIMEDOUT};

	for (unsigned i = 0; i < 3; i++) {
		bring(NEIGHBOUR_INCOMPLETE);
		hears_answer(&at_first, true, true);
		hears_answer(&other_gid, true, true);
		if (errors[i])
			path_fails(errors[i]);
		else
			path_comes(&at_first, 0x22);
		assert_int_equal(state_now(), NEIGHBOUR_REACHABLE);
		assert_int_equal(num_sent, 0);
		assert_int_equal(num_path_questions, 2);
		assert_memory_equal(path_questions[1].gid, other_gid.gid, 16);
		path_comes(&other_gid, 0x44);
		assert_int_equal(num_sent, 1);
		assert_int_equal(sent[0].lid, 0x44);
	}
}

/* The neighbour that asked for it was forgotten meanwhile, as when the port goes down. */
static void an_answer_to_a_neighbour_that_was_forgotten_is_not_taken(void **state)
{
	bring(NEIGHBOUR_INCOMPLETE);
	hears_answer(&at_first, true, true);
	neighbours_forget(&ib);
	say(1);
	hears_answer(&other_gid, true, true);
	path_comes(&at_first, 0x22);
	assert_int_equal(num_sent, 0);
	path_comes(&other_gid, 0x44);
	assert_int_equal(num_sent, 1);
	assert_int_equal(sent[0].lid, 0x44);
}

static void packets_from_another_lid_have_the_path_asked_for_past_the_cache(void **state)
{
	bring(NEIGHBOUR_REACHABLE);
	hears_question(&peer, &peer, &at_first, 0x22);
	assert_int_equal(num_path_questions, 0);
	hears_question(&peer, &peer, &at_first, 0x55);
	assert_int_equal(num_path_questions, 1);
	assert_true(path_questions[0].again);
	say(1);
	path_comes(&at_first, 0x55);
	say(2);
	assert_int_equal(sent[0].lid, 0x22);
	assert_int_equal(sent[1].lid, 0x55);
}

static void when_lids_may_have_changed_all_paths_are_asked_for_past_the_cache(void **state)
{
	struct in6_addr second = address("10.0.0.3");

	bring(NEIGHBOUR_REACHABLE);
	hears_question(&second, &own, &other_gid, 0x44);
	forget_log();
	neighbours_refresh(&ib);
	assert_int_equal(num_path_questions, 1); /* the second one's is under way */
	assert_true(path_questions[0].again);
}

static void an_answer_from_before_lids_changed_is_not_taken(void **state)
{
	bring(NEIGHBOUR_INCOMPLETE);
	hears_answer(&at_first, true, true);
	neighbours_refresh(&ib);
	path_comes(&at_first, 0x22);
	assert_int_equal(num_sent, 0);
	assert_int_equal(num_path_questions, 2);
	assert_true(path_questions[1].again);
	path_comes(&at_first, 0x55);
	assert_int_equal(num_sent, 1);
	assert_int_equal(sent[0].lid, 0x55);
	assert_int_equal(num_path_questions, 2);
}

static void after_probes_without_answers_no_cached_path_is_taken(void **state)
{
	bring(NEIGHBOUR_PROBE);
	pass(3000);
	assert_int_equal(state_now(), NEIGHBOUR_INCOMPLETE);
	hears_answer(&at_first, true, true);
	assert_int_equal(num_path_questions, 1);
	assert_true(path_questions[0].again);
}

static void one_that_says_it_has_our_address_changes_nothing(void **state)
{
	bring(NEIGHBOUR_REACHABLE);
	hears_question(&own, &own, &other_gid, 0x44);
	hears_question(&own, &peer, &other_gid, 0x44);
	assert_int_equal(state_now(), NEIGHBOUR_REACHABLE);
	assert_int_equal(ib.stats.asked, 0);
	assert_int_equal(num_sent, 0);
}

/* ---- paths ---- */

static void a_path_that_is_not_there_is_asked_for_three_times(void **state)
{
	bring(NEIGHBOUR_INCOMPLETE);
	hears_answer(&at_first, true, true);
	path_fails(-ETIMEDOUT);
	path_fails(-ETIMEDOUT);
	assert_int_equal(num_path_questions, 3);
	assert_true(path_questions[1].again && path_questions[2].again);
	assert_int_equal(state_now(), NEIGHBOUR_REACHABLE);
	path_fails(-ETIMEDOUT);
	assert_int_equal(state_now(), NEIGHBOUR_FAILED);
	assert_int_equal(num_packets, 0);
	assert_int_equal(num_unreachable, 1);
	assert_int_equal(ib.stats.paths_failed, 3);
}

static void a_path_that_the_sa_denies_is_not_asked_for_again(void **state)
{
	bring(NEIGHBOUR_INCOMPLETE);
	hears_answer(&at_first, true, true);
	path_fails(-EHOSTUNREACH);
	assert_int_equal(state_now(), NEIGHBOUR_FAILED);
	assert_int_equal(num_path_questions, 1);
}

static void a_path_serves_while_no_other_one_is_found(void **state)
{
	bring(NEIGHBOUR_REACHABLE);
	neighbours_refresh(&ib);
	path_fails(-ETIMEDOUT);
	say(1);
	assert_int_equal(num_sent, 1);
	assert_int_equal(state_now(), NEIGHBOUR_REACHABLE);
}

static void without_memory_the_next_packet_asks_for_the_path(void **state)
{
	bring(NEIGHBOUR_INCOMPLETE);
	path_error = -ENOMEM;
	hears_answer(&at_first, true, true);
	path_error = 0;
	say(1);
	assert_int_equal(num_path_questions, 2);
	no_handle = true;
	path_comes(&at_first, 0x22);
	no_handle = false;
	assert_int_equal(num_path_questions, 3);
	path_comes(&at_first, 0x22);
	assert_int_equal(num_sent, 2);
}

/* ---- answers and announcements ---- */

static void who_asks_for_us_is_answered_and_known(void **state)
{
	struct ipoib_discovery msg;

	hears_question(&peer, &own, &at_first, 0x22);
	assert_int_equal(state_now(), NEIGHBOUR_STALE);
	assert_int_equal(num_sent, 0);
	path_comes(&at_first, 0x22);
	assert_int_equal(num_sent, 1);
	assert_int_equal(ipoib_parse(sent[0].data, sent[0].len, &msg), IPOIB_DISCOVERY);
	assert_true(msg.answer && msg.solicited);
	assert_memory_equal(&msg.target, &own, 16);
	assert_int_equal(msg.sender.qpn, ib.qpn);
	assert_memory_equal(msg.sender.gid, &ib.gid, 16);
}

static void who_asks_for_others_does_not_become_a_neighbour(void **state)
{
	struct in6_addr third = address("10.0.0.9");

	hears_question(&peer, &third, &at_first, 0x22);
	assert_int_equal(state_now(), GONE);
	assert_int_equal(num_path_questions, 0);
}

/* RFC 4861, 7.2.4: somebody wants to have the address (RFC 4862, 5.4). */
static void who_has_no_address_yet_is_answered_at_all_nodes(void **state)
{
	struct in6_addr none = {}, nodes = address("ff02::1");

	hears_question(&none, &own6, NULL, 0x22);
	assert_int_equal(num_to_all, 1);
	assert_memory_equal(&to_all[0].group, &nodes, 16);
	assert_true(to_all[0].msg.answer && !to_all[0].msg.solicited);
}

/* RFC 5227, 2.1.1 and 2.4: the same by an ARP probe, whose sender has no address to answer to. */
static void an_arp_probe_for_our_address_is_answered_to_all(void **state)
{
	struct in6_addr none = address("0.0.0.0"), all = address("255.255.255.255");

	hears_question(&none, &own, &at_first, 0x22);
	assert_int_equal(num_to_all, 1);
	assert_memory_equal(&to_all[0].group, &all, 16);
	assert_true(to_all[0].msg.answer);
	assert_memory_equal(&to_all[0].msg.from, &own, 16);
	assert_int_equal(to_all[0].msg.sender.qpn, ib.qpn);
	hears_question(&none, &peer, &at_first, 0x22);
	assert_int_equal(num_to_all, 1);
}

static void addresses_are_announced_to_all(void **state)
{
	struct in6_addr nodes = address("ff02::1"), all = address("255.255.255.255");

	neighbours_announce(&ib);
	assert_int_equal(num_to_all, 2);
	/* RFC 5227, 3 */
	assert_memory_equal(&to_all[0].group, &all, 16);
	assert_false(to_all[0].msg.answer);
	assert_memory_equal(&to_all[0].msg.from, &own, 16);
	assert_memory_equal(&to_all[0].msg.target, &own, 16);
	/* RFC 4861, 7.2.6 */
	assert_memory_equal(&to_all[1].group, &nodes, 16);
	assert_true(to_all[1].msg.answer && to_all[1].msg.override && !to_all[1].msg.solicited);
	assert_memory_equal(&to_all[1].msg.target, &own6, 16);
}

/* ---- what rdma_cm asks ---- */

static void an_address_is_resolved_or_nobody_has_it(void **state)
{
	struct neighbour_info info;

	assert_int_equal(neighbour_resolve(&ib, &peer, &info), -EINPROGRESS);
	assert_int_equal(num_to_all, 1);
	assert_int_equal(neighbour_resolve(&ib, &peer, &info), -EINPROGRESS);
	assert_int_equal(num_to_all, 1);
	hears_answer(&at_first, true, true);
	assert_int_equal(neighbour_resolve(&ib, &peer, &info), 0);
	assert_memory_equal(info.link.gid, at_first.gid, 16);
	bring(NEIGHBOUR_FAILED);
	assert_int_equal(neighbour_resolve(&ib, &peer, &info), -EHOSTUNREACH);
	assert_int_equal(neighbour_resolve(&ib, &peer, &info), -EINPROGRESS);
}

static void neighbours_are_as_many_as_the_table_holds(void **state)
{
	struct in6_addr ip = address("10.1.0.0");

	for (unsigned i = 0; i < 16385; i++) {
		ip.s6_addr[14] = (uint8_t)(i >> 8);
		ip.s6_addr[15] = (uint8_t)i;
		neighbour_send(&ib, &ip, numbered(1));
	}
	assert_int_equal(ib.stats.drop_table, 1);
	assert_int_equal(num_packets, 16384);
	neighbours_forget(&ib);
	assert_int_equal(num_packets, 0);
	say(1);
	assert_int_equal(ib.stats.drop_table, 1);
}

/* Whoever asks for us under many addresses takes no neighbours away from us. */
static void in_a_full_table_one_that_is_not_needed_makes_room(void **state)
{
	struct in6_addr ip = address("10.1.0.0");

	for (unsigned i = 0; i < 16384; i++) {
		ip.s6_addr[14] = (uint8_t)(i >> 8);
		ip.s6_addr[15] = (uint8_t)i;
		hears_question(&ip, &own, &other_gid, 0x44);
	}
	forget_log();
	say(1);
	assert_int_equal(ib.stats.drop_table, 0);
	assert_int_equal(state_now(), NEIGHBOUR_INCOMPLETE);
	hears_answer(&at_first, true, true);
	path_comes(&at_first, 0x22);
	assert_int_equal(num_sent, 1);
	assert_int_equal(number_of(0), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(states_last_as_long_as_in_rfc_4861_10),
		TEST(answers_count_as_in_rfc_4861_7_2_5),
		TEST(three_questions_a_second_apart_go_to_all),
		TEST(an_ipv6_address_is_asked_for_at_its_solicited_node_group),
		TEST(probes_go_to_the_neighbour_alone),
		TEST(packets_go_on_while_a_neighbour_is_confirmed),
		TEST(a_neighbour_that_failed_is_asked_for_with_the_next_packet),
		TEST(packets_wait_for_address_and_path_and_leave_in_order),
		TEST(when_too_many_wait_the_oldest_make_room),
		TEST(when_slots_are_scarce_no_more_wait_than_do),
		TEST(who_waited_in_vain_is_told),
		TEST(packets_follow_a_new_qpn_by_the_same_path),
		TEST(packets_for_a_new_gid_wait_for_its_path),
		TEST(an_answer_about_the_former_gid_is_not_about_the_new_one),
		TEST(an_answer_to_a_neighbour_that_was_forgotten_is_not_taken),
		TEST(packets_from_another_lid_have_the_path_asked_for_past_the_cache),
		TEST(when_lids_may_have_changed_all_paths_are_asked_for_past_the_cache),
		TEST(an_answer_from_before_lids_changed_is_not_taken),
		TEST(after_probes_without_answers_no_cached_path_is_taken),
		TEST(one_that_says_it_has_our_address_changes_nothing),
		TEST(a_path_that_is_not_there_is_asked_for_three_times),
		TEST(a_path_that_the_sa_denies_is_not_asked_for_again),
		TEST(a_path_serves_while_no_other_one_is_found),
		TEST(without_memory_the_next_packet_asks_for_the_path),
		TEST(who_asks_for_us_is_answered_and_known),
		TEST(who_asks_for_others_does_not_become_a_neighbour),
		TEST(who_has_no_address_yet_is_answered_at_all_nodes),
		TEST(an_arp_probe_for_our_address_is_answered_to_all),
		TEST(addresses_are_announced_to_all),
		TEST(an_address_is_resolved_or_nobody_has_it),
		TEST(neighbours_are_as_many_as_the_table_holds),
		TEST(in_a_full_table_one_that_is_not_needed_makes_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
