/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The hosts file in memory. A worker thread builds a new table and owns it until it ends; then the
 * table replaces the one before. All else runs in the loop's thread.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "daemons/common/log.h"
#include "daemons/common/task.h"
#include "daemons/sacached/names.h"

struct name {
	char *name;
	size_t line; /* the first line that has a name counts */
	struct in6_addr ip;
};

struct name_table {
	struct name *name; /* sorted by name, then by line */
	size_t count, room;
};

struct names {
	struct event_base *base;
	const char *path;
	char folder[256];
	int watch; /* inotify; -1: not available */
	struct event *changed;
	struct task *task;
	bool again; /* it changed while it was being read */
	struct name_table table;
	struct name_table fresh; /* the task's */
};

bool names_parse(const char *text, struct in6_addr *ip)
{
	struct in_addr v4;

	if (inet_pton(AF_INET, text, &v4) != 1)
		return inet_pton(AF_INET6, text, ip) == 1;
	memset(ip, 0, sizeof(*ip));
	memset(&ip->s6_addr[10], 0xff, 2);
	memcpy(&ip->s6_addr[12], &v4, 4);
	return true;
}

static int compare_names(const void *a, const void *b)
{
	return strcasecmp(((const struct name *)a)->name, ((const struct name *)b)->name);
}

static int compare(const void *a, const void *b)
{
	size_t line_a = ((const struct name *)a)->line, line_b = ((const struct name *)b)->line;
	int order = compare_names(a, b);

	return order ? order : (line_a > line_b) - (line_a < line_b);
}

static void table_free(struct name_table *table)
{
	for (size_t i = 0; i < table->count; i++)
		free(table->name[i].name);
	free(table->name);
	memset(table, 0, sizeof(*table));
}

/* Names that there is no memory for are left out. */
static void add(struct name_table *table, const char *word, size_t line, const struct in6_addr *ip)
{
	if (table->count == table->room) {
		size_t room = table->room ? table->room * 2 : 64;
		struct name *more = reallocarray(table->name, room, sizeof(*more));

		if (!more)
			return;
		table->name = more;
		table->room = room;
	}
	table->name[table->count] = (struct name){strdup(word), line, *ip};
	table->count += table->name[table->count].name != NULL;
}

static void parse_line(struct name_table *table, char *text, size_t line)
{
	char *rest = text, *word;
	struct in6_addr ip;

	text[strcspn(text, "#\r\n")] = 0;
	rest += strspn(rest, " \t");
	if (!names_parse(strsep(&rest, " \t"), &ip))
		return;
	while ((word = strsep(&rest, " \t")))
		if (*word)
			add(table, word, line, &ip);
}

/* In the worker thread, or before the loop runs. */
static void read_table(void *arg)
{
	struct names *names = arg;
	FILE *file = fopen(names->path, "re");
	char *text = NULL;
	size_t room = 0, line = 0;

	memset(&names->fresh, 0, sizeof(names->fresh));
	while (file && getline(&text, &room, file) >= 0)
		parse_line(&names->fresh, text, line++);
	if (names->fresh.count)
		qsort(names->fresh.name, names->fresh.count, sizeof(struct name), compare);
	free(text);
	if (file)
		fclose(file);
}

static void take_table(void *arg)
{
	struct names *names = arg;

	names->task = NULL;
	table_free(&names->table);
	names->table = names->fresh;
	if (names->again)
		names_reload(names);
}

/* Watches the folder, where a new file may replace the old one, and the file, which may be a
 * mount of its own. */
static void watch_file(const struct names *names)
{
	inotify_add_watch(names->watch, names->folder,
			  IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE);
	inotify_add_watch(names->watch, names->path, IN_CLOSE_WRITE);
}

void names_reload(struct names *names)
{
	names->again = names->task != NULL;
	if (names->again)
		return;
	if (names->watch >= 0)
		watch_file(names);
	if (task_start(names->base, &names->task, read_table, take_table, names))
		log_warning("%s was not read again: no thread", names->path);
}

static void on_change(evutil_socket_t fd, short what, void *arg)
{
	const char *base_name = strrchr(((struct names *)arg)->path, '/') + 1;
	char buf[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t got = read(fd, buf, sizeof(buf));
	bool changed = false;

	for (char *p = buf; p < buf + got;) {
		const struct inotify_event *event = (const void *)p;

		/* An event without a name is about the file itself, or reports that some were
		 * lost. */
		changed |= !event->len || !strcmp(event->name, base_name);
		p += sizeof(*event) + event->len;
	}
	if (changed)
		names_reload(arg);
}

static int start_watch(struct names *names)
{
	names->watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (names->watch < 0)
		return -errno;
	watch_file(names);
	names->changed =
		event_new(names->base, names->watch, EV_READ | EV_PERSIST, on_change, names);
	return names->changed && !event_add(names->changed, NULL) ? 0 : -ENOMEM;
}

int names_start(struct event_base *base, const char *path, struct names **out)
{
	struct names *names = calloc(1, sizeof(*names));
	int ret;

	if (!names) {
		log_error("no memory");
		return -ENOMEM;
	}
	names->base = base;
	names->path = path;
	names->watch = -1;
	snprintf(names->folder, sizeof(names->folder), "%.*s", (int)(strrchr(path, '/') - path),
		 path);
	ret = start_watch(names);
	if (ret)
		log_warning("changes of %s are not noticed: inotify: %s", path, strerror(-ret));
	read_table(names);
	take_table(names);
	*out = names;
	return 0;
}

void names_stop(struct names *names)
{
	if (!names)
		return;
	if (names->task) {
		task_finish(names->task);
		table_free(&names->fresh);
	}
	if (names->changed)
		event_free(names->changed);
	if (names->watch >= 0)
		close(names->watch);
	table_free(&names->table);
	free(names);
}

/* The first entry with that name: bsearch() finds any of them. */
bool names_find(const struct names *names, const char *name, struct in6_addr *ip)
{
	const struct name wanted = {.name = (char *)name}, *found;

	if (names_parse(name, ip))
		return true;
	found = names->table.count ? bsearch(&wanted, names->table.name, names->table.count,
					     sizeof(wanted), compare_names)
				   : NULL;
	while (found && found > names->table.name && !compare_names(found - 1, &wanted))
		found--;
	if (found)
		*ip = found->ip;
	return found;
}
