// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * libFuzzer target for what processes of a host send each other (wire/ipc.c): packets for another process's
 * QPs, and messages about target QPs of an XRC domain (hca/xrc_loan.c, xrc_open.c).
 *
 * The adapter is the whole one, with the edges of fuzz_edges.c; its socket takes datagrams out of the input and
 * keeps what is sent. It has an SRQ, a target QP and an RC QP. Slots 3 to 10 are other processes.
 *
 * An input is a sequence of commands, a byte each with its arguments behind it. How a datagram is changed: a byte with the
 * number of changes, for each a place (16 bits) and a byte; 0x40: cut at a place; 0x80: of another user.
 *
 *	0	packets: QP, opcode, PSN offset, hops, how many, changes
 *	1, 2	LEND: slot, QPN, state, packets, changes
 *	3	RETURN: slot, turn, state, changes
 *	4	DROP: slot, QPN
 *	5	CALL: slot, verb (0x80: to the former target QP), mask, attributes, changes
 *	6	the message sent last comes back: slot, changes
 *	7	the target QP gets a request from the network: SRQ, PSN offset, a packet
 *	8	a receive WR; 9: completions are polled
 *	10	time passes
 *	11	processes end; the others' queues are full, or not
 *	12	the target QP goes to another state
 *	13	a target QP of another process is opened, and what it answers: QPN, changes of two answers
 *	14	the SRQ, or the target QP, ends, and there is another
 *	15	a wake-up
 *
 * What must hold: nothing outside of a datagram is looked at, regions that the peer may not write to stay as they
 * are, every posted WR is completed at most once, a QP's state is lent to one process and comes back, and nothing is
 * left when all has ended.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#ifdef __has_include
#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#endif
#endif
#ifndef ASAN_POISON_MEMORY_REGION
#define ASAN_POISON_MEMORY_REGION(at, len)   ((void)(at), (void)(len))
#define ASAN_UNPOISON_MEMORY_REGION(at, len) ((void)(at), (void)(len))
#endif

#include "fuzz_edges.h"
#include "hca/device.h"
#include "hca/service.h"
#include "host/segment_socket.h"
#include "wire/private.h"

/* For what its messages look like. */
#include "hca/xrc_loan.c"

#define IPC_MAGIC     0x75727865u /* of wire/ipc.c */
#define MESSAGE_MAGIC 0x75727866u
#define MAX_WAIT_NS   2000000000ull

struct ipc_header {
	uint32_t magic;
	uint32_t stride;
	struct urxe_path path;
	uint16_t source_port;
	uint8_t hops;
	uint8_t zero[5];
};

#define MOST	   8192 /* bytes of a datagram from others */
#define OTHERS	   8	/* slots */
#define POSTED_MAX 4096

struct input {
	const uint8_t *at, *end;
};

static struct input in;
static struct urxe_wire wire;

static struct ibv_context *ctx;
static struct ibv_pd *pd, *other_pd;
static struct ibv_cq *cq;
static struct ibv_xrcd *xrcd;
static struct ibv_srq *srq;
static struct ibv_qp *target, *rc;
static uint32_t former; /* target QP's number */
static unsigned renewed;

enum { ALL, READ, SECRET, REGIONS };

#define LENGTH	     2048
#define FILL(region) (0x70 + (region))
#define RENEWED_MOST 4

static const int access_of[REGIONS] = {
	[ALL] = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		IBV_ACCESS_REMOTE_ATOMIC,
	[READ] = IBV_ACCESS_REMOTE_READ,
	[SECRET] = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
};
static uint8_t *memory[REGIONS], untouched[REGIONS][LENGTH];
static struct ibv_mr *mrs[REGIONS];
static uint64_t next_id;
static bool outstanding[POSTED_MAX];

/* ---- the input ---- */

static unsigned byte(void)
{
	return in.at < in.end ? *in.at++ : 0;
}

static unsigned word(void)
{
	unsigned low = byte();

	return low | byte() << 8;
}

static unsigned slot_of(unsigned any)
{
	return URXE_SLOT_FIRST + 1 + any % OTHERS;
}

/* ---- the socket ---- */

/* What comes next, and what was sent last. */
static struct {
	uint32_t len; /* 0: nothing */
	bool others;  /* of another user */
	uint8_t bytes[MOST];
} incoming;

static struct {
	uint32_t len;
	uint8_t bytes[sizeof(struct ipc_header) + URXE_MESSAGE_MAX];
} sent;

static bool full, answering;

static void answer_call(void);

static ssize_t receive_datagram(int fd, struct msghdr *msg, int flags)
{
	struct iovec *iov = msg->msg_iov;
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	struct ucred cred = {.uid = geteuid() + incoming.others};
	uint32_t len = incoming.len;

	ASAN_UNPOISON_MEMORY_REGION(iov->iov_base, iov->iov_len);
	if (!len) {
		errno = EAGAIN;
		return -1;
	}
	memcpy(iov->iov_base, incoming.bytes, len);
	ASAN_POISON_MEMORY_REGION((uint8_t *)iov->iov_base + len, iov->iov_len - len);
	*c = (struct cmsghdr){CMSG_LEN(sizeof(cred)), SOL_SOCKET, SCM_CREDENTIALS};
	memcpy(CMSG_DATA(c), &cred, sizeof(cred));
	incoming.len = 0;
	return len;
}

static ssize_t send_datagram(int fd, const struct msghdr *msg, int flags)
{
	uint32_t len = 0;

	if (full) {
		errno = EAGAIN;
		return -1;
	}
	for (size_t k = 0; k < msg->msg_iovlen; k++) {
		CHECK(msg->msg_iov[k].iov_len <= sizeof(sent.bytes) - len);
		memcpy(sent.bytes + len, msg->msg_iov[k].iov_base, msg->msg_iov[k].iov_len);
		len += msg->msg_iov[k].iov_len;
	}
	sent.len = len;
	answer_call();
	return len;
}

static ssize_t send_bytes(int fd, const void *bytes, size_t len, int flags,
			  const struct sockaddr *to, socklen_t to_len)
{
	struct iovec iov = {(void *)bytes, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	return send_datagram(fd, &msg, flags);
}

/* ---- the wire's other files ---- */

int urxe_wire_create(struct urxe_segment *seg, struct urxe_wire **w)
{
	static const struct urxe_wire none;

	wire = none;
	wire.seg = seg;
	wire.slot = URXE_SLOT_FIRST;
	*w = &wire;
	urxe_libc_init();
	CHECK(!urxe_ipc_open(&wire));
	urxe_libc.recvmsg = receive_datagram;
	urxe_libc.sendmsg = send_datagram;
	urxe_libc.sendto = send_bytes;
	return 0;
}

int urxe_wire_watch(struct urxe_wire *w, int fd, struct urxe_recv_socket *sock)
{
	return 0;
}

void urxe_shm_woken(struct urxe_wire *w);
void urxe_shm_woken(struct urxe_wire *w)
{
}

int urxe_segment_socket_bind(struct urxe_segment *seg, int fd)
{
	return 0;
}

socklen_t urxe_segment_socket_name(const struct urxe_segment *seg, unsigned slot,
				   struct sockaddr_un *name)
{
	CHECK(slot < URXE_MAX_SLOTS);
	*name = (struct sockaddr_un){.sun_family = AF_UNIX};
	return sizeof(*name);
}

void urxe_segment_socket_remove(struct urxe_segment *seg)
{
}

bool urxe_segment_gsi_awake(const struct urxe_segment *seg, unsigned slot)
{
	return urxe_segment_slot_alive(NULL, slot);
}

void urxe_deliver(struct urxe_wire *w, struct urxe_arrival *from, void *packet, uint32_t len)
{
	CHECK(len >= sizeof(struct urxe_bth) + URXE_ICRC_LEN && len % 4 == 0);
	from->pkt.bth = from->pkt.bytes = packet;
	from->pkt.len = len - URXE_ICRC_LEN;
	urxe_dispatch(&from->pkt, NULL);
}

/* ---- the adapter's objects ---- */

static struct ibv_ah_attr av(void)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};

	attr.grh.dgid = edges.port.gids[0];
	return attr;
}

static void bring_to(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {
		.qp_state = state,
		.port_num = 1,
		.qp_access_flags =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = qp->qp_num,
		.rq_psn = 0xfffff0, /* soon to wrap */
		.max_dest_rd_atomic = 3,
		.min_rnr_timer = 1,
		.ah_attr = av(),
	};
	int mask = IBV_QP_STATE;

	if (state == IBV_QPS_INIT)
		mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	if (state == IBV_QPS_RTR)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	urxe_modify_qp(qp, &attr, mask);
}

static void make_srq(void)
{
	struct ibv_srq_init_attr_ex init = {
		.attr = {.max_wr = 8, .max_sge = 2},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = pd,
		.xrcd = xrcd,
		.cq = cq,
	};

	CHECK(srq = urxe_create_srq_ex(ctx, &init));
}

static void make_target(void)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};

	CHECK(target = urxe_create_qp_ex(ctx, &init));
	bring_to(target, IBV_QPS_INIT);
	bring_to(target, IBV_QPS_RTR);
}

static void make_rc(void)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};

	CHECK(rc = urxe_create_qp(pd, &init));
	bring_to(rc, IBV_QPS_INIT);
	bring_to(rc, IBV_QPS_RTR);
}

/* The domain has a file that others have too. */
static void make_domain(void)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask =
						  IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					  .fd = -1,
					  .oflags = O_CREAT};

	urxe_xrc_forked(); /* numbers are the same in each run */
	CHECK(xrcd = urxe_open_xrcd(ctx, &attr));
	to_xrcd(xrcd)->domain->dev = to_xrcd(xrcd)->domain->ino = 1;
}

static void begin(void)
{

	edges_begin();
	next_id = former = renewed = 0;
	memset(outstanding, 0, sizeof(outstanding));
	incoming.len = sent.len = 0;
	full = answering = false;
	edges.alive = UINT32_MAX;
	ctx = edges_open();
	CHECK(pd = urxe_alloc_pd(ctx));
	CHECK(other_pd = urxe_alloc_pd(ctx));
	CHECK(cq = urxe_create_cq(ctx, 64, NULL, NULL, 0));
	for (unsigned i = 0; i < REGIONS; i++) {
		if (!memory[i])
			CHECK(memory[i] = malloc(LENGTH));
		memset(memory[i], FILL(i), LENGTH);
		memset(untouched[i], FILL(i), LENGTH);
		CHECK(mrs[i] = urxe_reg_mr_iova2(i == SECRET ? other_pd : pd, memory[i], LENGTH,
						 (uintptr_t)memory[i], access_of[i]));
	}
	make_domain();
	make_srq();
	make_target();
	make_rc();
}

static void poll_all(void)
{
	struct ibv_wc wc[16];

	for (int n; (n = urxe_poll_cq(cq, 16, wc)) > 0;) {
		for (int i = 0; i < n; i++) {
			CHECK(wc[i].wr_id < next_id && outstanding[wc[i].wr_id]);
			outstanding[wc[i].wr_id] = false;
		}
	}
}

static void check(void)
{
	struct urxe_xrc_loan *loan = to_qp(target)->loan;
	struct waiting *w;
	uint32_t bytes = 0;

	CHECK(!memcmp(memory[READ], untouched[READ], LENGTH));
	CHECK(!memcmp(memory[SECRET], untouched[SECRET], LENGTH));
	if (!loan || !loan->qp)
		return;
	cds_list_for_each_entry (w, &loan->packets, node)
		bytes += w->head.len;
	CHECK(bytes == loan->bytes);
	CHECK(!loan->slot == !loan->sent);
	CHECK(!loan->slot == !!cds_list_empty(&loan->node));
}

static void check_borrowed(void)
{
	struct borrowed *b;

	for (unsigned i = 0; i < BUCKETS; i++) {
		cds_list_for_each_entry (b, &borrowed[i], node) {
			const struct urxe_qp_protocol *p = &b->qp.proto;

			CHECK((uint16_t)(p->response_head - p->response_send) <= p->response_size);
			CHECK(p->rd_count <= p->rd_size && p->epsn <= URXE_PSN_MASK);
		}
	}
}

/* Handles of other processes that have died, each call one process's of
 * one QP, keep a QP no longer. */
static void housekeep(void)
{
	urxe_engine_lock();
	for (int i = 0; i < OTHERS * (RENEWED_MOST + 1); i++)
		urxe_xrc_housekeep();
	urxe_engine_unlock();
}

static void end(void)
{
	poll_all();
	edges.alive = 0;
	edges.lives++;
	full = false;
	CHECK(!urxe_destroy_qp(target));
	CHECK(!urxe_destroy_qp(rc));
	housekeep();
	for (unsigned i = 0; i < BUCKETS; i++)
		CHECK(cds_list_empty(&borrowed[i]));
	CHECK(cds_list_empty(&lent));
	edges.clock_now += 2 * MAX_WAIT_NS;
	urxe_ipc_retry(&wire, edges.clock_now);
	CHECK(urxe_ipc_deadline(&wire) == UINT64_MAX);
	CHECK(!urxe_destroy_srq(srq));
	CHECK(!urxe_close_xrcd(xrcd));
	for (unsigned i = 0; i < REGIONS; i++)
		CHECK(!urxe_dereg_mr(mrs[i]));
	CHECK(!urxe_destroy_cq(cq));
	CHECK(!urxe_dealloc_pd(pd));
	CHECK(!urxe_dealloc_pd(other_pd));
	CHECK(!urxe_hca.wheel.armed);
	edges_end();
}

/* ---- datagrams ---- */

static void change(void)
{
	unsigned how = byte();

	for (unsigned n = how & 15; n && incoming.len; n--) {
		unsigned at = word();

		incoming.bytes[at % incoming.len] = byte();
	}
	if (how & 0x40 && incoming.len)
		incoming.len = 1 + word() % incoming.len;
	incoming.others = how & 0x80;
}

static void receive(void)
{
	urxe_engine_lock();
	urxe_hca.now = urxe_now();
	wire.fn = urxe_dispatch;
	urxe_ipc_receive(&wire);
	urxe_engine_unlock();
}

static void put_header(uint32_t magic, uint32_t stride, uint8_t hops)
{
	struct ipc_header header = {.magic = magic, .stride = stride, .hops = hops};

	header.path.src.gid.s6_addr[15] = header.path.dst.gid.s6_addr[15] = 1;
	header.path.roce.hop_limit = 64;
	memcpy(incoming.bytes, &header, sizeof(header));
	incoming.len = sizeof(header);
}

static uint32_t srqn_of(unsigned which)
{
	uint32_t own = to_srq(srq)->number;

	return which & 1 ? (own & ~0xffu) | slot_of(which >> 1) : own;
}

/* A packet without its ICRC: which SRQ, opcode, PSN offset, key and length, and
 * bytes. Returns its length. */
static uint32_t put_packet(uint8_t *to, const struct urxe_qp *qp, uint32_t qpn, bool answer)
{
	unsigned which = byte(), opcode = byte(), key = byte(), len = byte() / 4 * 4, at = 12;
	int8_t psn = byte();
	unsigned r = key % REGIONS;

	memset(to, 0, 12 + 4 + len);
	urxe_bth_fill((struct urxe_bth *)to, opcode, which & 0x80, key >> 4, URXE_PKEY_DEFAULT, qpn,
		      which & 0x40, urxe_psn_add(answer ? qp->proto.una : qp->proto.epsn, psn));
	if (opcode >> 5 == URXE_SERVICE_XRC >> 5) {
		urxe_xrceth_fill((struct urxe_xrceth *)(to + at), srqn_of(which));
		at += sizeof(struct urxe_xrceth);
	}
	len += at;
	for (uint32_t i = at; i < len && i < at + 32; i++)
		to[i] = byte();
	if (key & 8 && len >= at + 16) {
		uint64_t va = htobe64((uintptr_t)memory[r] + (to[at + 7] & 0x7f));
		uint32_t rkey = htobe32(mrs[r]->rkey);

		memcpy(to + at, &va, 8);
		memcpy(to + at + 8, &rkey, 4);
	}
	return len;
}

static void packets(void)
{
	struct urxe_qp *qp = to_qp(byte() & 1 ? rc : target);
	unsigned hops = byte(), how_many = 1 + byte() % 4;
	uint32_t len = put_packet(incoming.bytes + sizeof(struct ipc_header), qp, qp->proto.qpn,
				  hops & 4) +
		       URXE_ICRC_LEN;

	put_header(IPC_MAGIC, len, hops & 3);
	for (unsigned k = 0; k < how_many; k++, incoming.len += len)
		memmove(incoming.bytes + incoming.len, incoming.bytes + sizeof(struct ipc_header),
			len);
	change();
	receive();
}

static uint64_t turn_now(void)
{
	const struct urxe_xrc_loan *loan = to_qp(target)->loan;

	return loan && loan->qp ? loan->turn : 1;
}

static struct state any_state(void)
{
	unsigned how = byte();

	return (struct state){
		.va = (uintptr_t)memory[how % REGIONS],
		.rkey = mrs[how % REGIONS]->rkey,
		.left = how & 4 ? word() : 0,
		.epsn = 0xfffff0 + byte(),
		.msn = byte(),
		.executed_psn = 0xfffff0 + byte(),
		.last_opcode = byte(),
		.busy = how & 8 ? srqn_of(byte()) : 0,
		.ack_psn = 0xfffff0 + byte(),
		.ack_syndrome = byte(),
		.ack_due = how & 16,
		.failed = (how & 0x60) == 0x60,
		.event = byte(),
	};
}

/* Of the target QP, or of one of another process's. */
static uint32_t qpn_of(unsigned which)
{
	return which & 1 ? target->qp_num : (which >> 1) << 8 | slot_of(which);
}

static void put_message(unsigned slot, const void *m, uint32_t len)
{
	put_header(MESSAGE_MAGIC, slot, 0);
	memcpy(incoming.bytes + incoming.len, m, len);
	incoming.len += len;
}

static void lend_us(void)
{
	static uint64_t turns;
	unsigned slot = slot_of(byte()), n = byte();
	struct message m = {
		.kind = LEND,
		.qpn = qpn_of(n >> 4),
		.turn = ++turns,
		.dev = 1,
		.ino = 1,
		.dest_qpn = rc->qp_num,
		.mtu = 256,
		.access =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		.pkey = URXE_PKEY_DEFAULT,
		.max_dest_rd_atomic = 3,
		.state = any_state(),
	};
	struct urxe_qp like = {.proto.epsn = m.state.epsn & URXE_PSN_MASK};

	m.path.src.gid.s6_addr[15] = m.path.dst.gid.s6_addr[15] = 1;
	put_message(slot, &m, sizeof(m));
	for (n %= 16; n && incoming.len + 512 < MOST; n--) {
		uint8_t *at = incoming.bytes + incoming.len;
		struct packet_head head = {.span = 1};

		head.len = put_packet(at + sizeof(head), &like, m.qpn, false);
		memcpy(at, &head, sizeof(head));
		incoming.len += sizeof(head) + head.len;
	}
	change();
	receive();
}

static void return_to_us(void)
{
	const struct urxe_xrc_loan *loan = to_qp(target)->loan;
	unsigned how = byte();
	unsigned slot = loan && loan->slot && how & 1 ? loan->slot : slot_of(how >> 1);
	struct message m = {.kind = RETURN, .qpn = target->qp_num};

	m.turn = turn_now() + (int8_t)byte();
	m.state = any_state();
	put_message(slot, &m, sizeof(m));
	change();
	receive();
}

static void drop(void)
{
	unsigned slot = slot_of(byte());
	struct message m = {.kind = DROP, .qpn = qpn_of(byte())};

	put_message(slot, &m, sizeof(m));
	receive();
}

/* As the first members of xrc_open.c's. */
struct call {
	uint32_t kind, qpn;
	uint64_t serial, dev, ino;
	uint32_t verb;
	int32_t mask, result;
	uint32_t zero;
	struct ibv_qp_attr attr;
};

static void call_us(void)
{
	unsigned slot = slot_of(byte()), verb = byte();
	struct call c = {
		.kind = XRC_CALL,
		.qpn = verb & 0x80 ? former : target->qp_num,
		.serial = 1,
		.dev = 1,
		.ino = 1,
		.verb = verb % 8,
	};

	c.mask = word();
	c.mask |= word() << 16;
	c.attr.qp_state = byte();
	c.attr.cur_qp_state = byte();
	c.attr.path_mtu = byte();
	c.attr.port_num = byte();
	c.attr.max_dest_rd_atomic = byte();
	c.attr.ah_attr = av();
	put_message(slot, &c, sizeof(c));
	change();
	receive();
}

static void come_back(void)
{
	unsigned slot = slot_of(byte());
	struct ipc_header header;

	if (!sent.len || sent.len > MOST)
		return;
	memcpy(incoming.bytes, sent.bytes, sent.len);
	incoming.len = sent.len;
	if (sent.len >= sizeof(header)) {
		memcpy(&header, incoming.bytes, sizeof(header));
		if (header.magic == MESSAGE_MAGIC)
			header.stride = slot;
		memcpy(incoming.bytes, &header, sizeof(header));
	}
	change();
	receive();
}

static void request(void)
{
	uint8_t bytes[512];
	uint32_t len = put_packet(bytes, to_qp(target), target->qp_num, false);
	uint8_t *exact = malloc(len);
	struct urxe_rx_packet rx = {
		.bth = exact, .bytes = exact, .len = len, .path.roce.hop_limit = 64, .span = 1};

	CHECK(exact);
	memcpy(exact, bytes, len);
	memcpy(&rx.path.src, &edges.port.gids[0], 16);
	rx.path.dst = rx.path.src;
	urxe_engine_lock();
	urxe_hca.now = urxe_now();
	urxe_dispatch(&rx, NULL);
	urxe_engine_unlock();
	free(exact);
}

static void post_recv(void)
{
	unsigned how = byte(), r = how % REGIONS;
	struct ibv_sge sge = {(uintptr_t)memory[r], byte() * 4, mrs[r]->lkey};
	struct ibv_recv_wr wr = {.wr_id = next_id, .sg_list = &sge, .num_sge = 1}, *bad;

	if (next_id < POSTED_MAX && !urxe_post_srq_recv(srq, &wr, &bad))
		outstanding[next_id++] = true;
}

static void pass_time(void)
{
	edges.clock_now += 1000ull << byte() % 24;
	urxe_engine_take();
	urxe_engine_locked();
	urxe_engine_turn(false);
	urxe_engine_lock();
	urxe_ipc_retry(&wire, edges.clock_now);
	urxe_engine_unlock();
}

static void others_end(void)
{
	unsigned how = byte();

	edges.alive = how & 1 ? UINT32_MAX : ~(1u << slot_of(how >> 2));
	edges.lives += how >> 1 & 1;
	full = how & 0x80;
	if (how & 0x40)
		housekeep();
}

/* What the process that was called says. */
static void answer_call(void)
{
	struct call c;

	if (!answering || sent.len != sizeof(struct ipc_header) + sizeof(c))
		return;
	answering = false;
	for (int i = 0; i < 2; i++) {
		memcpy(&c, sent.bytes + sizeof(struct ipc_header), sizeof(c));
		c.kind = XRC_ANSWER;
		c.result = byte();
		put_message(slot_of(0), &c, sizeof(c));
		change();
		urxe_ipc_receive(&wire);
	}
}

/* Who waits for an answer has no patience for long. */
int __wrap_usleep(useconds_t us);
int __wrap_usleep(useconds_t us)
{
	edges.clock_now += 1000000000;
	return 0;
}

static void open_others(void)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = qpn_of(byte() & ~1u),
		.xrcd = xrcd,
		.qp_type = IBV_QPT_XRC_RECV,
	};
	struct ibv_qp *qp;

	answering = true;
	qp = urxe_open_qp(ctx, &attr);
	answering = false;
	if (qp)
		CHECK(!urxe_destroy_qp(qp));
}

static void renew(void)
{
	if (byte() & 1) {
		poll_all();
		CHECK(!urxe_destroy_srq(srq));
		memset(outstanding, 0, sizeof(outstanding));
		make_srq();
	} else if (renewed++ < RENEWED_MOST) {
		former = target->qp_num;
		CHECK(!urxe_destroy_qp(target));
		make_target();
	}
}

static void wake(void)
{
	incoming.bytes[0] = byte();
	incoming.len = 1;
	receive();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 4096)
		return 0;
	in = (struct input){data, data + size};
	begin();
	while (in.at < in.end) {
		switch (byte() % 16) {
		case 0: packets(); break;
		case 1:
		case 2: lend_us(); break;
		case 3: return_to_us(); break;
		case 4: drop(); break;
		case 5: call_us(); break;
		case 6: come_back(); break;
		case 7: request(); break;
		case 8: post_recv(); break;
		case 9: poll_all(); break;
		case 10: pass_time(); break;
		case 11: others_end(); break;
		case 12: bring_to(target, byte() % (IBV_QPS_ERR + 1)); break;
		case 13: open_others(); break;
		case 14: renew(); break;
		case 15: wake(); break;
		}
		check();
		check_borrowed();
	}
	end();
	return 0;
}
