/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a client of inbandd's control socket may ask: any object, of any command, is answered or
 * waits, before a network of two switches that was saved. What asks the network anew is not in it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/common/log.h"
#include "daemons/inbandd/alarms.h"
#include "daemons/inbandd/commands.h"
#include "daemons/inbandd/store.h"
#include "inband/manage/dump.h"
#include "inband/manage/offline.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char network[] = "inband-dump 1\n"
			      "device nic 9 1\nport 0 nrc 0 2\n"
			      "device nrc 0 24\nport 2 nic 9 0\nport 3 nrc 1 4\nport 5 light\n"
			      "device nrc 1 24\nport 4 nrc 0 3\nport 0 nic 1 0\n"
			      "device nic 1 1\nport 0 nrc 1 0\n"
			      "end\n";

/* network.c, without a network. */
void network_kick(struct inbandd *d)
{
	d->fabric->ops->progress(d->fabric, false);
}

int network_discover(struct inbandd *d, void (*done)(void *arg, int status), void *arg)
{
	return -EBUSY;
}

int network_refresh(struct inbandd *d, bool all, void (*done)(void *arg), void *arg)
{
	return -EAGAIN;
}

void network_look(struct inbandd *d, struct device *device)
{
}

const char *network_counter(const struct inbandd *d, unsigned counter)
{
	return scan_counter_name(counter);
}

/* Of those that wait for a network. */
int fabric_finish(struct fabric *f)
{
	return -ENOTCONN;
}

static struct model *read_network(void)
{
	struct model *model;
	char error[256];
	FILE *file = fmemopen((void *)(uintptr_t)network, sizeof(network) - 1, "r");

	if (!file || dump_read(file, &model, error, sizeof(error)))
		abort();
	fclose(file);
	return model;
}

static struct inbandd *begin(void)
{
	static struct inbandd d;

	if (d.control)
		return &d;
	inbandd_config_init(&d.config);
	d.config.control_socket[0] = 0;
	log_level = -1;
	d.loop.base = event_base_new();
	d.model = read_network();
	d.generation = 1;
	if (!d.loop.base || offline_create(read_network(), &d.fabric) || events_start(&d.events) ||
	    store_open(d.loop.base, "", 0, &d.store) || alarms_start(&d, &d.alarms) ||
	    commands_start(&d))
		abort();
	return &d;
}

static void line(void *arg, struct json_object *answer)
{
	unsigned *lines = arg;

	++*lines;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct inbandd *d = begin();
	static unsigned runs;
	struct json_tokener *tokener = json_tokener_new_ex(4);
	struct json_object *request, *plan;
	struct control_client *client = NULL;
	unsigned lines = 0;

	request = json_tokener_parse_ex(tokener, (const char *)data, (int)size);
	/* What is remembered grows with each. */
	if (++runs % 256 == 0) {
		store_close(d->store);
		if (store_open(d->loop.base, "", 0, &d->store))
			abort();
	}
	/* Files are another fuzzer's. */
	if (json_object_is_type(request, json_type_object) &&
	    !json_object_object_get_ex(request, "plan", &plan)) {
		if (control_call(d->control, request, "fuzz", line, &lines, &client))
			abort();
		event_base_loop(d->loop.base, EVLOOP_NONBLOCK);
		if (client)
			control_hang_up(client);
		else if (lines < 2)
			abort(); /* an answer, and that it was the last */
		event_base_loop(d->loop.base, EVLOOP_NONBLOCK);
	}
	json_object_put(request);
	json_tokener_free(tokener);
	return 0;
}
