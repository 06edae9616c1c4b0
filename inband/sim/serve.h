/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* thsim's loop: the socket, and time. One thread. */
#ifndef INBAND_SIM_SERVE_H
#define INBAND_SIM_SERVE_H

#include "inband/sim/sim.h"

/* Until `stop` is readable (a signalfd). 0, or a negative errno with a line on stderr. */
int serve(struct sim *sim, const char *path, int stop, const struct broken *broken, unsigned count);

/* Answers a command; text: GLEX_MESSAGE bytes (command.c). */
void command_answer(struct sim *sim, const struct broken *broken, unsigned count,
		    const char *command, char *text);

#endif
