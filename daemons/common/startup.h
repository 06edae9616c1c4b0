/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What every daemon's main() begins with. Before there is another thread.
 */
#ifndef DAEMON_STARTUP_H
#define DAEMON_STARTUP_H

#include "daemons/common/config_file.h"

/*
 * The options that all daemons have: -c FILE, -o "KEY VALUE", -d (log_level debug), -V and -h,
 * which print and exit. Starts the log under that name. Returns the index of the first word that is
 * no option, or -1 after a line about one that there is not: exit with 2.
 */
int startup_options(int argc, char **argv, const char *name, const char *usage,
		    struct config_source *source);
/*
 * A client that is gone, or a limit of file sizes, is an error of write() from now on and not the
 * end; and as many descriptors may be open as the hard limit allows. Where those are few, a warning
 * names the cure.
 */
void startup_limits(void);

#endif
