/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Listing and opening devices. A list that a program gets holds the urxe devices and behind them
 * the devices of the next definition (the kernel's), so both kinds are at hand in one process. The
 * next definition counts references by list, therefore its list is kept as long as the program
 * keeps ours and then given back to it.
 *
 * Any thread. lists_lock guards the chain of lists, which changes by single pointer stores: so it
 * is whole in the child of a fork, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "hca/device.h"
#include "hca/verbs.h"
#include "host/fd.h"
#include "host/libc.h"
#include "host/mutex.h"
#include "preload/preload.h"
#include "preload/sysfs.h"

#undef ibv_get_device_list

/* One list in a program's hands. The array is an allocation of its own: programs were seen to
 * free() it. */
struct device_list {
	struct device_list *link;
	struct ibv_device **devices; /* what the program has; the key */
	struct ibv_device **next;    /* what the next definition gave for it, or NULL */
};

static URXE_MUTEX(lists_lock);
static struct device_list *lists;

/* Set while the next ibv_import_device() runs: it looks for the device in the list that it gets
 * through our ibv_get_device_list() and reads private fields of each entry, which ours do not
 * have. */
static __thread bool only_next __attribute__((tls_model("initial-exec")));

static struct device_list *list_take(struct ibv_device **devices)
{
	struct device_list **at, *l;

	pthread_mutex_lock(&lists_lock);
	for (at = &lists; (l = *at); at = &l->link) {
		if (l->devices == devices) {
			*at = l->link;
			break;
		}
	}
	pthread_mutex_unlock(&lists_lock);
	return l;
}

static void list_add(struct device_list *l)
{
	/* An entry with this key is of a list that the program freed with free(). What the next
	 * definition gave for it stays referenced, as it would without us. */
	free(list_take(l->devices));

	pthread_mutex_lock(&lists_lock);
	l->link = lists;
	lists = l;
	pthread_mutex_unlock(&lists_lock);
}

/* Makes the program's array of n_own and then n_next devices; NULL if out of memory. */
static struct ibv_device **list_make(struct ibv_device **own, int n_own, struct ibv_device **next,
				     int n_next)
{
	struct ibv_device **devices = calloc(n_own + n_next + 1, sizeof(*devices));
	struct device_list *l = calloc(1, sizeof(*l));

	if (!devices || !l) {
		free(devices);
		free(l);
		return NULL;
	}
	if (n_own)
		memcpy(devices, own, n_own * sizeof(*devices));
	if (n_next)
		memcpy(devices + n_own, next, n_next * sizeof(*devices));
	l->devices = devices;
	l->next = next;
	list_add(l);
	return devices;
}

/* The uverbs names of our devices, as the sysfs view numbers them: above those of the kernel. */
static void name_uverbs(struct ibv_device **own, int n)
{
	unsigned first = urxe_sysfs_refresh()->first_uverbs;

	for (int i = 0; i < n; i++) {
		unsigned number = first + urxe_device_of(own[i])->index;

		snprintf(own[i]->dev_name, sizeof(own[i]->dev_name), "uverbs%u", number);
		snprintf(own[i]->dev_path, sizeof(own[i]->dev_path),
			 "/sys/class/infiniband_verbs/uverbs%u", number);
	}
}

URXE_VERB(ibv_get_device_list, "IBVERBS_1.1")
URXE_VERB(ibv_free_device_list, "IBVERBS_1.1")

URXE_EXPORT struct ibv_device **ibv_get_device_list(int *num)
{
	__typeof__(ibv_get_device_list) *get = urxe_verb_next(&verb_ibv_get_device_list);
	__typeof__(ibv_free_device_list) *put;
	struct ibv_device **own, **next = NULL, **devices;
	int n_own = 0, n_next = 0, err;

	if (only_next && get)
		return get(num);
	if (num)
		*num = 0;

	atomic_store(&urxe_attached, true);
	own = urxe_get_devices(&n_own);
	err = errno;
	/* Without RDMA in the kernel the next one fails (ENOSYS): no reason to hide ours. */
	if (get)
		next = get(&n_next);
	if (!own && !next) {
		errno = err;
		return NULL;
	}
	name_uverbs(own, own ? n_own : 0);
	devices = list_make(own, own ? n_own : 0, next, next ? n_next : 0);
	if (!devices) {
		put = urxe_verb_next(&verb_ibv_free_device_list);
		if (next && put)
			put(next);
		errno = ENOMEM;
		return NULL;
	}
	if (num)
		*num = (own ? n_own : 0) + (next ? n_next : 0);
	return devices;
}

URXE_EXPORT void ibv_free_device_list(struct ibv_device **devices)
{
	__typeof__(ibv_free_device_list) *put = urxe_verb_next(&verb_ibv_free_device_list);
	struct device_list *l;

	if (!devices)
		return;
	l = list_take(devices);
	if (!l) {
		/* Not from us: a program that asked the library behind us directly. */
		if (put)
			put(devices);
		return;
	}
	if (l->next && put)
		put(l->next);
	free(l);
	free(devices);
}

URXE_SERVED_VERB(const char *, ibv_get_device_name, "IBVERBS_1.1", (struct ibv_device * device),
		 (device), urxe_is_device(device), device->name, NULL)

/*
 * Under an index the kernel's netlink knows a device, by which librdmacm distinguishes ours from
 * the kernel's. Where the kernel has no RDMA there are neither, and a program that is given one
 * asks netlink all the same and reports an error (UCX since 1.19).
 */
static bool kernel_has_indexes(void)
{
	int fd = urxe_libc.open("/sys/class/infiniband", O_PATH | O_CLOEXEC);

	if (fd < 0)
		return false;
	urxe_libc.close(fd);
	return true;
}

URXE_SERVED_VERB(int, ibv_get_device_index, "IBVERBS_1.9", (struct ibv_device * device), (device),
		 urxe_is_device(device), kernel_has_indexes() ? urxe_get_device_index(device) : -1,
		 -1)

URXE_SERVED_VERB(__be64, ibv_get_device_guid, "IBVERBS_1.1", (struct ibv_device * device), (device),
		 urxe_is_device(device), urxe_get_device_guid(device), 0)

static struct ibv_context *open_device(struct ibv_device *device)
{
	atomic_store(&urxe_attached, true);
	return urxe_open_device(device);
}

URXE_SERVED_VERB(struct ibv_context *, ibv_open_device, "IBVERBS_1.1", (struct ibv_device * device),
		 (device), urxe_is_device(device), open_device(device), URXE_NOBODY_NULL)

URXE_SERVED_VERB(int, ibv_close_device, "IBVERBS_1.1", (struct ibv_context * context), (context),
		 urxe_is_context(context), urxe_close_device(context), URXE_NOBODY_MINUS)

URXE_VERB(ibv_import_device, "IBVERBS_1.10")

URXE_EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
	__typeof__(ibv_import_device) *next;
	struct ibv_context *context;

	if (urxe_import_device(cmd_fd, &context)) {
		atomic_store(&urxe_attached, true);
		return context;
	}
	next = urxe_verb_next(&verb_ibv_import_device);
	if (!next)
		return URXE_NOBODY_NULL;
	only_next = true;
	context = next(cmd_fd);
	only_next = false;
	return context;
}

URXE_VERB(ibv_fork_init, "IBVERBS_1.1")

/* Memory of a urxe device needs no protection from fork (nothing is pinned): what the next
 * definition does is for its own devices, and that it cannot do it is no error of ours. */
URXE_EXPORT int ibv_fork_init(void)
{
	__typeof__(ibv_fork_init) *next = urxe_verb_next(&verb_ibv_fork_init);
	int ret = next ? next() : 0;

	return ret == ENOSYS ? 0 : ret;
}

URXE_VERB(ibv_is_fork_initialized, "IBVERBS_1.13")

URXE_EXPORT enum ibv_fork_status ibv_is_fork_initialized(void)
{
	__typeof__(ibv_is_fork_initialized) *next = urxe_verb_next(&verb_ibv_is_fork_initialized);

	return next ? next() : IBV_FORK_UNNEEDED;
}
