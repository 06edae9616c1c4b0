// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A fuzzer's main() without libFuzzer: runs each file that is named through it, once.
 * fuzz_responder compares two runs by a clock of its own, which the adapter reads only where it
 * is built with -Dfuzz=true.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input is of just its size, so that valgrind and sanitizers see reads behind it. */
static void replay(const char *path)
{
	FILE *file = fopen(path, "rb");
	uint8_t *data = NULL;
	long size = -1;

	if (file && !fseek(file, 0, SEEK_END))
		size = ftell(file);
	if (size >= 0)
		data = malloc(size ? size : 1);
	if (!data || fseek(file, 0, SEEK_SET) || fread(data, 1, size, file) != (size_t)size) {
		perror(path);
		exit(1);
	}
	fclose(file);
	LLVMFuzzerTestOneInput(data, size);
	free(data);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		replay(argv[i]);
	return 0;
}
