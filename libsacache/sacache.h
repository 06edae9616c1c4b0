/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libsacache: path records of an InfiniBand subnet, kept at the end node, so that a peer that comes
 * back costs the subnet administrator (SA) nothing. After "System and method for supporting subnet
 * management in a cloud environment" (Oracle) and Tasoulas et al., "A Novel Query Caching Scheme
 * for Dynamic InfiniBand Subnets" (CCGrid 2015); PathRecord and SubnAdm methods are those of IBTA
 * vol. 1, chapter 15, RMPP that of 13.6.
 *
 * The method: the table starts empty and caching is off. A path response whose reserved field the
 * SM has raised switches caching on and is stored; one with the field at 0 is used and not stored.
 * Whoever connects looks in the table first; a miss, or caching being off, asks the SA.
 *
 *   program ──► sacache_lookup ──hit──► path			some 30 ns, never waits
 *      └──────► sacache_resolve ─miss─► SA client ──MADs──► SA	one query for all who wait for a key
 *
 * Numbers are in host byte order, GIDs are the 16 bytes as on the wire, times are in milliseconds.
 * Functions return 0 or a negative errno. Any thread may call any function at any time unless said
 * otherwise. sacache_lookup() takes no lock (RCU); the others may wait for a mutex, and those that
 * change the table now and then for a grace period. None may be called from a signal handler.
 *
 * Structures that grow with the library, attributes and reports, come with their size in the
 * program's eyes: a member that only one of the two knows is 0 for the other. struct sacache_key
 * and sacache_path stay as they are.
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

/* Which components of a key count; what is not named is a wildcard (15.2.5.16). */
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
 * What a path is asked for by. Two keys are the same if port and mask are, and all components in
 * the mask. A mask with neither SACACHE_DGID nor SACACHE_DLID finds and asks nothing: -EINVAL.
 * Where the source is a wildcard the SA is asked for paths from the port that asks.
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
	uint8_t port; /* as sacache_port_open() numbered it: ports may be in different subnets */
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
	uint8_t reserved[6]; /* raised by an SM that takes part in the method */
};

enum sacache_policy {
	SACACHE_AUTO,	/* the method: the SM says by the reserved field whether to cache */
	SACACHE_ALWAYS, /* cache whatever the SA answers: for an SM that does not raise the field */
	SACACHE_NEVER,	/* ask every time */
};

struct sacache_attr {
	size_t size; /* of this structure, as sacache_attr_init() sets it */
	enum sacache_policy policy;
	bool drop;		/* forget a record at the first failure instead of suspecting it */
	uint32_t max_entries;	/* 1 … 2^24; beyond, an entry makes room, failed ones first */
	uint32_t negative;	/* how long a failure is remembered; 0: not at all */
	unsigned suspect_limit; /* failures after which a record is asked for again; 1 … 15 */
	uint32_t suspect_backoff; /* the second failure counts after this time, the next after twice
				     it, and so on: 1 … 3,600,000 */
	/* Towards the SA, for each port. */
	unsigned window; /* queries under way; 1 … 256 */
	unsigned rate;	 /* queries a second, retries included; 0: no limit */
	unsigned queue;	 /* queries that wait for the window; beyond: -EAGAIN; 1 … 2^20 */
	uint32_t response_timeout; /* of the first try; doubles, with a random part; 10 … 60,000 */
	unsigned retries;	   /* 0 … 15 */
	uint32_t max_records;	   /* of one GetTable answer; 1 … 2^20 */
	/*
	 * How often the subscription to the SA's notices is looked after (see enum sacache_event),
	 * not below 100; up to 86,400,000; 0, the default: none is made. One program on a port can
	 * have the SA's reports, and each subscriber is one more report to send for the SM, so this
	 * is for sacached, or for the one service of a host that has no sacached.
	 */
	uint32_t notices;
	uint64_t seed; /* of all that is random here; 0: a seed from the system */
};

/*
 * Defaults: auto, 2^20 entries, failures remembered for 1 s, asked again after 4 failures that are
 * 500 ms, 1 s, 2 s apart; window 64, no rate limit, 65,536 waiting, 1 s and 4 retries, 65,536
 * records.
 */
void sacache_attr_init(struct sacache_attr *attr);

/* Makes an empty cache; attr NULL: the defaults. -EINVAL (out of range), -ENOMEM. */
int sacache_create(const struct sacache_attr *attr, struct sacache **cache);
/* Closes the ports, too. No other thread may be using the cache. */
void sacache_destroy(struct sacache *cache);

/*
 * Looks in the table and nowhere else. 0: *path is filled in. -ENOENT: not there, or caching is
 * off; -ESTALE: there, but to be asked for again before use; -EINVAL: the key. Any other error is
 * that of a query of late which is still remembered: -EHOSTUNREACH (the SA knows no such path),
 * -ETIMEDOUT, -EIO.
 */
int sacache_lookup(struct sacache *cache, const struct sacache_key *key, struct sacache_path *path);

/*
 * Looks in the table, and asks the SA for what is not there. timeout is for the caller's wait (-1:
 * until the query ends by its own timers); -ETIMEDOUT then, while the query goes on for the table's
 * sake. Further errors: -EHOSTUNREACH, -EAGAIN (too many wait), -ENODEV (no such port), -EPROTO (a
 * malformed answer, or one to another question), -EBUSY (to the last try too), -EPERM (denied),
 * -EIO, -ECANCELED (port closed).
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
 * The same past the table: the SA is asked, whatever the table says, and its answer is stored as
 * any. Always -EINPROGRESS, or an error and done is not called.
 */
int sacache_query_sa(struct sacache *cache, const struct sacache_key *key, sacache_done done,
		     void *arg);

/*
 * Every path for a key, by SubnAdmGetTable; past the table and not stored in it. A key without a
 * destination asks for the paths to all there is. *count says how many fit into paths at the call,
 * and then how many there were; -ENOSPC if that is more, -EFBIG beyond max_records.
 */
int sacache_query_table(struct sacache *cache, const struct sacache_key *key,
			struct sacache_path *paths, size_t *count, int timeout);

/*
 * A connection over the path for key was lost, rejected or timed out. The record stays and becomes
 * suspect, for a machine that moves comes back with the same addresses; after suspect_limit
 * failures that are spread by backoff it is asked for again. With `drop` it is forgotten. -ENOENT:
 * not there.
 */
int sacache_failed(struct sacache *cache, const struct sacache_key *key);
/* A connection over that path works: the suspicion is over. -ENOENT: not there. */
int sacache_connected(struct sacache *cache, const struct sacache_key *key);

/*
 * What happens in a port's subnet, and what it does to the table. The library hears of it by
 * itself: a port says it by libibverbs' asynchronous events, or where libibverbs does not have the
 * port, by its PortInfo, which is read every 2 s; and with sacache_attr.notices the SA reports it
 * (13.4.8; after SubnAdmSet(InformInfo), 15.2.5.12). A program that learns of it elsewhere calls
 * sacache_event().
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
 *	the port comes up		nothing, but the subscription is made again, and the SM looked at
 *
 * Not subscribed to: multicast groups (66, 67), which no path depends on; bad keys (256 …), which
 * the SA tells nobody who is not trusted; a new system image GUID (145), which no path record
 * contains.
 */
enum sacache_event {
	SACACHE_GID_OUT,    /* records to this GID become suspect, once (with `drop`: go) */
	SACACHE_GID_IN,	    /* nothing is forgotten; failures remembered for it are */
	SACACHE_LID_CHANGE, /* that GID has another LID: its records are asked for again */
	SACACHE_NEW_SM,	    /* all records of the port are asked for again, each when it is used */
	SACACHE_REREGISTER, /* client re-register: the same */
	SACACHE_LINK_CHANGE, /* a link somewhere came or went: all failures remembered are forgotten */
};
/*
 * Something happened in the subnet of that port; gid may be NULL with all but the first three.
 * -EINVAL.
 */
int sacache_event(struct sacache *cache, unsigned port, enum sacache_event event,
		  const uint8_t gid[16]);

/*
 * Puts a record in as if the SA had answered key with it, whatever the policy (a warm start).
 * -EINVAL: it answers another key; -ENOMEM.
 */
int sacache_store(struct sacache *cache, const struct sacache_key *key,
		  const struct sacache_path *path);

/* Forgets; a gid or lid that is not NULL or 0 restricts it. Returns how many. */
int sacache_flush(struct sacache *cache, const uint8_t *gid, uint16_t lid);

enum sacache_entry_flags {
	SACACHE_SUSPECT = 1 << 0,
	SACACHE_ASK_AGAIN = 1 << 1,
	SACACHE_NEGATIVE = 1 << 2,
};
/*
 * Calls fn for every entry; flags are enum sacache_entry_flags. fn must not call this library and
 * must be quick: changes wait. Ends when fn returns other than 0 and returns that.
 */
typedef int (*sacache_visit)(void *arg, const struct sacache_key *key,
			     const struct sacache_path *path, unsigned flags);
int sacache_walk(struct sacache *cache, sacache_visit fn, void *arg);
/*
 * A part of them, for who may not keep changes waiting that long: up to so many from *at on, which
 * is 0 at first and moves. Returns how many; 0: that was all. What comes or goes between two parts
 * may be missed.
 */
unsigned sacache_walk_part(struct sacache *cache, uint32_t *at, unsigned most, sacache_visit fn,
			   void *arg);

/* Counted since the cache was made. */
struct sacache_stats {
	uint64_t entries;	/* now, negative ones included */
	uint64_t bytes;		/* of memory the table takes for them now */
	uint64_t hits;		/* answered by the table, suspect records included */
	uint64_t negative_hits; /* answered by a failure that is remembered */
	/* Why the SA was asked: each query is in one of these. */
	uint64_t query_miss;	/* not in the table */
	uint64_t query_off;	/* caching is off (auto), or policy never */
	uint64_t query_suspect; /* failed too often */
	uint64_t query_changed; /* another LID, a new SM, re-register */
	uint64_t query_table;	/* sacache_query_table() */
	uint64_t query_past;	/* sacache_query_sa() */
	uint64_t coalesced;	/* waited for a query that was under way */
	/* What came of it. */
	uint64_t stored;
	uint64_t not_stored;	   /* the reserved field was 0 */
	uint64_t confirmed;	   /* asked again, and the same */
	uint64_t changed;	   /* asked again, and another */
	uint64_t failures_counted; /* that made a record suspect, or more so */
	uint64_t failures_ignored; /* within the backoff */
	uint64_t dropped;	   /* forgotten by `drop` */
	uint64_t evicted;	   /* made room */
	/* On the wire. */
	uint64_t sent;
	uint64_t retried;
	uint64_t received;
	uint64_t busy;
	uint64_t timeouts; /* queries that ended without an answer */
	uint64_t strays;   /* answers to nothing that is under way */
	uint64_t malformed;
	uint64_t foreign; /* answers that came from elsewhere than the SA: dropped */
	/* What the SA tells. */
	uint64_t notices_gid_in;    /* trap 64 */
	uint64_t notices_gid_out;   /* trap 65 */
	uint64_t notices_link;	    /* trap 128 */
	uint64_t notices_other;	    /* 144, and what was not asked for */
	uint64_t notices_repeated;  /* the SA sent it again, as our response was lost: no effect */
	uint64_t notices_malformed; /* dropped */
	uint64_t notices_forged;    /* not from the SA: dropped */
	uint64_t subscribed;	    /* subscriptions that the SA confirmed, renewals included */
	uint64_t refused;	    /* that it refused */
	uint64_t sm_restarts; /* its SM has begun to count anew, or is another at the same LID */
	/* What the port tells. */
	uint64_t sm_changes;  /* another SM's LID */
	uint64_t lid_changes; /* another LID of its own */
	uint64_t reregisters; /* client re-register */
	uint64_t port_downs;  /* it was active */
};
void sacache_stats(struct sacache *cache, struct sacache_stats *stats, size_t size);
/* Whether the SM of that port's subnet has switched caching on (auto), or the policy has. */
bool sacache_caching(struct sacache *cache, unsigned port);

/*
 * Opens a port for queries by libibumad and starts its thread; *port is the number for keys.
 * ca_name NULL, portnum 0: the first that is active. The SM's LID is looked up when it is opened
 * and when no answer came. -ENODEV (no such port), -ENOSPC, -EACCES (needs to open
 * /dev/infiniband/umadN).
 */
int sacache_port_open(struct sacache *cache, const char *ca_name, int portnum, unsigned *port);
/*
 * Queries under way end with -ECANCELED; records stay until the number is another port's, or the
 * same one's again, whose SM may have changed meanwhile. Not from a callback.
 */
int sacache_port_close(struct sacache *cache, unsigned port);

/*
 * A path as the 64 bytes of a PathRecord on the wire (15.2.5.16), which the kernel takes for
 * RDMA_OPTION_IB_PATH, and back. MTU, rate and lifetime are written with the selector "exactly".
 */
void sacache_path_encode(const struct sacache_path *path, uint8_t record[64]);
void sacache_path_decode(const uint8_t record[64], struct sacache_path *path);

/*
 * The GID behind an IP address: the IPoIB neighbour table of this network namespace, which the
 * kernel is asked for each time, then the hosts file that sacache_hosts_load() has read. -ENODATA:
 * neither knows.
 */
int sacache_ip_to_gid(struct sacache *cache, const struct sockaddr *addr, uint8_t gid[16]);
/* By the hosts file alone, in memory: for who knows the neighbours himself. -ENODATA. */
int sacache_hosts_lookup(struct sacache *cache, const struct sockaddr *addr, uint8_t gid[16]);
/*
 * Reads a hosts file of ibacm's format, "address GID" in each line, # begins a comment, in place of
 * what was read before. Errors of open(); -EINVAL, nothing is changed and *line says where;
 * -ENOMEM.
 */
int sacache_hosts_load(struct sacache *cache, const char *path, unsigned *line);

/* What became of a file of records. */
struct sacache_state {
	uint64_t records;   /* written, or put into the table */
	uint64_t ask_again; /* of these, to be asked for again: our LID or the SM is another now */
	/* Of other ports (saved: kept in the file), or the table had something newer. */
	uint64_t skipped;
	int64_t when;	  /* it was written: seconds since 1970 */
	char problem[80]; /* -EBADMSG: what is wrong with it, "it is cut off" */
	char aside[256];  /* -EBADMSG: the name it has now; "": it could not be renamed */
};

/*
 * Writes the records of all open ports to a file, for a warm start. It is written beside the old
 * one (".new") and takes its place when it is whole and on the disk: at no time is there half a
 * file, whether the disk is full, the process is killed or the machine fails. May take as long as
 * the disk does; changes of the table wait only while some entries are copied. report may be NULL.
 * Errors of open(), write() and rename(), the old file is as it was; -EBUSY: another process or
 * thread is saving to it; -ENODEV: no port is open, thus there is nothing to say about any;
 * -ENOMEM. Where files may be limited in size (RLIMIT_FSIZE) SIGXFSZ has to be ignored.
 *
 * What the file has of other ports, known by their GUIDs, stays in it: for 30 days after they were
 * open, of as many ports as the file has room for beside those that are, and max_entries records.
 */
int sacache_save(struct sacache *cache, const char *path, struct sacache_state *report,
		 size_t size);
/* The same of some open ports (bit N: port N), so that one that was not loaded yet keeps what is in
 * the file. */
int sacache_save_ports(struct sacache *cache, uint32_t ports, const char *path,
		       struct sacache_state *report, size_t size);

/*
 * Puts the records of such a file into the table, those of ports that are open, which are known by
 * port GUID and subnet prefix. Where the port's own LID or that of its SM is another now, or the
 * SM's GUID as far as notices tell it, each record is asked for again when it is used. Caching is
 * on afterwards where it was. What the table has already is kept. -EBADMSG: the file is damaged,
 * none of ours, or these ports were all in another subnet: the table is as it was, the file has
 * been renamed (".bad") and report says why; errors of open() and read(), -EINVAL (not a regular
 * file), -ENODEV (no port is open): the file is left alone; -ENOMEM: some were loaded.
 */
int sacache_load(struct sacache *cache, const char *path, struct sacache_state *report,
		 size_t size);
/* The same for some open ports (bit N: port N): those that have come since, say. */
int sacache_load_ports(struct sacache *cache, uint32_t ports, const char *path,
		       struct sacache_state *report, size_t size);

/* What became of a dump of paths. */
struct sacache_import {
	uint64_t records;     /* put into the table, one for each path and mask */
	uint64_t skipped;     /* the table has its own */
	uint64_t unreachable; /* said to be so */
	uint64_t unknown;     /* LIDs that are no port's base LID in the file */
	unsigned line;	      /* -EINVAL: where */
	char problem[80];     /* -EINVAL: what */
};

/*
 * Puts the paths from a port into the table that a dump of OpenSM's has, the format that ibacm
 * calls opensm_full_v1 (opensm-path-records.dump of OpenSM's plugin dump_pr), each once for each
 * mask, by which it will be asked for: of SACACHE_DGID, _SGID, _DLID, _SLID, _PKEY, _SL. The dump
 * has no P_Key and no lifetime; they are the default partition's, if the port is in it, and
 * OpenSM's 18. With the policy auto they answer when the SM has switched caching on. What the table
 * has is kept. -EINVAL: a mask, or the file is none such, then report says where and nothing was
 * put in; -ENXIO: the port is not in the file; -ESTALE: it has another LID there; -ENETDOWN: it has
 * none yet; -ENODEV (no such port), -ENOMEM, errors of open() and read(). report may be NULL.
 */
int sacache_import(struct sacache *cache, unsigned port, const char *path, const uint32_t *masks,
		   unsigned nmasks, struct sacache_import *report, size_t size);

/* How far it is, or how far it came. */
struct sacache_prefetch {
	uint64_t wanted;   /* destinations */
	uint64_t answered; /* by the SA */
	uint64_t present;  /* the table had them: not asked for */
	uint64_t failed;
	bool by_table; /* by GetTable */
};

struct sacache_prefetch_attr {
	unsigned port;
	const uint8_t (*gids)[16]; /* to whom; NULL: to all there is */
	size_t count;
	const uint32_t *masks; /* by what they will be asked for, as with sacache_import() */
	unsigned nmasks;       /* 1 … 16 */
	/* Called in this thread now and then; other than 0 ends it. May be NULL. */
	int (*progress)(void *arg, const struct sacache_prefetch *so_far);
	void *arg;
};

/*
 * Asks the SA ahead for the paths from a port, and waits. All of them by one GetTable; where that
 * has no answer (in 10 s) by a Get for each GID that the hosts file or the table names. At most
 * half of the window is used, within the limit of queries a second, so that nobody who needs a path
 * waits behind it. What the table has is not asked for. report may be NULL. -EOPNOTSUPP: answers
 * are not kept (policy never; auto, and the SM does not raise the field); -ETIMEDOUT: the SA does
 * not answer; -ECANCELED: progress said so, or the port was closed; -ENODEV (no such port), -EINVAL
 * (a mask), -ENOMEM.
 */
int sacache_prefetch(struct sacache *cache, const struct sacache_prefetch_attr *attr,
		     struct sacache_prefetch *report, size_t size);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
