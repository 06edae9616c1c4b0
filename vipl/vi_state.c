// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The table of VI states (vi_state.h). */
#include "vipl/vi_state.h"

#define STATES 4

#define IDLE	  VIP_STATE_IDLE
#define PENDING	  VIP_STATE_CONNECT_PENDING
#define CONNECTED VIP_STATE_CONNECTED
#define ERROR	  VIP_STATE_ERROR

#define TO(state)                  \
	{                          \
		VIP_SUCCESS, state \
	}
#define REFUSED(state)                   \
	{                                \
		VIP_INVALID_STATE, state \
	}
#define BUSY(state)                       \
	{                                 \
		VIP_ERROR_RESOURCE, state \
	}

static const struct vipl_transition table[VIPL_EVENTS][STATES] = {
	[VIPL_CONNECT] = {[IDLE] = TO(PENDING),
			  [PENDING] = REFUSED(PENDING),
			  [CONNECTED] = REFUSED(CONNECTED),
			  [ERROR] = REFUSED(ERROR)},
	[VIPL_ESTABLISHED] = {[IDLE] = TO(IDLE),
			      [PENDING] = TO(CONNECTED),
			      [CONNECTED] = TO(CONNECTED),
			      [ERROR] = TO(ERROR)},
	[VIPL_FAILED] = {[IDLE] = TO(IDLE),
			 [PENDING] = TO(IDLE),
			 [CONNECTED] = TO(CONNECTED),
			 [ERROR] = TO(ERROR)},
	[VIPL_DISCONNECT] = {[IDLE] = TO(IDLE),
			     [PENDING] = TO(IDLE),
			     [CONNECTED] = TO(IDLE),
			     [ERROR] = TO(IDLE)},
	[VIPL_PEER_GONE] = {[IDLE] = TO(IDLE),
			    [PENDING] = TO(IDLE),
			    [CONNECTED] = TO(ERROR),
			    [ERROR] = TO(ERROR)},
	[VIPL_ERROR] = {[IDLE] = TO(IDLE),
			[PENDING] = TO(ERROR),
			[CONNECTED] = TO(ERROR),
			[ERROR] = TO(ERROR)},
	[VIPL_DROPPED] = {[IDLE] = TO(IDLE),
			  [PENDING] = TO(PENDING),
			  [CONNECTED] = TO(CONNECTED),
			  [ERROR] = TO(ERROR)},
	[VIPL_NIC_FAILED] = {[IDLE] = TO(IDLE),
			     [PENDING] = TO(ERROR),
			     [CONNECTED] = TO(ERROR),
			     [ERROR] = TO(ERROR)},
	[VIPL_SET] = {[IDLE] = TO(IDLE),
		      [PENDING] = REFUSED(PENDING),
		      [CONNECTED] = REFUSED(CONNECTED),
		      [ERROR] = REFUSED(ERROR)},
	[VIPL_DESTROY] = {[IDLE] = TO(IDLE),
			  [PENDING] = BUSY(PENDING),
			  [CONNECTED] = BUSY(CONNECTED),
			  [ERROR] = BUSY(ERROR)},
};

struct vipl_transition vipl_transition(VIP_VI_STATE state, enum vipl_event event)
{
	return table[event][state];
}

enum vipl_mode vipl_send_mode(VIP_VI_STATE state)
{
	return state == CONNECTED ? VIPL_OPEN : VIPL_REFUSE;
}

enum vipl_mode vipl_recv_mode(VIP_VI_STATE state)
{
	switch (state) {
	case CONNECTED: return VIPL_OPEN;
	case ERROR: return VIPL_REFUSE;
	default: return VIPL_HOLD;
	}
}
