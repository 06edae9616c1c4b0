/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Fault specifications, their rates and their repeatability; then faults on a wire over lo: what
 * was sent arrives, lost, doubled, late, out of order or refused as the specification says.
 */
#include "wire/route.h"
#include "wire_test.h"

#define SENT 4000

static struct urxe_fault parsed(const char *spec)
{
	struct urxe_fault fault;
	char err[200] = "";

	if (urxe_fault_parse(spec, &fault, err, sizeof(err)))
		fail_msg("\"%s\": %s", spec, err);
	return fault;
}

static void good_specifications(void **state)
{
	struct urxe_fault f = parsed("drop=2%,dup=1%,reorder=5%,corrupt=0.1%,delay=1ms,seed=7");

	assert_in_range(f.drop, 85899345, 85899347);
	assert_in_range(f.dup, 42949672, 42949673);
	assert_in_range(f.reorder, 214748364, 214748365);
	assert_in_range(f.corrupt, 4294967, 4294968);
	assert_int_equal(f.delay, 1000000);
	assert_int_equal(f.seed, 7);
	assert_int_equal(f.dir, URXE_FAULT_OUT);
	f = parsed("");
	assert_false(urxe_fault_active(&f, URXE_FAULT_OUT));
	assert_false(urxe_fault_active(&f, URXE_FAULT_IN));
	f = parsed(NULL);
	assert_false(urxe_fault_active(&f, URXE_FAULT_OUT));
	f = parsed("dir=in,drop=0.5");
	assert_int_equal(f.drop, 1ull << 31);
	assert_false(urxe_fault_active(&f, URXE_FAULT_OUT));
	assert_true(urxe_fault_active(&f, URXE_FAULT_IN));
	f = parsed("drop=100%,dir=both");
	assert_int_equal(f.drop, 1ull << 32);
	assert_true(urxe_fault_active(&f, URXE_FAULT_OUT));
	assert_true(urxe_fault_active(&f, URXE_FAULT_IN));
	assert_int_equal(parsed("delay=20us").delay, 20000);
	assert_int_equal(parsed("delay=300ns").delay, 300);
	assert_int_equal(parsed("delay=0").delay, 0);
	assert_int_equal(parsed("delay=1.5s").delay, 1500000000);
	assert_int_equal(parsed("seed=0x10").seed, 16);
}

static void packets_stay_in_order_when_a_route_gets_faster(void **state)
{
	struct urxe_route route = {.lag = {.route = &route, .delay = 5000}};

	assert_int_equal(urxe_route_wait(&route.lag, 1000), 6000);
	route.lag.delay = 0;
	assert_int_equal(urxe_route_wait(&route.lag, 1001), 6000);
	urxe_route_waited(&route.lag);
	assert_int_equal(route.generation, 0);
	urxe_route_waited(&route.lag);
	assert_int_not_equal(route.generation, 0); /* is walked again */
	assert_int_equal(urxe_route_wait(&route.lag, 7000), 7000);
}

static void bad_specifications(void **state)
{
	static const char *const bad[] = {
		"drop",	     "drop=",	   "drop=x",   "drop=101%", "drop=1.5",	      "drop=-1%",
		"drop=2%%",  "drop=2 %",   "drop=.5",  "drop=1.%",  "drop=1e-2",      "loss=2%",
		"delay=1",   "delay=1min", "delay=ms", "delay=11s", "seed=x",	      "seed=",
		"seed=-1",   "seed=1x",	   "dir=up",   "dir=",	    "drop=2%,",	      ",drop=2%",
		"drop=2%,,", "=",	   ",",	       " drop=2%",  "drop=2%;dup=1%", "nan",
		"drop=nan%", "drop=inf",
	};

	for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
		struct urxe_fault fault = {.seed = 99};
		char err[200] = "";

		if (urxe_fault_parse(bad[k], &fault, err, sizeof(err)) != -EINVAL)
			fail_msg("\"%s\" was not refused", bad[k]);
		assert_int_equal(fault.seed, 99);
		assert_true(strlen(err) > 20);
		assert_null(strchr(err, '\n'));
	}
}

static bool near(unsigned count, double expected)
{
	return count > expected * 0.9 - 20 && count < expected * 1.1 + 20;
}

static void rates(void **state)
{
	struct urxe_fault f = parsed("drop=2%,dup=1%,reorder=5%,corrupt=0.1%,seed=3");
	unsigned n = 1000000, drop = 0, dup = 0, reorder = 0, corrupt = 0, by[9] = {0};

	for (unsigned k = 0; k < n; k++) {
		struct urxe_fate fate = urxe_fault_draw(&f);

		drop += fate.drop;
		dup += fate.dup;
		corrupt += fate.corrupt;
		reorder += fate.reorder != 0;
		assert_in_range(fate.reorder, 0, 8);
		by[fate.reorder]++;
	}
	assert_true(near(drop, n * 0.02));
	assert_true(near(dup, n * 0.01));
	assert_true(near(corrupt, n * 0.001));
	assert_true(near(reorder, n * 0.05));
	for (int k = 1; k <= 8; k++)
		assert_true(near(by[k], n * 0.05 / 8));
}

static void same_seed_same_faults(void **state)
{
	struct urxe_fault a = parsed("drop=10%,dup=10%,reorder=10%,corrupt=10%,seed=5"), b = a;
	struct urxe_fault other = parsed("drop=10%,dup=10%,reorder=10%,corrupt=10%,seed=6");
	unsigned differ = 0;

	for (unsigned k = 0; k < 10000; k++) {
		struct urxe_fate x = urxe_fault_draw(&a), y = urxe_fault_draw(&b);
		struct urxe_fate z = urxe_fault_draw(&other);
		uint8_t one[64] = {0}, two[64] = {0};

		assert_int_equal(x.drop, y.drop);
		assert_int_equal(x.dup, y.dup);
		assert_int_equal(x.corrupt, y.corrupt);
		assert_int_equal(x.reorder, y.reorder);
		differ += x.drop != z.drop;
		if (x.corrupt) {
			urxe_fault_corrupt(&a, one, 64);
			urxe_fault_corrupt(&b, two, 64);
			assert_memory_equal(one, two, 64);
		}
	}
	assert_true(differ > 500);
}

static void corruption_flips_one_to_three_bits(void **state)
{
	struct urxe_fault f = parsed("corrupt=1%");
	unsigned seen[4] = {0};

	for (unsigned k = 0; k < 100000; k++) {
		uint8_t bytes[100] = {0};
		unsigned len = 1 + k % 99, bits = 0;

		urxe_fault_corrupt(&f, bytes, len);
		for (unsigned b = 0; b < 100; b++)
			bits += __builtin_popcount(bytes[b]);
		assert_in_range(bits, 1, 3);
		for (unsigned b = len; b < 100; b++)
			assert_int_equal(bytes[b], 0);
		seen[bits]++;
	}
	assert_true(seen[1] > 10000 && seen[2] > 10000 && seen[3] > 10000);
}

/* ---- on a wire ---- */

static struct urxe_segment *seg;
static struct urxe_wire *wire;
static struct urxe_device *dev;
static uint32_t qpn;
static const uint8_t data[1000];

struct arrivals {
	unsigned have;
	uint32_t psn[3 * SENT];
	uint64_t at[3 * SENT];
};

static void take(const struct urxe_rx_packet *pkt, void *arg)
{
	struct arrivals *in = arg;

	if (in->have < 3 * SENT) {
		in->psn[in->have] = urxe_bth_psn((const struct urxe_bth *)pkt->bth);
		in->at[in->have] = urxe_now();
	}
	in->have++;
}

/* Sends SENT packets of a family under a specification, in batches, and takes what comes. */
static struct arrivals *run(const char *spec, bool ipv6, uint64_t *icrc_errors, unsigned sent)
{
	static struct arrivals in;
	union ibv_gid gid = gid_of(ipv6 ? "::1" : "::ffff:127.0.0.1");
	uint64_t before[URXE_NUM_COUNTERS], after[URXE_NUM_COUNTERS];
	struct iovec iov = {(void *)data, 300};
	struct urxe_path path;

	assert_int_equal(urxe_segment_fault_set(seg, dev->index, spec), 0);
	urxe_wire_housekeep(wire);
	in.have = 0;
	urxe_segment_counters_sum(seg, dev->index, before);
	assert_int_equal(path_between(&path, dev, &gid, &gid, 0, 0, 0, 1), 0);
	for (unsigned psn = 0; psn < sent;) {
		struct urxe_tx_packet pkts[20];

		for (unsigned k = 0; k < 20; k++)
			fill_packet(&pkts[k], qpn, psn++, &iov, 1);
		assert_int_equal(urxe_wire_send(wire, &path, pkts, 20), 20);
		while (urxe_wire_poll(wire, 64, urxe_now(), take, &in))
			;
	}
	poll_for(wire, take, &in, &in.have, 3 * SENT, 30);
	assert_int_equal(urxe_wire_deadline(wire), UINT64_MAX);
	urxe_segment_counters_sum(seg, dev->index, after);
	if (icrc_errors)
		*icrc_errors = after[URXE_CNT_ICRC_ERR] - before[URXE_CNT_ICRC_ERR];
	assert_int_equal(urxe_segment_fault_set(seg, dev->index, ""), 0);
	urxe_wire_housekeep(wire);
	return &in;
}

static void drops(void **state)
{
	static const char *const specs[] = {"drop=10%,seed=4", "drop=10%,seed=4,dir=in"};

	for (int k = 0; k < 2; k++) {
		struct arrivals *in = run(specs[k], false, NULL, SENT);
		uint32_t first[100];
		unsigned have = in->have;

		assert_true(near(have, SENT * 0.9));
		memcpy(first, in->psn, sizeof(first));
		for (unsigned i = 1; i < have; i++)
			assert_true(in->psn[i] > in->psn[i - 1]);
		/* the same again: the setting is new, the sequence begins anew */
		in = run(specs[k], false, NULL, SENT);
		assert_int_equal(in->have, have);
		assert_memory_equal(first, in->psn, sizeof(first));
	}
	assert_int_equal(run("drop=100%", true, NULL, SENT)->have, 0);
	assert_int_equal(run("", true, NULL, SENT)->have, SENT);
}

static void duplicates(void **state)
{
	static const char *const specs[] = {"dup=10%", "dup=10%,dir=in"};

	for (int k = 0; k < 2; k++) {
		struct arrivals *in = run(specs[k], k, NULL, SENT);
		unsigned twice = 0;

		assert_true(near(in->have, SENT * 1.1));
		for (unsigned i = 1; i < in->have; i++)
			twice += in->psn[i] == in->psn[i - 1];
		assert_int_equal(twice, in->have - SENT);
	}
}

static void corruption_is_refused(void **state)
{
	static const char *const specs[] = {"corrupt=10%,seed=2", "corrupt=10%,seed=2,dir=in"};

	for (int k = 0; k < 4; k++) {
		uint64_t refused;
		struct arrivals *in = run(specs[k % 2], k / 2, &refused, SENT);

		assert_int_equal(in->have + refused, SENT);
		/* flips in the one byte that no ICRC covers do no harm */
		assert_true(near(refused, SENT * 0.1));
		for (unsigned i = 1; i < in->have; i++)
			assert_true(in->psn[i] > in->psn[i - 1]);
	}
}

static void reorders(void **state)
{
	static const char *const specs[] = {"reorder=10%", "reorder=10%,dir=in"};

	for (int k = 0; k < 2; k++) {
		struct arrivals *in = run(specs[k], k, NULL, SENT);
		static uint8_t seen[SENT];
		unsigned back = 0;

		memset(seen, 0, sizeof(seen));
		assert_int_equal(in->have, SENT);
		for (unsigned i = 0; i < in->have; i++) {
			assert_true(in->psn[i] < SENT);
			assert_int_equal(seen[in->psn[i]]++, 0);
			back += i && in->psn[i] < in->psn[i - 1];
			/* one packet is passed by eight, which may themselves have been held */
			assert_true(abs((int)in->psn[i] - (int)i) < 64);
		}
		assert_true(back > SENT * 0.05);
	}
}

/* The last packet of all has nobody to pass it and comes after its time. */
static void reordered_alone(void **state)
{
	struct arrivals *in = run("reorder=100%", false, NULL, 20);

	assert_int_equal(in->have, 20);
}

static void delays(void **state)
{
	static const char *const specs[] = {"delay=20ms", "delay=20ms,dir=in"};

	for (int k = 0; k < 2; k++) {
		uint64_t start = urxe_now();
		struct arrivals *in = run(specs[k], k, NULL, 200);

		assert_int_equal(in->have, 200);
		assert_true(in->at[0] - start >= 20000000);
		assert_true(in->at[0] - start < 500000000);
		for (unsigned i = 0; i < 200; i++)
			assert_int_equal(in->psn[i], i);
	}
}

static int wire_setup(void **state)
{
	own_network();
	unsetenv("URXE_FAULT");
	dev = lo_device();
	assert_int_equal(urxe_segment_join(&seg), 0);
	/* a wrong specification in the environment is refused */
	setenv("URXE_FAULT", "drop=lots", 1);
	assert_int_equal(urxe_wire_create(seg, &wire), -EINVAL);
	unsetenv("URXE_FAULT");
	assert_int_equal(urxe_wire_create(seg, &wire), 0);
	qpn = urxe_segment_qpn_alloc(seg);
	return 0;
}

static int wire_teardown(void **state)
{
	urxe_wire_destroy(wire);
	urxe_segment_leave(seg);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_specifications),
		cmocka_unit_test(packets_stay_in_order_when_a_route_gets_faster),
		cmocka_unit_test(bad_specifications),
		cmocka_unit_test(rates),
		cmocka_unit_test(same_seed_same_faults),
		cmocka_unit_test(corruption_flips_one_to_three_bits),
		cmocka_unit_test(drops),
		cmocka_unit_test(duplicates),
		cmocka_unit_test(corruption_is_refused),
		cmocka_unit_test(reorders),
		cmocka_unit_test(reordered_alone),
		cmocka_unit_test(delays),
	};

	return cmocka_run_group_tests(tests, wire_setup, wire_teardown);
}
