/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Files of machines: one that is taken can be written, and what was written is taken again. */
#include <stdlib.h>
#include <string.h>

#include "inband/machine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct machine *read_text(const void *text, size_t size)
{
	struct machine *machine = NULL;
	char error[256];
	FILE *file = fmemopen((void *)(uintptr_t)text, size, "r");

	if (file && machine_read(file, &machine, error, sizeof(error)))
		machine = NULL;
	if (file)
		fclose(file);
	return machine;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct machine *machine, *again;
	size_t length = 0;
	char *text = NULL;
	FILE *file;

	/* Tianhe-2 takes its time, and is not what is to be read here. */
	if (!size || memmem(data, size, "th2", 3) || memmem(data, size, "tree", 4))
		return 0;
	machine = read_text(data, size);
	if (!machine)
		return 0;
	file = open_memstream(&text, &length);
	machine_write(machine, file);
	fclose(file);
	again = read_text(text, length);
	if (!again || again->chip_count != machine->chip_count ||
	    again->port_count != machine->port_count)
		abort();
	free(text);
	machine_destroy(machine);
	machine_destroy(again);
	return 0;
}
