/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Preloaded into lidtrackd: while the file that LIBVIRT_FAILS names exists, libvirt cannot tell the
 * state of domains.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((visibility("default"))) int virDomainGetState(void *domain, int *state, int *reason,
							     unsigned flags);

int virDomainGetState(void *domain, int *state, int *reason, unsigned flags)
{
	static int (*next)(void *, int *, int *, unsigned);
	const char *file = getenv("LIBVIRT_FAILS");

	if (file && !access(file, F_OK))
		return -1;
	if (!next)
		next = dlsym(RTLD_NEXT, "virDomainGetState");
	return next(domain, state, reason, flags);
}
