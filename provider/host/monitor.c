// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The netlink monitor: a socket in rtnetlink's link and address groups. A message is only a hint
 * that something changed; the state is then read anew, so that lost messages (ENOBUFS) cost
 * nothing and the order of messages does not matter. One thread at a time; the lists' locks are
 * taken in device.c.
 */
#include <errno.h>
#include <linux/rtnetlink.h>
#include <netlink/msg.h>
#include <string.h>

#include "host/device_list.h"
#include "host/fabric.h"
#include "host/fabric_device.h"
#include "host/fd.h"
#include "host/log.h"

int urxe_device_monitor_open(void)
{
	int fd;

	if (urxe_fabric_wanted())
		return urxe_fabric_monitor_open();
	fd = urxe_fd_keep(urxe_netlink_open(RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
					    SOCK_NONBLOCK));
	if (fd < 0) {
		urxe_log(URXE_LOG_WARN, "cannot watch the netdevs: %s", strerror(-fd));
		return fd;
	}
	/* Changes before this line need no event, and no later change is missed. */
	urxe_devices_refresh(false);
	urxe_ports_report(NULL, NULL);
	return fd;
}

static bool message_concerns(struct nlmsghdr *nlh, int len)
{
	for (; nlmsg_ok(nlh, len); nlh = nlmsg_next(nlh, &len)) {
		unsigned ifindex = urxe_netlink_ifindex(nlh);

		if (ifindex && urxe_devices_concern(ifindex))
			return true;
	}
	return false;
}

void urxe_device_monitor_read(int fd, urxe_port_event_fn *fn, void *arg)
{
	static _Alignas(struct nlmsghdr) char buf[URXE_NETLINK_BUFFER];
	bool changed = false;

	if (urxe_fabric_wanted()) {
		urxe_fabric_monitor_read(fn, arg);
		return;
	}
	for (;;) {
		ssize_t n = urxe_netlink_read(fd, buf, sizeof(buf), MSG_DONTWAIT);

		/* Too long, or the queue overflowed: something changed. */
		if (!n || n == -ENOBUFS)
			changed = true;
		else if (n < 0)
			break;
		else
			changed = changed || message_concerns((struct nlmsghdr *)buf, n);
	}
	if (changed)
		urxe_devices_refresh(false);
	urxe_ports_report(fn, arg);
}

void urxe_device_monitor_close(int fd)
{
	if (urxe_fabric_wanted())
		urxe_fabric_monitor_close();
	else
		urxe_fd_close(fd);
}
