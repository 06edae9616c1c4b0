/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the files of this floor share: how a symbol is exported, and how the definition behind ours
 * is found. liburxe.so stands in front of libibverbs and libc; whatever is not about a urxe device
 * calls the next definition as if we were not there.
 *
 * liburxe.map gives the verbs the versions of libibverbs. Every other exported symbol gets the base
 * version, which the dynamic linker accepts for a reference to any version: right for libc's
 * functions, and for the symbols of libibverbs whose version changes between its releases.
 */
#ifndef URXE_PRELOAD_PRELOAD_H
#define URXE_PRELOAD_PRELOAD_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#define URXE_EXPORT __attribute__((visibility("default")))

/* A symbol of libibverbs that we define. */
struct urxe_verb {
	const char *name;
	const char *version;  /* NULL: private to rdma-core, so whatever version its library has */
	void *own;	      /* our definition */
	_Atomic(void *) next; /* the one behind it, once it has been looked up */
};

/*
 * Declares verb_<name>, to be followed by the definition of that function. The pointer in section
 * urxe_verbs puts it on the list that urxe_verb_find() searches.
 */
#define URXE_VERB(symbol, symbol_version)                                           \
	static struct urxe_verb verb_##symbol = {                                   \
		.name = #symbol, .version = symbol_version, .own = (void *)symbol}; \
	static struct urxe_verb *const listed_##symbol                              \
		__attribute__((section("urxe_verbs"), used)) = &verb_##symbol;

/* The verb of that name; NULL if we define none. Any thread. */
struct urxe_verb *urxe_verb_find(const char *name);

/*
 * The definition behind ours: of another preloaded library, of the program's libibverbs, or of
 * libibverbs.so.1 loaded for this purpose. NULL if there is none. Any thread, but not in a signal
 * handler: the first call for a symbol may load a library.
 */
void *urxe_verb_next_slow(struct urxe_verb *verb);

static inline void *urxe_verb_next(struct urxe_verb *verb)
{
	void *next = atomic_load_explicit(&verb->next, memory_order_acquire);

	return next ? next : urxe_verb_next_slow(verb);
}

/*
 * Defines a verb: the answer if it is about what is ours, else what the next definition says;
 * nobody: the result without one, in the way of the verb's man page. Results may be void.
 */
#define URXE_SERVED_VERB(result, symbol, version, params, args, is_ours, answer, nobody) \
	URXE_VERB(symbol, version)                                                       \
	URXE_EXPORT result symbol params                                                 \
	{                                                                                \
		__typeof__(symbol) *behind;                                              \
                                                                                         \
		if (is_ours)                                                             \
			return answer;                                                   \
		behind = urxe_verb_next(&verb_##symbol);                                 \
		return behind ? behind args : (nobody);                                  \
	}

/* What a verb answers when no libibverbs is there to ask. */
#define URXE_NOBODY_MINUS (errno = ENOSYS, -1)
#define URXE_NOBODY_NULL  (errno = ENOSYS, NULL)

/*
 * The file name of the object that an address lies in; "" if in none. dladdr() would take the
 * loader's lock, which a thread that waits for us may hold; this takes none, and needs no cache
 * that would have to follow dlopen() and dlclose(). Any thread.
 */
const char *urxe_object_of(const void *address);
/* Does that address lie in a libibverbs? Any thread. */
bool urxe_in_libibverbs(const void *address);

/* The next definition of a function of libc, for programs' calls that pass through us. */
void *urxe_libc_next(const char *name);

/* The process that initialised the library, or the fork child that took its copy over. A vfork
 * child runs in its parent's memory under a number of its own: it must change nothing here. */
extern pid_t urxe_owner_pid;

/* Set before the adapter is first used: from then on it may have descriptors and threads. */
extern atomic_bool urxe_attached;

/* What the library's constructor does, which the guardian does itself; and what it does in all
 * other processes: says which program is to guard the host segment. */
void urxe_loaded(void);
void urxe_guardian_init(void);

#endif
