/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The kernel's rdma_cm file behind one of ours. It is not in the program's epoll descriptor itself:
 * a thread watches all such files and says so through the eventfd that tells of ours, so that the
 * descriptor is readable, and a thread that sleeps in GET_EVENT wakes, for the one as for the
 * other. (To sleep on two descriptors at once there is only poll(), which a signal ends for good,
 * where GET_EVENT goes on after a handler with SA_RESTART.)
 *
 * A file is watched for one event at a time (EPOLLONESHOT); fired says that one waits. The thread
 * that looks at the kernel's queue clears it and has the file watched anew. The kernel's file does
 * not block, so that looking costs one system call.
 *
 * watched, serials and the files' fired are under the engine lock; watch_fd is set once, under the
 * mutex of kernel_id.c. The thread starts with the first file and lives as long as the process.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cm/kernel.h"
#include "common/own_thread.h"
#include "hca/adapter.h"
#include "host/fabric.h"
#include "host/fd.h"
#include "host/libc.h"

#define DEVICE "/dev/infiniband/rdma_cm"
#define BATCH  16

static int watch_fd = -1;
static uint64_t serials;
static CDS_LIST_HEAD(watched);

/* Under the engine lock: a file that was closed meanwhile is not there any more. */
static void fired(uint64_t serial)
{
	struct urxe_ucma *file;

	cds_list_for_each_entry (file, &watched, watched) {
		if (file->serial != serial)
			continue;
		file->fired = true;
		urxe_ucma_tell(file);
		return;
	}
}

static void *watch(void *arg)
{
	struct epoll_event events[BATCH];
	int n;

	prctl(PR_SET_NAME, "urxe");
	for (;;) {
		n = urxe_libc.epoll_wait(watch_fd, events, BATCH, -1);
		if (n < 0 && errno != EINTR)
			return NULL;
		urxe_engine_lock();
		for (int i = 0; i < n; i++)
			fired(events[i].data.u64);
		urxe_engine_unlock();
	}
}

static int start_watch(void)
{
	pthread_t thread;
	int ret;

	if (watch_fd >= 0)
		return 0;
	watch_fd = urxe_fd_keep(urxe_libc.epoll_create1(EPOLL_CLOEXEC));
	if (watch_fd < 0)
		return -errno;
	ret = own_thread_start(&thread, watch, NULL);
	if (!ret) {
		pthread_detach(thread);
		return 0;
	}
	urxe_fd_close(watch_fd);
	watch_fd = -1;
	return ret;
}

static void set_watch(struct urxe_ucma *file, int op)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = file->serial};

	urxe_libc.epoll_ctl(watch_fd, op, file->kernel_fd, &event);
}

void urxe_kernel_watch(struct urxe_ucma *file)
{
	set_watch(file, EPOLL_CTL_MOD);
}

int urxe_kernel_open(struct urxe_ucma *file)
{
	int fd, ret;

	if (file->kernel_fd >= 0)
		return 0;
	/* A host of a fabric has no other adapters. */
	if (urxe_fabric_wanted())
		return -ENODEV;
	fd = urxe_fd_keep(urxe_libc.open(DEVICE, O_RDWR | O_NONBLOCK | O_CLOEXEC));
	if (fd < 0)
		return -errno;
	ret = start_watch();
	if (ret) {
		urxe_fd_close(fd);
		return ret;
	}
	urxe_engine_lock();
	file->serial = ++serials;
	cds_list_add(&file->watched, &watched);
	file->kernel_fd = fd;
	urxe_engine_unlock();
	set_watch(file, EPOLL_CTL_ADD);
	return 0;
}

void urxe_kernel_close(struct urxe_ucma *file)
{
	if (file->kernel_fd < 0)
		return;
	urxe_engine_lock();
	cds_list_del(&file->watched);
	urxe_engine_unlock();
	set_watch(file, EPOLL_CTL_DEL);
	urxe_fd_close(file->kernel_fd);
}

int urxe_kernel_command(struct urxe_ucma *file, uint32_t cmd, const void *body, uint16_t len,
			uint16_t out)
{
	struct {
		struct rdma_ucm_cmd_hdr hdr;
		uint8_t body[URXE_COMMAND_MAX];
	} buf = {.hdr = {.cmd = cmd, .in = len, .out = out}};

	if (len > sizeof(buf.body))
		return -EINVAL;
	memcpy(buf.body, body, len);
	if (syscall(SYS_write, file->kernel_fd, &buf, sizeof(buf.hdr) + len) < 0)
		return -errno;
	return 0;
}

void urxe_kernel_forked(void)
{
	urxe_fd_close(watch_fd);
	watch_fd = -1;
	CDS_INIT_LIST_HEAD(&watched);
	urxe_twin_forked();
}
