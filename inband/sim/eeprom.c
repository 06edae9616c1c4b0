/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * EEPROM images, 64 KiB for each of 24,160 chips. As made, an image is a header of 64 bytes that is
 * computed from the chip's identity, and 0xff behind it; a page of 256 bytes is kept for a chip
 * once one of its bytes has been written. One thread.
 *
 *	pages, sorted by number:  [3] [16] [17] …	what is not there is as made
 */
#include <errno.h>
#include <isa-l/crc.h>
#include <stdlib.h>
#include <string.h>

#include "inband/eeprom_image.h"
#include "inband/sim/sim.h"

#define PAGE_BYTES 256

static struct eeprom_page *find(const struct chip *chip, unsigned number, unsigned *place)
{
	unsigned low = 0, high = chip->page_count;

	while (low < high) {
		unsigned middle = (low + high) / 2;

		if (chip->pages[middle]->number < number)
			low = middle + 1;
		else
			high = middle;
	}
	if (place)
		*place = low;
	return low < chip->page_count && chip->pages[low]->number == number ? chip->pages[low]
									    : NULL;
}

static uint8_t as_made(const struct sim *sim, const struct chip *chip, unsigned address)
{
	uint8_t header[EEPROM_HEADER];

	if (address >= EEPROM_HEADER)
		return 0xff;
	eeprom_header(sim->machine, chip - sim->chips, header);
	return header[address];
}

uint8_t eeprom_read(const struct sim *sim, const struct chip *chip, unsigned address)
{
	const struct eeprom_page *page =
		chip->page_count ? find(chip, address / PAGE_BYTES, NULL) : NULL;

	return page ? page->byte[address % PAGE_BYTES] : as_made(sim, chip, address);
}

int eeprom_write(struct sim *sim, struct chip *chip, unsigned address, uint8_t value)
{
	unsigned number = address / PAGE_BYTES, place;
	struct eeprom_page *page, **pages;

	if (eeprom_read(sim, chip, address) == value)
		return 0;
	page = find(chip, number, &place);
	if (!page) {
		pages = realloc(chip->pages, (chip->page_count + 1u) * sizeof(*pages));
		if (!pages)
			return -ENOMEM;
		chip->pages = pages;
		page = malloc(sizeof(*page));
		if (!page)
			return -ENOMEM;
		page->number = number;
		for (unsigned i = 0; i < PAGE_BYTES; i++)
			page->byte[i] = as_made(sim, chip, number * PAGE_BYTES + i);
		memmove(pages + place + 1, pages + place,
			(chip->page_count - place) * sizeof(*pages));
		pages[place] = page;
		chip->page_count++;
		sim->memory += sizeof(*page) + sizeof(*pages);
	}
	page->byte[address % PAGE_BYTES] = value;
	return 0;
}

bool eeprom_load(const struct sim *sim, const struct chip *chip, uint32_t *id)
{
	uint8_t header[EEPROM_HEADER];
	uint32_t crc;

	for (unsigned i = 0; i < sizeof(header); i++)
		header[i] = eeprom_read(sim, chip, i);
	memcpy(&crc, header + EEPROM_HEADER_CRC, 4);
	memcpy(id, header + EEPROM_ID, 4);
	return crc == (uint32_t)~crc32_iscsi(header, EEPROM_HEADER_CRC, ~0u) && *id <= NMP_NO_ID;
}

void eeprom_free(struct chip *chip)
{
	for (unsigned i = 0; i < chip->page_count; i++)
		free(chip->pages[i]);
	free(chip->pages);
	chip->pages = NULL;
	chip->page_count = 0;
}
