// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A thread that talks to libvirtd and nothing else. It looks at all domains at every event and
 * every so often, since not all that happens has an event: a migration that failed has none at its
 * source. Domains and what is to be written are under the lock.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>

#include "daemons/common/log.h"
#include "daemons/lidtrackd/libvirt.h"
#include "daemons/lidtrackd/said.h"
#include "migrate/metadata.h"

#define RECONNECT_MS 500
#define WRITES	     16 /* at a time; what does not fit is asked for again */
#define END_S	     3	/* that a libvirtd has to answer when it is over */

struct watch {
	char uri[256];
	unsigned every_ms;
	void (*changed)(void *arg);
	void *arg;
	pthread_t thread;
	int wake; /* eventfd: something is to be written, or it is over */
	pthread_mutex_t lock;
	struct domains domains;
	bool known, stop;
	struct record writes[WRITES];
	unsigned num_writes;
	/* The thread's. */
	virConnectPtr connection;
	bool lost, look, complained;
	struct said *said; /* of what could not be written, or be a guest */
};

static bool is_over(struct watch *w)
{
	bool stop;

	pthread_mutex_lock(&w->lock);
	stop = w->stop;
	pthread_mutex_unlock(&w->lock);
	return stop;
}

/* ---- domains ---- */

/* Of two halves of a migration libvirt says that they are paused for it. */
static bool is_running(int state, int reason)
{
	if (state == VIR_DOMAIN_PAUSED)
		return reason != VIR_DOMAIN_PAUSED_MIGRATION &&
		       reason != VIR_DOMAIN_PAUSED_POSTCOPY &&
		       reason != VIR_DOMAIN_PAUSED_STARTING_UP;
	return state == VIR_DOMAIN_RUNNING || state == VIR_DOMAIN_BLOCKED ||
	       state == VIR_DOMAIN_PMSUSPENDED;
}

static void look_at_metadata(virDomainPtr domain, struct domain *d)
{
	char *xml = virDomainGetMetadata(domain, VIR_DOMAIN_METADATA_ELEMENT, METADATA_URI,
					 VIR_DOMAIN_AFFECT_LIVE);

	if (!xml) {
		d->unknown = virGetLastErrorCode() != VIR_ERR_NO_DOMAIN_METADATA;
		return;
	}
	d->bad = metadata_parse(&d->r, xml, strlen(xml)) != 0;
	if (d->bad)
		d->r.guid = 0;
	free(xml);
}

/* Of a domain that somebody wants to be a guest, and that cannot be one. */
static void say_unfit(struct watch *w, virDomainPtr domain, const char *name)
{
	char *xml = virDomainGetMetadata(domain, VIR_DOMAIN_METADATA_ELEMENT, METADATA_URI,
					 VIR_DOMAIN_AFFECT_LIVE);
	char known[RECORD_NAME_LEN];

	snprintf(known, sizeof(known), "%s", name);
	if (xml && said_new(&w->said, known, "its name"))
		log_warning("%s: it does not get the vGUID of its metadata: a guest has a name of "
			    "up to %d letters, digits, '.', '_' and '-'",
			    name, RECORD_NAME_LEN - 1);
	free(xml);
}

/* False: it cannot be a guest, or is gone. */
static bool look_at(struct watch *w, virDomainPtr domain, struct domain *d)
{
	const char *name = virDomainGetName(domain);
	int state, reason;

	memset(d, 0, sizeof(*d));
	d->r.function = -1;
	if (!name)
		return false;
	if (!record_name_valid(name)) {
		say_unfit(w, domain, name);
		return false;
	}
	strcpy(d->r.guest, name);
	d->unknown = virDomainGetState(domain, &state, &reason, 0) != 0;
	if (!d->unknown) {
		d->runs = is_running(state, reason);
		look_at_metadata(domain, d);
	}
	return !d->unknown || virGetLastErrorCode() != VIR_ERR_NO_DOMAIN;
}

/* What libvirtd said before may not hold any more. */
static void forget_domains(struct watch *w)
{
	pthread_mutex_lock(&w->lock);
	w->known = false;
	pthread_mutex_unlock(&w->lock);
}

static void look_at_all(struct watch *w)
{
	virDomainPtr *all;
	int n = virConnectListAllDomains(w->connection, &all, VIR_CONNECT_LIST_DOMAINS_ACTIVE);
	struct domains found = {0}, old;

	if (n < 0) {
		forget_domains(w);
		return;
	}
	found.list = calloc(n + 1, sizeof(*found.list));
	for (int i = 0; i < n; i++) {
		if (found.list && look_at(w, all[i], &found.list[found.count]))
			found.count++;
		virDomainFree(all[i]);
	}
	free(all);
	if (!found.list)
		return;
	pthread_mutex_lock(&w->lock);
	old = w->domains;
	w->domains = found;
	w->known = true;
	pthread_mutex_unlock(&w->lock);
	free(old.list);
	if (!is_over(w))
		w->changed(w->arg);
}

static void write_one(struct watch *w, const struct record *r)
{
	virDomainPtr domain = virDomainLookupByName(w->connection, r->guest);
	unsigned flags = VIR_DOMAIN_AFFECT_LIVE;
	char xml[METADATA_LEN];

	if (!domain)
		return;
	if (virDomainIsPersistent(domain) == 1)
		flags |= VIR_DOMAIN_AFFECT_CONFIG;
	metadata_format(r, xml);
	if (!virDomainSetMetadata(domain, VIR_DOMAIN_METADATA_ELEMENT, xml, METADATA_PREFIX,
				  METADATA_URI, flags)) {
		said_over(&w->said, r->guest);
		w->look = true;
	} else if (said_new(&w->said, r->guest, virGetLastErrorMessage())) {
		log_warning("%s: its vGUID is not in the domain's metadata: %s; tried again at "
			    "each look at the domains",
			    r->guest, virGetLastErrorMessage());
	}
	virDomainFree(domain);
}

static void write_all(struct watch *w)
{
	struct record writes[WRITES];
	unsigned n;

	pthread_mutex_lock(&w->lock);
	n = w->num_writes;
	memcpy(writes, w->writes, n * sizeof(*writes));
	w->num_writes = 0;
	pthread_mutex_unlock(&w->lock);
	for (unsigned i = 0; i < n; i++)
		write_one(w, &writes[i]);
}

/* ---- events ---- */

static int on_lifecycle(virConnectPtr connection, virDomainPtr domain, int event, int detail,
			void *arg)
{
	struct watch *w = arg;

	w->look = true;
	return 0;
}

static void on_metadata(virConnectPtr connection, virDomainPtr domain, int type, const char *uri,
			void *arg)
{
	struct watch *w = arg;

	w->look = true;
}

static void on_close(virConnectPtr connection, int reason, void *arg)
{
	struct watch *w = arg;

	w->lost = true;
}

static void on_timer(int timer, void *arg)
{
	struct watch *w = arg;

	w->look = true;
}

static void on_wake(int id, int fd, int events, void *arg)
{
	eventfd_t count;

	(void)!eventfd_read(fd, &count);
}

static void silent(void *arg, virErrorPtr error)
{
}

/* ---- the connection ---- */

static void disconnect(struct watch *w)
{
	if (!w->connection)
		return;
	virConnectUnregisterCloseCallback(w->connection, on_close);
	virConnectClose(w->connection);
	w->connection = NULL;
}

static void reconnect(struct watch *w)
{
	forget_domains(w);
	disconnect(w);
	w->lost = false;
	w->connection = virConnectOpen(w->uri);
	if (w->connection &&
	    (virConnectRegisterCloseCallback(w->connection, on_close, w, NULL) ||
	     virConnectDomainEventRegisterAny(w->connection, NULL, VIR_DOMAIN_EVENT_ID_LIFECYCLE,
					      VIR_DOMAIN_EVENT_CALLBACK(on_lifecycle), w,
					      NULL) < 0 ||
	     virConnectDomainEventRegisterAny(w->connection, NULL,
					      VIR_DOMAIN_EVENT_ID_METADATA_CHANGE,
					      VIR_DOMAIN_EVENT_CALLBACK(on_metadata), w, NULL) < 0))
		disconnect(w);
	if (w->connection) {
		virConnectSetKeepAlive(w->connection, 5, 3);
		log_notice("%s: connected", w->uri);
	} else if (!w->complained) {
		log_warning("%s: %s; tried again until it answers", w->uri,
			    virGetLastErrorMessage());
	}
	w->complained = !w->connection;
	w->look = w->connection != NULL;
}

static void *run(void *arg)
{
	struct watch *w = arg;
	int timer, handle;

	virEventRegisterDefaultImpl();
	virSetErrorFunc(NULL, silent);
	handle = virEventAddHandle(w->wake, VIR_EVENT_HANDLE_READABLE, on_wake, w, NULL);
	timer = virEventAddTimeout((int)w->every_ms, on_timer, w, NULL);
	while (!is_over(w)) {
		if (!w->connection || w->lost) {
			reconnect(w);
			virEventUpdateTimeout(timer,
					      w->connection ? (int)w->every_ms : RECONNECT_MS);
		}
		if (w->connection && !w->lost)
			write_all(w);
		if (w->connection && !w->lost && w->look) {
			w->look = false;
			look_at_all(w);
		}
		if (!w->look)
			virEventRunDefaultImpl();
	}
	disconnect(w);
	virEventRemoveTimeout(timer);
	virEventRemoveHandle(handle);
	return NULL;
}

/* ---- from outside ---- */

int watch_start(struct watch **watch, const char *uri, unsigned every_ms,
		void (*changed)(void *arg), void *arg)
{
	struct watch *w = calloc(1, sizeof(*w));
	int ret;

	if (!w)
		return -ENOMEM;
	strncpy(w->uri, uri, sizeof(w->uri) - 1);
	w->every_ms = every_ms;
	w->changed = changed;
	w->arg = arg;
	w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&w->lock, NULL);
	ret = w->wake < 0 ? -errno : -pthread_create(&w->thread, NULL, run, w);
	if (!ret) {
		*watch = w;
		return 0;
	}
	if (w->wake >= 0)
		close(w->wake);
	free(w);
	return ret;
}

void watch_stop(struct watch *w)
{
	struct timespec until;

	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_mutex_unlock(&w->lock);
	eventfd_write(w->wake, 1);
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += END_S;
	/* libvirt waits for a libvirtd that says nothing, for as long as it does: the process ends
	 * without the thread. */
	if (pthread_clockjoin_np(w->thread, NULL, CLOCK_MONOTONIC, &until))
		return;
	pthread_mutex_destroy(&w->lock);
	close(w->wake);
	said_over(&w->said, NULL);
	free(w->domains.list);
	free(w);
}

bool watch_domains(struct watch *w, struct domains *domains)
{
	bool known;

	*domains = (struct domains){0};
	pthread_mutex_lock(&w->lock);
	known = w->known;
	if (known)
		domains->list = malloc((w->domains.count + 1) * sizeof(*domains->list));
	if (domains->list) {
		domains->count = w->domains.count;
		memcpy(domains->list, w->domains.list, domains->count * sizeof(*domains->list));
	}
	pthread_mutex_unlock(&w->lock);
	return known && domains->list;
}

void watch_write(struct watch *w, const struct record *record)
{
	pthread_mutex_lock(&w->lock);
	if (w->num_writes < WRITES)
		w->writes[w->num_writes++] = *record;
	pthread_mutex_unlock(&w->lock);
	eventfd_write(w->wake, 1);
}
