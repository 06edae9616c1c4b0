/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Folders for the files that a daemon makes. At the start, in the loop's thread.
 */
#ifndef DAEMON_FOLDER_H
#define DAEMON_FOLDER_H

#include <sys/types.h>

/*
 * Makes the folder of a file, if it is not there, and gives it to that user ("": the process's). A
 * folder that exists is left as it is. 0 or a negative errno.
 */
int folder_make(const char *file, mode_t mode, const char *user);

#endif
