/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The guest that a crowd of peers writes to by RDMA: lidtrack-guest SOCKET MEMORY [ALIAS]
 *
 * MEMORY is a file and stands for the guest's memory, which the hypervisor moves; this program, for
 * what the guest does while it has an adapter. It begins when the adapter is attached and is killed
 * when it is detached, and with it go all connections, as when a virtual function is taken away.
 * SOCKET is there as long as the port is Active, and answers what crowd.h says.
 *
 * ALIAS is the vGUID of a function that shares its host's port: an alias GUID of that port, which
 * the SA is asked for (SubnAdmSet(GUIDInfoRecord), 15.2.5.18), and to forget at SIGTERM.
 *
 * One thread.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/umad.h>
#include <infiniband/verbs.h>

#include "crowd.h"

#define PEERS_MAX 4096
#define CLIENTS	  16

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_qp *qps[PEERS_MAX]; /* of peers */
static struct slot *slots;
static uint64_t guid, life;
static bool is_alias;
static volatile sig_atomic_t over;

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "lidtrack-guest: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- the adapter ---- */

static void wait_until_active(void)
{
	const struct timespec pause = {.tv_nsec = 2000000};
	struct ibv_port_attr port = {0};
	union ibv_gid gid;

	for (;;) {
		must(!ibv_query_port(context, 1, &port), "ibv_query_port");
		if (port.state == IBV_PORT_ACTIVE)
			break;
		nanosleep(&pause, NULL);
	}
	must(!ibv_query_gid(context, 1, 0, &gid), "ibv_query_gid");
	guid = be64toh(gid.global.interface_id);
}

static void open_adapter(const char *memory)
{
	int fd = open(memory, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct timespec now;

	must(list && list[0], "no device");
	context = ibv_open_device(list[0]);
	must(context != NULL, "ibv_open_device");
	ibv_free_device_list(list);
	must(fd >= 0 && !ftruncate(fd, PEERS_MAX * sizeof(*slots)), memory);
	slots = mmap(NULL, PEERS_MAX * sizeof(*slots), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(slots != MAP_FAILED, "mmap");
	close(fd);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	mr = pd ? ibv_reg_mr(pd, slots, PEERS_MAX * sizeof(*slots),
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
		: NULL;
	must(cq && mr, "objects");
	clock_gettime(CLOCK_REALTIME, &now);
	life = now.tv_sec * 1000000000ull + now.tv_nsec;
	wait_until_active();
}

static bool to_ready(struct ibv_qp *qp, const struct crowd_request *request)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		return false;
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
				    .path_mtu = IBV_MTU_1024,
				    .dest_qp_num = request->qpn,
				    .max_dest_rd_atomic = 1,
				    .min_rnr_timer = 12,
				    .ah_attr = {.dlid = request->lid, .port_num = 1}};
	return !ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				      IBV_QP_MIN_RNR_TIMER);
}

/* ---- an alias GUID ---- */

#define QP1_QKEY 0x80010000

enum { SA_SET = 0x02, SA_DELETE = 0x15, SA_ANSWER = 0x80, ALIAS_INDEX = 1, SA_TRIES = 250 };

struct sa_mad {
	uint8_t base_version, class, class_version, method;
	uint16_t status, specific;
	uint64_t tid;
	uint16_t attribute, reserved;
	uint32_t modifier;
	uint8_t rmpp[12];
	uint64_t sm_key;
	uint16_t offset, reserved2;
	uint64_t components;
	struct {
		uint16_t lid;
		uint8_t block, reserved;
		uint32_t reserved2;
		uint64_t guids[8];
	} __attribute__((packed)) record;
	uint8_t rest[128];
} __attribute__((packed));
_Static_assert(sizeof(struct sa_mad) == 256, "a MAD");

/* False: the SA did not do it, or not yet. */
static bool ask_sa(int fd, int agent, uint8_t method, uint64_t alias)
{
	_Alignas(8) uint8_t umad[sizeof(struct sa_mad) + 64] = {0};
	struct sa_mad *mad = umad_get_mad(umad);
	int length = sizeof(*mad);
	struct ibv_port_attr port;

	if (ibv_query_port(context, 1, &port) || !port.lid)
		return false;
	mad->base_version = 1;
	mad->class = 3;
	mad->class_version = 2;
	mad->method = method;
	mad->tid = htobe64(1);
	mad->attribute = htobe16(0x30);
	mad->components = htobe64(1 | 1 << 1 | 1 << (4 + ALIAS_INDEX));
	mad->record.lid = htobe16(port.lid);
	mad->record.guids[ALIAS_INDEX] = htobe64(alias);
	umad_set_addr(umad, port.sm_lid, 1, port.sm_sl, QP1_QKEY);
	return umad_send(fd, agent, umad, length, 500, 0) >= 0 &&
	       umad_recv(fd, umad, &length, -1) >= 0 && !umad_status(umad) && !mad->status &&
	       (method == SA_DELETE || mad->record.guids[ALIAS_INDEX] == htobe64(alias));
}

static void set_alias(uint8_t method, uint64_t alias)
{
	const struct timespec pause = {.tv_nsec = 20000000};
	int fd = umad_open_port(NULL, 0), agent, tries = 0;

	agent = fd < 0 ? -1 : umad_register(fd, 3, 2, 0, NULL);
	must(agent >= 0, "umad");
	while (!ask_sa(fd, agent, method, alias) && ++tries < SA_TRIES)
		nanosleep(&pause, NULL);
	must(tries < SA_TRIES, "the SA does not do it");
	umad_close_port(fd);
}

static void on_term(int signal)
{
	over = 1;
}

/* ---- requests ---- */

static void connect_peer(const struct crowd_request *request, struct crowd_answer *answer)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp **qp = &qps[request->peer];

	if (*qp)
		ibv_destroy_qp(*qp);
	*qp = ibv_create_qp(pd, &init);
	if (!*qp || !to_ready(*qp, request))
		return;
	answer->qpn = (*qp)->qp_num;
	answer->rkey = mr->rkey;
	answer->address = (uintptr_t)&slots[request->peer];
}

static uint32_t arrived(uint32_t peers, uint64_t round)
{
	struct slot want;
	uint32_t count = 0;

	for (uint32_t i = 0; i < peers; i++) {
		memset(&want, 0, sizeof(want));
		slot_fill(&want, i, round);
		count += slots[i].sum == slot_sum(&slots[i]) &&
			 !memcmp(&slots[i], &want, sizeof(want));
	}
	return count;
}

/* False: the other end is gone. */
static bool serve(int fd)
{
	struct crowd_request request;
	struct crowd_answer answer = {.guid = guid, .life = life};

	if (recv(fd, &request, sizeof(request), 0) != sizeof(request) || request.peer > PEERS_MAX)
		return false;
	if (request.ask == CROWD_CONNECT && request.peer < PEERS_MAX)
		connect_peer(&request, &answer);
	if (request.ask == CROWD_ARRIVED)
		answer.arrived = arrived(request.peer, request.round);
	return send(fd, &answer, sizeof(answer), MSG_NOSIGNAL) == sizeof(answer);
}

static int listen_at(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	must(fd >= 0 && strlen(path) < sizeof(address.sun_path), path);
	strcpy(address.sun_path, path);
	unlink(path);
	must(!bind(fd, (struct sockaddr *)&address, sizeof(address)) && !listen(fd, CLIENTS), path);
	return fd;
}

int main(int argc, char **argv)
{
	struct pollfd fds[1 + CLIENTS];
	nfds_t count = 1;

	if (argc != 3 && argc != 4) {
		fputs("usage: lidtrack-guest SOCKET MEMORY [ALIAS]\n", stderr);
		return 2;
	}
	open_adapter(argv[2]);
	if (argc == 4) {
		guid = strtoull(argv[3], NULL, 16);
		is_alias = true;
		sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_term}, NULL);
		set_alias(SA_SET, guid);
	}
	fds[0] = (struct pollfd){.fd = listen_at(argv[1]), .events = POLLIN};
	while (!over && (poll(fds, count, 100) >= 0 || errno == EINTR)) {
		if (over)
			break;
		for (nfds_t i = 1; i < count; i++)
			if (fds[i].revents && !serve(fds[i].fd)) {
				close(fds[i].fd);
				fds[i--] = fds[--count];
			}
		if (fds[0].revents && count <= CLIENTS) {
			int fd = accept4(fds[0].fd, NULL, NULL, SOCK_CLOEXEC);

			if (fd >= 0)
				fds[count++] = (struct pollfd){.fd = fd, .events = POLLIN};
		}
	}
	unlink(argv[1]);
	if (is_alias)
		set_alias(SA_DELETE, guid);
	return !over;
}
