/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Management packets: the table of fields, both forms, the CRC.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "inband/nmp_fields.h"

static struct nmp example(unsigned type)
{
	struct nmp nmp = {.dest_id = 0x4c2d1,
			  .src_id = 0x13579,
			  .dest_vp = 39,
			  .src_vp = 21,
			  .dest_type = NMP_NRC,
			  .rt_type = NMP_BY_SOURCE,
			  .kind = 1,
			  .sm = 1,
			  .head = NMP_HEAD,
			  .transaction = 0xbeef,
			  .type = type};

	nmp.forward.hops = NMP_MAX_HOPS;
	nmp.back.hops = 7;
	for (unsigned i = 0; i < NMP_MAX_HOPS; i++)
		nmp.forward.port[i] = (7 * i + 3) % NMP_PORTS;
	for (unsigned i = 0; i < nmp.back.hops; i++)
		nmp.back.port[i] = 31 - i;
	switch (nmp_form(type)) {
	case NMP_REGISTERS:
		nmp.count = 2;
		nmp.access[0] = (struct nmp_access){0x7fff, 0xfedcba9876543210ull};
		nmp.access[1] = (struct nmp_access){0x1234, 0x0123456789abcdefull};
		break;
	case NMP_BYTES:
		nmp.count = 6;
		for (unsigned i = 0; i < 6; i++)
			nmp.access[i] = (struct nmp_access){0xfff0 + i, 0xa0 + i};
		break;
	case NMP_FORM_ERROR:
		nmp.error = NMP_ERROR_ADDRESS;
		nmp.access[0].address = 0xabcd;
		break;
	default:
		nmp.fault = 1;
		nmp.port = 23;
		nmp.sequence = 65535;
		nmp.value = ~0ull;
	}
	return nmp;
}

static void all_types_survive_the_descriptor(void **state)
{
	for (unsigned type = 1; type <= NMP_TYPES; type++) {
		struct nmp in = example(type), out;
		struct nmp_descriptor descriptor;

		nmp_to_descriptor(&in, &descriptor);
		assert_int_equal(nmp_from_descriptor(&descriptor, &out), 0);
		assert_memory_equal(&in, &out, sizeof(in));
	}
}

static void all_types_survive_the_link(void **state)
{
	for (unsigned type = 1; type <= NMP_TYPES; type++) {
		struct nmp in = example(type), out;
		struct nmp_packet packet;
		unsigned hops;

		in.head = 0; /* the mark of a descriptor stays behind */
		nmp_to_packet(&in, 13, &packet);
		assert_int_equal(nmp_from_packet(&packet, &out, &hops), 0);
		assert_int_equal(hops, 13);
		assert_memory_equal(&in, &out, sizeof(in));
	}
}

static void any_flipped_bit_is_found(void **state)
{
	struct nmp in = example(NMP_REGISTER_READ), out;
	unsigned hops;

	for (unsigned bit = 0; bit < NMP_PACKET_BITS; bit++) {
		struct nmp_packet packet;

		nmp_to_packet(&in, 3, &packet);
		nmp_flip(&packet, bit);
		assert_int_equal(nmp_from_packet(&packet, &out, &hops), -EBADMSG);
	}
}

/* Fields of one packet may not share a bit; fields of different data may. */
static bool together(const struct nmp_field *a, const struct nmp_field *b)
{
	return a->form == NMP_ANY || b->form == NMP_ANY || a->form == b->form;
}

static void no_two_fields_overlap(void **state)
{
	for (unsigned i = 0; i < nmp_field_count; i++) {
		const struct nmp_field *a = &nmp_fields[i];

		assert_true(a->descriptor < 0 || a->descriptor + a->width <= 512);
		assert_true(a->packet < 0 || a->packet + a->width <= NMP_PACKET_BITS);
		for (unsigned j = 0; j < i; j++) {
			const struct nmp_field *b = &nmp_fields[j];

			if (!together(a, b))
				continue;
			assert_true(a->descriptor < 0 || b->descriptor < 0 ||
				    a->descriptor + a->width <= b->descriptor ||
				    b->descriptor + b->width <= a->descriptor);
			assert_true(a->packet < 0 || b->packet < 0 ||
				    a->packet + a->width <= b->packet ||
				    b->packet + b->width <= a->packet);
		}
	}
}

static void what_the_head_flit_needs_is_in_it(void **state)
{
	static const char *const names[] = {"VC", "Length", "Hops", "FRoutingField", "DestID"};

	for (unsigned n = 0; n < 5; n++)
		for (unsigned i = 0; i < nmp_field_count; i++)
			if (!strcmp(nmp_fields[i].name, names[n]))
				assert_true(nmp_fields[i].packet >= 0 &&
					    nmp_fields[i].packet + nmp_fields[i].width <=
						    NMP_FLIT_BITS);
}

static void a_route_is_105_bits_and_has_20_hops_at_most(void **state)
{
	struct nmp in = example(NMP_REGISTER_READ), out;
	struct nmp_descriptor descriptor;

	in.forward.hops = 21;
	nmp_to_descriptor(&in, &descriptor);
	assert_int_equal(nmp_from_descriptor(&descriptor, &out), -EINVAL);
}

static void other_descriptors_are_refused(void **state)
{
	struct nmp out;
	struct nmp_descriptor descriptor;

	for (unsigned i = 0; i < 5; i++) {
		struct nmp in = example(NMP_REGISTER_READ);

		switch (i) {
		case 0: in.head = 0; break;
		case 1: in.sm = 0; break;
		case 2: in.kind = 2; break;
		case 3: in.rt_type = NMP_BY_TABLE; break;
		default: in.type = NMP_TYPES + 1;
		}
		nmp_to_descriptor(&in, &descriptor);
		assert_int_equal(nmp_from_descriptor(&descriptor, &out), -EINVAL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_types_survive_the_descriptor),
		cmocka_unit_test(all_types_survive_the_link),
		cmocka_unit_test(any_flipped_bit_is_found),
		cmocka_unit_test(no_two_fields_overlap),
		cmocka_unit_test(what_the_head_flit_needs_is_in_it),
		cmocka_unit_test(a_route_is_105_bits_and_has_20_hops_at_most),
		cmocka_unit_test(other_descriptors_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
