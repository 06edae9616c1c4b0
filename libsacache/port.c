/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A port over libibumad: its thread and its state.
 *
 * Each port has one thread that blocks in umad_recv(), runs the timers of client and notices, and
 * follows the port's state. Queries are sent by the calling threads. port->lock guards the client,
 * the notices and the waiters; umad_send() is called under it, which does not wait. What happens to
 * the port is read by its thread, and by a caller whose question depends on it, under watch_lock.
 *
 * The thread reads the clock at least once in a TICK: a descriptor of umad's may be one that cannot
 * be polled together with another (ibsim's is), so no other thread can wake it, and first deadlines
 * are not much nearer than that.
 */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/own_thread.h"
#include "libsacache/port.h"

#define TICK	     50
#define LOOK	     2000 /* interval of reading PortInfo if libibverbs does not report its changes */
#define LOOK_WATCHED 60000 /* and if it does */
#define GOODBYE	     300   /* time to wait for the SA's responses when a port is closed */
/* umad_size() is correct only after a port was opened; before, it may be less. */
#define UMAD_ROOM (sizeof(struct ib_user_mad) + SA_MAD_SIZE)
#define SA_QP	  1
#define GSI_QKEY  0x80010000
enum { PORT_ACTIVE = 4 };

static void port_send(void *ctx, const uint8_t mad[SA_MAD_SIZE], uint32_t timeout)
{
	struct sa_port *port = ctx;

	memset(port->umad, 0, umad_size());
	memcpy(umad_get_mad(port->umad), mad, SA_MAD_SIZE);
	umad_set_addr(port->umad, port->sm_lid, SA_QP, port->sm_sl, GSI_QKEY);
	/* The kernel refuses a transaction that it still waits for: its timeout is shorter than
	 * ours. */
	umad_send(port->fd, port->agent, port->umad, SA_MAD_SIZE, timeout - timeout / 8, 0);
}

static void port_count(void *ctx, enum sa_count what)
{
	struct sa_port *port = ctx;

	if (what == SA_RETRIED || what == SA_TIMEOUTS || what == SA_FOREIGN)
		port->doubt = true;
	sa_count(port->cache, what);
}

static void port_event(void *ctx, enum sacache_event event, const uint8_t *gid, uint16_t lid)
{
	struct sa_port *port = ctx;

	if (event == SACACHE_LID_CHANGE && lid)
		sa_cache_lid(port->cache, port->number, gid, lid);
	else
		sacache_event(port->cache, port->number, event, gid);
}

static const struct sa_client_ops client_ops = {
	.send = port_send,
	.done = sa_port_done,
	.count = port_count,
};
static const struct sa_notice_ops notice_ops = {
	.send = port_send,
	.event = port_event,
	.count = port_count,
};

/* The LIDs of the SM and of the port are known, or were when the port went down. Under
 * port->lock. */
static void compare(struct sa_port *port, const umad_port_t *attr, uint64_t now)
{
	bool active = attr->state == PORT_ACTIVE, subscribe = active && !port->active;
	bool other_subnet = memcmp(port->client.port_gid, &attr->gid_prefix, 8) != 0;
	bool new_sm = attr->sm_lid && (attr->sm_lid != port->sm_lid || other_subnet);

	if (attr->base_lid && attr->base_lid != port->lid) {
		/* A port that had no LID before has no records that depend on it. */
		if (port->lid) {
			port_count(port, SA_LID_CHANGES);
			port_event(port, SACACHE_LID_CHANGE, port->client.port_gid, 0);
		}
		port->lid = attr->base_lid;
		subscribe = true;
	}
	if (other_subnet)
		memcpy(port->client.port_gid, &attr->gid_prefix, 8);
	port->sm_sl = attr->sm_sl;
	if (new_sm) {
		port->sm_lid = attr->sm_lid;
		port_count(port, SA_SM_CHANGES);
		port_event(port, SACACHE_NEW_SM, NULL, 0);
	}
	if (port->active && !active)
		port_count(port, SA_PORT_DOWNS);
	if (!port->active && active)
		port->returned = now;
	port->active = active;
	if (new_sm)
		sa_notices_new_sm(&port->notices, port->sm_lid, now);
	else if (subscribe)
		sa_notices_subscribe(&port->notices, now);
}

static void look_at_port(struct sa_port *port, uint64_t now)
{
	umad_port_t attr;

	port->looked = now;
	if (umad_get_port(port->ca_name, port->portnum, &attr))
		return;
	pthread_mutex_lock(&port->lock);
	compare(port, &attr, now);
	pthread_mutex_unlock(&port->lock);
	umad_release_port(&attr);
}

/* Under watch_lock; at_once: whatever the time. */
static void watch(struct sa_port *port, uint64_t now, bool at_once)
{
	unsigned news = 0;
	bool doubt;

	port->watched = now;
	if (port->verbs)
		news = sa_watch_read(port->verbs, port->portnum);
	if (news & SA_WATCH_END) {
		sa_watch_close(port->verbs);
		port->verbs = NULL;
	}
	pthread_mutex_lock(&port->lock);
	doubt = port->doubt;
	port->doubt = false;
	if (doubt)
		sa_notices_doubt(&port->notices, now);
	pthread_mutex_unlock(&port->lock);
	if (at_once || doubt || news & SA_WATCH_PORT ||
	    now - port->looked >= (port->verbs ? LOOK_WATCHED : LOOK))
		look_at_port(port, now);
	if (news & SA_WATCH_REREGISTER) {
		pthread_mutex_lock(&port->lock);
		port_count(port, SA_REREGISTERS);
		port_event(port, SACACHE_REREGISTER, NULL, 0);
		sa_notices_new_sm(&port->notices, port->sm_lid, now);
		pthread_mutex_unlock(&port->lock);
	}
}

/* Once in a TICK, and while the SA does not answer. */
static void watch_in_time(struct sa_port *port, uint64_t now)
{
	pthread_mutex_lock(&port->watch_lock);
	if (now >= port->watched + TICK)
		watch(port, now, false);
	pthread_mutex_unlock(&port->watch_lock);
}

void sa_port_refresh(struct sa_port *port)
{
	pthread_mutex_lock(&port->watch_lock);
	watch(port, port->cache->clock(), true);
	pthread_mutex_unlock(&port->watch_lock);
}

/* Drops MADs that are not from the SA; in case the SM has moved, doubt makes the port check. */
static void take(struct sa_port *port, const uint8_t *mad, uint16_t from)
{
	uint64_t now = port->cache->clock();
	bool from_sa;

	pthread_mutex_lock(&port->lock);
	from_sa = from == port->sm_lid;
	if (!sa_notices_receive(&port->notices, mad, SA_MAD_SIZE, from_sa, now)) {
		if (from_sa)
			sa_client_receive(&port->client, mad, SA_MAD_SIZE, now);
		else
			port_count(port, SA_FOREIGN);
	}
	sa_port_unlock(port);
}

/* Waits until a MAD arrives or something is due, at most a TICK. */
static void receive(struct sa_port *port, void *in, uint64_t now, uint64_t next)
{
	struct timespec pause = {.tv_nsec = TICK * 1000000};
	int length = SA_MAD_SIZE, ret;

	ret = umad_recv(port->fd, in, &length,
			next <= now	    ? 1
			: next - now < TICK ? (int)(next - now)
					    : TICK);
	if (ret < 0 && ret != -ETIMEDOUT && ret != -EWOULDBLOCK && ret != -EINTR)
		nanosleep(&pause, NULL);
	/* With a status it is our own request, which the kernel returns as unanswered. */
	if (ret < 0 || umad_status(in) || length < 0 || length > SA_MAD_SIZE)
		return;
	/* ibsim delivers only the bytes that were sent; on a wire zeroes follow. */
	memset((uint8_t *)umad_get_mad(in) + length, 0, SA_MAD_SIZE - length);
	take(port, umad_get_mad(in), be16toh(umad_get_mad_addr(in)->lid));
}

/* Unsubscribes, without retries. */
static void say_goodbye(struct sa_port *port, void *in)
{
	uint64_t now = port->cache->clock(), end = sa_clock_ms() + GOODBYE;
	bool waits;

	pthread_mutex_lock(&port->lock);
	waits = sa_notices_stop(&port->notices, now);
	while (waits && sa_clock_ms() < end) {
		uint64_t next = sa_notices_run(&port->notices, now);

		sa_port_unlock(port);
		receive(port, in, now, next);
		now = port->cache->clock();
		pthread_mutex_lock(&port->lock);
		waits = !sa_notices_stopped(&port->notices);
	}
	sa_port_unlock(port);
}

static void *port_run(void *arg)
{
	struct sa_port *port = arg;

	while (!atomic_load(&port->stop)) {
		uint64_t now = port->cache->clock(), next, then;

		watch_in_time(port, now);
		pthread_mutex_lock(&port->lock);
		next = sa_client_run(&port->client, now);
		then = sa_notices_run(&port->notices, now);
		sa_confirm_run(port, now);
		sa_port_unlock(port);
		receive(port, port->in, now, next < then ? next : then);
	}
	say_goodbye(port, port->in);
	return NULL;
}

/*
 * RMPP is done here: the kernel leaves it to a client that registers without an RMPP version. The
 * SA's reports go to one program on a port; if another program has them, queries still work.
 */
static int register_agent(struct sa_port *port, struct sacache_attr *attr)
{
	long methods[16 / sizeof(long)] = {1l << SA_REPORT};

	if (attr->notices) {
		port->agent = umad_register(port->fd, SA_CLASS, SA_CLASS_VERSION, 0, methods);
		if (port->agent >= 0)
			return 0;
		sa_count(port->cache, SA_REFUSED);
		attr->notices = 0;
	}
	port->agent = umad_register(port->fd, SA_CLASS, SA_CLASS_VERSION, 0, NULL);
	return port->agent < 0 ? -ENODEV : 0;
}

static int open_umad(struct sa_port *port, struct sacache_attr *cache_attr, uint8_t gid[16])
{
	umad_port_t attr;

	if (umad_get_port(port->ca_name[0] ? port->ca_name : NULL, port->portnum, &attr))
		return -ENODEV;
	/* Without a name or number libibumad has chosen the port. */
	snprintf(port->ca_name, sizeof(port->ca_name), "%s", attr.ca_name);
	port->portnum = attr.portnum;
	umad_release_port(&attr);
	/* No event is missed after the port was read. */
	port->verbs = sa_watch_open(port->ca_name);
	if (umad_get_port(port->ca_name, port->portnum, &attr))
		return -ENODEV;
	port->active = attr.state == PORT_ACTIVE;
	port->lid = attr.base_lid;
	port->sm_lid = attr.sm_lid;
	port->sm_sl = attr.sm_sl;
	memcpy(gid, &attr.gid_prefix, 8);
	memcpy(gid + 8, &attr.port_guid, 8);
	umad_release_port(&attr);
	port->fd = umad_open_port(port->ca_name, port->portnum);
	if (port->fd < 0)
		return port->fd == -EACCES || port->fd == -EPERM ? -EACCES : -ENODEV;
	if (register_agent(port, cache_attr)) {
		umad_close_port(port->fd);
		return -ENODEV;
	}
	return 0;
}

static void close_umad(struct sa_port *port)
{
	umad_unregister(port->fd, port->agent);
	umad_close_port(port->fd);
}

static void port_free(struct sa_port *port)
{
	sa_watch_close(port->verbs);
	pthread_mutex_destroy(&port->watch_lock);
	pthread_mutex_destroy(&port->lock);
	pthread_cond_destroy(&port->unused);
	umad_free(port->umad);
	umad_free(port->in);
	free(port);
}

/* The number that the same port had before, else the first that is free. Under ports_lock. */
static unsigned choose_number(const struct sacache *cache, const uint8_t gid[16])
{
	unsigned number = SACACHE_MAX_PORTS;

	for (unsigned n = 0; n < SACACHE_MAX_PORTS; n++) {
		if (cache->ports[n])
			continue;
		if (cache->subnets[n].used && !memcmp(cache->subnets[n].gid, gid, 16))
			return n;
		if (number == SACACHE_MAX_PORTS)
			number = n;
	}
	return number;
}

static int port_start(struct sa_port *port)
{
	struct sacache *cache = port->cache;
	struct sacache_attr attr = cache->attr;
	uint64_t now = cache->clock();
	uint8_t gid[16];
	int ret = open_umad(port, &attr, gid);

	if (ret)
		return ret;
	port->number = choose_number(cache, gid);
	if (port->number == SACACHE_MAX_PORTS) {
		close_umad(port);
		return -ENOSPC;
	}
	sa_cache_begin_port(cache, port->number, gid);
	attr.seed += port->number;
	port->looked = port->returned = now;
	port->confirm.generation = atomic_load(&cache->subnets[port->number].generation) - 1;
	sa_client_init(&port->client, &attr, gid, &client_ops, port, now);
	sa_notices_init(&port->notices, &attr, port->sm_lid, &notice_ops, port, now);
	ret = own_thread_start(&port->thread, port_run, port);
	if (ret)
		close_umad(port);
	return ret;
}

int sacache_port_open(struct sacache *cache, const char *ca_name, int portnum, unsigned *number)
{
	struct sa_port *port;
	int ret = -ENOMEM;

	if (umad_init() < 0)
		return -ENODEV;
	port = calloc(1, sizeof(*port));
	if (!port)
		return ret;
	pthread_mutex_init(&port->watch_lock, NULL);
	pthread_mutex_init(&port->lock, NULL);
	pthread_cond_init(&port->unused, NULL);
	port->cache = cache;
	port->portnum = portnum;
	snprintf(port->ca_name, sizeof(port->ca_name), "%s", ca_name ? ca_name : "");
	port->umad = umad_alloc(1, UMAD_ROOM);
	port->in = umad_alloc(1, UMAD_ROOM);
	if (!port->umad || !port->in) {
		port_free(port);
		return ret;
	}
	pthread_mutex_lock(&cache->ports_lock);
	ret = port_start(port);
	if (!ret) {
		*number = port->number;
		cache->ports[port->number] = port;
	}
	pthread_mutex_unlock(&cache->ports_lock);
	if (ret)
		port_free(port);
	return ret;
}

int sacache_port_close(struct sacache *cache, unsigned number)
{
	struct sa_port *port;

	if (number >= SACACHE_MAX_PORTS)
		return -ENODEV;
	pthread_mutex_lock(&cache->ports_lock);
	port = cache->ports[number];
	if (!port) {
		pthread_mutex_unlock(&cache->ports_lock);
		return -ENODEV;
	}
	cache->ports[number] = NULL;
	while (port->refs)
		pthread_cond_wait(&port->unused, &cache->ports_lock);
	pthread_mutex_unlock(&cache->ports_lock);
	atomic_store(&port->stop, true);
	pthread_join(port->thread, NULL);
	pthread_mutex_lock(&port->lock);
	sa_client_cancel(&port->client, -ECANCELED);
	sa_port_unlock(port);
	close_umad(port);
	port_free(port);
	return 0;
}

struct sa_port *sa_port_get(struct sacache *cache, unsigned number)
{
	struct sa_port *port;

	pthread_mutex_lock(&cache->ports_lock);
	port = cache->ports[number];
	if (port)
		port->refs++;
	pthread_mutex_unlock(&cache->ports_lock);
	return port;
}

void sa_port_put(struct sa_port *port)
{
	pthread_mutex_lock(&port->cache->ports_lock);
	if (!--port->refs)
		pthread_cond_signal(&port->unused);
	pthread_mutex_unlock(&port->cache->ports_lock);
}

int sa_port_identify(struct sacache *cache, unsigned number, struct sa_port_identity *identity)
{
	struct sa_port *port = number < SACACHE_MAX_PORTS ? sa_port_get(cache, number) : NULL;
	umad_port_t attr;
	int ret;

	memset(identity, 0, sizeof(*identity));
	if (!port)
		return -ENODEV;
	ret = umad_get_port(port->ca_name, port->portnum, &attr) ? -ENODEV : 0;
	pthread_mutex_lock(&port->lock);
	if (!ret && port->notices.sm_known && port->sm_lid == attr.sm_lid)
		identity->sm_guid = port->notices.sm_guid;
	pthread_mutex_unlock(&port->lock);
	sa_port_put(port);
	if (ret)
		return ret;
	memcpy(identity->gid, &attr.gid_prefix, 8);
	memcpy(identity->gid + 8, &attr.port_guid, 8);
	identity->lid = attr.base_lid;
	identity->sm_lid = attr.sm_lid;
	for (unsigned i = 0; i < attr.pkeys_size; i++)
		if ((attr.pkeys[i] & 0x7fff) == 0x7fff ||
		    (attr.pkeys[i] & 0x7fff && !identity->pkey))
			identity->pkey = attr.pkeys[i];
	umad_release_port(&attr);
	return 0;
}

void sa_port_expect_sm(struct sacache *cache, unsigned number, uint64_t guid)
{
	struct sa_port *port = sa_port_get(cache, number);

	if (!port)
		return;
	pthread_mutex_lock(&port->lock);
	sa_notices_expect_sm(&port->notices, guid);
	pthread_mutex_unlock(&port->lock);
	sa_port_put(port);
}
