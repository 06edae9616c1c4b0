/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* urxe-ipoib: what its files share. One thread. */
#ifndef URXE_IPOIB_H
#define URXE_IPOIB_H

#include "daemons/common/control.h"
#include "ipoib/ipoib.h"

/* The control socket of an interface: an abstract name, so that it is its network namespace's. */
#define CONTROL_PREFIX "@urxe-ipoib/"

extern const struct control_command ipoib_commands[];
extern const unsigned ipoib_num_commands;

/* urxe-ipoib -s NAME COMMAND: asks a running one. The process's status. */
int command_line(int argc, char **argv);

#endif
