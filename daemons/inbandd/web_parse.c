/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* See web_parse.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemons/common/json.h"
#include "daemons/common/log.h"
#include "daemons/inbandd/web_parse.h"

#define MAX_DEPTH     4
#define SHORTEST      16 /* characters of a token */
#define MAX_FILE      (64 << 10)
#define TOKEN_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._~+/=-"

static bool is_token(const char *text)
{
	size_t length = strlen(text);

	return length >= SHORTEST && length < WEB_TOKEN_LEN && !text[strspn(text, TOKEN_LETTERS)];
}

static const char *add_line(struct web_tokens *t, char *line)
{
	char *rest = line, *role = strsep(&rest, " \t"), *text, *name;
	enum web_role is = !strcmp(role, "operator") ? WEB_OPERATOR
			   : !strcmp(role, "viewer") ? WEB_VIEWER
						     : WEB_NOBODY;

	if (is == WEB_NOBODY)
		return "a line begins with operator or viewer";
	while (rest && (*rest == ' ' || *rest == '\t'))
		rest++;
	text = strsep(&rest, " \t");
	if (rest)
		rest += strspn(rest, " \t");
	name = rest && *rest ? rest : role;
	if (!text || !is_token(text))
		return "a token has 16 to 127 characters: letters, digits and ._~+/=-";
	if (t->count == WEB_MAX_TOKENS)
		return "there are more than 64 tokens";
	t->token[t->count].role = is;
	snprintf(t->token[t->count].name, sizeof(t->token[0].name), "%s", name);
	snprintf(t->token[t->count].text, sizeof(t->token[0].text), "%s", text);
	t->count++;
	t->viewers |= is == WEB_VIEWER;
	return NULL;
}

int web_tokens_parse(struct web_tokens *t, const char *text, char *error, size_t length)
{
	char *copy = strdup(text), *rest = copy, *line;
	const char *why = copy ? NULL : "no memory";

	memset(t, 0, sizeof(*t));
	for (unsigned n = 1; !why && (line = strsep(&rest, "\n")); n++) {
		line[strcspn(line, "#\r")] = 0;
		if (!line[strspn(line, " \t")])
			continue;
		why = add_line(t, line + strspn(line, " \t"));
		if (why)
			snprintf(error, length, "line %u: %s", n, why);
	}
	if (!copy)
		snprintf(error, length, "%s", why);
	free(copy);
	return why ? -EINVAL : 0;
}

static int read_private(int fd, char *text, char *error, size_t length)
{
	struct stat st;
	ssize_t got;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_mode & 0077) {
		snprintf(error, length, "is to be a file that its owner alone may read: chmod 600");
		return -EPERM;
	}
	got = read(fd, text, MAX_FILE - 1);
	if (got < 0) {
		snprintf(error, length, "%s", strerror(errno));
		return -EIO;
	}
	text[got] = 0;
	return 0;
}

int web_tokens_load(struct web_tokens *tokens, const char *path)
{
	char *text = malloc(MAX_FILE), error[128] = "no memory";
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), ret = -ENOMEM;

	if (fd < 0) {
		ret = -errno;
		snprintf(error, sizeof(error), "%s", strerror(errno));
	} else if (text) {
		ret = read_private(fd, text, error, sizeof(error));
		if (!ret)
			ret = web_tokens_parse(tokens, text, error, sizeof(error));
	}
	if (fd >= 0)
		close(fd);
	free(text);
	if (ret)
		log_error("http_tokens %s: %s", path, error);
	return ret;
}

/* In a time that does not tell how much of it was right. */
static bool same(const char *a, const char *b)
{
	unsigned char differ = strlen(a) != strlen(b);

	for (size_t i = 0; a[i] && b[i]; i++)
		differ |= (unsigned char)(a[i] ^ b[i]);
	return !differ;
}

enum web_role web_role_of(const struct web_tokens *t, const char *text, const char **name)
{
	*name = "";
	for (unsigned i = 0; text && i < t->count; i++)
		if (same(t->token[i].text, text)) {
			*name = t->token[i].name;
			return t->token[i].role;
		}
	return t->viewers ? WEB_NOBODY : WEB_VIEWER;
}

static const char *take(const char *text, size_t length, char token[WEB_TOKEN_LEN])
{
	if (length >= WEB_TOKEN_LEN)
		return NULL;
	memcpy(token, text, length);
	token[length] = 0;
	return is_token(token) ? token : NULL;
}

const char *web_token(const char *authorization, const char *cookies, char token[WEB_TOKEN_LEN])
{
	static const char bearer[] = "Bearer ", name[] = "inbandd=";

	if (authorization)
		return strncasecmp(authorization, bearer, sizeof(bearer) - 1)
			       ? NULL
			       : take(authorization + sizeof(bearer) - 1,
				      strlen(authorization + sizeof(bearer) - 1), token);
	for (const char *at = cookies; at && *at; at += strcspn(at, ";")) {
		at += strspn(at, "; ");
		if (!strncmp(at, name, sizeof(name) - 1)) {
			at += sizeof(name) - 1;
			return take(at, strcspn(at, "; "), token);
		}
	}
	return NULL;
}

bool web_host_is_local(const char *host)
{
	static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};

	for (unsigned i = 0; host && i < sizeof(names) / sizeof(names[0]); i++) {
		size_t length = strlen(names[i]);

		if (!strncasecmp(host, names[i], length) && (!host[length] || host[length] == ':'))
			return true;
	}
	return false;
}

struct json_object *web_body(const char *text, size_t length)
{
	struct json_tokener *tokener = json_tokener_new_ex(MAX_DEPTH);
	struct json_object *body = NULL;

	if (!tokener)
		return NULL;
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
	if (length && length < INT32_MAX)
		body = json_tokener_parse_ex(tokener, text, (int)length);
	json_tokener_free(tokener);
	if (json_object_is_type(body, json_type_object))
		return body;
	json_object_put(body);
	return NULL;
}

/* What may be asked by GET: a file that the daemon would open is not among it. */
static bool is_argument(const char *key)
{
	static const char *const keys[] = {"address", "after", "all",  "chip",	"compare", "count",
					   "from",    "id",    "port", "state", "to",	   "worst"};

	for (unsigned i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (!strcmp(keys[i], key))
			return true;
	return false;
}

bool web_argument(struct json_object *request, const char *key, const char *value)
{
	size_t digits = value ? strspn(value, "0123456789") : 0;

	if (!is_argument(key))
		return false;
	if (!value || !strcmp(value, "true"))
		json_add_bool(request, key, true);
	else if (digits && digits < 20 && !value[digits])
		json_add_number(request, key, strtoull(value, NULL, 10));
	else
		json_add_text(request, key, value);
	return true;
}
