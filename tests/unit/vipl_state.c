// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The states of a VI: each event in each state, as the source's section 2.2 and the manual have it.
 * */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "vipl/vi_state.h"

#define I VIP_STATE_IDLE
#define P VIP_STATE_CONNECT_PENDING
#define C VIP_STATE_CONNECTED
#define E VIP_STATE_ERROR

#define OK    VIP_SUCCESS
#define STATE VIP_INVALID_STATE
#define BUSY  VIP_ERROR_RESOURCE

static const struct {
	enum vipl_event event;
	VIP_VI_STATE from;
	VIP_RETURN result;
	VIP_VI_STATE to;
} rows[] = {
	{VIPL_CONNECT, I, OK, P},     {VIPL_CONNECT, P, STATE, P},  {VIPL_CONNECT, C, STATE, C},
	{VIPL_CONNECT, E, STATE, E},  {VIPL_ESTABLISHED, I, OK, I}, {VIPL_ESTABLISHED, P, OK, C},
	{VIPL_ESTABLISHED, C, OK, C}, {VIPL_ESTABLISHED, E, OK, E}, {VIPL_FAILED, I, OK, I},
	{VIPL_FAILED, P, OK, I},      {VIPL_FAILED, C, OK, C},	    {VIPL_FAILED, E, OK, E},
	{VIPL_DISCONNECT, I, OK, I},  {VIPL_DISCONNECT, P, OK, I},  {VIPL_DISCONNECT, C, OK, I},
	{VIPL_DISCONNECT, E, OK, I},  {VIPL_PEER_GONE, I, OK, I},   {VIPL_PEER_GONE, P, OK, I},
	{VIPL_PEER_GONE, C, OK, E},   {VIPL_PEER_GONE, E, OK, E},   {VIPL_ERROR, I, OK, I},
	{VIPL_ERROR, P, OK, E},	      {VIPL_ERROR, C, OK, E},	    {VIPL_ERROR, E, OK, E},
	{VIPL_DROPPED, I, OK, I},     {VIPL_DROPPED, P, OK, P},	    {VIPL_DROPPED, C, OK, C},
	{VIPL_DROPPED, E, OK, E},     {VIPL_NIC_FAILED, I, OK, I},  {VIPL_NIC_FAILED, P, OK, E},
	{VIPL_NIC_FAILED, C, OK, E},  {VIPL_NIC_FAILED, E, OK, E},  {VIPL_SET, I, OK, I},
	{VIPL_SET, P, STATE, P},      {VIPL_SET, C, STATE, C},	    {VIPL_SET, E, STATE, E},
	{VIPL_DESTROY, I, OK, I},     {VIPL_DESTROY, P, BUSY, P},   {VIPL_DESTROY, C, BUSY, C},
	{VIPL_DESTROY, E, BUSY, E},
};

static void each_event_in_each_state(void **state)
{
	assert_int_equal(sizeof(rows) / sizeof(*rows), VIPL_EVENTS * 4);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct vipl_transition got = vipl_transition(rows[i].from, rows[i].event);

		assert_int_equal(got.result, rows[i].result);
		assert_int_equal(got.next, rows[i].to);
	}
}

static void sends_are_refused_but_when_connected(void **state)
{
	assert_int_equal(vipl_send_mode(I), VIPL_REFUSE);
	assert_int_equal(vipl_send_mode(P), VIPL_REFUSE);
	assert_int_equal(vipl_send_mode(C), VIPL_OPEN);
	assert_int_equal(vipl_send_mode(E), VIPL_REFUSE);
}

static void receives_are_held_before_connecting(void **state)
{
	assert_int_equal(vipl_recv_mode(I), VIPL_HOLD);
	assert_int_equal(vipl_recv_mode(P), VIPL_HOLD);
	assert_int_equal(vipl_recv_mode(C), VIPL_OPEN);
	assert_int_equal(vipl_recv_mode(E), VIPL_REFUSE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_event_in_each_state),
		cmocka_unit_test(sends_are_refused_but_when_connected),
		cmocka_unit_test(receives_are_held_before_connecting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
