// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Functions that something else looks after: a file with a line for each, its GUID or "-". It is
 * written anew beside the old one and renamed, so that whoever reads it, or watches it, finds all
 * of it. Any thread.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "migrate/function.h"

/* A line that is not whole may be being written. */
static int read_line(const char *line, uint64_t *guid)
{
	char *end;

	*guid = 0;
	if (!strcmp(line, "-\n"))
		return 0;
	*guid = strtoull(line, &end, 16);
	return isxdigit((unsigned char)*line) && !strcmp(end, "\n") ? 0 : -EBADMSG;
}

static int list(const char *where, struct function *functions, size_t room)
{
	FILE *f = fopen(where, "re");
	char line[64];
	int count = 0, ret = 0;

	if (!f)
		return -errno;
	while (!ret && fgets(line, sizeof(line), f)) {
		struct function function = {.number = count + 1};

		ret = (size_t)count == room ? -E2BIG : read_line(line, &function.guid);
		if (!ret)
			functions[count++] = function;
	}
	if (!ret && ferror(f))
		ret = -errno;
	fclose(f);
	return ret ? ret : count;
}

static int write_all(const char *path, const struct function *functions, int count)
{
	FILE *f = fopen(path, "we");
	int ret;

	if (!f)
		return -errno;
	for (int i = 0; i < count; i++)
		if (functions[i].guid)
			fprintf(f, "0x%016" PRIx64 "\n", functions[i].guid);
		else
			fputs("-\n", f);
	ret = fflush(f) || fsync(fileno(f)) ? -errno : 0;
	if (fclose(f) && !ret)
		ret = -errno;
	return ret;
}

static int change(const char *where, int number, uint64_t guid)
{
	struct function functions[FUNCTION_MAX];
	int count = list(where, functions, FUNCTION_MAX), ret;
	char beside[PATH_MAX];

	if (count < 0)
		return count;
	if (number < 1 || number > count)
		return -ENOENT;
	functions[number - 1].guid = guid;
	snprintf(beside, sizeof(beside), "%s.new", where);
	ret = write_all(beside, functions, count);
	if (!ret && rename(beside, where))
		ret = -errno;
	if (ret)
		unlink(beside);
	return ret;
}

static int set(const char *where, int number, const struct record *record)
{
	return change(where, number, record->guid);
}

static int clear(const char *where, int number)
{
	return change(where, number, 0);
}

const struct function_provider function_file = {"file", list, NULL, set, clear};
