// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * urxe fabric: starts, ends, shows and changes virtual fabrics, which are processes of fabricd.
 * Starting one waits until it serves or has said why not; its later messages go to a file beside
 * its socket. One thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemons/common/client.h"
#include "fabric/path.h"
#include "fabric/topology.h"
#include "host/segment.h"
#include "tools/fabric_svg.h"
#include "tools/urxe.h"
#include "wire/fault.h"

#define PATH_LEN 128

static const char help[] =
	"usage: urxe fabric up [--name NAME] FILE   starts a fabric as ibnetdiscover(8) describes "
	"one\n"
	"                                           (- reads it from standard input)\n"
	"       urxe fabric down                    ends it\n"
	"       urxe fabric show [--dot|--svg] [NODE]       its nodes, ports and cables\n"
	"       urxe fabric link NODE PORT up|down  plugs a cable in, or pulls it\n"
	"       urxe fabric node NODE up|down       switches a node on or off\n"
	"       urxe fabric errors NODE PORT [--loss SHARE] [--symbol SHARE] [--delay TIME]\n"
	"                                           damages or delays what leaves there\n"
	"       urxe fabric vf [HOST [NUMBER]] [--guid GUID] [--vm NAME] [--force] [up|down]\n"
	"                                           virtual functions: shows or changes them\n"
	"       urxe fabric status                  how much it has done\n"
	"       urxe fabric generate KIND [NAME=NUMBER...]   prints the description of one:\n"
	"         fat-tree levels=2 ports=8 oversubscription=1 | torus x=4 y=4 z=1 hosts=1\n"
	"         hypercube dimensions=3 hosts=1 | dragonfly a=4 h=2 p=2\n"
	"         and for each host's virtual functions: functions=0 guids=0\n"
	"  --name NAME  which fabric (default: \"" FABRIC_DEFAULT_NAME "\")\n"
	"  --json       answers as the daemon gives them\n"
	"A program runs on a host of it with: urxe run --host HOST -- PROGRAM ARGUMENT...\n";

static struct {
	const char *name;
	bool json, dot, svg, force;
	const char *guid, *vm;
	double loss, symbol;
	uint64_t delay; /* ns */
} options = {.name = FABRIC_DEFAULT_NAME};

static bool socket_of(char path[PATH_LEN], const char *suffix, bool make)
{
	int ret = fabric_path(options.name, make, path, PATH_LEN - 16);

	if (ret == -EINVAL)
		urxe_complain("\"%s\" cannot name a fabric: up to 32 characters without a slash",
			      options.name);
	else if (ret == -ENOENT)
		urxe_fabric_is_down(options.name);
	else if (ret == -EPERM)
		urxe_complain(
			"the folder of the fabric's socket is not this user's alone; remove it");
	else if (ret)
		urxe_complain("the fabric's socket: %s", strerror(-ret));
	strcat(path, suffix);
	return !ret;
}

/* ---- up ---- */

static void become_daemon(const char *path, const char *file, const char *log, int ready, int said)
{
	char number[16];
	int null = open("/dev/null", O_RDWR);

	setsid();
	snprintf(number, sizeof(number), "%d", ready);
	if (strcmp(file, "-"))
		dup2(null, 0);
	dup2(said, 1);
	dup2(said, 2);
	execl(path, "fabricd", "-n", options.name, "-l", log, "-r", number, file, (char *)NULL);
	_exit(URXE_EXIT_CANNOT);
}

/* What the daemon says until it serves ("up") or has ended goes to stderr. */
static int wait_until_up(int ready, int said)
{
	char text[1024], word[8] = "";
	ssize_t n = read(ready, word, sizeof(word) - 1);

	if (n > 0 && !strncmp(word, "up", 2)) {
		/* Warnings that came before it. */
		fcntl(said, F_SETFL, O_NONBLOCK);
		while ((n = read(said, text, sizeof(text))) > 0)
			fwrite(text, 1, n, stderr);
		return 0;
	}
	while ((n = read(said, text, sizeof(text))) > 0)
		fwrite(text, 1, n, stderr);
	return 1;
}

static int up(int argc, char **argv)
{
	char daemon[PATH_MAX], log[PATH_LEN];
	int ready[2], said[2], ret;
	pid_t pid;

	if (argc != 2) {
		urxe_complain("up takes the file that describes the fabric: urxe fabric up FILE");
		return URXE_EXIT_USAGE;
	}
	if (access(argv[1], R_OK) && strcmp(argv[1], "-")) {
		urxe_complain("%s: %s", argv[1], strerror(errno));
		return 1;
	}
	if (!urxe_find_daemon("fabricd", daemon) || !socket_of(log, ".log", true))
		return 1;
	if (pipe(ready) || pipe(said)) {
		urxe_complain("%s", strerror(errno));
		return 1;
	}
	fcntl(ready[0], F_SETFD, FD_CLOEXEC);
	fcntl(said[0], F_SETFD, FD_CLOEXEC);
	fcntl(said[1], F_SETFD, FD_CLOEXEC);
	pid = fork();
	if (!pid)
		become_daemon(daemon, argv[1], log, ready[1], said[1]);
	close(ready[1]);
	close(said[1]);
	ret = pid < 0 ? 1 : wait_until_up(ready[0], said[0]);
	return ret;
}

/* ---- show ---- */

static const char *text(struct json_object *o, const char *key)
{
	struct json_object *v;

	return json_object_object_get_ex(o, key, &v) ? json_object_get_string(v) : "";
}

static int number(struct json_object *o, const char *key)
{
	struct json_object *v;

	return json_object_object_get_ex(o, key, &v) ? json_object_get_int(v) : 0;
}

/* A fault of a link. */
static void print_share(struct json_object *port, const char *key)
{
	struct json_object *v;

	if (json_object_object_get_ex(port, key, &v))
		printf("  %s %.6g", key, json_object_get_double(v));
}

static void print_cable(struct json_object *port)
{
	struct json_object *delay;
	const char *ip = text(port, "ip");
	char lid[16] = "";

	if (number(port, "lid"))
		snprintf(lid, sizeof(lid), "lid %d", number(port, "lid"));
	printf("  %3d  %-9s %-6s %2dx%-5s  %s[%d]%s%s", number(port, "port"), lid,
	       text(port, "state"), number(port, "width"), text(port, "speed"), text(port, "peer"),
	       number(port, "peer_port"), *ip ? "  " : "", ip);
	print_share(port, "loss");
	print_share(port, "symbol");
	if (json_object_object_get_ex(port, "delay", &delay))
		printf("  delay %.9gus", (double)json_object_get_int64(delay) / 1e3);
	putchar('\n');
}

/* For graphviz: a cable is drawn from the end whose name comes first. */
static void print_dot(struct json_object *node)
{
	struct json_object *cables;
	const char *guid = text(node, "guid");

	printf("\t\"%s\" [label=\"%s\"%s];\n", guid, text(node, "node"),
	       strcmp(text(node, "type"), "switch") ? "" : ", shape=box");
	if (!json_object_object_get_ex(node, "cables", &cables))
		return;
	for (size_t i = 0; i < json_object_array_length(cables); i++) {
		struct json_object *port = json_object_array_get_idx(cables, i);
		int order = strcmp(guid, text(port, "peer_guid"));

		if (order < 0 || (!order && number(port, "port") < number(port, "peer_port")))
			printf("\t\"%s\" -- \"%s\" [taillabel=%d, headlabel=%d%s];\n", guid,
			       text(port, "peer_guid"), number(port, "port"),
			       number(port, "peer_port"),
			       strcmp(text(port, "state"), "Active") ? ", style=dashed" : "");
	}
}

static void print_function(struct json_object *function)
{
	char guid[24] = "-";

	if (strcmp(text(function, "guid"), "0x0000000000000000"))
		snprintf(guid, sizeof(guid), "%s", text(function, "guid"));
	printf("%-20s  %3d  %-18s  lid %-5d  %-6s  %s\n", text(function, "switch"),
	       number(function, "function"), guid, number(function, "lid"), text(function, "state"),
	       text(function, "node"));
}

static void print_node(struct json_object *node)
{
	struct json_object *cables;

	if (json_object_object_get_ex(node, "switch", NULL)) {
		print_function(node);
		return;
	}
	if (options.svg) {
		if (fabric_svg_add(node))
			urxe_complain("out of memory");
		return;
	}
	if (options.dot) {
		print_dot(node);
		return;
	}
	printf("%s  %s  %s, %d ports", text(node, "node"), text(node, "guid"), text(node, "type"),
	       number(node, "ports"));
	if (*text(node, "host") && strcmp(text(node, "host"), text(node, "node")))
		printf(", host %s", text(node, "host"));
	if (number(node, "lid"))
		printf(", lid %d", number(node, "lid"));
	putchar('\n');
	if (!json_object_object_get_ex(node, "cables", &cables))
		return;
	for (size_t i = 0; i < json_object_array_length(cables); i++)
		print_cable(json_object_array_get_idx(cables, i));
}

static void print_answer(struct json_object *answer)
{
	json_object_object_foreach(answer, key, value)
	{
		if (strcmp(key, "ok"))
			printf("%s: %s\n", key, json_object_get_string(value));
	}
}

/* ---- commands ---- */

static int ask(struct json_object *request, bool print)
{
	char path[PATH_LEN];
	struct client client = {.daemon = "fabricd",
				.cure = "urxe fabric up FILE starts it",
				.socket = path,
				.json = options.json,
				.fd = -1,
				.each = print_node};
	struct json_object *answer = NULL;
	int ret;

	if (!socket_of(path, "", false) || !urxe_fabric_is_up(options.name, path)) {
		json_object_put(request);
		return 1;
	}
	strcat(path, ".control");
	if (access(path, F_OK)) { /* it begins, or ends */
		urxe_fabric_is_down(options.name);
		json_object_put(request);
		return 1;
	}
	ret = client_open(&client);
	if (ret)
		json_object_put(request);
	else
		ret = client_ask(&client, request, &answer);
	if (!ret && print && answer)
		print_answer(answer);
	json_object_put(answer);
	client_close(&client);
	return ret;
}

static struct json_object *request_of(const char *command, const char *node)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "command", json_object_new_string(command));
	if (node)
		json_object_object_add(o, "node", json_object_new_string(node));
	return o;
}

static int usage(void)
{
	urxe_complain("too few words for urxe fabric, or too many: see urxe fabric --help");
	return URXE_EXIT_USAGE;
}

static int show(int argc, char **argv)
{
	int ret;

	if (argc > 2)
		return usage();
	if (options.svg) {
		ret = ask(request_of("show", argv[1]), false);
		return !ret && fabric_svg_write(stdout) ? 1 : ret;
	}
	if (!options.dot)
		return ask(request_of("show", argv[1]), false);
	puts("graph fabric {\n\toverlap = false;");
	ret = ask(request_of("show", argv[1]), false);
	puts("}");
	return ret;
}

static bool is_number(const char *word)
{
	return *word && !word[strspn(word, "0123456789")];
}

/* What is no number is no port either, which fabricd says. */
static struct json_object *port_number(const char *word)
{
	return json_object_new_int(is_number(word) ? atoi(word) : -1);
}

static bool is_state(const char *word)
{
	return !strcmp(word, "up") || !strcmp(word, "down");
}

/* "down L0 19" is "L0 19 down". */
static void move_state_to_end(int argc, char **argv)
{
	char *state = argv[1];

	if (!is_state(state) || is_state(argv[argc - 1]))
		return;
	memmove(argv + 1, argv + 2, (argc - 2) * sizeof(*argv));
	argv[argc - 1] = state;
}

static int link_command(int argc, char **argv)
{
	struct json_object *o;

	if (argc != 4)
		return usage();
	move_state_to_end(argc, argv);
	o = request_of("link", argv[1]);
	json_object_object_add(o, "port", port_number(argv[2]));
	json_object_object_add(o, "state", json_object_new_string(argv[3]));
	return ask(o, false);
}

static int node_command(int argc, char **argv)
{
	struct json_object *o;

	if (argc != 3)
		return usage();
	move_state_to_end(argc, argv);
	o = request_of("node", argv[1]);
	json_object_object_add(o, "state", json_object_new_string(argv[2]));
	return ask(o, false);
}

/* [HOST] [NUMBER] [up|down] */
static int function_command(int argc, char **argv)
{
	struct json_object *o;
	int at = 1;

	o = request_of("vf", argc > 1 ? argv[at++] : NULL);
	if (at < argc && is_number(argv[at]))
		json_object_object_add(o, "function", json_object_new_int(atoi(argv[at++])));
	if (at < argc)
		json_object_object_add(o, "state", json_object_new_string(argv[at++]));
	if (options.guid)
		json_object_object_add(
			o, "guid",
			json_object_new_string(strcmp(options.guid, "none") ? options.guid : "0"));
	if (options.vm)
		json_object_object_add(o, "name", json_object_new_string(options.vm));
	if (options.force)
		json_object_object_add(o, "force", json_object_new_boolean(true));
	if (at == argc)
		return ask(o, false);
	json_object_put(o);
	return usage();
}

static int errors(int argc, char **argv)
{
	struct json_object *o;

	if (argc != 3)
		return usage();
	o = request_of("errors", argv[1]);
	json_object_object_add(o, "port", port_number(argv[2]));
	json_object_object_add(o, "loss", json_object_new_double(options.loss));
	json_object_object_add(o, "symbol", json_object_new_double(options.symbol));
	json_object_object_add(o, "delay", json_object_new_int64((int64_t)options.delay));
	return ask(o, false);
}

static int status(int argc, char **argv)
{
	return argc > 1 ? usage() : ask(request_of("status", NULL), true);
}

static int generate(int argc, char **argv)
{
	char error[TOPOLOGY_ERROR_LEN];
	struct topology t;

	if (topology_generate(&t, argc - 1, argv + 1, error)) {
		urxe_complain("%s", error);
		return URXE_EXIT_USAGE;
	}
	printf("# urxe fabric");
	for (int i = 0; i < argc; i++)
		printf(" %s", argv[i]);
	putchar('\n');
	topology_write(&t, stdout);
	topology_free(&t);
	return 0;
}

static int down(int argc, char **argv)
{
	char path[PATH_LEN];
	int ret;

	if (argc > 1)
		return usage();
	if (!socket_of(path, "", false))
		return 1;
	ret = fabric_remove_killed(path) ? 0 : ask(request_of("down", NULL), false);
	if (ret)
		return ret;
	/* Until the socket is gone, so that the next fabric can take its place. */
	for (int i = 0; i < 500 && !access(path, F_OK); i++)
		usleep(10000);
	setenv("URXE_FABRIC", path, 1);
	urxe_segment_remove();
	return 0;
}

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} commands[] = {{"up", up},
		{"down", down},
		{"show", show},
		{"link", link_command},
		{"node", node_command},
		{"errors", errors},
		{"vf", function_command},
		{"status", status},
		{"generate", generate}};

static bool share(const char *arg, double *to)
{
	char *end;

	*to = strtod(arg, &end);
	if (end != arg && *end == '%' && !end[1]) {
		*to /= 100;
		end++;
	}
	if (end != arg && !*end && *to >= 0 && *to <= 1)
		return true;
	urxe_complain("\"%s\" is no share of the packets: 1e-6, 0.1 or 5%%", arg);
	return false;
}

/* As URXE_FAULT has it. */
static bool parse_delay(const char *arg)
{
	char spec[64], err[200];
	struct urxe_fault fault;

	if (!strchr(arg, ',') &&
	    (size_t)snprintf(spec, sizeof(spec), "delay=%s", arg) < sizeof(spec) &&
	    !urxe_fault_parse(spec, &fault, err, sizeof(err))) {
		options.delay = fault.delay;
		return true;
	}
	urxe_complain("\"%s\" is no delay: a number with ns, us, ms or s, at most 10s", arg);
	return false;
}

int urxe_cmd_fabric(int argc, char **argv)
{
	static const struct option known[] = {
		{"name", required_argument, NULL, 'n'},	  {"json", no_argument, NULL, 'j'},
		{"dot", no_argument, NULL, 'd'},	  {"svg", no_argument, NULL, 'p'},
		{"guid", required_argument, NULL, 'g'},	  {"vm", required_argument, NULL, 'v'},
		{"force", no_argument, NULL, 'f'},	  {"loss", required_argument, NULL, 'l'},
		{"symbol", required_argument, NULL, 's'}, {"delay", required_argument, NULL, 't'},
		{"help", no_argument, NULL, 'h'},	  {NULL}};
	int c;

	while ((c = getopt_long(argc, argv, "h", known, NULL)) != -1) {
		switch (c) {
		case 'n': options.name = optarg; break;
		case 'j': options.json = true; break;
		case 'd': options.dot = true; break;
		case 'p': options.svg = true; break;
		case 'g': options.guid = optarg; break;
		case 'v': options.vm = optarg; break;
		case 'f': options.force = true; break;
		case 'l':
		case 's':
			if (!share(optarg, c == 'l' ? &options.loss : &options.symbol))
				return URXE_EXIT_USAGE;
			break;
		case 't':
			if (!parse_delay(optarg))
				return URXE_EXIT_USAGE;
			break;
		case 'h': fputs(help, stdout); return 0;
		default:
			urxe_complain("%s is not an option of urxe fabric, see urxe fabric --help",
				      argv[optind - 1]);
			return URXE_EXIT_USAGE;
		}
	}
	argc -= optind;
	argv += optind;
	for (unsigned i = 0; argc && i < sizeof(commands) / sizeof(*commands); i++)
		if (!strcmp(argv[0], commands[i].name))
			return commands[i].run(argc, argv);
	if (argc)
		urxe_complain("\"%s\" is not a command of urxe fabric, see urxe fabric --help",
			      argv[0]);
	else
		fputs(help, stderr);
	return URXE_EXIT_USAGE;
}
