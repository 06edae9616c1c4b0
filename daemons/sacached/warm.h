/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The warm start: fills the cache before the first request. At the start the state file and
 * OpenSM's dump of paths are loaded, for each port as soon as it is active; then the SA is queried
 * ahead, if that is configured. The state is saved at intervals, when something has changed, on
 * command and at the end. The file's records of a port that has not been active yet stay in it.
 *
 * Worker threads (task.h) read and write files and query the SA; all else runs in the loop's
 * thread. Only the first load runs before the loop does.
 */
#ifndef SACACHED_WARM_H
#define SACACHED_WARM_H

#include "daemons/sacached/sacached.h"

struct warm_status {
	int64_t started;      /* seconds since 1970 */
	bool loaded;	      /* an attempt was made for a port */
	uint64_t records;     /* from the state file */
	uint64_t ask_again;   /* of these */
	char problem[512];    /* with the state file, and what was done about it; "": none */
	uint64_t imported;    /* from the dump */
	uint64_t saves;	      /* that succeeded */
	uint64_t save_errors; /* that failed */
	int save_error;	      /* of the last; negative errno */
	int64_t saved_at;     /* seconds since 1970; 0: not since the start */
	uint64_t saved;	      /* records */
	bool prefetching;     /* now */
	uint64_t prefetched;  /* paths, all in all */
	uint64_t prefetches;  /* that have ended */
};

/* After the ports. */
int warm_start(struct sacached *d, struct warm **warm);
/* Waits for the running task, and saves. While the cache and its ports exist. */
void warm_stop(struct warm *warm);

const struct warm_status *warm_status(const struct warm *warm);

typedef void (*warm_saved)(void *arg, int status, const struct sacache_state *state);
/* done is called in the loop, once, unless warm_forget(arg) was called. -ENOMEM, -ENOENT: there is
 * no state file. */
int warm_save(struct warm *warm, warm_saved done, void *arg);

typedef void (*warm_prefetched)(void *arg, int status, const struct sacache_prefetch *report);
/*
 * Queries the paths from a port to those GIDs, which become this module's (malloc'ed), or NULL: to
 * all. -EBUSY: a prefetch is running; the GIDs remain the caller's then.
 */
int warm_prefetch(struct warm *warm, unsigned port, uint8_t (*gids)[16], size_t count,
		  warm_prefetched done, void *arg);
/* arg is no longer valid: its callbacks are dropped, and a prefetch of its ends. */
void warm_forget(struct warm *warm, void *arg);

#endif
