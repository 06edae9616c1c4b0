/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The sysfs view: what /sys/class/infiniband and its kin would hold if the kernel knew our devices.
 *
 *   sysfs_tree.c      which devices there are, and the directories above and beside them
 *   sysfs_device.c    the directory of a device, and what its files contain
 *   sysfs_counters.c  the counters of a port
 *   sysfs_fabric.c    what differs for a process on a host of a virtual fabric, whose adapters are
 *                     its devices: it sees neither RoCE devices nor the kernel's
 *   sysfs.c           from a path to what it names, by the rules of path resolution
 *   sysfs_mirror.c    the directories once more, as real ones, so that they can be opened and listed
 *   files*.c          the libc calls through which programs look
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
 *   /dev/infiniband/umad0                         one that can, for the port's MADs; issm0 on a fabric
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

struct urxe_sysfs_device {
	struct urxe_device *dev;     /* NULL: on a fabric, */
	unsigned adapter;	     /* the host's adapter of that number */
	unsigned num_ports;	     /* 1 … */
	unsigned first_umad, uverbs; /* the number of its port 1's umad, and of its uverbs */
	char name[IBV_SYSFS_NAME_MAX];
	char netdev[IF_NAMESIZE];
};

/* The devices that the view shows; made anew when they change, never freed (readers hold no
 * lock). */
struct urxe_sysfs_devices {
	unsigned len;
	unsigned first_uverbs; /* number of device index 0: above those of the kernel */
	struct urxe_sysfs_device at[URXE_MAX_DEVICES];
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
	urxe_sysfs_show_fn *show;	  /* URXE_SYSFS_FILE, URXE_SYSFS_LINK */
	const char *text;		  /* in place of show: the contents as they are */
	urxe_sysfs_show_fn *fabric;	  /* in place of both on a fabric */
	bool netdev;			  /* there only where ports are netdevs: not on a fabric */
	unsigned index;			  /* for show: which counter */
};

/* What a device has one or more of, with a directory of each, listed in a class. */
struct urxe_sysfs_kind {
	const char *class;
	const struct urxe_sysfs_dir *dir;
	/* Entry i of node->device: sets name, port, index, rdev; false past the last. */
	bool (*entry)(struct urxe_sysfs_node *node, unsigned i);
	/* Of its character device: a descriptor, or -errno. NULL: it cannot be opened. */
	int (*open)(const struct urxe_sysfs_node *node, int flags);
};

/* One kind of directory. */
struct urxe_sysfs_dir {
	/* The kernel's: a name that is not ours is looked up there. */
	bool kernel;
	/* Ours; the kernel may have it as well, and its entries are shown beside ours, but on a
	 * fabric. */
	bool merged;
	const struct urxe_sysfs_attr *fixed;
	const struct urxe_sysfs_kind *kind; /* whose entries it lists */
	/* Files 0, 1, … of a table, and how many. */
	urxe_sysfs_show_fn *show;
	unsigned (*slots)(const struct urxe_sysfs_node *node);
	/* The i-th further entry: sets what is not as in parent; false past the last. */
	bool (*more)(const struct urxe_sysfs_node *parent, unsigned i,
		     struct urxe_sysfs_node *node);
};

struct urxe_sysfs_node {
	char name[IBV_SYSFS_NAME_MAX];
	enum urxe_sysfs_type type;
	const struct urxe_sysfs_dir *dir;
	urxe_sysfs_show_fn *show;
	const char *text;
	/* URXE_SYSFS_CHR: a descriptor of it, or -errno. NULL: there is none. */
	int (*open)(const struct urxe_sysfs_node *node, int flags);
	const struct urxe_sysfs_kind *kind;	/* of an entry of that kind */
	const struct urxe_sysfs_device *device; /* NULL above the devices */
	dev_t rdev;	/* of a character device; 0: the connection manager's */
	unsigned port;	/* its number; 0 above the ports */
	unsigned index; /* slot of a table, number of a counter; 1: an issm */
};

/* sysfs_tree.c */
extern const struct urxe_sysfs_dir urxe_sysfs_root;
/* Entry i of a directory; false past the last. And the entry of that name. */
bool urxe_sysfs_entry(const struct urxe_sysfs_node *dir, unsigned i, struct urxe_sysfs_node *node);
bool urxe_sysfs_lookup(const struct urxe_sysfs_node *dir, const char *name,
		       struct urxe_sysfs_node *node);
ssize_t urxe_sysfs_show(const struct urxe_sysfs_node *node, char *buf, size_t len);
/* Does the kernel have entries beside ours there? */
bool urxe_sysfs_merged(const struct urxe_sysfs_dir *dir);
/* Asks for the devices again, and returns them. */
const struct urxe_sysfs_devices *urxe_sysfs_refresh(void);
/* The devices as they were last found; asks for them when that was never done. */
const struct urxe_sysfs_devices *urxe_sysfs_devices(void);

/* sysfs_device.c: the number of a character device. */
dev_t urxe_sysfs_rdev(const struct urxe_sysfs_node *node);

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
