/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * EEPROM images: compared with what the plan says, or with a file's bytes, written, and read. The
 * loop's thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/common/json.h"
#include "daemons/inbandd/commands.h"
#include "inband/eeprom_image.h"
#include "inband/manage/eeprom.h"

#define MOST_LISTED 1000

struct images {
	struct pending *pending;
	struct routes *routes; /* NULL: images have no tables */
	uint8_t *given; /* bytes that a request came with, from its address on; NULL: by the plan */
	uint8_t *read;	/* NULL: not asked for */
	unsigned address, length;
	struct json_object *list;
	uint32_t *devices;
	uint32_t count;
};

static void images_free(struct images *m)
{
	routes_destroy(m->routes);
	free(m->given);
	free(m->read);
	json_object_put(m->list);
	free(m->devices);
	free(m);
}

static void expect(void *arg, const struct device *device, unsigned address, unsigned count,
		   uint8_t *byte)
{
	struct images *m = arg;
	const struct inbandd *d = m->pending->d;

	if (m->given)
		memcpy(byte, m->given + address - m->address, count);
	else if (m->read)
		memset(byte, 0, count);
	else
		eeprom_image(d->plan, device_chip(d, device->number), m->routes, address, count,
			     byte);
}

static void differs(void *arg, const struct device *device, unsigned address, uint8_t is,
		    uint8_t expected)
{
	struct images *m = arg;
	struct json_object *entry;
	char name[MACHINE_NAME_LEN];

	if (m->read) {
		m->read[address - m->address] = is;
		return;
	}
	if (json_object_array_length(m->list) == MOST_LISTED)
		return;
	entry = json_object_new_object();
	json_add_text(entry, "chip", device_name(m->pending->d, device->number, name));
	json_add_hex(entry, "address", address, 4);
	json_add_hex(entry, "is", is, 2);
	json_add_hex(entry, "expected", expected, 2);
	json_object_array_add(m->list, entry);
}

static void progress(void *arg, uint32_t done, uint32_t of)
{
	struct images *m = arg;

	pending_progress(m->pending, done, of);
}

static void add_hex(struct json_object *to, const char *key, const uint8_t *byte, unsigned count)
{
	char *text = malloc(2 * count + 1);

	for (unsigned i = 0; text && i < count; i++)
		sprintf(text + 2 * i, "%02x", byte[i]);
	if (text)
		json_add_text(to, key, text);
	free(text);
}

static void done(void *arg, int status, const struct eeprom_result *result)
{
	struct images *m = arg;
	struct pending *p = m->pending;
	struct json_object *answer;

	if (status || (m->read && result->silent)) {
		pending_fail(p, "%s", status ? strerror(-status) : "the chip does not answer");
		images_free(m);
		return;
	}
	answer = json_object_new_object();
	if (m->read) {
		add_hex(answer, "bytes", m->read, m->length);
	} else {
		json_add_number(answer, "images", result->images);
		json_add_number(answer, "silent", result->silent);
		json_add_number(answer, "wrong", result->wrong);
		json_add_number(answer, "differences", result->differences);
		json_add_number(answer, "written", result->written);
		json_add_number(answer, "failed", result->failed);
		json_add(answer, "list", json_object_get(m->list));
	}
	json_add(answer, "seconds", json_object_new_double(result->time / 1e12));
	pending_ok(p, answer);
	images_free(m);
}

/* The chip that a request names; or all that are in the plan too. False: the client has been told.
 * */
static bool choose(struct control_client *client, struct json_object *request, struct images *m)
{
	struct inbandd *d = control_daemon(client);
	const char *name = NULL;
	struct device *one = NULL;

	if (!json_get_text(request, "chip", &name)) {
		control_fail(client, "\"chip\" is to be a name");
		return false;
	}
	if (name && !(one = device_find(d, name))) {
		control_fail(client, "%s has not been found", name);
		return false;
	}
	m->devices = malloc((d->model->count + 1) * sizeof(*m->devices));
	if (!m->devices) {
		control_fail(client, "no memory");
		return false;
	}
	for (uint32_t i = 0; i < d->model->count; i++) {
		const struct device *device = d->model->devices[i];

		if (one ? device == one
			: device->state != DEVICE_SILENT && device_chip(d, i) != MACHINE_NONE)
			m->devices[m->count++] = i;
	}
	if (!m->count)
		control_fail(client, "none of the plan's chips has been found");
	return m->count;
}

/* "bytes": in hexadecimal. False: the client has been told. */
static bool take_bytes(struct control_client *client, struct json_object *request, struct images *m)
{
	const char *text = NULL;
	size_t length;

	if (!json_get_text(request, "bytes", &text)) {
		control_fail(client, "\"bytes\" is to be a text of hexadecimal digits");
		return false;
	}
	if (!text)
		return true;
	length = strlen(text);
	if (length % 2 || !length || length / 2 > EEPROM_BYTES - m->address ||
	    strspn(text, "0123456789abcdefABCDEF") != length || m->count != 1) {
		control_fail(client, "the bytes of one chip's image, up to 64 KiB, are to be "
				     "pairs of hexadecimal digits");
		return false;
	}
	m->length = length / 2;
	m->given = malloc(m->length);
	for (unsigned i = 0; m->given && i < m->length; i++)
		sscanf(text + 2 * i, "%2hhx", &m->given[i]);
	if (!m->given)
		control_fail(client, "no memory");
	return m->given;
}

static bool prepare(struct control_client *client, struct json_object *request, struct images *m,
		    const char *what)
{
	struct inbandd *d = control_daemon(client);
	uint64_t from = 0, length = 0;

	if (json_get_number(request, "address", EEPROM_BYTES - 1, &from) < 0 ||
	    json_get_number(request, "length", EEPROM_BYTES - from, &length) < 0) {
		control_fail(client, "an EEPROM has 65536 bytes");
		return false;
	}
	m->address = from;
	m->length = length ?: EEPROM_BYTES - from;
	m->list = json_object_new_array();
	if (!choose(client, request, m) || !take_bytes(client, request, m))
		return false;
	if (!strcmp(what, "read")) {
		m->read = m->count == 1 ? calloc(1, m->length) : NULL;
		if (!m->read)
			control_fail(client, "which chip's image is to be read?");
		return m->read;
	}
	if (!m->given && (!d->plan || device_chip(d, m->devices[0]) == MACHINE_NONE)) {
		control_fail(client, "what is to be there follows from the plan: set plan in "
				     "inbandd.conf, or give a file");
		return false;
	}
	if (json_get_flag(request, "tables") && routes_create(d->plan, NULL, &m->routes)) {
		control_fail(client, "the plan is no fat tree: it has no tables");
		return false;
	}
	return true;
}

/* "what": verify, write or read; of a "chip" or all, "length" bytes from "address" on; "tables". */
void command_eeprom(struct control_client *client, struct json_object *request)
{
	struct inbandd *d = control_daemon(client);
	const char *what = NULL;
	struct eeprom_work work;
	struct images *m;
	int ret;

	if (!json_get_text(request, "what", &what) || !what ||
	    (strcmp(what, "verify") && strcmp(what, "write") && strcmp(what, "read"))) {
		control_fail(client, "what: verify, write or read?");
		return;
	}
	if (!d->model || d->discovering) {
		control_fail(client, "nothing has been discovered yet");
		return;
	}
	m = calloc(1, sizeof(*m));
	if (!m || !prepare(client, request, m, what) ||
	    !(m->pending = pending_begin(client, "eeprom", true))) {
		if (m)
			images_free(m);
		return;
	}
	work = (struct eeprom_work){.address = m->address,
				    .length = m->length,
				    .write = !strcmp(what, "write"),
				    .expect = expect,
				    .differs = differs,
				    .progress = progress,
				    .done = done,
				    .arg = m};
	ret = eeprom_begin(d->fabric, d->model, m->devices, m->count, &work);
	if (ret) {
		pending_fail(m->pending, "%s",
			     ret == -ENOTSUP ? "this network's devices have no EEPROMs"
					     : strerror(-ret));
		images_free(m);
	} else {
		network_kick(d);
	}
}
