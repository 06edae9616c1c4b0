/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a daemon and systemd tell each other (sd_notify(3), sd_listen_fds(3)): that the daemon is
 * ready, that its loop still runs, what it does, and descriptors that systemd keeps for the time
 * between one run and the next. Without systemd all of it does nothing. None of it waits for
 * systemd, but notify_stop(), for at most 5 s. The loop's thread.
 *
 * Descriptors have names. Those that systemd passes at the start, sockets of the .socket unit and
 * descriptors kept from the last run, are taken by name; what nobody has taken is closed by
 * notify_ready(). systemd keeps a descriptor of its own to what it was given, and gives it up when
 * the other end hangs up: to end a kept connection from this end, shutdown(2) it before close(2),
 * or the peer hears nothing of it.
 */
#ifndef DAEMON_NOTIFY_H
#define DAEMON_NOTIFY_H

#include <stddef.h>

#include <event2/event.h>

struct notify;

/* Writes what the daemon does now, for people, into a line of that size. */
typedef void (*notify_status)(void *arg, char *line, size_t size);

/*
 * Takes over what systemd passed and starts the watchdog's timer, if one is asked for. status is
 * called every 10 s; NULL: there is none. 0 or a negative errno after a line in the log.
 */
int notify_start(struct event_base *base, notify_status status, void *arg, struct notify **notify);
void notify_stop(struct notify *notify);

/* The daemon serves. */
void notify_ready(struct notify *notify);
/* Between these two the configuration is read again. */
void notify_reloading(struct notify *notify);
void notify_reloaded(struct notify *notify);
void notify_stopping(struct notify *notify);

/*
 * Up to count descriptors of that name, which are the caller's from now on (close-on-exec is set).
 * Returns how many there were; call again for more than count.
 */
size_t notify_take_fds(struct notify *notify, const char *name, int *fds, size_t count);
/*
 * Has systemd keep descriptors under that name (letters, digits, '-', '_') until their peers hang
 * up. 0; -ENOTCONN: there is no systemd to keep them; any other errno of sending. The caller keeps
 * its own.
 */
int notify_keep_fds(struct notify *notify, const char *name, const int *fds, size_t count);

#endif
