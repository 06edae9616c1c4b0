// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The kinds of providers by name, and what their errors mean. Constant. */
#include <errno.h>
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

const char *function_strerror(int error)
{
	switch (-error) {
	case ENOTCONN: return "the fabric is not up";
	case ENXIO: return "the fabric has no such host";
	case EOPNOTSUPP: return "the kernel does not tell their GUIDs";
	case EINVAL: return "a device and its port are wanted, \"mlx4_0:1\"";
	case EBADMSG: return "a line is neither a GUID nor \"-\"";
	default: return strerror(-error);
	}
}
