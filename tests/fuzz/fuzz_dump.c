/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Dumps of networks: one that is taken can be written, and what was written is taken again and is
 * the same. */
#include <stdlib.h>
#include <string.h>

#include "inband/manage/dump.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct model *read_text(const void *text, size_t size)
{
	struct model *model = NULL;
	char error[256];
	FILE *file = fmemopen((void *)(uintptr_t)text, size, "r");

	if (file && dump_read(file, &model, error, sizeof(error)))
		model = NULL;
	if (file)
		fclose(file);
	return model;
}

static char *write_text(const struct model *model, size_t *length)
{
	char *text = NULL;
	FILE *file = open_memstream(&text, length);

	dump_write(model, file);
	fclose(file);
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct model *model = size ? read_text(data, size) : NULL, *again;
	struct machine *plan;
	size_t length, length2;
	char *text, *text2;

	if (!model)
		return 0;
	text = write_text(model, &length);
	again = read_text(text, length);
	if (!again)
		abort();
	text2 = write_text(again, &length2);
	if (length != length2 || memcmp(text, text2, length))
		abort();
	if (!dump_plan(model, NULL, &plan))
		machine_destroy(plan);
	free(text);
	free(text2);
	model_destroy(model);
	model_destroy(again);
	return 0;
}
