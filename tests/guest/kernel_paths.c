/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The kernel's rdma_cm finds a path by asking sacached, on a kernel device that has a subnet
 * administrator in name only (rxe_ib.h): sacached's netlink.c is here with an SA of this program's,
 * and a child that resolves a route as any program does. What rdma_cm then has is what was
 * answered.
 */
#include <errno.h>
#include <infiniband/ib.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemons/common/log.h"
#include "daemons/sacached/addresses.h"
#include "daemons/sacached/netlink.h"
#include "daemons/sacached/resolve.h"

#define SERVICE 0x0000000001061234ull

static struct sacached d;
static bool reversible;
static struct sacache_key asked;

/* In place of resolve.c's: what is asked for is there, by LID 77. */
struct resolve {
	struct event *timer;
	struct sacache_path path;
	void (*done)(void *arg, int status, const struct sacache_path *path);
	void *arg;
};

static void answer_now(evutil_socket_t fd, short what, void *arg)
{
	struct resolve *resolve = arg;

	resolve->done(resolve->arg, 0, &resolve->path);
	event_free(resolve->timer);
	free(resolve);
}

/* Nothing is in the table. */
int resolve_lookup(struct sacached *daemon, const struct sacache_key *key,
		   struct sacache_path *path)
{
	return -ENOENT;
}

struct resolve *resolve_path(struct sacached *daemon, const struct sacache_key *key,
			     unsigned deadline,
			     void (*done)(void *arg, int status, const struct sacache_path *path),
			     void *arg)
{
	static const struct timeval at_once;
	struct resolve *resolve = calloc(1, sizeof(*resolve));

	asked = *key;
	resolve->done = done;
	resolve->arg = arg;
	resolve->path = (struct sacache_path){
		.dlid = 77,
		.slid = 5,
		.service_id = key->service_id,
		.pkey = key->pkey,
		.tclass = key->tclass,
		.sl = 3,
		.mtu = 4,
		.rate = 16,
		.lifetime = 14,
		.numb_path = 1,
		.reversible = reversible,
	};
	memcpy(resolve->path.dgid, key->dgid, 16);
	memcpy(resolve->path.sgid, key->sgid, 16);
	resolve->timer = evtimer_new(daemon->base, answer_now, resolve);
	event_add(resolve->timer, &at_once);
	return resolve;
}

void resolve_cancel(struct resolve *resolve)
{
	event_free(resolve->timer);
	free(resolve);
}

static struct sockaddr_ib ib_address(const uint8_t gid[16])
{
	struct sockaddr_ib address = {.sib_family = AF_IB, .sib_pkey = htobe16(0xffff)};

	memcpy(&address.sib_addr, gid, 16);
	address.sib_sid = htobe64(SERVICE);
	address.sib_sid_mask = htobe64(UINT64_MAX);
	return address;
}

static int event(struct rdma_event_channel *channel, enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;
	int status = -EIO;

	if (rdma_get_cm_event(channel, &event))
		return -errno;
	if (event->event == wanted)
		status = 0;
	else
		fprintf(stderr, "%s, %d\n", rdma_event_str(event->event), event->status);
	rdma_ack_cm_event(event);
	return status;
}

/* The child: prints the path that rdma_cm got. */
static int client(const uint8_t sgid[16], const uint8_t dgid[16])
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_ib from = ib_address(sgid), to = ib_address(dgid);
	const struct ibv_sa_path_rec *path;
	struct rdma_cm_id *id;

	if (!channel || rdma_create_id(channel, &id, NULL, RDMA_PS_IB)) {
		perror("rdma_create_id");
		return 1;
	}
	from.sib_sid = from.sib_sid_mask = 0; /* any */
	if (rdma_resolve_addr(id, (struct sockaddr *)&from, (struct sockaddr *)&to, 2000)) {
		perror("rdma_resolve_addr");
		return 1;
	}
	if (event(channel, RDMA_CM_EVENT_ADDR_RESOLVED))
		return 1;
	if (rdma_resolve_route(id, 3000)) {
		perror("rdma_resolve_route");
		return 1;
	}
	if (event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED) || !id->route.num_paths)
		return 2;
	path = id->route.path_rec;
	printf("path: DLID %u SLID %u SL %u P_Key 0x%04x MTU %u rate %u\n", be16toh(path->dlid),
	       be16toh(path->slid), path->sl, be16toh(path->pkey), path->mtu, path->rate);
	fflush(stdout);
	return path->dlid == htobe16(77) && path->slid == htobe16(5) && path->sl == 3 ? 0 : 3;
}

static void child_ended(evutil_socket_t fd, short what, void *arg)
{
	event_base_loopbreak(d.base);
}

/* One route, with the daemon's loop beside it. Returns how the child ended. */
static int run(const uint8_t sgid[16], const uint8_t dgid[16])
{
	struct event *ended;
	int fds[2], status;
	pid_t pid;

	if (pipe(fds))
		return -1;
	pid = fork();
	if (!pid) {
		close(fds[0]);
		_exit(client(sgid, dgid));
	}
	close(fds[1]);
	ended = event_new(d.base, fds[0], EV_READ, child_ended, NULL);
	event_add(ended, NULL);
	event_base_dispatch(d.base);
	event_free(ended);
	close(fds[0]);
	if (waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static struct ibv_device *find(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (; list && *list; list++)
		if (!strcmp(ibv_get_device_name(*list), name))
			return *list;
	return NULL;
}

static bool start(const char *device)
{
	log_level = LOG_DEBUG;
	d.base = event_base_new();
	d.config.netlink = true;
	d.config.deadline = 4000;
	d.nports = 1;
	d.ports[0] = (struct sacached_port){.open = true, .active = true, .portnum = 1};
	snprintf(d.ports[0].ca, sizeof(d.ports[0].ca), "%s", device);
	return !sacache_create(NULL, &d.cache) && !addresses_start(&d, &d.addresses) &&
	       !netlink_start(&d, &d.netlink);
}

int main(int argc, char **argv)
{
	uint8_t sgid[16], dgid[16] = {0xfe, 0x80, [15] = 9};
	struct ibv_device *device = argc == 2 ? find(argv[1]) : NULL;
	struct ibv_context *context = device ? ibv_open_device(device) : NULL;
	struct netlink_stats stats;
	int good, refused;

	if (!context || ibv_query_gid(context, 1, 0, (union ibv_gid *)sgid) || !start(argv[1])) {
		fprintf(stderr, "usage: kernel_paths DEVICE\n");
		return 1;
	}
	reversible = true;
	good = run(sgid, dgid);
	reversible = false;
	refused = run(sgid, dgid);
	netlink_stats(d.netlink, &stats);
	printf("asked: service ID 0x%016llx, P_Key 0x%04x, mask 0x%x\n",
	       (unsigned long long)asked.service_id, asked.pkey, asked.mask);
	printf("good %d, without a path back %d; %llu questions, %llu answers, %llu errors\n", good,
	       refused, (unsigned long long)stats.paths, (unsigned long long)stats.answered,
	       (unsigned long long)stats.errors);
	return good || !refused || stats.answered != 1 || stats.errors != 1 ||
	       asked.service_id != SERVICE;
}
