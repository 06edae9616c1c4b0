/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Programs that load libibverbs with dlopen() and look its functions up by dlsym() or dlvsym() on
 * that handle (NCCL and others) would pass us by. The hooks, in dl_<arch>.S, ask urxe_dl_serve() and
 * either return what it says or jump to the next dlsym with stack and arguments as they came: dlsym
 * reads its return address to know who calls, and with ours there RTLD_NEXT would find ourselves.
 *
 *   RTLD_NEXT     asks for what comes behind the caller: passed on. Another preloaded library that
 *                 wraps a verb finds ours if it stands before us and libibverbs if behind.
 *   RTLD_DEFAULT  finds ours anyway, being first in the search order; only a private symbol that is
 *                 asked for by version needs help, as dlvsym() does not take the base version.
 *   a handle      ours, if the name is one that we define, in the version we have, and the handle
 *                 finds it in a libibverbs. A mock library that defines a verb keeps its own.
 *
 * Any thread; no state but the two pointers, which never change once set.
 */
#include <dlfcn.h>
#include <string.h>

#include "host/libc.h"
#include "preload/preload.h"

#if defined(__x86_64__) || defined(__aarch64__)

/* Read by the hooks after urxe_dl_serve() has returned. */
void *urxe_next_dlsym;
void *urxe_next_dlvsym;

void *urxe_dl_serve(void *handle, const char *name, const char *version);

static bool version_is_ours(const struct urxe_verb *verb, const char *version)
{
	static const char private[] = "IBVERBS_PRIVATE_";

	if (!version)
		return true;
	return verb->version ? !strcmp(verb->version, version)
			     : !strncmp(version, private, sizeof(private) - 1);
}

/* What dlsym (version NULL) or dlvsym is to return; NULL: go on to the next one. */
void *urxe_dl_serve(void *handle, const char *name, const char *version)
{
	const struct urxe_verb *verb;
	void *found;

	if (!urxe_next_dlvsym) {
		urxe_next_dlsym = urxe_libc_next("dlsym");
		urxe_next_dlvsym = urxe_libc_next("dlvsym");
	}
	if (handle == RTLD_NEXT || !name)
		return NULL;
	if (strncmp(name, "ibv_", 4) && strncmp(name, "_ibv_", 5))
		return NULL;
	verb = urxe_verb_find(name);
	if (!verb || !version_is_ours(verb, version))
		return NULL;
	if (handle == RTLD_DEFAULT)
		return version && !verb->version ? verb->own : NULL;

	found = version ? urxe_libc.dlvsym(handle, name, version) : urxe_libc.dlsym(handle, name);
	return found && urxe_in_libibverbs(found) ? verb->own : NULL;
}

#endif
