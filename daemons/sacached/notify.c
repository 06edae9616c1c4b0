/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Talks to systemd by libsystemd, which sends to the socket named by NOTIFY_SOCKET. The loop's thread.
 */
#include "daemons/sacached/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "daemons/sacached/clock.h"
#include "daemons/sacached/log.h"

#define STATUS_S 10  /* how often the status is looked at; it is sent if it has changed */
#define MAX_SENT 253 /* descriptors in one message: the kernel's SCM_MAX_FD */

struct passed {
	int fd; /* -1: taken */
	char *name;
};

struct notify {
	struct sacached *d;
	bool supervised; /* there is a systemd */
	struct event *watchdog;
	struct event *status;
	char said[128];
	struct passed *passed;
	size_t npassed;
};

static void watchdog(evutil_socket_t fd, short what, void *arg)
{
	sd_notify(0, "WATCHDOG=1");
}

static void say_status(struct notify *notify)
{
	const struct sacached *d = notify->d;
	struct sacache_stats stats = {.entries = 0};
	unsigned open = 0, active = 0;
	char line[sizeof(notify->said)];

	for (unsigned i = 0; i < d->nports; i++) {
		open += d->ports[i].open;
		active += d->ports[i].active;
	}
	if (d->cache)
		sacache_stats(d->cache, &stats);
	snprintf(line, sizeof(line), "STATUS=%u of %u ports active, %llu records", active, open,
		 (unsigned long long)stats.entries);
	if (!strcmp(line, notify->said))
		return;
	memcpy(notify->said, line, sizeof(line));
	sd_notify(0, line);
}

static void status(evutil_socket_t fd, short what, void *arg)
{
	say_status(arg);
}

/* A timer that repeats. */
static int start_timer(struct notify *notify, struct event **timer, event_callback_fn fn,
		       uint64_t usec)
{
	struct timeval interval = {.tv_sec = usec / 1000000, .tv_usec = usec % 1000000};

	*timer = event_new(notify->d->base, -1, EV_PERSIST, fn, notify);
	return *timer && !event_add(*timer, &interval) ? 0 : -ENOMEM;
}

/* The environment is cleared, so that nobody takes these descriptors for his own. */
static int take_over_passed(struct notify *notify)
{
	char **names = NULL;
	int count = sd_listen_fds_with_names(1, &names);

	if (count <= 0)
		return count;
	notify->passed = calloc(count, sizeof(*notify->passed));
	if (!notify->passed)
		return -ENOMEM;
	notify->npassed = count;
	for (int i = 0; i < count; i++) {
		notify->passed[i].fd = SD_LISTEN_FDS_START + i;
		notify->passed[i].name = names[i];
	}
	free(names);
	return 0;
}

static int start_timers(struct notify *notify)
{
	uint64_t usec;
	int ret = 0;

	if (notify->supervised)
		ret = start_timer(notify, &notify->status, status, STATUS_S * 1000000ull);
	/* Twice in its time, as sd_watchdog_enabled(3) recommends. */
	if (!ret && sd_watchdog_enabled(0, &usec) > 0 && usec > 1)
		ret = start_timer(notify, &notify->watchdog, watchdog, usec / 2);
	return ret;
}

int notify_start(struct sacached *d, struct notify **out)
{
	struct notify *notify = calloc(1, sizeof(*notify));
	int ret = -ENOMEM;

	if (notify) {
		notify->d = d;
		notify->supervised = getenv("NOTIFY_SOCKET") != NULL;
		ret = take_over_passed(notify);
		if (!ret)
			ret = start_timers(notify);
	}
	if (ret) {
		log_error("what systemd passed cannot be taken over: %s", strerror(-ret));
		notify_stop(notify);
		return ret;
	}
	*out = notify;
	return 0;
}

/* Such as the second of a socket that both its unit and the store have. */
static void close_passed(struct notify *notify)
{
	for (size_t i = 0; i < notify->npassed; i++) {
		if (notify->passed[i].fd >= 0) {
			log_debug("systemd passed a descriptor named \"%s\" that is of no use",
				  notify->passed[i].name);
			close(notify->passed[i].fd);
		}
		free(notify->passed[i].name);
	}
	free(notify->passed);
	notify->passed = NULL;
	notify->npassed = 0;
}

void notify_stop(struct notify *notify)
{
	if (!notify)
		return;
	close_passed(notify);
	if (notify->watchdog)
		event_free(notify->watchdog);
	if (notify->status)
		event_free(notify->status);
	free(notify);
}

void notify_ready(struct notify *notify)
{
	close_passed(notify);
	say_status(notify);
	sd_notify(0, "READY=1");
	if (notify->watchdog)
		sd_notify(0, "WATCHDOG=1");
}

void notify_reloading(struct notify *notify)
{
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, clock_us());
}

void notify_reloaded(struct notify *notify)
{
	sd_notify(0, "READY=1");
}

void notify_stopping(struct notify *notify)
{
	sd_notify(0, "STOPPING=1");
}

size_t notify_take_fds(struct notify *notify, const char *name, int *fds, size_t count)
{
	size_t taken = 0;

	for (size_t i = 0; i < notify->npassed && taken < count; i++) {
		struct passed *passed = &notify->passed[i];

		if (passed->fd < 0 || strcmp(passed->name, name) != 0)
			continue;
		fds[taken++] = passed->fd;
		passed->fd = -1;
	}
	return taken;
}

int notify_keep_fds(struct notify *notify, const char *name, const int *fds, size_t count)
{
	char state[128];

	snprintf(state, sizeof(state), "FDSTORE=1\nFDNAME=%s", name);
	while (count) {
		size_t now = count < MAX_SENT ? count : MAX_SENT;
		int ret = sd_pid_notify_with_fds(0, 0, state, fds, now);

		if (ret <= 0)
			return ret ? ret : -ENOTCONN;
		fds += now;
		count -= now;
	}
	return 0;
}
