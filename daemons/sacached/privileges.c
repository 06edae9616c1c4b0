/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Root's rights given up. What still takes rights afterwards, and how it goes without:
 *
 *	answers by netlink	CAP_NET_ADMIN at each of them: kept
 *	a port that comes back	opens /dev/infiniband/umadN anew: the user's groups have to allow it
 *	the state file		its directory has to be the user's
 *	sockets in /run		are not unlinked at the end; the next start as root does it
 *
 * Capabilities belong to threads: libsacache's, which run by now, do not have PR_SET_KEEPCAPS and lose
 * theirs with setresuid(). The loop's thread, before the loop runs.
 */
#include "daemons/sacached/privileges.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemons/sacached/log.h"

/* Of what this thread has, CAP_NET_ADMIN alone. */
static int keep_net_admin(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &header, data))
		return -errno;
	for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		data[i].permitted &=
			i == CAP_TO_INDEX(CAP_NET_ADMIN) ? CAP_TO_MASK(CAP_NET_ADMIN) : 0;
		data[i].effective = data[i].permitted;
		data[i].inheritable = 0;
	}
	return syscall(SYS_capset, &header, data) ? -errno : 0;
}

static int become(const struct passwd *user)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) ||
	    initgroups(user->pw_name, user->pw_gid) ||
	    setresgid(user->pw_gid, user->pw_gid, user->pw_gid) ||
	    setresuid(user->pw_uid, user->pw_uid, user->pw_uid))
		return -errno;
	return keep_net_admin();
}

int privileges_drop(const char *name)
{
	const struct passwd *user;
	int ret;

	if (!name[0] || geteuid())
		return 0;
	errno = 0;
	user = getpwnam(name);
	if (!user) {
		ret = errno ? -errno : -ENOENT;
		log_error("user %s: %s: create it, as systemd-sysusers does, or leave \"user\" out",
			  name, ret == -ENOENT ? "there is none" : strerror(-ret));
		return ret;
	}
	ret = become(user);
	if (ret)
		log_error("cannot become user %s: %s", name, strerror(-ret));
	else
		log_info("runs as user %s from now on", name);
	return ret;
}
