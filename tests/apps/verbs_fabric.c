// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Datagrams by LID between hosts of a fabric:
 *
 *	verbs_fabric take N		says "LID QPN" on its first line, then of N datagrams what they hold and what
 *					their completions say of the way that they came
 *	verbs_fabric give [ADDRESS]…	sends a datagram to each LID:QPN:TEXT[:sl=N][:from=PATHBITS][:grh=GUID]
 *	verbs_fabric hear MGID MLID	until it is killed, says of each datagram to a group its number and how many
 *					milliseconds it was under way
 *	verbs_fabric call MGID MLID A B	sends those with the numbers A to B
 *	verbs_fabric stay		until its input ends
 *	verbs_fabric sleep		says "asleep", then of each asynchronous event its name, its port and
 *					what the port's attributes are as soon as it is there
 */
#include <endian.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <arpa/inet.h>
#include <infiniband/verbs.h>

#define QKEY  0x1234
#define ROOM  256
#define ROOMS 1024 /* as many as a receiver may be late */

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static uint8_t memory[ROOMS * ROOM];

static void must(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static void start(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_UD,
					.cap = {.max_send_wr = 4,
						.max_recv_wr = ROOMS,
						.max_send_sge = 1,
						.max_recv_sge = 1}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};

	must(list && list[0], "devices");
	context = ibv_open_device(list[0]);
	must(context != NULL, "ibv_open_device");
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 2 * ROOMS, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	must(pd && cq && mr, "objects");
	init.send_cq = init.recv_cq = cq;
	qp = ibv_create_qp(pd, &init);
	must(qp != NULL, "ibv_create_qp");
	must(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
	     "INIT");
	attr.qp_state = IBV_QPS_RTR;
	must(!ibv_modify_qp(qp, &attr, IBV_QP_STATE), "RTR");
	attr.qp_state = IBV_QPS_RTS;
	must(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTS");
	ibv_free_device_list(list);
}

static struct ibv_wc completion(void)
{
	struct ibv_wc wc;

	while (!ibv_poll_cq(cq, 1, &wc))
		;
	must(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
	return wc;
}

static void stop(void)
{
	ibv_destroy_qp(qp);
	ibv_dereg_mr(mr);
	ibv_destroy_cq(cq);
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
}

/* An answer's address is made as programs make it, and is the sender's. */
static void print(const struct ibv_wc *given)
{
	uint8_t *at = memory + given->wr_id * ROOM;
	struct ibv_grh *grh = (struct ibv_grh *)at;
	struct ibv_wc wc = *given;
	struct ibv_ah_attr back;

	printf("%s slid=%u sl=%u bits=%u", at + 40, wc.slid, wc.sl, wc.dlid_path_bits);
	if (wc.wc_flags & IBV_WC_GRH)
		printf(" grh=%016llx", (unsigned long long)be64toh(grh->sgid.global.interface_id));
	must(!ibv_init_ah_from_wc(context, 1, &wc, grh, &back), "ibv_init_ah_from_wc");
	printf(" back=%u:%u:%u:%u\n", back.dlid, back.sl, back.src_path_bits, back.is_global);
	fflush(stdout);
}

static void take(unsigned n)
{
	struct ibv_port_attr port;

	for (unsigned i = 0; i < n; i++) {
		struct ibv_sge sge = {(uintptr_t)memory + i * ROOM, ROOM, mr->lkey};
		struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

		must(!ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
	}
	ibv_query_port(context, 1, &port);
	printf("%u %u\n", port.lid, qp->qp_num);
	fflush(stdout);
	while (n--) {
		struct ibv_wc wc = completion();

		print(&wc);
	}
}

static void give(char *address)
{
	struct ibv_sge sge = {(uintptr_t)memory, ROOM - 40, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	struct ibv_ah_attr to = {.dlid = atoi(strsep(&address, ":")), .port_num = 1};
	struct ibv_ah *ah;
	char *word;

	wr.wr.ud.remote_qpn = strtoul(strsep(&address, ":"), NULL, 0);
	wr.wr.ud.remote_qkey = QKEY;
	wr.send_flags = IBV_SEND_SIGNALED;
	strcpy((char *)memory, strsep(&address, ":"));
	while ((word = strsep(&address, ":"))) {
		if (sscanf(word, "sl=%hhu", &to.sl) == 1 ||
		    sscanf(word, "from=%hhu", &to.src_path_bits) == 1)
			continue;
		to.is_global = 1;
		to.grh.dgid.global.subnet_prefix = htobe64(0xfe80000000000000);
		to.grh.dgid.global.interface_id = htobe64(strtoull(word + 4, NULL, 16));
	}
	ah = ibv_create_ah(pd, &to);
	must(ah != NULL, "ibv_create_ah");
	wr.wr.ud.ah = ah;
	must(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
	completion();
	ibv_destroy_ah(ah);
}

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static void hear(const union ibv_gid *group, uint16_t mlid)
{
	const struct timespec moment = {.tv_nsec = 200000};
	unsigned n = ROOMS;

	must(!ibv_attach_mcast(qp, group, mlid), "ibv_attach_mcast");
	for (unsigned next = 0;; next++) {
		struct ibv_sge sge = {(uintptr_t)memory + next % n * ROOM, ROOM, mr->lkey};
		struct ibv_recv_wr wr = {.wr_id = next % n, .sg_list = &sge, .num_sge = 1}, *bad;
		struct ibv_wc wc = {0};
		uint64_t what[2];

		while (next >= n && !ibv_poll_cq(cq, 1, &wc))
			nanosleep(&moment, NULL);
		memcpy(what, memory + wc.wr_id * ROOM + 40, sizeof(what));
		if (next >= n)
			printf("%llu %llu\n", (unsigned long long)what[0],
			       (unsigned long long)(now() - what[1]) / 1000000);
		fflush(stdout);
		must(!ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
	}
}

static void call(const union ibv_gid *group, uint16_t mlid, uint64_t first, uint64_t last)
{
	struct ibv_ah_attr to = {.dlid = mlid, .port_num = 1, .is_global = 1, .grh.dgid = *group};
	struct ibv_ah *ah = ibv_create_ah(pd, &to);
	struct ibv_sge sge = {(uintptr_t)memory, ROOM - 40, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.ud = {ah, 0xffffff, QKEY}},
			   *bad;
	const struct timespec pause = {.tv_nsec = 1000000};

	must(ah != NULL, "ibv_create_ah");
	for (uint64_t i = first; i <= last; i++) {
		uint64_t what[2] = {i, now()};
		memcpy(memory, what, sizeof(what));
		must(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
		completion();
		nanosleep(&pause, NULL);
	}
	ibv_destroy_ah(ah);
}

static const char *name_of(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_PORT_ACTIVE: return "PORT_ACTIVE";
	case IBV_EVENT_PORT_ERR: return "PORT_ERR";
	case IBV_EVENT_LID_CHANGE: return "LID_CHANGE";
	case IBV_EVENT_PKEY_CHANGE: return "PKEY_CHANGE";
	case IBV_EVENT_GID_CHANGE: return "GID_CHANGE";
	case IBV_EVENT_SM_CHANGE: return "SM_CHANGE";
	case IBV_EVENT_CLIENT_REREGISTER: return "CLIENT_REREGISTER";
	default: return "no event of a port";
	}
}

/* Blocks in ibv_get_async_event(), until it is killed. */
static void sleep_for_events(void)
{
	struct ibv_async_event event;

	printf("asleep\n");
	fflush(stdout);
	while (!ibv_get_async_event(context, &event)) {
		unsigned num = event.element.port_num;
		struct ibv_port_attr port;
		uint16_t pkey = 0;
		union ibv_gid gid;

		must(!ibv_query_port(context, num, &port), "ibv_query_port");
		must(!ibv_query_pkey(context, num, 1, &pkey), "ibv_query_pkey");
		must(!ibv_query_gid(context, num, 0, &gid), "ibv_query_gid");
		printf("%s port=%u state=%d lid=%u sm=%u pkey=%04x prefix=%016llx\n",
		       name_of(event.event_type), num, port.state, port.lid, port.sm_lid,
		       be16toh(pkey), (unsigned long long)be64toh(gid.global.subnet_prefix));
		fflush(stdout);
		ibv_ack_async_event(&event);
	}
}

int main(int argc, char **argv)
{
	union ibv_gid group;

	start();
	if (argc >= 4)
		inet_pton(AF_INET6, argv[2], &group);
	if (argc == 4 && !strcmp(argv[1], "hear"))
		hear(&group, strtoul(argv[3], NULL, 0));
	if (argc == 6 && !strcmp(argv[1], "call"))
		call(&group, strtoul(argv[3], NULL, 0), atoi(argv[4]), atoi(argv[5]));
	if (argc == 3 && !strcmp(argv[1], "take"))
		take(atoi(argv[2]));
	if (argc == 2 && !strcmp(argv[1], "stay"))
		while (getchar() != EOF)
			;
	if (argc == 2 && !strcmp(argv[1], "sleep"))
		sleep_for_events();
	for (int i = 2; i < argc && !strcmp(argv[1], "give"); i++)
		give(argv[i]);
	stop();
	return 0;
}
