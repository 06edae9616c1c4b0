/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Programs that load libibverbs with dlopen() and look its functions up by dlsym() or dlvsym() on
 * that handle (NCCL and others) would pass us by. The hooks, in dl_<arch>.S, ask urxe_dl_serve()
 * and either return what it says or jump to the next dlsym with stack and arguments as they came:
 * dlsym reads its return address to know who calls, and with ours there RTLD_NEXT would find
 * ourselves.
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

#include "host/elf_symbols.h"
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

/* Another preloaded library may have hooks behind ours; as a last resort, what libc.h knows. */
URXE_UNINSTRUMENTED static void *next_of(const char *name)
{
	void *(*real)(void *, const char *) = urxe_elf_libc("dlsym");
	void *next = real ? real(RTLD_NEXT, name) : urxe_libc_next(name);

	return next ? next : urxe_elf_libc(name);
}

/* Of the names that programs look up, most end here. */
URXE_UNINSTRUMENTED static bool is_verb(const char *name)
{
	if (name[0] == '_')
		name++;
	return name[0] == 'i' && name[1] == 'b' && name[2] == 'v' && name[3] == '_';
}

static void *serve(void *handle, const char *name, const char *version)
{
	const struct urxe_verb *verb = urxe_verb_find(name);
	void *found;

	if (!verb || !version_is_ours(verb, version))
		return NULL;
	if (handle == RTLD_DEFAULT)
		return version && !verb->version ? verb->own : NULL;
	urxe_libc_init();
	found = version ? urxe_libc.dlvsym(handle, name, version) : urxe_libc.dlsym(handle, name);
	return found && urxe_in_libibverbs(found) ? verb->own : NULL;
}

/* What dlsym (version NULL) or dlvsym is to return; NULL: go on to the next one. */
URXE_UNINSTRUMENTED void *urxe_dl_serve(void *handle, const char *name, const char *version)
{
	if (!urxe_next_dlvsym) {
		urxe_next_dlsym = next_of("dlsym");
		urxe_next_dlvsym = next_of("dlvsym");
	}
	if (handle == RTLD_NEXT || !name || !is_verb(name))
		return NULL;
	return serve(handle, name, version);
}

#endif
