/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What is to be in a chip's EEPROM by the plan (registers.h says where): the header, which follows
 * from the chip's identity, route tables if it has any, and 0xff. Any thread.
 */
#ifndef INBAND_EEPROM_IMAGE_H
#define INBAND_EEPROM_IMAGE_H

#include "inband/machine.h"
#include "inband/registers.h"
#include "inband/routes.h"

void eeprom_header(const struct machine *machine, uint32_t chip, uint8_t header[EEPROM_HEADER]);
/* Some bytes of an image. routes: NULL: it has no tables, as made. */
void eeprom_image(const struct machine *machine, uint32_t chip, const struct routes *routes,
		  unsigned address, unsigned count, uint8_t *byte);

#endif
