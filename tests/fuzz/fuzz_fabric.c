/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libFuzzer target for a virtual fabric. The first byte says what the rest is: a description of a
 * fabric, or a sequence of what programs on its hosts do: register agents, unregister them, write
 * MADs of any contents and length, pull cables, change a virtual function, let time pass. Whatever
 * they do, the fabric ends with nothing under way but what timers hold.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fabric.h"
#include "fabric/member.h"
#include "fabric/server.h"

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

#define AGENTS 6

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char description[] =
	"Switch 4 \"a\"\n[1] \"h1\"[1]\n[2] \"h2\"[1]\n[3] \"b\"[3]\n[4] \"b\"[4]\n"
	"Switch 4 \"b\"\n[1] \"h3\"[1]\n[2] \"h3\"[2]\n"
	"Ca 1 \"h1\"\nfunction=1\ncaguid=0x99\nCa 1 \"h2\"\nCa 2 \"h3\"\n";

static struct fabric fabric;
static struct agent *agents[AGENTS];
static uint64_t delivered;

/* In place of the server: looks at every byte, as a program would. */
void server_deliver(struct fabric *f, struct connection *file, const uint8_t *hdr,
		    const uint8_t *mad, uint32_t len)
{
	for (uint32_t i = 0; i < FABRIC_UMAD_HDR; i++)
		delivered += hdr[i];
	for (uint32_t i = 0; i < len; i++)
		delivered += mad[i];
}

static void begin(void)
{
	char error[TOPOLOGY_ERROR_LEN];
	struct topology t;

	memset(&fabric, 0, sizeof(fabric));
	memset(agents, 0, sizeof(agents));
	timers_init(&fabric.mads.timers, 0, &fabric);
	CHECK(!topology_read(&t, description, strlen(description), error));
	CHECK(!fabric_create(&fabric, &t, "fuzz"));
	topology_free(&t);
}

static void end(void)
{
	for (int i = 0; i < AGENTS; i++)
		if (agents[i])
			member_end(&fabric, agents[i]);
	for (uint32_t i = 0; i < fabric.map->num_nodes; i++)
		trap_forget(&fabric, fabric_map_node(fabric.map, i));
	fabric_destroy(&fabric);
}

/* Ports of hosts, by a byte. */
static uint32_t host_port(uint8_t choice)
{
	static const uint8_t nodes[4] = {2, 3, 4, 4}, nums[4] = {1, 1, 1, 2};

	return fabric_map_node(fabric.map, nodes[choice % 4])->first_port + nums[choice % 4];
}

static void register_agent(const uint8_t *d, size_t n)
{
	struct fabric_request r = {0};
	unsigned at = d[0] % AGENTS;

	if (n < 24 || agents[at])
		return;
	r.qpn = d[2] % 3;
	r.mgmt_class = d[3];
	r.class_version = d[4];
	r.rmpp_version = d[5] % 3;
	r.flags = d[6] & 1;
	r.oui = d[7];
	memcpy(r.method_mask, d + 8, 16);
	host_register(&fabric.mads, agents, host_port(d[1]), &r, at, &agents[at]);
}

/* A copy as large as it has to be, so that a byte too many is found. */
static void write_mad(const uint8_t *d, size_t n)
{
	struct agent *agent = agents[d[0] % AGENTS];
	size_t len = n - 1, want = d[0] & 0x80 ? len + 4000 : d[0] & 0x40 ? 320 : len;
	uint8_t *umad;

	if (!agent)
		return;
	if (want < len)
		want = len;
	umad = calloc(1, want ? want : 1);
	memcpy(umad, d + 1, len);
	/* Timeouts of minutes show nothing more. */
	if (want >= FABRIC_UMAD_HDR) {
		memset(umad + 9, 0, 3);
		memset(umad + 13, 0, 3);
		umad[12] &= 3;
	}
	if (want != FABRIC_INLINE || member_sends(&fabric, agent, umad))
		host_send(&fabric.mads, agent, umad, want);
	free(umad);
}

static void pass(unsigned ms)
{
	fabric.mads.now += ms;
	timers_run(&fabric.mads.timers, fabric.mads.now);
}

/* h2 is a virtual function: GUIDs, names, and whether it is there. */
static void change_function(uint8_t choice, bool on)
{
	struct fabric_node *node = function_find(&fabric, fabric_map_node(fabric.map, 0), 1);

	CHECK(node);
	switch (choice % 3) {
	case 0: function_set_guid(&fabric, node, choice / 3 % 4); break;
	case 1: function_enable(&fabric, node, on); break;
	default: function_set_desc(&fabric, node, on ? "guest" : NULL); break;
	}
}

static void act(const uint8_t *d, size_t n)
{
	struct fabric_port *port;

	if (n < 2)
		return;
	switch (d[0] % 7) {
	case 0: register_agent(d + 1, n - 1); break;
	case 1:
		if (agents[d[1] % AGENTS])
			member_end(&fabric, agents[d[1] % AGENTS]);
		agents[d[1] % AGENTS] = NULL;
		break;
	case 2:
		port = port_at(&fabric, d[1] % fabric.map->num_ports);
		if (port->num)
			link_set(&fabric, port, d[0] & 0x80);
		break;
	case 3: pass(d[1] * 20u); break;
	case 6: change_function(d[1], d[0] & 0x80); break;
	default: write_mad(d + 1, n - 1); break;
	}
	fabric_run(&fabric);
	CHECK(fabric.head == fabric.tail);
	CHECK(!(atomic_load(&fabric.map->generation) & 1));
}

static void programs(const uint8_t *data, size_t size)
{
	begin();
	while (size > 2) {
		size_t n = data[0] | (data[1] & 3) << 8;

		data += 2;
		size -= 2;
		if (n > size)
			n = size;
		act(data, n);
		data += n;
		size -= n;
	}
	/* Requests time out; what was received and lies there for repetition does not last for
	 * ever. */
	for (int i = 0; i < 60; i++) {
		pass(1000);
		fabric_run(&fabric);
	}
	for (int i = 0; i < AGENTS; i++)
		CHECK(!agents[i] || !agents[i]->sends);
	end();
}

static void text(const char *data, size_t size)
{
	char error[TOPOLOGY_ERROR_LEN] = "";
	struct topology t, again;
	struct fabric f = {0};
	char *printed;
	size_t len;
	FILE *out;

	if (topology_read(&t, data, size, error)) {
		CHECK(*error && !t.num_nodes);
		return;
	}
	if (t.num_nodes < 64) {
		timers_init(&f.mads.timers, 0, &f);
		CHECK(!fabric_create(&f, &t, "fuzz"));
		fabric_destroy(&f);
	}
	out = open_memstream(&printed, &len);
	topology_write(&t, out);
	fclose(out);
	/* Descriptions with quotation marks or control characters cannot come from a file. */
	CHECK(!topology_read(&again, printed, len, error));
	CHECK(again.num_nodes == t.num_nodes);
	topology_free(&again);
	topology_free(&t);
	free(printed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	if (*data & 1)
		text((const char *)data + 1, size - 1);
	else
		programs(data + 1, size - 1);
	return 0;
}
