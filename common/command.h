/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the main() of every program begins with: errors of standard output, and options that it does
 * not have.
 */
#ifndef COMMON_COMMAND_H
#define COMMON_COMMAND_H

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What could not be written, as to a full disk, is an error of the program. */
static inline void command_close_stdout(void)
{
	bool failed = ferror(stdout);
	int error = fflush(stdout) ? errno : 0;

	if (!error && !failed)
		return;
	fprintf(stderr, "%s: standard output: %s\n", program_invocation_short_name,
		error ? strerror(error) : "not all of it could be written");
	_exit(1);
}

/* Called first. getopt(3) says nothing from then on. */
static inline void command_begin(void)
{
	opterr = 0;
	atexit(command_close_stdout);
}

/* For a misuse that the rest says, in one line. Returns the status to end with. */
static inline __attribute__((format(printf, 1, 2))) int command_misused(const char *format, ...)
{
	va_list ap;

	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fprintf(stderr, "; see %s --help\n", program_invocation_short_name);
	return 2;
}

/* The same for a word that means nothing. */
static inline int command_bad_word(const char *word)
{
	return command_misused("%s: what is that", word);
}

/* The same for an option, when getopt_long(3) has returned '?'. */
static inline int command_bad_option(char *const *argv)
{
	const char *word = argv[optind - 1];

	if (!strncmp(word, "--", 2))
		return command_misused("%s: no such option, or its value is missing", word);
	return command_misused("-%c: no such option, or its value is missing", optopt);
}

#endif
