// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A library that is called libibverbs.so.something: what it looks at is the kernel's sysfs, without
 * the view. Loaded by sysfs_calls.
 */
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

__attribute__((visibility("default"))) int blind_sees(const char *file, const char *dir);

/* How many of its ways to look find a file or its directory. */
int blind_sees(const char *file, const char *dir)
{
	struct stat st;
	int found = 0;
	glob_t g = {0};
	FILE *f;
	DIR *d;
	int fd;

	fd = open(file, O_RDONLY);
	if (fd >= 0) {
		close(fd);
		found++;
	}
	f = fopen(file, "r");
	if (f) {
		fclose(f);
		found++;
	}
	d = opendir(dir);
	if (d) {
		closedir(d);
		found++;
	}
	found += !stat(file, &st);
	found += !access(file, F_OK);
	found += !glob(file, 0, NULL, &g);
	globfree(&g);
	return found;
}
