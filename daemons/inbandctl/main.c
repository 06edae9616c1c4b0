/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * inbandctl: looks into inbandd and directs it. The command line.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/command.h"
#include "daemons/common/client.h"
#include "daemons/inbandctl/inbandctl.h"

static const char usage[] =
	"usage: inbandctl [--socket PATH]... [--json] [--timeout S] COMMAND\n"
	"  status                   what inbandd has found, and what it does\n"
	"  discover                 finds out anew what is wired to what\n"
	"  check [PLAN]             differences from the plan: th2, a file, or inbandd's own\n"
	"  show CHIP                a chip's ports, and what is at them\n"
	"  trace FROM TO            the way between two nodes (IDs) by the switches' tables\n"
	"  routes                   loads route tables into the switches, by what is up\n"
	"  bist CHIP:PORT [--seconds S] [--intensity PERCENT]\n"
	"                           tests the link, from either end for so long (1)\n"
	"  bist --under NAME        tests all links of the switches whose names begin so\n"
	"  read CHIP REGISTER       a register's value\n"
	"  write CHIP REGISTER VALUE\n"
	"  scan [--compare S] [--loop S [--count N]] [--thresholds COUNTER=N,...] [--worst N]\n"
	"                           counters of all ports; --compare: what they grow by in that "
	"time;\n"
	"                           --loop: again and again\n"
	"  eeprom verify [CHIP [FILE]] [--tables] [--range FIRST-LAST]\n"
	"                           EEPROM images that are not as planned, or not as a file\n"
	"  eeprom write [CHIP [FILE]] [--tables] [--range FIRST-LAST]\n"
	"                           writes what is not\n"
	"  eeprom read CHIP FILE    a chip's image into a file\n"
	"  alarms [--all]           what is wrong now; --all: and what was\n"
	"  ack ID                   somebody looks after that alarm\n"
	"  events [--count N]       what has happened, the latest first; audit: who has done what\n"
	"  baseline save|diff|drop NAME, baseline list\n"
	"                           the network as it is now; what differs from how it was\n"
	"  suppress add|drop CHIP:PORT [WHY], suppress list\n"
	"                           ports that scans do not name\n"
	"  save FILE                the network as it is now; inbandd -o \"load FILE\" shows it "
	"again\n"
	"  export topology|slurm|drain|routes [FILE] [--prefix TEXT]\n"
	"                           the network for ibsim and ibnetdiscover, for Slurm; nodes to "
	"drain;\n"
	"                           routes for opensm -R file -U FILE\n"
	"  watch                    alarms as they come and go\n"
	"CHIP is a name of the plan (S.leaf.3.7), nrc:ID or nic:ID. The status is 0; 1: refused; "
	"2: wrong\n"
	"usage; 3: inbandd does not run; 4: a warning; 5: something major; 6: something critical. "
	"See\n"
	"inbandctl(8).\n";

#define MOST_SERVERS 64

struct arguments {
	struct client client;
	struct json_object *request;
	const char *sockets[MOST_SERVERS];
	unsigned nsockets;
	char **words;
	int nwords;
};

static void add_text(struct arguments *args, const char *key, const char *value)
{
	json_object_object_add(args->request, key, json_object_new_string(value));
}

static bool add_number(struct arguments *args, const char *key, const char *text)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 0);
	if (*text < '0' || *text > '9' || *end || errno) {
		client_error("%s: \"%s\" is no number", key, text);
		return false;
	}
	json_object_object_add(args->request, key, json_object_new_uint64(value));
	return true;
}

static bool no_words(struct arguments *args)
{
	return true;
}

/* inbandd opens the file, from its own folder. */
static bool plan_word(struct arguments *args)
{
	char path[PATH_MAX];

	if (args->nwords)
		add_text(args, "plan",
			 !access(args->words[0], R_OK) && realpath(args->words[0], path)
				 ? path
				 : args->words[0]);
	return true;
}

static bool chip_word(struct arguments *args)
{
	add_text(args, "chip", args->words[0]);
	return true;
}

static bool bist_words(struct arguments *args)
{
	bool under = json_object_object_get_ex(args->request, "under", NULL);

	if (args->nwords)
		add_text(args, "port", args->words[0]);
	else if (!under)
		client_error("bist CHIP:PORT, or bist --under NAME");
	return args->nwords || under;
}

static bool trace_words(struct arguments *args)
{
	static const char *const keys[] = {"from", "to"};

	/* An ID, or a name. */
	for (unsigned i = 0; i < 2; i++) {
		const char *word = args->words[i];

		if (word[strspn(word, "0123456789")])
			add_text(args, keys[i], word);
		else if (!add_number(args, keys[i], word))
			return false;
	}
	return true;
}

static bool register_words(struct arguments *args)
{
	return chip_word(args) && add_number(args, "address", args->words[1]) &&
	       (args->nwords < 3 || add_number(args, "value", args->words[2]));
}

static bool add_file(struct arguments *args, const char *path)
{
	static uint8_t byte[EEPROM_BYTES + 1];
	static char text[2 * sizeof(byte) + 1];
	FILE *file = fopen(path, "re");
	size_t n = file ? fread(byte, 1, sizeof(byte), file) : 0;

	if (!file || ferror(file) || !n || n > EEPROM_BYTES) {
		client_error("%s: %s", path,
			     !file || ferror(file) ? strerror(errno)
						   : "an image has 1 to 65536 bytes");
		if (file)
			fclose(file);
		return false;
	}
	fclose(file);
	for (size_t i = 0; i < n; i++)
		sprintf(text + 2 * i, "%02x", byte[i]);
	add_text(args, "bytes", text);
	return true;
}

static bool eeprom_words(struct arguments *args)
{
	bool read = !strcmp(args->words[0], "read");

	add_text(args, "what", args->words[0]);
	if (args->nwords > 1)
		add_text(args, "chip", args->words[1]);
	if (read && args->nwords < 3) {
		client_error("eeprom read CHIP FILE");
		return false;
	}
	if (read)
		output_file = args->words[2];
	return read || args->nwords < 3 || add_file(args, args->words[2]);
}

static bool baseline_words(struct arguments *args)
{
	add_text(args, "what", args->words[0]);
	if (args->nwords > 1)
		add_text(args, "name", args->words[1]);
	return true;
}

static bool suppress_words(struct arguments *args)
{
	add_text(args, "what", args->words[0]);
	if (args->nwords > 1)
		add_text(args, "port", args->words[1]);
	if (args->nwords > 2)
		add_text(args, "why", args->words[2]);
	return true;
}

static bool export_words(struct arguments *args)
{
	add_text(args, "what", args->words[0]);
	if (args->nwords > 1)
		output_file = args->words[1];
	return true;
}

static bool file_word(struct arguments *args)
{
	output_file = args->words[0];
	return true;
}

static bool id_word(struct arguments *args)
{
	return add_number(args, "id", args->words[0]);
}

static const struct {
	const char *name;
	int least, most; /* words */
	bool (*add)(struct arguments *args);
	int (*print)(struct json_object *answer);
	bool waits; /* as long as it takes, unless --timeout says another */
} commands[] = {
	{"status", 0, 0, no_words, print_status},
	{"discover", 0, 0, no_words, print_discovery, true},
	{"check", 0, 1, plan_word, print_findings},
	{"show", 1, 1, chip_word, print_device},
	{"trace", 2, 2, trace_words, print_trace},
	{"bist", 0, 1, bist_words, print_bist, true},
	{"routes", 0, 0, no_words, print_load, true},
	{"read", 2, 2, register_words, print_value},
	{"write", 3, 3, register_words, print_nothing},
	{"scan", 0, 0, no_words, print_scan, true},
	{"eeprom", 1, 3, eeprom_words, print_eeprom, true},
	{"events", 0, 0, no_words, print_events},
	{"audit", 0, 0, no_words, print_audit},
	{"baseline", 1, 2, baseline_words, print_baselines},
	{"suppress", 1, 3, suppress_words, print_suppressed},
	{"export", 1, 2, export_words, print_text},
	{"save", 1, 1, file_word, print_text},
	{"alarms", 0, 0, no_words, print_alarms},
	{"ack", 1, 1, id_word, print_nothing},
	{"watch", 0, 0, no_words, print_nothing, true},
};

enum {
	SOCKET = 256,
	JSON,
	TIMEOUT,
	COMPARE,
	WORST,
	ALL,
	SECONDS,
	INTENSITY,
	TABLES,
	RANGE,
	COUNT,
	LOOP,
	THRESHOLDS,
	UNDER,
	PREFIX
};

static const struct option options[] = {
	{"socket", required_argument, NULL, SOCKET},
	{"json", no_argument, NULL, JSON},
	{"timeout", required_argument, NULL, TIMEOUT},
	{"compare", required_argument, NULL, COMPARE},
	{"worst", required_argument, NULL, WORST},
	{"all", no_argument, NULL, ALL},
	{"seconds", required_argument, NULL, SECONDS},
	{"intensity", required_argument, NULL, INTENSITY},
	{"tables", no_argument, NULL, TABLES},
	{"range", required_argument, NULL, RANGE},
	{"count", required_argument, NULL, COUNT},
	{"loop", required_argument, NULL, LOOP},
	{"prefix", required_argument, NULL, PREFIX},
	{"under", required_argument, NULL, UNDER},
	{"thresholds", required_argument, NULL, THRESHOLDS},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{},
};

/* Seconds, perhaps with a fraction or an "s", in milliseconds. */
static bool add_seconds(struct arguments *args, const char *key, const char *option,
			const char *text)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || (*end && strcmp(end, "s")) || !(seconds >= 0.001 && seconds <= 86400)) {
		client_error("--%s: seconds, from 0.001 to a day", option);
		return false;
	}
	json_object_object_add(args->request, key, json_object_new_int64(seconds * 1000));
	return true;
}

/* FIRST-LAST, addresses of an EEPROM. */
static bool add_range(struct arguments *args, const char *text)
{
	unsigned first, last;
	int end = 0;

	if (sscanf(text, "%i-%i%n", (int *)&first, (int *)&last, &end) != 2 || text[end] ||
	    last < first || last > 0xffff) {
		client_error("--range: FIRST-LAST, from 0 to 0xffff");
		return false;
	}
	json_object_object_add(args->request, "address", json_object_new_int64(first));
	json_object_object_add(args->request, "length", json_object_new_int64(last - first + 1));
	return true;
}

/* -1: go on; else a status. */
static int set_option(struct arguments *args, int option, bool *limited)
{
	unsigned long value;
	char *end;

	switch (option) {
	case SOCKET:
		if (args->nsockets == MOST_SERVERS) {
			client_error("--socket: up to %d servers", MOST_SERVERS);
			return CLIENT_USAGE;
		}
		args->sockets[args->nsockets++] = optarg;
		break;
	case JSON: args->client.json = true; break;
	case TIMEOUT:
		value = strtoul(optarg, &end, 10);
		if (*optarg < '0' || *optarg > '9' || *end || value > 86400) {
			client_error("--timeout: seconds, up to a day");
			return CLIENT_USAGE;
		}
		args->client.timeout = value;
		*limited = true;
		break;
	case SECONDS: return add_seconds(args, "ms", "seconds", optarg) ? -1 : CLIENT_USAGE;
	case INTENSITY: return add_number(args, "intensity", optarg) ? -1 : CLIENT_USAGE;
	case COMPARE: return add_seconds(args, "compare", "compare", optarg) ? -1 : CLIENT_USAGE;
	case WORST: return add_number(args, "worst", optarg) ? -1 : CLIENT_USAGE;
	case PREFIX: add_text(args, "prefix", optarg); break;
	case UNDER: add_text(args, "under", optarg); break;
	case LOOP: return add_seconds(args, "loop", "loop", optarg) ? -1 : CLIENT_USAGE;
	case THRESHOLDS: add_text(args, "thresholds", optarg); break;
	case COUNT: return add_number(args, "count", optarg) ? -1 : CLIENT_USAGE;
	case RANGE: return add_range(args, optarg) ? -1 : CLIENT_USAGE;
	case TABLES:
		json_object_object_add(args->request, "tables", json_object_new_boolean(true));
		break;
	case ALL:
		json_object_object_add(args->request, "all", json_object_new_boolean(true));
		break;
	case 'h': fputs(usage, stdout); return CLIENT_DONE;
	case 'V': puts("inbandctl " URXE_VERSION); return CLIENT_DONE;
	}
	return -1;
}

/* The status that people get from an answer, also where the answer itself is JSON. */
static int conclude(struct arguments *args, int (*print)(struct json_object *),
		    struct json_object *answer)
{
	int status, keep, none;

	if (!args->client.json)
		return print(answer);
	/* What it would print goes nowhere. */
	fflush(stdout);
	keep = dup(1);
	none = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (keep < 0 || none < 0 || dup2(none, 1) < 0)
		return CLIENT_REFUSED;
	status = print(answer);
	fflush(stdout);
	dup2(keep, 1);
	close(keep);
	close(none);
	return status;
}

static int ask(struct arguments *args, int (*print)(struct json_object *))
{
	struct json_object *answer = NULL;
	int status = client_open(&args->client);

	if (status == CLIENT_DONE)
		status = client_ask(&args->client, json_object_get(args->request), &answer);
	if (answer && status == CLIENT_DONE)
		status = conclude(args, print, answer);
	json_object_put(answer);
	client_close(&args->client);
	args->client.fd = -1;
	return status;
}

/* Each server in turn; the worst of what they answer. */
static int ask_all(struct arguments *args, int (*print)(struct json_object *))
{
	int worst = CLIENT_DONE;

	for (unsigned i = 0; i < args->nsockets || !i; i++) {
		int status;

		if (args->nsockets)
			args->client.socket = args->sockets[i];
		if (args->nsockets > 1 && args->client.json)
			printf("{\"server\":\"%s\"}\n", args->client.socket);
		else if (args->nsockets > 1)
			printf("%s:\n", args->client.socket);
		status = ask(args, print);
		if (status > worst)
			worst = status;
	}
	return worst;
}

static int run(struct arguments *args, const char *command, bool limited)
{
	for (unsigned i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(commands[i].name, command) != 0)
			continue;
		if (args->nwords < commands[i].least || args->nwords > commands[i].most)
			return command_misused("%s: too few words, or too many", command);
		if (commands[i].waits && !limited)
			args->client.timeout = 0;
		add_text(args, "command", command);
		if (!commands[i].add(args))
			return CLIENT_USAGE;
		return ask_all(args, commands[i].print);
	}
	return command_misused("there is no command \"%s\"", command);
}

int main(int argc, char **argv)
{
	struct arguments args = {.client = {.daemon = "inbandd",
					    .cure = "see inbandd(8)",
					    .keep = true,
					    .socket = INBANDD_CONTROL,
					    .timeout = 30,
					    .each = print_event,
					    .fd = -1},
				 .request = json_object_new_object()};
	bool limited = false;
	int option, status = -1;

	command_begin();
	while (status < 0 && (option = getopt_long(argc, argv, "hV", options, NULL)) >= 0)
		status = option == '?' ? command_bad_option(argv)
				       : set_option(&args, option, &limited);
	if (status < 0 && optind == argc) {
		fputs(usage, stderr);
		status = CLIENT_USAGE;
	}
	if (status < 0) {
		args.words = argv + optind + 1;
		args.nwords = argc - optind - 1;
		status = run(&args, argv[optind], limited);
	}
	json_object_put(args.request);
	return status;
}
