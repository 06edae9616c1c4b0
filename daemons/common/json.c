/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * JSON objects, on json-c. No state.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "daemons/common/json.h"

void json_add(struct json_object *to, const char *key, struct json_object *value)
{
	if (!to || json_object_object_add(to, key, value))
		json_object_put(value);
}

void json_add_number(struct json_object *to, const char *key, uint64_t value)
{
	json_add(to, key, json_object_new_uint64(value));
}

void json_add_text(struct json_object *to, const char *key, const char *value)
{
	json_add(to, key, json_object_new_string(value));
}

void json_add_bool(struct json_object *to, const char *key, bool value)
{
	json_add(to, key, json_object_new_boolean(value));
}

void json_add_gid(struct json_object *to, const char *key, const uint8_t gid[16])
{
	char text[INET6_ADDRSTRLEN];

	json_add_text(to, key, inet_ntop(AF_INET6, gid, text, sizeof(text)));
}

void json_add_hex(struct json_object *to, const char *key, uint64_t value, int digits)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%0*llx", digits, (unsigned long long)value);
	json_add_text(to, key, text);
}

bool json_get_text(struct json_object *request, const char *key, const char **text)
{
	struct json_object *member;

	*text = NULL;
	if (!json_object_object_get_ex(request, key, &member))
		return true;
	if (!json_object_is_type(member, json_type_string))
		return false;
	*text = json_object_get_string(member);
	/* A 0 within would cut it short. */
	return strlen(*text) == (size_t)json_object_get_string_len(member);
}

bool json_get_flag(struct json_object *request, const char *key)
{
	struct json_object *member;

	return json_object_object_get_ex(request, key, &member) && json_object_get_boolean(member);
}

int json_get_number(struct json_object *request, const char *key, uint64_t most, uint64_t *value)
{
	struct json_object *member;

	if (!json_object_object_get_ex(request, key, &member))
		return 0;
	if (!json_object_is_type(member, json_type_int) || json_object_get_int64(member) < 0)
		return -1;
	*value = json_object_get_uint64(member);
	return *value <= most ? 1 : -1;
}
