/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A management server's work at a model of a machine, which runs in a process of its own as thsim
 * does.
 */
#include "tests/unit/inband_world.h"

#include "inband/manage/updown.h"
#include "inband/manage/check.h"
#include "inband/manage/load.h"
#include "inband/manage/scan.h"
#include "inband/manage/trace.h"

/* All of Tianhe-2, request by request, takes long on a busy machine: the soak suite does it. */
static bool at_full_size(void)
{
	return getenv("INBAND_SEEDS");
}

/* Section 4.3's model of a latency, for six requests of two registers to each NRC, and one to the
 * own NIC. */
static uint64_t time_of_model(void)
{
	uint8_t *hops = malloc(plan->chip_count);
	uint64_t time = 5959700 + 770300 + 670000;

	assert_int_equal(machine_hops(plan, plan->chip_count - plan->servers, hops), 0);
	for (uint32_t i = 0; i < plan->nrcs; i++)
		time += 6 * (5959700 + 770300 + 670000 + (hops[i] + 1) * 876200ull);
	free(hops);
	return time;
}

/* Section 4.4: 0.472822 s on the real machine. */
static void discovery_takes_the_time_and_the_requests_of_the_paper(void **state)
{
	struct discovery_result result;
	struct findings findings;
	struct fabric *fabric;
	struct model *model;
	char *stats;

	begin((struct world){.machine = at_full_size() ? "th2" : "tree:4,6,2,8"});
	fabric = connect_to(0, 1);
	model = find_all(fabric, &result);
	assert_in_range(result.time, time_of_model() * 999 / 1000, time_of_model() * 1001 / 1000);
	if (at_full_size())
		assert_in_range(result.time, 472822000000ull * 98 / 100,
				472822000000ull * 102 / 100);
	assert_int_equal(model->switches, plan->nrcs);
	assert_int_equal(model->nodes, plan->nics + plan->servers);
	stats = glex_tell(path, "stats");
	assert_non_null(strstr(stats, "\"nrc_requests_least\":6,\"nrc_requests_most\":6,"));
	free(stats);
	assert_int_equal(check_plan(plan, model, &findings), 0);
	assert_int_equal(findings.count, 0);
	model_destroy(model);
	fabric->ops->destroy(fabric);
	end();
}

static void discovery_with_a_window_takes_a_twentieth(void **state)
{
	struct discovery_result result;
	struct fabric *fabric;

	begin((struct world){.machine = "th2"});
	fabric = connect_to(0, 64);
	model_destroy(find_all(fabric, &result));
	assert_in_range(result.time, 0, 25000000000ull);
	fabric->ops->destroy(fabric);
	end();
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* "swap B A" is "swap A B". */
/* What thsim has counted, to be freed. */
static char *discover_with_losses(struct discovery_result *result)
{
	struct fabric *fabric;
	char *stats, *counts;

	begin((struct world){
		.machine = "tree:3,4,2,8", .faults = "loss=1%,dup=1%,delay=1%:900", .seed = 7});
	fabric = connect_to(0, 64);
	model_destroy(find_all(fabric, result));
	stats = glex_tell(path, "stats");
	assert_non_null(stats);
	/* Whether time has passed since the last answer depends on when it is asked. */
	counts = strdup(strstr(stats, "\"nrc_requests"));
	strstr(counts, "\"memory")[0] = 0;
	free(stats);
	fabric->ops->destroy(fabric);
	end();
	return counts;
}

/* The two processes work at the same time, and neither's pace has a part in it. */
static void a_run_depends_on_its_seed_alone(void **state)
{
	struct discovery_result first, second;
	char *counts = discover_with_losses(&first), *again = discover_with_losses(&second);

	assert_int_equal(first.time, second.time);
	assert_string_equal(counts, again);
	free(counts);
	free(again);
}

static void order_ends(char *line)
{
	char kind[16], a[48], b[48];

	if (sscanf(line, "%15s %47s %47s", kind, a, b) == 3 && strcmp(a, b) > 0)
		sprintf(line, "%s %s %s", kind, b, a);
}

static void same_lines(char **found, unsigned count, char *truth)
{
	char *lines[512], *rest = truth, *line;
	unsigned n = 0;

	while ((line = strsep(&rest, "\n")))
		if (*line)
			lines[n++] = line;
	assert_int_equal(n, count);
	for (unsigned i = 0; i < n; i++) {
		order_ends(lines[i]);
		order_ends(found[i]);
	}
	qsort(lines, n, sizeof(*lines), by_text);
	qsort(found, n, sizeof(*found), by_text);
	for (unsigned i = 0; i < n; i++)
		assert_string_equal(found[i], lines[i]);
}

static void check_names_what_is_broken(const char *machine, const char *faults, uint64_t seed)
{
	struct findings findings;
	char *lines[512], *truth;
	struct fabric *fabric;
	struct model *model;

	begin((struct world){.machine = machine, .faults = faults, .seed = seed});
	fabric = connect_to(0, 64);
	model = find_all(fabric, NULL);
	assert_int_equal(check_plan(plan, model, &findings), 0);
	assert_in_range(findings.count, 1, 511);
	for (unsigned i = 0; i < findings.count; i++) {
		char place[256];

		lines[i] = malloc(128);
		finding_print(plan, &findings.list[i], lines[i], 128);
		finding_place(plan, &findings.list[i], place, sizeof(place));
		assert_true(strlen(place) > 20);
	}
	truth = glex_tell(path, "truth");
	same_lines(lines, findings.count, truth);
	for (unsigned i = 0; i < findings.count; i++)
		free(lines[i]);
	free(truth);
	findings_free(&findings);
	model_destroy(model);
	fabric->ops->destroy(fabric);
	end();
}

static void wrong_cables_of_tianhe2_are_named_exactly(void **state)
{
	const char *rounds = getenv("INBAND_SEEDS");

	for (int seed = 1; seed <= (rounds ? atoi(rounds) : 2); seed++)
		check_names_what_is_broken("th2", "swap=50,cut=20,dark=3", seed);
}

static void dead_switches_are_one_finding_each(void **state)
{
	check_names_what_is_broken("th2", "dead=10", 1);
}

/* Its neighbours say so; what it has said itself when it lived stays in the model. */
static void a_switch_that_has_died_since_is_one_finding(void **state)
{
	struct findings findings;
	struct fabric *fabric;
	struct device *root;
	struct model *model;
	uint32_t chip;

	begin((struct world){.machine = "tree:3,4,2,8"});
	fabric = connect_to(0, 64);
	model = find_all(fabric, NULL);
	chip = machine_find_name(plan, "S.root.2.0", NULL);
	root = model_find(model, NMP_NRC, plan->chips[chip].id);
	for (unsigned p = 0; p < root->nports; p++)
		if (root->port[p].peer != MODEL_NONE)
			model->devices[root->port[p].peer]->port[root->port[p].peer_port].lost =
				true;
	assert_int_equal(check_plan(plan, model, &findings), 0);
	assert_int_equal(findings.count, 1);
	assert_int_equal(findings.list[0].kind, FINDING_DEAD);
	assert_int_equal(findings.list[0].chip, chip);
	findings_free(&findings);
	model_destroy(model);
	fabric->ops->destroy(fabric);
	end();
}

struct reading {
	uint64_t id;
	unsigned *wrong, *read;
};

static void have_id(void *arg, int status, const struct facts *facts)
{
	struct reading *reading = arg;

	++*reading->read;
	if (status || (facts->value[0] & NMP_NO_ID) != reading->id)
		++*reading->wrong;
}

/*
 * Answers come late, twice or not at all, and later than it takes the TransactionID to come round:
 * a value of another chip is never taken for this one's.
 */
static void no_answer_is_credited_to_another_chip(void **state)
{
	const char *million = getenv("INBAND_READS");
	unsigned reads = million ? atoi(million) : 30000, wrong = 0, read = 0;
	struct reading *readings;
	struct fabric *fabric;
	struct model *model;

	begin((struct world){
		.machine = "tree:4,6,2,8", .faults = "loss=1%,dup=1%,delay=1%:900000", .seed = 5});
	fabric = connect_to(0, 64);
	model = find_all(fabric, NULL);
	assert_int_equal(model->switches, plan->nrcs);
	readings = calloc(model->count, sizeof(*readings));
	for (unsigned i = 0; i < reads; i++) {
		struct device *d = model->devices[i * 7 % model->count];
		struct reading *r = &readings[d->number];

		*r = (struct reading){d->target.id, &wrong, &read};
		assert_int_equal(
			fabric->ops->register_read(fabric, &d->target, REG_ID, 1, have_id, r), 0);
		if (i % 256 == 255)
			assert_true(fabric->ops->progress(fabric, true) >= 0);
	}
	assert_int_equal(fabric_finish(fabric), 0);
	assert_int_equal(read, reads);
	assert_int_equal(wrong, 0);
	assert_true(fabric->ops->counts(fabric)->retried > reads / 100);
	assert_true(fabric->ops->counts(fabric)->stale > reads / 100);
	free(readings);
	model_destroy(model);
	fabric->ops->destroy(fabric);
	end();
}

/* Each at the other's far end, with links that take one packet. */
static void tell(const char *what)
{
	char *told = glex_tell(path, what);

	assert_string_equal(told, "ok\n");
	free(told);
}

static bool other_way(void *arg, const struct target *t, struct nmp_route *out,
		      struct nmp_route *back)
{
	const struct model *model = arg;

	return model_other_way(model, model_find(model, t->type, t->id), out, back);
}

/* A link on the way is cut, and nobody has said so yet. */
static void a_request_without_an_answer_goes_by_another_way(void **state)
{
	unsigned wrong = 0, read = 0;
	struct reading reading = {0, &wrong, &read};
	char name[MACHINE_NAME_LEN], what[64];
	const struct device *root, *via;
	struct fabric *fabric;
	struct model *model;
	uint32_t chip;

	begin((struct world){.machine = "tree:3,4,2,8"});
	fabric = connect_to(0, 64);
	model = find_all(fabric, NULL);
	chip = machine_find_name(plan, "S.root.2.0", NULL);
	reading.id = plan->chips[chip].id;
	root = model_find(model, NMP_NRC, reading.id);
	via = model->devices[root->via];
	chip = machine_find(plan, NMP_NRC, via->target.id);
	snprintf(what, sizeof(what), "cut %s:%u", machine_chip_name(plan, chip, name),
		 root->target.out.port[root->target.out.hops - 1]);
	tell(what);
	fabric->other_way = other_way;
	fabric->other_arg = model;
	assert_int_equal(fabric->ops->register_read(fabric, (struct target *)&root->target, REG_ID,
						    1, have_id, &reading),
			 0);
	assert_int_equal(fabric_finish(fabric), 0);
	assert_int_equal(read, 1);
	assert_int_equal(wrong, 0);
	assert_int_equal(fabric->ops->counts(fabric)->retried, 1);
	model_destroy(model);
	fabric->ops->destroy(fabric);
	end();
}

static void two_servers_do_not_block_each_other(void **state)
{
	pid_t other;
	int status;

	begin((struct world){.machine = "tree:4,6,2,8", .servers = 2, .credits = 1});
	fflush(NULL);
	other = fork();
	for (unsigned i = 0; i < 6; i++) {
		struct fabric *fabric = connect_to(other ? 0 : 1, 64);
		struct scan *scanned;
		struct model *model = find_all(fabric, NULL);

		assert_int_equal(model->switches, plan->nrcs);
		assert_int_equal(scan(fabric, model, &scanned), 0);
		assert_int_equal(scanned->silent, 0);
		assert_int_equal(fabric->ops->counts(fabric)->retried, 0);
		scan_destroy(scanned);
		model_destroy(model);
		fabric->ops->destroy(fabric);
	}
	if (!other)
		_exit(0);
	assert_int_equal(waitpid(other, &status, 0), other);
	assert_int_equal(status, 0);
	end();
}

static void a_trace_follows_the_tables_of_the_switches(void **state)
{
	const unsigned hops = at_full_size() ? 9 : 7;
	char expected[64], *walks;
	struct fabric *fabric;
	struct model *model;
	struct trace trace;

	begin((struct world){.machine = at_full_size() ? "th2" : "tree:3,4,2,8", .routes = true});
	fabric = connect_to(0, 64);
	model = find_all(fabric, NULL);
	assert_int_equal(trace_path(fabric, model, 17, at_full_size() ? 18003 : 90, &trace), 0);
	assert_int_equal(trace.end, TRACE_ARRIVED);
	assert_int_equal(trace.count, hops + 2); /* the nodes, too */
	assert_int_equal(trace.hop[1].link.state, LINK_UP);
	assert_int_equal(trace.hop[1].link.width, LINK_LANES);
	assert_int_equal(trace_path(fabric, model, 17, 18, &trace), 0);
	assert_int_equal(trace.end, TRACE_ARRIVED);
	assert_int_equal(trace.count, 1 + 2);
	assert_int_equal(trace_path(fabric, model, 17, 99999, &trace), -ENOENT);
	walks = glex_tell(path, "walk 100000");
	snprintf(expected, sizeof(expected), " 0 lost, at most %u hops", hops);
	assert_non_null(strstr(walks, expected));
	free(walks);
	model_destroy(model);
	fabric->ops->destroy(fabric);
	end();
}

/* Loads, and looks by what ways packets go then. */
static void load_and_walk(struct fabric *fabric, struct model *model, struct loaded *loaded,
			  struct load_result *result, const char *expected)
{
	char *walks;

	assert_int_equal(load(fabric, plan, model, loaded, result), 0);
	walks = glex_tell(path, "walk 20000");
	if (!strstr(walks, expected))
		fail_msg("%s", walks);
	free(walks);
}

static void have_marks(void *arg, int status, uint32_t half, uint32_t highest)
{
	((uint32_t *)arg)[0] = half;
	((uint32_t *)arg)[1] = highest;
}

/*
 * With a packet in a hundred lost and another doubled. Four tries would lose one request in six
 * million, and a load makes some hundred thousand: one load in dozens would find a switch silent.
 */
static void loaded_routes_lead_everywhere(void **state)
{
	struct loaded loaded = {0};
	struct load_result result;
	struct fabric *fabric;
	struct model *model;
	uint32_t marks[2];
	char *walks;

	begin((struct world){
		.machine = "tree:3,4,2,8", .faults = "loss=1%,dup=1%,cut=2", .seed = 11});
	fabric = connect_trying(0, 64, 8);
	model = find_all(fabric, NULL);
	assert_int_equal(model->switches, plan->nrcs);
	walks = glex_tell(path, "walk 1000");
	assert_null(strstr(walks, " 0 lost"));
	free(walks);
	load_and_walk(fabric, model, &loaded, &result, " 0 lost, at most 7 hops");
	assert_int_equal(result.failed, 0);
	assert_int_equal(result.switches, plan->nrcs);
	assert_int_equal(load_look(fabric, model, have_marks, marks), 0);
	assert_int_equal(fabric_finish(fabric), 0);
	assert_int_equal(marks[0], 0);
	assert_int_equal(marks[1], 1);
	loaded_free(&loaded);
	model_destroy(model);
	fabric->ops->destroy(fabric);
	end();
}

/* The second load takes the dead switch out, and writes what differs from the first. */
static void a_load_after_a_fault_leads_round_it(void **state)
{
	struct loaded loaded = {0};
	struct load_result result;
	struct fabric *fabric;
	struct model *model;
	uint64_t sent;
	char *told;

	begin((struct world){.machine = "tree:3,4,2,8"});
	fabric = connect_to(0, 64);
	model = find_all(fabric, NULL);
	load_and_walk(fabric, model, &loaded, &result, " 0 lost");
	sent = fabric->ops->counts(fabric)->sent;
	told = glex_tell(path, "dead S.root.2.0");
	assert_string_equal(told, "ok\n");
	free(told);
	told = glex_tell(path, "cut S.leaf.1.1:2");
	free(told);
	model_destroy(model);
	model = find_all(fabric, NULL);
	load_and_walk(fabric, model, &loaded, &result, " 0 lost");
	assert_true(result.switches && result.switches < plan->nrcs);
	assert_true(fabric->ops->counts(fabric)->sent - sent < sent / 2);
	assert_int_equal(loaded.number, 2);
	loaded_free(&loaded);
	model_destroy(model);
	fabric->ops->destroy(fabric);
	end();
}

/* What alarms make of reports: a link of the plan is lost, or is back. */
static void set_lost(struct model *model, const char *name, bool lost)
{
	unsigned p;
	uint32_t chip = machine_find_name(plan, name, &p);
	struct device *device = model_find(model, NMP_NRC, plan->chips[chip].id);
	struct model_port *port = &device->port[p];

	port->lost = lost;
	model->devices[port->peer]->port[port->peer_port].lost = lost;
}

/* A way that comes back is another load; as a switch keeps none of it, there is none of it
 * anywhere. */
static void a_load_that_a_switch_does_not_keep_is_taken_back(void **state)
{
	struct loaded loaded = {0};
	struct load_result result;
	struct fabric *fabric;
	struct model *model;
	char *told;

	begin((struct world){.machine = "tree:3,4,2,8"});
	fabric = connect_to(0, 64);
	model = find_all(fabric, NULL);
	tell("cut S.leaf.1.1:2");
	set_lost(model, "S.leaf.1.1:2", true);
	load_and_walk(fabric, model, &loaded, &result, " 0 lost");
	assert_false(result.rolled_back);
	set_lost(model, "S.leaf.1.1:2", false);
	tell("stuck S.leaf.1.1");
	/* The link is dark still: were the new tables anywhere, walks would end there. */
	assert_int_equal(load(fabric, plan, model, &loaded, &result), 0);
	assert_true(result.rolled_back);
	assert_true(result.failed > 0);
	told = glex_tell(path, "walk 10000");
	assert_non_null(strstr(told, " 0 lost"));
	free(told);
	loaded_free(&loaded);
	model_destroy(model);
	fabric->ops->destroy(fabric);
	end();
}

struct killing {
	struct model *model;
	struct load_result result;
	bool killed, done;
};

static void kill_a_root(void *arg, uint32_t done, uint32_t of)
{
	struct killing *k = arg;
	uint32_t root;

	if (k->killed || done < of / 2)
		return;
	k->killed = true;
	tell("dead S.root.2.0");
	root = model_find(k->model, NMP_NRC,
			  plan->chips[machine_find_name(plan, "S.root.2.0", NULL)].id)
		       ->number;
	for (unsigned p = 0; p < k->model->devices[root]->nports; p++) {
		struct model_port *port = &k->model->devices[root]->port[p];

		if (port->peer == MODEL_NONE)
			continue;
		port->lost = true;
		k->model->devices[port->peer]->port[port->peer_port].lost = true;
	}
}

static void have_loaded(void *arg, int status, const struct load_result *result)
{
	struct killing *k = arg;

	assert_int_equal(status, 0);
	k->result = *result;
	k->done = true;
}

static void a_root_that_dies_during_a_load_leaves_no_black_hole(void **state)
{
	struct killing k = {0};
	struct loaded loaded = {0};
	struct fabric *fabric;
	char *told;

	begin((struct world){.machine = "tree:3,4,2,8"});
	fabric = connect_to(0, 64);
	k.model = find_all(fabric, NULL);
	assert_int_equal(load_begin(fabric, plan, k.model, &loaded, kill_a_root, have_loaded, &k),
			 0);
	assert_int_equal(fabric_finish(fabric), 0);
	assert_true(k.killed && k.done);
	assert_true(k.result.rounds > 1);
	told = glex_tell(path, "walk 10000");
	assert_non_null(strstr(told, " 0 lost"));
	free(told);
	loaded_free(&loaded);
	model_destroy(k.model);
	fabric->ops->destroy(fabric);
	end();
}

/* The server ends in mid-load: the next one finds what it has left, and ends it. */
static void a_killed_load_is_found_and_ended(void **state)
{
	struct loaded loaded = {0};
	struct load_result result;
	struct fabric *fabric;
	struct model *model;
	uint32_t marks[2];
	pid_t server;
	int status;

	begin((struct world){.machine = "tree:3,4,2,8"});
	fflush(NULL);
	server = fork();
	if (!server) {
		fabric = connect_to(0, 4);
		model = find_all(fabric, NULL);
		if (load_begin(fabric, plan, model, &loaded, NULL, NULL, NULL))
			_exit(1);
		while (fabric->ops->counts(fabric)->answered < 5000)
			fabric->ops->progress(fabric, true);
		kill(getpid(), SIGKILL);
	}
	assert_int_equal(waitpid(server, &status, 0), server);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	fabric = connect_to(0, 64);
	model = find_all(fabric, NULL);
	assert_int_equal(load_look(fabric, model, have_marks, marks), 0);
	assert_int_equal(fabric_finish(fabric), 0);
	assert_true(marks[0] > 0);
	loaded.number = marks[1];
	load_and_walk(fabric, model, &loaded, &result, " 0 lost");
	assert_int_equal(load_look(fabric, model, have_marks, marks), 0);
	assert_int_equal(fabric_finish(fabric), 0);
	assert_int_equal(marks[0], 0);
	loaded_free(&loaded);
	model_destroy(model);
	fabric->ops->destroy(fabric);
	end();
}

static void a_trace_says_where_tables_end(void **state)
{
	struct fabric *fabric;
	struct model *model;
	struct trace trace;

	begin((struct world){.machine = "tree:2,3,2,4"});
	fabric = connect_to(0, 64);
	model = find_all(fabric, NULL);
	assert_int_equal(trace_path(fabric, model, 0, 20, &trace), 0);
	assert_int_equal(trace.end, TRACE_NO_ROUTE);
	assert_int_equal(trace.count, 2);
	model_destroy(model);
	fabric->ops->destroy(fabric);
	end();
}

/* From a switch with nodes to another, by each one's next port: never up after down. */
static void walk_up_and_down(const struct model *model, const uint8_t *rank, const uint8_t *next,
			     uint32_t from, uint32_t to)
{
	bool down = false;

	while (from != to) {
		uint32_t peer;

		assert_int_not_equal(next[from], UPDOWN_NONE);
		peer = model->devices[from]->port[next[from]].peer;
		assert_false(down && rank[peer] > rank[from]);
		down = rank[peer] < rank[from];
		from = peer;
	}
}

static void exported_routes_lead_up_and_then_down(void **state)
{
	struct updown *routes;
	struct fabric *fabric;
	struct model *model;
	uint8_t *rank, *next;
	uint32_t nowhere;

	begin((struct world){.machine = "tree:3,4,2,8", .faults = "cut=2", .seed = 2});
	fabric = connect_to(0, 64);
	model = find_all(fabric, NULL);
	rank = malloc(model->count);
	next = malloc(model->count);
	assert_int_equal(model_ranks(model, rank), 3);
	assert_int_equal(updown_create(model, &routes), 0);
	for (uint32_t to = 0; to < model->count; to++) {
		if (rank[to])
			continue;
		assert_int_equal(updown_aim(routes, to, &nowhere), 0);
		for (uint32_t i = 0; i < model->count; i++)
			next[i] = rank[i] == MODEL_NO_RANK || i == to ? 0 : updown_next(routes, i);
		for (uint32_t from = 0; from < model->count; from++)
			if (!rank[from])
				walk_up_and_down(model, rank, next, from, to);
	}
	updown_destroy(routes);
	free(rank);
	free(next);
	model_destroy(model);
	fabric->ops->destroy(fabric);
	end();
}

static void a_scan_reads_the_counters_of_all_ports(void **state)
{
	struct fabric *fabric;
	struct model *model;
	struct scan *scanned;
	uint64_t sent = 0;

	begin((struct world){.machine = "tree:2,3,2,4"});
	fabric = connect_to(0, 64);
	model = find_all(fabric, NULL);
	assert_int_equal(scan(fabric, model, &scanned), 0);
	assert_int_equal(scanned->count, plan->nrcs);
	for (uint32_t i = 0; i < scanned->count; i++)
		for (unsigned p = 0; p < scanned->devices[i].ports; p++) {
			const struct device *d = model->devices[scanned->devices[i].device];

			assert_int_equal(scanned->devices[i].port[p][PORT_HANDSHAKES],
					 d->port[p].state == NEIGHBOUR_UP);
			sent += scanned->devices[i].port[p][PORT_SENT];
		}
	assert_true(sent > 100 * plan->nrcs);
	scan_destroy(scanned);
	model_destroy(model);
	fabric->ops->destroy(fabric);
	end();
}

static void deltas_survive_a_wrap_and_a_reset(void **state)
{
	assert_int_equal(scan_delta(PORT_RETRIES, 5, 9), 4);
	assert_int_equal(scan_delta(PORT_RETRIES, UINT32_MAX - 1, 3), 5);
	assert_int_equal(scan_delta(PORT_RETRIES, 1000, 3), 3);
	assert_int_equal(scan_delta(PORT_SENT, 1ull << 40, 7), 7);
	assert_int_equal(scan_delta(PORT_LINK, 1, 3), 0);
}

/* A request whose effect must not come twice is sent once, and its end is unknown. */
static void a_write_without_an_answer_is_not_repeated(void **state)
{
	unsigned wrong = 0, read = 0;
	struct reading reading = {.wrong = &wrong, .read = &read};
	struct fabric *fabric;
	struct target self;

	begin((struct world){.machine = "tree:2,3,2,4", .faults = "loss=100%"});
	fabric = connect_to(0, 64);
	fabric->ops->origin(fabric, &self);
	assert_int_equal(fabric->ops->register_write(fabric, &self, REG_SCRATCH0, 1, true, have_id,
						     &reading),
			 0);
	assert_int_equal(fabric_finish(fabric), 0);
	assert_int_equal(wrong, 1);
	assert_int_equal(fabric->ops->counts(fabric)->sent, 1);
	assert_int_equal(fabric->ops->register_write(fabric, &self, REG_SCRATCH0, 1, false, have_id,
						     &reading),
			 0);
	assert_int_equal(fabric_finish(fabric), 0);
	assert_int_equal(fabric->ops->counts(fabric)->sent, 1 + 4);
	fabric->ops->destroy(fabric);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(discovery_takes_the_time_and_the_requests_of_the_paper),
		cmocka_unit_test(discovery_with_a_window_takes_a_twentieth),
		cmocka_unit_test(a_run_depends_on_its_seed_alone),
		cmocka_unit_test(wrong_cables_of_tianhe2_are_named_exactly),
		cmocka_unit_test(dead_switches_are_one_finding_each),
		cmocka_unit_test(a_switch_that_has_died_since_is_one_finding),
		cmocka_unit_test(no_answer_is_credited_to_another_chip),
		cmocka_unit_test(a_request_without_an_answer_goes_by_another_way),
		cmocka_unit_test(two_servers_do_not_block_each_other),
		cmocka_unit_test(a_trace_follows_the_tables_of_the_switches),
		cmocka_unit_test(loaded_routes_lead_everywhere),
		cmocka_unit_test(a_load_after_a_fault_leads_round_it),
		cmocka_unit_test(a_load_that_a_switch_does_not_keep_is_taken_back),
		cmocka_unit_test(a_root_that_dies_during_a_load_leaves_no_black_hole),
		cmocka_unit_test(a_killed_load_is_found_and_ended),
		cmocka_unit_test(a_trace_says_where_tables_end),
		cmocka_unit_test(exported_routes_lead_up_and_then_down),
		cmocka_unit_test(a_scan_reads_the_counters_of_all_ports),
		cmocka_unit_test(deltas_survive_a_wrap_and_a_reset),
		cmocka_unit_test(a_write_without_an_answer_is_not_repeated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
