/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The service thread: does the work for threads that do not poll, and listens to netlink. It blocks
 * all signals (they belong to the program) and asks for a timer slack of 1 ns, because its leases
 * are a few microseconds long.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hca/direct.h"
#include "hca/engine.h"
#include "hca/gsi.h"
#include "hca/moderation.h"
#include "hca/service.h"
#include "host/fd.h"
#include "host/guardian.h"
#include "host/libc.h"
#include "host/log.h"

#define LOOK_AGAIN 20000 /* ns */
#define LOOK_MAX   320000
#define LOOKS	   12
#define SLEEP_MAX  1000000000ull
/* Polled so recently: it is in a loop around ibv_poll_cq(), where a turn may send and receive. */
#define POLLING_AGE 50000ull
/* Polled so recently, it may be watching its memory now (ib_write_lat), */
#define WATCHING_AGE 200000ull
#define ANSWER_NS    10000 /* and posts its answer so soon after a message */
/* Polled so recently, it may be about to poll again: a thread that has been busy for BUSY_MOST on
 * the same processor leaves it to the program. To change threads may take 50 us. */
#define POLLED_AGE 100000000ull
#define BUSY_MOST  100000ull
#define WAY_NS	   200000

void urxe_service_wake(void)
{
	uint64_t one = 1;

	if (urxe_libc.write(urxe_hca.wake_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
		urxe_log(URXE_LOG_WARN, "cannot wake the service thread: %s", strerror(errno));
}

void urxe_engine_polled(uint64_t now)
{
	atomic_store_explicit(&urxe_hca.polled_at, now, memory_order_relaxed);
	atomic_store_explicit(&urxe_hca.polled_cpu, sched_getcpu(), memory_order_relaxed);
}

void urxe_engine_watch(void)
{
	if (atomic_load(&urxe_hca.leased))
		urxe_service_wake();
}

void urxe_engine_sleeps(void)
{
	atomic_fetch_add(&urxe_hca.armed, 1);
	urxe_engine_watch();
}

void urxe_engine_woke(void *unused)
{
	atomic_fetch_sub(&urxe_hca.armed, 1);
}

static void on_port_event(struct urxe_port *port, enum ibv_event_type type, void *arg)
{
	struct urxe_context *ctx;

	urxe_engine_lock();
	if (type == IBV_EVENT_PORT_ERR)
		urxe_count(port, URXE_CNT_LINK_DOWNED);
	cds_list_for_each_entry (ctx, &urxe_hca.contexts, node)
		if (ctx->dev == port->dev)
			urxe_event_port(ctx, port->num, type);
	urxe_gsi_port_event(port, type);
	urxe_direct_ports_changed();
	urxe_wire_ports_changed(urxe_hca.wire);
	if (type == IBV_EVENT_PKEY_CHANGE)
		urxe_engine_pkeys_changed(port);
	urxe_engine_unlock();
}

/*
 * Sleeps until a descriptor is ready or the time has come. *wire says whether to watch the wire,
 * and then whether it is ready.
 */
static void wait_for(bool *wire, uint64_t until, uint64_t now)
{
	struct urxe_engine *e = &urxe_hca;
	struct pollfd fds[3] = {
		{.fd = e->wake_fd, .events = POLLIN},
		{.fd = e->monitor_fd, .events = POLLIN},
		{.fd = *wire ? urxe_wire_fd(e->wire) : -1, .events = POLLIN},
	};
	uint64_t span = until > now ? until - now : 0;
	bool watching = *wire;
	struct timespec ts;
	int n;

	*wire = false;
	if (span > SLEEP_MAX)
		span = SLEEP_MAX;
	ts.tv_sec = span / 1000000000;
	ts.tv_nsec = span % 1000000000;
	if (watching && !urxe_wire_sleep(e->wire))
		ts.tv_sec = ts.tv_nsec = 0;
	n = syscall(SYS_ppoll, fds, 3, &ts, NULL, 0);
	if (watching)
		urxe_wire_awake(e->wire);
	if (n <= 0)
		return;
	if (fds[0].revents) {
		uint64_t count;

		(void)!urxe_libc.read(e->wake_fd, &count, sizeof(count));
	}
	if (fds[1].revents)
		urxe_device_monitor_read(e->monitor_fd, on_port_event, NULL);
	*wire = fds[2].revents;
}

static uint64_t next_deadline(void)
{
	uint64_t timers = urxe_wheel_next(&urxe_hca.wheel);
	uint64_t wire = urxe_wire_deadline(urxe_hca.wire);
	uint64_t gsi = urxe_gsi_deadline();
	uint64_t moderated = urxe_moderation_deadline();
	uint64_t next = timers < wire ? timers : wire;

	if (!cds_list_empty(&urxe_hca.ready) || !cds_list_empty(&urxe_hca.acks_waiting) ||
	    !cds_list_empty(&urxe_hca.acks_due))
		return 0;
	if (gsi < next)
		next = gsi;
	if (moderated < next)
		next = moderated;
	if (!cds_list_empty(&urxe_hca.held) && urxe_hca.held_at < next)
		next = urxe_hca.held_at;
	return next < urxe_hca.housekeep_at ? next : urxe_hca.housekeep_at;
}

/* Time since a program last polled; for ever when one is about to sleep on a channel. */
static uint64_t poll_age(uint64_t now)
{
	uint64_t polled = atomic_load_explicit(&urxe_hca.polled_at, memory_order_relaxed);

	if (!polled || atomic_load(&urxe_hca.armed))
		return UINT64_MAX;
	return now > polled ? now - polled : 0;
}

/*
 * Somebody polls: keeps away until the lease is over. False when it has run out, and nobody is
 * about to sleep. This thread may wake so late that the last poll is older than a short lease: what
 * counts is that there was one.
 */
static bool sleep_on_lease(uint64_t age, uint64_t now)
{
	struct urxe_lease *lease = &urxe_hca.lease;
	uint64_t polled = atomic_load(&urxe_hca.polled_at);
	bool wire = false, armed, renewed;

	atomic_store(&urxe_hca.leased, true);
	if (!atomic_load(&urxe_hca.armed) && !atomic_load(&urxe_hca.stop))
		wait_for(&wire, now + lease->span - age, now);
	atomic_store(&urxe_hca.leased, false);
	armed = atomic_load(&urxe_hca.armed);
	renewed = !armed && atomic_load(&urxe_hca.polled_at) != polled;
	if (renewed)
		urxe_lease_renewed(lease);
	return renewed || armed;
}

/* A late renewal: at the next look there is a lease to wait for. */
static bool left_to_pollers(void)
{
	urxe_lease_begin(&urxe_hca.lease);
	urxe_lease_renewed(&urxe_hca.lease);
	return false;
}

/*
 * A program that polls or copies large messages has the lock most of the time, and a thread that
 * waits for it in the kernel makes each of its unlocks a system call, without getting it. So the
 * thread looks now and then, and waits only if that has not helped for some milliseconds. False,
 * and no lock: somebody polled meanwhile and has done what the lock was wanted for.
 */
static bool take_lock(void)
{
	struct timespec ts = {.tv_nsec = LOOK_AGAIN};
	uint64_t began = 0;

	for (unsigned i = 0; i < LOOKS; i++) {
		uint64_t now;

		if (urxe_engine_try(false))
			return true;
		now = urxe_now();
		if (!began)
			began = now;
		else if (now - began > poll_age(now))
			return left_to_pollers();
		nanosleep(&ts, NULL);
		if (ts.tv_nsec < LOOK_MAX)
			ts.tv_nsec *= 2;
	}
	urxe_engine_take();
	return true;
}

/*
 * A program that watches its memory has a message now. Its answer and the acknowledgement had
 * better leave together: the peer, which polls for the latter, then has both, and so does each
 * after it, without this thread. True: the program has posted its answer, and polls.
 */
static bool answered(void)
{
	struct timespec ts = {.tv_nsec = ANSWER_NS};

	if (!atomic_load(&urxe_hca.acks_wait))
		return false;
	nanosleep(&ts, NULL);
	return !atomic_load(&urxe_hca.acks_wait);
}

/*
 * A program that polled on this processor a moment ago may want to, and to post receives, but
 * cannot while this thread has one turn after another. True: it polls.
 */
static bool made_way(bool busy, uint64_t now, uint64_t *busy_since)
{
	struct timespec ts = {.tv_nsec = WAY_NS};
	bool here = atomic_load(&urxe_hca.polled_cpu) == sched_getcpu();

	if (!busy || !*busy_since)
		*busy_since = busy ? now : 0;
	if (!busy || now - *busy_since < BUSY_MOST || !here || poll_age(now) > POLLED_AGE)
		return false;
	*busy_since = 0;
	nanosleep(&ts, NULL);
	return poll_age(urxe_now()) < POLLING_AGE;
}

static void *service(void *arg)
{
	struct urxe_engine *e = &urxe_hca;
	bool ran_out = false, wire = false;
	uint64_t busy_since = 0;

	prctl(PR_SET_NAME, "urxe");
	prctl(PR_SET_TIMERSLACK, 1);
	urxe_direct_alive();
	while (!atomic_load(&e->stop)) {
		uint64_t now = urxe_now(), age = poll_age(now);
		uint64_t until;
		bool busy;

		urxe_guardian_keep(e->seg, now);
		/* The program has left acknowledgements for when it polls again, or posts. */
		if (age < POLLING_AGE && atomic_load(&e->acks_wait))
			urxe_lease_begin(&e->lease);
		if (age < e->lease.span) {
			ran_out = !sleep_on_lease(age, now);
			wire = false;
			continue;
		}
		if (!take_lock())
			continue;
		urxe_engine_locked();
		busy = urxe_engine_turn(age < WATCHING_AGE);
		if (ran_out)
			urxe_lease_ran_out(&e->lease, busy);
		else if (wire && age < POLLING_AGE)
			urxe_lease_begin(&e->lease); /* woken for nothing */
		ran_out = false;
		if (answered() || made_way(busy, now, &busy_since)) {
			urxe_lease_begin(&e->lease);
			ran_out = !sleep_on_lease(0, urxe_now());
			wire = false;
			continue;
		}
		if (!take_lock())
			continue;
		until = next_deadline();
		atomic_store(&e->sleep_until, busy ? 0 : until);
		urxe_engine_give();
		wire = true;
		/* A thread that has left a QP to the holder of the lock meanwhile relies on it. */
		if (!busy && until && !atomic_load(&e->kicked))
			wait_for(&wire, until, urxe_now());
		else
			wire = false;
		atomic_store(&e->sleep_until, 0);
	}
	urxe_direct_dead();
	return NULL;
}

static int spawn(void)
{
	struct timespec ts = {.tv_nsec = LOOK_AGAIN};
	sigset_t all, old;
	int ret;

	sigfillset(&all);
	sigdelset(&all, SIGSEGV); /* its own faults are answered for (lost_memory.h) */
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = -pthread_create(&urxe_hca.thread, NULL, service, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	/* So that nobody hears of this process before it can be seen to live. */
	while (!ret && !urxe_direct_is_alive())
		nanosleep(&ts, NULL);
	return ret;
}

int urxe_service_start(void)
{
	struct urxe_engine *e = &urxe_hca;
	int ret;

	atomic_store(&e->stop, false);
	e->lease = (struct urxe_lease){.span = URXE_LEASE_MIN};
	atomic_store(&e->polled_at, 0);
	e->wake_fd = urxe_fd_keep(urxe_libc.eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (e->wake_fd < 0)
		return -errno;
	e->monitor_fd = urxe_device_monitor_open();
	if (e->monitor_fd < 0) {
		ret = e->monitor_fd;
		urxe_fd_close(e->wake_fd);
		return ret;
	}
	ret = spawn();
	if (ret) {
		urxe_device_monitor_close(e->monitor_fd);
		urxe_fd_close(e->wake_fd);
		return ret;
	}
	e->running = true;
	return 0;
}

void urxe_service_stop(void)
{
	struct urxe_engine *e = &urxe_hca;

	atomic_store(&e->stop, true);
	urxe_service_wake();
	pthread_join(e->thread, NULL);
	e->running = false;
	urxe_device_monitor_close(e->monitor_fd);
	urxe_fd_close(e->wake_fd);
	e->wake_fd = e->monitor_fd = -1;
}

void urxe_service_forked(void)
{
	struct urxe_engine *e = &urxe_hca;

	urxe_device_monitor_close(e->monitor_fd);
	urxe_fd_close(e->wake_fd);
	e->wake_fd = e->monitor_fd = -1;
	e->running = false;
}
