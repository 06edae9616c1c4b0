// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The kinds of providers by name. Constant. */
#include <string.h>

#include "migrate/function.h"

const struct function_provider *function_provider(const char *name)
{
	static const struct function_provider *const providers[] = {
		&function_fabric, &function_mlx5, &function_mlx4, &function_file};

	for (size_t i = 0; i < sizeof(providers) / sizeof(*providers); i++)
		if (!strcmp(providers[i]->name, name))
			return providers[i];
	return NULL;
}
