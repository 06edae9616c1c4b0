/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What sacached and systemd tell each other (sd_notify(3), sd_listen_fds(3)): that it is ready, that
 * its loop still turns, what it does, and descriptors that systemd keeps for the time between one run
 * and the next. Without systemd all of it does nothing.
 *
 * Descriptors have names. Those that systemd passes at the start, sockets of the .socket unit and
 * descriptors kept from the last run, are taken by name; what nobody has taken is closed by
 * notify_ready(). systemd keeps a descriptor of its own to what it was given, and gives it up when
 * the other end hangs up: to end a kept connection from this end, shutdown(2) it before close(2), or
 * the peer hears nothing of it.
 */
#ifndef SACACHED_NOTIFY_H
#define SACACHED_NOTIFY_H

#include <stddef.h>

#include "daemons/sacached/sacached.h"

/* Takes over what systemd passed and starts the watchdog's timer, if one is asked for. */
int notify_start(struct sacached *d, struct notify **notify);
void notify_stop(struct notify *notify);

/* Everything serves. */
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
 * Has systemd keep descriptors under that name (letters, digits, '-', '_') until their peers hang up.
 * 0; -ENOTCONN: there is no systemd to keep them; any other errno of sending. The caller keeps its own.
 */
int notify_keep_fds(struct notify *notify, const char *name, const int *fds, size_t count);

#endif
