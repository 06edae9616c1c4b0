/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Preloaded into lidtrackd: while the file that LIBVIRT_FAILS names exists, libvirt cannot
 * tell the state of domains; while the one of LIBVIRT_KEEPS exists, it takes no metadata;
 * while the one of LIBVIRT_EMPTY exists, it has no domain; and while that of LIBVIRT_SILENT
 * does, it does not list them.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((visibility("default"))) int virDomainGetState(void *domain, int *state, int *reason,
							     unsigned flags);

__attribute__((visibility("default"))) int virDomainSetMetadata(void *domain, int type,
								const char *metadata,
								const char *key, const char *uri,
								unsigned flags);

__attribute__((visibility("default"))) int
virConnectListAllDomains(void *connection, void ***domains, unsigned flags);

/* Does the file exist that the environment names? */
static int is_there(const char *variable)
{
	const char *file = getenv(variable);

	return file && !access(file, F_OK);
}

int virDomainSetMetadata(void *domain, int type, const char *metadata, const char *key,
			 const char *uri, unsigned flags)
{
	static int (*next)(void *, int, const char *, const char *, const char *, unsigned);

	if (is_there("LIBVIRT_KEEPS"))
		return -1;
	if (!next)
		next = dlsym(RTLD_NEXT, "virDomainSetMetadata");
	return next(domain, type, metadata, key, uri, flags);
}

int virConnectListAllDomains(void *connection, void ***domains, unsigned flags)
{
	static int (*next)(void *, void ***, unsigned);

	if (is_there("LIBVIRT_SILENT"))
		return -1;
	if (is_there("LIBVIRT_EMPTY")) {
		*domains = calloc(1, sizeof(**domains));
		return *domains ? 0 : -1;
	}
	if (!next)
		next = dlsym(RTLD_NEXT, "virConnectListAllDomains");
	return next(connection, domains, flags);
}

int virDomainGetState(void *domain, int *state, int *reason, unsigned flags)
{
	static int (*next)(void *, int *, int *, unsigned);

	if (is_there("LIBVIRT_FAILS"))
		return -1;
	if (!next)
		next = dlsym(RTLD_NEXT, "virDomainGetState");
	return next(domain, state, reason, flags);
}
