// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * OpenSM for an ordinary user. It keeps files in /var/cache/opensm and /var/log, where root alone
 * may write, and does not start without them. On a host of a fabric it gets a folder beside the
 * fabric's socket: by OSM_CACHE_DIR and OSM_TMP_DIR, and for its log by an option. What the user
 * has set stays. One thread.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/urxe.h"

static bool may_write(const char *folder, const char *parent)
{
	return !access(folder, W_OK) || (errno == ENOENT && !access(parent, W_OK));
}

static bool name_folder(char folder[PATH_MAX])
{
	const char *fabric = getenv("URXE_FABRIC"), *host = getenv("URXE_HOST");

	return fabric && host && !strchr(host, '/') &&
	       snprintf(folder, PATH_MAX, "%s.opensm-%s", fabric, host) < PATH_MAX;
}

/* Whether one of the arguments begins with either. */
static bool has_option(char *const *argv, const char *brief, const char *full)
{
	for (; *argv; argv++)
		if (!strncmp(*argv, brief, strlen(brief)) || !strncmp(*argv, full, strlen(full)))
			return true;
	return false;
}

char **urxe_opensm(char **argv)
{
	static char folder[PATH_MAX], log[PATH_MAX + 16];
	const char *slash = strrchr(argv[0], '/');
	unsigned count = 0;
	char **all;

	if ((may_write("/var/cache/opensm", "/var/cache") && may_write("/var/log", "/var")) ||
	    !name_folder(folder))
		return argv;
	setenv("OSM_CACHE_DIR", folder, 0);
	setenv("OSM_TMP_DIR", folder, 0);
	/* A configuration may name the log. */
	if (strcmp(slash ? slash + 1 : argv[0], "opensm") ||
	    has_option(argv + 1, "-F", "--config") || has_option(argv + 1, "-f", "--log_file"))
		return argv;
	while (argv[count])
		count++;
	all = calloc(count + 3, sizeof(*all));
	if (!all || (mkdir(folder, 0700) && errno != EEXIST))
		return argv;
	snprintf(log, sizeof(log), "%s/opensm.log", folder);
	all[0] = argv[0];
	all[1] = "-f";
	all[2] = log;
	memcpy(all + 3, argv + 1, (count - 1) * sizeof(*all));
	return all;
}
