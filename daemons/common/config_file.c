/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Reads lines "key value" by a daemon's table of keys. Keeps nothing.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/whole_file.h"
#include "daemons/common/config_file.h"
#include "daemons/common/log.h"

#define MAX_FILE 1048576

/* Where a line is, for its errors. */
struct config_place {
	const char *file;
	unsigned line;
	char *error;
};

int config_bad(const struct config_place *at, const char *format, ...)
{
	size_t len;
	va_list ap;

	if (at->line)
		len = snprintf(at->error, CONFIG_ERROR_LEN, "%.200s:%u: ", at->file, at->line);
	else
		len = snprintf(at->error, CONFIG_ERROR_LEN, "%.200s: ", at->file);
	va_start(ap, format);
	vsnprintf(at->error + len, CONFIG_ERROR_LEN - len, format, ap);
	va_end(ap);
	return -EINVAL;
}

static int set_number(const struct config_key *key, void *member, const char *value,
		      const struct config_place *at)
{
	unsigned long long number;
	char *end;

	errno = 0;
	number = strtoull(value, &end, 10);
	if (!isdigit((unsigned char)value[0]) || *end || errno || number < key->least ||
	    number > key->most)
		return config_bad(at,
				  "%s is a number from %" PRIu64 " to %" PRIu64 ", not \"%.64s\"",
				  key->key, key->least, key->most, value);
	if (key->size == sizeof(uint64_t))
		*(uint64_t *)member = number;
	else
		*(unsigned *)member = (unsigned)number;
	return 0;
}

static int set_yes_no(const struct config_key *key, void *member, const char *value,
		      const struct config_place *at)
{
	bool yes = !strcmp(value, "yes");

	if (!yes && strcmp(value, "no"))
		return config_bad(at, "%s is yes or no, not \"%.64s\"", key->key, value);
	memcpy(member, &yes, sizeof(yes));
	return 0;
}

static int set_choice(const struct config_key *key, void *member, const char *value,
		      const struct config_place *at)
{
	size_t len = strlen(value);
	int number = 0;

	for (const char *word = key->choices; *word; word = strchr(word, ' ') + 1, number++) {
		if (len && !strncmp(word, value, len) && word[len] == ' ') {
			memcpy(member, &number, sizeof(number));
			return 0;
		}
	}
	return config_bad(at, "%s is one of: %.*s, not \"%.64s\"", key->key,
			  (int)strlen(key->choices) - 1, key->choices, value);
}

static int set_text(const struct config_key *key, char *member, const char *value,
		    const struct config_place *at)
{
	size_t len = strlen(value);

	if (len >= key->size)
		return config_bad(at, "%s is longer than %zu characters", key->key, key->size - 1);
	if (len < key->least)
		return config_bad(at, "%s needs a value", key->key);
	memcpy(member, value, len + 1);
	return 0;
}

static int set(const struct config_table *table, void *config, const char *name, const char *value,
	       const struct config_place *at)
{
	for (const struct config_key *key = table->keys; key < table->keys + table->count; key++) {
		void *member = (char *)config + key->offset;

		if (strcmp(key->key, name) != 0)
			continue;
		switch (key->type) {
		case CONFIG_NUMBER: return set_number(key, member, value, at);
		case CONFIG_YES_NO: return set_yes_no(key, member, value, at);
		case CONFIG_TEXT: return set_text(key, member, value, at);
		case CONFIG_CHOICE: return set_choice(key, member, value, at);
		case CONFIG_OTHER: return key->set(config, value, at);
		}
	}
	return config_bad(at, "unknown key \"%.64s\": see %s", name, table->page);
}

/* A line, which is changed; a comment ends it. A key alone sets a text to "". */
static int parse_line(const struct config_table *table, void *config, char *line,
		      const struct config_place *at)
{
	char *value, *end;

	line[strcspn(line, "#")] = 0;
	line += strspn(line, " \t\r");
	end = line + strlen(line);
	while (end > line && isspace((unsigned char)end[-1]))
		*--end = 0;
	if (!*line)
		return 0;
	value = line + strcspn(line, " \t");
	if (*value)
		*value++ = 0;
	value += strspn(value, " \t");
	return set(table, config, line, value, at);
}

int config_parse(const struct config_table *table, void *config, const char *text, const char *file,
		 char error[CONFIG_ERROR_LEN])
{
	struct config_place at = {.file = file, .error = error};
	char *copy = strdup(text), *rest = copy, *line;
	int ret = 0;

	if (!copy)
		return config_bad(&at, "no memory"), -ENOMEM;
	while (!ret && (line = strsep(&rest, "\n"))) {
		at.line++;
		ret = parse_line(table, config, line, &at);
	}
	free(copy);
	return ret;
}

int config_option(const struct config_table *table, void *config, const char *option,
		  char error[CONFIG_ERROR_LEN])
{
	struct config_place at = {.file = "-o", .error = error};
	char *copy = strdup(option);
	int ret;

	if (!copy)
		return config_bad(&at, "no memory"), -ENOMEM;
	ret = parse_line(table, config, copy, &at);
	free(copy);
	return ret;
}

/* 0 or a negative errno. */
static int read_text(const char *path, char **text)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY), ret;

	*text = NULL;
	if (fd < 0)
		return -errno;
	ret = whole_file(fd, MAX_FILE, text, NULL);
	close(fd);
	return ret;
}

int config_load(const struct config_table *table, void *config, const struct config_source *source)
{
	const char *path = source->file ? source->file : source->standard;
	char error[CONFIG_ERROR_LEN];
	char *text;
	int ret = read_text(path, &text);

	if (text) {
		ret = config_parse(table, config, text, path, error);
		free(text);
	} else if (ret == -ENOENT && !source->file) {
		ret = 0;
	} else {
		snprintf(error, sizeof(error), "%.200s: %s", path, strerror(-ret));
	}
	for (unsigned i = 0; !ret && i < source->noptions; i++)
		ret = config_option(table, config, source->options[i], error);
	if (ret)
		log_error("%s", error);
	return ret;
}

void config_update(const struct config_table *table, void *config, const void *fresh)
{
	for (const struct config_key *key = table->keys; key < table->keys + table->count; key++) {
		char *member = (char *)config + key->offset;
		const char *value = (const char *)fresh + key->offset;

		if (key->type == CONFIG_TEXT ? !strcmp(member, value)
					     : !memcmp(member, value, key->size))
			continue;
		if (key->live)
			memcpy(member, value, key->size);
		else
			log_warning("%s has changed, which takes a restart", key->key);
	}
}
