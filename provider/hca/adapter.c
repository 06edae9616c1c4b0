// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What the floors above ask of the engine and its wire (adapter.h). Under the engine lock. */
#include <errno.h>

#include "hca/engine.h"
#include "hca/gsi.h"
#include "hca/polling.h"

struct urxe_segment *urxe_adapter_segment(void)
{
	return urxe_hca.seg;
}

uint64_t urxe_adapter_now(void)
{
	return urxe_hca.now;
}

uint64_t urxe_adapter_clock(void)
{
	urxe_engine_clock();
	return urxe_hca.now;
}

void urxe_adapter_reap(void)
{
	if (urxe_hca.wire)
		urxe_wire_housekeep(urxe_hca.wire);
	urxe_gsi_housekeep();
}

bool urxe_adapter_adopt(struct urxe_path *path)
{
	return path->link < URXE_NUM_LINKS && urxe_link_of(path)->adopt(urxe_hca.wire, path);
}

int urxe_adapter_join(const struct urxe_port *port, const struct urxe_link_addr *group)
{
	return urxe_hca.wire ? urxe_wire_mcast_join(urxe_hca.wire, port, group) : -ENODEV;
}

void urxe_adapter_leave(const struct urxe_port *port, const struct urxe_link_addr *group)
{
	if (urxe_hca.wire)
		urxe_wire_mcast_leave(urxe_hca.wire, port, group);
}
