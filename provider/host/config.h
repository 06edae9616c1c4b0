/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The configuration: which devices lie on which netdevs, and their GUIDs.
 *
 *	URXE_DEVICES="urxe0=eth0,urxe1=lo"
 *
 * or a file, $URXE_CONFIG, else $XDG_CONFIG_HOME/urxe.conf ($HOME/.config/urxe.conf where
 * XDG_CONFIG_HOME is not set), else /etc/urxe.conf; the first of these that exists is read:
 *
 *	# a comment
 *	[urxe0]
 *	netdev = eth0
 *	guid = 0200:00ff:fe00:0001
 *
 * If any section names a netdev, the sections that do are the devices, in their order; else
 * devices are made from the netdevs, and sections set the GUIDs of those that get their name.
 * URXE_DEVICES overrides the netdevs of the file, not its GUIDs. A netdev has one device.
 *
 * Plain data and pure functions apart from urxe_config_load(); any thread.
 */
#ifndef URXE_HOST_CONFIG_H
#define URXE_HOST_CONFIG_H

#include "host/device.h"

struct urxe_config_device {
	char name[IBV_SYSFS_NAME_MAX];
	char netdev[IF_NAMESIZE]; /* "" where only a GUID is given */
	uint64_t guid;		  /* network byte order; 0: derived */
	unsigned line;		  /* of the file, where the section begins; 0: URXE_DEVICES */
};

struct urxe_config {
	struct urxe_config_device devices[URXE_MAX_DEVICES];
	unsigned count;
	bool named; /* some device names a netdev: the list is exactly those that do */
};

#define URXE_CONFIG_ERROR_LEN 256

/*
 * Parse a file's text, and the value of URXE_DEVICES, into a zeroed configuration. -EINVAL: error
 * says where ("file:line: ") and what to do. The second is to be called after the first.
 */
int urxe_config_parse(struct urxe_config *cfg, const char *text, const char *file,
		      char error[URXE_CONFIG_ERROR_LEN]);
int urxe_config_parse_devices(struct urxe_config *cfg, const char *value,
			      char error[URXE_CONFIG_ERROR_LEN]);

/* The section of that device name; NULL if there is none. */
struct urxe_config_device *urxe_config_find(struct urxe_config *cfg, const char *name);

/* Reads environment and file. -EINVAL after one line on stderr. */
int urxe_config_load(struct urxe_config *cfg);

#endif
