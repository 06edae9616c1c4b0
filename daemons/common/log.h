/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a daemon logs, a line at a time on stderr; with systemd's <N> in front where the journal
 * reads it. Any thread.
 */
#ifndef DAEMON_LOG_H
#define DAEMON_LOG_H

#include <syslog.h>

extern int log_level; /* LOG_ERR … LOG_DEBUG: what is less urgent is not written */

/* name: the daemon's, which is kept. Finds out who reads stderr. */
void log_init(const char *name);
const char *log_name(void);
void log_line(int priority, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...)	 log_line(LOG_ERR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_WARNING, __VA_ARGS__)
#define log_notice(...)	 log_line(LOG_NOTICE, __VA_ARGS__)
#define log_info(...)	 log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...)                                    \
	do {                                              \
		if (log_level >= LOG_DEBUG)               \
			log_line(LOG_DEBUG, __VA_ARGS__); \
	} while (0)

#endif
