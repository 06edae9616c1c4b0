// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Of a lidtrackd that was built without libvirt. */
#include <errno.h>

#include "daemons/common/log.h"
#include "daemons/lidtrackd/libvirt.h"

int watch_start(struct watch **watch, const char *uri, unsigned every_ms,
		void (*changed)(void *arg), void *arg)
{
	log_error("libvirt %s: this lidtrackd was built without libvirt (libvirt-dev)", uri);
	return -ENOTSUP;
}

void watch_stop(struct watch *watch)
{
}

bool watch_domains(struct watch *watch, struct domains *domains)
{
	return false;
}

void watch_write(struct watch *watch, const struct record *record)
{
}
