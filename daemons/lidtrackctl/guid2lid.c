// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * lidtrackctl guid2lid: looks at OpenSM's file, and mends it, without any daemon.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemons/common/client.h"
#include "daemons/lidtrackctl/lidtrackctl.h"
#include "migrate/guid2lid.h"

/* "GUID=LID" or "GUID=FIRST-LAST", or false. */
static bool parse_entry(const char *text, struct guid2lid_entry *e)
{
	const char *digits = text + (strncmp(text, "0x", 2) ? 0 : 2);
	size_t len = strspn(digits, "0123456789abcdefABCDEF");
	unsigned long min, max;
	char *end;

	e->guid = strtoull(digits, &end, 16);
	if (len > 16 || end != digits + len || *end != '=')
		return false;
	min = max = strtoul(end + 1, &end, 0);
	if (*end == '-')
		max = strtoul(end + 1, &end, 0);
	e->min = (uint16_t)min;
	e->max = (uint16_t)max;
	return !*end && min && min <= max && max <= GUID2LID_MAX_LID && e->guid;
}

static unsigned print_overlaps(const struct guid2lid *table)
{
	unsigned count = 0;

	for (size_t i = 0; i < table->count; i++) {
		const struct guid2lid_entry *e = &table->entries[i];
		const struct guid2lid_entry *other = guid2lid_overlap(table, e);

		if (!other || other < e)
			continue;
		printf("0x%016" PRIx64 " and 0x%016" PRIx64 " both have LID %u: OpenSM drops one\n",
		       e->guid, other->guid, other->min > e->min ? other->min : e->min);
		count++;
	}
	return count;
}

static int look(const char *path)
{
	struct guid2lid table;
	int ret, status = CLIENT_DONE;

	guid2lid_init(&table);
	ret = guid2lid_read(&table, path);
	if (ret) {
		client_error("%s: %s", path, strerror(-ret));
		return CLIENT_REFUSED;
	}
	printf("%zu entries\n", table.count);
	if (table.damaged) {
		printf("%u lines are damaged, the first is line %u: OpenSM will not start; mend "
		       "them with "
		       "--repair\n",
		       table.damaged, table.first_damaged);
		status = CLIENT_REFUSED;
	}
	if (print_overlaps(&table))
		status = CLIENT_REFUSED;
	guid2lid_destroy(&table);
	return status;
}

/* The entries of another file that this one does not have, and one of the command line. */
static int collect(struct guid2lid *wanted, const char *path, const char *from,
		   const struct guid2lid_entry *set)
{
	struct guid2lid backup, now;
	int ret = 0;

	guid2lid_init(&backup);
	guid2lid_init(&now);
	if (from)
		ret = guid2lid_read(&backup, from);
	if (!ret)
		ret = guid2lid_read(&now, path);
	for (size_t i = 0; i < backup.count && !ret; i++)
		if (!guid2lid_find(&now, backup.entries[i].guid) &&
		    !guid2lid_overlap(&now, &backup.entries[i]))
			ret = guid2lid_set(wanted, &backup.entries[i]);
	if (set && !ret)
		ret = guid2lid_set(wanted, set);
	guid2lid_destroy(&backup);
	guid2lid_destroy(&now);
	return ret;
}

static int change(const char *path, const char *from, const struct guid2lid_entry *set)
{
	struct guid2lid_entry other = {0};
	struct guid2lid_change c = {0};
	struct guid2lid wanted;
	int ret;

	guid2lid_init(&wanted);
	ret = collect(&wanted, path, from, set);
	if (!ret)
		ret = guid2lid_update(path, wanted.entries, wanted.count, &c, sizeof(c), &other);
	if (ret == -EADDRINUSE)
		client_error("%s: 0x%016" PRIx64 " has LID %u; nothing was changed", path,
			     other.guid, other.min);
	else if (ret)
		client_error("%s: %s; nothing was changed", path, strerror(-ret));
	else if (c.damaged)
		printf("%u damaged lines were dropped; the old file is %s.damaged\n", c.damaged,
		       path);
	if (!ret && wanted.count)
		printf("%zu entries were brought in\n", wanted.count);
	guid2lid_destroy(&wanted);
	return ret ? CLIENT_REFUSED : CLIENT_DONE;
}

int guid2lid_command(const char *path, bool repair, const char *from, const char *set)
{
	const char *there = from  ? from
			    : set ? NULL
				  : path; /* that OpenSM could do without it is no excuse */
	struct guid2lid_entry e;

	signal(SIGXFSZ, SIG_IGN); /* a limit is an error of write() */
	if (set && !parse_entry(set, &e)) {
		client_error("--set: GUID=LID or GUID=FIRST-LAST");
		return CLIENT_USAGE;
	}
	if (there && access(there, R_OK)) {
		client_error("%s: %s", there, strerror(errno));
		return CLIENT_REFUSED;
	}
	return repair || from || set ? change(path, from, set ? &e : NULL) : look(path);
}
