// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Sockets beside the host segment (segment_socket.h): their names. The end of a name is one word of
 * its slot, written by the owner, so there is nothing to lock.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/libc.h"
#include "host/log.h"
#include "host/segment_layout.h"
#include "host/segment_socket.h"

#define TRIES 16

_Static_assert(SEGMENT_PATH_MAX - 1 + sizeof(".s253-01234567") <=
		       sizeof(((struct sockaddr_un *)0)->sun_path),
	       "a segment's path leaves room for the rest of the name");

/* Its digits in a base of up to 16, least of them at least. */
static char *put_number(char *to, uint32_t n, unsigned base, unsigned least)
{
	char digits[10];
	unsigned count = 0;

	for (; n || count < least; n /= base)
		digits[count++] = "0123456789abcdef"[n % base];
	while (count)
		*to++ = digits[--count];
	return to;
}

/* Not by snprintf(3): each doorbell of a neighbour that sleeps takes a name. */
static socklen_t name_of(const struct urxe_segment *seg, unsigned slot, uint32_t end,
			 struct sockaddr_un *name)
{
	char *to = name->sun_path;

	name->sun_family = AF_UNIX;
	to = put_number(stpcpy(stpcpy(to, seg->path), ".s"), slot, 10, 1);
	*to++ = '-';
	to = put_number(to, end, 16, 8);
	*to++ = 0;
	return to - (char *)name;
}

socklen_t urxe_segment_socket_name(const struct urxe_segment *seg, unsigned slot,
				   struct sockaddr_un *name)
{
	uint32_t end = __atomic_load_n(&seg->map->slots[slot].socket, __ATOMIC_ACQUIRE);

	return end ? name_of(seg, slot, end, name) : 0;
}

int urxe_segment_socket_bind(struct urxe_segment *seg, int fd)
{
	struct sockaddr_un name;
	uint32_t end;

	/* The new name has the socket's mode: nobody else can open it even for a moment. */
	if (fchmod(fd, 0600))
		return -errno;
	for (unsigned tries = 0; tries < TRIES; tries++) {
		socklen_t len;

		if (getrandom(&end, sizeof(end), 0) != sizeof(end) || !end)
			continue;
		len = name_of(seg, seg->slot, end, &name);
		if (!urxe_libc.bind(fd, (struct sockaddr *)&name, len)) {
			chmod(name.sun_path, 0600); /* whatever the umask took away */
			__atomic_store_n(&seg->map->slots[seg->slot].socket, end, __ATOMIC_RELEASE);
			return 0;
		}
		if (errno != EADDRINUSE)
			break;
	}
	end = errno;
	urxe_log(URXE_LOG_ERROR,
		 "cannot make a socket beside %s: %s: name a folder on another file system in "
		 "URXE_RUNTIME_DIR",
		 seg->path, strerror(end));
	return -(int)end;
}

void segment_socket_forget(struct urxe_segment *seg, unsigned slot)
{
	struct sockaddr_un name;

	if (!urxe_segment_socket_name(seg, slot, &name))
		return;
	unlink(name.sun_path);
	__atomic_store_n(&seg->map->slots[slot].socket, 0, __ATOMIC_RELEASE);
}

void urxe_segment_socket_remove(struct urxe_segment *seg)
{
	if (seg->slot && seg->pid == getpid())
		segment_socket_forget(seg, seg->slot);
}
