/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Configuration files: lines "key value", where # begins a comment, and options -o "key value" of
 * the command line after them. A table says which keys there are and which member of the daemon's
 * structure each sets:
 *
 *	static const struct config_key keys[] = {
 *		{"deadline", CONFIG_NUMBER, CONFIG_MEMBER(struct settings, deadline), 10, 60000, .live = true},
 *		{"user", CONFIG_TEXT, CONFIG_MEMBER(struct settings, user)},
 *	};
 *	const struct config_table settings_table = {keys, 2, "fabricd.conf(5)"};
 *
 * Plain data and pure functions, apart from config_load() and config_update(), which log. Any
 * thread.
 */
#ifndef DAEMON_CONFIG_FILE_H
#define DAEMON_CONFIG_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONFIG_ERROR_LEN   512
#define CONFIG_MAX_OPTIONS 64

enum config_type {
	CONFIG_NUMBER, /* unsigned or uint64_t, least to most */
	CONFIG_YES_NO, /* bool */
	CONFIG_TEXT,   /* char[]; at least least characters; a key alone means "" */
	CONFIG_CHOICE, /* int or an enum: the number of the word */
	CONFIG_OTHER,  /* set() parses it; the member is compared and copied by its bytes */
};

struct config_place; /* a line of a file, for errors */

struct config_key {
	const char *key;
	enum config_type type;
	size_t offset, size; /* of the member */
	uint64_t least, most;
	const char *choices; /* with a space behind each */
	bool live;	     /* may change at run time */
	/* 0, or what config_bad() returns. */
	int (*set)(void *config, const char *value, const struct config_place *at);
};

struct config_table {
	const struct config_key *keys;
	unsigned count;
	const char *page; /* the manual's, "sacached.conf(5)" */
};

#define CONFIG_MEMBER(type, member) offsetof(type, member), sizeof(((type *)0)->member)
/* For a key log_level of an int, which starts as LOG_INFO. */
#define CONFIG_LOG_LEVELS "emerg alert crit error warning notice info debug "

/* Writes where an error is and what to do about it. -EINVAL. */
int config_bad(const struct config_place *at, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* A file's text into a configuration that has its defaults. -EINVAL: error says where and what to
 * do. */
int config_parse(const struct config_table *table, void *config, const char *text, const char *file,
		 char error[CONFIG_ERROR_LEN]);
/* One "key value" of the command line. */
int config_option(const struct config_table *table, void *config, const char *option,
		  char error[CONFIG_ERROR_LEN]);

/* What the command line says of the configuration (startup.h), to read it again. */
struct config_source {
	const char *standard; /* the file that may be missing */
	const char *file;     /* the one that has to be there instead; NULL */
	const char *options[CONFIG_MAX_OPTIONS];
	unsigned noptions;
};

/*
 * The file and the options, into a configuration that has its defaults. 0, or a negative errno
 * after one line in the log.
 */
int config_load(const struct config_table *table, void *config, const struct config_source *source);
/* Takes over from a newly read configuration what may change at run time, and logs which of the
 * rest takes a restart. */
void config_update(const struct config_table *table, void *config, const void *fresh);

#endif
