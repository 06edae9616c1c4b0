/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The sysfs view: what /sys/class/infiniband and its kin would hold if the kernel knew our devices.
 *
 *   sysfs_tree.c    which directories, links and files there are; sysfs_show.c: what they contain
 *   sysfs_fabric.c  the same for a process on a host of a virtual fabric
 *   sysfs.c         from a path to what it names, by the rules of path resolution
 *   sysfs_mirror.c  the directories once more, as real ones, so that they can be opened and listed
 *   files*.c        the libc calls through which programs look
 *
 * The view is laid out as the kernel lays out a device that has a parent:
 *
 *   /sys/devices/virtual/urxe/urxe0/              the parent: net/, infiniband/, infiniband_verbs/
 *   /sys/devices/virtual/urxe/urxe0/infiniband/urxe0/          the device's own directory
 *   /sys/class/infiniband/urxe0                   a link to it
 *   /sys/class/infiniband/urxe0/device            a link to the parent
 *   /sys/class/infiniband_verbs/uverbs0           a link to the parent's infiniband_verbs/uverbs0
 *   /sys/class/infiniband_mad/umad0               and to its infiniband_mad/umad0
 *   /dev/infiniband/uverbs0                       a character device that cannot be opened
 *   /dev/infiniband/umad0                         one that can, for the port's QP 1
 *   /dev/infiniband/rdma_cm                       another one; /sys/class/misc/rdma_cm is about it
 *
 * Any thread may call any of this; nothing takes a lock of its own. What the devices are is read
 * under urxe_device_lock and published as an immutable snapshot.
 */
#ifndef URXE_PRELOAD_SYSFS_H
#define URXE_PRELOAD_SYSFS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "host/device.h"

/* The longest contents of a file, and the size that sysfs gives every file. */
#define URXE_SYSFS_FILE_SIZE 4096

/* The devices that the view shows; made anew when they change, never freed (readers hold no
 * lock). */
struct urxe_sysfs_devices {
	int len;
	int first_uverbs; /* number of device index 0: above those of the kernel */
	int first_umad;
	struct urxe_device *dev[URXE_MAX_DEVICES];
	char netdev[URXE_MAX_DEVICES][IF_NAMESIZE];
};

enum urxe_sysfs_type {
	URXE_SYSFS_DIR = 1,
	URXE_SYSFS_FILE,
	URXE_SYSFS_LINK,
	URXE_SYSFS_CHR,
};

struct urxe_sysfs_node;

/* Writes a file's contents or a link's target and returns the length; -errno as read(2) would. */
typedef ssize_t urxe_sysfs_show_fn(const struct urxe_sysfs_node *node, char *buf, size_t len);

/* One fixed entry of a directory. A list of them ends with a name of NULL. */
struct urxe_sysfs_attr {
	const char *name;
	enum urxe_sysfs_type type;
	const struct urxe_sysfs_dir *dir; /* URXE_SYSFS_DIR */
	/* In place of dir, for a process on a host of a fabric; NULL: none. */
	const struct urxe_sysfs_dir *fabric;
	urxe_sysfs_show_fn *show; /* URXE_SYSFS_FILE, URXE_SYSFS_LINK */
	const char *text;	  /* in place of show: the contents as they are */
	unsigned index;		  /* for show: which counter */
};

/* One kind of directory. */
struct urxe_sysfs_dir {
	/* The kernel may have this directory as well: a name that is not ours is looked up
	 * there. */
	bool kernel;
	/* With kernel: it is nevertheless ours, and its listing holds the kernel's entries too. */
	bool merged;
	const struct urxe_sysfs_attr *fixed;
	/* The i-th further entry: sets name, type, dir, show, dev, index; false past the last. */
	bool (*more)(const struct urxe_sysfs_node *parent, unsigned i,
		     struct urxe_sysfs_node *node);
};

struct urxe_sysfs_node {
	char name[IBV_SYSFS_NAME_MAX];
	enum urxe_sysfs_type type;
	const struct urxe_sysfs_dir *dir;
	urxe_sysfs_show_fn *show;
	const char *text;
	/* URXE_SYSFS_CHR: a descriptor of it, or -errno. NULL: there is another way, or none. */
	int (*open)(const struct urxe_sysfs_node *node, int flags);
	struct urxe_device *dev; /* NULL above the devices */
	struct urxe_port *port;	 /* NULL above the ports */
	unsigned index;		 /* slot of a table, number of a counter or of a uverbs */
};

/* sysfs_tree.c */
extern const struct urxe_sysfs_dir urxe_sysfs_root;
/* sysfs_fabric.c */
extern const struct urxe_sysfs_dir urxe_sysfs_fabric_devices, urxe_sysfs_fabric_dev,
	urxe_sysfs_fabric_class, urxe_sysfs_fabric_class_mad, urxe_sysfs_fabric_class_verbs;
/* The connection manager's device, in both. */
bool urxe_sysfs_rdma_cm_entry(unsigned i, struct urxe_sysfs_node *node, enum urxe_sysfs_type type);
dev_t urxe_sysfs_mad_rdev(const struct urxe_sysfs_node *node);
/* Entry i of a directory; false past the last. And the entry of that name. */
bool urxe_sysfs_entry(const struct urxe_sysfs_node *dir, unsigned i, struct urxe_sysfs_node *node);
bool urxe_sysfs_lookup(const struct urxe_sysfs_node *dir, const char *name,
		       struct urxe_sysfs_node *node);
ssize_t urxe_sysfs_show(const struct urxe_sysfs_node *node, char *buf, size_t len);
/* Asks for the devices again, and returns them; the number of a device's uverbs node. */
const struct urxe_sysfs_devices *urxe_sysfs_refresh(void);
/* The devices as they were last found; asks for them when that was never done. */
const struct urxe_sysfs_devices *urxe_sysfs_devices(void);

/* sysfs_show.c: the numbers of a character device, and whether it is the one that belongs to no
 * adapter. */
dev_t urxe_sysfs_rdev(const struct urxe_sysfs_node *node);
bool urxe_sysfs_is_rdma_cm(const struct urxe_sysfs_node *node);

/* sysfs.c: what a path names. */
enum urxe_sysfs_verdict {
	URXE_SYSFS_NONE, /* nothing of ours: ask the kernel, for the path as it stands or found->path */
	URXE_SYSFS_KERNEL, /* through what is ours to found->path, which is the kernel's */
	URXE_SYSFS_NODE,   /* found->node, whose path without links is found->path */
};

struct urxe_sysfs_found {
	struct urxe_sysfs_node node;
	bool in_directory; /* with -ENOENT: only the last name is missing */
	bool beside;	   /* the kernel's, named relative to a directory that holds ours as well */
	char path[PATH_MAX];
};

/*
 * Resolves an absolute path. nofollow: a link in the last place is itself what is asked for.
 * Returns an enum urxe_sysfs_verdict or what the kernel would say about a path inside the view:
 * -ENOENT, -ENOTDIR, -ELOOP, -ENAMETOOLONG.
 */
int urxe_sysfs_find(const char *path, bool nofollow, struct urxe_sysfs_found *found);

/*
 * sysfs_mirror.c: the real counterpart of a path inside the view. listing: its entries are about to
 * be read, so that it must be current. again: it was used and found missing. -errno when it can be
 * made nowhere.
 */
int urxe_sysfs_mirror(const char *path, bool listing, bool again, char *real, size_t len);
/* The path inside the view that a path inside a mirror stands for; NULL if it is not in one. */
const char *urxe_sysfs_mirrored(const char *real);

#endif
