/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Root's rights given up. Capabilities belong to threads: those that run by now do not have
 * PR_SET_KEEPCAPS and lose theirs with setresuid(). The loop's thread, before the loop runs.
 */
#include "daemons/common/privileges.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemons/common/log.h"

/* Of what this thread has, those of the mask alone. */
static int keep_capabilities(uint64_t capabilities)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &header, data))
		return -errno;
	for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		data[i].permitted &= (uint32_t)(capabilities >> 32 * i);
		data[i].effective = data[i].permitted;
		data[i].inheritable = 0;
	}
	return syscall(SYS_capset, &header, data) ? -errno : 0;
}

static int become(const struct passwd *user, uint64_t capabilities)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) ||
	    initgroups(user->pw_name, user->pw_gid) ||
	    setresgid(user->pw_gid, user->pw_gid, user->pw_gid) ||
	    setresuid(user->pw_uid, user->pw_uid, user->pw_uid))
		return -errno;
	return keep_capabilities(capabilities);
}

int privileges_drop(const char *name, uint64_t capabilities)
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
	ret = become(user, capabilities);
	if (ret)
		log_error("cannot become user %s: %s", name, strerror(-ret));
	else
		log_info("runs as user %s from now on", name);
	return ret;
}
