/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The logger. One line to stderr per message, "urxe: ..." in front. URXE_LOG=error|warn|info|debug
 * sets the level; the default is "error", which is reserved for what a user can mend, said with its
 * cure, and not again within a second of the same line. Any thread; async-signal-safe apart from
 * the formatting of its arguments.
 */
#ifndef URXE_HOST_LOG_H
#define URXE_HOST_LOG_H

enum urxe_log_level {
	URXE_LOG_ERROR,
	URXE_LOG_WARN,
	URXE_LOG_INFO,
	URXE_LOG_DEBUG,
};

void urxe_log(enum urxe_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
