/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* See eeprom_image.h. */
#include <isa-l/crc.h>
#include <string.h>

#include "inband/eeprom_image.h"

void eeprom_header(const struct machine *machine, uint32_t chip, uint8_t header[EEPROM_HEADER])
{
	const struct machine_chip *made = &machine->chips[chip];
	uint64_t serial = 0x7432000000000000ull | (uint64_t)made->type << 40 | made->id;
	uint16_t frame = machine_frame(machine, chip);
	uint32_t enable = 0, crc;

	memset(header, 0, EEPROM_HEADER);
	memcpy(header, made->type == NMP_NRC ? "NRC1" : "NIC1", 4);
	memcpy(header + EEPROM_ID, &made->id, 4);
	memcpy(header + EEPROM_SERIAL, &serial, 8);
	memcpy(header + EEPROM_FAULT_ENABLE, &enable, 4);
	memcpy(header + EEPROM_FRAME, &frame, 2);
	crc = ~crc32_iscsi(header, EEPROM_HEADER_CRC, ~0u);
	memcpy(header + EEPROM_HEADER_CRC, &crc, 4);
}

/* Byte `at` of the tables, 3 bytes an entry and TABLE_ENTRIES entries a port. */
static uint8_t table_byte(const struct routes *routes, uint32_t chip, unsigned at)
{
	unsigned port = at / EEPROM_TABLE_BYTES, in = at % EEPROM_TABLE_BYTES;

	if (port >= routes->machine->chips[chip].ports)
		return 0xff;
	return routes_entry(routes, chip, port, in / 3) >> 8 * (in % 3);
}

void eeprom_image(const struct machine *machine, uint32_t chip, const struct routes *routes,
		  unsigned address, unsigned count, uint8_t *byte)
{
	bool tables = routes && machine->chips[chip].type == NMP_NRC;
	uint8_t header[EEPROM_HEADER];

	if (address < EEPROM_HEADER)
		eeprom_header(machine, chip, header);
	for (unsigned i = 0; i < count; i++) {
		unsigned at = address + i;

		if (at < EEPROM_HEADER)
			byte[i] = header[at];
		else if (tables && at >= EEPROM_TABLES)
			byte[i] = table_byte(routes, chip, at - EEPROM_TABLES);
		else if (tables && at >= EEPROM_TABLE_MARK)
			byte[i] = "RT01"[at - EEPROM_TABLE_MARK];
		else
			byte[i] = 0xff;
	}
}
