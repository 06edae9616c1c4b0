/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The program's memory, at addresses that it put into a command: reading or writing what is not
 * mapped is -EFAULT, as it would be from the kernel. Any thread, any lock.
 */
#ifndef URXE_CM_USER_MEMORY_H
#define URXE_CM_USER_MEMORY_H

#include <stddef.h>
#include <stdint.h>

int urxe_user_read(void *to, uint64_t from, size_t len);
int urxe_user_write(uint64_t to, const void *from, size_t len);

#endif
