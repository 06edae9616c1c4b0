/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The operations of fabric.h in requests to chips (registers.h). Each is a job whose requests carry
 * two registers where there are two. One thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inband/manage/th2_operation.h"

#define NRC_PORTS   24
#define TABLE_TRIES 8

void th2_options_init(struct th2_options *o)
{
	*o = (struct th2_options){
		.cost = -1,
		.requester = {.window = 64,
			      .slow_window = 1600,
			      .per_chip = 4,
			      .timeout = 1000,
			      .tries = 4},
	};
}

struct operation *th2_begin(struct fabric *f, struct target *t, unsigned type, unsigned requests,
			    fabric_done *done, void *arg)
{
	struct th2 *th2 = of(f);
	struct operation *op = th2->idle;

	if (op)
		th2->idle = (struct operation *)op->job.next;
	else
		op = malloc(sizeof(*op));
	if (!op)
		return NULL;
	memset(op, 0, offsetof(struct operation, facts));
	op->facts.ports = 0;
	op->th2 = th2;
	op->done = done;
	op->arg = arg;
	op->type = type;
	op->job.target = t;
	op->job.total = requests;
	return op;
}

void th2_drop(struct operation *op)
{
	op->job.next = (struct job *)op->th2->idle;
	op->th2->idle = op;
}

void th2_answer(struct job *job, unsigned index, int status, const struct nmp *nmp)
{
	struct operation *op = (struct operation *)job;

	if (status)
		op->status = status;
	else if (op->store)
		op->store(op, index, nmp);
	/* Nothing is gained by asking on. */
	if (status == -ETIMEDOUT)
		requester_cut(op->th2->requester, job);
	if (job->finished < job->total)
		return;
	op->done(op->arg, op->status, &op->facts);
	th2_drop(op);
}

static int submit_as(struct operation *op, void (*make)(struct job *, unsigned, struct nmp *),
		     void (*answer_with)(struct job *, unsigned, int, const struct nmp *))
{
	op->job.make = make;
	op->job.answer = answer_with;
	requester_submit(op->th2->requester, &op->job);
	return 0;
}

static int submit(struct operation *op, void (*make)(struct job *, unsigned, struct nmp *),
		  void (*store)(struct operation *, unsigned, const struct nmp *))
{
	op->store = store;
	return submit_as(op, make, th2_answer);
}

/* Two registers that follow one another, from op->address on, in each request. */
static void make_pairs(struct job *job, unsigned index, struct nmp *nmp)
{
	struct operation *op = (struct operation *)job;

	nmp->type = NMP_REGISTER_READ;
	nmp->count = 2;
	nmp->access[0].address = op->address + 2 * index;
	nmp->access[1].address = op->address + 2 * index + 1;
}

static void store_neighbour(struct neighbour *n, uint32_t tag)
{
	n->state = tag & TAG_VALID   ? NEIGHBOUR_UP
		   : tag & TAG_LIGHT ? NEIGHBOUR_LIGHT
				     : NEIGHBOUR_NONE;
	n->type = tag & TAG_TYPE ? NMP_NRC : NMP_NIC;
	n->id = (tag & TAG_ID) == NMP_NO_ID ? FABRIC_NO_ID : tag & TAG_ID;
	n->port = tag_port(tag);
	n->ports = 0;
}

static void store_neighbours(struct operation *op, unsigned index, const struct nmp *nmp)
{
	for (unsigned i = 0; i < nmp->count; i++) {
		struct neighbour *n = &op->facts.neighbours[4 * index + 2 * i];

		store_neighbour(n, nmp->access[i].value);
		store_neighbour(n + 1, nmp->access[i].value >> 32);
	}
}

/* Six requests for 24 ports: each carries two registers of two tags. A NIC has one port. */
static int neighbours(struct fabric *f, struct target *t, fabric_done *done, void *arg)
{
	bool nic = t->type == NMP_NIC;
	struct operation *op =
		th2_begin(f, t, NMP_REGISTER_READ, nic ? 1 : NRC_PORTS / 4, done, arg);

	if (!op)
		return -ENOMEM;
	op->address = REG_TAGS;
	op->facts.ports = nic ? 1 : NRC_PORTS;
	return submit(op, make_pairs, store_neighbours);
}

static void make_identity(struct job *job, unsigned index, struct nmp *nmp)
{
	static const uint32_t addresses[2][2] = {{REG_ID, REG_STATUS},
						 {REG_TEMPERATURE, REG_UPTIME}};

	nmp->type = NMP_REGISTER_READ;
	nmp->count = 2;
	nmp->access[0].address = addresses[index][0];
	nmp->access[1].address = addresses[index][1];
}

static void store_identity(struct operation *op, unsigned index, const struct nmp *nmp)
{
	uint64_t first = nmp->access[0].value, second = nmp->access[1].value;

	if (index) {
		op->facts.identity.temperature = first;
		op->facts.identity.uptime = second;
		return;
	}
	op->facts.identity.id = (first & NMP_NO_ID) == NMP_NO_ID ? FABRIC_NO_ID : first & NMP_NO_ID;
	op->facts.identity.type = first >> 20 & 1;
	op->facts.identity.nports = first >> 24 & 0xff;
	op->facts.identity.status = second;
}

static int identify(struct fabric *f, struct target *t, fabric_done *done, void *arg)
{
	struct operation *op = th2_begin(f, t, NMP_REGISTER_READ, 2, done, arg);

	return op ? submit(op, make_identity, store_identity) : -ENOMEM;
}

static void store_link(struct operation *op, unsigned index, const struct nmp *nmp)
{
	struct link_facts *link = &op->facts.links[0];
	uint64_t first = nmp->access[0].value;

	if (index) {
		link->retries = first;
		link->errors = nmp->access[1].value;
		return;
	}
	link->state = first & 0xff;
	link->width = first >> 8 & 0xff;
	link->light = first >> 16 & 1;
	link->handshakes = nmp->access[1].value;
}

static int link_state_of(struct fabric *f, struct target *t, unsigned port, fabric_done *done,
			 void *arg)
{
	struct operation *op = th2_begin(f, t, NMP_REGISTER_READ, 2, done, arg);

	if (!op)
		return -ENOMEM;
	op->address = REG_PORT(port, PORT_LINK);
	op->facts.ports = 1;
	return submit(op, make_pairs, store_link);
}

/* Ten registers a port, two in a request: 120 requests for an NRC (paper, 4.5). */
static void make_counters(struct job *job, unsigned index, struct nmp *nmp)
{
	uint32_t address = REG_PORT(index / 5, 2 * (index % 5));

	nmp->type = NMP_REGISTER_READ;
	nmp->count = 2;
	nmp->access[0].address = address;
	nmp->access[1].address = address + 1;
}

static void store_counters(struct operation *op, unsigned index, const struct nmp *nmp)
{
	uint64_t *counters = &op->facts.counters[index / 5][2 * (index % 5)];

	counters[0] = nmp->access[0].value;
	counters[1] = nmp->access[1].value;
}

static int counters(struct fabric *f, struct target *t, fabric_done *done, void *arg)
{
	unsigned ports = t->type == NMP_NIC ? 1 : NRC_PORTS;
	struct operation *op =
		th2_begin(f, t, NMP_REGISTER_READ, ports * FABRIC_COUNTERS / 2, done, arg);

	if (!op)
		return -ENOMEM;
	op->facts.ports = ports;
	return submit(op, make_counters, store_counters);
}

/*
 * A route takes three requests: the frame that the chip is in, which says what entry is meant;
 * which entry is to be read; and the entry, together with what it is the entry of. Where another
 * server, or a request that came twice, was in between, the last two are done again.
 */
static void make_route(struct job *job, unsigned index, struct nmp *nmp)
{
	struct operation *op = (struct operation *)job;

	nmp->type = op->step == 1 ? NMP_REGISTER_WRITE : NMP_REGISTER_READ;
	nmp->count = op->step == 2 ? 2 : 1;
	nmp->access[0].address = op->step ? REG_TABLE_INDEX : REG_FRAME;
	nmp->access[0].value = op->step == 1 ? op->value : 0;
	nmp->access[1].address = op->step == 2 ? REG_TABLE_DATA : 0;
}

static void use_frame(struct operation *op, uint64_t frame)
{
	uint64_t nodes = frame >> 16 & 0xff, entry = nodes ? op->to / nodes : UINT64_MAX;

	if (entry >= TABLE_FRAMES)
		op->status = -ENOENT;
	else if (entry == (frame & FRAME_NONE))
		entry = TABLE_FRAMES + op->to % nodes;
	op->value |= entry;
}

static void answer_route(struct job *job, unsigned index, int status, const struct nmp *nmp)
{
	struct operation *op = (struct operation *)job;

	if (status) {
		th2_answer(job, index, status, nmp);
		return;
	}
	if (op->step == 0)
		use_frame(op, nmp->access[0].value);
	if (op->step == 2 && nmp->access[0].value == op->value) {
		op->facts.output_ports = (struct port_set){{nmp->access[1].value & 0xffffff}};
		op->step++;
	} else if (op->step == 2) {
		op->step = 0;
		if (!--op->tries)
			op->status = -EAGAIN;
	}
	if (op->status || op->step++ > 2)
		th2_answer(job, index, 0, nmp);
	else
		requester_submit(op->th2->requester, job);
}

static int route(struct fabric *f, struct target *t, unsigned in_port, uint64_t to,
		 fabric_done *done, void *arg)
{
	struct operation *op = th2_begin(f, t, NMP_REGISTER_READ, 1, done, arg);

	if (!op)
		return -ENOMEM;
	op->value = 1ull << (32 + in_port);
	op->to = to;
	op->tries = TABLE_TRIES;
	return submit_as(op, make_route, answer_route);
}

static void make_registers(struct job *job, unsigned index, struct nmp *nmp)
{
	struct operation *op = (struct operation *)job;

	nmp->type = op->type;
	nmp->count = op->count;
	for (unsigned i = 0; i < op->count; i++)
		nmp->access[i].address = op->address + i;
	nmp->access[0].value = op->value;
}

static void store_registers(struct operation *op, unsigned index, const struct nmp *nmp)
{
	for (unsigned i = 0; i < nmp->count; i++)
		op->facts.value[i] = nmp->access[i].value;
}

static int register_read(struct fabric *f, struct target *t, uint32_t address, unsigned count,
			 fabric_done *done, void *arg)
{
	struct operation *op = th2_begin(f, t, NMP_REGISTER_READ, 1, done, arg);

	if (!op)
		return -ENOMEM;
	op->address = address;
	op->count = count;
	return submit(op, make_registers, store_registers);
}

static int register_write(struct fabric *f, struct target *t, uint32_t address, uint64_t value,
			  bool once, fabric_done *done, void *arg)
{
	struct operation *op = th2_begin(f, t, NMP_REGISTER_WRITE, 1, done, arg);

	if (!op)
		return -ENOMEM;
	op->address = address;
	op->value = value;
	op->count = 1;
	op->job.once = once;
	return submit(op, make_registers, NULL);
}

/* Six bytes a request, and the rest in the last. */
static void make_bytes(struct job *job, unsigned index, struct nmp *nmp)
{
	struct operation *op = (struct operation *)job;
	unsigned first = NMP_MAX_BYTES * index, left = op->count - first;

	nmp->type = op->type;
	nmp->count = left < NMP_MAX_BYTES ? left : NMP_MAX_BYTES;
	for (unsigned i = 0; i < nmp->count; i++) {
		nmp->access[i].address = op->address + first + i;
		nmp->access[i].value = op->value >> 8 * i & 0xff;
	}
}

static void take_bytes(struct operation *op, unsigned index, const struct nmp *nmp)
{
	uint8_t byte[NMP_MAX_BYTES];

	for (unsigned i = 0; i < nmp->count; i++)
		byte[i] = nmp->access[i].value;
	op->take(op->arg, op->address + NMP_MAX_BYTES * index, nmp->count, byte);
}

static int eeprom_read_bytes(struct fabric *f, struct target *t, unsigned address, unsigned length,
			     fabric_bytes *take, fabric_done *done, void *arg)
{
	struct operation *op = th2_begin(f, t, NMP_EEPROM_READ,
					 (length + NMP_MAX_BYTES - 1) / NMP_MAX_BYTES, done, arg);

	if (!op)
		return -ENOMEM;
	op->address = address;
	op->count = length;
	op->take = take;
	return submit(op, make_bytes, take_bytes);
}

/* A write may come twice: it stores the same again. */
static int eeprom_write_bytes(struct fabric *f, struct target *t, unsigned address, unsigned count,
			      const uint8_t *byte, fabric_done *done, void *arg)
{
	struct operation *op = th2_begin(f, t, NMP_EEPROM_WRITE, 1, done, arg);

	if (!op)
		return -ENOMEM;
	op->address = address;
	op->count = count;
	for (unsigned i = 0; i < count; i++)
		op->value |= (uint64_t)byte[i] << 8 * i;
	return submit(op, make_bytes, NULL);
}

/* Where to, and by which way: the answers' way back, in the registers' form. */
static void make_subscribe(struct job *job, unsigned index, struct nmp *nmp)
{
	struct operation *op = (struct operation *)job;
	const struct nmp_route *back = &job->target->back;
	uint64_t low = back->hops, high = 0;

	for (unsigned i = 0; i < back->hops; i++)
		if (i < 11)
			low |= (uint64_t)back->port[i] << (5 + 5 * i);
		else
			high |= (uint64_t)back->port[i] << 5 * (i - 11);
	nmp->type = NMP_REGISTER_WRITE;
	nmp->count = 2;
	nmp->access[0] = index ? (struct nmp_access){REG_REPORT_TO, op->value}
			       : (struct nmp_access){REG_REPORT_ROUTE0, low};
	nmp->access[1] = index ? (struct nmp_access){REG_FAULT_ENABLE, FAULT_ALL}
			       : (struct nmp_access){REG_REPORT_ROUTE1, high};
}

static int subscribe(struct fabric *f, struct target *t, fabric_done *done, void *arg)
{
	struct operation *op = th2_begin(f, t, NMP_REGISTER_WRITE, 2, done, arg);

	if (!op)
		return -ENOMEM;
	op->value = glex_nic_id(of(f)->ep) | glex_vp(of(f)->ep) << 20 | REPORT_ON;
	return submit(op, make_subscribe, NULL);
}

static void take_report(void *arg, const struct nmp *nmp)
{
	struct fabric *f = arg;
	const struct fabric_report report = {.id = nmp->src_id,
					     .type = nmp->src_type,
					     .fault = nmp->fault,
					     .port = nmp->port,
					     .value = nmp->value};

	if (f->report)
		f->report(f->report_arg, &report);
}

static bool other_way(void *arg, const struct target *t, struct nmp_route *out,
		      struct nmp_route *back)
{
	struct fabric *f = arg;

	return f->other_way && f->other_way(f->other_arg, t, out, back);
}

static int arm(struct fabric *f, int *fd)
{
	struct th2 *th2 = of(f);
	glex_ret_t ret = glex_arm(th2->ep, requester_deadline(th2->requester));

	*fd = glex_fd(th2->ep);
	return ret == GLEX_OK ? 0 : 1;
}

static int check(struct fabric *f)
{
	return glex_check(of(f)->ep) == GLEX_GONE ? -ECONNRESET : 0;
}

static void pause_over(void *arg)
{
	struct operation *op = arg;

	op->done(op->arg, 0, &op->facts);
	th2_drop(op);
}

static int pause_for(struct fabric *f, uint64_t ps, fabric_done *done, void *arg)
{
	struct operation *op = th2_begin(f, NULL, 0, 0, done, arg);

	if (!op)
		return -ENOMEM;
	if (!requester_sleep(of(f)->requester, glex_now(of(f)->ep) + ps, pause_over, op))
		return 0;
	th2_drop(op);
	return -ENOMEM;
}

static unsigned origin(struct fabric *f, struct target *t)
{
	target_init(t, NMP_NIC, glex_nic_id(of(f)->ep));
	return 1;
}

static int progress(struct fabric *f, bool wait)
{
	return requester_progress(of(f)->requester, wait);
}

static uint64_t now(struct fabric *f)
{
	return glex_now(of(f)->ep);
}

static const struct fabric_counts *counts(struct fabric *f)
{
	return requester_counts(of(f)->requester);
}

static void destroy(struct fabric *f)
{
	struct th2 *th2 = of(f);

	if (th2->requester)
		requester_destroy(th2->requester);
	glex_destroy_ep(th2->ep);
	while (th2->idle) {
		struct operation *next = (struct operation *)th2->idle->job.next;

		free(th2->idle);
		th2->idle = next;
	}
	free(th2);
}

static const struct fabric_ops th2_ops = {
	.name = "th2",
	.identify = identify,
	.neighbours = neighbours,
	.link = link_state_of,
	.counters = counters,
	.route = route,
	.tables_write = th2_tables_write,
	.register_read = register_read,
	.register_write = register_write,
	.eeprom_read = eeprom_read_bytes,
	.eeprom_write = eeprom_write_bytes,
	.pause = pause_for,
	.subscribe = subscribe,
	.origin = origin,
	.arm = arm,
	.check = check,
	.progress = progress,
	.now = now,
	.counts = counts,
	.destroy = destroy,
};

int th2_create(const struct th2_options *options, struct fabric **fabric)
{
	struct th2 *th2 = calloc(1, sizeof(*th2));
	glex_ret_t ret;
	int error;

	if (!th2)
		return -ENOMEM;
	th2->fabric.ops = &th2_ops;
	ret = glex_create_ep(options->path, options->nic, &th2->ep);
	if (ret != GLEX_OK) {
		free(th2);
		return ret == GLEX_NO_MEMORY ? -ENOMEM : -ENOTCONN;
	}
	if (options->cost >= 0)
		glex_set_cost(th2->ep, options->cost * 5e5, options->cost * 5e5);
	error = requester_create(th2->ep, &options->requester, &th2->requester);
	if (error) {
		destroy(&th2->fabric);
		return error;
	}
	requester_on_report(th2->requester, take_report, &th2->fabric);
	requester_on_retry(th2->requester, other_way, &th2->fabric);
	*fabric = &th2->fabric;
	return 0;
}

int fabric_finish(struct fabric *f)
{
	int ret;

	do
		ret = f->ops->progress(f, true);
	while (!ret);
	return ret < 0 ? ret : 0;
}
