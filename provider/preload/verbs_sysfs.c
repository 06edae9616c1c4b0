/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ibv_read_sysfs_file(): librdmacm and others read sysfs with it, in libibverbs' own code, which
 * does not see the view. For a path inside the view it is answered here; when libibverbs itself
 * calls it (for the kernel's ABI version) it is told what the kernel says, or it would look for
 * kernel devices behind ours.
 *
 * Any thread; there is no state but the looked-up next definition.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <infiniband/verbs.h>

#include "preload/files.h"
#include "preload/preload.h"
#include "preload/sysfs.h"

int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

/* The contents without the newline at the end, in buf with a NUL; their length, or -1. */
static int read_view(const struct urxe_sysfs_node *node, char *buf, size_t size)
{
	char text[URXE_SYSFS_FILE_SIZE];
	ssize_t len;

	if (node->type != URXE_SYSFS_FILE)
		return -1;
	len = urxe_sysfs_show(node, text, sizeof(text));
	if (len < 0)
		return urxe_view_result(len, errno);
	if (len > 0 && text[len - 1] == '\n')
		len--;
	if ((size_t)len >= size)
		return -1;
	memcpy(buf, text, len);
	buf[len] = '\0';
	return len;
}

URXE_VERB(ibv_read_sysfs_file, "IBVERBS_1.0")

URXE_EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	__typeof__(ibv_read_sysfs_file) *behind;
	struct urxe_sysfs_found found;
	char path[PATH_MAX];
	int ret;

	if (!urxe_in_libibverbs(__builtin_return_address(0)) &&
	    snprintf(path, sizeof(path), "%s/%s", dir, file) < (int)sizeof(path) &&
	    urxe_view_absolute(path)) {
		/* What it holds now: addresses and devices come and go. */
		urxe_sysfs_refresh();
		ret = urxe_sysfs_find(path, false, &found);
		if (ret == URXE_SYSFS_NODE)
			return read_view(&found.node, buf, size);
		if (ret < 0)
			return urxe_view_result(ret, errno);
	}
	behind = urxe_verb_next(&verb_ibv_read_sysfs_file);
	return behind ? behind(dir, file, buf, size) : URXE_NOBODY_MINUS;
}
