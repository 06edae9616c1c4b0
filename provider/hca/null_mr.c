/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Null regions (ibv_alloc_null_mr(3)): any address may be named, what is written is lost, and what
 * is read is zero. Their rows in the registration table have a right of their own and none that
 * says that the memory is there, so that other regions pay nothing for them (memory.h). Reads go to
 * a page of zeros and writes to one that nobody reads, repeated for as long as a packet's payload
 * may be.
 */
#include <errno.h>
#include <sys/mman.h>

#include "hca/memory.h"
#include "host/mutex.h"

#define BYTES (1u << 20) /* more than any packet carries */

static URXE_MUTEX(lock);
static uint8_t *zeros, *scratch;

static_assert(BYTES > URXE_MAX_REFERRED && BYTES > 65536, "a copy's longest piece");

static uint8_t *map(int prot)
{
	void *p = mmap(NULL, BYTES, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* They stay for the life of the process. */
static bool have_memory(void)
{
	pthread_mutex_lock(&lock);
	if (!zeros)
		zeros = map(PROT_READ);
	if (!scratch)
		scratch = map(PROT_READ | PROT_WRITE);
	pthread_mutex_unlock(&lock);
	return zeros && scratch;
}

void *urxe_null_memory(bool write)
{
	return write ? scratch : zeros;
}

struct ibv_mr *urxe_alloc_null_mr(struct ibv_pd *pd)
{
	return have_memory() ? urxe_mr_enter_null(pd) : urxe_fail(ENOMEM);
}
