/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * mlx5's virtual functions as messages of rtnetlink (IFLA_VFINFO_LIST), apart from the socket, for
 * tests. Pure functions.
 */
#ifndef MIGRATE_FUNCTION_MLX5_H
#define MIGRATE_FUNCTION_MLX5_H

#include "migrate/function.h"

#define MLX5_MESSAGE_LEN 256

/*
 * RTM_NEWLINK that gives function number of an interface a GUID, as that of its node and of its
 * port, and lets its link follow the port; 0: takes the GUID away, and its link down. The length.
 */
size_t mlx5_set_message(void *message, int ifindex, int number, uint64_t guid, uint32_t sequence);
/* RTM_GETLINK for an interface with its functions. */
size_t mlx5_get_message(void *message, int ifindex, uint32_t sequence);
/* The functions in an RTM_NEWLINK that the kernel answered. How many, or -EPROTO. */
int mlx5_parse(const void *message, size_t len, struct function *functions, size_t room);

#endif
