/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A table of waiting clients, in a memfd. All in the loop's thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemons/sacached/acm_pending.h"
#include "daemons/common/notify.h"

#define PLACES 65536 /* the pages are allocated when they are first used */

struct place {
	uint64_t inode;
	uint8_t header[ACM_HEADER_SIZE];
};
_Static_assert(sizeof(struct place) == 24, "another version of the daemon reads it");

struct acm_pending {
	struct place *places;
	unsigned free_places[PLACES]; /* given back */
	unsigned left;		      /* the last daemon's places are before this one */
	unsigned nfree;
	unsigned fresh; /* places from here on were never used */
};

static const char memory_name[] = "acm-pending"; /* for systemd */

/* The last daemon's table, if it is valid. */
static int take_memory(struct sacached *d)
{
	struct stat st;
	int fd;

	if (notify_take_fds(d->notify, memory_name, &fd, 1) != 1)
		return -1;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size == PLACES * sizeof(struct place))
		return fd;
	close(fd);
	return -1;
}

static int make_memory(struct sacached *d)
{
	int fd = memfd_create("sacached-pending", MFD_CLOEXEC);

	if (fd < 0)
		return -1;
	if (ftruncate(fd, PLACES * sizeof(struct place)) ||
	    notify_keep_fds(d->notify, memory_name, &fd, 1)) {
		close(fd);
		return -1;
	}
	return fd;
}

struct acm_pending *acm_pending_open(struct sacached *d)
{
	struct acm_pending *pending;
	int fd = take_memory(d);

	if (fd < 0)
		fd = make_memory(d);
	if (fd < 0)
		return NULL;
	pending = calloc(1, sizeof(*pending));
	if (pending)
		pending->places = mmap(NULL, PLACES * sizeof(struct place), PROT_READ | PROT_WRITE,
				       MAP_SHARED, fd, 0);
	close(fd);
	if (pending && pending->places == MAP_FAILED) {
		free(pending);
		return NULL;
	}
	for (unsigned i = 0; pending && i < PLACES; i++)
		if (pending->places[i].inode)
			pending->left = i + 1;
	return pending;
}

void acm_pending_close(struct acm_pending *pending)
{
	if (!pending)
		return;
	munmap(pending->places, PLACES * sizeof(struct place));
	free(pending);
}

static uint64_t inode_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

int acm_pending_add(struct acm_pending *pending, int fd, const uint8_t header[ACM_HEADER_SIZE])
{
	struct place *place;
	int number;

	if (!pending || (!pending->nfree && pending->fresh == PLACES))
		return -1;
	number = pending->nfree ? pending->free_places[--pending->nfree] : pending->fresh++;
	place = &pending->places[number];
	memcpy(place->header, header, ACM_HEADER_SIZE);
	/* Last: the inode marks an entry as complete. */
	__atomic_store_n(&place->inode, inode_of(fd), __ATOMIC_RELEASE);
	return number;
}

void acm_pending_remove(struct acm_pending *pending, int place)
{
	if (!pending || place < 0)
		return;
	__atomic_store_n(&pending->places[place].inode, 0, __ATOMIC_RELEASE);
	pending->free_places[pending->nfree++] = place;
}

bool acm_pending_find(const struct acm_pending *pending, int fd, uint8_t header[ACM_HEADER_SIZE])
{
	uint64_t inode = inode_of(fd);

	for (unsigned i = 0; pending && inode && i < pending->left; i++) {
		if (pending->places[i].inode == inode) {
			memcpy(header, pending->places[i].header, ACM_HEADER_SIZE);
			return true;
		}
	}
	return false;
}

void acm_pending_clear(struct acm_pending *pending)
{
	if (pending)
		memset(pending->places, 0, pending->left * sizeof(struct place));
}
