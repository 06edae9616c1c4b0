// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * From a path to what it names in the sysfs view: component by component through the tables of
 * sysfs_tree.c, by the kernel's rules (path_resolution(7)): repeated slashes, ".", "..", links in
 * the middle and at the end, a trailing slash that asks for a directory. A name that the tables do
 * not have, in a directory that the kernel has too, is the kernel's.
 *
 * Any thread; works on its arguments only. A path outside the view leaves it at the first component
 * that is not in the tables, before any device is asked for.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "preload/sysfs.h"

#define MAX_DEPTH 16 /* of the view: gid_attrs/types/0 lies 11 below the root */
#define MAX_LINKS 40 /* as the kernel */

/* Where the walk is: a stack of directories, and the path to the top one in found->path. */
struct walk {
	struct urxe_sysfs_found *found;
	struct urxe_sysfs_node stack[MAX_DEPTH];
	size_t len[MAX_DEPTH]; /* of found->path with this node at its end */
	int depth;
	int links;
	bool up;	     /* ".." led out of a directory that the kernel may not have */
	bool refreshed;	     /* the devices were asked for again */
	char rest[PATH_MAX]; /* what is still to be walked */
};

static void walk_to_root(struct walk *w)
{
	w->depth = 0;
	w->len[0] = 0;
	w->stack[0] = (struct urxe_sysfs_node){.type = URXE_SYSFS_DIR, .dir = &urxe_sysfs_root};
	w->found->path[0] = '\0';
}

static int walk_into(struct walk *w, const struct urxe_sysfs_node *node)
{
	size_t at = w->len[w->depth];
	size_t need = strlen(node->name) + 1;

	if (w->depth + 1 >= MAX_DEPTH || at + need >= sizeof(w->found->path))
		return -ENAMETOOLONG;
	w->found->path[at] = '/';
	memcpy(w->found->path + at + 1, node->name, need);
	w->depth++;
	w->len[w->depth] = at + need;
	w->stack[w->depth] = *node;
	return 0;
}

static bool is_kernels(const struct urxe_sysfs_node *node)
{
	return node->type == URXE_SYSFS_DIR && node->dir->kernel;
}

static void walk_up(struct walk *w)
{
	if (!is_kernels(&w->stack[w->depth]))
		w->up = true;
	if (w->depth)
		w->depth--;
	w->found->path[w->len[w->depth]] = '\0';
}

/* Puts the target of a link in front of what is still to be walked. */
static int walk_link(struct walk *w, const struct urxe_sysfs_node *link, const char *rest)
{
	char target[3 * IBV_SYSFS_NAME_MAX];
	ssize_t n = urxe_sysfs_show(link, target, sizeof(target));
	size_t left = strlen(rest);

	if (n < 0)
		return n;
	if (++w->links > MAX_LINKS)
		return -ELOOP;
	if (n + left + 1 > sizeof(w->rest))
		return -ENAMETOOLONG;
	memmove(w->rest + n, rest, left + 1);
	memcpy(w->rest, target, n);
	return 0;
}

/* Where the kernel goes on: as the path stands, if it has all that was walked through. */
static int way_out(const struct walk *w)
{
	return w->links || w->up ? URXE_SYSFS_KERNEL : URXE_SYSFS_NONE;
}

/* The kernel's: found->path is where the walk got to, and the rest of the way. */
static int walk_leaves(struct walk *w, const char *name, const char *rest)
{
	struct urxe_sysfs_found *f = w->found;
	size_t at = w->len[w->depth];

	if ((size_t)snprintf(f->path + at, sizeof(f->path) - at, "/%s%s", name, rest) >=
	    sizeof(f->path) - at)
		return -ENAMETOOLONG;
	return way_out(w);
}

/* A name that is not there may be that of a device that has just come. */
static bool walk_lookup(struct walk *w, const char *name, struct urxe_sysfs_node *node)
{
	const struct urxe_sysfs_node *dir = &w->stack[w->depth];

	if (urxe_sysfs_lookup(dir, name, node))
		return true;
	if (!dir->dir->more || dir->device || w->refreshed)
		return false;
	w->refreshed = true;
	urxe_sysfs_refresh();
	return urxe_sysfs_lookup(dir, name, node);
}

/*
 * One component. URXE_SYSFS_NODE to go on, anything else is the result. *rest points behind the
 * component and is set to what is left.
 */
static int walk_step(struct walk *w, const char *name, const char **rest, bool nofollow)
{
	const struct urxe_sysfs_node *dir = &w->stack[w->depth];
	struct urxe_sysfs_node node;
	int ret;

	if (dir->type != URXE_SYSFS_DIR)
		return -ENOTDIR;
	if (!strcmp(name, "."))
		return URXE_SYSFS_NODE;
	if (!strcmp(name, "..")) {
		walk_up(w);
		return URXE_SYSFS_NODE;
	}
	if (!walk_lookup(w, name, &node)) {
		if (dir->dir->kernel || urxe_sysfs_merged(dir->dir))
			return walk_leaves(w, name, *rest);
		w->found->in_directory = !(*rest)[strspn(*rest, "/")];
		return -ENOENT;
	}
	if (node.type == URXE_SYSFS_LINK && (**rest || !nofollow)) {
		ret = walk_link(w, &node, *rest);
		*rest = w->rest;
		return ret < 0 ? ret : URXE_SYSFS_NODE;
	}
	ret = walk_into(w, &node);
	return ret < 0 ? ret : URXE_SYSFS_NODE;
}

int urxe_sysfs_find(const char *path, bool nofollow, struct urxe_sysfs_found *found)
{
	char name[NAME_MAX + 1];
	struct walk w;
	const char *rest = path;
	bool slash = false;

	found->in_directory = false;
	found->beside = false;
	w.found = found;
	w.links = 0;
	w.up = false;
	w.refreshed = false;
	walk_to_root(&w);
	while (*rest) {
		size_t n;
		int ret;

		n = strspn(rest, "/");
		slash = n > 0;
		rest += n;
		n = strcspn(rest, "/");
		if (!n)
			break;
		if (n > NAME_MAX)
			return w.depth ? -ENAMETOOLONG : URXE_SYSFS_NONE;
		memcpy(name, rest, n);
		name[n] = '\0';
		rest += n;
		slash = false;
		ret = walk_step(&w, name, &rest, nofollow);
		if (ret != URXE_SYSFS_NODE)
			return ret;
	}
	found->node = w.stack[w.depth];
	if (is_kernels(&found->node)) {
		if (!w.depth)
			strcpy(found->path, "/");
		return way_out(&w);
	}
	if (slash && found->node.type != URXE_SYSFS_DIR)
		return -ENOTDIR;
	return URXE_SYSFS_NODE;
}
