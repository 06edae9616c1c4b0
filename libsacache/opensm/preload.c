/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Preloaded into opensm, which hands all that it sends to libibumad's umad_send(): path records
 * have their reserved field raised on the way, so that nodes with libsacache's policy `auto` cache
 * them.
 *
 *	SACACHE_OPENSM_RAISE	the field's value, up to 12 hexadecimal digits, 1 if it is not set;
 *				"off" leaves the records as they are
 *
 * Called by any of OpenSM's threads. What is written here before it has threads does not change
 * later. OpenSM owns the buffer and gives it up with the call, so it is changed in place.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/umad.h>

#include "libsacache/opensm/raise.h"

typedef int (*send_function)(int portid, int agentid, void *umad, int length, int timeout_ms,
			     int retries);

static uint8_t value[SA_RAISE_SIZE];
static bool raises;
static send_function next_send;

__attribute__((constructor)) static void configure(void)
{
	const char *text = getenv("SACACHE_OPENSM_RAISE");

	next_send = (send_function)dlsym(RTLD_NEXT, "umad_send");
	if (text && !strcmp(text, "off"))
		return;
	raises = sa_raise_parse(text ? text : "1", value);
	if (!raises)
		fprintf(stderr,
			"libsacache-opensm: path records are not raised: SACACHE_OPENSM_RAISE is "
			"\"off\" or 1 to 12 hexadecimal digits other than 0, not \"%.20s\"\n",
			text);
}

__attribute__((visibility("default"))) int umad_send(int portid, int agentid, void *umad,
						     int length, int timeout_ms, int retries)
{
	if (!next_send) {
		errno = ENOSYS;
		return -ENOSYS;
	}
	if (raises && length > 0)
		sa_raise(umad_get_mad(umad), length, value);
	return next_send(portid, agentid, umad, length, timeout_ms, retries);
}
