/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What libvirt knows of this host's domains, kept fresh by a thread of its own (libvirt_watch.c),
 * without lidtrackd's loop in it.
 */
#ifndef LIDTRACKD_LIBVIRT_H
#define LIDTRACKD_LIBVIRT_H

#include <stdbool.h>
#include <stddef.h>

#include "migrate/record.h"

struct domain {
	bool runs;	 /* here, and not as one half of a migration that may still fail */
	bool unknown;	 /* libvirt did not say whether it runs, or what its metadata is */
	bool bad;	 /* its metadata is not what lidtrackd writes */
	struct record r; /* guest: its name; guid 0: it has no metadata of ours */
};

struct domains {
	struct domain *list;
	size_t count;
};

struct watch;

/*
 * Connects to that libvirtd, again whenever it is lost. changed(arg) is called in the thread when
 * there is something new, at each event of libvirt's and every so many milliseconds. -errno.
 */
int watch_start(struct watch **watch, const char *uri, unsigned every_ms,
		void (*changed)(void *arg), void *arg);
void watch_stop(struct watch *watch);
/* What was found last, for its caller to free(list). False: libvirtd has not answered yet. */
bool watch_domains(struct watch *watch, struct domains *domains);
/* Puts a vGUID into the metadata of the domain that the record calls its guest, later. */
void watch_write(struct watch *watch, const struct record *record);

#endif
