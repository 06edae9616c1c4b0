/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libsacache: path records of an InfiniBand subnet, cached at the end node, so that reconnecting to a
 * peer takes no query to the subnet administrator (SA). After "System and method for supporting subnet
 * management in a cloud environment" (Oracle) and Tasoulas et al., "A Novel Query Caching Scheme
 * for Dynamic InfiniBand Subnets" (CCGrid 2015); PathRecord and SubnAdm methods are those of IBTA
 * vol. 1, chapter 15, RMPP that of 13.6.
 *
 * The method: the table starts empty and caching is off. A path response whose reserved field the
 * SM has raised switches caching on and is stored; one with the field at 0 is used and not stored.
 * Each connection looks in the table first; a miss, or caching being off, leads to a query to the SA.
 *
 *   program ──► sacache_lookup ──hit──► path			some 30 ns, never waits
 *      └──────► sacache_resolve ─miss─► SA client ──MADs──► SA	one query for all callers of a key
 *
 * Numbers are in host byte order, GIDs are the 16 bytes as on the wire, times are in milliseconds.
 * Functions return 0 or a negative errno. Any thread may call any function at any time unless said
 * otherwise. sacache_lookup() takes no lock (RCU); the others may wait for a mutex, and those that
 * change the table now and then for a grace period. None may be called from a signal handler.
 *
 * Structures that may grow with the library are passed with their size as the program knows it:
 * those that the program fills in begin with it. A member that only the library knows has its
 * default (0 where there is no function for defaults), or is not written; one that only the program
 * knows must be 0 (-EINVAL), or is written as 0. struct sacache_path has the components of the
 * standard's PathRecord and struct sacache_key those that a query can name: they do not change.
 */
#ifndef SACACHE_SACACHE_H
#define SACACHE_SACACHE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

#define SACACHE_MAX_PORTS 16

struct sacache;

/* The components of a key that are set; the others are wildcards (15.2.5.16). */
enum sacache_component {
	SACACHE_DGID = 1 << 0,
	SACACHE_SGID = 1 << 1,
	SACACHE_DLID = 1 << 2,
	SACACHE_SLID = 1 << 3,
	SACACHE_PKEY = 1 << 4,
	SACACHE_SL = 1 << 5,
	SACACHE_TCLASS = 1 << 6,
	SACACHE_SERVICE_ID = 1 << 7,
	SACACHE_QOS_CLASS = 1 << 8,
};

/*
 * The key of a path. Two keys are equal if port and mask are, and all components in the mask. A
 * mask with neither SACACHE_DGID nor SACACHE_DLID is invalid: -EINVAL. If the source is a wildcard
 * the SA is queried for paths from the port.
 */
struct sacache_key {
	uint8_t dgid[16];
	uint8_t sgid[16];
	uint64_t service_id;
	uint16_t dlid;
	uint16_t slid;
	uint16_t pkey;
	uint16_t qos_class; /* 12 bits */
	uint8_t sl;	    /* 4 bits */
	uint8_t tclass;
	uint8_t port; /* as sacache_port_open() returned it: ports may be in different subnets */
	uint8_t spare;
	uint32_t mask; /* enum sacache_component */
};

/* A PathRecord. MTU, rate and lifetime are the standard's codes without their selectors. */
struct sacache_path {
	uint64_t service_id;
	uint8_t dgid[16];
	uint8_t sgid[16];
	uint16_t dlid;
	uint16_t slid;
	uint32_t flow_label;
	uint16_t pkey;
	uint16_t qos_class;
	uint8_t hop_limit;
	uint8_t tclass;
	uint8_t sl;
	uint8_t mtu;	  /* 1: 256 … 5: 4096 bytes */
	uint8_t rate;	  /* as in enum ibv_rate */
	uint8_t lifetime; /* 4.096 µs << lifetime */
	uint8_t preference;
	uint8_t numb_path;
	bool raw;
	bool reversible;
	uint8_t reserved[6]; /* raised by an SM that supports the method */
};

enum sacache_policy {
	SACACHE_AUTO,	/* the method: the reserved field tells whether to cache */
	SACACHE_ALWAYS, /* cache all answers: for an SM that does not raise the field */
	SACACHE_NEVER,	/* query every time */
};

struct sacache_attr {
	size_t size; /* of this structure: sacache_attr_init() sets it */
	enum sacache_policy policy;
	bool drop;		/* remove a record at the first failure instead of suspecting it */
	uint32_t max_entries;	/* 1 … 2^24; beyond, an entry is evicted, failed ones first */
	uint32_t negative;	/* how long a failure is remembered; 0: not at all */
	unsigned suspect_limit; /* failures after which a record is queried again; 1 … 15 */
	uint32_t suspect_backoff; /* the second failure counts after this time, the next after twice
				     it, and so on: 1 … 3,600,000 */
	/* For queries to the SA, for each port. */
	unsigned window; /* pending queries; 1 … 256 */
	unsigned rate;	 /* queries a second, retries included; 0: no limit */
	unsigned queue;	 /* queries that wait for the window; beyond: -EAGAIN; 1 … 2^20 */
	uint32_t response_timeout; /* of the first try; doubles, with a random part; 10 … 60,000 */
	unsigned retries;	   /* 0 … 15 */
	uint32_t max_records;	   /* of one GetTable answer; 1 … 2^20 */
	/*
	 * Interval at which the subscription to the SA's notices is renewed (see enum
	 * sacache_event), 100 … 86,400,000; 0, the default: no subscription. Only one program on a
	 * port can receive the SA's reports, and the SM has to send a report to each subscriber, so
	 * this is for sacached, or for the one service of a host without sacached.
	 */
	uint32_t notices;
	uint64_t seed; /* of all random values; 0: a seed from the system */
};

/*
 * Defaults: auto, 2^20 entries, failures remembered for 1 s, records queried again after 4 failures
 * that are 500 ms, 1 s, 2 s apart; window 64, no rate limit, 65,536 queued, 1 s and 4 retries,
 * 65,536 records.
 */
void sacache_attr_init(struct sacache_attr *attr, size_t size);

/* Creates an empty cache; attr NULL: the defaults. -EINVAL (out of range), -ENOMEM. */
int sacache_create(const struct sacache_attr *attr, struct sacache **cache);
/* Closes the ports, too. No other thread may be using the cache. */
void sacache_destroy(struct sacache *cache);

/*
 * Looks a key up in the table only. 0: *path is filled in. -ENOENT: not there, or caching is off;
 * -ESTALE: there, but to be queried again before use; -EINVAL: the key. Other errors are those of a
 * recent query that is still remembered: -EHOSTUNREACH (the SA knows no such path), -ETIMEDOUT,
 * -EIO.
 */
int sacache_lookup(struct sacache *cache, const struct sacache_key *key, struct sacache_path *path);

/*
 * Looks a key up in the table, and queries the SA if it is missing. timeout limits the caller's
 * wait (-1: until the query ends by its own timers): then -ETIMEDOUT, while the query continues and
 * fills the table. Further errors: -EHOSTUNREACH, -EAGAIN (the queue is full), -ENODEV (no such
 * port), -EPROTO (a malformed answer, or one to another query), -EBUSY (also to the last try),
 * -EPERM (denied), -EIO, -ECANCELED (port closed).
 */
int sacache_resolve(struct sacache *cache, const struct sacache_key *key, struct sacache_path *path,
		    int timeout);

/*
 * The same without waiting. -EINPROGRESS: done is called later, once, from the port's thread or
 * from one that calls a function of this library; path is valid during the call, and NULL if status
 * is not 0. 0 or any other error: the table had the answer and done is not called. done may call
 * sacache_lookup(), _failed() and _connected(), and must not wait.
 */
typedef void (*sacache_done)(void *arg, int status, const struct sacache_path *path);
int sacache_query(struct sacache *cache, const struct sacache_key *key, struct sacache_path *path,
		  sacache_done done, void *arg);

/*
 * The same without a lookup: always queries the SA, and stores the answer as usual. Always
 * -EINPROGRESS, or an error and done is not called.
 */
int sacache_query_sa(struct sacache *cache, const struct sacache_key *key, sacache_done done,
		     void *arg);

/*
 * Every path for a key, by SubnAdmGetTable; the table is neither read nor changed. A key without a
 * destination means the paths to all destinations. *count is the room in paths at the call, and
 * then the number of paths; -ENOSPC if that is more, -EFBIG beyond max_records.
 */
int sacache_query_table(struct sacache *cache, const struct sacache_key *key,
			struct sacache_path *paths, size_t *count, int timeout);

/*
 * A connection over the path for key was lost, rejected or timed out. The record stays and becomes
 * suspect, because a machine that moves comes back with the same addresses; after suspect_limit
 * failures that are spread by backoff it is queried again. With `drop` it is removed. -ENOENT: not
 * there.
 */
int sacache_failed(struct sacache *cache, const struct sacache_key *key);
/* A connection over that path was established: it is no longer suspect. -ENOENT: not there. */
int sacache_connected(struct sacache *cache, const struct sacache_key *key);

/*
 * Events of a port's subnet, and their effect on the table. The library receives them itself: by
 * libibverbs' asynchronous events or, where libibverbs does not have the port, from its PortInfo,
 * which is read every 2 s; and with sacache_attr.notices from the SA's reports (13.4.8; after
 * SubnAdmSet(InformInfo), 15.2.5.12). A program that has another source calls sacache_event().
 *
 *	trap 65, GID out of service	SACACHE_GID_OUT
 *	trap 64, GID in service		SACACHE_GID_IN
 *	trap 128, link state change	SACACHE_LINK_CHANGE
 *	trap 144, a port's local change	SACACHE_LID_CHANGE, if the port that sent it has another LID
 *					than the table has for its GID; else nothing
 *	the port has another LID	SACACHE_LID_CHANGE of its own GID
 *	the SM has another LID		SACACHE_NEW_SM
 *	the SM was restarted		SACACHE_NEW_SM (with notices: by its ActCount)
 *	another SM at that LID		SACACHE_NEW_SM (with notices: by its GUID)
 *	client re-register		SACACHE_REREGISTER
 *	the port goes down		nothing: it comes back with the same neighbours
 *	the port comes up		nothing, but the subscription is renewed, and the SM checked
 *
 * Not subscribed to: multicast groups (66, 67), which no path depends on; bad keys (256 …), which
 * the SA reports to trusted nodes only; a new system image GUID (145), which no path record
 * contains.
 */
enum sacache_event {
	SACACHE_GID_OUT, /* records to this GID become suspect, once (with `drop`: are removed) */
	SACACHE_GID_IN,	 /* remembered failures of this GID are dropped, records stay */
	SACACHE_LID_CHANGE,  /* that GID has another LID: its records are queried again */
	SACACHE_NEW_SM,	     /* all records of the port are queried again, each when it is used */
	SACACHE_REREGISTER,  /* client re-register (14.4.11): the same, whichever SM asks for it */
	SACACHE_LINK_CHANGE, /* a link went up or down: all remembered failures are dropped */
};
/*
 * An event in the subnet of that port; gid may be NULL with all but the first three. -EINVAL.
 */
int sacache_event(struct sacache *cache, unsigned port, enum sacache_event event,
		  const uint8_t gid[16]);

/*
 * Adds a record as if the SA had answered key with it, whatever the policy (a warm start). -EINVAL:
 * it does not match key; -ENOMEM.
 */
int sacache_store(struct sacache *cache, const struct sacache_key *key,
		  const struct sacache_path *path);

/* Removes records; a gid or lid that is not NULL or 0 restricts it. Returns how many. */
int sacache_flush(struct sacache *cache, const uint8_t *gid, uint16_t lid);

enum sacache_entry_flags {
	SACACHE_SUSPECT = 1 << 0,
	SACACHE_ASK_AGAIN = 1 << 1,
	SACACHE_NEGATIVE = 1 << 2,
};
/*
 * Calls fn for every entry; flags are enum sacache_entry_flags. fn must not call this library and
 * must be quick: changes wait for it. Ends when fn returns other than 0 and returns that.
 */
typedef int (*sacache_visit)(void *arg, const struct sacache_key *key,
			     const struct sacache_path *path, unsigned flags);
int sacache_walk(struct sacache *cache, sacache_visit fn, void *arg);
/*
 * The same in parts, so that changes wait less: up to so many entries from *at on, which is 0 at
 * first and advances. Returns how many; 0: that was all. Entries that change between two parts may
 * be missed.
 */
unsigned sacache_walk_part(struct sacache *cache, uint32_t *at, unsigned most, sacache_visit fn,
			   void *arg);

/* Counted since the cache was created. */
struct sacache_stats {
	uint64_t entries;	/* now, including negative ones */
	uint64_t bytes;		/* of memory that the table uses for them now */
	uint64_t hits;		/* answered from the table, including suspect records */
	uint64_t negative_hits; /* answered with a remembered failure */
	/* Reasons of queries to the SA: each query is in one of these. */
	uint64_t query_miss;	/* not in the table */
	uint64_t query_off;	/* caching is off (auto), or policy never */
	uint64_t query_suspect; /* failed too often */
	uint64_t query_changed; /* another LID, a new SM, re-register */
	uint64_t query_table;	/* sacache_query_table(), or many records to be confirmed */
	uint64_t query_past;	/* sacache_query_sa() */
	uint64_t coalesced;	/* joined a pending query */
	/* Results. */
	uint64_t stored;
	uint64_t not_stored;	   /* the reserved field was 0 */
	uint64_t confirmed;	   /* queried again, or in a table, with the same answer */
	uint64_t changed;	   /* queried again, with another answer */
	uint64_t failures_counted; /* that made a record suspect, or more so */
	uint64_t failures_ignored; /* within the backoff */
	uint64_t dropped;	   /* removed by `drop` */
	uint64_t evicted;	   /* replaced by a newer entry */
	/* MADs. */
	uint64_t sent;
	uint64_t retried;
	uint64_t received;
	uint64_t busy;
	uint64_t timeouts; /* queries that ended without an answer */
	uint64_t strays;   /* answers without a pending query */
	uint64_t malformed;
	uint64_t foreign; /* answers from another source than the SA: dropped */
	/* Notices of the SA. */
	uint64_t notices_gid_in;   /* trap 64 */
	uint64_t notices_gid_out;  /* trap 65 */
	uint64_t notices_link;	   /* trap 128 */
	uint64_t notices_other;	   /* 144, and those that were not subscribed to */
	uint64_t notices_repeated; /* repeated by the SA because our response was lost: no effect */
	uint64_t notices_malformed; /* dropped */
	uint64_t notices_forged;    /* not from the SA: dropped */
	uint64_t subscribed;	    /* subscriptions confirmed by the SA, including renewals */
	uint64_t refused;	    /* refused by it */
	uint64_t sm_restarts;	    /* the SM's counter started anew, or another SM has its LID */
	/* Events of the port. */
	uint64_t sm_changes;  /* another SM's LID */
	uint64_t lid_changes; /* another LID of its own */
	uint64_t reregisters; /* client re-register */
	uint64_t port_downs;  /* it was active */
};
void sacache_stats(struct sacache *cache, struct sacache_stats *stats, size_t size);
/* Whether caching is on for that port's subnet, by its SM (auto) or by the policy. */
bool sacache_caching(struct sacache *cache, unsigned port);

/*
 * Opens a port for queries by libibumad and starts its thread; *port is the number for keys.
 * ca_name NULL, portnum 0: the first that is active. The SM's LID is read when it is opened and
 * after a query without an answer. -ENODEV (no such port), -ENOSPC, -EACCES (needs to open
 * /dev/infiniband/umadN).
 */
int sacache_port_open(struct sacache *cache, const char *ca_name, int portnum, unsigned *port);
/*
 * Pending queries end with -ECANCELED. Records stay until the number is assigned to another port. A
 * port that is opened again, with the GID that it had, gets its number again if that is free, and
 * the SA has to confirm its records. Not from a callback.
 */
int sacache_port_close(struct sacache *cache, unsigned port);

/*
 * Encodes a path as the 64 bytes of a PathRecord on the wire (15.2.5.16), which the kernel takes
 * for RDMA_OPTION_IB_PATH, and decodes it. MTU, rate and lifetime are written with the selector
 * "exactly".
 */
void sacache_path_encode(const struct sacache_path *path, uint8_t record[64]);
void sacache_path_decode(const uint8_t record[64], struct sacache_path *path);

/*
 * The GID of an IP address: from the IPoIB neighbour table of this network namespace, which is read
 * from the kernel each time, then from the hosts file that sacache_hosts_load() has read. -ENODATA:
 * it is in neither.
 */
int sacache_ip_to_gid(struct sacache *cache, const struct sockaddr *addr, uint8_t gid[16]);
/* From the hosts file alone, in memory: for a caller that knows the neighbours itself. -ENODATA. */
int sacache_hosts_lookup(struct sacache *cache, const struct sockaddr *addr, uint8_t gid[16]);
/*
 * Reads a hosts file in ibacm's format, "address GID" in each line, # begins a comment. It replaces
 * the one read before. Errors of open(); -EINVAL, nothing is changed and *line is the line;
 * -ENOMEM.
 */
int sacache_hosts_load(struct sacache *cache, const char *path, unsigned *line);

/* The result of saving or loading records. */
struct sacache_state {
	uint64_t records; /* written, or added to the table */
	uint64_t
		ask_again; /* of these, to be queried again: the port's LID or the SM has changed */
	/* Of other ports (saved: kept in the file), or older than the table's. */
	uint64_t skipped;
	int64_t when;	  /* it was written: seconds since 1970 */
	char problem[80]; /* -EBADMSG: the error in words, "it is cut off" */
	char aside[256];  /* -EBADMSG: its new name; "": it could not be renamed */
};

/*
 * Writes the records of all open ports to a file, for a warm start. It is written to a new file
 * (".new") that replaces the old one when it is complete and on the disk. So there is never half a
 * file, even if the disk is full, the process is killed or the machine fails. Takes as long as the
 * disk does; changes of the table wait only while some entries are copied. report may be NULL.
 * Errors of open(), write() and rename(), the old file is unchanged; -EBUSY: another process or
 * thread is saving to it; -ENODEV: no port is open; -ENOMEM. Where files may be limited in size
 * (RLIMIT_FSIZE) SIGXFSZ must be ignored.
 *
 * The file keeps the records of other ports, identified by their GUIDs, for 30 days after they were
 * last open, of as many ports as there is room for beside the open ones, and max_entries records.
 */
int sacache_save(struct sacache *cache, const char *path, struct sacache_state *report,
		 size_t size);
/* The same for some open ports (bit N: port N): the file keeps the records of the others. */
int sacache_save_ports(struct sacache *cache, uint32_t ports, const char *path,
		       struct sacache_state *report, size_t size);

/*
 * Adds the records of such a file for the ports that are open, identified by port GUID and subnet
 * prefix. If the port's LID or its SM's has changed, or the SM's GUID as far as notices report it,
 * each record is queried again when it is used. Caching is on afterwards if it was. Entries of the
 * table are kept. -EBADMSG: the file is damaged, of another format, or all of these ports were in
 * another subnet: the table is unchanged, the file has been renamed (".bad") and report has the
 * reason; errors of open() and read(), -EINVAL (not a regular file), -ENODEV (no port is open): the
 * file is unchanged; -ENOMEM: some were loaded.
 */
int sacache_load(struct sacache *cache, const char *path, struct sacache_state *report,
		 size_t size);
/* The same for some open ports (bit N: port N), for instance those opened since. */
int sacache_load_ports(struct sacache *cache, uint32_t ports, const char *path,
		       struct sacache_state *report, size_t size);

/* The result of importing a dump of paths. */
struct sacache_import {
	uint64_t records;     /* added to the table, one for each path and mask */
	uint64_t skipped;     /* the table has its own */
	uint64_t unreachable; /* marked as unreachable */
	uint64_t unknown;     /* LIDs that are no port's base LID in the file */
	unsigned line;	      /* -EINVAL: the line */
	char problem[80];     /* -EINVAL: the error */
};

/*
 * Adds the paths from a port that a dump of OpenSM's has, in the format that ibacm calls
 * opensm_full_v1 (opensm-path-records.dump of OpenSM's plugin dump_pr), once for each mask of later
 * keys: of SACACHE_DGID, _SGID, _DLID, _SLID, _PKEY, _SL. The dump has no P_Key and no lifetime;
 * the default partition, if the port is in it, and OpenSM's 18 are used. With the policy auto the
 * paths are used once the SM has switched caching on. Entries of the table are kept. -EINVAL: a
 * mask, or a malformed file: then report has the place and nothing was added; -ENXIO: the port is
 * not in the file; -ESTALE: it has another LID there; -ENETDOWN: it has none yet; -ENODEV (no such
 * port), -ENOMEM, errors of open() and read(). report may be NULL.
 */
int sacache_import(struct sacache *cache, unsigned port, const char *path, const uint32_t *masks,
		   unsigned nmasks, struct sacache_import *report, size_t size);

/* Progress, or the result. */
struct sacache_prefetch {
	uint64_t wanted;   /* destinations */
	uint64_t answered; /* by the SA */
	uint64_t present;  /* in the table already: not queried */
	uint64_t failed;
	bool by_table; /* by GetTable */
};

struct sacache_prefetch_attr {
	size_t size; /* of this structure as the program knows it */
	unsigned port;
	const uint8_t (*gids)[16]; /* destinations; NULL: all */
	size_t count;
	const uint32_t *masks; /* masks of later keys, as with sacache_import() */
	unsigned nmasks;       /* 1 … 16 */
	/* Called in this thread from time to time; other than 0 ends it. May be NULL. size: of
	 * so_far, as the library knows it. */
	int (*progress)(void *arg, const struct sacache_prefetch *so_far, size_t size);
	void *arg;
};

/*
 * Queries the SA ahead for the paths from a port, and waits: all of them by one GetTable or, if
 * that has no answer (in 10 s), by a Get for each GID in the hosts file or the table. At most half
 * of the window is used, within the rate limit, so that other queries are not delayed. Paths in the
 * table are not queried, and those that are to be queried again are: after client re-register one
 * GetTable thus replaces a query for each. report may be NULL. -EOPNOTSUPP: answers are not stored
 * (policy never; auto, and the SM does not raise the field); -ETIMEDOUT: the SA does not answer;
 * -ECANCELED: by progress, or the port was closed; -ENODEV (no such port), -EINVAL (a mask),
 * -ENOMEM.
 */
int sacache_prefetch(struct sacache *cache, const struct sacache_prefetch_attr *attr,
		     struct sacache_prefetch *report, size_t size);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
