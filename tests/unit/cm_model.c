// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Two communication managers in one process over a wire that loses, repeats, delays and reorders,
 * with a clock of its own. Consumers connect, accept, refuse, disconnect and destroy as a seed has
 * it. When all has been quiet for long enough the two must agree: each connection established at
 * both ends, or at neither; and each consumer has been told, once, how it began and how it ended.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cm/connection_private.h"

#define MS 1000000ull
#ifdef __SANITIZE_THREAD__
#define SEEDS 200 /* there is one thread; the sanitizer only makes it slow */
#else
#define SEEDS 1200
#endif
#define IDS	  24
#define IN_FLIGHT 4096
#define SERVICE	  0x0000000001060001ull
#define TIMEOUT	  13 /* 33 ms */
#define RETRIES	  15

/* A consumer's view of one connection. */
struct end {
	struct host *host, *peer;
	struct urxe_cm_id *id;
	bool used, active, established, ended, destroyed;
	unsigned outcomes; /* events that say that it is established, or will never be */
	uint32_t peer_qpn; /* 24 bits: names the end on the other host */
	uint64_t act_at;   /* the consumer does something then; 0: nothing */
};

struct host {
	struct urxe_cm *cm;
	struct urxe_device dev;
	struct urxe_port port;
	struct in6_addr addr;
	struct end ends[2 * IDS];
	unsigned num_ends;
};

struct packet {
	uint64_t due;
	struct host *to;
	struct in6_addr from;
	uint8_t mad[URXE_MAD_SIZE];
};

static struct host hosts[2];
static struct packet wire[IN_FLIGHT];
static unsigned in_flight;
static uint64_t now, lost_until, rng;
static unsigned loss; /* of 100 */

static unsigned chance(unsigned n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (rng >> 11) % n;
}

static void put(struct host *to, const struct in6_addr *from, const uint8_t *mad)
{
	struct packet *p = &wire[in_flight];

	assert_true(in_flight < IN_FLIGHT);
	in_flight++;
	p->due = now + MS / 10 + chance(now < lost_until ? 40 * MS : MS);
	p->to = to;
	p->from = *from;
	memcpy(p->mad, mad, URXE_MAD_SIZE);
}

static struct host *host_of(const struct urxe_cm *cm)
{
	return &hosts[cm == hosts[1].cm];
}

static int send_mad(struct urxe_cm *cm, const struct urxe_path *path, uint16_t pkey,
		    const uint8_t mad[URXE_MAD_SIZE])
{
	struct host *from = host_of(cm);

	for (unsigned h = 0; h < 2; h++) {
		if (!IN6_ARE_ADDR_EQUAL(&hosts[h].addr, &path->dst.gid))
			continue;
		if (now < lost_until && chance(100) < loss)
			return 0;
		put(&hosts[h], &from->addr, mad);
		if (now < lost_until && chance(100) < 15)
			put(&hosts[h], &from->addr, mad);
		return 0;
	}
	fail_msg("a message to nowhere");
	return 0;
}

static void *listener_of(struct urxe_cm *cm, const struct urxe_cm_event *event)
{
	struct host *host = host_of(cm);

	return event->type == URXE_CM_REQ_RECEIVED && event->service_id == SERVICE ? host : NULL;
}

static int on_event(struct urxe_cm_id *id, const struct urxe_cm_event *event);

static const struct urxe_cm_ops ops = {
	.send = send_mad, .listener = listener_of, .request = on_event};

static uint32_t qpn_of(const struct end *end)
{
	return 0x1000 + (end - end->host->ends);
}

static struct end *new_end(struct host *host)
{
	struct end *end;

	if (host->num_ends == 2 * IDS)
		return NULL;
	end = &host->ends[host->num_ends++];
	end->host = host;
	end->used = true;
	return end;
}

static void over(struct end *end)
{
	assert_false(end->ended);
	end->ended = true;
	end->act_at = 0;
	if (!end->established)
		end->outcomes++;
}

static void begun(struct end *end)
{
	assert_false(end->established);
	assert_false(end->ended);
	end->established = true;
	end->outcomes++;
	/* Half of the connections stay. */
	if (chance(2))
		end->act_at = now + 1 + chance(300 * MS);
}

static int on_request(struct urxe_cm_id *id, const struct urxe_cm_event *event)
{
	struct end *end = new_end(host_of(id->cm));

	if (!end)
		return -ENOMEM;
	if (chance(10) == 0) {
		end->used = false;
		return -ECONNREFUSED;
	}
	end->id = id;
	end->peer =
		IN6_ARE_ADDR_EQUAL(&event->path.av.dst.gid, &hosts[0].addr) ? &hosts[0] : &hosts[1];
	end->peer_qpn = event->remote_qpn;
	urxe_cm_id_set(id, id->handler, end);
	end->act_at = now + 1 + chance(100 * MS);
	return 0;
}

static int on_event(struct urxe_cm_id *id, const struct urxe_cm_event *event)
{
	struct end *end = urxe_cm_id_context(id);

	if (event->type == URXE_CM_REQ_RECEIVED)
		return on_request(id, event);
	assert_ptr_equal(end->id, id);
	switch (event->type) {
	case URXE_CM_REP_RECEIVED:
		end->peer_qpn = event->remote_qpn;
		end->act_at = now + 1 + chance(60 * MS);
		break;
	case URXE_CM_RTU_RECEIVED:
	case URXE_CM_USER_ESTABLISHED: begun(end); break;
	case URXE_CM_REQ_ERROR:
	case URXE_CM_REP_ERROR: over(end); break;
	case URXE_CM_REJ_RECEIVED:
		/* An answer to the DREQ too, when the peer knows of no connection. */
		if (!end->ended)
			over(end);
		break;
	case URXE_CM_DREQ_RECEIVED:
		if (!end->ended)
			over(end);
		assert_int_equal(urxe_cm_send_drep(id, now), 0);
		break;
	case URXE_CM_DREQ_ERROR:
	case URXE_CM_DREP_RECEIVED:
		if (!end->ended)
			over(end);
		break;
	default: break;
	}
	return 0;
}

static void connect_to(struct host *from, struct host *to)
{
	struct urxe_cm_path path = {
		.av = {.src.gid = from->addr, .dst.gid = to->addr, .port = from->port.index},
		.pkey = 0xffff,
		.mtu = IBV_MTU_1024,
		.packet_life_time = 12,
	};
	struct urxe_cm_msg req = {
		.attr = URXE_CM_REQ,
		.req = {.service_id = SERVICE,
			.remote_cm_response_timeout = TIMEOUT,
			.local_cm_response_timeout = TIMEOUT,
			.max_cm_retries = RETRIES},
	};
	struct end *end = new_end(from);

	if (!end)
		return;
	end->active = true;
	end->peer = to;
	req.req.local_qpn = qpn_of(end);
	assert_int_equal(urxe_cm_id_create(from->cm, on_event, end, &end->id), 0);
	assert_int_equal(urxe_cm_send_req(end->id, &path, IBV_QPT_RC, &req, now), 0);
	if (chance(8) == 0)
		end->act_at = now + 1 + chance(200 * MS); /* and loses patience */
}

static void destroy(struct end *end)
{
	urxe_cm_id_destroy(end->id);
	end->id = NULL;
	end->destroyed = true;
	end->ended = true;
	end->act_at = 0;
}

/* What a consumer does when its time has come, in the state that it finds. */
static void act(struct end *end)
{
	struct urxe_cm_msg rep = {.attr = URXE_CM_REP, .rep.local_qpn = qpn_of(end)};

	end->act_at = 0;
	if (chance(12) == 0) {
		destroy(end);
		return;
	}
	switch (end->id->state) {
	case URXE_CM_REQ_SENT:
	case URXE_CM_MRA_REQ_RCVD: destroy(end); break;
	case URXE_CM_REQ_RCVD:
		if (chance(4) == 0) {
			assert_int_equal(urxe_cm_send_mra(end->id, TIMEOUT + 3), 0);
			end->act_at = now + 1 + chance(150 * MS);
			break;
		} /* fall through */
	case URXE_CM_MRA_REQ_SENT:
		assert_int_equal(urxe_cm_send_rep(end->id, &rep, now), 0);
		if (chance(6) == 0)
			end->act_at = now + 1 + chance(50 * MS); /* data comes before the RTU */
		break;
	case URXE_CM_REP_SENT:
	case URXE_CM_MRA_REP_RCVD:
		/* Only if the peer is connected has it sent data. */
		if (end->peer->ends[end->peer_qpn - 0x1000].established)
			assert_int_equal(urxe_cm_notify_established(end->id, now), 0);
		break;
	case URXE_CM_REP_RCVD:
		if (chance(6) == 0) {
			assert_int_equal(urxe_cm_send_mra(end->id, TIMEOUT + 3), 0);
			end->act_at = now + 1 + chance(150 * MS);
			break;
		} /* fall through */
	case URXE_CM_MRA_REP_SENT:
		if (chance(10) == 0) {
			assert_int_equal(urxe_cm_send_rej(end->id, URXE_CM_REJ_CONSUMER_DEFINED,
							  NULL, 0, now),
					 0);
			over(end);
			break;
		}
		assert_int_equal(urxe_cm_send_rtu(end->id), 0);
		begun(end);
		break;
	case URXE_CM_ESTABLISHED:
		if (chance(3) == 0) {
			destroy(end);
			break;
		}
		assert_int_equal(urxe_cm_send_dreq(end->id, now), 0);
		over(end);
		break;
	default: break;
	}
}

static void deliver(struct packet *p)
{
	struct urxe_path path = {
		.src.gid = p->from, .dst.gid = p->to->addr, .port = p->to->port.index};
	struct urxe_cm_rx rx = {
		.mad = p->mad,
		.path = &path,
		.src_qpn = 1,
		.pkey = 0xffff,
	};

	urxe_cm_receive(p->to->cm, &rx, now);
}

static void step(void)
{
	now += MS;
	for (unsigned i = 0; i < in_flight;) {
		struct packet p = wire[i];

		if (p.due > now) {
			i++;
			continue;
		}
		wire[i] = wire[--in_flight];
		deliver(&p);
	}
	for (unsigned h = 0; h < 2; h++) {
		if (urxe_cm_deadline(hosts[h].cm) <= now)
			urxe_cm_run(hosts[h].cm, now);
		for (unsigned e = 0; e < hosts[h].num_ends; e++) {
			struct end *end = &hosts[h].ends[e];

			if (end->used && end->act_at && end->act_at <= now && end->id)
				act(end);
		}
	}
}

static void open_hosts(unsigned seed)
{
	memset(hosts, 0, sizeof(hosts));
	in_flight = 0;
	now = 1000 * MS;
	rng = 0x9e3779b97f4a7c15ull * (seed + 1);
	loss = seed % 4 * 10;
	lost_until = now + 2000 * MS;
	for (unsigned h = 0; h < 2; h++) {
		struct urxe_cm_config config = {
			.ops = &ops,
			.slot = h,
			.now = now,
			.seed = {rng + h, rng ^ h},
		};

		memset(&hosts[h].addr.s6_addr[10], 0xff, 2);
		hosts[h].addr.s6_addr[12] = 127;
		hosts[h].addr.s6_addr[15] = h + 1;
		hosts[h].dev.guid = htobe64(0x1000 + h);
		hosts[h].dev.num_ports = 1;
		hosts[h].dev.ports = &hosts[h].port;
		hosts[h].port.dev = &hosts[h].dev;
		hosts[h].port.kind = &urxe_netdev_port;
		hosts[h].port.index = h;
		urxe_ports_add(&hosts[h].dev);
		assert_int_equal(urxe_cm_create(&hosts[h].cm, &config), 0);
	}
}

/* Whether one end holds an established connection, and the peer's end that it is with. */
static bool holds(const struct end *end)
{
	return end->used && end->id && end->id->state == URXE_CM_ESTABLISHED;
}

static void check_agreement(unsigned seed)
{
	for (unsigned h = 0; h < 2; h++) {
		for (unsigned e = 0; e < hosts[h].num_ends; e++) {
			const struct end *end = &hosts[h].ends[e], *peer;

			if (!end->used)
				continue;
			if (!end->destroyed && end->outcomes != 1)
				fail_msg("seed %u: end %u.%u was told %u outcomes", seed, h, e,
					 end->outcomes);
			if (end->id && !holds(end) && end->id->state != URXE_CM_IDLE)
				fail_msg("seed %u: end %u.%u stays in state %d", seed, h, e,
					 end->id->state);
			if (end->established && !holds(end) && !end->ended)
				fail_msg("seed %u: end %u.%u was not told its end", seed, h, e);
			if (!holds(end))
				continue;
			peer = &end->peer->ends[end->peer_qpn - 0x1000];
			if (!holds(peer) || peer->peer_qpn != qpn_of(end))
				fail_msg("seed %u: end %u.%u is alone", seed, h, e);
		}
	}
}

static void run_seed(unsigned seed, unsigned *kept)
{
	unsigned left = IDS;

	open_hosts(seed);
	while (left || now < lost_until) {
		if (left && chance(20) == 0) {
			unsigned from = chance(2);

			/* now and then to itself, and now and then both at once */
			connect_to(&hosts[from], &hosts[chance(5) ? !from : from]);
			if (chance(3) == 0)
				connect_to(&hosts[!from], &hosts[from]);
			left--;
		}
		step();
	}
	for (unsigned i = 0; i < 6000; i++)
		step();
	check_agreement(seed);
	for (unsigned h = 0; h < 2; h++) {
		for (unsigned e = 0; e < hosts[h].num_ends; e++)
			*kept += holds(&hosts[h].ends[e]);
	}
	for (unsigned h = 0; h < 2; h++)
		urxe_cm_destroy(hosts[h].cm);
}

static void test_they_agree_in_the_end(void **state)
{
	unsigned kept = 0;

	for (unsigned seed = 0; seed < SEEDS; seed++)
		run_seed(seed, &kept);
	/* or it would have shown nothing */
	assert_true(kept > SEEDS * IDS / 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_they_agree_in_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
