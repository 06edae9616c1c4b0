/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What sacached says, a line at a time on stderr; with systemd's <N> in front where it reads them.
 * Any thread.
 */
#ifndef SACACHED_LOG_H
#define SACACHED_LOG_H

#include <syslog.h>

extern int sacached_log_level; /* LOG_ERR … LOG_DEBUG: what is less urgent is not said */

/* Finds out who reads stderr. */
void sacached_log_init(void);
void sacached_log(int priority, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...)	 sacached_log(LOG_ERR, __VA_ARGS__)
#define log_warning(...) sacached_log(LOG_WARNING, __VA_ARGS__)
#define log_notice(...)	 sacached_log(LOG_NOTICE, __VA_ARGS__)
#define log_info(...)	 sacached_log(LOG_INFO, __VA_ARGS__)
#define log_debug(...)                                        \
	do {                                                  \
		if (sacached_log_level >= LOG_DEBUG)          \
			sacached_log(LOG_DEBUG, __VA_ARGS__); \
	} while (0)

#endif
