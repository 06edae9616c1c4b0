// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * urxe ipoib: urxe-ipoib on a host of a virtual fabric. With a command it makes a network namespace,
 * the interface in it, and runs the command there, on the same host:
 *
 *	urxe ipoib ──► urxe run --host H -- urxe-ipoib		until the command has ended
 *	          └──► urxe run --host H -- COMMAND		once the interface is up, or waits
 *
 * Without addresses the interface has one that follows from the fabric, and hosts' names lead to
 * those. One thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/outer_user.h"
#include "fabric/ip.h"
#include "fabric/path.h"
#include "host/fabric.h"
#include "tools/urxe.h"

#define MAX_WORDS 64
#define HOST_NET  (10u << 24 | 77u << 16) /* of addresses that follow from the fabric */

static const char help[] =
	"usage: urxe ipoib --host HOST [OPTION]... [ADDRESS/PREFIX]... [-- COMMAND [ARGUMENT]...]\n"
	"IP over InfiniBand on a host of a virtual fabric.\n"
	"  With COMMAND: runs it in a network namespace of its own, with the interface in it.\n"
	"  Without: the interface is in this network namespace until this ends.\n"
	"  Without an address: 10.77.x.y/16 from the fabric, and names of hosts lead there.\n"
	"    --host HOST     of the fabric\n"
	"    --fabric NAME   which fabric that is, if there are several\n"
	"    --pkey P_KEY    the partition, as 0x8001; the first of the port's without it\n"
	"    --dev NAME      of the interface; ib0, with --pkey ib0.8001\n"
	"    --port N        of the adapter\n"
	"    --verbose       says what it does\n"
	"       urxe ipoib show [NAME] [neighbours|groups]\n"
	"  state and counters of an interface of this network namespace\n";

struct options {
	const char *host, *fabric;
	bool verbose, addressed;
	unsigned num_pass, num_words;
	char *pass[MAX_WORDS]; /* options and addresses for urxe-ipoib */
	char **command;	       /* NULL: none */
};

static bool pass(struct options *o, char *word)
{
	if (o->num_pass + 8 >= MAX_WORDS) {
		urxe_complain("too many addresses");
		return false;
	}
	o->pass[o->num_pass++] = word;
	return true;
}

static bool read_options(int argc, char **argv, struct options *o)
{
	static const struct option known[] = {{"host", required_argument, NULL, 'h'},
					      {"fabric", required_argument, NULL, 'f'},
					      {"pkey", required_argument, NULL, 'P'},
					      {"dev", required_argument, NULL, 'n'},
					      {"port", required_argument, NULL, 'p'},
					      {"verbose", no_argument, NULL, 'v'},
					      {}};
	static char words[3][3] = {"-P", "-n", "-p"};
	int option;

	while ((option = getopt_long(argc, argv, "+:", known, NULL)) != -1) {
		unsigned i = option == 'P' ? 0 : option == 'n' ? 1 : 2;

		switch (option) {
		case 'h': o->host = optarg; continue;
		case 'f': o->fabric = optarg; continue;
		case 'v': o->verbose = true; continue;
		case 'P':
		case 'n':
		case 'p':
			if (!pass(o, words[i]) || !pass(o, optarg))
				return false;
			continue;
		default:
			urxe_complain("%s %s, see urxe ipoib --help", argv[optind - 1],
				      option == ':' ? "needs a value"
						    : "is not an option of urxe ipoib");
			return false;
		}
	}
	if (!strcmp(argv[optind - 1], "--")) /* no addresses */
		o->command = argv + optind;
	for (; !o->command && optind < argc; optind++) {
		if (!strcmp(argv[optind], "--")) {
			o->command = argv + optind + 1;
		} else {
			o->addressed = true;
			if (!pass(o, argv[optind]))
				return false;
		}
	}
	if (o->command && !*o->command) {
		urxe_complain("-- is followed by a command");
		return false;
	}
	if (!o->host)
		urxe_complain("--host is missing: on which host of the fabric?");
	return o->host;
}

/* ---- the network namespace ---- */

static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

static bool lo_up(void)
{
	struct ifreq ifr = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool ok = fd >= 0 && !ioctl(fd, SIOCSIFFLAGS, &ifr);

	if (fd >= 0)
		close(fd);
	return ok;
}

/* A user who may not make one alone makes it with a user namespace, and is root in there. */
static bool make_namespace(void)
{
	char uids[32], gids[32], outer[16];

	snprintf(outer, sizeof(outer), "%u", outer_user());
	snprintf(uids, sizeof(uids), "0 %u 1", geteuid());
	snprintf(gids, sizeof(gids), "0 %u 1", getegid());
	if (unshare(CLONE_NEWNET)) {
		if (unshare(CLONE_NEWUSER | CLONE_NEWNET)) {
			urxe_complain("no network namespace can be made: %s; run it as root, or "
				      "allow user namespaces (sysctl user.max_user_namespaces, "
				      "kernel.unprivileged_userns_clone)",
				      strerror(errno));
			return false;
		}
		if (!write_file("/proc/self/setgroups", "deny") ||
		    !write_file("/proc/self/uid_map", uids) ||
		    !write_file("/proc/self/gid_map", gids)) {
			urxe_complain("user namespace: %s", strerror(errno));
			return false;
		}
		setenv(OUTER_USER, outer, 1);
	}
	if (lo_up())
		return true;
	urxe_complain("lo: %s", strerror(errno));
	return false;
}

/* ---- addresses ---- */

/* 10.77.x.y/16, where 127.77.x.y is the host's first port without IPoIB. */
static bool own_address(char text[32])
{
	const struct urxe_fabric_host *host = urxe_fabric_host();
	uint32_t ip;

	if (!host)
		return false;
	ip = fabric_ip_of_port(host->map,
			       fabric_map_node(host->map, host->adapters[0])->first_port + 1);
	ip = HOST_NET | (ip & 0xffff);
	snprintf(text, 32, "%u.%u.%u.%u/16", ip >> 24, ip >> 16 & 0xff, ip >> 8 & 0xff, ip & 0xff);
	return true;
}

/* ---- the two programs ---- */

static int run(const struct options *o, char *const *words)
{
	char *argv[MAX_WORDS + 8] = {"run",	 "--host",	    (char *)o->host,
				     "--fabric", (char *)o->fabric, "--"};
	char **all;
	int n = 6, count = 0;

	while (words[count])
		count++;
	all = calloc((size_t)(n + count + 1), sizeof(*all));
	if (!all)
		return URXE_EXIT_CANNOT;
	memcpy(all, argv, (size_t)n * sizeof(*all));
	memcpy(all + n, words, (size_t)count * sizeof(*all));
	optind = 0;
	return urxe_cmd_run(n + count, all);
}

static int run_daemon(struct options *o, int ready)
{
	static char path[PATH_MAX], number[16], address[32];
	char *words[MAX_WORDS + 4] = {path};
	unsigned n = 1;

	if (!urxe_find_daemon("urxe-ipoib", path) || (!o->addressed && !own_address(address)))
		return 1;
	if (ready >= 0) {
		snprintf(number, sizeof(number), "%d", ready);
		words[n++] = "-r";
		words[n++] = number;
	}
	if (o->verbose)
		words[n++] = "-v";
	memcpy(words + n, o->pass, o->num_pass * sizeof(*words));
	n += o->num_pass;
	if (!o->addressed)
		words[n] = address;
	return run(o, words);
}

static pid_t command;

static void forward(int number)
{
	if (command > 0)
		kill(command, number);
}

static int status_of(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static pid_t start_daemon(struct options *o)
{
	int ready[2];
	char word;
	pid_t parent = getpid(), pid;
	ssize_t n;

	if (pipe2(ready, 0))
		return -1;
	pid = fork();
	if (!pid) {
		close(ready[0]);
		/* ^C is for the command. */
		signal(SIGINT, SIG_IGN);
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		_exit(getppid() == parent ? run_daemon(o, ready[1]) : 1);
	}
	close(ready[1]);
	do
		n = pid > 0 ? read(ready[0], &word, 1) : 0;
	while (n < 0 && errno == EINTR);
	close(ready[0]);
	if (pid > 0 && n != 1) {
		waitpid(pid, NULL, 0);
		return -1; /* it has said why */
	}
	return pid;
}

static int run_command(struct options *o)
{
	struct sigaction act = {.sa_handler = forward};
	pid_t daemon = start_daemon(o), parent = getpid();
	int status = 0;

	if (daemon < 0)
		return 1;
	if (!o->addressed)
		setenv("URXE_HOST_NET", "10.77.0.0", 1);
	command = fork();
	if (!command) {
		/* Without its interface it has no network. */
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		_exit(getppid() == parent ? run(o, o->command) : 1);
	}
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	sigaction(SIGTERM, &act, NULL);
	sigaction(SIGHUP, &act, NULL);
	while (command > 0 && waitpid(command, &status, 0) < 0 && errno == EINTR)
		;
	kill(daemon, SIGTERM);
	waitpid(daemon, NULL, 0);
	return command < 0 ? 1 : status_of(status);
}

static int show(int argc, char **argv)
{
	char path[PATH_MAX];
	const char *name = "ib0", *what = "status";

	for (int i = 2; i < argc; i++) {
		if (!strcmp(argv[i], "neighbours") || !strcmp(argv[i], "groups"))
			what = argv[i];
		else
			name = argv[i];
	}
	if (!urxe_find_daemon("urxe-ipoib", path))
		return 1;
	execl(path, "urxe-ipoib", "-s", name, what, (char *)NULL);
	urxe_complain("%s: %s", path, strerror(errno));
	return 1;
}

int urxe_cmd_ipoib(int argc, char **argv)
{
	struct options o = {.fabric = FABRIC_DEFAULT_NAME};

	if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		fputs(help, argc < 2 ? stderr : stdout);
		return argc < 2 ? URXE_EXIT_USAGE : 0;
	}
	if (!strcmp(argv[1], "show"))
		return show(argc, argv);
	if (!read_options(argc, argv, &o))
		return URXE_EXIT_USAGE;
	if (o.command && !make_namespace())
		return 1;
	if (!urxe_on_host(o.fabric, o.host))
		return 1;
	return o.command ? run_command(&o) : run_daemon(&o, -1);
}
