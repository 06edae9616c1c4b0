/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * EEPROM images against what they are to be, and written where they are not. One image takes ten
 * seconds to be read and minutes to be written, by an I2C bus of the chip's own; so many chips are
 * under way at once (paper, 4.2: one after the other it would be 66 hours). One thread.
 *
 *	read ─► differences ─► clear the tables' mark ─► write, from the last byte to the first ─► read back
 *
 * A chip whose power fails meanwhile finds no mark, and loads no tables that are half written; its
 * header is written last.
 */
#ifndef INBAND_EEPROM_H
#define INBAND_EEPROM_H

#include "inband/manage/model.h"

struct eeprom_result {
	uint32_t images, silent;  /* that were read; of chips that do not answer */
	uint32_t wrong;		  /* images with differences, as they were found */
	uint64_t differences;	  /* bytes */
	uint32_t written, failed; /* images that are mended; that are not what was written */
	uint64_t time;		  /* ps */
};

struct eeprom_work {
	unsigned address, length; /* of each image */
	bool write;
	/* What is to be there. */
	void (*expect)(void *arg, const struct device *device, unsigned address, unsigned count,
		       uint8_t *byte);
	/* A byte that is something else. */
	void (*differs)(void *arg, const struct device *device, unsigned address, uint8_t is,
			uint8_t expected);
	void (*progress)(void *arg, uint32_t done, uint32_t of); /* images; NULL */
	void (*done)(void *arg, int status, const struct eeprom_result *result);
	void *arg;
};

/*
 * devices: numbers of the model, copied. done is called once from fabric_progress(); the model has
 * to stay. -ENOTSUP: the network has no EEPROMs.
 */
int eeprom_begin(struct fabric *fabric, struct model *model, const uint32_t *devices,
		 uint32_t count, const struct eeprom_work *work);

#endif
