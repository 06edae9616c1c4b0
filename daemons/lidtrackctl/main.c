// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * lidtrackctl: looks into lidtrackd and directs it.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/command.h"
#include "daemons/common/client.h"
#include "daemons/lidtrackctl/lidtrackctl.h"

#define POLL_US	  20000
#define CONFIRM_S 5
#define RETURN_S  10 /* of a guest that has not gone, until it has its function again */
#define LOST	  50 /* answers in a row without the guest: no record is on its way for so long */

static const char usage[] =
	"usage: lidtrackctl [--socket PATH] [--json] [--timeout S] COMMAND\n"
	"  status [GUEST]           every vGUID, where it is, its LID, and what is under way\n"
	"  plan GUEST --to HOST     what would happen, or why it would not\n"
	"  move GUEST --to HOST [--function N] [--wait S] [--no-wait]\n"
	"                           moves it and waits until it is there; --wait: for a free "
	"function, too\n"
	"  cancel GUEST             takes a move back, while it can be\n"
	"  add GUEST [--guid GUID] [--pkeys P_KEY,...] [--function N]\n"
	"                           gives a guest of this host a vGUID, of the pool without "
	"--guid\n"
	"  remove GUEST             takes it away, for good\n"
	"  fence HOST               says that a host is off: what it was handed comes back here\n"
	"  guid2lid FILE [--repair] [--from FILE] [--set GUID=LID]\n"
	"                           looks at OpenSM's file, or mends it; --from: with entries of "
	"another\n"
	"The status is 0; 1: refused; 2: wrong usage; 3: lidtrackd does not run. See "
	"lidtrackctl(8).\n";

struct arguments {
	struct client client;
	char **words;
	int nwords;
	const char *to, *guid, *pkeys, *from, *set;
	int function; /* -1: any */
	bool repair;
	double wait;
	bool no_wait;
	unsigned given; /* a bit for each option of one command or another */
};

/* ---- JSON ---- */

static struct json_object *request_of(const char *command)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "command", json_object_new_string(command));
	return o;
}

static void add_text(struct json_object *o, const char *key, const char *value)
{
	if (value)
		json_object_object_add(o, key, json_object_new_string(value));
}

static void add_function(struct json_object *o, int function)
{
	if (function >= 0)
		json_object_object_add(o, "function", json_object_new_int(function));
}

static const char *text(struct json_object *o, const char *key)
{
	struct json_object *v;

	return json_object_object_get_ex(o, key, &v) ? json_object_get_string(v) : "";
}

static int number(struct json_object *o, const char *key, int none)
{
	struct json_object *v;

	return json_object_object_get_ex(o, key, &v) ? json_object_get_int(v) : none;
}

/* ---- asking ---- */

static int ask(struct arguments *args, struct json_object *request, struct json_object **answer)
{
	int status = client_open(&args->client);

	if (status == CLIENT_DONE)
		status = client_ask(&args->client, request, answer);
	else
		json_object_put(request);
	client_close(&args->client);
	args->client.fd = -1;
	return status;
}

static int simple(struct arguments *args, const char *command)
{
	struct json_object *request = request_of(command), *answer = NULL;
	int status;

	add_text(request, strcmp(command, "fence") ? "guest" : "host", args->words[0]);
	status = ask(args, request, &answer);
	if (status == CLIENT_DONE && !args->client.json && !strcmp(command, "fence"))
		printf("%d guests\n", number(answer, "guests", 0));
	json_object_put(answer);
	return status;
}

/* ---- status ---- */

static bool headed;

static void add_note(char *notes, size_t size, const char *note)
{
	size_t len = strlen(notes);

	if (*note)
		snprintf(notes + len, size - len, "%s%s", len ? "; " : "", note);
}

static void print_row(struct json_object *row)
{
	char lid[8] = "-", function[16] = "-", notes[512] = "";

	if (!headed)
		printf("%-16s %-18s %-12s %6s %8s  %-10s %s\n", "guest", "vGUID", "host", "LID",
		       "function", "state", "");
	headed = true;
	if (number(row, "lid", 0))
		snprintf(lid, sizeof(lid), "%d", number(row, "lid", 0));
	if (number(row, "function", -1) >= 0)
		snprintf(function, sizeof(function), "%d", number(row, "function", -1));
	if (*text(row, "peer"))
		snprintf(notes, sizeof(notes), "with %s", text(row, "peer"));
	add_note(notes, sizeof(notes), text(row, "reason"));
	if (*text(row, "fence"))
		add_note(notes, sizeof(notes),
			 "not all agents have confirmed that they do not have it");
	printf("%-16s %-18s %-12s %6s %8s  %-10s %s\n", text(row, "guest"), text(row, "guid"),
	       text(row, "host"), lid, function, text(row, "state"), notes);
}

static void print_journal(struct json_object *answer)
{
	if (*text(answer, "journal"))
		printf("the journal of %s cannot be written: %s; orders are refused\n",
		       text(answer, "host"), text(answer, "journal"));
}

static void print_silent(struct json_object *answer)
{
	struct json_object *silent;

	if (!json_object_object_get_ex(answer, "silent", &silent))
		return;
	for (size_t i = 0; i < json_object_array_length(silent); i++)
		printf("%s does not answer\n",
		       json_object_get_string(json_object_array_get_idx(silent, i)));
}

static int status_command(struct arguments *args)
{
	struct json_object *request = request_of("status"), *answer = NULL;
	int status;

	add_text(request, "guest", args->nwords ? args->words[0] : NULL);
	args->client.each = print_row;
	status = ask(args, request, &answer);
	if (status == CLIENT_DONE && !args->client.json) {
		print_silent(answer);
		print_journal(answer);
	}
	json_object_put(answer);
	return status;
}

/* ---- plan ---- */

static void print_pkeys(struct json_object *row)
{
	struct json_object *pkeys;

	if (!json_object_object_get_ex(row, "pkeys", &pkeys))
		return;
	if (!json_object_array_length(pkeys))
		printf("none yet");
	for (size_t i = 0; i < json_object_array_length(pkeys); i++)
		printf("%s0x%04x", i ? ", " : "",
		       json_object_get_int(json_object_array_get_idx(pkeys, i)));
}

static int plan_command(struct arguments *args)
{
	struct json_object *request = request_of("plan"), *a = NULL;
	int status;

	add_text(request, "guest", args->words[0]);
	add_text(request, "to", args->to);
	args->client.keep = true;
	status = ask(args, request, &a);
	if (status != CLIENT_DONE || args->client.json) {
		status = status == CLIENT_DONE && *text(a, "refused") ? CLIENT_REFUSED : status;
		json_object_put(a);
		return status;
	}
	printf("%s  %s -> %s\n  vGUID   %s\n  GID     %s\n  LID     %s\n  P_Keys  ",
	       text(a, "guest"), text(a, "host"), text(a, "to"), text(a, "guid"),
	       *text(a, "gid") ? text(a, "gid") : "not known: this host's port cannot be seen",
	       number(a, "lid", 0) ? text(a, "lid") : "none yet");
	print_pkeys(a);
	if (*text(a, "refused")) {
		printf("\n  it would be refused: %s\n", text(a, "refused"));
		status = CLIENT_REFUSED;
	} else {
		printf("\n  function %d of %s is given up, one of %s is free\n",
		       number(a, "function", -1), text(a, "host"), text(a, "to"));
	}
	json_object_put(a);
	return status;
}

/* ---- move ---- */

/* What status says of the guest that is moved. */
static struct {
	bool here, there;    /* settled at its source, or where it is to go */
	bool returns;	     /* its source gives it a function again: it does not go */
	bool known;	     /* somebody has it */
	char elsewhere[128]; /* where it is settled, if that is neither */
	bool confirmed;	     /* the source has said that it has forgotten it */
	const char *from, *to, *guid;
	int lid;
	char reason[300];
} seen;

static bool is_returning(const char *state)
{
	return !strcmp(state, "setting") || !strcmp(state, "attaching") ||
	       !strcmp(state, "verifying");
}

static void look_at(struct json_object *row)
{
	bool settled = !strcmp(text(row, "state"), "here");

	if (strcmp(text(row, "guid"), seen.guid) != 0)
		return; /* another guest of that name */
	seen.known = true;
	if (settled && strcmp(text(row, "host"), seen.to) != 0 &&
	    strcmp(text(row, "host"), seen.from) != 0)
		snprintf(seen.elsewhere, sizeof(seen.elsewhere), "%s", text(row, "host"));
	if (!strcmp(text(row, "host"), seen.to) && settled) {
		seen.there = true;
		seen.confirmed = !*text(row, "peer");
		seen.lid = number(row, "lid", 0);
	}
	if (!strcmp(text(row, "host"), seen.from)) {
		seen.here = settled;
		seen.returns = is_returning(text(row, "state"));
		snprintf(seen.reason, sizeof(seen.reason), "%s%s%s",
			 settled ? "" : text(row, "state"), settled ? "" : ": ",
			 text(row, "reason"));
	}
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static bool all_answered(struct json_object *answer)
{
	struct json_object *silent;

	return json_object_object_get_ex(answer, "silent", &silent) &&
	       !json_object_array_length(silent);
}

static int follow(struct arguments *args)
{
	double began = now(), arrived = 0, returns = 0;
	int status = CLIENT_DONE;
	unsigned lost = 0;

	args->client.each = look_at;
	while (status == CLIENT_DONE) {
		struct json_object *request = request_of("status"), *answer = NULL;

		add_text(request, "guest", args->words[0]);
		seen.here = seen.there = seen.known = seen.returns = false;
		seen.elsewhere[0] = '\0';
		status = ask(args, request, &answer);
		lost = status == CLIENT_DONE && !seen.known && all_answered(answer) ? lost + 1 : 0;
		json_object_put(answer);
		/* Until the source confirms it could not be moved on; it is there all the same. */
		if (seen.there && !arrived)
			arrived = now();
		if (seen.there && (seen.confirmed || now() - arrived > CONFIRM_S)) {
			printf("%s: %s -> %s, LID %d, %.3f s\n", args->words[0], seen.from, seen.to,
			       seen.lid, arrived - began);
			return CLIENT_DONE;
		}
		if (!seen.returns || !returns)
			returns = now();
		if (status == CLIENT_DONE &&
		    (seen.here || (seen.returns && now() - returns > RETURN_S))) {
			client_error("%s stays at %s: %s", args->words[0], seen.from, seen.reason);
			return CLIENT_REFUSED;
		}
		if (!seen.there && status == CLIENT_DONE && (seen.elsewhere[0] || lost > LOST)) {
			client_error("%s is %s%s: another order has been given", args->words[0],
				     seen.elsewhere[0] ? "at " : "with nobody", seen.elsewhere);
			return CLIENT_REFUSED;
		}
		usleep(POLL_US);
	}
	return status;
}

static int move_command(struct arguments *args)
{
	struct json_object *request = request_of("move"), *answer = NULL;
	bool json = args->client.json;
	static char from[128], guid[32];
	int status;

	add_text(request, "guest", args->words[0]);
	add_text(request, "to", args->to);
	add_function(request, args->function);
	if (args->wait > 0)
		json_object_object_add(request, "wait", json_object_new_int64(args->wait * 1000));
	args->client.json = false;
	status = ask(args, request, &answer);
	snprintf(from, sizeof(from), "%s", text(answer, "from"));
	snprintf(guid, sizeof(guid), "%s", text(answer, "guid"));
	if (json && answer)
		puts(json_object_to_json_string_ext(answer, JSON_C_TO_STRING_PLAIN));
	json_object_put(answer);
	if (status != CLIENT_DONE || args->no_wait)
		return status;
	seen.from = from;
	seen.guid = guid;
	seen.to = args->to;
	return follow(args);
}

/* ---- add ---- */

static int add_command(struct arguments *args)
{
	struct json_object *request = request_of("add"), *answer = NULL;
	int status;

	add_text(request, "guest", args->words[0]);
	add_text(request, "guid", args->guid);
	add_text(request, "pkeys", args->pkeys);
	add_function(request, args->function);
	status = ask(args, request, &answer);
	if (status == CLIENT_DONE && !args->client.json)
		puts(text(answer, "guid"));
	json_object_put(answer);
	return status;
}

static int cancel_command(struct arguments *args)
{
	return simple(args, "cancel");
}

static int remove_command(struct arguments *args)
{
	return simple(args, "remove");
}

static int fence_command(struct arguments *args)
{
	return simple(args, "fence");
}

static int guid2lid_words(struct arguments *args)
{
	return guid2lid_command(args->words[0], args->repair, args->from, args->set);
}

/* ---- the command line ---- */

enum { SOCKET = 256, JSON, TIMEOUT, TO, WAIT, NO_WAIT, GUID, PKEYS, REPAIR, FROM, SET, FUNCTION };

#define BIT(option) (1u << ((option)-TO))

static const struct {
	const char *name;
	int least, most;       /* words */
	unsigned wants, takes; /* options */
	int (*run)(struct arguments *args);
} commands[] = {
	{"status", 0, 1, 0, 0, status_command},
	{"plan", 1, 1, BIT(TO), 0, plan_command},
	{"move", 1, 1, BIT(TO), BIT(WAIT) | BIT(NO_WAIT) | BIT(FUNCTION), move_command},
	{"cancel", 1, 1, 0, 0, cancel_command},
	{"add", 1, 1, 0, BIT(GUID) | BIT(PKEYS) | BIT(FUNCTION), add_command},
	{"remove", 1, 1, 0, 0, remove_command},
	{"fence", 1, 1, 0, 0, fence_command},
	{"guid2lid", 1, 1, 0, BIT(REPAIR) | BIT(FROM) | BIT(SET), guid2lid_words},
};

static const struct option options[] = {
	{"socket", required_argument, NULL, SOCKET},
	{"json", no_argument, NULL, JSON},
	{"timeout", required_argument, NULL, TIMEOUT},
	{"to", required_argument, NULL, TO},
	{"wait", required_argument, NULL, WAIT},
	{"no-wait", no_argument, NULL, NO_WAIT},
	{"guid", required_argument, NULL, GUID},
	{"pkeys", required_argument, NULL, PKEYS},
	{"repair", no_argument, NULL, REPAIR},
	{"from", required_argument, NULL, FROM},
	{"set", required_argument, NULL, SET},
	{"function", required_argument, NULL, FUNCTION},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{},
};

static bool seconds(const char *option, double *value)
{
	char *end;

	*value = strtod(optarg, &end);
	if (end != optarg && !*end && *value >= 0 && *value <= 86400)
		return true;
	client_error("--%s: seconds, up to a day", option);
	return false;
}

static bool function_number(int *value)
{
	char *end;
	long number = strtol(optarg, &end, 10);

	*value = (int)number;
	if (*optarg >= '0' && *optarg <= '9' && !*end && number <= 65535)
		return true;
	client_error("--function: its number");
	return false;
}

/* -1: go on; else a status. */
static int set_option(struct arguments *args, int option)
{
	double value;

	if (option >= TO)
		args->given |= BIT(option);
	switch (option) {
	case SOCKET: args->client.socket = optarg; break;
	case JSON: args->client.json = true; break;
	case TIMEOUT:
		if (!seconds("timeout", &value))
			return CLIENT_USAGE;
		args->client.timeout = (unsigned)value;
		break;
	case TO: args->to = optarg; break;
	case WAIT: return seconds("wait", &args->wait) ? -1 : CLIENT_USAGE;
	case NO_WAIT: args->no_wait = true; break;
	case GUID: args->guid = optarg; break;
	case PKEYS: args->pkeys = optarg; break;
	case REPAIR: args->repair = true; break;
	case FROM: args->from = optarg; break;
	case SET: args->set = optarg; break;
	case FUNCTION: return function_number(&args->function) ? -1 : CLIENT_USAGE;
	case 'h': fputs(usage, stdout); return CLIENT_DONE;
	case 'V': puts("lidtrackctl " URXE_VERSION); return CLIENT_DONE;
	}
	return -1;
}

static int run(struct arguments *args, const char *command)
{
	for (unsigned i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(commands[i].name, command) != 0)
			continue;
		if (commands[i].wants & ~args->given)
			return command_misused("%s: --to HOST is missing", command);
		if (args->nwords < commands[i].least || args->nwords > commands[i].most)
			return command_misused("%s: too few words, or too many", command);
		if (args->given & ~commands[i].wants & ~commands[i].takes)
			return command_misused("%s: an option that it does not take", command);
		return commands[i].run(args);
	}
	return command_misused("there is no command \"%s\"", command);
}

int main(int argc, char **argv)
{
	struct arguments args = {.function = -1,
				 .client = {.daemon = "lidtrackd",
					    .cure = "see lidtrackd(8)",
					    .socket = LIDTRACKD_CONTROL,
					    .timeout = 60,
					    .fd = -1}};
	int option, status = -1;

	command_begin();
	while (status < 0 && (option = getopt_long(argc, argv, "hV", options, NULL)) >= 0)
		status = option == '?' ? command_bad_option(argv) : set_option(&args, option);
	if (status >= 0)
		return status;
	if (optind == argc) {
		fputs(usage, stderr);
		return CLIENT_USAGE;
	}
	args.words = argv + optind + 1;
	args.nwords = argc - optind - 1;
	return run(&args, argv[optind]);
}
