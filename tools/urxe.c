/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The urxe command: picks the subcommand. See urxe(1). One thread.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/command.h"
#include "tools/urxe.h"

static const char help[] =
	"urxe runs RDMA programs on machines without RDMA: a RoCE adapter in user space.\n"
	"\n"
	"usage: urxe run [--devices LIST] [--fault SPEC] [--log LEVEL] [--pool] [--] PROGRAM "
	"[ARGUMENT...]\n"
	"       urxe devices\n"
	"       urxe counters [DEVICE]\n"
	"       urxe listeners\n"
	"       urxe fault DEVICE SPEC|off\n"
	"       urxe fabric up|down|show|link|node|errors|vf|status|generate ...\n"
	"       urxe ipoib --host HOST [ADDRESS/PREFIX...] [-- COMMAND...]\n"
	"       urxe --help | --version\n"
	"\n"
	"  run       runs PROGRAM with the adapter in it; its children inherit it\n"
	"    --devices LIST   which devices there are: \"urxe0=eth0,urxe1=lo\"\n"
	"                     (without it, one for each netdev that is up and has an address)\n"
	"    --fault SPEC     damages packets on purpose: \"drop=2%,dup=1%,reorder=5%,seed=7\"\n"
	"    --log LEVEL      error (default), warn, info or debug\n"
	"    --host HOST      it runs on that host of a virtual InfiniBand fabric\n"
	"    --fabric NAME    which fabric that is, if there are several\n"
	"    --pool           its large allocations come from a pool that peers can map\n"
	"  devices   lists the devices with netdev, state, MTU and GIDs\n"
	"  counters  shows the counters of a device, or of all, summed over all processes\n"
	"  listeners lists which process is bound to, or listens on, which port of librdmacm\n"
	"  fault     changes the damage on a device while programs run; off ends it\n"
	"  fabric    starts and changes virtual InfiniBand fabrics: urxe fabric --help\n"
	"  ipoib     IP over InfiniBand on a host of one: urxe ipoib --help\n"
	"\n"
	"To try it, on one machine, in two terminals (Debian: apt install perftest):\n"
	"\n"
	"    urxe run -- ib_write_bw -d urxe0\n"
	"    urxe run -- ib_write_bw -d urxe0 127.0.0.1\n"
	"\n"
	"`urxe run -- ibv_devinfo -v` shows what programs see. More: man urxe (command), man 7 "
	"urxe\n"
	"(devices, configuration, limits).\n";

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} commands[] = {
	{"run", urxe_cmd_run},		 {"devices", urxe_cmd_devices},
	{"counters", urxe_cmd_counters}, {"listeners", urxe_cmd_listeners},
	{"fault", urxe_cmd_fault},
#ifdef URXE_WITH_FABRIC
	{"fabric", urxe_cmd_fabric},	 {"ipoib", urxe_cmd_ipoib},
#endif
};

void urxe_complain(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fputs("urxe: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

bool urxe_find_daemon(const char *name, char path[PATH_MAX])
{
	char self[PATH_MAX], *slash;
	bool built;
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	self[len > 0 ? len : 0] = '\0';
	slash = strrchr(self, '/');
	if (slash)
		*slash = '\0';
	for (int in_build = 0; in_build < 2; in_build++) {
		int n = in_build ? snprintf(path, PATH_MAX, "%s/daemons/%s/%s", self, name, name)
				 : snprintf(path, PATH_MAX, "%s/%s", self, name);

		if (n < PATH_MAX && !access(path, X_OK))
			return true;
	}
	built = snprintf(path, PATH_MAX, "%s/build.ninja", self) < PATH_MAX && !access(path, F_OK);
	urxe_complain(built ? "%s has not been built yet: ninja -C %s"
			    : "%s is not in %s; install it beside urxe",
		      name, self);
	return false;
}

static bool is_one_of(const char *arg, const char *a, const char *b, const char *c)
{
	return !strcmp(arg, a) || !strcmp(arg, b) || !strcmp(arg, c);
}

int main(int argc, char **argv)
{
	unsigned i;

	command_begin();
	if (argc < 2) {
		fputs(help, stderr);
		return URXE_EXIT_USAGE;
	}
	if (is_one_of(argv[1], "--help", "-h", "help")) {
		fputs(help, stdout);
		return 0;
	}
	if (is_one_of(argv[1], "--version", "-V", "version")) {
		puts("urxe " URXE_VERSION);
		return 0;
	}
	for (i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		if (strcmp(argv[1], commands[i].name))
			continue;
		if (argc == 3 && strcmp(argv[1], "fabric") && strcmp(argv[1], "ipoib") &&
		    is_one_of(argv[2], "--help", "-h", "-?")) {
			fputs(help, stdout);
			return 0;
		}
		return commands[i].run(argc - 1, argv + 1);
	}
	urxe_complain("\"%s\" is not a command; the commands are run, devices, counters, "
		      "listeners, fault, fabric and ipoib (to run a program: urxe run -- %s ...)",
		      argv[1], argv[1]);
	return URXE_EXIT_USAGE;
}
