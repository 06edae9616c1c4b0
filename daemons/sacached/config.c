/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The configuration: a table of keys, and what reads lines by it. Called in the loop's thread before
 * the loop runs and at SIGHUP; keeps nothing.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemons/sacached/config.h"
#include "daemons/sacached/log.h"

#define MAX_FILE 1048576

enum type { NUMBER, YES_NO, TEXT, CHOICE, PORT };

struct row {
	const char *key;
	enum type type;
	size_t offset, size; /* of the member; a TEXT has to fit */
	unsigned least, most;
	const char *choices; /* with a space behind each; the value is the number of the word */
	bool live;	     /* may change at run time */
};

#define MEMBER(name) \
	offsetof(struct sacached_config, name), sizeof(((struct sacached_config *)0)->name)

static const char log_levels[] = "emerg alert crit error warning notice info debug ";

static const struct row rows[] = {
	{"policy", CHOICE, MEMBER(cache.policy), .choices = "auto always never "},
	{"drop", YES_NO, MEMBER(cache.drop)},
	{"max_entries", NUMBER, MEMBER(cache.max_entries), 1, 1 << 24},
	{"negative", NUMBER, MEMBER(cache.negative), 0, 3600000},
	{"suspect_limit", NUMBER, MEMBER(cache.suspect_limit), 1, 15},
	{"suspect_backoff", NUMBER, MEMBER(cache.suspect_backoff), 1, 3600000},
	{"window", NUMBER, MEMBER(cache.window), 1, 256},
	{"rate", NUMBER, MEMBER(cache.rate), 0, 1000000},
	{"queue", NUMBER, MEMBER(cache.queue), 1, 1 << 20},
	{"response_timeout", NUMBER, MEMBER(cache.response_timeout), 10, 60000},
	{"retries", NUMBER, MEMBER(cache.retries), 0, 15},
	{"max_records", NUMBER, MEMBER(cache.max_records), 1, 1 << 20},
	{"notices", NUMBER, MEMBER(cache.notices), 0, 86400000},
	{"port", PORT},
	{"deadline", NUMBER, MEMBER(deadline), 10, 60000, .live = true},
	{"hosts", TEXT, MEMBER(hosts), .live = true},
	{"ibacm_dir", TEXT, MEMBER(ibacm_dir), .least = 1},
	{"run_dir", TEXT, MEMBER(run_dir), .least = 1},
	{"tcp", CHOICE, MEMBER(tcp), .choices = "off loopback any "},
	{"tcp_port", NUMBER, MEMBER(tcp_port), 1, 65535},
	{"max_clients", NUMBER, MEMBER(max_clients), 0, 1 << 20, .live = true},
	{"spin", NUMBER, MEMBER(spin), 0, 1000, .live = true},
	{"netlink", YES_NO, MEMBER(netlink)},
	{"kernel_timeout", NUMBER, MEMBER(kernel_timeout), 0, 200000},
	{"user", TEXT, MEMBER(user)},
	{"control_socket", TEXT, MEMBER(control_socket)},
	{"control_group", TEXT, MEMBER(control_group)},
	{"metrics_listen", TEXT, MEMBER(metrics_listen)},
	{"state_file", TEXT, MEMBER(state_file)},
	{"state_interval", NUMBER, MEMBER(state_interval), 0, 86400, .live = true},
	{"import", TEXT, MEMBER(import)},
	{"prefetch", YES_NO, MEMBER(prefetch)},
	{"log_level", CHOICE, MEMBER(log_level), .choices = log_levels, .live = true},
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

void config_init(struct sacached_config *config)
{
	*config = (struct sacached_config){
		.deadline = 4000,
		.hosts = SACACHED_HOSTS,
		.ibacm_dir = SACACHED_RUN,
		.run_dir = SACACHED_RUN "/sacached",
		.tcp_port = 6125,
		.spin = 50,
		.netlink = true,
		.control_socket = SACACHED_RUN "/sacached/control.sock",
		.state_file = SACACHED_STATE "/sacached/state",
		.state_interval = 300,
		.log_level = LOG_INFO,
	};
	sacache_attr_init(&config->cache);
	config->cache.notices = 600000;
}

/* Where a line is, for its errors. */
struct place {
	const char *file;
	unsigned line;
	char *error;
};

static __attribute__((format(printf, 2, 3))) int bad(const struct place *at, const char *fmt, ...)
{
	size_t len;
	va_list ap;

	if (at->line)
		len = snprintf(at->error, CONFIG_ERROR_LEN, "%.200s:%u: ", at->file, at->line);
	else
		len = snprintf(at->error, CONFIG_ERROR_LEN, "%.200s: ", at->file);
	va_start(ap, fmt);
	vsnprintf(at->error + len, CONFIG_ERROR_LEN - len, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static int set_number(const struct row *row, void *member, const char *value,
		      const struct place *at)
{
	unsigned long number;
	unsigned result;
	char *end;

	errno = 0;
	number = strtoul(value, &end, 10);
	if (!isdigit((unsigned char)value[0]) || *end || errno || number < row->least ||
	    number > row->most)
		return bad(at, "%s is a number from %u to %u, not \"%.64s\"", row->key, row->least,
			   row->most, value);
	result = number;
	memcpy(member, &result, sizeof(result));
	return 0;
}

static int set_yes_no(const struct row *row, void *member, const char *value,
		      const struct place *at)
{
	bool yes = !strcmp(value, "yes");

	if (!yes && strcmp(value, "no"))
		return bad(at, "%s is yes or no, not \"%.64s\"", row->key, value);
	memcpy(member, &yes, sizeof(yes));
	return 0;
}

static int set_choice(const struct row *row, void *member, const char *value,
		      const struct place *at)
{
	size_t len = strlen(value);
	int number = 0;

	for (const char *word = row->choices; *word; word = strchr(word, ' ') + 1, number++) {
		if (len && !strncmp(word, value, len) && word[len] == ' ') {
			memcpy(member, &number, sizeof(number));
			return 0;
		}
	}
	return bad(at, "%s is one of: %.*s, not \"%.64s\"", row->key, (int)strlen(row->choices) - 1,
		   row->choices, value);
}

static int set_text(const struct row *row, char *member, const char *value, const struct place *at)
{
	size_t len = strlen(value);

	if (len >= row->size)
		return bad(at, "%s is longer than %zu characters", row->key, row->size - 1);
	if (len < row->least)
		return bad(at, "%s needs a value", row->key);
	memcpy(member, value, len + 1);
	return 0;
}

static int add_port(struct sacached_config *config, const char *value, const struct place *at)
{
	const char *colon = strchr(value, ':');
	size_t len = colon ? (size_t)(colon - value) : strlen(value);
	struct config_port port = {.portnum = 0};
	unsigned long number = 0;
	char *end = NULL;

	if (colon)
		number = strtoul(colon + 1, &end, 10);
	if (!len || len >= sizeof(port.ca) || strpbrk(value, "/ \t") ||
	    (colon && (*end || !isdigit((unsigned char)colon[1]) || !number || number > 254)))
		return bad(
			at,
			"\"%.64s\" is no port: write the device, or device:number, as in mlx5_0:1",
			value);
	if (config->nports == SACACHE_MAX_PORTS)
		return bad(at, "more than %u ports", SACACHE_MAX_PORTS);
	memcpy(port.ca, value, len);
	port.portnum = number;
	config->ports[config->nports++] = port;
	return 0;
}

static int set(struct sacached_config *config, const char *key, const char *value,
	       const struct place *at)
{
	for (const struct row *row = rows; row < rows + ROWS; row++) {
		void *member = (char *)config + row->offset;

		if (strcmp(row->key, key))
			continue;
		switch (row->type) {
		case NUMBER: return set_number(row, member, value, at);
		case YES_NO: return set_yes_no(row, member, value, at);
		case TEXT: return set_text(row, member, value, at);
		case CHOICE: return set_choice(row, member, value, at);
		case PORT: return add_port(config, value, at);
		}
	}
	return bad(at, "unknown key \"%.64s\": see sacached.conf(5)", key);
}

/* A line, which is changed; a comment ends it. A key alone sets a text to "". */
static int parse_line(struct sacached_config *config, char *line, const struct place *at)
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
	return set(config, line, value, at);
}

int config_parse(struct sacached_config *config, const char *text, const char *file,
		 char error[CONFIG_ERROR_LEN])
{
	struct place at = {.file = file, .error = error};
	char *copy = strdup(text), *rest = copy, *line;
	int ret = 0;

	if (!copy)
		return bad(&at, "no memory"), -ENOMEM;
	while (!ret && (line = strsep(&rest, "\n"))) {
		at.line++;
		ret = parse_line(config, line, &at);
	}
	free(copy);
	return ret;
}

int config_option(struct sacached_config *config, const char *option, char error[CONFIG_ERROR_LEN])
{
	struct place at = {.file = "-o", .error = error};
	char *copy = strdup(option);
	int ret;

	if (!copy)
		return bad(&at, "no memory"), -ENOMEM;
	ret = parse_line(config, copy, &at);
	free(copy);
	return ret;
}

/* The text of a file, or NULL and errno. */
static char *read_text(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY), error = 0;
	char *text = fd < 0 ? NULL : malloc(MAX_FILE + 1);
	size_t length = 0;
	ssize_t got = 1;

	if (fd < 0)
		return NULL;
	while (text && got && length < MAX_FILE && !error) {
		got = read(fd, text + length, MAX_FILE - length);
		if (got >= 0)
			length += got;
		else if (errno != EINTR)
			error = errno;
	}
	close(fd);
	if (text && length == MAX_FILE)
		error = EFBIG;
	if (text && error) {
		free(text);
		text = NULL;
		errno = error;
	}
	if (!text)
		return NULL;
	text[length] = 0;
	return text;
}

int config_load(struct sacached_config *config, const char *file, char *const *options,
		unsigned count)
{
	const char *path = file ? file : SACACHED_CONF;
	char *text = read_text(path);
	char error[CONFIG_ERROR_LEN];
	int ret = 0;

	config_init(config);
	if (text) {
		ret = config_parse(config, text, path, error);
		free(text);
	} else if (file || errno != ENOENT) {
		ret = -errno;
		snprintf(error, sizeof(error), "%.200s: %s", path, strerror(errno));
	}
	for (unsigned i = 0; !ret && i < count; i++)
		ret = config_option(config, options[i], error);
	if (ret)
		log_error("%s", error);
	return ret;
}

void config_update(struct sacached_config *config, const struct sacached_config *fresh)
{
	for (const struct row *row = rows; row < rows + ROWS; row++) {
		char *member = (char *)config + row->offset;
		const char *value = (const char *)fresh + row->offset;
		bool same = row->type == TEXT ? !strcmp(member, value)
					      : !memcmp(member, value, row->size);

		if (row->type == PORT)
			same = config->nports == fresh->nports &&
			       !memcmp(config->ports, fresh->ports, sizeof(config->ports));
		if (same)
			continue;
		if (row->live)
			memcpy(member, value, row->size);
		else
			log_warning("%s has changed, which takes a restart", row->key);
	}
}
