/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Names of devices and ports, by the plan where it has them. The loop's thread. */
#include <stdio.h>
#include <string.h>

#include "daemons/inbandd/inbandd.h"

uint32_t device_chip(const struct inbandd *d, uint32_t device)
{
	const struct target *t = &d->model->devices[device]->target;

	return d->plan && t->id < NMP_NO_ID ? machine_find(d->plan, t->type, t->id) : MACHINE_NONE;
}

struct device *chip_device(const struct inbandd *d, uint32_t chip)
{
	const struct machine_chip *c = &d->plan->chips[chip];

	return d->model ? model_find(d->model, c->type, c->id) : NULL;
}

const char *device_name(const struct inbandd *d, uint32_t device, char name[MACHINE_NAME_LEN])
{
	const struct target *t = &d->model->devices[device]->target;
	uint32_t chip = device_chip(d, device);
	const char *own = NULL;

	if (chip != MACHINE_NONE)
		return machine_chip_name(d->plan, chip, name);
	if (d->fabric->ops->device_name)
		own = d->fabric->ops->device_name(d->fabric, t->type, t->id);
	if (own) {
		snprintf(name, MACHINE_NAME_LEN, "%s", own);
		return name;
	}
	snprintf(name, MACHINE_NAME_LEN, "%s:%lu", t->type == NMP_NRC ? "nrc" : "nic", t->id);
	return name;
}

const char *port_name(const struct inbandd *d, uint32_t device, unsigned port,
		      char text[PORT_NAME_LEN])
{
	char name[MACHINE_NAME_LEN];

	snprintf(text, PORT_NAME_LEN, "%s:%u", device_name(d, device, name), port);
	return text;
}

const char *device_place(const struct inbandd *d, uint32_t device, int port,
			 char place[MACHINE_PLACE_LEN])
{
	uint32_t chip = device_chip(d, device);

	place[0] = 0;
	if (chip != MACHINE_NONE && port < d->plan->chips[chip].ports)
		machine_place(d->plan, chip, port, place);
	return place;
}

/* By what devices call themselves. */
static struct device *find_own(const struct inbandd *d, const char *name)
{
	const struct fabric_ops *ops = d->fabric->ops;

	for (uint32_t i = 0; ops->device_name && i < d->model->count; i++) {
		const struct target *t = &d->model->devices[i]->target;
		const char *own = ops->device_name(d->fabric, t->type, t->id);

		if (own && !strcmp(own, name))
			return d->model->devices[i];
	}
	return NULL;
}

struct device *device_find(const struct inbandd *d, const char *name)
{
	uint32_t chip;
	uint64_t guid;
	unsigned id;
	int end = 0;

	if (!d->model)
		return NULL;
	if (sscanf(name, "0x%lx%n", &guid, &end) == 1 && !name[end])
		return model_find(d->model, NMP_NRC, guid) ?: model_find(d->model, NMP_NIC, guid);
	if (sscanf(name, "nrc:%u%n", &id, &end) == 1 && !name[end])
		return model_find(d->model, NMP_NRC, id);
	if (sscanf(name, "nic:%u%n", &id, &end) == 1 && !name[end])
		return model_find(d->model, NMP_NIC, id);
	chip = d->plan ? machine_find_name(d->plan, name, NULL) : MACHINE_NONE;
	return chip == MACHINE_NONE ? find_own(d, name) : chip_device(d, chip);
}
