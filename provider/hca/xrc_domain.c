/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * XRC domains (ibv_open_xrcd(3)). A domain is known by the file that it was opened with. Each
 * process that has it open holds a read lock on one byte of that file, far behind any data, so that
 * others find out whether there is such a domain; the kernel drops the lock with the process. The
 * list of domains of this process has a lock of its own.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "hca/xrc_private.h"
#include "host/fd.h"
#include "host/libc.h"
#include "host/mutex.h"
#include "host/sysinfo.h"

#define LOCK_AT 0x7578726575787265ll /* a byte that no file has */

static URXE_MUTEX(lock);
static CDS_LIST_HEAD(domains);

/* ---- the file ---- */

/* Opens the program's file once more, so that the lock is not lost with a descriptor of the
 * program's. */
static int reopen(int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return urxe_fd_keep(urxe_libc.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

static int lock_byte(int fd, int command, struct flock *byte, short type)
{
	*byte = (struct flock){.l_type = type, .l_start = LOCK_AT, .l_len = 1};
	return urxe_libc.fcntl(fd, command, byte);
}

/* Locks the file, if it can be; another process has done so: true. */
static bool join_file(struct xrc_domain *d, int fd)
{
	struct flock byte;

	d->fd = reopen(fd);
	if (d->fd < 0 || lock_byte(d->fd, F_OFD_SETLK, &byte, F_RDLCK))
		return false;
	return !lock_byte(d->fd, F_OFD_GETLK, &byte, F_WRLCK) && byte.l_type != F_UNLCK;
}

/* ---- domains ---- */

static void put_domain(struct xrc_domain *d)
{
	struct urxe_qp *qp, *next;

	if (--d->handles)
		return;
	/* QPs that are borrowed stay, for requests in another domain. */
	urxe_engine_lock();
	cds_list_for_each_entry_safe (qp, next, &d->targets, xrc_node)
		cds_list_del_init(&qp->xrc_node);
	urxe_engine_unlock();
	cds_list_del(&d->node);
	urxe_fd_close(d->fd);
	free(d);
}

static struct xrc_domain *find(const struct urxe_stat *st)
{
	struct xrc_domain *d;

	cds_list_for_each_entry (d, &domains, node)
		if (d->ino && d->dev == st->dev && d->ino == st->ino)
			return d;
	return NULL;
}

/* The file of attr, whose fd is no negative one: 0, EBADF, or how the flags refuse what there
 * is. */
static int open_file(struct xrc_domain *d, const struct ibv_xrcd_init_attr *attr)
{
	bool there = join_file(d, attr->fd);

	if (there && (attr->oflags & O_EXCL))
		return EINVAL;
	return there || (attr->oflags & O_CREAT) ? 0 : EAGAIN;
}

static int check_flags(const struct ibv_xrcd_init_attr *attr, bool there)
{
	if (there)
		return attr->oflags & O_EXCL ? EINVAL : 0;
	return attr->fd < 0 && !(attr->oflags & O_CREAT) ? EINVAL : 0;
}

/* Under the lock. NULL and errno. */
static struct xrc_domain *get_domain(const struct ibv_xrcd_init_attr *attr)
{
	struct urxe_stat st = {0};
	struct xrc_domain *d;

	if (attr->fd >= 0 && urxe_fstat(attr->fd, &st))
		return urxe_fail(EBADF);
	d = attr->fd >= 0 ? find(&st) : NULL;
	errno = check_flags(attr, d);
	if (errno)
		return NULL;
	if (d) {
		d->handles++;
		return d;
	}
	d = calloc(1, sizeof(*d));
	if (!d)
		return NULL;
	d->fd = -1;
	d->dev = st.dev;
	d->ino = st.ino;
	d->handles = 1;
	CDS_INIT_LIST_HEAD(&d->targets);
	cds_list_add(&d->node, &domains);
	errno = attr->fd >= 0 ? open_file(d, attr) : 0;
	if (!errno)
		return d;
	put_domain(d);
	return NULL;
}

/* ---- verbs ---- */

static void free_xrcd(struct urxe_xrcd *xrcd)
{
	if (xrcd->cq)
		urxe_destroy_cq(xrcd->cq);
	if (xrcd->pd)
		urxe_dealloc_pd(xrcd->pd);
	if (xrcd->domain) {
		pthread_mutex_lock(&lock);
		put_domain(xrcd->domain);
		pthread_mutex_unlock(&lock);
	}
	free(xrcd);
}

struct ibv_xrcd *urxe_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	const uint32_t needed = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	struct urxe_xrcd *xrcd;
	int err;

	if (urxe_missing(attr))
		return NULL;
	if (attr->comp_mask != needed || (attr->oflags & ~(O_CREAT | O_EXCL)))
		return urxe_fail(attr->comp_mask & ~needed ? EOPNOTSUPP : EINVAL);
	xrcd = calloc(1, sizeof(*xrcd));
	if (!xrcd)
		return NULL;
	xrcd->ibv.context = context;
	pthread_mutex_lock(&lock);
	xrcd->domain = get_domain(attr);
	pthread_mutex_unlock(&lock);
	if (xrcd->domain)
		xrcd->pd = urxe_alloc_pd(context);
	if (xrcd->pd)
		xrcd->cq = urxe_create_cq(context, 1, NULL, NULL, 0);
	if (xrcd->cq)
		return &xrcd->ibv;
	err = errno;
	free_xrcd(xrcd);
	return urxe_fail(err);
}

int urxe_close_xrcd(struct ibv_xrcd *ibv)
{
	struct urxe_xrcd *xrcd = to_xrcd(ibv);

	if (atomic_load(&xrcd->users))
		return EBUSY;
	free_xrcd(xrcd);
	return 0;
}

/* The child's handles of its parent's domains still count, but nobody finds those by their
 * files. */
void xrc_domains_forked(void)
{
	struct xrc_domain *d, *next;

	cds_list_for_each_entry_safe (d, next, &domains, node) {
		CDS_INIT_LIST_HEAD(&d->node);
		urxe_fd_close(d->fd);
		d->fd = -1;
	}
	CDS_INIT_LIST_HEAD(&domains);
}
