/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The cache's counters by name. Every member of struct sacache_stats has a row: one that is new needs one.
 */
#include "daemons/sacached/counters.h"

#define ROW(member, metric, labels, help, gauge)                                             \
	{                                                                                    \
#member, metric, labels, help, offsetof(struct sacache_stats, member), gauge \
	}

const struct counter counters[] = {
	ROW(entries, "sacache_entries", "", "Entries in the table, remembered failures included.",
	    true),
	ROW(bytes, "sacache_table_bytes", "", "Memory that the table takes for its entries.", true),
	ROW(hits, "sacache_lookups_answered_total", "{result=\"path\"}",
	    "Lookups that the table answered.", false),
	ROW(negative_hits, "sacache_lookups_answered_total", "{result=\"failure\"}", NULL, false),
	ROW(query_miss, "sacache_queries_total", "{reason=\"miss\"}",
	    "Questions to the SA, by why the table could not answer.", false),
	ROW(query_off, "sacache_queries_total", "{reason=\"off\"}", NULL, false),
	ROW(query_suspect, "sacache_queries_total", "{reason=\"suspect\"}", NULL, false),
	ROW(query_changed, "sacache_queries_total", "{reason=\"changed\"}", NULL, false),
	ROW(query_table, "sacache_queries_total", "{reason=\"table\"}", NULL, false),
	ROW(query_past, "sacache_queries_total", "{reason=\"past_table\"}", NULL, false),
	ROW(coalesced, "sacache_queries_coalesced_total", "",
	    "Lookups that waited for a question that was under way.", false),
	ROW(stored, "sacache_answers_total", "{result=\"stored\"}",
	    "Answers of the SA, by what became of them.", false),
	ROW(not_stored, "sacache_answers_total", "{result=\"not_stored\"}", NULL, false),
	ROW(confirmed, "sacache_answers_total", "{result=\"confirmed\"}", NULL, false),
	ROW(changed, "sacache_answers_total", "{result=\"changed\"}", NULL, false),
	ROW(failures_counted, "sacache_failures_total", "{result=\"counted\"}",
	    "Connections that failed, by whether that made a record more suspect.", false),
	ROW(failures_ignored, "sacache_failures_total", "{result=\"ignored\"}", NULL, false),
	ROW(dropped, "sacache_removed_total", "{reason=\"drop\"}", "Records that were forgotten.",
	    false),
	ROW(evicted, "sacache_removed_total", "{reason=\"evicted\"}", NULL, false),
	ROW(sent, "sacache_mads_sent_total", "{kind=\"first\"}",
	    "Questions that went out on the wire, retries included.", false),
	ROW(retried, "sacache_mads_sent_total", "{kind=\"retry\"}", NULL, false),
	ROW(received, "sacache_mads_received_total", "", "MADs that came, whatever they were.",
	    false),
	ROW(busy, "sacache_busy_answers_total", "",
	    "Answers by which the SA said that it was busy.", false),
	ROW(timeouts, "sacache_query_timeouts_total", "", "Questions that ended without an answer.",
	    false),
	ROW(strays, "sacache_mads_dropped_total", "{reason=\"stray\"}", "MADs that were dropped.",
	    false),
	ROW(malformed, "sacache_mads_dropped_total", "{reason=\"malformed\"}", NULL, false),
	ROW(foreign, "sacache_mads_dropped_total", "{reason=\"foreign\"}", NULL, false),
	ROW(notices_gid_in, "sacache_notices_total", "{kind=\"gid_in_service\"}",
	    "Notices from the SA.", false),
	ROW(notices_gid_out, "sacache_notices_total", "{kind=\"gid_out_of_service\"}", NULL, false),
	ROW(notices_link, "sacache_notices_total", "{kind=\"link_change\"}", NULL, false),
	ROW(notices_other, "sacache_notices_total", "{kind=\"other\"}", NULL, false),
	ROW(notices_repeated, "sacache_notices_total", "{kind=\"repeated\"}", NULL, false),
	ROW(notices_malformed, "sacache_notices_dropped_total", "{reason=\"malformed\"}",
	    "Notices that were dropped.", false),
	ROW(notices_forged, "sacache_notices_dropped_total", "{reason=\"forged\"}", NULL, false),
	ROW(subscribed, "sacache_subscriptions_total", "{result=\"confirmed\"}",
	    "Subscriptions to notices, renewals included.", false),
	ROW(refused, "sacache_subscriptions_total", "{result=\"refused\"}", NULL, false),
	ROW(sm_restarts, "sacache_sm_restarts_total", "", "The SM began to count anew.", false),
	ROW(sm_changes, "sacache_port_events_total", "{event=\"sm_change\"}",
	    "What the ports told.", false),
	ROW(lid_changes, "sacache_port_events_total", "{event=\"lid_change\"}", NULL, false),
	ROW(reregisters, "sacache_port_events_total", "{event=\"reregister\"}", NULL, false),
	ROW(port_downs, "sacache_port_events_total", "{event=\"down\"}", NULL, false),
};
_Static_assert(sizeof(counters) / sizeof(counters[0]) ==
		       sizeof(struct sacache_stats) / sizeof(uint64_t),
	       "a counter of struct sacache_stats has no row here");

const unsigned counters_count = sizeof(counters) / sizeof(counters[0]);
