/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* See eeprom.h. What is wrong is kept as parts of up to six bytes, the bytes of one request. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inband/manage/eeprom.h"

#define AT_ONCE 1500 /* chips: what keeps the server itself busy */
#define TRIES	3
#define PART	NMP_MAX_BYTES
#define MARK	4 /* bytes of the tables' mark */

enum phase { PHASE_READ, PHASE_UNMARK, PHASE_WRITE, PHASE_BACK };

struct worker {
	struct fabric *fabric;
	struct model *model;
	struct eeprom_work work;
	uint32_t *devices;
	uint32_t count, next, open, at_once, over;
	int status;
	uint64_t begun;
	struct eeprom_result result;
};

/* A chip under way. */
struct image {
	struct worker *worker;
	struct device *device;
	struct target target;
	enum phase phase;
	uint16_t *parts; /* that are wrong, by the address they begin at */
	unsigned nparts, size, at, tries;
	bool again; /* a part is still not what was written */
};

static int by_address_down(const void *a, const void *b)
{
	return (int)*(const uint16_t *)b - *(const uint16_t *)a;
}

static bool add_part(struct image *i, unsigned address)
{
	if (i->nparts == i->size) {
		unsigned size = i->size ? 2 * i->size : 16;
		uint16_t *more = realloc(i->parts, size * sizeof(*more));

		if (!more)
			return false;
		i->parts = more;
		i->size = size;
	}
	i->parts[i->nparts++] = address;
	return true;
}

static unsigned part_length(const struct worker *w, unsigned address)
{
	unsigned left = w->work.address + w->work.length - address;

	return left < PART ? left : PART;
}

static void compare(void *arg, unsigned address, unsigned count, const uint8_t *byte)
{
	struct image *i = arg;
	struct worker *w = i->worker;
	uint8_t expected[PART];

	w->work.expect(w->work.arg, i->device, address, count, expected);
	if (!memcmp(byte, expected, count))
		return;
	for (unsigned n = 0; n < count; n++) {
		if (byte[n] == expected[n])
			continue;
		w->result.differences++;
		w->work.differs(w->work.arg, i->device, address + n, byte[n], expected[n]);
	}
	if (!add_part(i, address))
		w->status = -ENOMEM;
}

static void compare_again(void *arg, unsigned address, unsigned count, const uint8_t *byte)
{
	struct image *i = arg;
	struct worker *w = i->worker;
	uint8_t expected[PART];

	w->work.expect(w->work.arg, i->device, address, count, expected);
	i->again |= memcmp(byte, expected, count) != 0;
}

static void begin_more(struct worker *w);
static void step(void *arg, int status, const struct facts *facts);

static void end(struct worker *w)
{
	w->result.time = w->fabric->ops->now(w->fabric) - w->begun;
	w->work.done(w->work.arg, w->status, &w->result);
	free(w->devices);
	free(w);
}

static void finish(struct image *i, int status)
{
	struct worker *w = i->worker;

	if (i->phase == PHASE_READ && status)
		w->result.silent++;
	else
		w->result.images++;
	w->result.wrong += i->nparts > 0;
	if (w->work.write && i->nparts) {
		if (status)
			w->result.failed++;
		else
			w->result.written++;
	}
	free(i->parts);
	free(i);
	w->open--;
	w->over++;
	if (w->work.progress)
		w->work.progress(w->work.arg, w->over, w->count);
	begin_more(w);
}

static int write_part(struct image *i, unsigned address)
{
	struct worker *w = i->worker;
	unsigned count = part_length(w, address);
	uint8_t byte[PART];

	w->work.expect(w->work.arg, i->device, address, count, byte);
	return w->fabric->ops->eeprom_write(w->fabric, &i->target, address, count, byte, step, i);
}

static int read_part(struct image *i, unsigned address)
{
	struct worker *w = i->worker;

	return w->fabric->ops->eeprom_read(w->fabric, &i->target, address, part_length(w, address),
					   compare_again, step, i);
}

static bool is_within(const struct worker *w, unsigned address)
{
	return address >= w->work.address && address < w->work.address + w->work.length;
}

/* Tables that will be written are not to be loaded meanwhile; and then have their mark again. */
static bool needs_unmark(struct image *i)
{
	struct worker *w = i->worker;
	bool tables = false;

	for (unsigned n = 0; n < i->nparts; n++)
		tables |= i->parts[n] + PART > EEPROM_TABLES;
	if (!tables || !is_within(w, EEPROM_TABLE_MARK) ||
	    !is_within(w, EEPROM_TABLE_MARK + MARK - 1))
		return false;
	for (unsigned at = EEPROM_TABLE_MARK; at < EEPROM_TABLE_MARK + MARK; at++) {
		unsigned part = at - (at - w->work.address) % PART, n = 0;

		while (n < i->nparts && i->parts[n] != part)
			n++;
		if (n == i->nparts && !add_part(i, part))
			return false;
	}
	return true;
}

static int unmark(struct image *i)
{
	static const uint8_t none[MARK] = {0xff, 0xff, 0xff, 0xff};
	struct worker *w = i->worker;

	return w->fabric->ops->eeprom_write(w->fabric, &i->target, EEPROM_TABLE_MARK, MARK, none,
					    step, i);
}

/* What follows when a phase has come to its end; 1: nothing. */
static int next_phase(struct image *i)
{
	i->at = 0;
	switch (i->phase) {
	case PHASE_READ:
		if (!i->worker->work.write || !i->nparts)
			return 1;
		i->phase = needs_unmark(i) ? PHASE_UNMARK : PHASE_WRITE;
		qsort(i->parts, i->nparts, sizeof(*i->parts), by_address_down);
		return i->phase == PHASE_UNMARK ? unmark(i) : write_part(i, i->parts[i->at++]);
	case PHASE_UNMARK: i->phase = PHASE_WRITE; return write_part(i, i->parts[i->at++]);
	case PHASE_WRITE: i->phase = PHASE_BACK; return read_part(i, i->parts[i->at++]);
	default:
		if (!i->again)
			return 1;
		if (++i->tries == TRIES)
			return -EIO;
		i->again = false;
		i->phase = PHASE_WRITE;
		return write_part(i, i->parts[i->at++]);
	}
}

static void step(void *arg, int status, const struct facts *facts)
{
	struct image *i = arg;

	if (!status && i->phase == PHASE_WRITE && i->at < i->nparts)
		status = write_part(i, i->parts[i->at++]);
	else if (!status && i->phase == PHASE_BACK && i->at < i->nparts)
		status = read_part(i, i->parts[i->at++]);
	else if (!status)
		status = next_phase(i);
	if (status)
		finish(i, status < 0 ? status : 0);
}

static int begin_one(struct worker *w, struct device *device)
{
	struct image *i = calloc(1, sizeof(*i));
	int ret;

	if (!i)
		return -ENOMEM;
	i->worker = w;
	i->device = device;
	target_init_slow(&i->target, &device->target);
	w->open++;
	ret = w->fabric->ops->eeprom_read(w->fabric, &i->target, w->work.address, w->work.length,
					  compare, step, i);
	if (ret) {
		w->open--;
		free(i);
	}
	return ret;
}

static void begin_more(struct worker *w)
{
	while (!w->status && w->next < w->count && w->open < w->at_once)
		w->status = begin_one(w, w->model->devices[w->devices[w->next++]]);
	if (!w->open)
		end(w);
}

int eeprom_begin(struct fabric *fabric, struct model *model, const uint32_t *devices,
		 uint32_t count, const struct eeprom_work *work)
{
	struct worker *w;
	unsigned rounds = (count + AT_ONCE - 1) / AT_ONCE;

	if (!fabric->ops->eeprom_read || !count || !work->length)
		return fabric->ops->eeprom_read ? -EINVAL : -ENOTSUP;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	*w = (struct worker){
		.fabric = fabric,
		.model = model,
		.work = *work,
		.count = count,
		/* All take equally long: rounds of one size, or the last would be short. */
		.at_once = (count + rounds - 1) / rounds,
		.begun = fabric->ops->now(fabric)};
	w->devices = malloc(count * sizeof(*devices));
	if (!w->devices) {
		free(w);
		return -ENOMEM;
	}
	memcpy(w->devices, devices, count * sizeof(*devices));
	begin_more(w);
	return 0;
}
