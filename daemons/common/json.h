/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * JSON objects: members added to an answer, members read from a request. json-c's functions take
 * NULL for an object that there was no memory for, and so do these. Any thread.
 */
#ifndef DAEMON_JSON_H
#define DAEMON_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include <json-c/json.h>

void json_add(struct json_object *to, const char *key, struct json_object *value);
void json_add_number(struct json_object *to, const char *key, uint64_t value);
void json_add_text(struct json_object *to, const char *key, const char *value);
void json_add_bool(struct json_object *to, const char *key, bool value);
void json_add_gid(struct json_object *to, const char *key, const uint8_t gid[16]);
/* As "0x…" of at least that many digits. */
void json_add_hex(struct json_object *to, const char *key, uint64_t value, int digits);

/* *text is NULL where the request has no such member. False: it has one that is no
 * string, or one with a 0 in it. */
bool json_get_text(struct json_object *request, const char *key, const char **text);
bool json_get_flag(struct json_object *request, const char *key);
/* 1; 0: there is no such member; -1: it is no number from 0 to most. */
int json_get_number(struct json_object *request, const char *key, uint64_t most, uint64_t *value);

#endif
