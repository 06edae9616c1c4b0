// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Virtual functions: GUIDs that come and go while the fabric runs. */
#include "tests/unit/fabric_test.h"

static struct fabric_node *node_at(unsigned i)
{
	return fabric_map_node(fabric.map, i);
}

static void a_function_is_found_at_its_switch_and_beside_it(void **state)
{
	assert_ptr_equal(function_find(&fabric, node_at(LEAF2), 1), node_at(H2));
	assert_ptr_equal(function_find(&fabric, node_at(H2), 1), node_at(H2));
	assert_null(function_find(&fabric, node_at(LEAF2), 2));
	assert_null(function_find(&fabric, node_at(LEAF1), 1));
	assert_null(function_find(&fabric, node_at(H3), 1)); /* no cable at its port 1 */
	assert_null(function_find(&fabric, node_at(LEAF2), 0));
}

static void without_a_guid_its_link_is_down(void **state)
{
	struct fabric_port *port = port_of(H2, 1);

	manage();
	function_set_guid(&fabric, node_at(H2), 0);
	assert_int_equal(fabric_port_state(port), PORT_DOWN);
	assert_int_equal(fabric_port_state(port_of(LEAF2, 1)), PORT_DOWN);
	assert_int_equal(fabric_port_lid(port), 0);
	function_enable(&fabric, node_at(H2), true);
	assert_int_equal(fabric_port_state(port), PORT_DOWN);
	function_set_guid(&fabric, node_at(H2), 0x99);
	assert_int_equal(fabric_port_state(port), PORT_INIT);
	assert_int_equal(fabric_port_state(port_of(LEAF2, 1)), PORT_INIT);
	assert_int_equal(node_at(H2)->guid, 0x99);
	assert_int_equal(port->guid, 0x99);
}

static void the_guid_that_it_has_changes_nothing(void **state)
{
	manage();
	function_set_guid(&fabric, node_at(H2), 0x77);
	assert_int_equal(fabric_port_state(port_of(H2, 1)), PORT_ACTIVE);
}

static void a_function_that_is_off_stays_so_with_a_new_guid(void **state)
{
	function_enable(&fabric, node_at(H2), false);
	function_set_guid(&fabric, node_at(H2), 0x99);
	assert_int_equal(fabric_port_state(port_of(H2, 1)), PORT_DOWN);
	function_enable(&fabric, node_at(H2), true);
	assert_int_equal(fabric_port_state(port_of(H2, 1)), PORT_INIT);
}

static void keys_and_alias_guids_do_not_outlive_the_guid(void **state)
{
	struct fabric_port *port = port_of(H2, 1);
	uint16_t *pkeys = (uint16_t *)fabric_map_bytes(fabric.map, port->pkeys);
	uint64_t *guids = (uint64_t *)fabric_map_bytes(fabric.map, port->guids);

	pkeys[3] = 0x8123;
	guids[1] = 0x55;
	put64(port->info + PI_MKEY, 77);
	function_set_guid(&fabric, node_at(H2), 0x99);
	assert_int_equal(pkeys[0], 0xffff);
	assert_int_equal(pkeys[3], 0);
	assert_int_equal(guids[1], 0);
	assert_int_equal(get64(port->info + PI_MKEY), 0);
}

static void a_subnet_manager_is_announced_as_long_as_its_file_is_open(void **state)
{
	struct fabric_port *port = port_of(H2, 1);

	fabric.ports[index_of(&fabric, port)].sms = 1;
	put32(port->info + PI_CAP, get32(port->info + PI_CAP) | CAP_SM);
	function_set_guid(&fabric, node_at(H2), 0x99);
	assert_true(get32(port->info + PI_CAP) & CAP_SM);
	fabric.ports[index_of(&fabric, port)].sms = 0;
	function_set_guid(&fabric, node_at(H2), 0x9a);
	assert_false(get32(port->info + PI_CAP) & CAP_SM);
}

static void another_port_of_that_guid_is_found(void **state)
{
	assert_null(function_other(&fabric, node_at(H2), 0x77));
	assert_ptr_equal(function_other(&fabric, node_at(H1), 0x77), port_of(H2, 1));
	assert_null(function_other(&fabric, node_at(H2), 0x1234));
}

static void a_new_description_is_told_to_the_subnet_manager(void **state)
{
	struct inbox traps = {0};

	agent_at(H1, 1, CLASS_SUBN_LID, 1, 1ull << METHOD_TRAP, 0, &traps);
	manage();
	function_set_desc(&fabric, node_at(H2), "guest");
	time_passes(1);
	assert_string_equal(node_at(H2)->desc, "guest");
	assert_int_equal(traps.count, 1);
	assert_int_equal(get16(traps.mad + SMP_DATA + 4), TRAP_CAPABILITIES);
	assert_int_equal(traps.mad[SMP_DATA + 15], 1);
	assert_int_equal(get16(traps.mad + SMP_DATA + 20), 1);
	function_set_guid(&fabric, node_at(H2), 0);
	assert_string_equal(node_at(H2)->desc, "h2");
	free(traps.mad);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fabric_start, fabric_stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_function_is_found_at_its_switch_and_beside_it),
		TEST(without_a_guid_its_link_is_down),
		TEST(the_guid_that_it_has_changes_nothing),
		TEST(a_function_that_is_off_stays_so_with_a_new_guid),
		TEST(keys_and_alias_guids_do_not_outlive_the_guid),
		TEST(a_subnet_manager_is_announced_as_long_as_its_file_is_open),
		TEST(another_port_of_that_guid_is_found),
		TEST(a_new_description_is_told_to_the_subnet_manager),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
