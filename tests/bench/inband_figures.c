/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Works at a thsim that listens at THSIM_SOCKET, and prints what it took, as JSON:
 *
 *	inband_figures discover WINDOW [COST]	COST: us of the server's time for a request
 *	inband_figures scan WINDOW [COST]
 *	inband_figures eeprom BYTES [COST]	the first of each image
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "inband/eeprom_image.h"
#include "inband/manage/discover.h"
#include "inband/manage/eeprom.h"
#include "inband/manage/scan.h"
#include "inband/manage/th2.h"
#include "measure.h"

/* Images of Tianhe-2, which are as made. */
struct images {
	struct machine *plan;
	struct eeprom_result result;
	int status;
};

static void expect(void *arg, const struct device *device, unsigned address, unsigned count,
		   uint8_t *byte)
{
	const struct images *m = arg;

	eeprom_image(m->plan, machine_find(m->plan, device->target.type, device->target.id), NULL,
		     address, count, byte);
}

static void differs(void *arg, const struct device *device, unsigned address, uint8_t is,
		    uint8_t expected)
{
	((struct images *)arg)->status = -EBADMSG;
}

static void verified(void *arg, int status, const struct eeprom_result *result)
{
	struct images *m = arg;

	m->result = *result;
	if (status)
		m->status = status;
}

static int verify(struct fabric *fabric, struct model *model, unsigned bytes, uint64_t *time)
{
	struct images images = {0};
	struct eeprom_work work = {.length = bytes,
				   .expect = expect,
				   .differs = differs,
				   .done = verified,
				   .arg = &images};
	uint32_t *all = malloc((model->count + 1) * sizeof(*all));
	int ret = machine_th2(1, &images.plan);

	for (uint32_t i = 0; i < model->count; i++)
		all[i] = i;
	if (!ret)
		ret = eeprom_begin(fabric, model, all, model->count, &work);
	if (!ret)
		ret = fabric_finish(fabric);
	free(all);
	machine_destroy(images.plan);
	*time = images.result.time;
	return ret ?: images.result.silent ? -ETIMEDOUT : images.status;
}

int main(int argc, char **argv)
{
	uint64_t time = 0;
	struct discovery_result result;
	struct th2_options options;
	struct fabric *fabric;
	struct model *model = NULL;
	struct scan *scanned = NULL;
	double begun, took;
	int ret;

	if (argc < 3) {
		fprintf(stderr,
			"usage: inband_figures discover|scan WINDOW [COST], eeprom BYTES [COST]\n");
		return 2;
	}
	th2_options_init(&options);
	if (strcmp(argv[1], "eeprom") != 0)
		options.requester.window = atoi(argv[2]);
	if (argc > 3)
		options.cost = atof(argv[3]);
	ret = th2_create(&options, &fabric);
	if (ret) {
		fprintf(stderr, "inband_figures: %s\n", strerror(-ret));
		return 1;
	}
	begun = now_s();
	ret = discover(fabric, &model, &result);
	took = now_s() - begun;
	if (!ret && !strcmp(argv[1], "scan")) {
		begun = now_s();
		ret = scan(fabric, model, &scanned);
		took = now_s() - begun;
		time = scanned ? scanned->time : 0;
	} else if (!ret && !strcmp(argv[1], "eeprom")) {
		begun = now_s();
		ret = verify(fabric, model, atoi(argv[2]), &time);
		took = now_s() - begun;
	}
	if (ret) {
		fprintf(stderr, "inband_figures: %s\n", strerror(-ret));
		return 1;
	}
	printf("{\"virtual\":%.6f,\"wall\":%.6f,\"switches\":%u,\"nodes\":%u,\"links\":%u,"
	       "\"silent\":%u,\"requests\":%lu}\n",
	       (time ?: result.time) / 1e12, took, model->switches, model->nodes, model->links,
	       result.silent, fabric->ops->counts(fabric)->sent);
	scan_destroy(scanned);
	model_destroy(model);
	fabric->ops->destroy(fabric);
	return 0;
}
