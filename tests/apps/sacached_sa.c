/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Preloaded into sacached instead of ibsim's umad front, for loads that ibsim does not carry: a
 * device "scripted" with one port, GID fe80::1 and LID 1, and an SA that answers at once. Of the
 * GIDs fe80::N and the LIDs it knows all, N being the LID, but 65535. Does not answer where the
 * environment has SACACHED_SA=silent. SACACHED_PORTS=FOLDER: there is a second port, fe80::2 and
 * LID 2, and port N is active when FOLDER/N is there.
 */
#include <endian.h>
#include <errno.h>
#include <infiniband/umad.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAD = 256, QUEUE = 4096, AT_METHOD = 3, AT_STATUS = 4, AT_ATTRIBUTE = 16, AT_RECORD = 56 };
enum { GET = 1, GET_RESP = 0x81, PATH_RECORD = 0x35, NO_RECORDS = 0x0300, UNKNOWN = 0xffff };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
static struct queue {
	uint8_t mad[QUEUE][MAD];
	unsigned first, last;
} queues[2]; /* by port, from 0 on, as libibumad's ID of it */

#pragma GCC visibility push(default)

int umad_init(void)
{
	return 0;
}

int umad_get_cas_names(char names[][UMAD_CA_NAME_LEN], int max)
{
	strcpy(names[0], "scripted");
	return 1;
}

static bool active(int portnum)
{
	const char *folder = getenv("SACACHED_PORTS");
	char path[512];

	snprintf(path, sizeof(path), "%s/%d", folder ? folder : "", portnum);
	return !folder || !access(path, F_OK);
}

static void fill(umad_port_t *port, int portnum)
{
	static uint16_t pkey = 0xffff;

	memset(port, 0, sizeof(*port));
	strcpy(port->ca_name, "scripted");
	strcpy(port->link_layer, "InfiniBand");
	port->portnum = portnum;
	port->state = active(portnum) ? 4 : 1;
	port->base_lid = port->state == 4 ? portnum : 0;
	port->sm_lid = port->state == 4;
	port->gid_prefix = htobe64(0xfe80000000000000);
	port->port_guid = htobe64(portnum);
	port->pkeys = &pkey;
	port->pkeys_size = 1;
}

int umad_get_ca(const char *name, umad_ca_t *ca)
{
	static umad_port_t ports[3];

	memset(ca, 0, sizeof(*ca));
	strcpy(ca->ca_name, "scripted");
	ca->numports = getenv("SACACHED_PORTS") ? 2 : 1;
	ca->node_guid = htobe64(2);
	for (int i = 1; i <= ca->numports; i++) {
		fill(&ports[i], i);
		ca->ports[i] = &ports[i];
	}
	return 0;
}

int umad_release_ca(umad_ca_t *ca)
{
	return 0;
}

int umad_get_port(const char *name, int portnum, umad_port_t *port)
{
	fill(port, portnum);
	return 0;
}

int umad_release_port(umad_port_t *port)
{
	return 0;
}

int umad_open_port(const char *name, int portnum)
{
	return portnum - 1;
}

int umad_close_port(int port)
{
	return 0;
}

int umad_register(int port, int class, int version, uint8_t rmpp, long methods[16 / sizeof(long)])
{
	return 0;
}

int umad_unregister(int port, int agent)
{
	return 0;
}

static void answer(uint8_t *mad, int port)
{
	uint8_t *record = mad + AT_RECORD;
	uint16_t dlid;

	memcpy(&dlid, record + 40, 2);
	if (!dlid)
		memcpy(&dlid, record + 8 + 14, 2);
	mad[AT_METHOD] = GET_RESP;
	if (be16toh(dlid) == UNKNOWN) {
		mad[AT_STATUS] = NO_RECORDS >> 8;
		return;
	}
	memset(record + 8, 0, 32);
	record[8] = record[24] = 0xfe;
	record[9] = record[25] = 0x80;
	memcpy(record + 8 + 14, &dlid, 2);
	record[24 + 15] = port + 1;
	memcpy(record + 40, &dlid, 2);
	record[43] = port + 1;
	record[50] = record[51] = 0xff;
	record[54] = 0x84;
	record[55] = 0x83;
	record[56] = 0x92;
}

int umad_send(int port, int agent, void *umad, int length, int timeout, int retries)
{
	const uint8_t *mad = umad_get_mad(umad);
	const char *script = getenv("SACACHED_SA");
	struct queue *queue = &queues[port];

	if (mad[AT_METHOD] != GET || mad[AT_ATTRIBUTE + 1] != PATH_RECORD ||
	    (script && !strcmp(script, "silent")))
		return 0;
	pthread_mutex_lock(&lock);
	if (queue->last - queue->first < QUEUE) {
		memcpy(queue->mad[queue->last % QUEUE], mad, MAD);
		answer(queue->mad[queue->last++ % QUEUE], port);
		pthread_cond_broadcast(&came);
	}
	pthread_mutex_unlock(&lock);
	return 0;
}

int umad_recv(int port, void *umad, int *length, int timeout)
{
	struct queue *queue = &queues[port];
	struct timespec until;
	int ret = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += timeout / 1000;
	until.tv_nsec += timeout % 1000 * 1000000l;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&lock);
	while (queue->first == queue->last && !ret)
		ret = pthread_cond_timedwait(&came, &lock, &until);
	if (queue->first != queue->last) {
		memset(umad, 0, umad_size());
		memcpy(umad_get_mad(umad), queue->mad[queue->first++ % QUEUE], MAD);
		umad_get_mad_addr(umad)->lid = htobe16(1);
		*length = MAD;
		ret = 0;
	}
	pthread_mutex_unlock(&lock);
	return ret ? -ETIMEDOUT : 0;
}
