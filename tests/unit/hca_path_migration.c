// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Path migration (IBTA vol. 1, 17.2.8): each event in each state, against a table of its own; and
 * QPs whose peer is this test, by packets that are handed to urxe_dispatch(). What the adapter
 * sends is kept here instead (urxe_wire_send is wrapped).
 */
#include "wire_test.h"
#include "qp_test.h"

#include "hca/completer.h"
#include "hca/engine.h"
#include "hca/path_migration.h"
#include "hca/peer.h"
#include "hca/verbs.h"

#define PEER_QPN 0x12303 /* of a slot that nobody has */
#define PKEY	 URXE_PKEY_DEFAULT

static struct ibv_context *ctx;
static struct urxe_device *dev;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static uint8_t memory[4096] __attribute__((aligned(8)));
static struct ibv_mr *mr;
/* This host's GIDs and the peer's: of the path that is in use at first, and the alternate one. */
static union ibv_gid own[2], peer[2];

/* ---- the table ---- */

static const char *const state_names[] = {"MIGRATED", "REARM", "ARMED"};
static const char *const event_names[URXE_MIGRATION_EVENTS] = {
	"MIGRATED asked", "REARM asked",	"ARMED asked",	 "MigReq = 0",
	"MigReq = 1",	  "MigReq = 1, astray", "retries spent",
};

/* A letter for what comes of each event: '.' nothing, '!' refused, 'R' REARM,
 * 'A' ARMED, 'M' migration. */
static const struct {
	enum ibv_mig_state state;
	const char *what;
} table[] = {
	/* three are asked for (11.2.5.2), three heard (9.6.1.5); the requester (9.9.2) */
	{IBV_MIG_MIGRATED, ".R!...!"},
	{IBV_MIG_REARM, "!.!A..!"},
	{IBV_MIG_ARMED, "M!!.M!M"},
};

static void every_event_in_every_state(void **state)
{
	static const char letters[] = {
		[URXE_MIGRATION_NONE] = '.',	[URXE_MIGRATION_REFUSE] = '!',
		[URXE_MIGRATION_REARM] = 'R',	[URXE_MIGRATION_ARM] = 'A',
		[URXE_MIGRATION_MIGRATE] = 'M',
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		for (int event = 0; event < URXE_MIGRATION_EVENTS; event++) {
			enum urxe_migration_event e = (enum urxe_migration_event)event;
			char got = letters[urxe_migration_action(table[i].state, e)];

			if (got != table[i].what[event])
				fail_msg("17.2.8: %s in state %s: '%c', expected '%c'",
					 event_names[event], state_names[table[i].state], got,
					 table[i].what[event]);
		}
	}
}

/* ---- what was sent ---- */

static struct sent {
	uint8_t bytes[URXE_MAX_HEADER];
	struct urxe_path path;
} sent[64];
static unsigned num_sent;

int __wrap_urxe_wire_send(struct urxe_wire *wire, const struct urxe_path *path,
			  struct urxe_tx_packet *pkts, unsigned n);
int __wrap_urxe_wire_send(struct urxe_wire *wire, const struct urxe_path *path,
			  struct urxe_tx_packet *pkts, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct sent *s = &sent[num_sent++ % 64];

		memcpy(s->bytes, pkts[i].header, pkts[i].header_len);
		s->path = *path;
	}
	return n;
}

/* The service thread may be sending, too: what was sent is looked at under the engine lock. */
static unsigned packets_sent(void)
{
	unsigned n;

	urxe_engine_lock();
	n = num_sent;
	urxe_engine_unlock();
	return n;
}

static void forget_sent(void)
{
	urxe_engine_lock();
	num_sent = 0;
	urxe_engine_unlock();
}

static struct sent last_sent(void)
{
	struct sent last;

	urxe_engine_lock();
	assert_true(num_sent > 0);
	last = sent[(num_sent - 1) % 64];
	urxe_engine_unlock();
	return last;
}

static const struct urxe_bth *last_bth(void)
{
	static struct sent last;

	last = last_sent();
	return (const struct urxe_bth *)last.bytes;
}

/* By which of both paths did the last packet leave? */
static int last_path(void)
{
	struct sent last = last_sent();

	for (int i = 0; i < 2; i++)
		if (!memcmp(&last.path.src, &own[i], 16) && !memcmp(&last.path.dst, &peer[i], 16))
			return i;
	return -1;
}

/* ---- QPs ---- */

/* A timeout that does not pass by itself, 69 s: see pass_timeouts(). */
#define LONG 24

static struct ibv_ah_attr av(int which)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh.hop_limit = 64};

	attr.grh.dgid = peer[which];
	attr.grh.sgid_index = urxe_port_gid_index(dev->ports, &own[which]);
	return attr;
}

static void alternate(struct ibv_qp_attr *attr, int which)
{
	attr->alt_ah_attr = av(which);
	attr->alt_port_num = 1;
	attr->alt_timeout = LONG + 1;
}

static struct ibv_qp *make_qp(enum ibv_qp_type type)
{
	struct ibv_qp_attr attr = {
		.qp_access_flags = IBV_ACCESS_REMOTE_ATOMIC,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = PEER_QPN,
		.max_dest_rd_atomic = 4,
		.max_rd_atomic = 4,
		.timeout = LONG,
		.retry_cnt = 1,
		.ah_attr = av(0),
	};
	struct ibv_qp *qp = small_qp(pd, cq, type);

	enter_rtr(qp, &attr);
	enter_rts(qp, &attr);
	forget_sent();
	return qp;
}

static int ask(struct ibv_qp *qp, enum ibv_mig_state state)
{
	struct ibv_qp_attr attr = {.path_mig_state = state};

	return urxe_modify_qp(qp, &attr, IBV_QP_PATH_MIG_STATE);
}

static struct ibv_qp_attr query(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(urxe_query_qp(qp, &attr, ~0, &init), 0);
	return attr;
}

/* With the other path loaded. */
static void rearm(struct ibv_qp *qp, int other)
{
	struct ibv_qp_attr attr = {.path_mig_state = IBV_MIG_REARM};

	alternate(&attr, other);
	assert_int_equal(urxe_modify_qp(qp, &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE), 0);
	assert_int_equal(query(qp).path_mig_state, IBV_MIG_REARM);
}

/* How many events of a type there are, and no others. */
static int events(enum ibv_event_type type)
{
	struct ibv_async_event event;
	int n = 0;

	assert_int_equal(fcntl(ctx->async_fd, F_SETFL, O_NONBLOCK), 0);
	while (!urxe_get_async_event(ctx, &event)) {
		assert_int_equal(event.event_type, type);
		urxe_ack_async_event(&event);
		n++;
	}
	return n;
}

/* ---- packets ---- */

static void hand_over(const void *packet, uint32_t len, int path)
{
	struct urxe_rx_packet rx = {
		.bth = packet,
		.bytes = packet,
		.len = len,
		.path = {.port = dev->ports->index, .roce.hop_limit = 64},
		.span = 1,
	};

	memcpy(&rx.path.src, &peer[path], 16);
	memcpy(&rx.path.dst, &own[path], 16);
	urxe_engine_lock();
	urxe_dispatch(&rx, NULL);
	urxe_engine_unlock();
}

static void fetch_add(const struct ibv_qp *qp, uint8_t migreq, int path, uint32_t psn,
		      uint16_t pkey)
{
	struct {
		struct urxe_bth bth;
		struct urxe_atomic_eth eth;
	} packet;

	urxe_bth_fill(&packet.bth, URXE_RC_FETCH_ADD, migreq, 0, pkey, qp->qp_num, true, psn);
	urxe_atomic_fill(&packet.eth, (uintptr_t)memory, mr->rkey, 1, 0);
	hand_over(&packet, sizeof(packet), path);
}

static void acknowledge(const struct ibv_qp *qp, uint8_t migreq, int path, uint32_t psn)
{
	struct {
		struct urxe_bth bth;
		struct urxe_aeth aeth;
	} packet;

	urxe_bth_fill(&packet.bth, URXE_RC_ACKNOWLEDGE, migreq, 0, PKEY, qp->qp_num, false, psn);
	urxe_aeth_fill(&packet.aeth, URXE_AETH_ACK | URXE_AETH_CREDIT_NONE, 1);
	hand_over(&packet, sizeof(packet), path);
}

/* What the memory counts: each fetch-add that was executed. */
static uint64_t executed(void)
{
	uint64_t value;

	memcpy(&value, memory, sizeof(value));
	return value;
}

static int send_one(struct ibv_qp *qp, uint64_t id)
{
	struct ibv_sge sge = {(uintptr_t)memory, 8, mr->lkey};
	struct ibv_send_wr wr = {.wr_id = id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	int ret = urxe_post_send(qp, &wr, &bad);

	/* Where the service thread had the lock, the packet has left after this. */
	urxe_engine_lock();
	urxe_engine_unlock();
	return ret;
}

#define MIGREQ URXE_BTH_MIGREQ

static struct ibv_qp *armed_qp(enum ibv_qp_type type)
{
	struct ibv_qp *qp = make_qp(type);

	memset(memory, 0, 8);
	rearm(qp, 1);
	if (type == IBV_QPT_RC) {
		fetch_add(qp, 0, 0, 0, PKEY);
		assert_int_equal(executed(), 1);
	} else {
		struct urxe_bth bth;

		urxe_bth_fill(&bth, URXE_SERVICE_UC | URXE_RC_SEND_ONLY, 0, 0, PKEY, qp->qp_num,
			      false, 0);
		hand_over(&bth, sizeof(bth), 0);
	}
	assert_int_equal(query(qp).path_mig_state, IBV_MIG_ARMED);
	return qp;
}

/* ---- the tests ---- */

/* 17.2.8: MigReq says that the sender is MIGRATED, in requests and in answers. */
static void outgoing_packets_follow_the_state(void **state)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);

	fetch_add(qp, MIGREQ, 0, 0, PKEY);
	assert_true(urxe_bth_migreq(last_bth()));
	rearm(qp, 1);
	fetch_add(qp, MIGREQ, 0, 1, PKEY);
	assert_int_equal(query(qp).path_mig_state, IBV_MIG_REARM);
	assert_int_equal(last_bth()->opcode, URXE_RC_ATOMIC_ACKNOWLEDGE);
	assert_false(urxe_bth_migreq(last_bth()));
	assert_int_equal(send_one(qp, 1), 0);
	assert_int_equal(last_bth()->opcode, URXE_RC_SEND_ONLY);
	assert_false(urxe_bth_migreq(last_bth()));
	acknowledge(qp, 0, 0, 0);
	assert_int_equal(query(qp).path_mig_state, IBV_MIG_ARMED);
	assert_int_equal(send_one(qp, 2), 0);
	assert_false(urxe_bth_migreq(last_bth()));
	assert_int_equal(ask(qp, IBV_MIG_MIGRATED), 0);
	assert_true(urxe_bth_migreq(last_bth()));
	assert_int_equal(events(IBV_EVENT_PATH_MIG), 1);
	assert_int_equal(urxe_destroy_qp(qp), 0);
}

/* 17.2.8: by a valid packet of the peer alone. */
static void only_the_peers_packets_arm(void **state)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);

	rearm(qp, 1);
	fetch_add(qp, 0, 1, 0, PKEY);
	assert_int_equal(query(qp).path_mig_state, IBV_MIG_REARM);
	fetch_add(qp, 0, 0, 0, 0x1234);
	assert_int_equal(query(qp).path_mig_state, IBV_MIG_REARM);
	assert_int_equal(packets_sent(), 0);
	fetch_add(qp, 0, 0, 0, PKEY);
	assert_int_equal(query(qp).path_mig_state, IBV_MIG_ARMED);
	assert_int_equal(events(IBV_EVENT_PATH_MIG_ERR), 0);
	assert_int_equal(urxe_destroy_qp(qp), 0);
}

/* 17.2.8, 9.6.1.5: the peer has migrated. */
static void a_request_by_the_alternate_path_migrates(void **state)
{
	struct ibv_qp *qp = armed_qp(IBV_QPT_RC);
	struct ibv_qp_attr attr;

	fetch_add(qp, MIGREQ, 1, 1, PKEY);
	assert_int_equal(executed(), 2);
	assert_int_equal(last_path(), 1);
	assert_true(urxe_bth_migreq(last_bth()));
	attr = query(qp);
	assert_int_equal(attr.path_mig_state, IBV_MIG_MIGRATED);
	assert_int_equal(attr.timeout, LONG + 1);
	assert_int_equal(attr.port_num, 1);
	assert_memory_equal(&attr.ah_attr.grh.dgid, &peer[1], 16);
	assert_int_equal(attr.alt_port_num, 0);
	assert_int_equal(events(IBV_EVENT_PATH_MIG), 1);
	/* What was executed before is answered again, and not executed again. */
	fetch_add(qp, MIGREQ, 1, 0, PKEY);
	assert_int_equal(executed(), 2);
	assert_int_equal(urxe_bth_psn(last_bth()), 0);
	/* The former path is nobody's any more. */
	forget_sent();
	fetch_add(qp, MIGREQ, 0, 2, PKEY);
	fetch_add(qp, 0, 0, 2, PKEY);
	assert_int_equal(executed(), 2);
	assert_int_equal(packets_sent(), 0);
	assert_int_equal(urxe_destroy_qp(qp), 0);
}

/* 11.6.3.2: Path Migration Request Error, told once. */
static void a_migration_request_from_elsewhere_is_dropped_and_reported(void **state)
{
	struct ibv_qp *qp = armed_qp(IBV_QPT_RC);

	forget_sent();
	fetch_add(qp, MIGREQ, 0, 1, PKEY);
	fetch_add(qp, MIGREQ, 1, 1, 0x1234);
	assert_int_equal(executed(), 1);
	assert_int_equal(packets_sent(), 0);
	assert_int_equal(query(qp).path_mig_state, IBV_MIG_ARMED);
	assert_int_equal(events(IBV_EVENT_PATH_MIG_ERR), 1);
	/* The path in use still is, and so is the alternate one. */
	fetch_add(qp, 0, 0, 1, PKEY);
	fetch_add(qp, MIGREQ, 1, 2, PKEY);
	assert_int_equal(executed(), 3);
	assert_int_equal(events(IBV_EVENT_PATH_MIG), 1);
	assert_int_equal(urxe_destroy_qp(qp), 0);
}

/* Lets the QP's clocks run, without waiting; the service thread is not to see that time. */
static void pass_timeouts(struct ibv_qp *ibv, unsigned n)
{
	struct urxe_qp *qp = to_qp(ibv);

	while (n--) {
		uint64_t due;

		urxe_engine_lock();
		due = qp->progress_at + qp->proto.timeout;
		urxe_hca.now = due > qp->timeout_at ? due : qp->timeout_at;
		urxe_timer_disarm(&urxe_hca.wheel, &qp->timer);
		urxe_completer_timer(qp, urxe_hca.now);
		urxe_hca.now = urxe_now();
		urxe_engine_unlock();
	}
}

/* 9.9.2, 17.2.8: retries are spent; those on the alternate path begin anew. */
static void spent_retries_migrate_an_armed_qp(void **state)
{
	struct ibv_qp *qp = armed_qp(IBV_QPT_RC);
	struct ibv_wc wc;

	assert_int_equal(send_one(qp, 1), 0);
	assert_int_equal(send_one(qp, 2), 0);
	assert_int_equal(last_path(), 0);
	pass_timeouts(qp, 1);
	assert_int_equal(last_path(), 0);
	forget_sent();
	pass_timeouts(qp, 1);
	assert_int_equal(events(IBV_EVENT_PATH_MIG), 1);
	assert_true(packets_sent() >= 2); /* on a busy machine the service thread probes, too */
	assert_int_equal(last_path(), 1);
	assert_true(urxe_bth_migreq(last_bth()));
	assert_int_equal(urxe_bth_psn(last_bth()), 1);
	assert_int_equal(to_qp(qp)->proto.retries, 1);
	acknowledge(qp, MIGREQ, 1, 0);
	assert_int_equal(urxe_poll_cq(cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, 1);
	/* There is no third path. */
	pass_timeouts(qp, 2);
	assert_int_equal(urxe_poll_cq(cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(wc.wr_id, 2);
	assert_int_equal(urxe_destroy_qp(qp), 0);
}

/* 17.2.8: nobody knows whether the peer would come along. */
static void spent_retries_end_a_qp_that_is_not_armed(void **state)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	struct ibv_wc wc;

	rearm(qp, 1);
	assert_int_equal(send_one(qp, 1), 0);
	pass_timeouts(qp, 2);
	assert_int_equal(urxe_poll_cq(cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(events(IBV_EVENT_PATH_MIG), 0);
	assert_int_equal(urxe_destroy_qp(qp), 0);
}

/* By an unsolicited acknowledgement (9.7.7). */
static void a_responder_that_migrates_tells_its_peer(void **state)
{
	struct ibv_qp *qp = armed_qp(IBV_QPT_RC);

	forget_sent();
	assert_int_equal(ask(qp, IBV_MIG_MIGRATED), 0);
	assert_int_equal(packets_sent(), 1);
	assert_int_equal(last_bth()->opcode, URXE_RC_ACKNOWLEDGE);
	assert_int_equal(last_path(), 1);
	assert_true(urxe_bth_migreq(last_bth()));
	assert_int_equal(events(IBV_EVENT_PATH_MIG), 1);
	assert_int_equal(urxe_destroy_qp(qp), 0);
}

/* 17.2.8: UC has it too, by request of either end. */
static void uc_migrates_by_request(void **state)
{
	struct ibv_qp *qp = armed_qp(IBV_QPT_UC);
	struct urxe_bth bth;

	urxe_bth_fill(&bth, URXE_SERVICE_UC | URXE_RC_SEND_ONLY, MIGREQ, 0, PKEY, qp->qp_num, false,
		      1);
	hand_over(&bth, sizeof(bth), 1);
	assert_int_equal(query(qp).path_mig_state, IBV_MIG_MIGRATED);
	assert_int_equal(send_one(qp, 1), 0);
	assert_int_equal(last_path(), 1);
	assert_int_equal(events(IBV_EVENT_PATH_MIG), 1);
	rearm(qp, 0);
	urxe_bth_fill(&bth, URXE_SERVICE_UC | URXE_RC_SEND_ONLY, 0, 0, PKEY, qp->qp_num, false, 2);
	hand_over(&bth, sizeof(bth), 1);
	forget_sent();
	assert_int_equal(ask(qp, IBV_MIG_MIGRATED), 0);
	assert_int_equal(packets_sent(), 0);
	assert_int_equal(send_one(qp, 2), 0);
	assert_int_equal(last_path(), 0);
	assert_int_equal(events(IBV_EVENT_PATH_MIG), 1);
	assert_int_equal(urxe_destroy_qp(qp), 0);
}

/* A window that counts bytes of a path that is given up would never open again. */
static void windows_balance_over_migrations(void **state)
{
	struct ibv_qp *qp = armed_qp(IBV_QPT_RC);
	struct urxe_peer *first = to_qp(qp)->peer;

	assert_int_equal(send_one(qp, 1), 0);
	assert_true(first->in_flight > 0);
	first->users++; /* it would go with its last user */
	assert_int_equal(ask(qp, IBV_MIG_MIGRATED), 0);
	assert_int_equal(first->in_flight, 0);
	assert_int_equal(first->users, 1);
	assert_true(to_qp(qp)->peer != first);
	assert_true(to_qp(qp)->peer->in_flight > 0);
	assert_int_equal(to_qp(qp)->peer->users, 1);
	urxe_peer_put(first);
	rearm(qp, 0);
	rearm(qp, 0);
	assert_int_equal(to_qp(qp)->alternate->peer->users, 1);
	assert_int_equal(events(IBV_EVENT_PATH_MIG), 1);
	assert_int_equal(urxe_destroy_qp(qp), 0);
}

static void reset_begins_anew(void **state)
{
	struct ibv_qp *qp = armed_qp(IBV_QPT_RC);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	assert_int_equal(urxe_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	attr = query(qp);
	assert_int_equal(attr.path_mig_state, IBV_MIG_MIGRATED);
	assert_int_equal(attr.alt_port_num, 0);
	assert_null(to_qp(qp)->alternate);
	assert_int_equal(to_qp(qp)->proto.migreq, MIGREQ);
	assert_int_equal(urxe_destroy_qp(qp), 0);
}

static int setup(void)
{

	dev = lo_device();
	ctx = open_lo();
	pd = urxe_alloc_pd(ctx);
	cq = urxe_create_cq(ctx, 16, NULL, NULL, 0);
	mr = urxe_reg_mr_iova2(pd, memory, sizeof(memory), (uintptr_t)memory,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	own[0] = gid_of("::ffff:127.0.0.1");
	peer[0] = gid_of("::ffff:127.0.0.9");
	own[1] = peer[1] = gid_of("::1");
	return !pd || !cq || !mr;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_event_in_every_state),
		cmocka_unit_test(outgoing_packets_follow_the_state),
		cmocka_unit_test(only_the_peers_packets_arm),
		cmocka_unit_test(a_request_by_the_alternate_path_migrates),
		cmocka_unit_test(a_migration_request_from_elsewhere_is_dropped_and_reported),
		cmocka_unit_test(spent_retries_migrate_an_armed_qp),
		cmocka_unit_test(spent_retries_end_a_qp_that_is_not_armed),
		cmocka_unit_test(a_responder_that_migrates_tells_its_peer),
		cmocka_unit_test(uc_migrates_by_request),
		cmocka_unit_test(windows_balance_over_migrations),
		cmocka_unit_test(reset_begins_anew),
	};
	int ret;

	if (!own_host())
		return 0;
	ret = setup() ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
	urxe_close_device(ctx);
	return leave_host(ret);
}
