/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What inbandd remembers from one life to the next, in a database of SQLite: events, which alarms
 * somebody has acknowledged, who has changed what, networks as they were (baselines), and ports
 * that scans are not to name. Without a file it is in memory, and remembers until the process ends.
 *
 * Events and so on are written together, every STORE_MS; audit and baselines at once. A disk that
 * fails is said once; the daemon goes on without it. The loop's thread.
 */
#ifndef INBANDD_STORE_H
#define INBANDD_STORE_H

#include <event2/event.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

#define STORE_MS 500

struct store;

/* path: "": in memory. days: how long events and audit are kept; 0: for ever. -EIO, -ENOMEM: with a
 * line in the log. */
int store_open(struct event_base *base, const char *path, unsigned days, struct store **store);
void store_close(struct store *store);

void store_event(struct store *store, const char *name, struct json_object *event);
/* The latest `count`, the last first; name, NULL: all; of alarms alone. */
struct json_object *store_events(struct store *store, const char *name, unsigned count);

/* What a kind of alarm at a place has been acknowledged by; an alarm that is over is forgotten. */
void store_acknowledge(struct store *store, const char *kind, const char *at, const char *who);
void store_forget(struct store *store, const char *kind, const char *at);
bool store_acknowledged(struct store *store, const char *kind, const char *at);

/* A line of the audit, and later what came of it. 0: there is none. */
int64_t store_audit(struct store *store, const char *who, struct json_object *request);
void store_audited(struct store *store, int64_t line, const char *outcome);
struct json_object *store_audits(struct store *store, unsigned count);

/* 0, -EIO. An older one of that name is replaced. */
int store_baseline(struct store *store, const char *name, const void *dump, size_t length);
/* To be freed; NULL: there is none of that name. */
char *store_baseline_get(struct store *store, const char *name, size_t *length);
struct json_object *store_baselines(struct store *store);
bool store_baseline_drop(struct store *store, const char *name);

void store_suppress(struct store *store, const char *port, const char *who, const char *why);
bool store_unsuppress(struct store *store, const char *port);
bool store_is_suppressed(struct store *store, const char *port);
struct json_object *store_suppressed(struct store *store);

#endif
