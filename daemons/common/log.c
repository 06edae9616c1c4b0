/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Lines on stderr. A line is one write(), so that those of several threads do not mix; a reader
 * that is gone or slow costs the line, not the daemon.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/stat.h>

#include "daemons/common/log.h"

int log_level = LOG_INFO;
static const char *daemon_name = "daemon";
static bool journal;

/* sd-daemon(3): JOURNAL_STREAM is device and inode of the stream that the journal reads. */
void log_init(const char *name)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;

	daemon_name = name;
	journal = stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
		  !fstat(STDERR_FILENO, &st) && st.st_dev == device && st.st_ino == inode;
}

const char *log_name(void)
{
	return daemon_name;
}

void log_line(int priority, const char *format, ...)
{
	char line[1024];
	int length;
	va_list ap;

	if (priority > log_level)
		return;
	length = journal ? snprintf(line, sizeof(line), "<%d>", priority)
			 : snprintf(line, sizeof(line), "%.64s: ", daemon_name);
	va_start(ap, format);
	length += vsnprintf(line + length, sizeof(line) - length, format, ap);
	va_end(ap);
	if (length > (int)sizeof(line) - 2)
		length = sizeof(line) - 2;
	line[length++] = '\n';
	if (write(STDERR_FILENO, line, length) < 0)
		return;
}
