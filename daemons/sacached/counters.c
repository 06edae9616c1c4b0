/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The counters of the cache and of the daemon's modules. Every member of struct sacache_stats has a
 * row here; a new member needs one.
 */
#include "daemons/sacached/counters.h"
#include "daemons/sacached/acm_answer.h"
#include "daemons/sacached/netlink.h"
#include "daemons/sacached/warm.h"

static const struct counter cache[] = {
	{COUNTER(struct sacache_stats, entries), "entries", "sacache_entries",
	 .help = "Entries in the table, remembered failures included.", .gauge = true},
	{COUNTER(struct sacache_stats, bytes), "bytes", "sacache_table_bytes",
	 .help = "Memory that the table takes for its entries.", .gauge = true},
	{COUNTER(struct sacache_stats, hits), "hits", "sacache_lookups_answered_total",
	 "{result=\"path\"}", "Lookups that the table answered."},
	{COUNTER(struct sacache_stats, negative_hits), "negative_hits",
	 "sacache_lookups_answered_total", "{result=\"failure\"}"},
	{COUNTER(struct sacache_stats, query_miss), "query_miss", "sacache_queries_total",
	 "{reason=\"miss\"}", "Questions to the SA, by why the table could not answer."},
	{COUNTER(struct sacache_stats, query_off), "query_off", "sacache_queries_total",
	 "{reason=\"off\"}"},
	{COUNTER(struct sacache_stats, query_suspect), "query_suspect", "sacache_queries_total",
	 "{reason=\"suspect\"}"},
	{COUNTER(struct sacache_stats, query_changed), "query_changed", "sacache_queries_total",
	 "{reason=\"changed\"}"},
	{COUNTER(struct sacache_stats, query_table), "query_table", "sacache_queries_total",
	 "{reason=\"table\"}"},
	{COUNTER(struct sacache_stats, query_past), "query_past", "sacache_queries_total",
	 "{reason=\"past_table\"}"},
	{COUNTER(struct sacache_stats, coalesced), "coalesced", "sacache_queries_coalesced_total",
	 .help = "Lookups that waited for a question that was under way."},
	{COUNTER(struct sacache_stats, stored), "stored", "sacache_answers_total",
	 "{result=\"stored\"}", "Answers of the SA, by what became of them."},
	{COUNTER(struct sacache_stats, not_stored), "not_stored", "sacache_answers_total",
	 "{result=\"not_stored\"}"},
	{COUNTER(struct sacache_stats, confirmed), "confirmed", "sacache_answers_total",
	 "{result=\"confirmed\"}"},
	{COUNTER(struct sacache_stats, changed), "changed", "sacache_answers_total",
	 "{result=\"changed\"}"},
	{COUNTER(struct sacache_stats, failures_counted), "failures_counted",
	 "sacache_failures_total", "{result=\"counted\"}",
	 "Connections that failed, by whether that made a record more suspect."},
	{COUNTER(struct sacache_stats, failures_ignored), "failures_ignored",
	 "sacache_failures_total", "{result=\"ignored\"}"},
	{COUNTER(struct sacache_stats, dropped), "dropped", "sacache_removed_total",
	 "{reason=\"drop\"}", "Records that were forgotten."},
	{COUNTER(struct sacache_stats, evicted), "evicted", "sacache_removed_total",
	 "{reason=\"evicted\"}"},
	{COUNTER(struct sacache_stats, sent), "sent", "sacache_mads_sent_total", "{kind=\"first\"}",
	 "Questions that went out on the wire, retries included."},
	{COUNTER(struct sacache_stats, retried), "retried", "sacache_mads_sent_total",
	 "{kind=\"retry\"}"},
	{COUNTER(struct sacache_stats, received), "received", "sacache_mads_received_total",
	 .help = "MADs that came, whatever they were."},
	{COUNTER(struct sacache_stats, busy), "busy", "sacache_busy_answers_total",
	 .help = "Answers by which the SA said that it was busy."},
	{COUNTER(struct sacache_stats, timeouts), "timeouts", "sacache_query_timeouts_total",
	 .help = "Questions that ended without an answer."},
	{COUNTER(struct sacache_stats, strays), "strays", "sacache_mads_dropped_total",
	 "{reason=\"stray\"}", "MADs that were dropped."},
	{COUNTER(struct sacache_stats, malformed), "malformed", "sacache_mads_dropped_total",
	 "{reason=\"malformed\"}"},
	{COUNTER(struct sacache_stats, foreign), "foreign", "sacache_mads_dropped_total",
	 "{reason=\"foreign\"}"},
	{COUNTER(struct sacache_stats, notices_gid_in), "notices_gid_in", "sacache_notices_total",
	 "{kind=\"gid_in_service\"}", "Notices from the SA."},
	{COUNTER(struct sacache_stats, notices_gid_out), "notices_gid_out", "sacache_notices_total",
	 "{kind=\"gid_out_of_service\"}"},
	{COUNTER(struct sacache_stats, notices_link), "notices_link", "sacache_notices_total",
	 "{kind=\"link_change\"}"},
	{COUNTER(struct sacache_stats, notices_other), "notices_other", "sacache_notices_total",
	 "{kind=\"other\"}"},
	{COUNTER(struct sacache_stats, notices_repeated), "notices_repeated",
	 "sacache_notices_total", "{kind=\"repeated\"}"},
	{COUNTER(struct sacache_stats, notices_malformed), "notices_malformed",
	 "sacache_notices_dropped_total", "{reason=\"malformed\"}", "Notices that were dropped."},
	{COUNTER(struct sacache_stats, notices_forged), "notices_forged",
	 "sacache_notices_dropped_total", "{reason=\"forged\"}"},
	{COUNTER(struct sacache_stats, subscribed), "subscribed", "sacache_subscriptions_total",
	 "{result=\"confirmed\"}", "Subscriptions to notices, renewals included."},
	{COUNTER(struct sacache_stats, refused), "refused", "sacache_subscriptions_total",
	 "{result=\"refused\"}"},
	{COUNTER(struct sacache_stats, sm_restarts), "sm_restarts", "sacache_sm_restarts_total",
	 .help = "The SM began to count anew."},
	{COUNTER(struct sacache_stats, sm_changes), "sm_changes", "sacache_port_events_total",
	 "{event=\"sm_change\"}", "Events of the ports."},
	{COUNTER(struct sacache_stats, lid_changes), "lid_changes", "sacache_port_events_total",
	 "{event=\"lid_change\"}"},
	{COUNTER(struct sacache_stats, reregisters), "reregisters", "sacache_port_events_total",
	 "{event=\"reregister\"}"},
	{COUNTER(struct sacache_stats, port_downs), "port_downs", "sacache_port_events_total",
	 "{event=\"down\"}"},
};
_Static_assert(sizeof(cache) / sizeof(cache[0]) == sizeof(struct sacache_stats) / sizeof(uint64_t),
	       "a counter of struct sacache_stats has no row here");

#define CLIENTS "sacached_clients"

static const struct counter clients[] = {
	{COUNTER(struct acm_stats, clients), "now", CLIENTS, .help = "Programs that are connected.",
	 .gauge = true},
	{COUNTER(struct acm_stats, accepted), "accepted", CLIENTS "_accepted_total",
	 .help = "Connections of programs."},
	{COUNTER(struct acm_stats, kept), "kept"},
	{COUNTER(struct acm_stats, dropped), "dropped", CLIENTS "_dropped_total",
	 .help = "Programs that were disconnected for what they sent."},
	{COUNTER(struct acm_stats, full), "full", CLIENTS "_full_total",
	 .help = "Times that there were too many programs to take another."},
};

#define REQUEST(number, name, ...)                                                            \
	{                                                                                     \
		COUNTER(struct acm_stats, requests[number]), name, "sacached_requests_total", \
			"{operation=\"" name "\"}", __VA_ARGS__                               \
	}

static const struct counter requests[] = {
	REQUEST(ACM_OP_RESOLVE, "resolve", "Requests of programs."),
	REQUEST(ACM_OP_PERF, "perf"),
	REQUEST(ACM_OP_EP, "ep"),
};
_Static_assert(sizeof(requests) / sizeof(requests[0]) == ACM_OPERATIONS,
	       "an operation has no row here");

#define ANSWER(number, name, ...)                                                           \
	{                                                                                   \
		COUNTER(struct acm_stats, answers[number]), name, "sacached_answers_total", \
			"{status=\"" name "\"}", __VA_ARGS__                                \
	}

static const struct counter answers[] = {
	ANSWER(ACM_SUCCESS, "success", "Answers to programs, by their status."),
	ANSWER(ACM_ENOMEM, "no_memory"),
	ANSWER(ACM_EINVAL, "invalid"),
	ANSWER(ACM_ENODATA, "no_data"),
	ANSWER(ACM_ENOTCONN, "not_connected"),
	ANSWER(ACM_ETIMEDOUT, "timed_out"),
	ANSWER(ACM_ESRCADDR, "source_address"),
	ANSWER(ACM_ESRCTYPE, "source_type"),
	ANSWER(ACM_EDESTADDR, "destination_address"),
	ANSWER(ACM_EDESTTYPE, "destination_type"),
};

#define KERNEL "sacached_kernel"

static const struct counter kernel[] = {
	{COUNTER(struct netlink_stats, listening), "listening", KERNEL "_listening",
	 .help = "Whether the daemon answers the kernel's questions.", .gauge = true},
	{COUNTER(struct netlink_stats, paths), "paths", KERNEL "_questions_total",
	 "{what=\"path\"}", "Questions of the kernel."},
	{COUNTER(struct netlink_stats, addresses), "addresses", KERNEL "_questions_total",
	 "{what=\"address\"}"},
	{COUNTER(struct netlink_stats, invalid), "invalid", KERNEL "_questions_total",
	 "{what=\"invalid\"}"},
	{COUNTER(struct netlink_stats, answered), "answered", KERNEL "_answers_total",
	 "{result=\"good\"}",
	 "What became of the kernel's questions; where it is no answer it asks the SA."},
	{COUNTER(struct netlink_stats, errors), "errors", KERNEL "_answers_total",
	 "{result=\"error\"}"},
	{COUNTER(struct netlink_stats, late), "late", KERNEL "_answers_total", "{result=\"late\"}"},
	{COUNTER(struct netlink_stats, overruns), "overruns", KERNEL "_overruns_total",
	 .help = "Times that the kernel asked faster than was read."},
};

#define STATE "sacached_state"

static const struct counter state[] = {
	{COUNTER(struct warm_status, started), NULL, "sacached_start_time_seconds",
	 .help = "When the daemon was started.", .gauge = true},
	{COUNTER(struct warm_status, loaded), "tried"},
	{COUNTER(struct warm_status, records), "loaded", STATE "_loaded_records",
	 .help = "Records that the state file had at the start.", .gauge = true},
	{COUNTER(struct warm_status, ask_again), "ask_again"},
	{COUNTER(struct warm_status, saved), "saved", STATE "_saved_records",
	 .help = "Records that were saved the last time.", .gauge = true},
	{COUNTER(struct warm_status, saved_at), "saved_at", STATE "_last_save_timestamp_seconds",
	 .help = "When the state was saved; 0: not since the start.", .gauge = true},
	{COUNTER(struct warm_status, saves), "saves", STATE "_saves_total", "{result=\"good\"}",
	 "Tries to save the state."},
	{COUNTER(struct warm_status, save_errors), "save_errors", STATE "_saves_total",
	 "{result=\"error\"}"},
	{COUNTER(struct warm_status, imported), "imported", "sacached_imported_records",
	 .help = "Records from OpenSM's dump of paths.", .gauge = true},
	{COUNTER(struct warm_status, prefetching), "prefetching"},
	{COUNTER(struct warm_status, prefetched), "prefetched", "sacached_prefetched_paths_total",
	 .help = "Paths that the SA was asked for ahead."},
};

#define TABLE(rows)                                  \
	{                                            \
		rows, sizeof(rows) / sizeof(rows[0]) \
	}

const struct counters counters_of_cache = TABLE(cache);
const struct counters counters_of_clients = TABLE(clients);
const struct counters counters_of_requests = TABLE(requests);
const struct counters counters_of_answers = TABLE(answers);
const struct counters counters_of_kernel = TABLE(kernel);
const struct counters counters_of_state = TABLE(state);
