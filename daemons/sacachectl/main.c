/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sacachectl: looks into sacached and tells it what to do. The command line.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/command.h"
#include "daemons/sacachectl/sacachectl.h"

#define TIMEOUT_S    30
#define GIDS_AT_ONCE 10000

static const char usage[] =
	"usage: sacachectl [--socket PATH] [--json] [--timeout S] COMMAND\n"
	"  status                      what sacached does, and why it asked the SA\n"
	"  list [DEST] [--suspect] [--failures]\n"
	"                              what is in the cache, of all or of one destination\n"
	"  lookup DEST [--from GID|LID] [--pkey N] [--sl N] [--tclass N] [--qos-class N]\n"
	"         [--service-id N] [--port N] [--cached]\n"
	"                              the path to a destination; --cached: without asking the SA\n"
	"  flush --all | DEST          forgets\n"
	"  prefetch --all | GID... | --file FILE\n"
	"                              asks the SA ahead; FILE has a GID in each line\n"
	"  save                        writes the state file now\n"
	"DEST is a GID (fe80::1), a LID (12), a port GUID (0x0002c90300000001), or, for lookup, an "
	"IP\n"
	"address (10.0.0.1; of IPv6 ip:fd00::1). See sacachectl(8).\n";

struct arguments {
	struct client client;
	const char *command;
	char **words; /* behind the command */
	int nwords;
	struct json_object *request;
	const char *from, *file;
	bool all;
};

static void add_text(struct arguments *args, const char *key, const char *value)
{
	json_object_object_add(args->request, key, json_object_new_string(value));
}

static void add_flag(struct arguments *args, const char *key)
{
	json_object_object_add(args->request, key, json_object_new_boolean(true));
}

static bool is_address(int family, const char *text)
{
	struct in6_addr address;

	return inet_pton(family, text, &address) == 1;
}

static bool number(const char *text, unsigned long long *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 0);
	return *text >= '0' && *text <= '9' && !*end && !errno;
}

static bool add_number(struct arguments *args, const char *key, const char *text)
{
	unsigned long long value;

	if (!number(text, &value)) {
		client_error("%s: \"%s\" is no number", key, text);
		return false;
	}
	json_object_object_add(args->request, key, json_object_new_uint64(value));
	return true;
}

static bool add_destination(struct arguments *args, const char *text)
{
	unsigned long long value;

	if (!strncmp(text, "ip:", 3))
		add_text(args, "ip", text + 3);
	else if (is_address(AF_INET, text))
		add_text(args, "ip", text);
	else if (is_address(AF_INET6, text))
		add_text(args, "gid", text);
	else if (!number(text, &value)) {
		client_error("\"%s\" is no GID, LID, GUID or IP address", text);
		return false;
	} else if (!strncmp(text, "0x", 2) && strlen(text) > 6)
		add_text(args, "guid", text);
	else
		return add_number(args, "lid", text);
	return true;
}

static bool add_source(struct arguments *args)
{
	if (!args->from)
		return true;
	if (!is_address(AF_INET6, args->from))
		return add_number(args, "slid", args->from);
	add_text(args, "sgid", args->from);
	return true;
}

static int ask(struct arguments *args, void (*print)(struct json_object *answer))
{
	struct json_object *answer;
	int status = client_ask(&args->client, args->request, &answer);

	args->request = NULL;
	if (answer)
		print(answer);
	json_object_put(answer);
	return status;
}

static int misused(void)
{
	fputs(usage, stderr);
	return CLIENT_USAGE;
}

static int status(struct arguments *args)
{
	return args->nwords ? misused() : ask(args, print_status);
}

static int list(struct arguments *args)
{
	if (args->nwords > 1)
		return misused();
	if (args->nwords && !add_destination(args, args->words[0]))
		return CLIENT_USAGE;
	args->client.each = print_entry;
	return ask(args, print_entries);
}

static int lookup(struct arguments *args)
{
	if (args->nwords != 1)
		return misused();
	if (!add_destination(args, args->words[0]) || !add_source(args))
		return CLIENT_USAGE;
	return ask(args, print_lookup);
}

static int flush(struct arguments *args)
{
	if (args->nwords + args->all != 1)
		return misused();
	if (args->all)
		add_flag(args, "all");
	else if (!add_destination(args, args->words[0]))
		return CLIENT_USAGE;
	return ask(args, print_flush);
}

static int save(struct arguments *args)
{
	return args->nwords ? misused() : ask(args, print_save);
}

/* Some GIDs of a longer list, asked for by the same port as the rest. */
static int prefetch_some(struct arguments *args, struct json_object *gids)
{
	struct json_object *rest = NULL;
	int result;

	json_object_deep_copy(args->request, &rest, NULL);
	json_object_object_add(args->request, "gids", gids);
	result = ask(args, print_prefetch);
	args->request = rest;
	return result;
}

static int prefetch_file(struct arguments *args)
{
	FILE *in = strcmp(args->file, "-") ? fopen(args->file, "r") : stdin;
	struct json_object *gids = json_object_new_array();
	int line = 0, result = CLIENT_DONE;
	size_t room = 0;
	char *text = NULL;

	if (!in) {
		client_error("%s: %s", args->file, strerror(errno));
		json_object_put(gids);
		return CLIENT_USAGE;
	}
	while (result == CLIENT_DONE && getline(&text, &room, in) >= 0) {
		line++;
		text[strcspn(text, " \t\r\n#")] = 0;
		if (!text[0])
			continue;
		if (!is_address(AF_INET6, text)) {
			client_error("%s:%d: \"%s\" is no GID", args->file, line, text);
			result = CLIENT_USAGE;
			break;
		}
		json_object_array_add(gids, json_object_new_string(text));
		if (json_object_array_length(gids) == GIDS_AT_ONCE) {
			result = prefetch_some(args, gids);
			gids = json_object_new_array();
		}
	}
	free(text);
	if (in != stdin)
		fclose(in);
	if (result == CLIENT_DONE && json_object_array_length(gids))
		return prefetch_some(args, gids);
	json_object_put(gids);
	return result;
}

static int prefetch(struct arguments *args)
{
	struct json_object *gids;

	if (!!args->nwords + args->all + !!args->file != 1)
		return misused();
	if (args->file)
		return prefetch_file(args);
	if (args->all) {
		add_flag(args, "all");
		return ask(args, print_prefetch);
	}
	gids = json_object_new_array();
	for (int i = 0; i < args->nwords; i++)
		json_object_array_add(gids, json_object_new_string(args->words[i]));
	return prefetch_some(args, gids);
}

static const struct {
	const char *name;
	int (*run)(struct arguments *args);
	bool waits; /* as long as it takes, unless --timeout says another */
} commands[] = {
	{"status", status},	      {"list", list},	    {"lookup", lookup}, {"flush", flush},
	{"prefetch", prefetch, true}, {"save", save, true},
};

enum { SOCKET = 256, JSON, TIMEOUT, SUSPECT, FAILURES, CACHED, ALL, FROM, FILE_, NUMBER, HELP };

static const struct option options[] = {
	{"socket", required_argument, NULL, SOCKET},
	{"json", no_argument, NULL, JSON},
	{"timeout", required_argument, NULL, TIMEOUT},
	{"suspect", no_argument, NULL, SUSPECT},
	{"failures", no_argument, NULL, FAILURES},
	{"cached", no_argument, NULL, CACHED},
	{"all", no_argument, NULL, ALL},
	{"from", required_argument, NULL, FROM},
	{"file", required_argument, NULL, FILE_},
	{"pkey", required_argument, NULL, NUMBER},
	{"sl", required_argument, NULL, NUMBER},
	{"tclass", required_argument, NULL, NUMBER},
	{"qos-class", required_argument, NULL, NUMBER},
	{"service-id", required_argument, NULL, NUMBER},
	{"port", required_argument, NULL, NUMBER},
	{"help", no_argument, NULL, HELP},
	{"version", no_argument, NULL, 'V'},
	{NULL, 0, NULL, 0},
};

/* The name of a member of the request: "qos-class" is "qos_class" there. */
static bool set_number(struct arguments *args, const char *option)
{
	char key[32];

	snprintf(key, sizeof(key), "%s", option);
	for (char *p = key; *p; p++)
		if (*p == '-')
			*p = '_';
	return add_number(args, key, optarg);
}

/* -1: go on; else a status. */
static int set_option(struct arguments *args, int option, const char *name, bool *limited)
{
	unsigned long long value = 0;

	switch (option) {
	case SOCKET: args->client.socket = optarg; break;
	case JSON: args->client.json = true; break;
	case TIMEOUT:
		if (!number(optarg, &value) || value > 86400) {
			client_error("--timeout: seconds, up to a day");
			return CLIENT_USAGE;
		}
		args->client.timeout = value;
		*limited = true;
		break;
	case SUSPECT: add_flag(args, "suspect"); break;
	case FAILURES: add_flag(args, "failures"); break;
	case CACHED: add_flag(args, "cached"); break;
	case ALL: args->all = true; break;
	case FROM: args->from = optarg; break;
	case FILE_: args->file = optarg; break;
	case NUMBER: return set_number(args, name) ? -1 : CLIENT_USAGE;
	case HELP: fputs(usage, stdout); return CLIENT_DONE;
	case 'V': puts("sacachectl " URXE_VERSION); return CLIENT_DONE;
	}
	return -1;
}

static int run(struct arguments *args, bool limited)
{
	for (unsigned i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		int result;

		if (strcmp(commands[i].name, args->command) != 0)
			continue;
		if (commands[i].waits && !limited)
			args->client.timeout = 0;
		add_text(args, "command", args->command);
		result = client_open(&args->client);
		if (result == CLIENT_DONE)
			result = commands[i].run(args);
		client_close(&args->client);
		return result;
	}
	return command_misused("there is no command \"%s\"", args->command);
}

int main(int argc, char **argv)
{
	struct arguments args = {
		.client = {.daemon = "sacached",
			   .cure = "systemctl status sacached",
			   .socket = SACACHED_CONTROL,
			   .timeout = TIMEOUT_S,
			   .fd = -1},
		.request = json_object_new_object(),
	};
	int option, index = 0, result = -1;
	bool limited = false;

	command_begin();
	/* A reader that has seen enough. */
	signal(SIGPIPE, SIG_DFL);
	while (result < 0 && (option = getopt_long(argc, argv, "Vh", options, &index)) >= 0)
		result = option == '?' ? command_bad_option(argv)
				       : set_option(&args, option == 'h' ? HELP : option,
						    options[index].name, &limited);
	if (result < 0 && optind == argc)
		result = misused();
	if (result < 0) {
		args.command = argv[optind];
		args.words = argv + optind + 1;
		args.nwords = argc - optind - 1;
		result = run(&args, limited);
	}
	json_object_put(args.request);
	return result;
}
