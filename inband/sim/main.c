/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * thsim's beginning and end: options, counting, and the loop. See thsim(1).
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/command.h"
#include "inband/glex.h"
#include "inband/sim/serve.h"

static const char usage[] =
	"usage: thsim [OPTION]...\n"
	"  --machine WHAT    th2 (the default), tree:GROUPS,FRAMES,LEAVES,ROOTS, or a file\n"
	"  --listen PATH     socket of management servers (THSIM_SOCKET)\n"
	"  --servers N       management NICs (1)\n"
	"  --fault LIST      swap=50,cut=20,dark=3,narrow=1,degraded=1,dead=1,eeprom=7,reboot=1,\n"
	"                    loss=1%,dup=1%,delay=1%:900\n"
	"  --seed N          of faults and chance (1)\n"
	"  --busy            the network carries data: 36 ns more for each link, on average\n"
	"  --routes          the chips' tables are filled, as they are when EEPROMs hold them\n"
	"  --credits N       packets of VC3 that a port takes (4)\n"
	"  --nma-fifo N      requests that wait in a chip (8)\n"
	"  --cost US         the server's own time for a request and its response (0.67)\n"
	"  --count           counts the machine's chips, cables and hops, and ends\n"
	"  --write FILE      writes the machine as a file, and ends\n"
	"  --topology FILE   the same as ibnetdiscover would print it, for ibsim and urxe fabric\n"
	"  --fields          prints the fields of the management packet, and ends\n"
	"  --tell COMMAND    tells a running thsim, and ends: stats, clear, truth, \"walk PAIRS\", "
	"\"cut "
	"CHIP:PORT\",\n"
	"                    \"dead CHIP\", \"reboot CHIP\", \"mend CHIP[:PORT]\", \"oob CHIP "
	"REGISTER\"\n"
	"A model of Tianhe-2's interconnect and its in-band management; see thsim(1).\n";

struct options {
	const char *machine, *listen, *fault, *tell, *write, *topology;
	unsigned servers;
	bool count, fields, routes;
	struct sim_config config;
};

static bool number(const char *text, unsigned long least, unsigned long most, unsigned long *value)
{
	char *end;

	errno = 0;
	*value = strtoul(text, &end, 10);
	return !errno && end != text && !*end && *text != '-' && *value >= least && *value <= most;
}

static bool parse_cost(const char *text, struct sim_times *times)
{
	char *end;
	double us = strtod(text, &end);

	if (end == text || *end || !(us >= 0 && us <= 1000))
		return false;
	times->send = times->receive = us * SIM_US / 2;
	return true;
}

static bool parse(int argc, char **argv, struct options *o)
{
	static const struct option words[] = {{"machine", required_argument, NULL, 'm'},
					      {"listen", required_argument, NULL, 'l'},
					      {"servers", required_argument, NULL, 'n'},
					      {"fault", required_argument, NULL, 'f'},
					      {"seed", required_argument, NULL, 's'},
					      {"busy", no_argument, NULL, 'b'},
					      {"credits", required_argument, NULL, 'k'},
					      {"nma-fifo", required_argument, NULL, 'q'},
					      {"cost", required_argument, NULL, 'c'},
					      {"count", no_argument, NULL, 'C'},
					      {"write", required_argument, NULL, 'w'},
					      {"topology", required_argument, NULL, 'p'},
					      {"fields", no_argument, NULL, 'F'},
					      {"tell", required_argument, NULL, 't'},
					      {"help", no_argument, NULL, 'h'},
					      {"routes", no_argument, NULL, 'r'},
					      {"version", no_argument, NULL, 'V'},
					      {}};
	unsigned long value = 0;
	int option;

	while ((option = getopt_long(argc, argv, "hV", words, NULL)) >= 0) {
		bool good = true;

		switch (option) {
		case 'm': o->machine = optarg; break;
		case 'l': o->listen = optarg; break;
		case 'f': o->fault = optarg; break;
		case 't': o->tell = optarg; break;
		case 'w': o->write = optarg; break;
		case 'p': o->topology = optarg; break;
		case 'r': o->routes = true; break;
		case 'C': o->count = true; break;
		case 'F': o->fields = true; break;
		case 'b': o->config.times.busy = 72000; break;
		case 'c': good = parse_cost(optarg, &o->config.times); break;
		case 's':
			good = number(optarg, 0, ULONG_MAX - 1, &value);
			o->config.seed = value;
			break;
		case 'n':
			good = number(optarg, 1, 8, &value);
			o->servers = value;
			break;
		case 'k':
			good = number(optarg, 1, 64, &value);
			o->config.credits = value;
			break;
		case 'q':
			good = number(optarg, 1, 255, &value);
			o->config.nma_fifo = value;
			break;
		case 'h':
		case 'V':
			fputs(option == 'h' ? usage : "thsim " URXE_VERSION "\n", stdout);
			exit(0);
		default: command_bad_option(argv); return false;
		}
		if (!good) {
			command_misused("%s is out of range", optarg);
			return false;
		}
	}
	if (optind < argc)
		command_bad_word(argv[optind]);
	return optind == argc;
}

static int print_count(const struct machine *m)
{
	uint8_t *hops = malloc(m->chip_count);
	uint32_t histogram[2][256] = {{0}};
	uint64_t sum = 0;
	int ret = hops ? machine_hops(m, m->chip_count - m->servers, hops) : -ENOMEM;

	if (!ret) {
		for (uint32_t i = 0; i < m->chip_count - m->servers; i++) {
			histogram[m->chips[i].type][hops[i]]++;
			if (m->chips[i].type == NMP_NRC && hops[i] != 255)
				sum += hops[i];
		}
		printf("NRC    %u\nNIC    %u\ncables %u\nservers %u\n\nhops   NRC    NIC\n",
		       m->nrcs, m->nics, 2 * machine_optical_links(m), m->servers);
		for (unsigned i = 0; i < 256; i++)
			if (histogram[NMP_NRC][i] || histogram[NMP_NIC][i])
				printf("%4u %5u %6u\n", i, histogram[NMP_NRC][i],
				       histogram[NMP_NIC][i]);
		printf("mean %.3f\n", m->nrcs ? (double)sum / m->nrcs : 0);
	}
	free(hops);
	return ret;
}

static int write_file(const struct machine *m, const char *path,
		      int (*write)(const struct machine *m, FILE *file))
{
	FILE *file = fopen(path, "we");
	int ret = file ? write(m, file) : -errno;

	if (file && fclose(file) && !ret)
		ret = -errno;
	if (ret)
		fprintf(stderr, "thsim: %s: %s\n", path, strerror(-ret));
	return ret;
}

static int tell(const struct options *o)
{
	char *answer = glex_tell(o->listen, o->tell);
	int bad;

	if (!answer) {
		fprintf(stderr,
			"thsim: no thsim listens there; start one, or give --listen PATH\n");
		return 1;
	}
	fputs(answer, stdout);
	bad = !strncmp(answer, "error", 5);
	free(answer);
	return bad;
}

static int run(const struct options *o, const struct machine *machine)
{
	char path[256], error[256] = "no memory";
	struct broken *broken = NULL;
	unsigned count = 0;
	struct sim *sim;
	sigset_t set;
	int stop, ret = sim_create(machine, &o->config, &sim);

	if (ret) {
		fprintf(stderr, "thsim: %s\n", strerror(-ret));
		return ret;
	}
	if (o->routes) {
		ret = walk_fill(sim);
		if (ret)
			fprintf(stderr, "thsim: --routes: %s\n",
				ret == -ENOTSUP ? "the machine is no fat tree" : strerror(-ret));
	}
	if (!ret && o->fault)
		ret = fault_apply(sim, o->fault, &broken, &count, error, sizeof(error));
	if (ret && o->fault)
		fprintf(stderr, "thsim: --fault %s\n", error);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	stop = signalfd(-1, &set, SFD_CLOEXEC);
	if (!ret)
		ret = serve(sim, o->listen ?: glex_default_path(path, sizeof(path)), stop, broken,
			    count);
	close(stop);
	free(broken);
	sim_destroy(sim);
	return ret;
}

int main(int argc, char **argv)
{
	struct options o = {.machine = "th2",
			    .servers = 1,
			    .config = {.credits = 4, .nma_fifo = 8, .nma_output = 4, .seed = 1}};
	struct machine *machine;
	char error[256];
	int ret;

	sim_times_default(&o.config.times);
	command_begin();
	if (!parse(argc, argv, &o))
		return 2;
	if (o.fields) {
		nmp_print_fields(stdout);
		return 0;
	}
	if (o.tell)
		return tell(&o);
	if (machine_load(o.machine, o.servers, &machine, error, sizeof(error))) {
		fprintf(stderr, "thsim: %s\n", error);
		return 1;
	}
	if (!machine->servers) {
		fprintf(stderr, "thsim: %s has no chip of type server, where one could sit\n",
			o.machine);
		ret = -EINVAL;
	} else if (o.count) {
		ret = print_count(machine);
	} else {
		ret = o.write	   ? write_file(machine, o.write, machine_write)
		      : o.topology ? write_file(machine, o.topology, machine_write_topology)
				   : run(&o, machine);
	}
	machine_destroy(machine);
	return ret ? 1 : 0;
}
