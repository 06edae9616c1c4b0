/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The reconnect procedure; reconnect.h has the picture and the rules.
 *
 * Everything here runs in the owner's thread, except answer_came(), which a port of the
 * cache calls: it puts the answer into the inbox, whose lock is the only one here, and wakes
 * the owner. An answer may arrive after its peer, or the whole set, was destroyed: the last
 * user frees the shared data.
 *
 * Deadlines of peers are in a heap, the nearest first; a peer has at most one.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "common/sized.h"
#include "libsacache/cache.h"
#include "libsacache/random.h"
#include "libsacache/reconnect.h"

#define NOT_ARMED UINT32_MAX

struct answer {
	struct answer *next;
	struct inbox *inbox;
	struct sacache_peer *peer; /* inbox->lock; NULL: its peer no longer waits for it */
	int status;
	struct sacache_path path;
};

struct inbox {
	pthread_mutex_t lock;
	unsigned refs; /* the set's, and one for each pending answer */
	struct answer *came;
	void (*wake)(void *ctx);
	void *ctx;
};

struct sacache_peer {
	struct sacache_reconnect *set;
	struct sacache_peer *next, **link;
	void *user;
	enum sacache_role role;
	enum sacache_peer_state state;
	bool met;	/* a connection was established before */
	bool path_used; /* the path of this attempt came from the cache */
	unsigned tries; /* failed tries since a connection was up */
	uint32_t attempt;
	uint16_t dlid; /* of the accepted request; 0: not known */
	struct sacache_key key;
	struct answer *answer; /* the pending query's */
	uint64_t deadline;
	uint32_t place; /* in the heap */
};

struct sacache_reconnect {
	struct sacache *cache;
	struct sacache_reconnect_attr attr;
	struct sacache_reconnect_ops ops;
	void *ctx;
	struct inbox *inbox;
	uint64_t random;
	struct sacache_peer *peers;
	struct sacache_peer **heap;
	uint32_t armed, room, count;
	struct sacache_reconnect_stats stats;
};

static uint64_t now(struct sacache_reconnect *set)
{
	return set->ops.clock ? set->ops.clock(set->ctx) : sa_clock_ms();
}

/* The heap. */

static void place(struct sacache_reconnect *set, uint32_t at, struct sacache_peer *peer)
{
	set->heap[at] = peer;
	peer->place = at;
}

static void sift_up(struct sacache_reconnect *set, uint32_t at, struct sacache_peer *peer)
{
	while (at && set->heap[(at - 1) / 2]->deadline > peer->deadline) {
		place(set, at, set->heap[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	place(set, at, peer);
}

static void sift_down(struct sacache_reconnect *set, uint32_t at, struct sacache_peer *peer)
{
	for (uint32_t child; (child = 2 * at + 1) < set->armed; at = child) {
		if (child + 1 < set->armed &&
		    set->heap[child + 1]->deadline < set->heap[child]->deadline)
			child++;
		if (set->heap[child]->deadline >= peer->deadline)
			break;
		place(set, at, set->heap[child]);
	}
	place(set, at, peer);
}

static void disarm(struct sacache_peer *peer)
{
	struct sacache_reconnect *set = peer->set;
	struct sacache_peer *last;
	uint32_t at = peer->place;

	if (at == NOT_ARMED)
		return;
	peer->place = NOT_ARMED;
	last = set->heap[--set->armed];
	if (last == peer)
		return;
	if (at && set->heap[(at - 1) / 2]->deadline > last->deadline)
		sift_up(set, at, last);
	else
		sift_down(set, at, last);
}

/* sacache_peer_add() has made room. */
static void arm(struct sacache_peer *peer, uint64_t deadline)
{
	disarm(peer);
	peer->deadline = deadline;
	sift_up(peer->set, peer->set->armed++, peer);
}

/* Answers of the SA. */

static void inbox_put(struct inbox *inbox)
{
	bool last;

	pthread_mutex_lock(&inbox->lock);
	last = !--inbox->refs;
	pthread_mutex_unlock(&inbox->lock);
	if (last) {
		pthread_mutex_destroy(&inbox->lock);
		free(inbox);
	}
}

static void answer_free(struct answer *answer)
{
	inbox_put(answer->inbox);
	free(answer);
}

static void answer_came(void *arg, int status, const struct sacache_path *path)
{
	struct answer *answer = arg;
	struct inbox *inbox = answer->inbox;
	bool awaited;

	pthread_mutex_lock(&inbox->lock);
	awaited = answer->peer;
	if (awaited) {
		answer->status = status;
		if (path)
			answer->path = *path;
		answer->next = inbox->came;
		inbox->came = answer;
		inbox->wake(inbox->ctx);
	}
	pthread_mutex_unlock(&inbox->lock);
	if (!awaited)
		answer_free(answer);
}

/* sacache_reconnect_run() finds an answer that has already arrived without a peer. */
static void forget_answer(struct sacache_peer *peer)
{
	if (!peer->answer)
		return;
	pthread_mutex_lock(&peer->set->inbox->lock);
	peer->answer->peer = NULL;
	pthread_mutex_unlock(&peer->set->inbox->lock);
	peer->answer = NULL;
}

static struct answer *answers_take(struct inbox *inbox)
{
	struct answer *came;

	pthread_mutex_lock(&inbox->lock);
	came = inbox->came;
	inbox->came = NULL;
	pthread_mutex_unlock(&inbox->lock);
	return came;
}

/* Attempts. */

static uint64_t draw(struct sacache_peer *peer)
{
	struct sacache_reconnect *set = peer->set;
	uint64_t least = set->attr.backoff_min, most = set->attr.backoff_max;
	uint64_t limit = peer->tries < 31 ? least << (peer->tries + 1) : most;

	if (limit > most)
		limit = most;
	return least + sa_random(&set->random) % (limit - least + 1);
}

static void retreat(struct sacache_peer *peer)
{
	disarm(peer);
	if (peer->role == SACACHE_SERVER && !peer->met) {
		peer->state = SACACHE_PEER_IDLE;
		return;
	}
	arm(peer, now(peer->set) + draw(peer));
	peer->tries++;
	peer->state = SACACHE_PEER_WAITING;
}

static void report_failed(struct sacache_peer *peer)
{
	if (peer->set->cache && peer->key.mask)
		sacache_failed(peer->set->cache, &peer->key);
}

/* Callbacks come last: they may start something else. */
static void fail(struct sacache_peer *peer, int status)
{
	const struct sacache_reconnect_ops *ops = &peer->set->ops;
	enum sacache_peer_state was = peer->state;
	uint32_t attempt = peer->attempt;

	forget_answer(peer);
	if (was == SACACHE_PEER_UP)
		peer->set->stats.lost++;
	else
		peer->set->stats.failed++;
	if (was == SACACHE_PEER_UP ||
	    (was == SACACHE_PEER_CONNECTING && peer->path_used && status != -EBUSY))
		report_failed(peer);
	retreat(peer);
	if (was == SACACHE_PEER_UP && ops->down)
		ops->down(peer->set->ctx, peer->user, attempt, status);
	ops->abandon(peer->set->ctx, peer->user, attempt);
}

static void request(struct sacache_peer *peer, const struct sacache_path *path)
{
	struct sacache_reconnect *set = peer->set;
	int ret;

	peer->state = SACACHE_PEER_CONNECTING;
	peer->path_used = path;
	arm(peer, now(set) + set->attr.timeout);
	set->stats.requests++;
	ret = set->ops.connect(set->ctx, peer->user, peer->attempt, path);
	if (ret)
		fail(peer, ret);
}

static void path_known(struct sacache_peer *peer, int status, const struct sacache_path *path)
{
	if (!status) {
		request(peer, path);
		return;
	}
	peer->set->stats.no_path++;
	fail(peer, status);
}

/* The SA client's own timers end a query: no deadline beside them. */
static void ask(struct sacache_peer *peer)
{
	struct sacache_reconnect *set = peer->set;
	struct answer *answer = calloc(1, sizeof(*answer));
	struct sacache_path path;
	int ret;

	peer->state = SACACHE_PEER_ASKING;
	disarm(peer);
	if (!answer) {
		path_known(peer, -ENOMEM, NULL);
		return;
	}
	answer->inbox = set->inbox;
	answer->peer = peer;
	peer->answer = answer;
	pthread_mutex_lock(&set->inbox->lock);
	set->inbox->refs++;
	pthread_mutex_unlock(&set->inbox->lock);
	ret = sacache_query(set->cache, &peer->key, &path, answer_came, answer);
	if (ret == -EINPROGRESS)
		return;
	peer->answer = NULL;
	answer_free(answer);
	path_known(peer, ret, &path);
}

static void resolved(struct sacache_peer *peer, int status, const struct sacache_key *key)
{
	if (status) {
		fail(peer, status);
		return;
	}
	peer->key = *key;
	if (peer->set->cache && peer->key.mask)
		ask(peer);
	else
		request(peer, NULL);
}

static void begin(struct sacache_peer *peer)
{
	struct sacache_reconnect *set = peer->set;
	struct sacache_key key = peer->key;
	int ret = 0;

	peer->state = SACACHE_PEER_RESOLVING;
	peer->attempt++;
	set->stats.attempts++;
	arm(peer, now(set) + set->attr.timeout);
	if (set->ops.resolve)
		ret = set->ops.resolve(set->ctx, peer->user, peer->attempt, &key);
	if (ret != -EINPROGRESS)
		resolved(peer, ret, &key);
}

static void expire(struct sacache_peer *peer)
{
	if (peer->state == SACACHE_PEER_WAITING) {
		begin(peer);
		return;
	}
	peer->set->stats.timeouts++;
	fail(peer, -ETIMEDOUT);
}

/* The owner's calls. */

void sacache_peer_resolved(struct sacache_peer *peer, uint32_t attempt, int status,
			   const struct sacache_key *key)
{
	static const struct sacache_key none;

	if (peer->attempt == attempt && peer->state == SACACHE_PEER_RESOLVING)
		resolved(peer, status, key ? key : &none);
}

int sacache_peer_request(struct sacache_peer *peer, uint16_t dlid, uint32_t *attempt)
{
	struct sacache_reconnect *set = peer->set;
	enum sacache_peer_state was = peer->state;
	uint32_t before = peer->attempt;

	if (was == SACACHE_PEER_CONNECTING) {
		set->stats.crossed++;
		return -EBUSY;
	}
	forget_answer(peer);
	peer->state = SACACHE_PEER_ACCEPTING;
	peer->dlid = dlid;
	*attempt = ++peer->attempt;
	arm(peer, now(set) + set->attr.timeout);
	set->stats.accepted++;
	if (was == SACACHE_PEER_UP) {
		set->stats.lost++;
		if (set->ops.down)
			set->ops.down(set->ctx, peer->user, before, -ECONNRESET);
	}
	if (was != SACACHE_PEER_IDLE && was != SACACHE_PEER_WAITING)
		set->ops.abandon(set->ctx, peer->user, before);
	return 0;
}

/* The record is right if it was used, or has the LID that the peer's request came from. */
static void report_connected(struct sacache_peer *peer)
{
	struct sacache *cache = peer->set->cache;
	struct sacache_path path;

	if (!cache || !peer->key.mask)
		return;
	if (peer->state == SACACHE_PEER_CONNECTING) {
		if (peer->path_used)
			sacache_connected(cache, &peer->key);
	} else if (peer->dlid && !sacache_lookup(cache, &peer->key, &path)) {
		if (path.dlid == peer->dlid)
			sacache_connected(cache, &peer->key);
		else
			sacache_event(cache, peer->key.port, SACACHE_LID_CHANGE, path.dgid);
	}
}

int sacache_peer_connected(struct sacache_peer *peer, uint32_t attempt)
{
	struct sacache_reconnect *set = peer->set;

	if (peer->attempt != attempt ||
	    (peer->state != SACACHE_PEER_CONNECTING && peer->state != SACACHE_PEER_ACCEPTING))
		return -ESTALE;
	report_connected(peer);
	disarm(peer);
	peer->state = SACACHE_PEER_UP;
	peer->met = true;
	peer->tries = 0;
	set->stats.up++;
	if (set->ops.up)
		set->ops.up(set->ctx, peer->user, attempt);
	return 0;
}

void sacache_peer_failed(struct sacache_peer *peer, uint32_t attempt, int status)
{
	if (peer->attempt == attempt && peer->state != SACACHE_PEER_IDLE &&
	    peer->state != SACACHE_PEER_WAITING)
		fail(peer, status);
}

enum sacache_peer_state sacache_peer_state(const struct sacache_peer *peer)
{
	return peer->state;
}

static int make_room(struct sacache_reconnect *set)
{
	uint32_t room = set->room ? 2 * set->room : 16;
	struct sacache_peer **heap;

	if (set->count < set->room)
		return 0;
	heap = realloc(set->heap, room * sizeof(struct sacache_peer *));
	if (!heap)
		return -ENOMEM;
	set->heap = heap;
	set->room = room;
	return 0;
}

int sacache_peer_add(struct sacache_reconnect *set, void *user, enum sacache_role role,
		     const struct sacache_key *key, struct sacache_peer **out)
{
	struct sacache_peer *peer = make_room(set) ? NULL : calloc(1, sizeof(*peer));

	if (!peer)
		return -ENOMEM;
	peer->set = set;
	peer->user = user;
	peer->role = role;
	if (key)
		peer->key = *key;
	peer->place = NOT_ARMED;
	peer->next = set->peers;
	peer->link = &set->peers;
	if (peer->next)
		peer->next->link = &peer->next;
	set->peers = peer;
	set->count++;
	if (role == SACACHE_CLIENT) {
		peer->state = SACACHE_PEER_WAITING;
		arm(peer, now(set));
	}
	*out = peer;
	return 0;
}

void sacache_peer_remove(struct sacache_peer *peer)
{
	struct sacache_reconnect *set = peer->set;

	forget_answer(peer);
	disarm(peer);
	if (peer->state != SACACHE_PEER_IDLE && peer->state != SACACHE_PEER_WAITING)
		set->ops.abandon(set->ctx, peer->user, peer->attempt);
	*peer->link = peer->next;
	if (peer->next)
		peer->next->link = peer->link;
	set->count--;
	free(peer);
}

uint64_t sacache_reconnect_deadline(const struct sacache_reconnect *set)
{
	return set->armed ? set->heap[0]->deadline : UINT64_MAX;
}

uint64_t sacache_reconnect_run(struct sacache_reconnect *set)
{
	struct answer *answer = answers_take(set->inbox), *next;
	uint64_t time = now(set);

	for (; answer; answer = next) {
		struct sacache_peer *peer = answer->peer;

		next = answer->next;
		if (peer) {
			peer->answer = NULL;
			path_known(peer, answer->status, &answer->path);
		}
		answer_free(answer);
	}
	/* Deadlines that are set to this very moment meanwhile run the next time. */
	for (uint32_t i = set->armed; i && set->armed && set->heap[0]->deadline <= time; i--)
		expire(set->heap[0]);
	return sacache_reconnect_deadline(set);
}

void sacache_reconnect_stats(const struct sacache_reconnect *set,
			     struct sacache_reconnect_stats *stats, size_t size)
{
	copy_out(stats, size, &set->stats, sizeof(set->stats));
}

static const struct sacache_reconnect_attr defaults = {
	.size = sizeof(defaults),
	.backoff_min = 100,
	.backoff_max = 10000,
	.timeout = 5000,
};

void sacache_reconnect_attr_init(struct sacache_reconnect_attr *attr, size_t size)
{
	copy_defaults(attr, size, &defaults, sizeof(defaults));
}

static bool attr_valid(const struct sacache_reconnect_attr *attr)
{
	return attr->backoff_min && attr->backoff_min <= attr->backoff_max &&
	       attr->backoff_max <= 3600000 && attr->timeout && attr->timeout <= 3600000;
}

int sacache_reconnect_create(struct sacache *cache, const struct sacache_reconnect_attr *wanted,
			     const struct sacache_reconnect_ops *wanted_ops, void *ctx,
			     struct sacache_reconnect **out)
{
	struct sacache_reconnect_attr attr = defaults;
	struct sacache_reconnect_ops ops = {0};
	struct sacache_reconnect *set;
	int ret = copy_in(&ops, sizeof(ops), wanted_ops);

	if (!ret && wanted)
		ret = copy_in(&attr, sizeof(attr), wanted);
	if (ret)
		return ret;
	if (!attr_valid(&attr) || !ops.connect || !ops.abandon || (cache && !ops.wake))
		return -EINVAL;
	set = calloc(1, sizeof(*set));
	if (!set)
		return -ENOMEM;
	set->inbox = calloc(1, sizeof(*set->inbox));
	if (!set->inbox) {
		free(set);
		return -ENOMEM;
	}
	pthread_mutex_init(&set->inbox->lock, NULL);
	set->inbox->refs = 1;
	set->inbox->wake = ops.wake;
	set->inbox->ctx = ctx;
	set->cache = cache;
	set->attr = attr;
	set->ops = ops;
	set->ctx = ctx;
	set->random = attr.seed ? attr.seed : sa_random_seed();
	*out = set;
	return 0;
}

void sacache_reconnect_destroy(struct sacache_reconnect *set)
{
	struct answer *answer, *next;

	if (!set)
		return;
	while (set->peers)
		sacache_peer_remove(set->peers);
	for (answer = answers_take(set->inbox); answer; answer = next) {
		next = answer->next;
		answer_free(answer);
	}
	inbox_put(set->inbox);
	free(set->heap);
	free(set);
}
