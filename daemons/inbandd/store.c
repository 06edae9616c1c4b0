/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* See store.h. Each statement is prepared once, when it is needed first. */
#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/common/folder.h"
#include "daemons/common/json.h"
#include "daemons/common/log.h"
#include "daemons/inbandd/events.h"
#include "daemons/inbandd/store.h"

#define DAY_MS 86400000ll

static const char schema[] =
	"PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
	"CREATE TABLE IF NOT EXISTS event(id INTEGER PRIMARY KEY, ms INTEGER, name TEXT, text "
	"TEXT);"
	"CREATE INDEX IF NOT EXISTS event_name ON event(name, id);"
	"CREATE TABLE IF NOT EXISTS acknowledged(kind TEXT, at TEXT, ms INTEGER, who TEXT,"
	" PRIMARY KEY(kind, at));"
	"CREATE TABLE IF NOT EXISTS audit(id INTEGER PRIMARY KEY, ms INTEGER, who TEXT, request "
	"TEXT,"
	" outcome TEXT);"
	"CREATE TABLE IF NOT EXISTS baseline(name TEXT PRIMARY KEY, ms INTEGER, dump BLOB);"
	"CREATE TABLE IF NOT EXISTS suppressed(port TEXT PRIMARY KEY, ms INTEGER, who TEXT, why "
	"TEXT);"
	"PRAGMA user_version=1;";

enum statement {
	EVENT_PUT,
	EVENT_LIST,
	EVENT_LIST_NAMED,
	ACK_PUT,
	ACK_DROP,
	ACK_GET,
	AUDIT_PUT,
	AUDIT_END,
	AUDIT_LIST,
	BASELINE_PUT,
	BASELINE_GET,
	BASELINE_LIST,
	BASELINE_DROP,
	SUPPRESS_PUT,
	SUPPRESS_DROP,
	SUPPRESS_GET,
	SUPPRESS_LIST,
	STATEMENTS
};

static const char *const texts[STATEMENTS] = {
	[EVENT_PUT] = "INSERT INTO event(ms, name, text) VALUES(?1, ?2, ?3)",
	[EVENT_LIST] = "SELECT ms, name, text FROM event ORDER BY id DESC LIMIT ?1",
	[EVENT_LIST_NAMED] =
		"SELECT ms, name, text FROM event WHERE name = ?2 ORDER BY id DESC LIMIT ?1",
	[ACK_PUT] = "INSERT OR REPLACE INTO acknowledged(ms, kind, at, who) VALUES(?1, ?2, ?3, ?4)",
	[ACK_DROP] = "DELETE FROM acknowledged WHERE kind = ?2 AND at = ?3",
	[ACK_GET] = "SELECT who FROM acknowledged WHERE kind = ?2 AND at = ?3",
	[AUDIT_PUT] = "INSERT INTO audit(ms, who, request) VALUES(?1, ?2, ?3)",
	[AUDIT_END] = "UPDATE audit SET outcome = ?2 WHERE id = ?1",
	[AUDIT_LIST] = "SELECT ms, who, request, outcome FROM audit ORDER BY id DESC LIMIT ?1",
	[BASELINE_PUT] = "INSERT OR REPLACE INTO baseline(ms, name, dump) VALUES(?1, ?2, ?3)",
	[BASELINE_GET] = "SELECT dump FROM baseline WHERE name = ?2",
	[BASELINE_LIST] = "SELECT ms, name, length(dump) AS bytes FROM baseline ORDER BY name",
	[BASELINE_DROP] = "DELETE FROM baseline WHERE name = ?2",
	[SUPPRESS_PUT] =
		"INSERT OR REPLACE INTO suppressed(ms, port, who, why) VALUES(?1, ?2, ?3, ?4)",
	[SUPPRESS_DROP] = "DELETE FROM suppressed WHERE port = ?2",
	[SUPPRESS_GET] = "SELECT 1 FROM suppressed WHERE port = ?2",
	[SUPPRESS_LIST] = "SELECT ms, port, who, why FROM suppressed ORDER BY port",
};

struct store {
	sqlite3 *db;
	sqlite3_stmt *statements[STATEMENTS];
	struct event *timer;
	bool open, failed; /* a transaction is open; its failing has been said */
};

static bool bad(struct store *s, int ret)
{
	if (ret == SQLITE_OK || ret == SQLITE_ROW || ret == SQLITE_DONE)
		return false;
	if (!s->failed)
		log_error("database: %s; it is not written until that is mended",
			  sqlite3_errmsg(s->db));
	s->failed = true;
	return true;
}

static void commit(struct store *s)
{
	if (!s->open)
		return;
	s->open = false;
	if (bad(s, sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL)))
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	else
		s->failed = false;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	commit(arg);
}

/* Before a change: it is part of a transaction that ends soon. */
static void begin(struct store *s)
{
	static const struct timeval soon = {.tv_usec = STORE_MS * 1000};

	if (s->open || bad(s, sqlite3_exec(s->db, "BEGIN", NULL, NULL, NULL)))
		return;
	s->open = true;
	event_add(s->timer, &soon);
}

/* A statement with its texts bound, from ?2 on; NULL: it cannot be had. */
static sqlite3_stmt *prepare(struct store *s, enum statement which, const char *a, const char *b,
			     const char *c)
{
	const char *const text[] = {a, b, c};
	sqlite3_stmt *statement = s->statements[which];

	if (!statement && bad(s, sqlite3_prepare_v3(s->db, texts[which], -1,
						    SQLITE_PREPARE_PERSISTENT, &statement, NULL)))
		return NULL;
	s->statements[which] = statement;
	sqlite3_reset(statement);
	sqlite3_clear_bindings(statement);
	for (int i = 0; i < 3; i++)
		if (text[i])
			sqlite3_bind_text(statement, i + 2, text[i], -1, SQLITE_TRANSIENT);
	return statement;
}

/* Changes something, with the time as ?1. Whether it changed a row. */
static bool change(struct store *s, enum statement which, const char *a, const char *b,
		   const char *c)
{
	sqlite3_stmt *statement;

	begin(s);
	statement = prepare(s, which, a, b, c);
	if (!statement)
		return false;
	sqlite3_bind_int64(statement, 1, real_ms());
	if (bad(s, sqlite3_step(statement)))
		return false;
	sqlite3_reset(statement);
	return sqlite3_changes(s->db) > 0;
}

static bool exists(struct store *s, enum statement which, const char *a, const char *b)
{
	sqlite3_stmt *statement = prepare(s, which, a, b, NULL);
	bool found = statement && sqlite3_step(statement) == SQLITE_ROW;

	if (statement)
		sqlite3_reset(statement);
	return found;
}

/* All rows as objects: "ms" and further columns by their names. */
static struct json_object *list(struct store *s, sqlite3_stmt *statement)
{
	struct json_object *rows = json_object_new_array();

	while (statement && sqlite3_step(statement) == SQLITE_ROW) {
		struct json_object *row = json_object_new_object();

		for (int i = 0; i < sqlite3_column_count(statement); i++) {
			const char *key = sqlite3_column_name(statement, i);
			const char *text = (const char *)sqlite3_column_text(statement, i);

			if (sqlite3_column_type(statement, i) == SQLITE_INTEGER)
				json_add_number(row, key, sqlite3_column_int64(statement, i));
			else if (text)
				json_add_text(row, key, text);
		}
		json_object_array_add(rows, row);
	}
	if (statement)
		sqlite3_reset(statement);
	return rows;
}

static struct json_object *list_some(struct store *s, enum statement which, const char *name,
				     unsigned count)
{
	sqlite3_stmt *statement = prepare(s, which, name, NULL, NULL);

	if (statement)
		sqlite3_bind_int64(statement, 1, count);
	return list(s, statement);
}

static void drop_old(struct store *s, unsigned days)
{
	char text[128];

	if (!days)
		return;
	snprintf(text, sizeof(text),
		 "DELETE FROM event WHERE ms < %lld; DELETE FROM audit WHERE ms < %lld",
		 (long long)(real_ms() - days * DAY_MS), (long long)(real_ms() - days * DAY_MS));
	bad(s, sqlite3_exec(s->db, text, NULL, NULL, NULL));
}

int store_open(struct event_base *base, const char *path, unsigned days, struct store **made)
{
	struct store *s = calloc(1, sizeof(*s));
	int ret = s && *path ? folder_make(path, 0700, "") : 0;

	if (!s)
		return -ENOMEM;
	s->timer = evtimer_new(base, on_timer, s);
	if (!ret && sqlite3_open(*path ? path : ":memory:", &s->db))
		ret = -EIO;
	if (!ret) {
		sqlite3_busy_timeout(s->db, 1000);
		ret = sqlite3_exec(s->db, schema, NULL, NULL, NULL) ? -EIO : 0;
	}
	if (ret || !s->timer) {
		log_error("database %s: %s", path, s->db ? sqlite3_errmsg(s->db) : strerror(-ret));
		store_close(s);
		return ret ?: -ENOMEM;
	}
	drop_old(s, days);
	*made = s;
	return 0;
}

void store_close(struct store *s)
{
	if (!s)
		return;
	commit(s);
	for (unsigned i = 0; i < STATEMENTS; i++)
		sqlite3_finalize(s->statements[i]);
	sqlite3_close(s->db);
	if (s->timer)
		event_free(s->timer);
	free(s);
}

void store_event(struct store *s, const char *name, struct json_object *event)
{
	change(s, EVENT_PUT, name, json_object_to_json_string_ext(event, JSON_C_TO_STRING_PLAIN),
	       NULL);
}

struct json_object *store_events(struct store *s, const char *name, unsigned count)
{
	return list_some(s, name ? EVENT_LIST_NAMED : EVENT_LIST, name, count);
}

void store_acknowledge(struct store *s, const char *kind, const char *at, const char *who)
{
	change(s, ACK_PUT, kind, at, who);
}

void store_forget(struct store *s, const char *kind, const char *at)
{
	change(s, ACK_DROP, kind, at, NULL);
}

bool store_acknowledged(struct store *s, const char *kind, const char *at)
{
	return exists(s, ACK_GET, kind, at);
}

int64_t store_audit(struct store *s, const char *who, struct json_object *request)
{
	int64_t line = 0;

	if (change(s, AUDIT_PUT, who,
		   json_object_to_json_string_ext(request, JSON_C_TO_STRING_PLAIN), NULL))
		line = sqlite3_last_insert_rowid(s->db);
	commit(s);
	return line;
}

void store_audited(struct store *s, int64_t line, const char *outcome)
{
	sqlite3_stmt *statement;

	begin(s);
	statement = prepare(s, AUDIT_END, outcome, NULL, NULL);
	if (!statement)
		return;
	sqlite3_bind_int64(statement, 1, line);
	bad(s, sqlite3_step(statement));
	sqlite3_reset(statement);
}

struct json_object *store_audits(struct store *s, unsigned count)
{
	return list_some(s, AUDIT_LIST, NULL, count);
}

int store_baseline(struct store *s, const char *name, const void *dump, size_t length)
{
	sqlite3_stmt *statement;
	int ret;

	begin(s);
	statement = prepare(s, BASELINE_PUT, name, NULL, NULL);
	if (!statement)
		return -EIO;
	sqlite3_bind_int64(statement, 1, real_ms());
	sqlite3_bind_blob64(statement, 3, dump, length, SQLITE_STATIC);
	ret = bad(s, sqlite3_step(statement)) ? -EIO : 0;
	sqlite3_reset(statement);
	sqlite3_clear_bindings(statement);
	commit(s);
	return s->failed ? -EIO : ret;
}

char *store_baseline_get(struct store *s, const char *name, size_t *length)
{
	sqlite3_stmt *statement = prepare(s, BASELINE_GET, name, NULL, NULL);
	char *dump = NULL;

	if (statement && sqlite3_step(statement) == SQLITE_ROW) {
		const void *blob = sqlite3_column_blob(statement, 0);

		*length = sqlite3_column_bytes(statement, 0);
		dump = malloc(*length + 1);
		if (dump && *length)
			memcpy(dump, blob, *length);
	}
	if (statement)
		sqlite3_reset(statement);
	return dump;
}

struct json_object *store_baselines(struct store *s)
{
	return list(s, prepare(s, BASELINE_LIST, NULL, NULL, NULL));
}

bool store_baseline_drop(struct store *s, const char *name)
{
	return change(s, BASELINE_DROP, name, NULL, NULL);
}

void store_suppress(struct store *s, const char *port, const char *who, const char *why)
{
	change(s, SUPPRESS_PUT, port, who, why);
}

bool store_unsuppress(struct store *s, const char *port)
{
	return change(s, SUPPRESS_DROP, port, NULL, NULL);
}

bool store_is_suppressed(struct store *s, const char *port)
{
	return exists(s, SUPPRESS_GET, port, NULL);
}

struct json_object *store_suppressed(struct store *s)
{
	return list(s, prepare(s, SUPPRESS_LIST, NULL, NULL, NULL));
}
