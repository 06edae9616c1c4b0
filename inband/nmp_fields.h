/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The table behind nmp.h. */
#ifndef INBAND_NMP_FIELDS_H
#define INBAND_NMP_FIELDS_H

#include "inband/nmp.h"

#define NMP_ABSENT    (-1)
#define NMP_DATA_BITS 192

/* Which packets have a field. */
enum nmp_form { NMP_ANY, NMP_REGISTERS, NMP_BYTES, NMP_FORM_ERROR, NMP_FORM_REPORT };

enum nmp_holder { NMP_U32, NMP_U64, NMP_ROUTE, NMP_CRC, NMP_TRANSIT };

struct nmp_field {
	const char *name;
	uint8_t form;	/* enum nmp_form */
	uint8_t holder; /* enum nmp_holder: what it is in struct nmp, or in struct nmp_transit */
	uint16_t offset;
	uint16_t width;	    /* bits */
	int16_t descriptor; /* its first bit there, or NMP_ABSENT */
	int16_t packet;
	const char *meaning;
};

extern const struct nmp_field nmp_fields[];
extern const unsigned nmp_field_count;

enum nmp_form nmp_form(unsigned type);

#endif
