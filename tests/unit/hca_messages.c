// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Datagrams of any bytes to the socket by which the processes of a host reach each other
 * (wire/ipc.c): packets for another process's QPs, and the messages by which target QPs of an XRC
 * domain are lent (hca/xrc_loan.c, xrc_open.c). Most begin as what a sound process sends, and have
 * a few bytes changed. The numbers are the same in each run. With the sanitizers nothing outside of
 * a datagram is read or written; and the adapter works afterwards.
 */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "wire_test.h"
#include "qp_test.h"

#include "hca/engine.h"
#include "wire/private.h"
#include "hca/verbs.h"

/* For what its messages look like. */
#include "hca/xrc_loan.c"

#define PACKETS_MAGIC 0x75727865u /* of wire/ipc.c */
#define MESSAGE_MAGIC 0x75727866u
#define HEADER	      64
#define MOST	      2048
#define DATAGRAMS     40000

static struct ibv_context *ctx;
static struct urxe_device *dev;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *rc, *target;
static struct ibv_srq *srq;
static struct stat folder; /* the XRC domain's file */

/* ---- numbers ---- */

static uint64_t state = 1;

static uint32_t any(uint32_t below)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (state >> 33) % below;
}

static uint8_t any_byte(void)
{
	static const uint8_t borders[] = {0, 1, 3, 4, 0x7f, 0x80, 0xfe, 0xff};

	return any(2) ? borders[any(sizeof(borders))] : any(256);
}

/* ---- datagrams ---- */

static void put(uint8_t *to, uint32_t value)
{
	memcpy(to, &value, sizeof(value));
}

/* A packet to a QP of ours, or to QP 1. Returns its length, with room for the ICRC. */
static uint32_t put_packet(uint8_t *to)
{
	static const uint8_t opcodes[] = {URXE_RC_SEND_ONLY,
					  URXE_RC_SEND_FIRST,
					  URXE_RC_WRITE_ONLY,
					  URXE_RC_READ_REQUEST,
					  URXE_RC_ACKNOWLEDGE,
					  0xa4,
					  0xaa,
					  0x64};
	uint32_t qpn[] = {rc->qp_num, target->qp_num, 1};
	uint32_t len = sizeof(struct urxe_bth) + 4 * any(100) + URXE_ICRC_LEN;

	for (uint32_t i = 0; i < len; i++)
		to[i] = any_byte();
	urxe_bth_fill((struct urxe_bth *)to, opcodes[any(sizeof(opcodes))], false, 0, 0xffff,
		      qpn[any(3)], any(2), any(4));
	return len;
}

static uint32_t put_packets(uint8_t *to)
{
	uint32_t len = HEADER, size = put_packet(to + HEADER);

	put(to, PACKETS_MAGIC);
	put(to + 4, size);
	to[58] = any(4); /* hops */
	for (unsigned n = any(4); n && len + 2 * size <= MOST; n--, len += size)
		memcpy(to + len + size, to + len, size);
	return len + size;
}

/* A request of XRC SENDs or WRITEs to the SRQ, as it lies behind a LEND. Returns its length. */
static uint32_t put_lent_packet(uint8_t *to, uint32_t srqn)
{
	static const uint8_t opcodes[] = {0xa0, 0xa1, 0xa2, 0xa4, 0xa6,
					  0xa7, 0xa8, 0xaa, 0xac, 0xb3};
	struct packet_head head = {.len = 16 + 16 + 4 * any(64), .span = any(3)};
	uint8_t *packet = to + sizeof(head);

	memcpy(to, &head, sizeof(head));
	for (uint32_t i = 0; i < head.len; i++)
		packet[i] = any_byte();
	urxe_bth_fill((struct urxe_bth *)packet, opcodes[any(sizeof(opcodes))], false, 0, 0xffff,
		      target->qp_num, any(2), any(4));
	srqn = htobe32(srqn);
	memcpy(packet + sizeof(struct urxe_bth), &srqn, sizeof(srqn));
	return sizeof(head) + head.len;
}

static uint32_t put_message(uint8_t *to)
{
	static uint64_t turn;
	struct message m = {
		.kind = any(4)	 ? LEND
			: any(8) ? 1 + any(3)
				 : XRC_CALL + any(3),
		.qpn = any(2) ? target->qp_num : any(16) << 8 | any(256),
		.turn = ++turn,
		.dev = folder.st_dev,
		.ino = folder.st_ino,
		.path = {.port = dev->ports->index},
		.dest_qpn = any(1u << 24),
		.mtu = 256u << any(5),
		.access = any(16),
		.max_dest_rd_atomic = any(17),
		.state = {.epsn = any(4), .executed_psn = any(4), .msn = any(4)},
	};
	union ibv_gid own = gid_of("::ffff:127.0.0.1");
	uint32_t len = HEADER + sizeof(m);

	memcpy(&m.path.src.gid, &own, sizeof(own));
	memcpy(&m.path.dst.gid, &own, sizeof(own));
	put(to, MESSAGE_MAGIC);
	put(to + 4, URXE_SLOT_FIRST + any(8));
	memcpy(to + HEADER, &m, sizeof(m));
	for (unsigned n = any(4); n && len + 512 < MOST; n--)
		len += put_lent_packet(to + len, to_srq(srq)->number);
	return len;
}

static void send_any(int fd, const struct sockaddr_un *name)
{
	static _Alignas(8) uint8_t bytes[MOST + 512];
	uint32_t len;

	memset(bytes, 0, sizeof(bytes));
	len = any(2) ? put_packets(bytes) : put_message(bytes);
	for (unsigned n = any(4); n; n--)
		bytes[any(4) ? any(len) : any(HEADER)] = any_byte();
	if (!any(8))
		len = 1 + any(len);
	if (sendto(fd, bytes, len, MSG_DONTWAIT, (const struct sockaddr *)name, sizeof(*name)) < 0)
		assert_int_equal(errno, EAGAIN);
}

/* Sockets are asked now and then otherwise. */
static void receive_now(void)
{
	urxe_engine_lock();
	urxe_hca.wire->asked_at = 0;
	urxe_engine_unlock();
	urxe_engine_progress(true);
}

/* 9.6: what is not a valid packet is dropped. A neighbour's process is trusted no
 * more than the network is. */
static void datagrams_of_any_bytes_do_no_harm(void **unused)
{
	struct sockaddr_un name = own_socket(urxe_hca.seg);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	for (unsigned i = 0; i < DATAGRAMS; i++) {
		send_any(fd, &name);
		receive_now();
	}
	close(fd);
	urxe_engine_progress(true);
	assert_int_equal(urxe_destroy_qp(rc), 0);
	rc = small_qp(pd, cq, IBV_QPT_RC);
}

static struct ibv_qp *make_target(struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = xrcd,
	};

	return urxe_create_qp_ex(ctx, &init);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(datagrams_of_any_bytes_do_no_harm)};
	struct ibv_xrcd_init_attr domain = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.oflags = O_CREAT,
	};
	struct ibv_srq_init_attr_ex shared = {
		.attr = {.max_wr = 16, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_XRC,
	};
	int ret;

	if (!own_host())
		return 0;
	dev = lo_device();
	ctx = open_lo();
	domain.fd = open(host_folder, O_RDONLY);
	pd = shared.pd = urxe_alloc_pd(ctx);
	cq = shared.cq = urxe_create_cq(ctx, 256, NULL, NULL, 0);
	shared.xrcd = urxe_open_xrcd(ctx, &domain);
	if (!pd || !cq || !shared.xrcd || fstat(domain.fd, &folder))
		return 1;
	srq = urxe_create_srq_ex(ctx, &shared);
	target = make_target(shared.xrcd);
	rc = small_qp(pd, cq, IBV_QPT_RC);
	if (!srq || !target)
		return 1;
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	urxe_close_device(ctx);
	return leave_host(ret);
}
