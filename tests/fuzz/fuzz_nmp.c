/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Management packets and descriptors of any bits: what is taken for one is the same when it has
 * been packed and unpacked again.
 */
#include <stdlib.h>
#include <string.h>

#include "inband/nmp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_descriptor(const uint8_t *data)
{
	struct nmp_descriptor in, out;
	struct nmp first, second;

	memcpy(&in, data, sizeof(in));
	if (nmp_from_descriptor(&in, &first))
		return;
	nmp_to_descriptor(&first, &out);
	if (nmp_from_descriptor(&out, &second) || memcmp(&first, &second, sizeof(first)) != 0)
		abort();
}

/* The packet's own CRC rarely fits: it is taken from one that is made of what the descriptor says.
 * */
static void check_packet(const uint8_t *data, size_t size)
{
	struct nmp_packet in, out;
	struct nmp first, second;
	unsigned hops;

	memset(&in, 0, sizeof(in));
	memcpy(&in, data, size < sizeof(in) ? size : sizeof(in));
	if (!nmp_from_packet(&in, &first, &hops)) {
		nmp_to_packet(&first, hops, &out);
		if (nmp_from_packet(&out, &second, &hops) || memcmp(&first, &second, sizeof(first)))
			abort();
	}
	memset(&first, 0, sizeof(first));
	memcpy(&first, data, size < sizeof(first) ? size : sizeof(first));
	nmp_to_packet(&first, data[0], &out);
	nmp_from_packet(&out, &second, &hops);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < sizeof(struct nmp_descriptor))
		return 0;
	check_descriptor(data);
	check_packet(data, size);
	return 0;
}
