/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Connections that are none: request, reply, ready to use and rejection are messages between two
 * ends in this process, each under way for a random time, and lost while the hub's link is down.
 * The paths that they need are real: the cache's, or the SA's.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "storm.h"

enum kind { REQUEST, REPLY, READY, CROSSED };

struct end {
	struct storm *storm;
	struct sacache_peer *peer;
	unsigned self;	     /* 2 * the connection's number, + 1 at the hub */
	uint32_t connection; /* requested, accepted or up; 0: none */
	uint32_t attempt;
	uint16_t lid; /* where its requests come from, by the path they take */
	bool mine;
	bool up;
};

struct message {
	double when;
	unsigned to;
	enum kind kind;
	uint32_t connection;
	uint16_t lid;
};

struct storm {
	const struct options *options;
	struct sacache_reconnect *set;
	struct end *ends;
	struct message *heap;
	unsigned messages, room;
	unsigned up; /* ends */
	uint32_t connections;
	uint64_t dice;
	bool link;
	int event;
};

static uint64_t dice(struct storm *storm)
{
	storm->dice ^= storm->dice << 13;
	storm->dice ^= storm->dice >> 7;
	storm->dice ^= storm->dice << 17;
	return storm->dice * 0x2545f4914f6cdd1dull >> 32;
}

/* The wire: messages in a heap, the next to arrive first. */

static void send_message(struct end *from, enum kind kind, uint32_t connection)
{
	struct storm *storm = from->storm;
	double delay = (200 + dice(storm) % 800) * 1e-6;
	unsigned at = storm->messages;

	if (!storm->link)
		return;
	if (storm->messages == storm->room) {
		storm->room = storm->room ? 2 * storm->room : 1024;
		storm->heap = realloc(storm->heap, storm->room * sizeof(struct message));
		if (!storm->heap)
			die("messages", -ENOMEM);
	}
	struct message message = {.when = seconds() + delay,
				  .to = from->self ^ 1,
				  .kind = kind,
				  .connection = connection,
				  .lid = from->lid};

	for (; at && storm->heap[(at - 1) / 2].when > message.when; at = (at - 1) / 2)
		storm->heap[at] = storm->heap[(at - 1) / 2];
	storm->heap[at] = message;
	storm->messages++;
}

static struct message next_message(struct storm *storm)
{
	struct message first = storm->heap[0], last = storm->heap[--storm->messages];
	unsigned at = 0, child;

	while ((child = 2 * at + 1) < storm->messages) {
		if (child + 1 < storm->messages &&
		    storm->heap[child + 1].when < storm->heap[child].when)
			child++;
		if (storm->heap[child].when >= last.when)
			break;
		storm->heap[at] = storm->heap[child];
		at = child;
	}
	storm->heap[at] = last;
	return first;
}

/* What the procedure asks for. */

static void wake(void *ctx)
{
	const struct storm *storm = ctx;
	uint64_t one = 1;

	if (write(storm->event, &one, sizeof(one)) < 0)
		return;
}

static int request(void *ctx, void *user, uint32_t attempt, const struct sacache_path *path)
{
	struct storm *storm = ctx;
	struct end *end = user;

	end->connection = ++storm->connections;
	end->attempt = attempt;
	end->lid = path->slid;
	end->mine = true;
	send_message(end, REQUEST, end->connection);
	return 0;
}

/* Whatever the other end believes, it finds out by its timeout or by the next request. */
static void abandon(void *ctx, void *user, uint32_t attempt)
{
	struct end *end = user;

	end->connection = 0;
}

static void up(void *ctx, void *user, uint32_t attempt)
{
	((struct end *)user)->up = true;
	((struct storm *)ctx)->up++;
}

static void down(void *ctx, void *user, uint32_t attempt, int status)
{
	((struct end *)user)->up = false;
	((struct storm *)ctx)->up--;
}

static const struct sacache_reconnect_ops procedure = {
	.size = sizeof(procedure),
	.wake = wake,
	.connect = request,
	.abandon = abandon,
	.up = up,
	.down = down,
};

static void receive(struct storm *storm, const struct message *message)
{
	struct end *end = &storm->ends[message->to];
	uint32_t attempt;

	if (message->kind == REQUEST) {
		if (sacache_peer_request(end->peer, message->lid, &attempt)) {
			send_message(end, CROSSED, message->connection);
			return;
		}
		end->connection = message->connection;
		end->attempt = attempt;
		end->mine = false;
		send_message(end, REPLY, end->connection);
	} else if (end->connection != message->connection) {
		return;
	} else if (message->kind == CROSSED) {
		sacache_peer_failed(end->peer, end->attempt, -EBUSY);
	} else if (!end->up && end->mine == (message->kind == REPLY)) {
		if (!sacache_peer_connected(end->peer, end->attempt) && end->mine)
			send_message(end, READY, end->connection);
	}
}

/* Does what is due, and waits for the next thing to happen, a millisecond at most. */
static void turn(struct storm *storm)
{
	struct pollfd event = {.fd = storm->event, .events = POLLIN};
	struct timespec wait = {.tv_nsec = 1000000};
	uint64_t count;
	double now;

	if (read(storm->event, &count, sizeof(count)) < 0 && errno != EAGAIN)
		die("eventfd", -errno);
	sacache_reconnect_run(storm->set);
	now = seconds();
	while (storm->messages && storm->heap[0].when <= now) {
		struct message message = next_message(storm);

		receive(storm, &message);
	}
	if (storm->messages && storm->heap[0].when < now + 1e-3)
		wait.tv_nsec = (long)((storm->heap[0].when - now) * 1e9);
	ppoll(&event, 1, &wait, NULL);
}

/* An end whose peer never got ready would be up alone: traffic would tell it; here it is looked up.
 * */
static void meet(struct storm *storm)
{
	double began = seconds();

	while (storm->up != 2 * storm->options->peers) {
		turn(storm);
		if (seconds() - began > 300)
			die("not all are connected after 300 s", -ETIMEDOUT);
	}
	for (unsigned i = 0; i < 2 * storm->options->peers; i += 2)
		if (storm->ends[i].connection != storm->ends[i + 1].connection)
			die("two ends have different connections", -EPROTO);
}

static void turn_for(struct storm *storm, unsigned ms)
{
	double until = seconds() + ms / 1e3;

	while (seconds() < until)
		turn(storm);
}

/* Runs a command of the user's while the storm goes on. The simulator's preload is not for it. */
static void command(struct storm *storm, const char *line)
{
	int status;
	pid_t child;

	if (!line)
		return;
	child = fork();
	if (!child) {
		unsetenv("LD_PRELOAD");
		execl("/bin/sh", "sh", "-c", line, (char *)NULL);
		_exit(127);
	}
	if (child < 0)
		die("fork", -errno);
	while (!waitpid(child, &status, WNOHANG))
		turn(storm);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		die(line, -ECHILD);
}

/* The link goes down and takes all connections with it. Then it comes back. */
static void lose_link(struct storm *storm)
{
	storm->link = false;
	storm->messages = 0;
	for (unsigned i = 0; i < 2 * storm->options->peers; i++) {
		struct end *end = &storm->ends[i];

		if (end->connection)
			sacache_peer_failed(end->peer, end->attempt, -ENETDOWN);
	}
	command(storm, storm->options->link_down);
	turn_for(storm, storm->options->down);
	command(storm, storm->options->link_up);
	storm->link = true;
}

static struct sacache_key key_of(const struct options *options, unsigned end, unsigned port)
{
	struct sacache_key key = {.mask = SACACHE_DGID | SACACHE_SGID, .port = port};
	const uint8_t *peer = options->gids[end / 2], *hub = options->gids[options->ngids - 1];

	memcpy(key.sgid, end % 2 ? hub : peer, 16);
	memcpy(key.dgid, end % 2 ? peer : hub, 16);
	return key;
}

static void start(struct storm *storm, struct sacache *cache, unsigned port)
{
	const struct options *options = storm->options;
	struct sacache_reconnect_attr attr;
	int ret;

	storm->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	storm->ends = calloc(2 * options->peers, sizeof(*storm->ends));
	if (storm->event < 0 || !storm->ends)
		die("storm", -ENOMEM);
	set_reconnect(options, &attr);
	ret = sacache_reconnect_create(cache, &attr, &procedure, storm, &storm->set);
	for (unsigned i = 0; !ret && i < 2 * options->peers; i++) {
		struct sacache_key key = key_of(options, i, port);
		struct end *end = &storm->ends[i];

		end->storm = storm;
		end->self = i;
		ret = sacache_peer_add(storm->set, end, i % 2 ? SACACHE_SERVER : SACACHE_CLIENT,
				       &key, &end->peer);
	}
	if (ret)
		die("peers", ret);
}

/*
 * The ends that accepted look their way back up while the link is there: once it is lost, the SA
 * may deny it, and what was denied is not in the table.
 */
static void learn(const struct options *options, struct sacache *cache, unsigned port)
{
	if (!sacache_caching(cache, port))
		return;
	for (unsigned i = 0; i < 2 * options->peers; i++) {
		struct sacache_key key = key_of(options, i, port);
		struct sacache_path path;
		int ret = sacache_resolve(cache, &key, &path, 10000);

		if (ret)
			die("a path while the link is there", ret);
	}
}

void storm_simulated(const struct options *options, struct sacache *cache, unsigned port,
		     struct result *result)
{
	struct storm storm = {.options = options, .dice = options->seed | 1, .link = true};
	double began = seconds();

	start(&storm, cache, port);
	meet(&storm);
	result->first = seconds() - began;
	learn(options, cache, port);
	for (unsigned round = 0; round < options->rounds; round++) {
		double took;

		lose_link(&storm);
		began = seconds();
		meet(&storm);
		took = seconds() - began;
		result->total += took;
		if (took > result->longest)
			result->longest = took;
	}
	sacache_reconnect_stats(storm.set, &result->stats, sizeof(result->stats));
	result->attempts = result->stats.requests + result->stats.no_path;
	sacache_reconnect_destroy(storm.set);
	close(storm.event);
	free(storm.ends);
	free(storm.heap);
}
