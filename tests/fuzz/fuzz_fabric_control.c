/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libFuzzer target for what an operator may ask of a fabric: each line is a request, as the control
 * socket takes them. Every request has one last answer, and the fabric is whole afterwards.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/fabricd/fabricd.h"

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char description[] =
	"Switch 4 \"a\"\n[1] \"h1 HCA-1\"[1]\n[2] \"v\"[1]\n[3] \"a\"[4]\n"
	"Switch 4 \"v\"\n[2] \"h2\"[1]\n[3] \"h2-vf1\"[1]\n[4] \"h2-vf2\"[1]\n"
	"Ca 2 \"h1 HCA-1\"\nCa 1 \"h2\"\nfunction=1\nCa 1 \"h2-vf1\"\n"
	"function=2\ncaguid=0x77\nCa 1 \"h2-vf2\"\n";

static struct fabricd fabricd;
static _Alignas(16) uint8_t state[256];
static bool (*streaming)(struct control_client *client);
static unsigned answers; /* last ones, to the request that is running */

/* ---- in place of control.c, the loop and programs ---- */

void *control_daemon(const struct control_client *client)
{
	return &fabricd;
}

void *control_state(struct control_client *client)
{
	return state;
}

void control_send(struct control_client *client, struct json_object *answer)
{
	CHECK(!answer || json_object_to_json_string(answer));
	json_object_put(answer);
}

void control_ok(struct control_client *client, struct json_object *answer)
{
	control_send(client, answer);
	answers++;
}

void control_fail(struct control_client *client, const char *format, ...)
{
	CHECK(*format);
	answers++;
}

void control_stream(struct control_client *client, bool (*more)(struct control_client *client))
{
	streaming = more;
}

void fabricd_serve(struct fabricd *d)
{
	struct fabric *f = &d->server.fabric;

	timers_run(&f->mads.timers, ++f->mads.now);
	fabric_run(f);
}

void loop_quit(struct loop *loop)
{
}

int event_base_once(struct event_base *base, evutil_socket_t fd, short what,
		    void (*fn)(evutil_socket_t, short, void *), void *arg, const struct timeval *tv)
{
	return 0;
}

void server_deliver(struct fabric *f, struct connection *file, const uint8_t *hdr,
		    const uint8_t *mad, uint32_t len)
{
}

/* ---- requests ---- */

static void run(struct json_object *request)
{
	struct json_object *name;
	const char *text = "";

	if (json_object_object_get_ex(request, "command", &name))
		text = json_object_get_string(name);
	for (unsigned i = 0; text && i < fabricd_num_commands; i++) {
		if (strcmp(fabricd_commands[i].name, text))
			continue;
		answers = 0;
		streaming = NULL;
		fabricd_commands[i].run(NULL, request);
		while (streaming && streaming(NULL))
			CHECK(!answers);
		CHECK(answers == 1);
	}
	CHECK(!(atomic_load(&fabricd.server.fabric.map->generation) & 1));
}

static void line(const char *text, size_t len)
{
	struct json_tokener *tokener = json_tokener_new();
	struct json_object *request = json_tokener_parse_ex(tokener, text, len);

	if (request && json_object_is_type(request, json_type_object))
		run(request);
	json_object_put(request);
	json_tokener_free(tokener);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fabric *f = &fabricd.server.fabric;
	char error[TOPOLOGY_ERROR_LEN];
	struct topology t;

	memset(&fabricd, 0, sizeof(fabricd));
	timers_init(&f->mads.timers, 0, f);
	CHECK(fabricd_client_state <= sizeof(state));
	CHECK(!topology_read(&t, description, strlen(description), error));
	CHECK(!fabric_create(f, &t, "fuzz"));
	topology_free(&t);
	for (size_t at = 0; at < size;) {
		const uint8_t *end = memchr(data + at, '\n', size - at);
		size_t len = end ? (size_t)(end - data - at) : size - at;
		char *copy = malloc(len + 1);

		memcpy(copy, data + at, len);
		copy[len] = '\0';
		line(copy, len + 1);
		free(copy);
		at += len + 1;
	}
	for (uint32_t i = 0; i < f->map->num_nodes; i++)
		trap_forget(f, fabric_map_node(f->map, i));
	fabric_destroy(f);
	return 0;
}
