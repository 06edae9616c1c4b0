// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A umad file's side of its rings (fabric/mad_ring.h). fabricd makes them and hands them over when
 * the file connects.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "host/fd.h"
#include "host/libc.h"
#include "preload/umad.h"

int urxe_umad_rings_begin(struct urxe_umad *file, const int fds[FABRIC_UMAD_FDS])
{
	struct epoll_event ev = {.events = EPOLLIN};
	void *p = MAP_FAILED;

	file->arrived = urxe_fd_keep(fds[1]);
	file->doorbell = urxe_fd_keep(fds[2]);
	file->by_socket = file->inherited = false;
	errno = EPROTO;
	if (fds[0] >= 0)
		p = mmap(NULL, sizeof(*file->rings), PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
	if (p != MAP_FAILED)
		file->rings = p;
	if (fds[0] >= 0)
		urxe_libc.close(fds[0]);
	if (file->rings && file->doorbell >= 0 &&
	    !urxe_libc.epoll_ctl(file->fd, EPOLL_CTL_ADD, file->arrived, &ev))
		return 0;
	urxe_umad_rings_end(file);
	return -errno;
}

void urxe_umad_rings_end(struct urxe_umad *file)
{
	int err = errno;

	if (file->rings)
		munmap(file->rings, sizeof(*file->rings));
	/* fabricd may have it still: it does not leave the epoll by itself. */
	if (file->arrived >= 0)
		urxe_libc.epoll_ctl(file->fd, EPOLL_CTL_DEL, file->arrived, NULL);
	urxe_fd_close(file->arrived);
	urxe_fd_close(file->doorbell);
	file->rings = NULL;
	file->arrived = file->doorbell = -1;
	errno = err;
}

/* fabricd has read everything that went by the socket. */
static bool socket_empty(const struct urxe_umad *file)
{
	int bytes;

	return !urxe_libc.ioctl(file->sock, SIOCOUTQ, &bytes) && !bytes;
}

bool urxe_umad_rings_send(struct urxe_umad *file, const uint8_t *umad, size_t len)
{
	struct mad_slot *slot;
	uint64_t one = 1;

	if (!file->rings || file->inherited)
		return false;
	if (file->by_socket && socket_empty(file))
		file->by_socket = false;
	slot = file->by_socket || len > FABRIC_INLINE ? NULL
						      : mad_ring_room(&file->rings->to_fabric);
	file->by_socket = !slot;
	if (!slot)
		return false;
	slot->len = len;
	memcpy(slot->bytes, umad, len);
	if (mad_ring_publish(&file->rings->to_fabric))
		(void)!urxe_libc.write(file->doorbell, &one, sizeof(one));
	return true;
}

ssize_t urxe_umad_rings_receive(struct urxe_umad *file, uint8_t umad[FABRIC_INLINE], size_t room)
{
	uint64_t one;
	ssize_t n;

	if (!file->rings || urxe_libc.read(file->arrived, &one, sizeof(one)) != sizeof(one))
		return -EAGAIN;
	n = mad_ring_take(&file->rings->to_program, umad, room);
	if (n != -EINVAL)
		return n < 0 ? -EAGAIN : n;
	/* It is still there to be read. */
	one = 1;
	(void)!urxe_libc.write(file->arrived, &one, sizeof(one));
	return n;
}
