// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The way of programs' packets through the tables of a fabric, and that what their ledgers say is
 * counted at each port of it. LIDs are 1 to 3 of the switches, 4 of h1, 5 of h2, 6 of h3's second
 * port.
 */
#include "tests/unit/fabric_test.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fabric/ledger.h"
#include "fabric/names.h"
#include "fabric/route.h"

static uint32_t at(unsigned node, unsigned port)
{
	return index_of(&fabric, port_of(node, port));
}

static struct fabric_route route_to(uint16_t lid)
{
	struct fabric_route r;

	fabric_route_find(fabric.map, at(H1, 1), lid, 0, &r);
	return r;
}

static int start(void **state)
{
	int ret = fabric_start(state);

	if (!ret)
		manage();
	return ret;
}

/* Does a packet to h2 end there and so? */
static void lost(enum fabric_loss loss, unsigned node, unsigned port, unsigned links)
{
	struct fabric_route r = route_to(5);

	assert_int_equal(r.loss, loss);
	assert_int_equal(r.to, at(node, port));
	assert_int_equal(r.num_links, links);
}

static void a_packet_goes_by_the_linear_tables(void **state)
{
	struct fabric_route r = route_to(5);

	assert_int_equal(r.loss, FABRIC_ARRIVES);
	assert_int_equal(r.to, at(H2, 1));
	assert_int_equal(r.num_links, 4);
	assert_int_equal(r.links[0], at(H1, 1));
	assert_int_equal(r.links[1], at(LEAF1, 8));
	assert_int_equal(r.links[2], at(SPINE, 2));
	assert_int_equal(r.links[3], at(LEAF2, 1));
	assert_int_equal(r.mtu, 5);
	assert_false(r.enforced || r.faulty || r.delay);
}

static void delays_of_links_add_up_by_direction(void **state)
{
	struct fabric_route back;

	link_set_faults(&fabric, port_of(LEAF1, 8), 0, 0, 20000);
	link_set_faults(&fabric, port_of(LEAF2, 1), 0, 0, 300);
	link_set_faults(&fabric, port_of(H2, 1), 0, 0, 7);
	link_set_faults(&fabric, port_of(H3, 2), 0, 0, 1000);
	assert_int_equal(route_to(5).delay, 20300);
	fabric_route_find(fabric.map, at(H2, 1), 4, 0, &back);
	assert_int_equal(back.delay, 7);
	link_set_faults(&fabric, port_of(LEAF1, 8), 0, 0, 0);
	assert_int_equal(route_to(5).delay, 300);
}

static void to_itself_and_to_a_switch(void **state)
{
	struct fabric_route r = route_to(4);

	assert_int_equal(r.loss, FABRIC_ARRIVES);
	assert_int_equal(r.num_links, 0);
	r = route_to(3);
	assert_int_equal(r.loss, FABRIC_ARRIVES);
	assert_int_equal(r.to, at(SPINE, 0));
	assert_int_equal(r.num_links, 2);
}

static void path_bits_are_lids_of_the_port(void **state)
{
	port_of(H2, 1)->info[PI_PROTECT_LMC] |= 1;
	put16(port_of(H2, 1)->info + PI_LID, 4);
	lost(FABRIC_ARRIVES, H2, 1, 4);
}

static void an_adapter_that_is_not_active_sends_nothing(void **state)
{
	link_set_state(&fabric, port_of(H1, 1), PORT_ARMED);
	lost(FABRIC_LOST_UNSENT, H1, 1, 0);
}

static void a_dead_link_discards(void **state)
{
	link_set(&fabric, port_of(SPINE, 2), false);
	lost(FABRIC_LOST_DISCARD, SPINE, 2, 2);
}

static void tables_without_a_way_and_with_circles(void **state)
{
	uint8_t *lft = fabric_map_bytes(fabric.map, fabric_map_node(fabric.map, SPINE)->lft);

	lft[5] = 255 - 1;
	lost(FABRIC_LOST_LOOPING, SPINE, 1, 2);
	lft[5] = 0;
	lost(FABRIC_LOST_NO_ROUTE, SPINE, 1, 2);
	lft[5] = 255 - 4;
	lost(FABRIC_LOST_DISCARD, SPINE, 4, 2);
	fabric_map_bytes(fabric.map, fabric_map_node(fabric.map, LEAF2)->lft)[5] = 255 - 2;
	lft[5] = 255 - 2;
	lost(FABRIC_LOST_RECEIVED, H3, 2, 4);
}

static void a_vl_that_is_not_there_discards(void **state)
{
	struct fabric_node *leaf = fabric_map_node(fabric.map, LEAF1);

	put_hi4(port_of(LEAF1, 8)->info + PI_VLS_ENF, 2);
	lost(FABRIC_ARRIVES, H2, 1, 4);
	put_hi4(fabric_map_bytes(fabric.map, leaf->sl2vl + 8 * (1 * 9 + 8)), 3);
	lost(FABRIC_LOST_DISCARD, LEAF1, 8, 1);
}

static void the_smallest_mtu_counts(void **state)
{
	put_hi4(port_of(SPINE, 2)->info + PI_MTU_SMSL, 3);
	assert_int_equal(route_to(5).mtu, 3);
}

static void switches_look_at_the_partition(void **state)
{
	uint16_t *keys = (uint16_t *)fabric_map_bytes(fabric.map, port_of(LEAF2, 1)->pkeys);
	struct fabric_route r;
	unsigned link;
	uint32_t port;

	port_of(LEAF2, 1)->info[PI_VLS_ENF] |= 4;
	port_of(LEAF1, 1)->info[PI_VLS_ENF] |= 8;
	keys[1] = 0x0005;
	r = route_to(5);
	assert_true(r.enforced);
	assert_int_equal(fabric_route_pkey(fabric.map, &r, 0x7fff, &link, &port), FABRIC_ARRIVES);
	assert_int_equal(fabric_route_pkey(fabric.map, &r, 0x8005, &link, &port),
			 FABRIC_LOST_RCV_PKEY);
	assert_int_equal(port, at(LEAF1, 1));
	assert_int_equal(link, 1);
	port_of(LEAF1, 1)->info[PI_VLS_ENF] &= ~8;
	assert_int_equal(fabric_route_pkey(fabric.map, &r, 0x8005, &link, &port), FABRIC_ARRIVES);
	assert_int_equal(fabric_route_pkey(fabric.map, &r, 0x8006, &link, &port),
			 FABRIC_LOST_XMIT_PKEY);
	assert_int_equal(port, at(LEAF2, 1));
	assert_int_equal(link, 3);
}

/* ---- multicast ---- */

static void in_group(unsigned sw, uint16_t ports)
{
	struct fabric_node *n = fabric_map_node(fabric.map, sw);

	((uint16_t *)fabric_map_bytes(fabric.map, n->mft))[2 * n->mft_blocks] = ports;
}

static struct fabric_tree tree;

/* h1's packets to h2 and h3. */
static void walk_tree(void)
{
	in_group(LEAF1, 1 << 1 | 1 << 8);
	in_group(LEAF2, 1 << 1 | 1 << 2 | 1 << 8);
	in_group(SPINE, 1 << 1 | 1 << 2);
	fabric_route_group(fabric.map, at(H1, 1), 0xc002, 0, 0xffff, &tree);
}

static const struct fabric_end *end_at(uint32_t port)
{
	unsigned i = 0;

	while (i < tree.num_ends && tree.ends[i].port != port)
		i++;
	assert_int_not_equal(i, tree.num_ends);
	return &tree.ends[i];
}

static void copies_go_down_a_tree(void **state)
{
	walk_tree();
	assert_int_equal(tree.num_links, 5);
	assert_int_equal(tree.num_ends, 3);
	assert_int_equal(end_at(at(H1, 1))->branch, 0);
	assert_int_equal(end_at(at(H2, 1))->branch, 1);
	assert_int_equal(end_at(at(H3, 2))->branch, 1);
	assert_int_equal(tree.num_branches, 2);
	assert_int_equal(tree.branches[1].num_links, 5);
	assert_false(tree.branches[1].faulty);
	assert_int_equal(tree.branches[1].mtu, 5);
}

/* A link that loses packets, or takes no long ones, begins a branch: copies behind it share its
 * fate. */
static void a_tree_has_a_branch_for_each_link_that_may_lose_a_copy(void **state)
{
	const struct fabric_branch *b;

	link_set_faults(&fabric, port_of(SPINE, 2), 0.5, 0, 3000);
	link_set_faults(&fabric, port_of(LEAF2, 2), 0, 0, 40);
	put_hi4(port_of(LEAF2, 1)->info + PI_MTU_SMSL, 3);
	walk_tree();
	assert_int_equal(tree.num_links, 5);
	assert_int_equal(tree.num_branches, 4);
	b = &tree.branches[end_at(at(H3, 2))->branch];
	assert_int_equal(end_at(at(H3, 2))->delay, 3040);
	assert_true(b->faulty);
	assert_int_equal(b->parent, 1);
	assert_int_equal(tree.links[b->first], at(SPINE, 2));
	assert_int_equal(b->num_links, 2);
	assert_int_equal(b->mtu, 5);
	b = &tree.branches[end_at(at(H2, 1))->branch];
	assert_int_equal(end_at(at(H2, 1))->delay, 3000);
	assert_false(b->faulty);
	assert_int_equal(b->parent, end_at(at(H3, 2))->branch);
	assert_int_equal(tree.links[b->first], at(LEAF2, 1));
	assert_int_equal(b->num_links, 1);
	assert_int_equal(b->mtu, 3);
	/* A port that is down sends nothing, but its own host gets its packets. */
	link_set(&fabric, port_of(H1, 1), false);
	walk_tree();
	assert_int_equal(tree.num_links, 0);
	assert_int_equal(tree.num_ends, 1);
}

/* 10.9.3: a copy ends where a switch does not let its P_Key pass; the others go on. */
static void switches_look_at_the_partition_of_copies(void **state)
{
	uint16_t *keys = (uint16_t *)fabric_map_bytes(fabric.map, port_of(LEAF2, 1)->pkeys);
	const struct fabric_branch *b;

	walk_tree();
	assert_false(tree.enforced);
	port_of(LEAF2, 1)->info[PI_VLS_ENF] |= 4;
	walk_tree();
	assert_true(tree.enforced);
	assert_int_equal(tree.num_branches, 2);
	assert_int_equal(tree.num_ends, 3);
	keys[0] = 0x0005;
	walk_tree();
	assert_int_equal(tree.num_ends, 2);
	assert_int_equal(end_at(at(H3, 2))->branch, 1);
	assert_int_equal(tree.num_branches, 3);
	b = &tree.branches[2];
	assert_int_equal(b->loss, FABRIC_LOST_XMIT_PKEY);
	assert_int_equal(tree.links[b->first], at(LEAF2, 1));
	assert_int_equal(b->num_links, 1);
	keys[0] = 0x7fff;
	/* The first switch of all: nobody gets any. */
	((uint16_t *)fabric_map_bytes(fabric.map, port_of(LEAF1, 1)->pkeys))[0] = 0x0005;
	port_of(LEAF1, 1)->info[PI_VLS_ENF] |= 8;
	walk_tree();
	assert_int_equal(tree.num_ends, 1);
	assert_int_equal(tree.branches[1].loss, FABRIC_LOST_RCV_PKEY);
	assert_int_equal(tree.branches[1].num_links, 1);
}

static void a_group_in_circles_ends(void **state)
{
	struct fabric_port *a = port_of(SPINE, 3), *b = port_of(SPINE, 4);

	a->peer = index_of(&fabric, b);
	b->peer = index_of(&fabric, a);
	link_update(&fabric, a);
	link_set_state(&fabric, a, PORT_ACTIVE);
	link_set_state(&fabric, b, PORT_ACTIVE);
	in_group(LEAF1, 1 << 8);
	in_group(SPINE, 1 << 3 | 1 << 4);
	fabric_route_group(fabric.map, at(H1, 1), 0xc002, 0, 0xffff, &tree);
	assert_in_range(tree.num_links, 4, 2 * FABRIC_HOPS_MAX);
	assert_int_equal(tree.num_ends, 1);
	link_set_faults(&fabric, a, 0.5, 0, 0);
	fabric_route_group(fabric.map, at(H1, 1), 0xc002, 0, 0xffff, &tree);
	assert_in_range(tree.num_branches, 4, 2 * FABRIC_HOPS_MAX);
	/* All ports of all switches, and each of them twice: it is cut off. */
	in_group(LEAF1, 0xffff);
	in_group(LEAF2, 0xffff);
	in_group(SPINE, 0xffff);
	fabric_route_group(fabric.map, at(H1, 1), 0xc002, 0, 0xffff, &tree);
	assert_in_range(tree.num_links, 4, FABRIC_TREE_MAX);
	assert_in_range(tree.num_branches, 4, FABRIC_TREE_MAX + 1);
}

/* ---- ledgers ---- */

static int ledger_file(uint8_t **bytes)
{
	int fd = memfd_create("ledger", MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(fd, FABRIC_LEDGER_LEN), 0);
	*bytes = mmap(NULL, FABRIC_LEDGER_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(*bytes, MAP_FAILED);
	return fd;
}

static struct fabric_row *put_row(uint8_t *to, const struct fabric_route *r)
{
	struct fabric_row *row = (struct fabric_row *)to;

	row->num_links = r->num_links;
	row->loss = r->loss;
	row->lost_at = r->to;
	memcpy(row->links, r->links, r->num_links * sizeof(*r->links));
	row->size = fabric_row_size(r->num_links);
	return row;
}

static const struct counters *counted(unsigned node, unsigned port)
{
	return count_of(&fabric, port_of(node, port));
}

static void what_ledgers_say_is_counted_once_at_each_port(void **state)
{
	uint8_t *bytes;
	int fd = ledger_file(&bytes);
	struct fabric_route r = route_to(5);
	struct fabric_row *row = put_row(bytes, &r), *second;
	struct ledger *ledger;

	assert_null(ledger_open(&fabric, fd)); /* it could shrink */
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
	ledger = ledger_open(&fabric, fd);
	assert_non_null(ledger);
	row->packets = 16;
	row->words = 16484;
	ledgers_collect(&fabric);
	ledgers_collect(&fabric);
	assert_int_equal(counted(H1, 1)->xmit_data, 16484);
	assert_int_equal(counted(SPINE, 1)->rcv_pkts, 16);
	assert_int_equal(counted(LEAF2, 1)->ucast_xmit_pkts, 16);
	assert_int_equal(counted(H2, 1)->rcv_data, 16484);
	assert_int_equal(counted(H3, 2)->rcv_data, 0);

	link_set(&fabric, port_of(SPINE, 2), false);
	r = route_to(5);
	second = put_row(bytes + row->size, &r);
	second->packets = 3;
	row->packets = 17;
	/* The process ends. */
	ledger_close(&fabric, ledger);
	assert_int_equal(counted(SPINE, 2)->xmit_discards, 3);
	assert_int_equal(counted(SPINE, 2)->xmit_pkts, 17);
	assert_int_equal(counted(SPINE, 1)->rcv_pkts, 20);
	munmap(bytes, FABRIC_LEDGER_LEN);
	close(fd);
}

static void armed_ports_on_the_way_of_a_packet_become_active(void **state)
{
	uint8_t *bytes;
	int fd = ledger_file(&bytes);
	struct fabric_row *row;
	struct fabric_route r;
	struct ledger *ledger;

	assert_false(route_to(5).arms);
	link_set_state(&fabric, port_of(SPINE, 1), PORT_ARMED);
	link_set_state(&fabric, port_of(H2, 1), PORT_ARMED);
	link_set_state(&fabric, port_of(H3, 2), PORT_ARMED);
	r = route_to(5);
	assert_int_equal(r.loss, FABRIC_ARRIVES);
	assert_true(r.arms);
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
	ledger = ledger_open(&fabric, fd);
	row = put_row(bytes, &r);
	ledger_passed(&fabric, ledger, row->size); /* no row begins there */
	ledger_passed(&fabric, ledger, 1);
	ledger_passed(&fabric, ledger, 0xffffffc0);
	assert_int_equal(fabric_port_state(port_of(H2, 1)), PORT_ARMED);
	ledger_passed(&fabric, ledger, 0);
	assert_int_equal(fabric_port_state(port_of(SPINE, 1)), PORT_ACTIVE);
	assert_int_equal(fabric_port_state(port_of(H2, 1)), PORT_ACTIVE);
	assert_int_equal(fabric_port_state(port_of(H3, 2)), PORT_ARMED);
	assert_false(route_to(5).arms);

	/* What leaves by no Active port does not arrive. */
	link_set_state(&fabric, port_of(LEAF1, 8), PORT_ARMED);
	link_set_state(&fabric, port_of(SPINE, 1), PORT_ARMED);
	ledger_passed(&fabric, ledger, 0);
	assert_int_equal(fabric_port_state(port_of(SPINE, 1)), PORT_ARMED);
	ledger_close(&fabric, ledger);
	munmap(bytes, FABRIC_LEDGER_LEN);
	close(fd);
}

static void nonsense_in_a_ledger_counts_nothing(void **state)
{
	uint8_t *bytes;
	int fd = ledger_file(&bytes);
	struct fabric_row *row = (struct fabric_row *)bytes;
	struct ledger *ledger;

	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
	ledger = ledger_open(&fabric, fd);
	row->packets = 1;
	row->num_links = 1;
	row->links[0] = 0xffffffff;
	row->loss = FABRIC_LOST_DISCARD;
	row->lost_at = fabric.map->num_ports;
	row->size = fabric_row_size(1);
	ledgers_collect(&fabric);
	row->size = 7;
	ledgers_collect(&fabric);
	row->num_links = 0xffffffff;
	row->size = fabric_row_size(row->num_links);
	ledgers_collect(&fabric);
	for (uint32_t i = 0; i < fabric.map->num_ports; i++)
		assert_int_equal(fabric.ports[i].count.xmit_pkts, 0);
	ledger_close(&fabric, ledger);
	munmap(bytes, FABRIC_LEDGER_LEN);
	close(fd);
}

static void keys_that_were_refused_are_counted(void **state)
{
	struct fabric_violation v = {.port = at(H2, 1), .key = 5, .count = 3};

	host_violation(&fabric, &v);
	assert_int_equal(get16(port_of(H2, 1)->info + PI_PKEY_VIOL), 3);
	v.of_qkey = 1;
	v.count = 70000;
	host_violation(&fabric, &v);
	assert_int_equal(get16(port_of(H2, 1)->info + PI_QKEY_VIOL), 0xffff);
	assert_int_equal(get16(port_of(H2, 1)->info + PI_PKEY_VIOL), 3);
}

/* ---- hosts ---- */

static void adapters_of_one_host_have_one_number(void **state)
{
	static const struct {
		const char *desc;
		unsigned host;
	} nodes[] = {{"a HCA-1", 3}, {"a HCA-2", 3}, {"same HCA-1", 5}};

	for (unsigned i = 0; i < 3; i++)
		strcpy(fabric_map_node(fabric.map, H1 + i)->desc, nodes[i].desc);
	assert_int_equal(names_number_hosts(fabric.map), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(fabric_map_node(fabric.map, H1 + i)->host, nodes[i].host);
	/* The same description twice is of two hosts. */
	strcpy(fabric_map_node(fabric.map, H2)->desc, "same HCA-1");
	assert_int_equal(names_number_hosts(fabric.map), 0);
	assert_int_equal(fabric_map_node(fabric.map, H2)->host, H2);
	assert_int_equal(fabric_map_node(fabric.map, H3)->host, H3);
}

#define T(test) cmocka_unit_test_setup_teardown(test, start, fabric_stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_packet_goes_by_the_linear_tables),
		T(delays_of_links_add_up_by_direction),
		T(to_itself_and_to_a_switch),
		T(path_bits_are_lids_of_the_port),
		T(an_adapter_that_is_not_active_sends_nothing),
		T(a_dead_link_discards),
		T(tables_without_a_way_and_with_circles),
		T(a_vl_that_is_not_there_discards),
		T(the_smallest_mtu_counts),
		T(switches_look_at_the_partition),
		T(copies_go_down_a_tree),
		T(a_tree_has_a_branch_for_each_link_that_may_lose_a_copy),
		T(switches_look_at_the_partition_of_copies),
		T(a_group_in_circles_ends),
		T(what_ledgers_say_is_counted_once_at_each_port),
		T(armed_ports_on_the_way_of_a_packet_become_active),
		T(nonsense_in_a_ledger_counts_nothing),
		T(keys_that_were_refused_are_counted),
		T(adapters_of_one_host_have_one_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
