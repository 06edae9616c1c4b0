/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Folders for the files that sacached makes. At the start, in the loop's thread.
 */
#ifndef SACACHED_FOLDER_H
#define SACACHED_FOLDER_H

#include <sys/types.h>

/*
 * Makes the folder of a file, if it is not there, as that user's ("": the process's). What is there is
 * left as it is. 0 or a negative errno.
 */
int folder_make(const char *file, mode_t mode, const char *user);

#endif
