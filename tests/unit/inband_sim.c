/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The model of the machine: one host at a small tree, whose requests and answers go through its
 * descriptor queue and its MPQ, in this process.
 *
 *	server ── edge S.bottom.0.0.0 ── spine S.bottom.0.0.4 ── leaf … ── root
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "inband/sim/host.h"

static struct {
	struct machine *machine;
	struct sim *sim;
	struct host *host;
	uint32_t sent, received;
} t;

static int begin(void **state)
{
	struct sim_config config = {.credits = 4, .nma_fifo = 8, .nma_output = 4, .seed = 1};
	char error[256];

	sim_times_default(&config.times);
	memset(&t, 0, sizeof(t));
	assert_int_equal(machine_load("tree:2,3,2,4", 1, &t.machine, error, sizeof(error)), 0);
	assert_int_equal(sim_create(t.machine, &config, &t.sim), 0);
	assert_int_equal(host_create(t.sim, 0, &t.host), 0);
	return 0;
}

static int end(void **state)
{
	host_destroy(t.sim, t.host);
	sim_destroy(t.sim);
	machine_destroy(t.machine);
	return 0;
}

/* The spine of the server's own frame: by port 8 of the edge, back by its port 10 and the edge's 0.
 * */
static struct nmp to_spine(unsigned type)
{
	return (struct nmp){.dest_id = 1,
			    .dest_type = NMP_NRC,
			    .type = type,
			    .count = 1,
			    .transaction = 77,
			    .rt_type = NMP_BY_SOURCE,
			    .kind = 1,
			    .sm = 1,
			    .head = NMP_HEAD,
			    .src_vp = t.host->vp,
			    .dest_vp = t.host->vp,
			    .forward = {1, {8}},
			    .back = {2, {10, 0}}};
}

static void submit(const struct nmp *nmp)
{
	struct glex_slot *slot = &t.host->shared->sdq[t.sent % GLEX_SDQ];

	nmp_to_descriptor(nmp, &slot->descriptor);
	slot->time = t.sim->now;
	atomic_store(&t.host->shared->sdq_tail, ++t.sent);
	host_collect(t.sim, t.host);
}

static void run_all(void)
{
	while (sim_step(t.sim, SIM_NEVER))
		;
}

static bool receive(struct nmp *nmp)
{
	if (t.received == atomic_load(&t.host->shared->mpq_tail))
		return false;
	nmp_from_descriptor(&t.host->shared->mpq[t.received++ % GLEX_MPQ].descriptor, nmp);
	atomic_store(&t.host->shared->mpq_head, t.received);
	return true;
}

static struct nmp ask(struct nmp request)
{
	struct nmp answer;

	submit(&request);
	run_all();
	assert_true(receive(&answer));
	return answer;
}

static void a_register_is_read_in_the_time_of_the_model(void **state)
{
	struct nmp request = to_spine(NMP_REGISTER_READ), answer;
	uint64_t before = t.sim->now;

	request.access[0].address = REG_ID;
	answer = ask(request);
	assert_int_equal(answer.type, NMP_REGISTER_READ_RESPONSE);
	assert_int_equal(answer.access[0].value & NMP_NO_ID, 1);
	assert_int_equal(answer.transaction, 77);
	assert_int_equal(answer.src_id, 1);
	assert_true(nmp_route_equal(&answer.back, &request.forward));
	/* 4.3: processing and (hops + 1) times the way of a hop there and back. */
	assert_int_equal(t.sim->now - before, 5959700 + 2 * 876200);
}

static void a_second_register_costs_less_than_another_request(void **state)
{
	struct nmp request = to_spine(NMP_REGISTER_READ);
	uint64_t one, two, before = t.sim->now;

	ask(request);
	one = t.sim->now - before;
	request.count = 2;
	request.access[1].address = REG_STATUS;
	before = t.sim->now;
	assert_int_equal(ask(request).access[1].value, STATUS_READY);
	two = t.sim->now - before;
	assert_true(two > one && two < 2 * one);
	request.type = NMP_REGISTER_WRITE;
	request.access[0].address = REG_SCRATCH0;
	request.access[1].address = REG_SCRATCH1;
	before = t.sim->now;
	ask(request);
	assert_int_equal(t.sim->now - before, one);
}

static void requests_for_another_chip_are_dropped(void **state)
{
	struct nmp request = to_spine(NMP_REGISTER_READ), answer;

	request.dest_id = 2;
	submit(&request);
	request.dest_id = NMP_NO_ID; /* is for a chip without ID */
	submit(&request);
	request.dest_id = 1;
	request.dest_type = NMP_NIC;
	submit(&request);
	run_all();
	assert_false(receive(&answer));
	assert_int_equal(t.sim->chips[1].dropped, 3);
}

static void a_chip_without_an_id_answers_to_all_ones(void **state)
{
	struct nmp request = to_spine(NMP_REGISTER_READ);

	t.sim->chips[1].id = NMP_NO_ID;
	request.dest_id = NMP_NO_ID;
	assert_int_equal(ask(request).type, NMP_REGISTER_READ_RESPONSE);
}

static void bad_accesses_are_answered_with_the_reason(void **state)
{
	static const struct {
		unsigned type, count, address;
		uint64_t value;
		unsigned error;
	} cases[] = {
		{NMP_REGISTER_READ, 0, REG_ID, 0, NMP_ERROR_COUNT},
		{NMP_REGISTER_READ, 3, REG_ID, 0, NMP_ERROR_COUNT},
		{NMP_EEPROM_READ, 7, 0, 0, NMP_ERROR_COUNT},
		{NMP_REGISTER_READ, 1, 0x7fff, 0, NMP_ERROR_ADDRESS},
		{NMP_REGISTER_WRITE, 1, 0x7fff, 0, NMP_ERROR_ADDRESS},
		{NMP_REGISTER_WRITE, 1, REG_ID, 0, NMP_ERROR_READ_ONLY},
		{NMP_REGISTER_WRITE, 1, REG_PORT(0, PORT_RETRIES), 0, NMP_ERROR_READ_ONLY},
		{NMP_REGISTER_WRITE, 1, REG_PORT(0, PORT_BIST_INTENSITY), 101, NMP_ERROR_VALUE},
		{NMP_REGISTER_WRITE, 1, REG_TABLE_INDEX, TABLE_ENTRIES, NMP_ERROR_VALUE},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct nmp request = to_spine(cases[i].type), answer;

		request.count = cases[i].count;
		request.access[0].address = cases[i].address;
		request.access[0].value = cases[i].value;
		answer = ask(request);
		assert_true(nmp_is_error(answer.type));
		assert_int_equal(answer.error, cases[i].error);
	}
}

static void routes_that_lead_nowhere_lose_the_packet_alone(void **state)
{
	static const struct nmp_route ways[] = {{1, {23}}, {1, {31}}, {0}, {2, {8, 8}}};
	struct nmp request, answer;

	for (unsigned i = 0; i < 4; i++) {
		request = to_spine(NMP_REGISTER_READ);
		request.forward = ways[i];
		submit(&request);
	}
	request = to_spine(NMP_REGISTER_READ);
	request.back.port[0] = 24;
	submit(&request);
	run_all();
	assert_false(receive(&answer));
	assert_int_equal(ask(to_spine(NMP_REGISTER_READ)).type, NMP_REGISTER_READ_RESPONSE);
}

static void a_descriptor_that_is_none_comes_back_with_err(void **state)
{
	struct nmp request = to_spine(NMP_REGISTER_READ), answer;

	request.head = 0;
	submit(&request);
	assert_true(receive(&answer));
	assert_int_equal(answer.err, 1);
	request = to_spine(NMP_REGISTER_READ_RESPONSE);
	submit(&request);
	assert_true(receive(&answer));
	assert_int_equal(answer.err, 1);
}

static void eeproms_keep_what_is_written(void **state)
{
	struct nmp request = to_spine(NMP_EEPROM_READ), answer;

	request.count = 4;
	for (unsigned i = 0; i < 4; i++)
		request.access[i].address = EEPROM_MAGIC + i;
	answer = ask(request);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(answer.access[i].value, "NRC1"[i]);
	request.type = NMP_EEPROM_WRITE;
	request.access[0] = (struct nmp_access){0xfffe, 0x12};
	request.access[1] = (struct nmp_access){0xffff, 0x34};
	request.count = 2;
	assert_int_equal(ask(request).type, NMP_EEPROM_WRITE_RESPONSE);
	assert_int_equal(eeprom_read(t.sim, &t.sim->chips[1], 0xfffe), 0x12);
	assert_int_equal(eeprom_read(t.sim, &t.sim->chips[1], 0xffff), 0x34);
	assert_int_equal(eeprom_read(t.sim, &t.sim->chips[0], 0xffff), 0xff);
}

static void a_chip_with_a_bad_eeprom_comes_up_without_an_id(void **state)
{
	struct chip *chip = &t.sim->chips[1];

	eeprom_write(t.sim, chip, EEPROM_SERIAL, 0x55);
	chip_reset(t.sim, chip);
	run_all();
	assert_int_equal(chip->id, NMP_NO_ID);
	assert_int_equal(chip->status, STATUS_READY | STATUS_BAD_EEPROM);
	assert_int_equal(t.sim->chips[0].ports[8].tag & TAG_ID, NMP_NO_ID);
	assert_int_equal(t.sim->chips[0].ports[8].state, LINK_UP);
}

static void a_reset_chip_loads_its_tables_from_its_eeprom(void **state)
{
	struct chip *chip = &t.sim->chips[1];
	unsigned at = EEPROM_TABLES + 5 * EEPROM_TABLE_BYTES + 3 * 7;

	for (unsigned i = 0; i < 4; i++)
		eeprom_write(t.sim, chip, EEPROM_TABLE_MARK + i, "RT01"[i]);
	eeprom_write(t.sim, chip, at, 0x11);
	eeprom_write(t.sim, chip, at + 1, 0x22);
	eeprom_write(t.sim, chip, at + 2, 0x33);
	chip_reset(t.sim, chip);
	run_all();
	assert_int_equal(table_get(chip, 5, 7), 0x332211);
	assert_int_equal(table_get(chip, 4, 7), 0xffffff);
}

static void tables_are_reached_through_registers_port_by_port(void **state)
{
	struct chip *chip = &t.sim->chips[1];
	struct nmp request = to_spine(NMP_REGISTER_WRITE);

	request.count = 2;
	request.access[0] = (struct nmp_access){REG_TABLE_INDEX, 0x0full << 32 | 6};
	request.access[1] = (struct nmp_access){REG_TABLE_DATA, 0x000002ull << 32 | 0x000001};
	ask(request);
	request.access[0].value += 2;
	request.access[1] = (struct nmp_access){REG_TABLE_DATA, 0x000004ull << 32 | 0x000003};
	ask(request);
	for (unsigned port = 0; port < 24; port++)
		for (unsigned i = 0; i < 4; i++)
			assert_int_equal(table_get(chip, port, 6 + i), port < 4 ? i + 1 : 0);
	/* One port leaves the others. */
	assert_int_equal(table_set(t.sim, chip, 1, 6, 9), 0);
	assert_int_equal(table_get(chip, 0, 6), 9);
	assert_int_equal(table_get(chip, 1, 6), 1);
}

static void a_cut_link_is_reported_by_its_ends_that_may(void **state)
{
	struct chip *chip = &t.sim->chips[1];
	char error[256];
	struct nmp report;

	chip_write(t.sim, chip, REG_FAULT_ENABLE, FAULT_ALL);
	chip_write(t.sim, chip, REG_REPORT_TO, t.host->chip->id | t.host->vp << 20 | REPORT_ON);
	chip_write(t.sim, chip, REG_REPORT_ROUTE0, 2 | 10 << 5 | 0 << 10);
	assert_int_equal(fault_tell(t.sim, "cut S.bottom.0.0.4:1", error, sizeof(error)), 0);
	run_all();
	assert_true(receive(&report));
	assert_int_equal(report.type, NMP_REPORT);
	assert_int_equal(report.src_id, 1);
	assert_int_equal(report.fault, FAULT_LINK_DOWN);
	assert_int_equal(report.port, 1);
	assert_false(receive(&report)); /* the other end has not been told where to */
	chip_write(t.sim, chip, REG_FAULT_MASK, 1 << FAULT_LINK_UP);
	assert_int_equal(fault_tell(t.sim, "mend S.bottom.0.0.4:1", error, sizeof(error)), 0);
	run_all();
	assert_false(receive(&report));
	assert_int_equal(t.sim->chips[1].ports[1].state, LINK_UP);
}

static void a_bad_link_sends_again_and_counts_it(void **state)
{
	struct nmp request = to_spine(NMP_REGISTER_READ);
	struct port *port = &t.sim->chips[1].ports[10];

	port->error_rate = 500000;
	for (unsigned i = 0; i < 50; i++)
		assert_int_equal(ask(request).type, NMP_REGISTER_READ_RESPONSE);
	assert_in_range(port->errors, 20, 120);
	assert_int_equal(t.sim->chips[0].ports[8].retries, port->errors);
}

/* The self-test counts the errors of the link, in as many bits as time and intensity allow. */
static void a_self_test_tells_a_bad_link_from_a_good_one(void **state)
{
	struct chip *chip = &t.sim->chips[1];
	uint64_t good, bad, bits;

	for (unsigned p = 10; p < 12; p++) {
		chip->ports[p].error_rate = p == 11 ? 1000 : 0;
		chip_write(t.sim, chip, REG_PORT(p, PORT_BIST_TIME), 1000000);
		chip_write(t.sim, chip, REG_PORT(p, PORT_BIST_INTENSITY), 50);
		chip_write(t.sim, chip, REG_PORT(p, PORT_BIST_CONTROL), 1);
	}
	run_all();
	chip_read(t.sim, chip, REG_PORT(10, PORT_BIST_RESULT), &good);
	chip_read(t.sim, chip, REG_PORT(11, PORT_BIST_RESULT), &bad);
	chip_read(t.sim, chip, REG_PORT(10, PORT_BIST_BITS), &bits);
	assert_int_equal(good, BIST_DONE);
	assert_int_equal(bad & 0xff, BIST_DONE);
	assert_true(bad >> 8 > 10000);
	assert_int_equal(bits, 56000000000ull);
}

/* More requests than every FIFO on the way holds: they wait for each other and all are answered. */
static void a_burst_waits_for_credits_and_is_answered(void **state)
{
	struct nmp request = to_spine(NMP_REGISTER_READ), answer;
	unsigned answers = 0;

	for (unsigned i = 0; i < 200; i++) {
		request.transaction = i;
		submit(&request);
	}
	run_all();
	while (receive(&answer))
		assert_int_equal(answer.transaction, answers++);
	assert_int_equal(answers, 200);
	assert_true(t.sim->chips[0].ports[8].waits > 0);
}

static void what_comes_for_a_full_mpq_is_counted_as_lost(void **state)
{
	struct nmp request = to_spine(NMP_REGISTER_READ);

	for (unsigned i = 0; i < GLEX_MPQ / 512 + 1; i++) {
		for (unsigned n = 0; n < 512; n++)
			submit(&request);
		run_all();
	}
	assert_int_equal(t.sim->counts.mpq_full, 512);
}

static void time_passes_up_to_the_clock_of_a_host_that_works(void **state)
{
	struct glex_shared *s = t.host->shared;

	atomic_store(&s->clock, 5000);
	assert_int_equal(host_limit(t.sim, t.host), 5000);
	atomic_store(&s->until, 9000);
	assert_int_equal(host_limit(t.sim, t.host), 9000);
}

/* It goes on with the entry, and may then send from its clock on. */
static void an_entry_ends_the_wait_of_its_host(void **state)
{
	struct nmp request = to_spine(NMP_REGISTER_READ), answer;
	struct glex_shared *s = t.host->shared;

	submit(&request);
	atomic_store(&s->clock, 1000);
	atomic_store(&s->until, SIM_NEVER);
	t.sim->limit = host_limit(t.sim, t.host);
	assert_int_equal(t.sim->limit, SIM_NEVER);
	while (sim_step(t.sim, t.sim->limit))
		;
	assert_int_equal(t.sim->limit, 1000);
	assert_int_equal(host_limit(t.sim, t.host), 1000);
	assert_true(receive(&answer));
	assert_int_equal(host_limit(t.sim, t.host), SIM_NEVER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_register_is_read_in_the_time_of_the_model, begin,
						end),
		cmocka_unit_test_setup_teardown(a_second_register_costs_less_than_another_request,
						begin, end),
		cmocka_unit_test_setup_teardown(requests_for_another_chip_are_dropped, begin, end),
		cmocka_unit_test_setup_teardown(a_chip_without_an_id_answers_to_all_ones, begin,
						end),
		cmocka_unit_test_setup_teardown(bad_accesses_are_answered_with_the_reason, begin,
						end),
		cmocka_unit_test_setup_teardown(routes_that_lead_nowhere_lose_the_packet_alone,
						begin, end),
		cmocka_unit_test_setup_teardown(a_descriptor_that_is_none_comes_back_with_err,
						begin, end),
		cmocka_unit_test_setup_teardown(eeproms_keep_what_is_written, begin, end),
		cmocka_unit_test_setup_teardown(a_chip_with_a_bad_eeprom_comes_up_without_an_id,
						begin, end),
		cmocka_unit_test_setup_teardown(a_reset_chip_loads_its_tables_from_its_eeprom,
						begin, end),
		cmocka_unit_test_setup_teardown(tables_are_reached_through_registers_port_by_port,
						begin, end),
		cmocka_unit_test_setup_teardown(a_cut_link_is_reported_by_its_ends_that_may, begin,
						end),
		cmocka_unit_test_setup_teardown(a_bad_link_sends_again_and_counts_it, begin, end),
		cmocka_unit_test_setup_teardown(a_self_test_tells_a_bad_link_from_a_good_one, begin,
						end),
		cmocka_unit_test_setup_teardown(a_burst_waits_for_credits_and_is_answered, begin,
						end),
		cmocka_unit_test_setup_teardown(time_passes_up_to_the_clock_of_a_host_that_works,
						begin, end),
		cmocka_unit_test_setup_teardown(an_entry_ends_the_wait_of_its_host, begin, end),
		cmocka_unit_test_setup_teardown(what_comes_for_a_full_mpq_is_counted_as_lost, begin,
						end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
