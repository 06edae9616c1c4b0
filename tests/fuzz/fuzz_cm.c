/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libFuzzer target for the communication manager: any messages, well formed or not, into a manager
 * with connections in all states, between calls of a consumer and with a clock of the fuzzer's.
 *
 * An input is a list of commands. The low nibble of the first byte is what, the high one whose:
 *
 *	0	a MAD of the bytes that follow, as they are (up to 232 into the body; attribute first)
 *	1-7	a message about identifier n whose IDs fit: attribute, then bytes over its body
 *	8	connect	9 send REP	10 send RTU	11 DREQ, DREP or RTU implied
 *	12	REJ or MRA	13 destroy	14 SIDR_REQ or SIDR_REP	15 time passes
 *
 * What the handler returns comes from the input as well.
 */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cm/connection_private.h"

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

#define IDS	    16
#define MAX_PENDING 8
#define SERVICE	    0x0000000001060001ull

static struct urxe_cm *cm;
static struct urxe_device dev;
static struct urxe_port port = {.dev = &dev, .kind = &urxe_netdev_port, .num = 1};
static struct in6_addr ours, peers;
static struct urxe_cm_id *ids[IDS];
static uint64_t now;
static const uint8_t *in;
static size_t left;
static unsigned records;

static uint8_t next(void)
{
	if (!left)
		return 0;
	left--;
	return *in++;
}

static int send_mad(struct urxe_cm *manager, const struct urxe_path *path, uint16_t pkey,
		    const uint8_t mad[URXE_MAD_SIZE])
{
	struct urxe_cm_msg msg;

	(void)manager;
	(void)pkey;
	CHECK(path->port == port.index);
	CHECK(urxe_cm_is_cm(mad));
	/* SIDR_REQs and REQs that a consumer fills with nonsense may be nonsense. */
	if (urxe_cm_decode(&msg, mad))
		CHECK(msg.attr == URXE_CM_REQ || msg.attr == URXE_CM_REP);
	return 0;
}

static void *find_listener(struct urxe_cm *manager, const struct urxe_cm_event *event)
{
	(void)manager;
	(void)event;
	return next() & 1 ? NULL : &ours;
}

static void record(struct urxe_cm *manager, const struct urxe_cm_record *r, uint32_t *row)
{
	(void)manager;
	CHECK(r->local_id && !r->remote_id == (r->state == URXE_CM_REQ_SENT));
	/* The first time a row is made; later its state changes. */
	records += *row == URXE_CM_NO_ROW;
	*row = 1;
}

static void forget(struct urxe_cm *manager, uint32_t row)
{
	(void)manager;
	CHECK(row == 1 && records);
	records--;
}

static void drop(const struct urxe_cm_id *id)
{
	for (unsigned i = 0; i < IDS; i++) {
		if (ids[i] == id)
			ids[i] = NULL;
	}
}

static bool keep(struct urxe_cm_id *id)
{
	for (unsigned i = 0; i < IDS; i++) {
		if (!ids[i]) {
			ids[i] = id;
			return true;
		}
	}
	return false;
}

static int handler(struct urxe_cm_id *id, const struct urxe_cm_event *event)
{
	static volatile uint8_t sink;
	uint8_t answer = next();

	for (unsigned i = 0; i < event->private_data_len; i++)
		sink ^= event->private_data[i];
	if (event->type == URXE_CM_REJ_RECEIVED)
		CHECK(event->msg->rej.ari_len <= URXE_CM_REJ_ARI);
	if ((event->type == URXE_CM_REQ_RECEIVED || event->type == URXE_CM_SIDR_REQ_RECEIVED) &&
	    !keep(id))
		return -ENOMEM;
	switch (answer & 31) {
	case 1: drop(id); return -ECONNREFUSED;
	case 2: drop(id); return -ENOMEM;
	case 3:
		drop(id);
		urxe_cm_id_destroy(id);
		return 0;
	default: return 0;
	}
}

static const struct urxe_cm_ops ops = {.send = send_mad,
				       .listener = find_listener,
				       .request = handler,
				       .record = record,
				       .forget = forget};

static struct urxe_cm_path path_to_peer(void)
{
	return (struct urxe_cm_path){.av = {.src.gid = ours, .dst.gid = peers},
				     .pkey = 0xffff,
				     .mtu = IBV_MTU_1024,
				     .packet_life_time = 10};
}

static void receive(const uint8_t *mad)
{
	struct urxe_path path = {.src.gid = peers, .dst.gid = ours};
	struct urxe_cm_rx rx = {.mad = mad, .path = &path, .src_qpn = 1};

	urxe_cm_receive(cm, &rx, now);
}

static void header(uint8_t mad[URXE_MAD_SIZE], unsigned attr)
{
	static const uint8_t start[] = {1, 7, 2, 3};

	memset(mad, 0, URXE_MAD_SIZE);
	memcpy(mad, start, sizeof(start));
	mad[17] = URXE_CM_REQ + attr % 12; /* one too many */
}

static void raw(void)
{
	uint8_t mad[URXE_MAD_SIZE];
	unsigned len;

	header(mad, next());
	len = next() % 233;
	for (unsigned i = 0; i < len; i++)
		mad[24 + i] = next();
	receive(mad);
}

/* A message that fits an identifier, then bent a little. */
static void fitting(struct urxe_cm_id *id)
{
	unsigned attr = next() % 9;
	struct urxe_cm_msg msg = {
		.attr = URXE_CM_REQ + attr,
		.local_id = id && id->remote_id ? id->remote_id : 0x100u + (next() & 15),
		.remote_id = id ? id->local_id : 0x5500,
	};
	uint64_t guid = htobe64(5);
	uint8_t mad[URXE_MAD_SIZE];

	switch (msg.attr) {
	case URXE_CM_REQ:
		msg.req = (struct urxe_cm_req){.service_id = SERVICE,
					       .local_ca_guid = 5,
					       .local_qpn = 0x200 + (next() & 15),
					       .mtu = IBV_MTU_1024,
					       .max_cm_retries = 2,
					       .local_cm_response_timeout = 12};
		memcpy(msg.req.primary.local_gid, &peers, 16);
		memcpy(msg.req.primary.remote_gid, &ours, 16);
		break;
	case URXE_CM_REP:
		msg.rep.local_ca_guid = 5;
		msg.rep.local_qpn = 0x200 + (next() & 15);
		break;
	case URXE_CM_REJ:
		msg.rej.reason = next() % 36;
		msg.rej.ari_len = 8;
		memcpy(msg.rej.ari, &guid, 8);
		break;
	case URXE_CM_MRA: msg.mra.about = next() % 3; break;
	case URXE_CM_DREQ: msg.dreq.remote_qpn = id ? id->local_qpn : 0; break;
	case URXE_CM_SIDR_REP: msg.local_id = msg.remote_id; break;
	default: break;
	}
	urxe_cm_encode(mad, &msg);
	for (unsigned bends = next() & 3; bends; bends--) {
		unsigned at = next();

		mad[at] ^= next();
	}
	receive(mad);
}

static void connect_one(void)
{
	struct urxe_cm_path path = path_to_peer();
	struct urxe_cm_msg req = {.attr = URXE_CM_REQ,
				  .req = {.service_id = SERVICE,
					  .local_qpn = 0x300 + (next() & 15),
					  .remote_cm_response_timeout = next() & 15,
					  .max_cm_retries = next()},
				  .private_data = "x"};
	struct urxe_cm_id *id;

	CHECK(!urxe_cm_id_create(cm, handler, NULL, &id));
	if (!keep(id)) {
		urxe_cm_id_destroy(id);
		return;
	}
	CHECK(!urxe_cm_send_req(id, &path, IBV_QPT_RC, &req, now));
}

static void sidr(struct urxe_cm_id *id)
{
	struct urxe_cm_path path = path_to_peer();
	struct urxe_cm_msg req = {.attr = URXE_CM_SIDR_REQ, .sidr_req.service_id = SERVICE};
	struct urxe_cm_msg rep = {.attr = URXE_CM_SIDR_REP,
				  .sidr_rep = {.status = next() % 6, .qpn = 7}};

	if (id) {
		if (urxe_cm_send_sidr_rep(id, &rep))
			urxe_cm_send_sidr_req(id, &path, 10, 2, &req, now);
		return;
	}
	CHECK(!urxe_cm_id_create(cm, handler, NULL, &id));
	if (keep(id))
		CHECK(!urxe_cm_send_sidr_req(id, &path, 10, 2, &req, now));
	else
		urxe_cm_id_destroy(id);
}

static void consumer(unsigned what, struct urxe_cm_id *id)
{
	struct urxe_cm_msg rep = {
		.attr = URXE_CM_REP, .rep.local_qpn = 0x400 + (next() & 15), .private_data = "y"};
	struct ibv_qp_attr attr = {.qp_state = next() & 7};
	int mask;

	urxe_cm_init_qp_attr(id, &attr, &mask);
	switch (what) {
	case 9: urxe_cm_send_rep(id, &rep, now); break;
	case 10: urxe_cm_send_rtu(id); break;
	case 11:
		if (urxe_cm_notify_established(id, now) && urxe_cm_send_dreq(id, now))
			urxe_cm_send_drep(id, now);
		break;
	case 12:
		if (next() & 1)
			urxe_cm_send_mra(id, next());
		else
			urxe_cm_send_rej(id, next(), "b", 1, now);
		break;
	default:
		drop(id);
		urxe_cm_id_destroy(id);
		break;
	}
}

static void check(void)
{
	struct urxe_cm_counts counts;
	unsigned held = 0;

	urxe_cm_counts(cm, &counts);
	for (unsigned i = 0; i < IDS; i++) {
		if (!ids[i])
			continue;
		held++;
		CHECK(ids[i]->state < URXE_CM_STATES);
		CHECK(urxe_cm_local_find(cm, ids[i]->local_id) == ids[i]);
	}
	CHECK(counts.ids >= held && counts.pending <= MAX_PENDING);
}

static void one_command(void)
{
	uint8_t command = next();
	unsigned what = command & 15;
	struct urxe_cm_id *id = ids[command >> 4];

	if (what == 0) {
		raw();
	} else if (what < 8) {
		fitting(id);
	} else if (what == 8) {
		connect_one();
	} else if (what == 14) {
		sidr(id);
	} else if (what == 15) {
		now += (uint64_t)next() << 20;
		if (urxe_cm_deadline(cm) <= now)
			urxe_cm_run(cm, now);
	} else if (id) {
		consumer(what, id);
	}
	check();
}

/* All lets go, and in the end nothing is left. */
static void wind_up(void)
{
	struct urxe_cm_counts counts;

	for (unsigned i = 0; i < IDS; i++) {
		if (ids[i])
			urxe_cm_id_destroy(ids[i]);
		ids[i] = NULL;
	}
	for (unsigned i = 0; i < 400 && urxe_cm_deadline(cm) != UINT64_MAX; i++) {
		now += 70ull * 1000 * 1000 * 1000;
		urxe_cm_run(cm, now);
	}
	urxe_cm_counts(cm, &counts);
	CHECK(!counts.ids && !counts.pending && !records);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct urxe_cm_config config = {
		.ops = &ops, .slot = 3, .now = 1, .seed = {7, 9}, .max_pending = MAX_PENDING};

	in = data;
	left = size;
	now = 1;
	records = 0;
	ours.s6_addr[15] = 1;
	peers.s6_addr[15] = 2;
	dev.num_ports = 1;
	dev.ports = &port;
	urxe_ports_add(&dev);
	memset(ids, 0, sizeof(ids));
	CHECK(!urxe_cm_create(&cm, &config));
	for (unsigned i = 0; left && i < 400; i++)
		one_command();
	wind_up();
	urxe_cm_destroy(cm);
	return 0;
}
