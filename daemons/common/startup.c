/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The beginning of a daemon, which stays in the foreground: options, signals that are no end,
 * limits.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "common/command.h"
#include "daemons/common/log.h"
#include "daemons/common/startup.h"

#define FEW_DESCRIPTORS 64 /* a daemon without clients needs up to 30 */

int startup_options(int argc, char **argv, const char *name, const char *usage,
		    struct config_source *source)
{
	static const struct option words[] = {
		{"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {}};
	int option;

	command_begin();
	log_init(name);
	while ((option = getopt_long(argc, argv, "c:o:dVh", words, NULL)) >= 0) {
		switch (option) {
		case 'V': printf("%s %s\n", name, URXE_VERSION); exit(0);
		case 'h': fputs(usage, stdout); exit(0);
		case 'c': source->file = optarg; continue;
		case 'o':
		case 'd':
			if (source->noptions == CONFIG_MAX_OPTIONS) {
				command_misused("more than %d options -o", CONFIG_MAX_OPTIONS);
				return -1;
			}
			source->options[source->noptions++] =
				option == 'd' ? "log_level debug" : optarg;
			continue;
		}
		command_bad_option(argv);
		return -1;
	}
	return optind;
}

void startup_limits(void)
{
	struct rlimit limit;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	if (limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	if (limit.rlim_cur < FEW_DESCRIPTORS)
		log_warning("%llu descriptors may be open, which may be too few: raise the limit "
			    "(ulimit -n, LimitNOFILE)",
			    (unsigned long long)limit.rlim_cur);
}
