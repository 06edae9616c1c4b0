/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Packs and unpacks by the table of nmp_fields.c. From it a list of rows is made for each kind of
 * data and each of the two forms, before main(); any thread may use them then.
 */
#include <errno.h>
#include <isa-l/crc.h>
#include <string.h>

#include "inband/nmp_fields.h"

#define CRC_BYTES ((NMP_PACKET_BITS - 32) / 8)

_Static_assert((NMP_PACKET_BITS - 32) % 8 == 0, "the CRC covers whole bytes");

static inline void put(uint64_t *words, unsigned bit, unsigned width, uint64_t value)
{
	unsigned shift = bit % 64;
	uint64_t mask = width < 64 ? (1ull << width) - 1 : ~0ull;

	value &= mask;
	words[bit / 64] = (words[bit / 64] & ~(mask << shift)) | value << shift;
	if (shift + width > 64) {
		words[bit / 64 + 1] &= ~(mask >> (64 - shift));
		words[bit / 64 + 1] |= value >> (64 - shift);
	}
}

static inline uint64_t get(const uint64_t *words, unsigned bit, unsigned width)
{
	unsigned shift = bit % 64;
	uint64_t value = words[bit / 64] >> shift;

	if (shift + width > 64)
		value |= words[bit / 64 + 1] << (64 - shift);
	return width < 64 ? value & ((1ull << width) - 1) : value;
}

/* HopNum, then Hop0 to Hop19: 21 times 5 bits. */
static void put_route(uint64_t *words, unsigned bit, const struct nmp_route *route)
{
	put(words, bit, 5, route->hops);
	for (unsigned i = 0; i < route->hops && i < NMP_MAX_HOPS; i++)
		put(words, bit + 5 + 5 * i, 5, route->port[i]);
}

static bool get_route(const uint64_t *words, unsigned bit, struct nmp_route *route)
{
	unsigned hops = get(words, bit, 5);

	if (hops > NMP_MAX_HOPS)
		return false;
	route->hops = hops;
	for (unsigned i = 0; i < hops; i++)
		route->port[i] = get(words, bit + 5 + 5 * i, 5);
	return true;
}

static void put_field(const struct nmp_field *f, const void *from, uint64_t *words, unsigned bit)
{
	const char *at = (const char *)from + f->offset;

	if (f->holder == NMP_ROUTE)
		put_route(words, bit, (const void *)at);
	else
		put(words, bit, f->width,
		    f->holder == NMP_U64 ? *(const uint64_t *)at : *(const uint32_t *)at);
}

static bool get_field(const struct nmp_field *f, const uint64_t *words, unsigned bit, void *to)
{
	char *at = (char *)to + f->offset;

	if (f->holder == NMP_ROUTE)
		return get_route(words, bit, (void *)at);
	if (f->holder == NMP_U64)
		*(uint64_t *)at = get(words, bit, f->width);
	else
		*(uint32_t *)at = get(words, bit, f->width);
	return true;
}

enum side { DESCRIPTOR, PACKET, SIDES };

/* The fields that one kind of packet has in one form. */
struct rows {
	unsigned count;
	struct nmp_field row[40];
	uint16_t bit[40];
};

static struct rows rows[NMP_FORM_REPORT + 1][SIDES];
static uint16_t type_bit[SIDES], type_width; /* NMPType says what the rest is */

__attribute__((constructor)) static void make_rows(void)
{
	for (unsigned i = 0; i < nmp_field_count; i++) {
		const struct nmp_field *f = &nmp_fields[i];
		const int bit[SIDES] = {f->descriptor, f->packet};

		if (f->holder > NMP_ROUTE)
			continue;
		for (unsigned side = 0; side < SIDES; side++) {
			if (bit[side] < 0)
				continue;
			if (f->offset == offsetof(struct nmp, type)) {
				type_bit[side] = bit[side];
				type_width = f->width;
			}
			for (unsigned form = NMP_REGISTERS; form <= NMP_FORM_REPORT; form++) {
				struct rows *r = &rows[form][side];

				if (f->form != NMP_ANY && f->form != form)
					continue;
				r->row[r->count] = *f;
				r->bit[r->count++] = bit[side];
			}
		}
	}
}

static void pack(const struct nmp *nmp, enum side side, uint64_t *words)
{
	const struct rows *r = &rows[nmp_form(nmp->type)][side];

	for (unsigned i = 0; i < r->count; i++)
		put_field(&r->row[i], nmp, words, r->bit[i]);
}

static int unpack(const uint64_t *words, enum side side, struct nmp *nmp)
{
	const struct rows *r = &rows[nmp_form(get(words, type_bit[side], type_width))][side];

	memset(nmp, 0, sizeof(*nmp));
	for (unsigned i = 0; i < r->count; i++)
		if (!get_field(&r->row[i], words, r->bit[i], nmp))
			return -EINVAL;
	return 0;
}

void nmp_to_descriptor(const struct nmp *nmp, struct nmp_descriptor *descriptor)
{
	memset(descriptor, 0, sizeof(*descriptor));
	pack(nmp, DESCRIPTOR, descriptor->word);
}

int nmp_from_descriptor(const struct nmp_descriptor *descriptor, struct nmp *nmp)
{
	int ret = unpack(descriptor->word, DESCRIPTOR, nmp);

	if (ret)
		return ret;
	if (nmp->head != NMP_HEAD || nmp->kind != 1 || !nmp->sm || nmp->rt_type != NMP_BY_SOURCE)
		return -EINVAL;
	return nmp->type >= 1 && nmp->type <= NMP_TYPES ? 0 : -EINVAL;
}

static uint32_t crc(const struct nmp_packet *packet)
{
	return ~crc32_iscsi((unsigned char *)(uintptr_t)packet->word, CRC_BYTES, ~0u);
}

void nmp_to_packet(const struct nmp *nmp, unsigned hops, struct nmp_packet *packet)
{
	const struct nmp_transit transit = {.vc = NMP_VC, .length = NMP_FLITS, .hops = hops};

	memset(packet, 0, sizeof(*packet));
	pack(nmp, PACKET, packet->word);
	for (unsigned i = 0; i < nmp_field_count; i++) {
		const struct nmp_field *f = &nmp_fields[i];

		if (f->holder == NMP_TRANSIT)
			put_field(f, &transit, packet->word, f->packet);
		else if (f->holder == NMP_CRC)
			put(packet->word, f->packet, f->width, crc(packet));
	}
}

int nmp_from_packet(const struct nmp_packet *packet, struct nmp *nmp, unsigned *hops)
{
	struct nmp_transit transit = {0};

	for (unsigned i = 0; i < nmp_field_count; i++) {
		const struct nmp_field *f = &nmp_fields[i];

		if (f->holder == NMP_TRANSIT)
			get_field(f, packet->word, f->packet, &transit);
		else if (f->holder == NMP_CRC &&
			 get(packet->word, f->packet, f->width) != crc(packet))
			return -EBADMSG;
	}
	*hops = transit.hops;
	if (transit.vc != NMP_VC || transit.length != NMP_FLITS || transit.hops > NMP_MAX_HOPS)
		return -EINVAL;
	return unpack(packet->word, PACKET, nmp);
}

void nmp_flip(struct nmp_packet *packet, unsigned bit)
{
	packet->word[bit / 64] ^= 1ull << bit % 64;
}

bool nmp_is_eeprom(unsigned type)
{
	return type >= NMP_EEPROM_READ && type <= NMP_EEPROM_ERROR;
}

bool nmp_is_request(unsigned type)
{
	return type == NMP_REGISTER_READ || type == NMP_REGISTER_WRITE || type == NMP_EEPROM_READ ||
	       type == NMP_EEPROM_WRITE;
}

bool nmp_is_error(unsigned type)
{
	return type == NMP_REGISTER_ERROR || type == NMP_EEPROM_ERROR;
}

unsigned nmp_response(unsigned request)
{
	return request + 1;
}

bool nmp_route_equal(const struct nmp_route *a, const struct nmp_route *b)
{
	return a->hops == b->hops && !memcmp(a->port, b->port, a->hops);
}
