/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A guest's vGUID in the metadata of its libvirt domain, where it travels with the guest:
 *
 *	<metadata>
 *	  <lidtrack:port xmlns:lidtrack='urn:urxe:lidtrack:1' guid='0x0255525800010000' pkeys='0xffff,0x8001'/>
 *	</metadata>
 *
 * libvirt hands out that element alone, without its prefix. Unknown attributes are an error, as
 * unknown members of a record are. Pure functions.
 */
#ifndef MIGRATE_METADATA_H
#define MIGRATE_METADATA_H

#include "migrate/record.h"

#define METADATA_URI	"urn:urxe:lidtrack:1"
#define METADATA_PREFIX "lidtrack"
#define METADATA_LEN	512

/* Fills in guid, pkeys and num_pkeys and leaves the rest. -EINVAL: not
 * such an element, or no GUID. */
int metadata_parse(struct record *record, const char *xml, size_t len);
/* The element as virDomainSetMetadata() takes it, with its end, into METADATA_LEN bytes; the
 * length. */
size_t metadata_format(const struct record *record, char *xml);

#endif
