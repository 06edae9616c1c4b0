/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What takes libibumad's place for a port that opens: what the test delivers, umad_recv() gives.
 * What ports there are and what is sent is the test's own: umad_get_port(), umad_open_port(),
 * umad_register(), umad_set_addr() and umad_send().
 */
#ifndef SACACHE_UMAD_H
#define SACACHE_UMAD_H

#include "sacache_test.h"

#include <endian.h>
#include <pthread.h>
#include <time.h>
#include <infiniband/umad.h>

#include "libsacache/mad.h"

enum { QUEUE = 4096 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
/* What is on its way to the port. */
static struct {
	uint8_t mads[QUEUE][SA_MAD_SIZE];
	uint16_t from[QUEUE];
	unsigned first, last;
} queue;

/* Under lock. */
static void deliver(const uint8_t *mad, uint16_t from)
{
	queue.from[queue.last % QUEUE] = from;
	memcpy(queue.mads[queue.last++ % QUEUE], mad, SA_MAD_SIZE);
	pthread_cond_signal(&arrived);
}

int umad_init(void)
{
	return 0;
}

int umad_release_port(umad_port_t *attr)
{
	return 0;
}

int umad_close_port(int portid)
{
	return 0;
}

int umad_unregister(int portid, int agent)
{
	return 0;
}

size_t umad_size(void)
{
	return sizeof(struct ib_user_mad);
}

void *umad_get_mad(void *umad)
{
	return ((struct ib_user_mad *)umad)->data;
}

int umad_status(void *umad)
{
	return 0;
}

int umad_recv(int portid, void *umad, int *length, int timeout)
{
	struct ib_user_mad *in = umad;
	struct timespec until;
	int ret = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += timeout * 1000000l;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	memset(umad, 0, sizeof(*in));
	pthread_mutex_lock(&lock);
	while (queue.first == queue.last && ret != ETIMEDOUT)
		ret = pthread_cond_timedwait(&arrived, &lock, &until);
	ret = -ETIMEDOUT;
	if (queue.first != queue.last) {
		in->addr.lid = htobe16(queue.from[queue.first % QUEUE]);
		memcpy(in->data, queue.mads[queue.first++ % QUEUE], SA_MAD_SIZE);
		*length = SA_MAD_SIZE;
		ret = 0;
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

#endif
