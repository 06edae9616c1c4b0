/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How long a path takes to get, one after the other, in µs:
 *
 *	sacache_ask sa COUNT GUID…		from the SA: a PathRecord Get by libibumad, and its answer
 *	sacache_ask SOCKET COUNT GUID…		from sacached, or ibacm, at that unix socket
 *
 * The destinations are asked for in turn. Through the socket each is asked for once before.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <infiniband/umad.h>

#include "libsacache/mad.h"
#include "measure.h"

struct acm_message {
	uint8_t version, op, status, data[3];
	uint16_t length;
	uint64_t tid;
	uint32_t flags;
	uint16_t type, spare;
	uint8_t record[SA_RECORD_SIZE];
};
_Static_assert(sizeof(struct acm_message) == 88, "a header and an entry");
enum { ACM_RESOLVE = 1, ACM_ANSWER = 0x80, ACM_PATH = 16 };

static char **guids;
static unsigned nguids;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void set_gid(unsigned n, uint8_t gid[16])
{
	memset(gid, 0, 16);
	gid[0] = 0xfe;
	gid[1] = 0x80;
	sa_put64(gid + 8, strtoull(guids[n % nguids], NULL, 16));
}

/* One question to the SA. libibumad's descriptor is read by nobody else. */
static void get(int port, int agent, void *umad, unsigned n, const umad_port_t *from)
{
	struct sacache_key key = {.mask = SACACHE_DGID};
	struct sa_mad mad = {.method = SA_GET, .tid = n + 1, .attribute = SA_ATTR_PATH_RECORD};
	uint8_t data[SA_MAD_DATA_SIZE] = {0}, gid[16];
	int length = SA_MAD_SIZE;

	set_gid(n, key.dgid);
	memcpy(gid, &from->gid_prefix, 8);
	memcpy(gid + 8, &from->port_guid, 8);
	mad.comp_mask = sa_record_ask(&key, gid, data);
	mad.data = data;
	memset(umad, 0, umad_size());
	sa_mad_encode(&mad, umad_get_mad(umad));
	umad_set_addr(umad, from->sm_lid, 1, from->sm_sl, 0x80010000);
	if (umad_send(port, agent, umad, SA_MAD_SIZE, 1000, 3) ||
	    umad_recv(port, umad, &length, 5000) < 0 || umad_status(umad) ||
	    sa_mad_decode(umad_get_mad(umad), SA_MAD_SIZE, &mad) || mad.status ||
	    memcmp(mad.data + 8, key.dgid, 16) != 0) {
		fputs("sacache_ask: no answer of the SA\n", stderr);
		exit(1);
	}
}

static double ask_sa(unsigned count)
{
	umad_port_t attr;
	void *umad;
	double begin;
	int port, agent;

	if (umad_init() < 0 || umad_get_port(NULL, 0, &attr))
		die("port");
	port = umad_open_port(attr.ca_name, attr.portnum);
	agent = port < 0 ? -1 : umad_register(port, 3, 2, 0, NULL);
	umad = umad_alloc(1, umad_size() + SA_MAD_SIZE);
	if (agent < 0 || !umad)
		die("port");
	for (unsigned n = 0; n < nguids; n++)
		get(port, agent, umad, n, &attr);
	begin = now_us();
	for (unsigned n = 0; n < count; n++)
		get(port, agent, umad, n, &attr);
	begin = now_us() - begin;
	umad_unregister(port, agent);
	umad_close_port(port);
	umad_free(umad);
	umad_release_port(&attr);
	return begin / count;
}

static void resolve(int fd, unsigned n)
{
	struct acm_message message = {.version = 1,
				      .op = ACM_RESOLVE,
				      .length = sizeof(message),
				      .tid = n,
				      .type = ACM_PATH};
	uint8_t gid[16];

	set_gid(n, gid);
	memcpy(message.record + 8, gid, 16);
	if (send(fd, &message, sizeof(message), MSG_NOSIGNAL) != sizeof(message) ||
	    recv(fd, &message, sizeof(message), MSG_WAITALL) != sizeof(message))
		die("socket");
	if (message.status || message.tid != n || memcmp(message.record + 8, gid, 16) != 0) {
		fprintf(stderr, "sacache_ask: answered with status %u\n", message.status);
		exit(1);
	}
}

static double ask_socket(const char *path, unsigned count)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	double begin;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)))
		die(path);
	for (unsigned n = 0; n < nguids; n++)
		resolve(fd, n);
	begin = now_us();
	for (unsigned n = 0; n < count; n++)
		resolve(fd, n);
	return (now_us() - begin) / count;
}

int main(int argc, char **argv)
{
	unsigned count = argc > 3 ? strtoul(argv[2], NULL, 0) : 0;

	if (!count)
		return 2;
	guids = argv + 3;
	nguids = argc - 3;
	printf("%.3f\n", strcmp(argv[1], "sa") ? ask_socket(argv[1], count) : ask_sa(count));
	return 0;
}
