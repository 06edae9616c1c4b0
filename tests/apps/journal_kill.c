/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Preloaded into lidtrackd: kills it at the line of its journal that JOURNAL_KILL says, "N torn"
 * when half of line N is in the file, "N whole" when it is on the disk.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned long line;
static const char *how = "";

__attribute__((constructor)) static void begin(void)
{
	const char *text = getenv("JOURNAL_KILL");
	char *end;

	if (!text)
		return;
	line = strtoul(text, &end, 10);
	how = end + 1;
}

/* Nothing but the journal is written by it. */
__attribute__((visibility("default"))) ssize_t pwrite(int fd, const void *bytes, size_t len,
						      off_t at)
{
	ssize_t (*real)(int, const void *, size_t, off_t) =
		(ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite64");
	bool last = line && !--line;
	bool torn = last && !strcmp(how, "torn");
	ssize_t ret = real(fd, bytes, torn ? len / 2 : len, at);

	if (torn || (last && !fdatasync(fd)))
		kill(getpid(), SIGKILL);
	return ret;
}
