/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The definitions behind ours. RTLD_NEXT finds them where the program links libibverbs or another
 * preloaded library wraps it. A program that loads libibverbs with dlopen (Python does, through its
 * extension modules) keeps it out of the search order: then libibverbs.so.1 is opened here, which
 * for a library already loaded only yields its handle.
 *
 * Any thread. The results are pointers that never change, stored atomically: two threads that look
 * the same symbol up at once find the same one.
 */
#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "host/libc.h"
#include "preload/preload.h"

/* The linker's names for the two ends of the section. */
extern struct urxe_verb *const __start_urxe_verbs[];
extern struct urxe_verb *const __stop_urxe_verbs[];

struct urxe_verb *urxe_verb_find(const char *name)
{
	struct urxe_verb *const *v;

	for (v = __start_urxe_verbs; v < __stop_urxe_verbs; v++)
		if (!strcmp((*v)->name, name))
			return *v;
	return NULL;
}

static void *libibverbs(void)
{
	static _Atomic(void *) handle;
	void *h = atomic_load(&handle);

	if (!h) {
		h = urxe_libc.dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL);
		atomic_store(&handle, h);
	}
	return h;
}

/*
 * The symbol in the version that we have, or for a private one in whatever version. A wrapper in
 * another preloaded library carries no version, and dlvsym() would pass it by: what an unversioned
 * search finds outside libibverbs comes first.
 *
 * dlvsym and dlsym take their caller for the object that RTLD_NEXT starts from: the barrier keeps
 * the compiler from jumping to them, which would leave our caller's address on the stack.
 */
static void *lookup(void *handle, const struct urxe_verb *verb)
{
	void *p = urxe_libc.dlsym(handle, verb->name);

	if (verb->version && (!p || urxe_in_libibverbs(p)))
		p = urxe_libc.dlvsym(handle, verb->name, verb->version);
	__asm__ volatile("" : "+r"(p));
	return p;
}

void *urxe_verb_next_slow(struct urxe_verb *verb)
{
	void *next, *handle;

	urxe_libc_init();
	next = lookup(RTLD_NEXT, verb);
	if (!next) {
		handle = libibverbs();
		if (handle)
			next = lookup(handle, verb);
	}
	if (next)
		atomic_store_explicit(&verb->next, next, memory_order_release);
	return next;
}

void *urxe_libc_next(const char *name)
{
	void *p;

	urxe_libc_init();
	p = urxe_libc.dlsym(RTLD_NEXT, name);
	__asm__ volatile("" : "+r"(p));
	return p;
}

const char *urxe_object_of(const void *address)
{
	struct dl_find_object obj;
	const char *name, *slash;

	if (!address || _dl_find_object((void *)address, &obj))
		return "";
	name = obj.dlfo_link_map->l_name;
	slash = strrchr(name, '/');
	return slash ? slash + 1 : name;
}

bool urxe_in_libibverbs(const void *address)
{
	static const char prefix[] = "libibverbs.so";

	return !strncmp(urxe_object_of(address), prefix, sizeof(prefix) - 1);
}
