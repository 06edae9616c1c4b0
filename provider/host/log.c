// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The logger: formats into a buffer on the stack and writes it with one write(2), so that lines of
 * several threads and processes do not mix. No lock, no allocation; errno is preserved. The level
 * is read from URXE_LOG at the first message; threads that race there compute the same value.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/libc.h"
#include "host/log.h"
#include "host/siphash.h"
#include "host/ticks.h"

#define LINE_LEN  1024
#define REPEAT_NS 1000000000ull

static const char *const level_names[] = {
	[URXE_LOG_ERROR] = "error",
	[URXE_LOG_WARN] = "warn",
	[URXE_LOG_INFO] = "info",
	[URXE_LOG_DEBUG] = "debug",
};

/* -1: URXE_LOG has not been looked at. */
static int threshold = -1;

static void put(const char *line, size_t len)
{
	urxe_libc_init();
	/* There is no way left to report that stderr is closed or full. */
	if (urxe_libc.write(STDERR_FILENO, line, len) < 0)
		return;
}

static int level_from_environment(void)
{
	static const char cure[] = "urxe: URXE_LOG is none of error, warn, info, debug: "
				   "set it to one of these\n";
	const char *s = getenv("URXE_LOG");

	if (!s || !*s)
		return URXE_LOG_ERROR;
	for (int i = URXE_LOG_ERROR; i <= URXE_LOG_DEBUG; i++)
		if (!strcmp(s, level_names[i]))
			return i;
	put(cure, sizeof(cure) - 1);
	return URXE_LOG_ERROR;
}

/* A program that tries again at once, a thousand times, has the same line once a second. */
static bool is_repeated(const char *line, size_t len)
{
	static const uint64_t key[2];
	static uint64_t last, when;
	uint64_t hash = urxe_siphash(key, line, len), now = urxe_now();

	if (__atomic_exchange_n(&last, hash, __ATOMIC_RELAXED) == hash &&
	    now - __atomic_load_n(&when, __ATOMIC_RELAXED) < REPEAT_NS)
		return true;
	__atomic_store_n(&when, now, __ATOMIC_RELAXED);
	return false;
}

void urxe_log(enum urxe_log_level level, const char *fmt, ...)
{
	int limit = __atomic_load_n(&threshold, __ATOMIC_RELAXED), saved = errno, n;
	char line[LINE_LEN];
	size_t len;
	va_list ap;

	if (limit < 0) {
		limit = level_from_environment();
		__atomic_store_n(&threshold, limit, __ATOMIC_RELAXED);
	}
	if ((int)level <= limit) {
		len = stpcpy(line, "urxe: ") - line;
		errno = saved;
		va_start(ap, fmt);
		n = vsnprintf(line + len, sizeof(line) - len - 1, fmt, ap);
		va_end(ap);
		len += n < 0 ? 0 : n;
		/* One byte is kept for the newline, which a cut line ends with as well. */
		if (len > sizeof(line) - 2)
			len = sizeof(line) - 2;
		line[len++] = '\n';
		if (level != URXE_LOG_ERROR || !is_repeated(line, len))
			put(line, len);
	}
	errno = saved;
}
