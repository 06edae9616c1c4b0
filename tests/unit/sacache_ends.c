/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Two ends of the reconnect procedure over a wire that delays and loses, hundreds of times with
 * random seeds. Whatever happens: an end has never two requests or connections at a time, and once
 * the wire is whole again both ends share one connection within the bound, and keep it. One thread,
 * whose time is the simulation's.
 *
 * The wire is a CM's: request, reply, ready to use, rejection, disconnection; and data with
 * acknowledgements, by which an end finds out that the other has left.
 */
#include "sacache_test.h"

#include "libsacache/reconnect.h"

#ifdef __SANITIZE_THREAD__
#define SEEDS 20 /* slow, and there is one thread here */
#else
#define SEEDS 500
#endif

enum {
	MIN = 5,
	MAX = 400,
	TIMEOUT = 250,
	LATENCY = 20, /* at most */
	BEAT = 30,
	SILENCE = 150, /* after which a connection is lost */
	/* What is wrong at the worst ends by a timeout; two draws then, a third if requests cross.
	 * */
	BOUND = SILENCE + TIMEOUT + 3 * MAX + 10 * LATENCY,
};

enum kind { REQUEST, REPLY, READY, REJECTED, CROSSED, BYE, DATA, ACK };

struct message {
	bool used;
	uint64_t when;
	unsigned to;
	enum kind kind;
	uint32_t connection;
};

struct end {
	unsigned self;
	struct sacache_reconnect *set;
	struct sacache_peer *peer;
	uint32_t connection; /* requested, accepted or up; 0: none */
	uint32_t attempt;
	bool mine; /* requested by this end */
	bool up;
	uint64_t beat, heard;
};

static struct end ends[2];
static struct message wire[256];
static uint64_t dice;
static unsigned loss; /* in 100 */
static uint32_t connections;
static unsigned ups;

static void put(unsigned to, enum kind kind, uint32_t connection)
{
	if (test_random(&dice) % 100 < loss)
		return;
	for (unsigned i = 0; i < 256; i++) {
		if (wire[i].used)
			continue;
		wire[i] = (struct message){.used = true,
					   .when = test_now + 1 + test_random(&dice) % LATENCY,
					   .to = to,
					   .kind = kind,
					   .connection = connection};
		return;
	}
	fail_msg("more messages than two ends should have");
}

static uint64_t end_clock(void *ctx)
{
	return test_now;
}

static int end_connect(void *ctx, void *user, uint32_t attempt, const struct sacache_path *path)
{
	struct end *end = user;

	assert_int_equal(end->connection, 0);
	end->connection = ++connections;
	end->attempt = attempt;
	end->mine = true;
	put(!end->self, REQUEST, end->connection);
	return 0;
}

static void end_abandon(void *ctx, void *user, uint32_t attempt)
{
	struct end *end = user;

	if (!end->connection)
		return;
	assert_int_equal(attempt, end->attempt);
	assert_false(end->up); /* down() came before */
	put(!end->self, BYE, end->connection);
	end->connection = 0;
}

static void end_up(void *ctx, void *user, uint32_t attempt)
{
	struct end *end = user;

	assert_false(end->up);
	assert_int_equal(attempt, end->attempt);
	assert_true(end->connection);
	end->up = true;
	end->heard = end->beat = test_now;
	ups++;
}

static void end_down(void *ctx, void *user, uint32_t attempt, int status)
{
	struct end *end = user;

	assert_true(end->up);
	assert_int_equal(attempt, end->attempt);
	end->up = false;
}

static const struct sacache_reconnect_ops end_ops = {
	.size = sizeof(end_ops),
	.clock = end_clock,
	.connect = end_connect,
	.abandon = end_abandon,
	.up = end_up,
	.down = end_down,
};

static void get_request(struct end *end, uint32_t connection)
{
	uint32_t attempt;

	if (sacache_peer_request(end->peer, 0, &attempt)) {
		put(!end->self, CROSSED, connection);
		return;
	}
	assert_int_equal(end->connection, 0);
	end->connection = connection;
	end->attempt = attempt;
	end->mine = false;
	put(!end->self, REPLY, connection);
}

static void receive(struct end *end, enum kind kind, uint32_t connection)
{
	bool known = end->connection == connection;

	if (kind == REQUEST) {
		get_request(end, connection);
	} else if (!known) {
		/* An end answers to what it does not know, or the other would believe in it for
		 * long. */
		if (kind == REPLY || kind == DATA)
			put(!end->self, BYE, connection);
	} else if (kind == REJECTED || kind == CROSSED || kind == BYE) {
		sacache_peer_failed(end->peer, end->attempt,
				    kind == CROSSED ? -EBUSY : -ECONNRESET);
	} else {
		end->heard = test_now;
		if (kind == DATA)
			put(!end->self, ACK, connection);
		if (!end->up && end->mine == (kind == REPLY)) {
			assert_int_equal(sacache_peer_connected(end->peer, end->attempt), 0);
			if (kind == REPLY)
				put(!end->self, READY, connection);
		}
	}
}

/* What an end does by itself at this moment. */
static void live(struct end *end)
{
	sacache_reconnect_run(end->set);
	if (!end->up)
		return;
	if (test_now - end->heard >= SILENCE) {
		sacache_peer_failed(end->peer, end->attempt, -ETIMEDOUT);
	} else if (test_now - end->beat >= BEAT) {
		end->beat = test_now;
		put(!end->self, DATA, end->connection);
	}
}

static void tick(void)
{
	test_now++;
	for (unsigned i = 0; i < 256; i++)
		if (wire[i].used && wire[i].when <= test_now) {
			struct message message = wire[i];

			wire[i].used = false;
			receive(&ends[message.to], message.kind, message.connection);
		}
	live(&ends[0]);
	live(&ends[1]);
}

static bool together(void)
{
	return ends[0].up && ends[1].up && ends[0].connection == ends[1].connection;
}

static void start(uint64_t seed)
{
	struct sacache_reconnect_attr attr;

	memset(wire, 0, sizeof(wire));
	memset(ends, 0, sizeof(ends));
	test_now = 1000;
	dice = seed * 0x9e3779b97f4a7c15ull | 1;
	loss = 0;
	connections = ups = 0;
	for (unsigned i = 0; i < 2; i++) {
		sacache_reconnect_attr_init(&attr, sizeof(attr));
		attr.backoff_min = MIN;
		attr.backoff_max = MAX;
		attr.timeout = TIMEOUT;
		attr.seed = 2 * seed + 1 + i;
		ends[i].self = i;
		assert_int_equal(
			sacache_reconnect_create(NULL, &attr, &end_ops, NULL, &ends[i].set), 0);
		assert_int_equal(sacache_peer_add(ends[i].set, &ends[i],
						  i ? SACACHE_SERVER : SACACHE_CLIENT, NULL,
						  &ends[i].peer),
				 0);
	}
}

static void stop(void)
{
	for (unsigned i = 0; i < 2; i++) {
		ends[i].up = false;
		sacache_reconnect_destroy(ends[i].set);
	}
}

/* A connection that was hurt before may still be lost within the bound. */
static void settle(uint64_t seed)
{
	for (unsigned i = 0; i < BOUND; i++)
		tick();
	if (!together())
		fail_msg("seed %llu: not connected after %u ms", (unsigned long long)seed, BOUND);
	for (unsigned before = ups, i = 0; i < 2 * SILENCE + TIMEOUT + MAX; i++) {
		tick();
		assert_true(together());
		assert_int_equal(ups, before);
	}
}

static void ends_come_together_after_any_losses(void **state)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		start(seed);
		for (unsigned phase = 0; phase < 3; phase++) {
			unsigned length = test_random(&dice) % 2000;

			loss = (unsigned[]){10, 40, 90, 100}[test_random(&dice) % 4];
			while (length--)
				tick();
		}
		loss = 0;
		settle(seed);
		stop();
	}
}

/* Both ends lose the connection at the same moment, as when a switch fails: their requests cross.
 * */
static void requests_that_cross_are_drawn_again(void **state)
{
	uint64_t crossed = 0;

	for (uint64_t seed = 1; seed <= SEEDS / 5; seed++) {
		struct sacache_reconnect_stats stats;

		start(seed);
		settle(seed);
		for (unsigned i = 0; i < 5; i++) {
			uint32_t attempts[] = {ends[0].attempt, ends[1].attempt};

			memset(wire, 0, sizeof(wire));
			loss = 100;
			for (unsigned e = 0; e < 2; e++)
				sacache_peer_failed(ends[e].peer, attempts[e], -ETIMEDOUT);
			loss = 0;
			settle(seed);
		}
		for (unsigned e = 0; e < 2; e++) {
			sacache_reconnect_stats(ends[e].set, &stats, sizeof(stats));
			crossed += stats.crossed;
		}
		stop();
	}
	assert_true(crossed > SEEDS / 5);
}

/* The same seed gives the same connections, at the same times. */
static void a_seed_repeats_what_happened(void **state)
{
	uint64_t times[2][3];

	for (unsigned turn = 0; turn < 2; turn++) {
		start(11);
		loss = 40;
		for (unsigned i = 0; i < 3; i++) {
			for (unsigned n = 0; n < 500; n++)
				tick();
			times[turn][i] = (uint64_t)connections << 32 | ups;
		}
		stop();
	}
	assert_memory_equal(times[0], times[1], sizeof(times[0]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ends_come_together_after_any_losses),
		cmocka_unit_test(requests_that_cross_are_drawn_again),
		cmocka_unit_test(a_seed_repeats_what_happened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
