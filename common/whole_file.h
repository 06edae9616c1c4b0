/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Reads what a descriptor has, of a length not known before. Any thread. */
#ifndef COMMON_WHOLE_FILE_H
#define COMMON_WHOLE_FILE_H

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * The rest of fd, at most so many bytes, with a 0 behind it; the caller frees it. -EFBIG: there is
 * more; -ENOMEM, or what read() says: *text is NULL.
 */
static inline int whole_file(int fd, size_t most, char **text, size_t *length)
{
	size_t room = 0, got = 0;
	ssize_t n = 1;
	int ret = 0;

	*text = NULL;
	while (!ret && n) {
		if (got + 1 >= room) {
			char *more = realloc(*text, room ? room * 2 : 4096);

			if (!more) {
				ret = -ENOMEM;
				break;
			}
			*text = more;
			room = room ? room * 2 : 4096;
		}
		n = read(fd, *text + got, room - got - 1);
		if (n > 0)
			got += (size_t)n;
		else if (n < 0 && errno != EINTR)
			ret = -errno;
		if (got > most)
			ret = -EFBIG;
	}
	if (ret) {
		free(*text);
		*text = NULL;
		return ret;
	}
	(*text)[got] = 0;
	if (length)
		*length = got;
	return 0;
}

#endif
