// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Transitions between QP states and the attributes that each needs and permits, against a table of
 * its own: IBTA vol. 1, 10.3.1 (the states) and 11.2.5.2, table 91 (the attributes), in the
 * standard's form: a row per transition, a column per transport service. XRC's are annex A14's, raw
 * packets' are the kernel's. Every pair of states, every attribute alone and all of them together.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "hca/hca.h"

enum service { RC, UC, UD, SEND, RECV, RAW, SERVICES };

static const enum ibv_qp_type types[SERVICES] = {
	IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV, IBV_QPT_RAW_PACKET};
static const char *const services[SERVICES] = {"RC", "UC", "UD", "XRC_SEND", "XRC_RECV", "raw"};
static const char *const states[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

#define STATES (IBV_QPS_ERR + 1)
#define ATTRS  26 /* IBV_QP_STATE (bit 0) to IBV_QP_RATE_LIMIT (bit 25) */

/* One letter per attribute keeps a row on a line. */
static const struct {
	char letter;
	int bit;
} letters[] = {
	{'c', IBV_QP_CUR_STATE},
	{'n', IBV_QP_EN_SQD_ASYNC_NOTIFY},
	{'a', IBV_QP_ACCESS_FLAGS},
	{'k', IBV_QP_PKEY_INDEX},
	{'p', IBV_QP_PORT},
	{'q', IBV_QP_QKEY},
	{'v', IBV_QP_AV},
	{'m', IBV_QP_PATH_MTU},
	{'t', IBV_QP_TIMEOUT},
	{'r', IBV_QP_RETRY_CNT},
	{'R', IBV_QP_RNR_RETRY},
	{'x', IBV_QP_RQ_PSN},
	{'i', IBV_QP_MAX_QP_RD_ATOMIC},
	{'A', IBV_QP_ALT_PATH},
	{'w', IBV_QP_MIN_RNR_TIMER},
	{'s', IBV_QP_SQ_PSN},
	{'d', IBV_QP_MAX_DEST_RD_ATOMIC},
	{'M', IBV_QP_PATH_MIG_STATE},
	{'C', IBV_QP_CAP},
	{'D', IBV_QP_DEST_QPN},
	{'l', IBV_QP_RATE_LIMIT},
};

/* What the other half of an XRC connection has may be given, and means nothing. */
static const int ignored[SERVICES] = {
	[SEND] = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	[RECV] = IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY,
};

/* "needed/permitted" per service; NULL: the service has no such transition. */
static const struct row {
	enum ibv_qp_state from, to;
	const char *attrs[SERVICES];
} table[] = {
	{IBV_QPS_RESET, IBV_QPS_INIT, {"kpa/", "kpa/", "kpq/", "kpa/", "kpa/", "p/"}},
	{IBV_QPS_INIT, IBV_QPS_INIT, {"/kpa", "/kpa", "/kpq", "/kpa", "/kpa", "/p"}},
	{IBV_QPS_INIT,
	 IBV_QPS_RTR,
	 {"vmDxdw/Aak", "vmDx/Aak", "/kq", "vmDx/Aak", "vmDxdw/Aak", "/"}},
	{IBV_QPS_RTR,
	 IBV_QPS_RTS,
	 {"trRsi/cAawMl", "s/cAaMl", "s/cql", "trRsi/cAaMl", "ts/cAawM", "/l"}},
	{IBV_QPS_RTS, IBV_QPS_RTS, {"/cAawMl", "/cAaMl", "/cql", "/cAaMl", "/cAawM", "/cl"}},
	{IBV_QPS_RTS, IBV_QPS_SQD, {"/n", "/n", "/n", "/n", "/n", "/n"}},
	{IBV_QPS_SQD, IBV_QPS_RTS, {"/cAawMl", "/cAaMl", "/cql", "/cAaMl", "/cAawM", "/cl"}},
	{IBV_QPS_SQD,
	 IBV_QPS_SQD,
	 {"/pvtrRidAakwM", "/vAakM", "/kq", "/pvtrRiAakM", "/pvtdAakwM", "/"}},
	/* RC has no SQE: an error of its send queue is one of the QP. */
	{IBV_QPS_SQE, IBV_QPS_RTS, {NULL, "/ca", "/cq", NULL, NULL, "/c"}},
};

static int bit_of(char letter)
{
	for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++)
		if (letters[i].letter == letter)
			return letters[i].bit;
	fail_msg("no attribute '%c'", letter);
	return 0;
}

/* What the standard says of a transition: false when there is none. */
static bool expected(unsigned from, unsigned to, enum service service, int *required, int *optional)
{
	const char *attrs = NULL;

	*required = *optional = 0;
	/* From any state; nothing else can be changed with it. */
	if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
		return true;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (table[i].from == from && table[i].to == to)
			attrs = table[i].attrs[service];
	if (!attrs)
		return false;
	for (; *attrs != '/'; attrs++)
		*required |= bit_of(*attrs);
	for (attrs++; *attrs; attrs++)
		*optional |= bit_of(*attrs);
	return true;
}

static unsigned from, to;
static enum service service;

static void expect(bool ok, int mask, const char *what)
{
	enum ibv_qp_type type = types[service];

	if (urxe_qp_transition_ok(from, to, type, urxe_qp_attrs_of(type, mask)) != ok)
		fail_msg("%s to %s, %s, mask 0x%x (%s): expected %s", states[from], states[to],
			 services[service], mask, what, ok ? "valid" : "invalid");
}

static void check_valid(int required, int optional)
{
	int all = required | optional;

	expect(true, required | IBV_QP_STATE, "the least");
	expect(true, all | IBV_QP_STATE, "all that is permitted");
	/* A change without a change of state is asked for without this bit. */
	expect(true, required, "no state");
	for (int i = 1; i < ATTRS; i++) {
		int bit = 1 << i;

		if (required & bit) {
			expect(false, (required & ~bit) | IBV_QP_STATE, "a required one missing");
			expect(false, (all & ~bit) | IBV_QP_STATE, "a required one missing");
		} else if ((optional | ignored[service]) & bit) {
			expect(true, required | bit | IBV_QP_STATE, "an optional one");
			expect(true, (all & ~bit) | IBV_QP_STATE, "without an optional one");
		} else {
			expect(false, required | bit | IBV_QP_STATE, "one not permitted");
			expect(false, all | bit | IBV_QP_STATE, "one not permitted");
		}
	}
}

static void check_invalid(void)
{
	expect(false, 0, "nothing");
	expect(false, IBV_QP_STATE, "state alone");
	expect(false, (1 << ATTRS) - 1, "everything");
	for (int i = 1; i < ATTRS; i++)
		expect(false, 1 << i | IBV_QP_STATE, "one");
	/* Nor with what another transition to the same state, or from it, needs. */
	for (unsigned other = 0; other < STATES; other++) {
		int required, optional;

		if (expected(other, to, service, &required, &optional))
			expect(false, required | IBV_QP_STATE, "what another state needs");
		if (expected(from, other, service, &required, &optional))
			expect(false, required | IBV_QP_STATE, "what another state needs");
	}
}

static void test_every_transition(void **state)
{
	unsigned valid = 0;

	for (from = 0; from < STATES; from++) {
		for (to = 0; to < STATES; to++) {
			for (service = 0; service < SERVICES; service++) {
				int required, optional;

				if (expected(from, to, service, &required, &optional)) {
					check_valid(required, optional);
					valid++;
				} else {
					check_invalid();
				}
			}
		}
	}
	/* 7 states to RESET and to ERR, and the rows of the table (one lacks three services). */
	assert_int_equal(valid, (2 * 7 + 9) * SERVICES - 3);
}

/* Types that this adapter has not, and states that no QP has. */
static void test_strangers(void **state)
{
	assert_false(urxe_qp_transition_ok(IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPT_DRIVER,
					   IBV_QP_STATE | IBV_QP_PORT));
	assert_false(urxe_qp_transition_ok(IBV_QPS_RTS, IBV_QPS_UNKNOWN, IBV_QPT_RC, IBV_QP_STATE));
	assert_false(urxe_qp_transition_ok(IBV_QPS_RTS, -1, IBV_QPT_RC, IBV_QP_STATE));
	assert_false(urxe_qp_transition_ok(IBV_QPS_RTS, 1000, IBV_QPT_UD, IBV_QP_STATE));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_transition),
		cmocka_unit_test(test_strangers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
