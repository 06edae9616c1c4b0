/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* EEPROM images of a model of a machine: read, compared, written. */
#include "tests/unit/inband_world.h"

#include "inband/eeprom_image.h"
#include "inband/manage/eeprom.h"

/* Of an image; all of it would take as much longer. */
#define FIRST  5
#define LENGTH 6001
#define MOST   80

/* Flipped bytes as the EEPROM work has found them. */
struct flips {
	uint32_t count;
	uint32_t device[MOST];
	unsigned address[MOST];
	bool done;
	struct eeprom_result result;
};

static void planned(void *arg, const struct device *device, unsigned address, unsigned count,
		    uint8_t *byte)
{
	uint32_t chip = machine_find(plan, device->target.type, device->target.id);

	eeprom_image(plan, chip, NULL, address, count, byte);
}

static void flipped(void *arg, const struct device *device, unsigned address, uint8_t is,
		    uint8_t expected)
{
	struct flips *f = arg;

	assert_int_equal(__builtin_popcount(is ^ expected), 1);
	assert_true(f->count < MOST);
	f->device[f->count] = device->number;
	f->address[f->count++] = address;
}

static void images_done(void *arg, int status, const struct eeprom_result *result)
{
	struct flips *f = arg;

	assert_int_equal(status, 0);
	f->result = *result;
	f->done = true;
}

static void work_on_images(struct fabric *fabric, struct model *model, struct flips *f, bool write)
{
	const struct eeprom_work work = {.address = FIRST,
					 .length = LENGTH,
					 .write = write,
					 .expect = planned,
					 .differs = flipped,
					 .done = images_done,
					 .arg = f};
	uint32_t *all = malloc(model->count * sizeof(*all));

	memset(f, 0, sizeof(*f));
	for (uint32_t i = 0; i < model->count; i++)
		all[i] = i;
	assert_int_equal(eeprom_begin(fabric, model, all, model->count, &work), 0);
	free(all);
	assert_int_equal(fabric_finish(fabric), 0);
	assert_true(f->done);
	assert_int_equal(f->result.images, model->count);
	assert_int_equal(f->result.silent, 0);
}

/* Exactly those are found that are in what was looked at. */
static void assert_told(const struct model *model, const struct flips *f, const char *truth)
{
	unsigned there = 0;

	for (const char *line = strstr(truth, "eeprom "); line;
	     line = strstr(line + 1, "eeprom ")) {
		unsigned address = atoi(strchr(line, ':') + 1);

		there += address >= FIRST && address < FIRST + LENGTH;
	}
	assert_int_equal(f->count, there);
	for (uint32_t i = 0; i < f->count; i++) {
		const struct target *t = &model->devices[f->device[i]]->target;
		char name[MACHINE_NAME_LEN], line[64];

		snprintf(line, sizeof(line), "eeprom %s:%u\n",
			 machine_chip_name(plan, machine_find(plan, t->type, t->id), name),
			 f->address[i]);
		assert_non_null(strstr(truth, line));
	}
}

/* What has turned over is found, and after it was written it is as made. */
static void turned_bytes_of_eeproms_are_found_and_written(void **state)
{
	struct fabric *fabric;
	struct model *model;
	struct flips f;
	uint32_t found;
	char *truth;

	begin((struct world){"tree:1,2,1,2", "eeprom=80,loss=0.1%", .seed = 5});
	fabric = connect_to(0, 64);
	model = find_all(fabric, NULL);
	work_on_images(fabric, model, &f, false);
	truth = glex_tell(path, "truth");
	found = f.count;
	assert_true(found > 0);
	assert_told(model, &f, truth);
	free(truth);
	work_on_images(fabric, model, &f, true);
	assert_int_equal(f.count, found);
	assert_int_equal(f.result.written, f.result.wrong);
	assert_int_equal(f.result.failed, 0);
	work_on_images(fabric, model, &f, false);
	assert_int_equal(f.count, 0);
	model_destroy(model);
	fabric->ops->destroy(fabric);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(turned_bytes_of_eeproms_are_found_and_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
