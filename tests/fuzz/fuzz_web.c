/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What inbandd takes from HTTP: the first byte says as what the rest comes. */
#include <stdlib.h>
#include <string.h>

#include "daemons/inbandd/web_parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void headers(const char *text)
{
	char token[WEB_TOKEN_LEN];
	const char *got = web_token(text, NULL, token);

	if (got && strlen(got) >= WEB_TOKEN_LEN)
		abort();
	got = web_token(NULL, text, token);
	if (got && strlen(got) >= WEB_TOKEN_LEN)
		abort();
	web_host_is_local(text);
}

static void tokens(const char *text)
{
	struct web_tokens t;
	const char *name;
	char error[128];

	if (web_tokens_parse(&t, text, error, sizeof(error)))
		return;
	for (unsigned i = 0; i < t.count; i++)
		if (web_role_of(&t, t.token[i].text, &name) == WEB_NOBODY || !name[0])
			abort();
}

static void argument(char *text)
{
	struct json_object *request = json_object_new_object();
	char *value = strchr(text, '=');

	if (value)
		*value++ = 0;
	web_argument(request, text, value);
	json_object_put(request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (!size)
		return 0;
	text = malloc(size);
	memcpy(text, data + 1, size - 1);
	text[size - 1] = 0;
	switch (data[0]) {
	case 'h': headers(text); break;
	case 't': tokens(text); break;
	case 'a': argument(text); break;
	default: json_object_put(web_body(text, size - 1));
	}
	free(text);
	return 0;
}
