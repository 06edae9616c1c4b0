// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Packets into QPs whose peer is this test: what they are answered, and what is refused. Packets
 * are handed to urxe_dispatch(); what the adapter sends is kept here instead (urxe_wire_send is
 * wrapped).
 */
#include <sys/mman.h>

#include "wire_test.h"
#include "qp_test.h"

#include "hca/engine.h"
#include "hca/gsi.h"
#include "hca/verbs.h"

#define PEER_QPN 0x12303 /* of a slot that nobody has */
#define QKEY	 7
#define LENGTH	 4096u

static struct ibv_context *ctx;
static struct urxe_device *dev;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static uint8_t memory[LENGTH] __attribute__((aligned(8)));
static struct in6_addr own_gid, peer_gid;

/* ---- what was sent ---- */

static struct sent {
	uint8_t bytes[URXE_MAX_HEADER + 8]; /* with a payload that short */
	uint32_t len;
} sent[64];
static unsigned num_sent;
static bool no_room;

int __wrap_urxe_wire_send(struct urxe_wire *wire, const struct urxe_path *path,
			  struct urxe_tx_packet *pkts, unsigned n);
int __wrap_urxe_wire_send(struct urxe_wire *wire, const struct urxe_path *path,
			  struct urxe_tx_packet *pkts, unsigned n)
{
	if (no_room)
		return 0;
	for (unsigned i = 0; i < n; i++) {
		struct sent *to = &sent[num_sent++ % 64];

		memcpy(to->bytes, pkts[i].header, pkts[i].header_len);
		to->len = pkts[i].header_len;
		if (pkts[i].iovcnt != 1 || pkts[i].payload_len > 8)
			continue;
		memcpy(to->bytes + to->len, pkts[i].iov->iov_base, pkts[i].payload_len);
		to->len += pkts[i].payload_len;
	}
	return n;
}

/* The service thread sends what had no room. */
static void set_room(bool room)
{
	urxe_engine_lock();
	no_room = !room;
	urxe_engine_unlock();
}

static unsigned count_sent(void)
{
	unsigned n;

	urxe_engine_lock();
	n = num_sent;
	urxe_engine_unlock();
	return n;
}

static const struct urxe_bth *sent_bth(unsigned i)
{
	assert_true(i < num_sent);
	return (const struct urxe_bth *)sent[i].bytes;
}

/* Of packets that have an AETH behind their BTH. */
static const struct urxe_aeth *sent_aeth(unsigned i)
{
	return (const struct urxe_aeth *)(sent_bth(i) + 1);
}

static uint32_t sent_msn(unsigned i)
{
	return be32toh(sent_aeth(i)->syndrome_msn) & 0xffffff;
}

static uint8_t sent_syndrome(unsigned i)
{
	return urxe_aeth_syndrome(sent_aeth(i));
}

/* ---- QPs and packets ---- */

static struct ibv_qp *make_qp(enum ibv_qp_type type)
{
	struct ibv_qp_attr attr = {
		.qkey = QKEY,
		.qp_access_flags =
			IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = PEER_QPN,
		.max_dest_rd_atomic = 4,
		.ah_attr = {.is_global = 1, .port_num = 1},
	};
	struct ibv_qp *qp = small_qp(pd, cq, type);
	union ibv_gid gid;

	attr.ah_attr.grh.dgid = gid_of("::ffff:127.0.0.9");
	memcpy(&gid, &own_gid, sizeof(gid));
	attr.ah_attr.grh.sgid_index = urxe_port_gid_index(dev->ports, &gid);
	enter_rtr(qp, &attr);
	num_sent = 0;
	return qp;
}

static void post_recv(struct ibv_qp *qp)
{
	struct ibv_sge sge = {(uintptr_t)memory, LENGTH, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(urxe_post_recv(qp, &wr, &bad), 0);
}

/* A packet of len bytes from its BTH on; refs: its payload is said to be elsewhere. */
static void deliver(const void *packet, uint32_t len, const struct urxe_refs *refs,
		    uint32_t refs_len)
{
	struct urxe_rx_packet rx = {
		.bth = packet,
		.bytes = packet,
		.len = len,
		.path = {.src.gid = peer_gid,
			 .dst.gid = own_gid,
			 .port = dev->ports->index,
			 .roce.hop_limit = 64},
		.span = 1,
		.refs = refs,
		.refs_len = refs_len,
	};

	urxe_engine_lock();
	urxe_dispatch(&rx, NULL);
	urxe_engine_unlock();
}

static void read_at(const struct ibv_qp *qp, const void *at, uint32_t rkey, uint32_t psn,
		    uint32_t length)
{
	struct {
		struct urxe_bth bth;
		struct urxe_reth reth;
	} packet;

	urxe_bth_fill(&packet.bth, URXE_RC_READ_REQUEST, URXE_BTH_MIGREQ, 0, URXE_PKEY_DEFAULT,
		      qp->qp_num, true, psn);
	urxe_reth_fill(&packet.reth, (uintptr_t)at, rkey, length);
	deliver(&packet, sizeof(packet), NULL, 0);
}

static void read_by(const struct ibv_qp *qp, uint32_t rkey, uint32_t psn, uint32_t length)
{
	read_at(qp, memory, rkey, psn, length);
}

static void read_request(const struct ibv_qp *qp, uint32_t psn, uint32_t length)
{
	read_by(qp, mr->rkey, psn, length);
}

static void send_invalidate(const struct ibv_qp *qp, uint32_t rkey, uint32_t psn)
{
	struct {
		struct urxe_bth bth;
		struct urxe_ieth eth;
	} packet;

	urxe_bth_fill(&packet.bth, URXE_RC_SEND_ONLY_INV, URXE_BTH_MIGREQ, 0, URXE_PKEY_DEFAULT,
		      qp->qp_num, true, psn);
	urxe_ieth_fill(&packet.eth, rkey);
	deliver(&packet, sizeof(packet), NULL, 0);
}

static void fetch_add(const struct ibv_qp *qp, uint32_t psn)
{
	struct {
		struct urxe_bth bth;
		struct urxe_atomic_eth eth;
	} packet;

	urxe_bth_fill(&packet.bth, URXE_RC_FETCH_ADD, URXE_BTH_MIGREQ, 0, URXE_PKEY_DEFAULT,
		      qp->qp_num, true, psn);
	urxe_atomic_fill(&packet.eth, (uintptr_t)memory, mr->rkey, 1, 0);
	deliver(&packet, sizeof(packet), NULL, 0);
}

static void atomic_write(const struct ibv_qp *qp, uint32_t psn, uint32_t at, uint64_t value)
{
	struct {
		struct urxe_bth bth;
		struct urxe_reth reth;
		uint8_t value[8];
	} packet;

	urxe_bth_fill(&packet.bth, URXE_RC_ATOMIC_WRITE, URXE_BTH_MIGREQ, 0, URXE_PKEY_DEFAULT,
		      qp->qp_num, true, psn);
	urxe_reth_fill(&packet.reth, (uintptr_t)memory + at, mr->rkey, sizeof(value));
	memcpy(packet.value, &value, sizeof(value));
	deliver(&packet, sizeof(packet), NULL, 0);
}

/* ---- the tests ---- */

/* Each new request counts once (9.7.7.1); a repeated one is answered with the count as it stands.
 * */
static void repeated_reads_do_not_count(void **state)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);

	read_request(qp, 0, 8);
	assert_int_equal(num_sent, 1);
	assert_int_equal(sent_bth(0)->opcode, URXE_RC_READ_RESPONSE_ONLY);
	assert_int_equal(sent_msn(0), 1);
	read_request(qp, 0, 8);
	assert_int_equal(num_sent, 2);
	assert_int_equal(urxe_bth_psn(sent_bth(1)), 0);
	assert_int_equal(sent_msn(1), 1);
	read_request(qp, 1, 600);
	assert_int_equal(num_sent, 5);
	assert_int_equal(sent_msn(2), 2);
	assert_int_equal(sent_msn(4), 2);
	read_request(qp, 0, 8);
	assert_int_equal(sent_msn(5), 2);
	assert_int_equal(urxe_destroy_qp(qp), 0);
}

/* A page and its region; alarm() ends the test when a fault leaves the engine lock taken. */
static void *memory_to_lose(struct ibv_mr **region)
{
	void *at = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	alarm(20);
	*region = urxe_reg_mr_iova2(pd, at, LENGTH, (uintptr_t)at, IBV_ACCESS_REMOTE_READ);
	assert_non_null(*region);
	return at;
}

/*
 * 9.7.5.1.3: a repeated read is answered again. When its first answer has ended it for both
 * programs, its memory may be unmapped: that is no fault of a program which has a handler of its own
 * for SIGSEGV, as this test has. What follows is answered.
 */
static void repeated_reads_may_have_lost_their_memory(void **state)
{
	struct ibv_mr *lost;
	void *gone = memory_to_lose(&lost);
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	static const uint8_t data[8] = "its data";

	memcpy(gone, data, sizeof(data));
	read_at(qp, gone, lost->rkey, 0, 8);
	read_at(qp, gone, lost->rkey, 0, 8);
	assert_int_equal(num_sent, 2);
	assert_int_equal(sent[0].len, sent[1].len);
	assert_memory_equal(sent[0].bytes, sent[1].bytes, sent[0].len);
	assert_memory_equal(sent[1].bytes + sent[1].len - 8, data, 8);
	assert_int_equal(munmap(gone, LENGTH), 0);
	read_at(qp, gone, lost->rkey, 0, 8);
	assert_int_equal(num_sent, 3);
	assert_int_equal(sent_bth(2)->opcode, URXE_RC_ACKNOWLEDGE);
	assert_int_equal(urxe_bth_psn(sent_bth(2)), 0);
	assert_int_equal(sent_syndrome(2), URXE_AETH_NAK | URXE_NAK_REMOTE_ACCESS);
	read_request(qp, 1, 600);
	assert_int_equal(num_sent, 6);
	assert_int_equal(sent_bth(5)->opcode, URXE_RC_READ_RESPONSE_LAST);
	assert_int_equal(urxe_destroy_qp(qp), 0);
	assert_int_equal(urxe_dereg_mr(lost), 0);
	alarm(0);
}

/* The same when it waits for room, with another behind it. */
static void answers_behind_one_without_memory_are_sent(void **state)
{
	struct ibv_mr *lost;
	void *gone = memory_to_lose(&lost);
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);

	read_at(qp, gone, lost->rkey, 0, 8);
	set_room(false);
	read_at(qp, gone, lost->rkey, 0, 8);
	read_request(qp, 1, 8);
	assert_int_equal(munmap(gone, LENGTH), 0);
	set_room(true);
	for (int tries = 0; count_sent() < 3 && tries < 5000; tries++) {
		urxe_engine_progress(true);
		usleep(1000);
	}
	assert_int_equal(sent_syndrome(1), URXE_AETH_NAK | URXE_NAK_REMOTE_ACCESS);
	assert_int_equal(sent_bth(2)->opcode, URXE_RC_READ_RESPONSE_ONLY);
	assert_int_equal(urxe_bth_psn(sent_bth(2)), 1);
	assert_int_equal(urxe_destroy_qp(qp), 0);
	assert_int_equal(urxe_dereg_mr(lost), 0);
	alarm(0);
}

static void repeated_atomics_do_not_count(void **state)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	uint64_t before;

	fetch_add(qp, 0);
	assert_int_equal(sent_msn(0), 1);
	read_request(qp, 1, 8);
	memcpy(&before, memory, sizeof(before));
	fetch_add(qp, 0);
	assert_int_equal(num_sent, 3);
	assert_int_equal(sent_bth(2)->opcode, URXE_RC_ATOMIC_ACKNOWLEDGE);
	assert_int_equal(sent_msn(2), 2);
	assert_memory_equal(&before, memory, sizeof(before));
	assert_int_equal(urxe_destroy_qp(qp), 0);
}

/* It is answered as a read of nothing, and a repeated one is not executed again (annex A19). */
static void atomic_writes_are_executed_once(void **state)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	uint64_t value;

	atomic_write(qp, 0, 0, 5);
	assert_int_equal(num_sent, 1);
	assert_int_equal(sent_bth(0)->opcode, URXE_RC_READ_RESPONSE_ONLY);
	assert_int_equal(sent_msn(0), 1);
	atomic_write(qp, 1, 0, 6);
	atomic_write(qp, 0, 0, 5);
	assert_int_equal(num_sent, 3);
	assert_int_equal(sent_bth(2)->opcode, URXE_RC_READ_RESPONSE_ONLY);
	assert_int_equal(urxe_bth_psn(sent_bth(2)), 0);
	assert_int_equal(sent_msn(2), 2);
	memcpy(&value, memory, sizeof(value));
	assert_int_equal(value, 6);
	assert_int_equal(urxe_destroy_qp(qp), 0);
}

static void a_misaligned_atomic_write_is_refused(void **state)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);

	memset(memory, 0, 16);
	atomic_write(qp, 0, 4, UINT64_MAX);
	assert_int_equal(num_sent, 1);
	assert_int_equal(sent_bth(0)->opcode, URXE_RC_ACKNOWLEDGE);
	for (unsigned i = 0; i < 16; i++)
		assert_int_equal(memory[i], 0);
	assert_int_equal(urxe_destroy_qp(qp), 0);
}

/*
 * Byte for byte what the kernel's rxe sends and takes since Linux 6.2 (rxe_opcode.c, rxe_req.c and
 * send_read_response_ack() in rxe_resp.c): BTH with opcode 0x1d, RETH with a length of 8, the value
 * as it lies in memory; answered by BTH with opcode 0x10 and an AETH without data. This machine's
 * kernel is older, and tshark 4.0 does not know the opcode.
 */
static void atomic_writes_look_as_the_kernels(void **state)
{
	static const uint8_t request[] = {
		0x1d, 0x40, 0xff, 0xff, 0x00, 0x01, 0x23, 0x03, 0x80, 0x00, 0x12, 0x34, /* BTH */
		0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, /* RETH: address, */
		0x0a, 0x0b, 0x0c, 0x0d, 0x00, 0x00, 0x00, 0x08, /* R_Key, length */
		0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, /* payload */
	};
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
				   .sq_psn = 0x1234,
				   .timeout = 0, /* a busy machine takes its time */
				   .retry_cnt = 7,
				   .rnr_retry = 7,
				   .max_rd_atomic = 1};
	struct ibv_sge sge = {(uintptr_t)memory, 8, mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 5,
				 .opcode = IBV_WR_ATOMIC_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .sg_list = &sge,
				 .num_sge = 1};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	/* BTH to the QP with the same PSN; AETH: ACK, credits not counted (0x1f), MSN 1. */
	uint8_t answer[] = {
		0x10,
		0x00,
		0xff,
		0xff,
		0x00,
		qp->qp_num >> 16,
		qp->qp_num >> 8,
		qp->qp_num,
		0x00,
		0x00,
		0x12,
		0x34,
		0x1f,
		0x00,
		0x00,
		0x01,
	};

	enter_rts(qp, &attr);
	for (unsigned i = 0; i < 8; i++)
		memory[i] = 0xa0 + i;
	wr.wr.rdma.remote_addr = 0x0102030405060708;
	wr.wr.rdma.rkey = 0x0a0b0c0d;
	assert_int_equal(urxe_post_send(qp, &wr, &bad), 0);
	assert_int_equal(urxe_poll_cq(cq, 1, &wc), 0);
	assert_true(count_sent()); /* and once more by a machine that stood still meanwhile */
	assert_int_equal(sent[0].len, sizeof(request));
	assert_memory_equal(sent[0].bytes, request, sizeof(request));

	deliver(answer, sizeof(answer), NULL, 0);
	assert_int_equal(urxe_poll_cq(cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_ATOMIC_WRITE);
	assert_int_equal(wc.wr_id, 5);

	/* And as the responder: the same packets the other way. */
	num_sent = 0;
	atomic_write(qp, 0, 0, 7);
	answer[5] = PEER_QPN >> 16;
	answer[6] = PEER_QPN >> 8 & 0xff;
	answer[7] = PEER_QPN & 0xff;
	answer[1] = 0x40; /* MigReq, which rxe leaves out */
	answer[10] = answer[11] = 0;
	assert_int_equal(num_sent, 1);
	assert_int_equal(sent[0].len, sizeof(answer));
	assert_memory_equal(sent[0].bytes, answer, sizeof(answer));
	assert_int_equal(urxe_destroy_qp(qp), 0);
}

static const struct urxe_refs *no_refs(void)
{
	static uint8_t nothing[1024];

	return (const void *)nothing;
}

/* Only what is copied by the connected services' responders may lie in the sender's memory. */
static void datagrams_have_their_payload_with_them(void **state)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_UD);
	struct {
		struct urxe_bth bth;
		struct urxe_deth deth;
		uint8_t payload[4];
	} packet = {0};
	struct ibv_wc wc;

	post_recv(qp);
	urxe_bth_fill(&packet.bth, URXE_UD_SEND_ONLY, URXE_BTH_MIGREQ, 0, URXE_PKEY_DEFAULT,
		      qp->qp_num, false, 0);
	urxe_deth_fill(&packet.deth, QKEY, 5);
	deliver(&packet, sizeof(packet) - 4, no_refs(), 200);
	assert_int_equal(urxe_poll_cq(cq, 1, &wc), 0);
	deliver(&packet, sizeof(packet), NULL, 0);
	assert_int_equal(urxe_poll_cq(cq, 1, &wc), 1);
	assert_int_equal(wc.byte_len, 44);
	assert_int_equal(urxe_destroy_qp(qp), 0);
}

static unsigned num_mads;

static void take_mad(const struct urxe_gsi_rx *rx)
{
	num_mads++;
}

static void mads_have_their_payload_with_them(void **state)
{
	const struct urxe_gsi_user user = {.mgmt_class = 7, .receive = take_mad};
	struct {
		struct urxe_bth bth;
		struct urxe_deth deth;
		uint8_t mad[URXE_MAD_BYTES];
	} packet = {.mad = {1, 7}};

	urxe_engine_lock();
	assert_int_equal(urxe_gsi_register(&user), 0);
	urxe_engine_unlock();
	urxe_bth_fill(&packet.bth, URXE_UD_SEND_ONLY, URXE_BTH_MIGREQ, 0, URXE_PKEY_DEFAULT,
		      URXE_GSI_QPN, false, 0);
	urxe_deth_fill(&packet.deth, URXE_GSI_QKEY, URXE_GSI_QPN);
	deliver(&packet, sizeof(packet) - URXE_MAD_BYTES, no_refs(), URXE_MAD_BYTES);
	assert_int_equal(num_mads, 0);
	deliver(&packet, sizeof(packet), NULL, 0);
	assert_int_equal(num_mads, 1);
	urxe_engine_lock();
	urxe_gsi_unregister(&user);
	urxe_engine_unlock();
}

static void requests_without_payload_refer_to_none(void **state)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	struct {
		struct urxe_bth bth;
		struct urxe_reth reth;
	} packet;

	urxe_bth_fill(&packet.bth, URXE_RC_READ_REQUEST, URXE_BTH_MIGREQ, 0, URXE_PKEY_DEFAULT,
		      qp->qp_num, true, 0);
	urxe_reth_fill(&packet.reth, (uintptr_t)memory, mr->rkey, 8);
	deliver(&packet, sizeof(packet), no_refs(), 200);
	assert_int_equal(num_sent, 0);
	assert_int_equal(urxe_destroy_qp(qp), 0);
}

/* The same bytes somewhere else; where they were there is nothing of use. */
static void *moved(void *from, size_t bytes)
{
	void *to = aligned_alloc(64, (bytes + 63) & ~63ul);

	assert_non_null(to);
	memcpy(to, from, bytes);
	memset(from, 0xaa, bytes);
	free(from);
	return to;
}

/* All that qp_protocol.h says a QP is. */
static void move_qp(struct urxe_qp *qp)
{
	struct urxe_qp_protocol *copy, *proto = &qp->proto;

	urxe_engine_lock();
	copy = malloc(sizeof(*copy));
	assert_non_null(copy);
	memcpy(copy, proto, sizeof(*copy));
	memset(proto, 0xaa, sizeof(*proto));
	memcpy(proto, copy, sizeof(*copy));
	free(copy);
	qp->rd_ends = moved(qp->rd_ends, proto->rd_size * sizeof(qp->rd_ends[0]));
	qp->responses = moved(qp->responses, proto->response_size * sizeof(qp->responses[0]));
	qp->atomics = moved(qp->atomics, proto->atomic_size * sizeof(qp->atomics[0]));
	qp->recv_wqe = moved(qp->recv_wqe, qp->rq.stride);
	qp->sq.wqes = moved(qp->sq.wqes, (size_t)qp->sq.stride * (qp->sq.mask + 1));
	qp->rq.wqes = moved(qp->rq.wqes, (size_t)qp->rq.stride * (qp->rq.mask + 1));
	urxe_engine_unlock();
}

static void send_part(const struct ibv_qp *qp, enum urxe_opcode opcode, uint32_t psn, uint32_t len)
{
	struct {
		struct urxe_bth bth;
		uint8_t payload[256];
	} packet = {0};

	urxe_bth_fill(&packet.bth, opcode, URXE_BTH_MIGREQ, 0, URXE_PKEY_DEFAULT, qp->qp_num, false,
		      psn);
	memset(packet.payload, 0x11 * (psn + 1), len);
	deliver(&packet, sizeof(packet.bth) + len, NULL, 0);
}

static void acknowledge(const struct ibv_qp *qp, uint32_t psn)
{
	struct {
		struct urxe_bth bth;
		struct urxe_aeth aeth;
	} packet;

	urxe_bth_fill(&packet.bth, URXE_RC_ACKNOWLEDGE, URXE_BTH_MIGREQ, 0, URXE_PKEY_DEFAULT,
		      qp->qp_num, false, psn);
	urxe_aeth_fill(&packet.aeth, URXE_AETH_ACK | URXE_AETH_CREDIT_NONE, 1);
	deliver(&packet, sizeof(packet), NULL, 0);
}

/* In the middle of a message each way, with an atomic's result kept, and WRs that wait. */
static void a_qp_goes_on_from_a_copy(void **state)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	struct ibv_qp_attr attr = {.sq_psn = 5, .max_rd_atomic = 1};
	struct ibv_sge sge = {(uintptr_t)memory + 1024, 300, mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 77,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct ibv_wc wc;

	enter_rts(qp, &attr);
	post_recv(qp);
	post_recv(qp);
	fetch_add(qp, 0);
	send_part(qp, URXE_RC_SEND_FIRST, 1, 256);
	assert_int_equal(urxe_post_send(qp, &wr, &bad), 0);
	wr.wr_id = 78;
	assert_int_equal(urxe_post_send(qp, &wr, &bad), 0);
	num_sent = 0;
	move_qp(to_qp(qp));
	send_part(qp, URXE_RC_SEND_LAST, 2, 44);
	assert_int_equal(urxe_poll_cq(cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 300);
	assert_int_equal(memory[255], 0x22);
	assert_int_equal(memory[299], 0x33);
	acknowledge(qp, 6);
	assert_int_equal(urxe_poll_cq(cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 77);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	acknowledge(qp, 8);
	assert_int_equal(urxe_poll_cq(cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 78);
	num_sent = 0;
	fetch_add(qp, 0);
	assert_int_equal(num_sent, 1);
	assert_int_equal(sent_bth(0)->opcode, URXE_RC_ATOMIC_ACKNOWLEDGE);
	send_part(qp, URXE_RC_SEND_ONLY, 3, 8);
	assert_int_equal(urxe_poll_cq(cq, 1, &wc), 1);
	assert_int_equal(wc.byte_len, 8);
	assert_int_equal(urxe_destroy_qp(qp), 0);
}

/* 10.6.7.2.6: requests of a QP are carried out in order, the data of a read with it. */
static void a_window_stays_until_the_reads_before_are_answered(void **state)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	struct ibv_mw *mw = urxe_alloc_mw(pd, IBV_MW_TYPE_2);
	struct ibv_qp_attr attr = {.max_rd_atomic = 1};
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW}, *bad;
	struct ibv_wc wc;

	assert_non_null(mw);
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = mw->rkey;
	wr.bind_mw.bind_info =
		(struct ibv_mw_bind_info){mr, (uintptr_t)memory, LENGTH, IBV_ACCESS_REMOTE_READ};
	enter_rts(qp, &attr);
	post_recv(qp);
	assert_int_equal(urxe_post_send(qp, &wr, &bad), 0);
	set_room(false);
	read_by(qp, mw->rkey, 0, 8);
	send_invalidate(qp, mw->rkey, 1);
	set_room(true);
	assert_int_equal(urxe_poll_cq(cq, 1, &wc), 0);
	for (int tries = 0; !count_sent() && tries < 5000; tries++) {
		urxe_engine_progress(true);
		usleep(1000);
	}
	/* Before the acknowledgement, which the service thread may send. */
	assert_int_equal(sent_bth(0)->opcode, URXE_RC_READ_RESPONSE_ONLY);
	send_invalidate(qp, mw->rkey, 1);
	assert_int_equal(urxe_poll_cq(cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_INV);
	assert_int_equal(wc.invalidated_rkey, mw->rkey);
	assert_int_equal(urxe_destroy_qp(qp), 0);
	assert_int_equal(urxe_dealloc_mw(mw), 0);
}

/*
 * A signal handler may call _exit() while the interrupted thread holds the lock of a CQ
 * or of a receive queue: the acknowledgement of what the program has seen leaves, and
 * nothing waits for these locks.
 */
static void ending_in_a_handler_takes_no_locks(void **state)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC), *busy = make_qp(IBV_QPT_RC);
	struct urxe_bth send;

	alarm(20); /* it would wait for ever */
	post_recv(qp);
	post_recv(busy);
	urxe_bth_fill(&send, URXE_RC_SEND_ONLY, URXE_BTH_MIGREQ, 0, URXE_PKEY_DEFAULT, qp->qp_num,
		      true, 0);
	urxe_engine_lock();
	urxe_hca.acks_may_wait = true;
	urxe_dispatch(&(struct urxe_rx_packet){.bth = (uint8_t *)&send,
					       .bytes = (uint8_t *)&send,
					       .len = sizeof(send),
					       .path = {.src.gid = peer_gid, .dst.gid = own_gid},
					       .span = 1},
		      NULL);
	urxe_hca.acks_may_wait = false;
	/* What would complete, as soon as it runs: a QP in error, with a receive in its queue. */
	atomic_store(&to_qp(busy)->proto.state, IBV_QPS_ERR);
	urxe_engine_give();
	urxe_engine_defer(to_qp(busy));
	urxe_lock(&to_cq(cq)->lock);
	urxe_lock(&to_qp(busy)->rq.lock);
	urxe_ending(true);
	urxe_unlock(&to_qp(busy)->rq.lock);
	urxe_unlock(&to_cq(cq)->lock);
	alarm(0);
	assert_int_equal(num_sent, 1);
	assert_int_equal(sent_bth(0)->opcode, URXE_RC_ACKNOWLEDGE);
	assert_int_equal(urxe_destroy_qp(qp), 0);
	assert_int_equal(urxe_destroy_qp(busy), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(repeated_reads_do_not_count),
		cmocka_unit_test(repeated_reads_may_have_lost_their_memory),
		cmocka_unit_test(answers_behind_one_without_memory_are_sent),
		cmocka_unit_test(repeated_atomics_do_not_count),
		cmocka_unit_test(atomic_writes_are_executed_once),
		cmocka_unit_test(a_misaligned_atomic_write_is_refused),
		cmocka_unit_test(atomic_writes_look_as_the_kernels),
		cmocka_unit_test(datagrams_have_their_payload_with_them),
		cmocka_unit_test(mads_have_their_payload_with_them),
		cmocka_unit_test(requests_without_payload_refer_to_none),
		cmocka_unit_test(a_qp_goes_on_from_a_copy),
		cmocka_unit_test(a_window_stays_until_the_reads_before_are_answered),
		cmocka_unit_test(ending_in_a_handler_takes_no_locks),
	};
	union ibv_gid own = gid_of("::ffff:127.0.0.1"), peer = gid_of("::ffff:127.0.0.9");
	int ret;

	memcpy(&own_gid, &own, sizeof(own));
	memcpy(&peer_gid, &peer, sizeof(peer));
	if (!own_host())
		return 0;
	dev = lo_device();
	ctx = open_lo();
	pd = urxe_alloc_pd(ctx);
	cq = urxe_create_cq(ctx, 16, NULL, NULL, 0);
	mr = urxe_reg_mr_iova2(pd, memory, LENGTH, (uintptr_t)memory,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				       IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC |
				       IBV_ACCESS_MW_BIND);
	if (!pd || !cq || !mr)
		return 1;
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	urxe_close_device(ctx);
	return leave_host(ret);
}
