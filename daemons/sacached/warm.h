/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The warm start: what is in the cache before anybody asks. At the start the state file and
 * OpenSM's dump of paths are loaded, for each port as soon as it is active; then the SA is asked
 * ahead, if that is wanted. The state is saved at intervals, when something has changed, on command
 * and at the end; what the file has of a port that has not been active yet stays in it.
 *
 * A file is read or written and the SA asked in threads of their own (task.h), all else runs in the
 * loop's; but for the file of the start, which is loaded before the loop runs.
 */
#ifndef SACACHED_WARM_H
#define SACACHED_WARM_H

#include "daemons/sacached/sacached.h"

struct warm_status {
	int64_t started;      /* seconds since 1970 */
	bool loaded;	      /* it has been tried for a port */
	uint64_t records;     /* from the state file */
	uint64_t ask_again;   /* of these */
	char problem[512];    /* with the state file, and what became of it; "": none */
	uint64_t imported;    /* from the dump */
	uint64_t saves;	      /* that went well */
	uint64_t save_errors; /* and not */
	int save_error;	      /* of the last; negative errno */
	int64_t saved_at;     /* seconds since 1970; 0: not since the start */
	uint64_t saved;	      /* records */
	bool prefetching;     /* now */
	uint64_t prefetched;  /* paths, all in all */
	uint64_t prefetches;  /* that have ended */
};

/* Not before the ports are. */
int warm_start(struct sacached *d, struct warm **warm);
/* Waits for what is under way, and saves. While the cache and its ports are there. */
void warm_stop(struct warm *warm);

const struct warm_status *warm_status(const struct warm *warm);

typedef void (*warm_saved)(void *arg, int status, const struct sacache_state *state);
/* done is called in the loop, once, unless warm_forget(arg) was called. -ENOMEM, -ENOENT: there is
 * no state file. */
int warm_save(struct warm *warm, warm_saved done, void *arg);

typedef void (*warm_prefetched)(void *arg, int status, const struct sacache_prefetch *report);
/*
 * Asks for the paths from a port to those GIDs, which become this module's (malloc'ed), or NULL: to
 * all. -EBUSY: one is under way; the GIDs are still the caller's then.
 */
int warm_prefetch(struct warm *warm, unsigned port, uint8_t (*gids)[16], size_t count,
		  warm_prefetched done, void *arg);
/* Nobody is there any more to be told; a prefetch of his ends. */
void warm_forget(struct warm *warm, void *arg);

#endif
