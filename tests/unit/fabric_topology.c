// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Descriptions of fabrics: read, refused, written, made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <errno.h>

#include "fabric/topology.h"

static const char real[] =
	"#\n# Topology file: generated on Tue Jun  5 14:15:10 2007\n#\n"
	"src/query_smp.c:195; umad (DR path slid 0; dlid 0; 0,1 Attr 0x11:0) bad status 110\n"
	"Non-Chassis Nodes\n"
	"vendid=0x8f1\r\ndevid=0x5a06\nsysimgguid=0x5442ba00003000\n"
	"switchguid=0x5442ba00003080(5442ba00003081)\n"
	"Switch\t24 \"S-005442ba00003080\"\t\t# \"a switch\" enhanced port 0 lid 6 lmc 0\n"
	"[22]\t\"H-0008f10403961354\"[2](8f10403961356) \t\t# \"node-17 HCA-1\" lid 4 4xFDR10\n"
	"[3]\t\"S-005442ba00003080\"[4]\t\t# \"a switch\" lid 6 1xSDR\n"
	"[4]\t\"S-005442ba00003080\"[3]\t\t# \"a switch\" lid 6 12xDDR\n"
	"\nvendid=0x2c9\ndevid=0x5a44\ncaguid=0x8f10403961354\n"
	"Ca\t2 \"H-0008f10403961354\"\t\t# \"node-17 HCA-1\"\n"
	"[2](8f10403961356) \t\"S-005442ba00003080\"[22]\t\t# lid 4 lmc 1 \"a switch\" lid 6 "
	"4xHDR\n";

static char error[TOPOLOGY_ERROR_LEN];

static int parse(struct topology *t, const char *text)
{
	return topology_read(t, text, strlen(text), error);
}

static void all_that_ibnetdiscover_prints_is_taken(void **state)
{
	const struct topology_node *sw, *ca;
	struct topology t;

	assert_int_equal(parse(&t, real), 0);
	assert_int_equal(t.num_nodes, 2);
	assert_int_equal(t.ignored, 2);
	sw = &t.nodes[0];
	ca = &t.nodes[1];
	assert_int_equal(sw->type, NODE_SWITCH);
	assert_int_equal(sw->num_ports, 24);
	assert_int_equal(sw->guid, 0x5442ba00003080);
	assert_int_equal(sw->port0_guid, 0x5442ba00003081);
	assert_int_equal(sw->system_guid, 0x5442ba00003000);
	assert_int_equal(sw->vendor, 0x8f1);
	assert_int_equal(sw->device, 0x5a06);
	assert_true(sw->enhanced_port0);
	assert_string_equal(sw->desc, "a switch");
	assert_int_equal(sw->ports[22].peer, 1);
	assert_int_equal(sw->ports[22].peer_port, 2);
	assert_int_equal(sw->ports[22].speed, FABRIC_SPEED_FDR10);
	assert_int_equal(sw->ports[3].peer, 0);
	assert_int_equal(sw->ports[3].width, 1);
	assert_int_equal(sw->ports[4].width, 12);
	assert_int_equal(ca->ports[2].speed, FABRIC_SPEED_HDR);
	assert_int_equal(ca->ports[2].guid, 0x8f10403961356);
	assert_int_equal(ca->ports[1].peer, FABRIC_NONE);
	assert_int_equal(ca->system_guid, 0);
	topology_free(&t);
}

static void what_is_written_reads_the_same(void **state)
{
	struct topology a, b;
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_int_equal(parse(&a, real), 0);
	topology_write(&a, out);
	fclose(out);
	assert_int_equal(parse(&b, text), 0);
	assert_int_equal(a.num_nodes, b.num_nodes);
	for (uint32_t i = 0; i < a.num_nodes; i++) {
		assert_int_equal(a.nodes[i].guid, b.nodes[i].guid);
		assert_int_equal(a.nodes[i].port0_guid, b.nodes[i].port0_guid);
		assert_int_equal(a.nodes[i].enhanced_port0, b.nodes[i].enhanced_port0);
		assert_string_equal(a.nodes[i].desc, b.nodes[i].desc);
		assert_memory_equal(a.nodes[i].ports + 1, b.nodes[i].ports + 1,
				    a.nodes[i].num_ports * sizeof(struct topology_port));
	}
	topology_free(&a);
	topology_free(&b);
	free(text);
}

static void one_end_of_a_cable_is_enough(void **state)
{
	struct topology t;

	assert_int_equal(
		parse(&t, "Switch 2 \"a\"\n[1] \"b\"[1] # \"b\" lid 0 4xQDR\nHca 1 \"b\"\n"), 0);
	assert_int_equal(t.nodes[1].ports[1].peer, 0);
	assert_int_equal(t.nodes[1].ports[1].speed, FABRIC_SPEED_QDR);
	assert_true(t.nodes[0].guid && t.nodes[1].guid && t.nodes[0].guid != t.nodes[1].guid);
	topology_free(&t);
}

static void errors_name_the_line_and_what_is_wrong(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{"", "no node"},
		{"[1] \"a\"[1]\nSwitch 1 \"a\"\n", "line 1: a port stands before the first node"},
		{"Switch 0 \"a\"\n", "line 1: a node has 1 to 254 ports, not 0"},
		{"Switch 255 \"a\"\n", "1 to 254"},
		{"Switch 8 a\n", "name is missing"},
		{"Switch 8 \"a\"\n[9] \"a\"[1]\n", "line 2: \"a\" has no port 9"},
		{"Switch 8 \"a\"\n[1] \"a\"[9]\n", "line 2: \"a\" has no port 9"},
		{"Switch 8 \"a\"\n[4294967297] \"a\"[2]\n", "line 2: \"a\" has no port 4294967297"},
		{"function=4294967297\nCa 1 \"a\"\n", "line 2: a virtual function is a Ca"},
		{"Switch 8 \"a\"\n[1] \"c\"[1]\n", "there is no node \"c\""},
		{"Switch 8 \"a\"\n[1] \"a\"[1]\n", "to itself"},
		{"Switch 8 \"a\"\n[1\n", "not complete"},
		{"Switch 8 \"a\"\n[1] \"a\"\n", "port at the other end is missing"},
		{"Switch 8 \"a\"\n[1] \"a\"[2]\n[3] \"a\"[2]\n", "one port has one cable"},
		{"Switch 8 \"a\"\nSwitch 8 \"a\"\n", "two nodes \"a\""},
		{"switchguid=0x5\nSwitch 8 \"a\"\nswitchguid=0x5\nSwitch 8 \"b\"\n", "two nodes"},
	};
	struct topology t;

	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_int_equal(parse(&t, cases[i].text), -EINVAL);
		if (!strstr(error, cases[i].says))
			fail_msg("case %u says \"%s\"", i, error);
	}
}

/* Each cable has two ends, and each node can be reached from the first. */
static void check_connected(const struct topology *t)
{
	uint32_t *todo = calloc(t->num_nodes, sizeof(*todo)), n = 1, seen = 0;
	bool *found = calloc(t->num_nodes, sizeof(*found));

	found[0] = true;
	while (seen < n) {
		uint32_t at = todo[seen++];
		const struct topology_node *node = &t->nodes[at];

		for (int p = 1; p <= node->num_ports; p++) {
			const struct topology_port *port = &node->ports[p];

			if (port->peer == FABRIC_NONE)
				continue;
			assert_int_equal(t->nodes[port->peer].ports[port->peer_port].peer, at);
			assert_int_equal(t->nodes[port->peer].ports[port->peer_port].peer_port, p);
			if (!found[port->peer])
				todo[n++] = port->peer;
			found[port->peer] = true;
		}
	}
	assert_int_equal(n, t->num_nodes);
	free(todo);
	free(found);
}

static void made_fabrics_are_connected_and_of_the_right_size(void **state)
{
	static const struct {
		const char *words[5];
		unsigned nodes;
	} cases[] = {
		{{"fat-tree"}, 8 + 4 + 32},
		{{"fat-tree", "levels=2", "ports=36"}, 702},
		{{"fat-tree", "levels=3", "ports=24"}, 4176},
		{{"fat-tree", "ports=8", "oversubscription=3"}, 8 + 2 + 48},
		{{"torus", "x=4", "y=3", "z=2", "hosts=2"}, 24 * 3},
		{{"torus", "x=2", "y=1"}, 4},
		{{"hypercube", "dimensions=5", "hosts=3"}, 32 * 4},
		{{"dragonfly", "a=4", "h=2", "p=2"}, 9 * 4 * 3},
		{{"dragonfly", "a=1", "h=1", "p=1"}, 4},
	};
	struct topology t;

	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		int n = 0;

		while (n < 5 && cases[i].words[n])
			n++;
		assert_int_equal(topology_generate(&t, n, (char *const *)cases[i].words, error), 0);
		assert_int_equal(t.num_nodes, cases[i].nodes);
		check_connected(&t);
		topology_free(&t);
	}
}

static void a_function_may_have_no_guid(void **state)
{
	struct topology a, b;
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	char *const words[] = {"hypercube", "dimensions=1", "functions=2", "guids=1"};

	assert_int_equal(topology_generate(&a, 4, words, error), 0);
	assert_int_equal(a.num_nodes, 2 * 5);
	check_connected(&a);
	topology_write(&a, out);
	fclose(out);
	assert_int_equal(parse(&b, text), 0);
	assert_int_equal(b.num_nodes, a.num_nodes);
	for (uint32_t i = 0; i < b.num_nodes; i++) {
		const struct topology_node *n = &b.nodes[i];

		assert_int_equal(!n->guid, n->function == 2);
		if (n->function)
			assert_int_equal(n->ports[1].guid, n->guid);
	}
	topology_free(&a);
	topology_free(&b);
	free(text);
	assert_int_equal(parse(&a, "function=1\nSwitch 4 \"a\"\n"), -EINVAL);
	assert_non_null(strstr(error, "line 2: a virtual function is a Ca of one port"));
	assert_int_equal(parse(&a, "function=1\nCa 2 \"a\"\n"), -EINVAL);
	assert_int_equal(parse(&a, "function=255\nCa 1 \"a\"\n"), -EINVAL);
}

static void a_nul_byte_is_refused(void **state)
{
	static const char text[] = "Switch 8 \"a\"\nSwitch 8\0\"b\"\n";
	struct topology t;

	assert_int_equal(topology_read(&t, text, sizeof(text) - 1, error), -EINVAL);
	assert_string_equal(error, "line 2: a NUL byte stands in it: it is no text");
}

static void wrong_parameters_are_refused(void **state)
{
	static const struct {
		const char *words[4];
		const char *why;
	} cases[] = {
		{{"cube"}, "name a kind: fat-tree, torus, hypercube or dragonfly"},
		{{"fat-tree", "levels=4"}, "levels is a number from 2 to 3"},
		{{"fat-tree", "x=4"},
		 "\"x=4\" is no parameter of this kind of fabric: levels, ports, "
		 "oversubscription, functions and guids are"},
		{{"fat-tree", "ports"},
		 "\"ports\" is no parameter of this kind of fabric: levels, ports, "
		 "oversubscription, functions and guids are"},
		{{"fat-tree", "ports=7"}, "ports is an even number: half of them go up"},
		{{"fat-tree", "ports=8x"}, "ports is a number from 2 to 64"},
		{{"torus", "x=255", "y=255", "z=255"}, "that is more than 200000 nodes"},
		/* With its functions it is. */
		{{"fat-tree", "levels=3", "ports=64", "functions=126"},
		 "that is more than 200000 nodes"},
		{{"fat-tree", "ports=64", "functions=126"}, "that is more than 200000 nodes"},
		{{"hypercube", "dimensions=14", "hosts=48"}, "that is more than 200000 nodes"},
		{{"dragonfly", "a=16", "h=16", "functions=126"}, "that is more than 200000 nodes"},
	};
	struct topology t;

	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		int n = 1;

		while (n < 4 && cases[i].words[n])
			n++;
		assert_int_equal(topology_generate(&t, n, (char *const *)cases[i].words, error),
				 -EINVAL);
		assert_string_equal(error, cases[i].why);
	}
	assert_int_equal(topology_generate(&t, 0, NULL, error), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_that_ibnetdiscover_prints_is_taken),
		cmocka_unit_test(what_is_written_reads_the_same),
		cmocka_unit_test(one_end_of_a_cable_is_enough),
		cmocka_unit_test(errors_name_the_line_and_what_is_wrong),
		cmocka_unit_test(made_fabrics_are_connected_and_of_the_right_size),
		cmocka_unit_test(a_function_may_have_no_guid),
		cmocka_unit_test(a_nul_byte_is_refused),
		cmocka_unit_test(wrong_parameters_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
