/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What comes by HTTP, taken apart: arguments, bodies, cookies, tokens. Plain data and pure
 * functions, apart from web_tokens_load(). Any thread.
 */
#ifndef INBANDD_WEB_PARSE_H
#define INBANDD_WEB_PARSE_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>

#define WEB_TOKEN_LEN  128 /* with the 0 */
#define WEB_MAX_TOKENS 64

enum web_role { WEB_NOBODY, WEB_VIEWER, WEB_OPERATOR };

/* Who may do what. Without a token for viewers in the file, everybody who reaches the server is
 * one. */
struct web_tokens {
	unsigned count;
	bool viewers;
	struct {
		enum web_role role;
		char name[32]; /* for the log */
		char text[WEB_TOKEN_LEN];
	} token[WEB_MAX_TOKENS];
};

/* Lines "operator TOKEN [NAME]" and "viewer TOKEN [NAME]". -EINVAL: error says where and why. */
int web_tokens_parse(struct web_tokens *tokens, const char *text, char *error, size_t length);
/* From a file that nobody but its owner may read. 0 or a negative errno after a line in the log. */
int web_tokens_load(struct web_tokens *tokens, const char *path);
/* text: NULL: none was shown. name: of who it is, "" for who shows none. */
enum web_role web_role_of(const struct web_tokens *tokens, const char *text, const char **name);

/* The token of "Bearer TOKEN" or of a cookie "inbandd=TOKEN"; either header may be NULL. NULL:
 * there is none. */
const char *web_token(const char *authorization, const char *cookies, char token[WEB_TOKEN_LEN]);
/*
 * Whether a Host header names this machine as its own users do: a page of elsewhere that gives its
 * name our address is not to read what is served here.
 */
bool web_host_is_local(const char *host);

/* A POST's body: a JSON object; NULL: it is none. */
struct json_object *web_body(const char *text, size_t length);
/* An argument of a GET: digits are a number, "true" and none are true. False: it is none for a
 * request. */
bool web_argument(struct json_object *request, const char *key, const char *value);

#endif
