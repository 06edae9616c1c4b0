// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Functions of a virtual fabric, by fabricd's control socket (docs/fabric.md): a connection for
 * each operation. The subnet manager gives their P_Keys. Any thread.
 */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "fabric/path.h"
#include "migrate/function.h"

#define TIMEOUT_S 5
#define LINE_LEN  4096

/* "HOST" or "FABRIC:HOST". */
static const char *host_of(const char *where, char *fabric, size_t len)
{
	const char *colon = strchr(where, ':');

	snprintf(fabric, len, "%s", FABRIC_DEFAULT_NAME);
	if (!colon)
		return where;
	snprintf(fabric, len, "%.*s", (int)(colon - where), where);
	return colon + 1;
}

static FILE *connect_to(const char *fabric)
{
	const struct timeval limit = {.tv_sec = TIMEOUT_S};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char path[sizeof(address.sun_path) - 8];
	int fd;
	FILE *f;

	if (fabric_path(fabric, false, path, sizeof(path)))
		return NULL;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s.control", path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return NULL;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	f = connect(fd, (struct sockaddr *)&address, sizeof(address)) ? NULL : fdopen(fd, "r+");
	if (!f)
		close(fd);
	return f;
}

static uint64_t member(struct json_object *o, const char *key, int base)
{
	struct json_object *v;

	return json_object_object_get_ex(o, key, &v)
		       ? strtoull(json_object_get_string(v), NULL, base)
		       : 0;
}

/* Reads lines of functions up to the last one, which says whether it was done. How many, or -errno.
 * */
static int read_functions(FILE *f, struct function *functions, size_t room)
{
	int count = 0, ret = -EIO;
	char line[LINE_LEN];

	while (ret == -EIO && fgets(line, sizeof(line), f)) {
		struct json_object *o = json_tokener_parse(line), *ok;

		if (json_object_object_get_ex(o, "ok", &ok))
			ret = json_object_get_boolean(ok) ? count : -EBUSY;
		else if ((size_t)count < room)
			functions[count++] =
				(struct function){.number = (int)member(o, "function", 10),
						  .guid = member(o, "guid", 16)};
		json_object_put(o);
	}
	return ret;
}

/* rest: further members of the request. */
static int ask(const char *where, const char *rest, struct function *functions, size_t room)
{
	char fabric[64];
	const char *host = host_of(where, fabric, sizeof(fabric));
	FILE *f = connect_to(fabric);
	int ret;

	if (!f)
		return -ENOTCONN;
	fprintf(f, "{\"command\":\"vf\",\"node\":\"%s\"%s}\n", host, rest);
	ret = fflush(f) ? -EIO : read_functions(f, functions, room);
	fclose(f);
	return ret;
}

static int list(const char *where, struct function *functions, size_t room)
{
	int ret = ask(where, "", functions, room);

	return ret == -EBUSY ? -ENXIO : ret;
}

static int change(const char *where, int number, uint64_t guid, const char *guest)
{
	struct function function;
	char rest[256];
	int len = snprintf(rest, sizeof(rest), ",\"function\":%d,\"guid\":\"0x%" PRIx64 "\"",
			   number, guid);
	int ret;

	if (guest)
		snprintf(rest + len, sizeof(rest) - len, ",\"name\":\"%s\"", guest);
	ret = ask(where, rest, &function, 1);
	if (ret < 0)
		return ret;
	return ret == 1 && function.number == number && function.guid == guid ? 0 : -EIO;
}

static int set(const char *where, int number, const struct record *record)
{
	return change(where, number, record->guid, record->guest);
}

static int clear(const char *where, int number)
{
	return change(where, number, 0, NULL);
}

const struct function_provider function_fabric = {"fabric", list, NULL, set, clear};
