/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The fields of descriptor and packet, and what walks over them. A row says where a value lies in
 * struct nmp, in the descriptor and in the packet. NMPData has the same 192 bits in both, so its
 * rows are written with their place inside it.
 *
 *	descriptor	control 0–55, TransactionID, FRoute 72–176, BRoute 177–281, NMPType,
 *			NMPData 288–479, source 480–500
 *	packet		head flit: transit, FRoute, destination, NMPType, TransactionID
 *			2nd flit: BRoute, source | 3rd flit: NMPData | tail flit: CRC
 */
#include "inband/nmp_fields.h"

#define D_DATA 288
#define P1     NMP_FLIT_BITS
#define P2     (2 * NMP_FLIT_BITS)
#define P3     (3 * NMP_FLIT_BITS)

#define AT(member)	   (uint16_t) offsetof(struct nmp, member)
#define IN_TRANSIT(member) (uint16_t) offsetof(struct nmp_transit, member)
#define DATA(bit)	   D_DATA + (bit), P2 + (bit)

const struct nmp_field nmp_fields[] = {
	{"DestID", NMP_ANY, NMP_U32, AT(dest_id), 20, 0, 113,
	 "the chip's ID; all ones for a chip that has none yet, else a wrong one is dropped"},
	{"DestVP", NMP_ANY, NMP_U32, AT(dest_vp), 6, 20, 170, "VP whose MPQ takes the response"},
	{"SrcVP", NMP_ANY, NMP_U32, AT(src_vp), 6, 26, 176, "VP that sent the request"},
	{"DestType", NMP_ANY, NMP_U32, AT(dest_type), 1, 32, 133, "0: NIC, 1: NRC"},
	{"RtType", NMP_ANY, NMP_U32, AT(rt_type), 2, 33, 134, "1: the packet carries its route"},
	{"Fen", NMP_ANY, NMP_U32, AT(fence), 1, 35, NMP_ABSENT,
	 "only after the previous descriptor is done"},
	{"Err", NMP_ANY, NMP_U32, AT(err), 1, 36, NMP_ABSENT, "the NIC refused the descriptor"},
	{"Type", NMP_ANY, NMP_U32, AT(kind), 4, 37, 136, "transport packet: 1 for MP"},
	{"S/M", NMP_ANY, NMP_U32, AT(sm), 1, 41, 140, "1: management, a kind of MP"},
	{"Inst", NMP_ANY, NMP_U32, AT(inst), 4, 42, 141, "transport instruction, 0"},
	{"Lint", NMP_ANY, NMP_U32, AT(lint), 1, 46, NMP_ABSENT, "interrupt when it has been sent"},
	{"Rint", NMP_ANY, NMP_U32, AT(rint), 1, 47, 145, "interrupt when the MPQ takes it"},
	{"Head", NMP_ANY, NMP_U32, AT(head), 8, 48, NMP_ABSENT, "marks a descriptor: 0xa5"},
	{"TransactionID", NMP_ANY, NMP_U32, AT(transaction), 16, 56, 152,
	 "matches responses to requests"},
	{"FRoutingField", NMP_ANY, NMP_ROUTE, AT(forward), 105, 72, 8,
	 "HopNum, Hop0 … Hop19: the way there"},
	{"BRoutingField", NMP_ANY, NMP_ROUTE, AT(back), 105, 177, P1, "the way back"},
	{"NMPType", NMP_ANY, NMP_U32, AT(type), 6, 282, 146, "one of 11"},
	{"SrcID", NMP_ANY, NMP_U32, AT(src_id), 20, 480, P1 + 105, "the chip that answers"},
	{"SrcType", NMP_ANY, NMP_U32, AT(src_type), 1, 500, P1 + 125, "0: NIC, 1: NRC"},

	{"Registers", NMP_REGISTERS, NMP_U32, AT(count), 2, DATA(0), "1 or 2"},
	{"Address0", NMP_REGISTERS, NMP_U32, AT(access[0].address), 15, DATA(2), "of a register"},
	{"Value0", NMP_REGISTERS, NMP_U64, AT(access[0].value), 64, DATA(17), "64 bits"},
	{"Address1", NMP_REGISTERS, NMP_U32, AT(access[1].address), 15, DATA(81), ""},
	{"Value1", NMP_REGISTERS, NMP_U64, AT(access[1].value), 64, DATA(96), ""},

	{"Bytes", NMP_BYTES, NMP_U32, AT(count), 3, DATA(0), "1 to 6"},
	{"Byte0", NMP_BYTES, NMP_U32, AT(access[0].address), 16, DATA(3), "address in the EEPROM"},
	{"Data0", NMP_BYTES, NMP_U64, AT(access[0].value), 8, DATA(19), ""},
	{"Byte1", NMP_BYTES, NMP_U32, AT(access[1].address), 16, DATA(27), ""},
	{"Data1", NMP_BYTES, NMP_U64, AT(access[1].value), 8, DATA(43), ""},
	{"Byte2", NMP_BYTES, NMP_U32, AT(access[2].address), 16, DATA(51), ""},
	{"Data2", NMP_BYTES, NMP_U64, AT(access[2].value), 8, DATA(67), ""},
	{"Byte3", NMP_BYTES, NMP_U32, AT(access[3].address), 16, DATA(75), ""},
	{"Data3", NMP_BYTES, NMP_U64, AT(access[3].value), 8, DATA(91), ""},
	{"Byte4", NMP_BYTES, NMP_U32, AT(access[4].address), 16, DATA(99), ""},
	{"Data4", NMP_BYTES, NMP_U64, AT(access[4].value), 8, DATA(115), ""},
	{"Byte5", NMP_BYTES, NMP_U32, AT(access[5].address), 16, DATA(123), ""},
	{"Data5", NMP_BYTES, NMP_U64, AT(access[5].value), 8, DATA(139), ""},

	{"Error", NMP_FORM_ERROR, NMP_U32, AT(error), 8, DATA(0), "why the request was refused"},
	{"At", NMP_FORM_ERROR, NMP_U32, AT(access[0].address), 16, DATA(8), "the address of it"},

	{"Fault", NMP_FORM_REPORT, NMP_U32, AT(fault), 8, DATA(0), "number of the fault signal"},
	{"Port", NMP_FORM_REPORT, NMP_U32, AT(port), 5, DATA(8), "31: of the whole chip"},
	{"Sequence", NMP_FORM_REPORT, NMP_U32, AT(sequence), 16, DATA(16), "reports of this chip"},
	{"State", NMP_FORM_REPORT, NMP_U64, AT(value), 64, DATA(32),
	 "the register behind the fault"},

	{"VC", NMP_ANY, NMP_TRANSIT, IN_TRANSIT(vc), 3, NMP_ABSENT, 0, "3"},
	{"Length", NMP_ANY, NMP_TRANSIT, IN_TRANSIT(length), 3, NMP_ABSENT, 3, "flits: 4"},
	{"Hops", NMP_ANY, NMP_TRANSIT, IN_TRANSIT(hops), 5, NMP_ABSENT, 182,
	 "NRCs that it has left"},
	{"CRC", NMP_ANY, NMP_CRC, 0, 32, NMP_ABSENT, P3 + 166,
	 "CRC-32C of all bits before it, of the link's transmission"},
};
const unsigned nmp_field_count = sizeof(nmp_fields) / sizeof(nmp_fields[0]);

enum nmp_form nmp_form(unsigned type)
{
	if (nmp_is_error(type))
		return NMP_FORM_ERROR;
	if (type == NMP_REPORT)
		return NMP_FORM_REPORT;
	return nmp_is_eeprom(type) ? NMP_BYTES : NMP_REGISTERS;
}

void nmp_print_fields(FILE *file)
{
	static const char *const forms[] = {"", "registers", "EEPROM", "error", "report"};

	fprintf(file, "%-14s %5s %10s %12s  %-10s %s\n", "field", "bits", "descriptor", "flit:bit",
		"packets", "meaning");
	for (unsigned i = 0; i < nmp_field_count; i++) {
		const struct nmp_field *f = &nmp_fields[i];
		char descriptor[16] = "-", packet[24] = "-";

		if (f->descriptor >= 0)
			snprintf(descriptor, sizeof(descriptor), "%d", f->descriptor);
		if (f->packet >= 0)
			snprintf(packet, sizeof(packet), "%d:%d", f->packet / NMP_FLIT_BITS,
				 f->packet % NMP_FLIT_BITS);
		fprintf(file, "%-14s %5u %10s %12s  %-10s %s\n", f->name, f->width, descriptor,
			packet, forms[f->form], f->meaning);
	}
}
