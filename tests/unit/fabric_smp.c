// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* SMPs on their way through a virtual fabric, and what its management agents answer. */
#include "tests/unit/fabric_test.h"

static struct inbox in;

static const uint8_t *ask(struct agent *sm, uint8_t method, uint16_t attr, uint32_t mod,
			  const char *path)
{
	struct umad u = smp(method, attr, mod, (const uint8_t *)path);
	unsigned before = in.count;

	assert_int_equal(send_umad(sm, &u), 0);
	assert_int_equal(in.count, before + 1);
	assert_int_equal(in.hdr.status, 0);
	return in.mad;
}

static uint16_t status_of(const uint8_t *mad)
{
	return get16(mad + MAD_STATUS) & 0x7fff;
}

static struct agent *sm_at(unsigned node, unsigned port)
{
	return agent_at(node, port, CLASS_SUBN_DR, 1, 1ull << METHOD_TRAP, 0, &in);
}

static void a_directed_route_reaches_each_node_and_comes_back(void **state)
{
	static const struct {
		const char *path;
		unsigned node, in_port;
	} ways[] = {{"", H1, 1},	   {"\1", LEAF1, 1},	 {"\1\10", SPINE, 1},
		    {"\1\10\2", LEAF2, 8}, {"\1\10\2\1", H2, 1}, {"\1\10\2\2", H3, 2}};
	struct agent *sm = sm_at(H1, 1);

	for (unsigned i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		const uint8_t *mad = ask(sm, METHOD_GET, ATTR_NODE_INFO, 0, ways[i].path);
		const uint8_t *d = mad + SMP_DATA;

		assert_int_equal(get64(d + 12), fabric_map_node(fabric.map, ways[i].node)->guid);
		assert_int_equal(d[36], ways[i].in_port);
		assert_int_equal(mad[SMP_HOP_PTR], 0);
		assert_true(get16(mad + MAD_STATUS) & STATUS_DIRECTION);
	}
}

static void the_return_path_names_the_ports_that_it_came_in_by(void **state)
{
	const uint8_t *mad = ask(sm_at(H1, 1), METHOD_GET, ATTR_NODE_INFO, 0, "\1\10\2\1");

	assert_memory_equal(mad + SMP_RET_PATH + 1, "\1\1\10\1", 4);
}

static void a_route_through_an_adapter_or_an_empty_port_is_lost(void **state)
{
	static const char *const ways[] = {"\1\7", "\1\10\2\1\1", "\1\11", "\1\10\2\2\1"};
	struct agent *sm = sm_at(H1, 1);

	for (unsigned i = 0; i < 4; i++) {
		struct umad u = smp(METHOD_GET, ATTR_NODE_INFO, 0, (const uint8_t *)ways[i]);
		unsigned before = in.count;

		assert_int_equal(send_umad(sm, &u), 0);
		assert_int_equal(in.count, before);
		time_passes(101);
		assert_int_equal(in.count, before + 1);
		assert_int_equal(in.hdr.status, 110);
		assert_int_equal(in.len, MAD_HDR_LEN);
	}
}

static void a_route_that_does_not_begin_at_the_port_is_refused(void **state)
{
	struct agent *sm = sm_at(H1, 1);
	struct umad u = smp(METHOD_GET, ATTR_NODE_INFO, 0, (const uint8_t *)"\2");

	assert_int_equal(send_umad(sm, &u), 22);
	u = smp(METHOD_GET, ATTR_NODE_INFO, 0, (const uint8_t *)"\1");
	u.mad[SMP_HOP_PTR] = 1;
	assert_int_equal(send_umad(sm, &u), 22);
}

static void a_directed_route_can_begin_at_a_lid(void **state)
{
	struct agent *sm = sm_at(H1, 1);
	struct umad u = smp(METHOD_GET, ATTR_NODE_INFO, 0, (const uint8_t *)"\1");

	manage();
	u.hdr.lid = htobe16(2); /* leaf2 */
	put16(u.mad + SMP_DR_SLID, 4);
	assert_int_equal(send_umad(sm, &u), 0);
	assert_int_equal(in.hdr.status, 0);
	assert_int_equal(get64(in.mad + SMP_DATA + 12), fabric_map_node(fabric.map, H2)->guid);
}

/* The answer goes out of the port of leaf1 by which it came in. */
static void a_directed_route_from_a_lid_can_lead_back_to_the_sender(void **state)
{
	struct agent *sm = sm_at(H1, 1);
	struct umad u = smp(METHOD_GET, ATTR_NODE_INFO, 0, (const uint8_t *)"\1");

	manage();
	u.hdr.lid = htobe16(1); /* leaf1 */
	put16(u.mad + SMP_DR_SLID, 4);
	assert_int_equal(send_umad(sm, &u), 0);
	assert_int_equal(in.hdr.status, 0);
	assert_int_equal(get64(in.mad + SMP_DATA + 12), fabric_map_node(fabric.map, H1)->guid);
}

static void a_directed_route_can_end_at_a_lid(void **state)
{
	struct agent *sm = sm_at(H1, 1);
	struct umad u = smp(METHOD_GET, ATTR_NODE_INFO, 0, (const uint8_t *)"\1\10");

	manage();
	put16(u.mad + SMP_DR_DLID, 5); /* h2 */
	assert_int_equal(send_umad(sm, &u), 0);
	assert_int_equal(in.hdr.status, 0);
	assert_int_equal(get64(in.mad + SMP_DATA + 12), fabric_map_node(fabric.map, H2)->guid);
}

static void ports_go_from_init_over_armed_to_active(void **state)
{
	struct agent *sm = sm_at(H1, 1);
	struct fabric_port *port = port_of(LEAF1, 1);
	struct umad u;

	assert_int_equal(fabric_port_state(port), PORT_INIT);
	ask(sm, METHOD_GET, ATTR_PORT_INFO, 1, "\1");
	for (unsigned asked = PORT_ACTIVE; asked >= PORT_ARMED; asked--) {
		u = smp(METHOD_SET, ATTR_PORT_INFO, 1, (const uint8_t *)"\1");
		memcpy(u.mad + SMP_DATA, port->info, PI_LEN);
		put_lo4(u.mad + SMP_DATA + PI_SPEED_STATE, asked);
		put_hi4(u.mad + SMP_DATA + PI_PHYS, 0);
		send_umad(sm, &u);
		/* Active is not possible before Armed. */
		assert_int_equal(status_of(in.mad), asked == PORT_ACTIVE ? STATUS_BAD_FIELD : 0);
		assert_int_equal(fabric_port_state(port),
				 asked == PORT_ACTIVE ? PORT_INIT : PORT_ARMED);
	}
	put_lo4(u.mad + SMP_DATA + PI_SPEED_STATE, PORT_ACTIVE);
	send_umad(sm, &u);
	assert_int_equal(fabric_port_state(port), PORT_ACTIVE);
}

static void a_link_set_down_is_trained_again(void **state)
{
	struct agent *sm = sm_at(H1, 1);
	struct umad u;

	manage();
	u = smp(METHOD_SET, ATTR_PORT_INFO, 8, (const uint8_t *)"\1");
	memcpy(u.mad + SMP_DATA, port_of(LEAF1, 8)->info, PI_LEN);
	put_lo4(u.mad + SMP_DATA + PI_SPEED_STATE, PORT_DOWN);
	put_hi4(u.mad + SMP_DATA + PI_PHYS, 0);
	send_umad(sm, &u);
	assert_int_equal(status_of(in.mad), 0);
	assert_int_equal(fabric_port_state(port_of(LEAF1, 8)), PORT_INIT);
	assert_int_equal(fabric_port_state(port_of(SPINE, 1)), PORT_INIT);
	assert_int_equal(count_of(&fabric, port_of(SPINE, 1))->link_downed, 1);
}

static void a_port_whose_link_is_up_is_set_to_polling_and_both_ends_train_again(void **state)
{
	struct fabric_port *ends[] = {port_of(LEAF1, 8), port_of(SPINE, 1)};
	struct agent *sm = sm_at(H1, 1);
	struct umad u;

	manage();
	u = smp(METHOD_SET, ATTR_PORT_INFO, 8, (const uint8_t *)"\1");
	memcpy(u.mad + SMP_DATA, ends[0]->info, PI_LEN);
	put_lo4(u.mad + SMP_DATA + PI_SPEED_STATE, PORT_NOP);
	put_hi4(u.mad + SMP_DATA + PI_PHYS, PHYS_POLLING);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fabric_port_state(ends[i]), PORT_ACTIVE);
		node_of(&fabric, ends[i])->switch_info[11] &= ~4;
	}
	send_umad(sm, &u);
	assert_int_equal(status_of(in.mad), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fabric_port_state(ends[i]), PORT_INIT);
		assert_int_equal(hi4(ends[i]->info[PI_PHYS]), PHYS_LINK_UP);
		assert_int_equal(node_of(&fabric, ends[i])->switch_info[11] & 4, 4);
	}
	assert_int_equal(count_of(&fabric, ends[1])->link_downed, 1);
}

/* Sets widths and speeds of leaf1's port 8, and has its link trained again; the status. */
static unsigned train(struct agent *sm, uint8_t width, uint8_t speed, uint8_t extended)
{
	struct umad u = smp(METHOD_SET, ATTR_PORT_INFO, 8, (const uint8_t *)"\1");
	uint8_t *d = u.mad + SMP_DATA;

	memcpy(d, port_of(LEAF1, 8)->info, PI_LEN);
	d[PI_WIDTH_ENABLED] = width;
	put_lo4(d + PI_SPEED, speed);
	d[PI_EXT_ENABLED] = extended;
	put_lo4(d + PI_SPEED_STATE, PORT_DOWN);
	put_hi4(d + PI_PHYS, PHYS_POLLING);
	assert_int_equal(send_umad(sm, &u), 0);
	return status_of(in.mad);
}

static void check_link(uint8_t width, uint8_t speed)
{
	struct fabric_port *ends[] = {port_of(LEAF1, 8), port_of(SPINE, 1)};

	for (int i = 0; i < 2; i++) {
		assert_int_equal(fabric_port_state(ends[i]), PORT_INIT);
		assert_int_equal(ends[i]->info[PI_WIDTH_ACTIVE], width);
		assert_int_equal(fabric_port_speed(ends[i]), speed);
	}
}

static void a_link_has_the_width_and_speed_that_both_ends_enable(void **state)
{
	struct agent *sm = sm_at(H1, 1);

	manage();
	assert_int_equal(train(sm, 1, 7, 3), 0);
	check_link(1, FABRIC_SPEED_EDR);
	assert_int_equal(train(sm, 3, 7, 1), 0);
	check_link(2, FABRIC_SPEED_FDR);
	assert_int_equal(train(sm, 3, 3, 30), 0);
	check_link(2, FABRIC_SPEED_DDR);
	assert_int_equal(train(sm, 2, 1, 30), 0);
	check_link(2, FABRIC_SPEED_SDR);
	/* The other end does not take that width. */
	port_of(SPINE, 1)->info[PI_WIDTH_ENABLED] = 2;
	assert_int_equal(train(sm, 1, 15, 31), 0);
	assert_int_equal(fabric_port_state(port_of(LEAF1, 8)), PORT_DOWN);
	assert_int_equal(fabric_port_state(port_of(SPINE, 1)), PORT_DOWN);
	assert_int_equal(train(sm, 0xff, 15, 31), 0);
	check_link(2, FABRIC_SPEED_EDR);
}

static void a_width_or_speed_that_a_port_has_not_is_refused(void **state)
{
	struct agent *sm = sm_at(H1, 1);

	manage();
	assert_int_equal(train(sm, 8, 7, 3), STATUS_BAD_FIELD);
	assert_int_equal(train(sm, 3, 8, 3), STATUS_BAD_FIELD);
	assert_int_equal(train(sm, 3, 7, 4), STATUS_BAD_FIELD);
	assert_int_equal(fabric_port_state(port_of(LEAF1, 8)), PORT_ACTIVE);
}

static void a_disabled_port_takes_the_link_down_until_it_polls(void **state)
{
	struct agent *sm = sm_at(H1, 1);
	struct umad u = smp(METHOD_SET, ATTR_PORT_INFO, 8, (const uint8_t *)"\1");

	memcpy(u.mad + SMP_DATA, port_of(LEAF1, 8)->info, PI_LEN);
	put_lo4(u.mad + SMP_DATA + PI_SPEED_STATE, 0);
	put_hi4(u.mad + SMP_DATA + PI_PHYS, PHYS_DISABLED);
	send_umad(sm, &u);
	assert_int_equal(fabric_port_state(port_of(SPINE, 1)), PORT_DOWN);
	assert_int_equal(hi4(port_of(LEAF1, 8)->info[PI_PHYS]), PHYS_DISABLED);
	put_hi4(u.mad + SMP_DATA + PI_PHYS, PHYS_POLLING);
	send_umad(sm, &u);
	assert_int_equal(fabric_port_state(port_of(SPINE, 1)), PORT_INIT);
}

static void a_switch_that_is_switched_off_forgets_what_was_set(void **state)
{
	struct fabric_node *leaf = fabric_map_node(fabric.map, LEAF1);
	struct fabric_port *port = port_of(LEAF1, 8),
			   *port0 = fabric_node_port(fabric.map, leaf, 0);

	manage();
	assert_int_not_equal(fabric_port_lid(port0), 0);
	assert_int_equal(fabric_lft(fabric.map, leaf, 2), 8);
	put64(port0->info + PI_MKEY, 77);
	port->info[PI_VLS_ENF] |= 4;
	count_of(&fabric, port)->xmit_pkts = 9;
	link_node_set(&fabric, leaf, false);
	assert_int_equal(fabric_port_state(port), PORT_DOWN);
	assert_int_equal(fabric_port_state(port_of(SPINE, 1)), PORT_DOWN);
	link_node_set(&fabric, leaf, true);
	assert_int_equal(fabric_port_state(port), PORT_INIT);
	assert_int_equal(fabric_port_lid(port0), 0);
	assert_int_equal(get64(port0->info + PI_MKEY), 0);
	assert_int_equal(fabric_lft(fabric.map, leaf, 2), 255);
	assert_false(port->info[PI_VLS_ENF] & 4);
	assert_int_equal(count_of(&fabric, port)->xmit_pkts, 0);
	assert_int_equal(count_of(&fabric, port_of(SPINE, 1))->link_downed, 1);
}

static void who_does_not_know_the_mkey_sets_nothing(void **state)
{
	struct fabric_port *port = port_of(H1, 1);
	struct agent *sm = sm_at(H1, 1);
	struct umad u = smp(METHOD_SET, ATTR_LED_INFO, 0, NULL);
	unsigned before;

	put64(port->info + PI_MKEY, 77);
	port->info[PI_PROTECT_LMC] = 1 << 6;
	before = in.count;
	send_umad(sm, &u);
	assert_int_equal(in.count, before);
	assert_int_equal(get16(port->info + PI_MKEY_VIOL), 1);
	/* Level 1: reading is allowed, and the key is not shown. */
	assert_int_equal(get64(ask(sm, METHOD_GET, ATTR_PORT_INFO, 0, "") + SMP_DATA + PI_MKEY), 0);
	put64(u.mad + SMP_MKEY, 77);
	put64(u.mad + MAD_TID, 2);
	send_umad(sm, &u);
	assert_int_equal(status_of(in.mad), 0);
}

static void the_lease_of_an_mkey_ends_its_protection(void **state)
{
	struct fabric_port *port = port_of(H1, 1);
	struct umad u = smp(METHOD_SET, ATTR_LED_INFO, 0, NULL);

	put64(port->info + PI_MKEY, 77);
	port->info[PI_PROTECT_LMC] = 2 << 6;
	put16(port->info + PI_LEASE, 2);
	send_umad(sm_at(H1, 1), &u);
	time_passes(1990);
	assert_int_equal(port->info[PI_PROTECT_LMC] >> 6, 2);
	time_passes(20);
	assert_int_equal(port->info[PI_PROTECT_LMC] >> 6, 0);
}

static void forwarding_tables_are_read_as_they_were_written(void **state)
{
	struct agent *sm = sm_at(H1, 1);
	struct umad u = smp(METHOD_SET, ATTR_LFT, 3, (const uint8_t *)"\1");
	const uint8_t *mad;

	assert_int_equal(ask(sm, METHOD_GET, ATTR_LFT, 3, "\1")[SMP_DATA], 255);
	for (int i = 0; i < 64; i++)
		u.mad[SMP_DATA + i] = i % 9;
	send_umad(sm, &u);
	mad = ask(sm, METHOD_GET, ATTR_LFT, 3, "\1");
	assert_memory_equal(mad + SMP_DATA, u.mad + SMP_DATA, 64);
	assert_int_equal(fabric_lft(fabric.map, fabric_map_node(fabric.map, LEAF1), 3 * 64 + 8), 8);
	assert_int_equal(status_of(ask(sm, METHOD_GET, ATTR_LFT, 768, "\1")), STATUS_BAD_FIELD);
}

static void an_adapter_has_no_forwarding_table(void **state)
{
	assert_int_equal(status_of(ask(sm_at(H1, 1), METHOD_GET, ATTR_LFT, 0, "")),
			 STATUS_BAD_METHOD_ATTR);
}

/* 14.2.5.9: with a cap of 8 there is no upper half, and nothing behind the eighth entry. */
static void vl_arbitration_has_as_many_entries_as_the_port(void **state)
{
	static const uint8_t none[48];
	struct agent *sm = sm_at(H1, 1);

	for (unsigned part = 1; part <= 4; part++) {
		struct umad u = smp(METHOD_SET, ATTR_VL_ARB, part << 16 | 1, (const uint8_t *)"\1");

		memset(u.mad + SMP_DATA, 0x11 * part, SMP_DATA_LEN);
		send_umad(sm, &u);
		assert_int_equal(status_of(in.mad), part % 2 ? 0 : STATUS_BAD_FIELD);
		if (part % 2 == 0)
			continue;
		ask(sm, METHOD_GET, ATTR_VL_ARB, part << 16 | 1, "\1");
		assert_memory_equal(in.mad + SMP_DATA, u.mad + SMP_DATA, 16);
		assert_memory_equal(in.mad + SMP_DATA + 16, none, 48);
	}
	ask(sm, METHOD_GET, ATTR_VL_ARB, 1 << 16, "\1"); /* port 0 arbitrates nothing */
	assert_int_equal(status_of(in.mad), STATUS_BAD_FIELD);
}

/* 13.4.7: a reserved value of the attribute modifier is an invalid field. */
static void a_modifier_that_names_nothing_is_refused(void **state)
{
	static const struct {
		uint16_t attr;
		uint32_t mod;
		uint16_t status;
	} asked[] = {
		{ATTR_NODE_INFO, 1, STATUS_BAD_FIELD},
		{ATTR_NODE_DESC, 1, STATUS_BAD_FIELD},
		{ATTR_SWITCH_INFO, 1 << 24, STATUS_BAD_FIELD},
		{ATTR_PORT_INFO, 8, 0},
		{ATTR_PORT_INFO, 0x80000008, 0}, /* by one who knows extended speeds */
		{ATTR_PORT_INFO, 9, STATUS_BAD_FIELD},
		{ATTR_PORT_INFO, 0x108, STATUS_BAD_FIELD},
		{ATTR_PORT_INFO, 0x01000008, STATUS_BAD_FIELD},
		{ATTR_SL_TO_VL, 0x0102, 0},
		{ATTR_SL_TO_VL, 0x10102,
		 STATUS_BAD_FIELD}, /* for all ports: not told as possible */
		{ATTR_MFT, 0, 0},
		{ATTR_MFT, 1 << 9, STATUS_BAD_FIELD},
	};
	struct agent *sm = sm_at(H1, 1);

	for (unsigned i = 0; i < sizeof(asked) / sizeof(*asked); i++) {
		ask(sm, METHOD_GET, asked[i].attr, asked[i].mod, "\1");
		assert_int_equal(status_of(in.mad), asked[i].status);
	}
}

static uint16_t set_lids(struct agent *sm, uint16_t lid, uint16_t sm_lid)
{
	struct umad u = smp(METHOD_SET, ATTR_PORT_INFO, 0, (const uint8_t *)"");

	memcpy(u.mad + SMP_DATA, port_of(H1, 1)->info, PI_LEN);
	put_lo4(u.mad + SMP_DATA + PI_SPEED_STATE, PORT_NOP);
	put_hi4(u.mad + SMP_DATA + PI_PHYS, PHYS_NOP);
	put16(u.mad + SMP_DATA + PI_LID, lid);
	put16(u.mad + SMP_DATA + PI_SM_LID, sm_lid);
	send_umad(sm, &u);
	return status_of(in.mad);
}

static void a_port_that_has_a_lid_is_given_others_but_not_none(void **state)
{
	struct agent *sm = sm_at(H1, 1);

	assert_int_equal(set_lids(sm, 0, 0), 0); /* it has none yet */
	assert_int_equal(set_lids(sm, 4, 5), 0);
	assert_int_equal(set_lids(sm, 0, 5), STATUS_BAD_FIELD);
	assert_int_equal(set_lids(sm, 4, 0), STATUS_BAD_FIELD);
	assert_int_equal(fabric_port_lid(port_of(H1, 1)), 4);
	assert_int_equal(set_lids(sm, 6, 7), 0);
}

static void an_unknown_attribute_has_its_status(void **state)
{
	assert_int_equal(status_of(ask(sm_at(H1, 1), METHOD_GET, 0xff00, 0, "\1")),
			 STATUS_BAD_METHOD_ATTR);
}

static void a_table_that_leads_in_circles_loses_the_packet_and_counts_it(void **state)
{
	struct inbox gsi = {0};
	struct agent *pm = agent_at(H1, 1, CLASS_PERF, 1, 0, 0, &gsi);
	struct umad u = umad_to(9, 1, 50);

	manage();
	fabric_map_bytes(fabric.map, fabric_map_node(fabric.map, LEAF1)->lft)[9] = 255 - 8;
	fabric_map_bytes(fabric.map, fabric_map_node(fabric.map, SPINE)->lft)[9] = 255 - 1;
	u.mad[MAD_CLASS] = CLASS_PERF;
	u.mad[MAD_CLASS_VERSION] = 1;
	u.mad[MAD_METHOD] = METHOD_GET;
	put16(u.mad + MAD_ATTR, ATTR_COUNTERS);
	send_umad(pm, &u);
	assert_int_equal(count_of(&fabric, port_of(SPINE, 1))->looping, 1);
	time_passes(60);
	assert_int_equal(gsi.hdr.status, 110);
	free(gsi.mad);
}

/* 10.9.3: MADs of QP 1 are data to a switch; SMPs are not. */
static void switches_look_at_the_partition_of_mads_that_are_no_smps(void **state)
{
	struct inbox gsi = {0};
	struct agent *pm = agent_at(H1, 1, CLASS_PERF, 1, 0, 0, &gsi);
	uint16_t *keys = (uint16_t *)fabric_map_bytes(fabric.map, port_of(LEAF1, 8)->pkeys);
	const struct counters *out = count_of(&fabric, port_of(LEAF1, 8));
	const struct counters *in_spine = count_of(&fabric, port_of(SPINE, 1));
	struct umad u = umad_to(2, 1, 50);

	manage();
	u.mad[MAD_CLASS] = CLASS_PERF;
	u.mad[MAD_CLASS_VERSION] = 1;
	u.mad[MAD_METHOD] = METHOD_GET;
	put16(u.mad + MAD_ATTR, ATTR_COUNTERS);
	u.mad[PMA_DATA + 1] = 1;
	keys[0] = 0x0005;
	send_umad(pm, &u);
	assert_int_equal(gsi.count, 1);
	assert_int_equal(gsi.hdr.status, 0);
	port_of(LEAF1, 8)->info[PI_VLS_ENF] |= 4;
	send_umad(pm, &u);
	assert_int_equal(out->xmit_constraint, 1);
	assert_int_equal(gsi.count, 1);
	port_of(LEAF1, 8)->info[PI_VLS_ENF] &= ~4;
	((uint16_t *)fabric_map_bytes(fabric.map, port_of(SPINE, 1)->pkeys))[0] = 0x0005;
	port_of(SPINE, 1)->info[PI_VLS_ENF] |= 8;
	put64(u.mad + MAD_TID, 9);
	send_umad(pm, &u);
	assert_int_equal(in_spine->rcv_constraint, 1);
	assert_int_equal(gsi.count, 1);
	assert_int_equal(status_of(ask(sm_at(H1, 1), METHOD_GET, ATTR_NODE_INFO, 0, "\1\10\2")), 0);
	time_passes(60);
	free(gsi.mad);
}

static void a_trap_is_sent_again_until_it_is_repressed(void **state)
{
	struct inbox traps = {0};
	struct agent *sm = agent_at(H1, 1, CLASS_SUBN_LID, 1, 1ull << METHOD_TRAP, 0, &traps);
	struct umad repress = umad_to(2, 0, 0);

	manage();
	time_passes(1);
	link_set(&fabric, port_of(LEAF2, 2), false);
	time_passes(1);
	assert_int_equal(traps.count, 1);
	assert_int_equal(get16(traps.mad + SMP_DATA + 4), TRAP_LINK_STATE);
	assert_int_equal(get16(traps.mad + SMP_DATA + 10), 2); /* leaf2 */
	time_passes(3000);
	assert_int_equal(traps.count, 4);
	memcpy(repress.mad, traps.mad, MAD_LEN);
	repress.mad[MAD_METHOD] = METHOD_TRAP_REPRESS;
	send_umad(sm, &repress);
	time_passes(3000);
	assert_int_equal(traps.count, 4);
	free(traps.mad);
}

/* 14.2.4: TrapRepress needs the M_Key as Set does. */
static void a_trap_is_not_repressed_by_one_that_does_not_know_the_mkey(void **state)
{
	struct inbox traps = {0};
	struct agent *sm = agent_at(H1, 1, CLASS_SUBN_LID, 1, 1ull << METHOD_TRAP, 0, &traps);
	struct fabric_port *port =
		fabric_node_port(fabric.map, fabric_map_node(fabric.map, LEAF2), 0);
	struct umad repress = umad_to(2, 0, 0);

	manage();
	time_passes(1);
	link_set(&fabric, port_of(LEAF2, 2), false);
	time_passes(1);
	assert_int_equal(traps.count, 1);
	put64(port->info + PI_MKEY, 77);
	memcpy(repress.mad, traps.mad, MAD_LEN);
	repress.mad[MAD_METHOD] = METHOD_TRAP_REPRESS;
	send_umad(sm, &repress);
	assert_int_equal(get16(port->info + PI_MKEY_VIOL), 1);
	time_passes(1);
	assert_int_equal(get16(traps.mad + SMP_DATA + 4), TRAP_BAD_MKEY);
	put64(repress.mad + SMP_MKEY, 77);
	send_umad(sm, &repress);
	memcpy(repress.mad, traps.mad, MAD_LEN);
	repress.mad[MAD_METHOD] = METHOD_TRAP_REPRESS;
	put64(repress.mad + SMP_MKEY, 77);
	send_umad(sm, &repress);
	traps.count = 0;
	time_passes(3000);
	assert_int_equal(traps.count, 0);
	free(traps.mad);
}

/* LocalPhyErrors is 8: the ninth packet in a row that arrives damaged is an error of the link. */
static void many_damaged_packets_are_an_error_of_the_link_that_is_told(void **state)
{
	struct inbox traps = {0};
	struct agent *sm = sm_at(H1, 1);
	struct umad u = smp(METHOD_GET, ATTR_NODE_INFO, 0, (const uint8_t *)"\1\10\2\2");
	const struct counters *c = count_of(&fabric, port_of(LEAF2, 2));

	agent_at(H1, 1, CLASS_SUBN_LID, 1, 1ull << METHOD_TRAP, 0, &traps);
	manage();
	u.hdr.timeout_ms = 1;
	link_set_faults(&fabric, port_of(H3, 2), 0, 1, 0);
	for (unsigned i = 0; i < 9; i++) {
		assert_int_equal(c->integrity, 0);
		send_umad(sm, &u);
		time_passes(2);
	}
	assert_int_equal(c->integrity, 1);
	assert_int_equal(c->link_recovered, 1);
	assert_int_equal(traps.count, 1);
	assert_int_equal(get16(traps.mad + SMP_DATA + 4), TRAP_LINK_INTEGRITY);
	assert_int_equal(get16(traps.mad + SMP_DATA + 12), 2); /* leaf2 */
	assert_int_equal(traps.mad[SMP_DATA + 14], 2);
	free(traps.mad);
}

/* Over four cables there and back: 3 ms and 20 us there, 4 ms back. */
static void a_mad_takes_the_delay_of_each_cable(void **state)
{
	struct agent *sm = sm_at(H1, 1);
	struct umad u = smp(METHOD_GET, ATTR_NODE_INFO, 0, (const uint8_t *)"\1\10\2\2");
	unsigned before = in.count;

	link_set_faults(&fabric, port_of(H1, 1), 0, 0, 20000);
	link_set_faults(&fabric, port_of(LEAF2, 2), 0, 0, 3000000);
	link_set_faults(&fabric, port_of(SPINE, 1), 0, 0, 4000000);
	send_umad(sm, &u);
	time_passes(7);
	assert_int_equal(in.count, before);
	time_passes(4);
	assert_int_equal(in.count, before + 1);
	/* One that takes no time does not wait behind one that does. */
	send_umad(sm, &u);
	link_set_faults(&fabric, port_of(H1, 1), 0, 0, 0);
	link_set_faults(&fabric, port_of(LEAF2, 2), 0, 0, 0);
	link_set_faults(&fabric, port_of(SPINE, 1), 0, 0, 0);
	put64(u.mad + MAD_TID, 0x4321);
	send_umad(sm, &u);
	assert_int_equal(in.count, before + 2);
	time_passes(5);
	assert_int_equal(in.count, before + 3);
	/* What is under way ends with the fabric. */
	link_set_faults(&fabric, port_of(H1, 1), 0, 0, LINK_MAX_DELAY);
	send_umad(sm, &u);
}

/* ---- samples of counters ---- */

enum { SAMPLE_CONTROL = 0x10, SAMPLE_RESULT = 0x11, SAMPLE_RESULT_EXTENDED = 0x1e };

/* Performance management of h3's second port, which has LID 6. */
static struct umad samples(uint8_t method, uint16_t attribute, uint8_t port)
{
	struct umad u = umad_to(6, 1, 100);

	u.mad[MAD_CLASS] = CLASS_PERF;
	u.mad[MAD_CLASS_VERSION] = 1;
	u.mad[MAD_METHOD] = method;
	put16(u.mad + MAD_ATTR, attribute);
	u.mad[65] = port;
	return u;
}

/* PortXmitPkts in counter 0, PortRcvPkts in counter 14. */
static struct umad sample(uint32_t start, uint32_t interval, uint16_t tag)
{
	struct umad u = samples(METHOD_SET, SAMPLE_CONTROL, 2);

	put32(u.mad + 92, start);
	put32(u.mad + 96, interval);
	put16(u.mad + 100, tag);
	put16(u.mad + 102, 3);
	put16(u.mad + 102 + 2 * 14, 4);
	return u;
}

static const uint8_t *asked(struct agent *pm, const struct umad *u)
{
	unsigned before = in.count;

	assert_int_equal(send_umad(pm, u), 0);
	assert_int_equal(in.count, before + 1);
	return in.mad;
}

/* A tick is 256 times 1 ns on this cable of 10 Gb/s a lane: 40,000 are
 * 10.24 ms, 80,000 20.48 ms. */
static void samples_are_what_a_port_counts_during_the_interval(void **state)
{
	struct agent *pm = agent_at(H1, 1, CLASS_PERF, 1, 0, 0, &in);
	struct umad result = samples(METHOD_GET, SAMPLE_RESULT, 0), more = sample(40000, 80000, 77);
	const uint8_t *mad;

	manage();
	put_hi4(port_of(H3, 2)->info + PI_EXT_SPEED, 0);
	mad = asked(pm, &more);
	assert_int_equal(status_of(mad), 0);
	assert_int_equal(mad[65], 2);
	assert_int_equal(mad[66], 255);
	assert_int_equal(mad[67], 4);
	assert_int_equal(get32(mad + 68), 0x09249249);
	assert_int_equal(get16(mad + 72), 0x1249);
	assert_int_equal(mad[75], 1);
	time_passes(9);
	mad = asked(pm, &result);
	assert_int_equal(get16(mad + 64), 77);
	assert_int_equal(get16(mad + 66), 1);
	time_passes(4);
	/* Three questions and the Set that follows, and as many answers. */
	for (unsigned i = 0; i < 3; i++) {
		mad = asked(pm, &result);
		assert_int_equal(get16(mad + 66), 2);
		assert_int_equal(get32(mad + 68), 0);
	}
	/* It samples: another Set changes nothing. */
	more = sample(0, 1, 78);
	mad = asked(pm, &more);
	assert_int_equal(get32(mad + 96), 80000);
	assert_int_equal(get16(mad + 100), 77);
	time_passes(25);
	mad = asked(pm, &result);
	assert_int_equal(get16(mad + 64), 77);
	assert_int_equal(get16(mad + 66), 0);
	assert_int_equal(get32(mad + 68), 4);
	assert_int_equal(get32(mad + 68 + 4), 0);
	assert_int_equal(get32(mad + 68 + 4 * 14), 4);
	put16(result.mad + MAD_ATTR, SAMPLE_RESULT_EXTENDED);
	mad = asked(pm, &result);
	assert_int_equal(get32(mad + 68), 0x80000000);
	assert_int_equal(get64(mad + 72 + 8 * 14), 4);
	/* Done: it can begin again, with the next one at once. */
	more = sample(0, 1, 78);
	mad = asked(pm, &more);
	assert_int_equal(mad[75], 2);
	assert_int_equal(get16(mad + 100), 78);
}

static void samples_of_no_port_or_of_no_time(void **state)
{
	struct agent *pm = agent_at(H1, 1, CLASS_PERF, 1, 0, 0, &in);
	struct umad u = samples(METHOD_GET, SAMPLE_CONTROL, 3);
	const uint8_t *mad;

	manage();
	assert_int_equal(status_of(asked(pm, &u)), 0x1c);
	u = samples(METHOD_GET, SAMPLE_CONTROL, 0);
	assert_int_equal(status_of(asked(pm, &u)), 0x1c);
	u = samples(METHOD_GET, SAMPLE_CONTROL, 1);
	put32(u.mad + MAD_MOD, 1);
	assert_int_equal(status_of(asked(pm, &u)), 0x1c);
	u = samples(METHOD_SET, SAMPLE_RESULT, 0);
	assert_int_equal(status_of(asked(pm, &u)), 0x0c);
	u = sample(1, 0, 5);
	mad = asked(pm, &u);
	assert_int_equal(status_of(mad), 0);
	assert_int_equal(mad[75], 0);
	u = samples(METHOD_GET, SAMPLE_RESULT, 0);
	mad = asked(pm, &u);
	assert_int_equal(get16(mad + 64), 5);
	assert_int_equal(get32(mad + 68), 0);
	/* A switch samples its port 0, too. */
	u = samples(METHOD_GET, SAMPLE_CONTROL, 0);
	u.hdr.lid = htobe16(2);
	assert_int_equal(status_of(asked(pm, &u)), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fabric_start, fabric_stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_directed_route_reaches_each_node_and_comes_back),
		TEST(the_return_path_names_the_ports_that_it_came_in_by),
		TEST(a_route_through_an_adapter_or_an_empty_port_is_lost),
		TEST(a_route_that_does_not_begin_at_the_port_is_refused),
		TEST(a_directed_route_can_begin_at_a_lid),
		TEST(a_directed_route_can_end_at_a_lid),
		TEST(a_directed_route_from_a_lid_can_lead_back_to_the_sender),
		TEST(ports_go_from_init_over_armed_to_active),
		TEST(a_link_set_down_is_trained_again),
		TEST(a_port_whose_link_is_up_is_set_to_polling_and_both_ends_train_again),
		TEST(a_link_has_the_width_and_speed_that_both_ends_enable),
		TEST(a_width_or_speed_that_a_port_has_not_is_refused),
		TEST(a_disabled_port_takes_the_link_down_until_it_polls),
		TEST(a_switch_that_is_switched_off_forgets_what_was_set),
		TEST(who_does_not_know_the_mkey_sets_nothing),
		TEST(the_lease_of_an_mkey_ends_its_protection),
		TEST(forwarding_tables_are_read_as_they_were_written),
		TEST(an_adapter_has_no_forwarding_table),
		TEST(vl_arbitration_has_as_many_entries_as_the_port),
		TEST(a_modifier_that_names_nothing_is_refused),
		TEST(a_port_that_has_a_lid_is_given_others_but_not_none),
		TEST(an_unknown_attribute_has_its_status),
		TEST(a_table_that_leads_in_circles_loses_the_packet_and_counts_it),
		TEST(many_damaged_packets_are_an_error_of_the_link_that_is_told),
		TEST(switches_look_at_the_partition_of_mads_that_are_no_smps),
		TEST(a_trap_is_sent_again_until_it_is_repressed),
		TEST(a_trap_is_not_repressed_by_one_that_does_not_know_the_mkey),
		TEST(a_mad_takes_the_delay_of_each_cable),
		TEST(samples_are_what_a_port_counts_during_the_interval),
		TEST(samples_of_no_port_or_of_no_time),
	};
	int ret = cmocka_run_group_tests(tests, NULL, NULL);

	free(in.mad);
	return ret;
}
