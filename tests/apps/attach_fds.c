/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A program that is careless with descriptors: it opens a device with a completion channel and then
 * closes, in each of the ways there are, everything from 3 up, puts descriptors onto the adapter's
 * numbers, and starts children. The adapter's descriptors must stay, all others must be gone, and
 * children must have neither. Exit status 0 and "ok", or a line that says what was wrong.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#define MAX_FD 4096

static void expect(int truth, const char *what)
{
	if (truth)
		return;
	printf("not so: %s\n", what);
	exit(1);
}

static int is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void close_each(void)
{
	int fd;

	for (fd = 3; fd < MAX_FD; fd++)
		close(fd);
}

static void close_one_range(void)
{
	expect(!close_range(3, ~0U, 0), "close_range succeeds");
}

static void close_from(void)
{
	closefrom(3);
}

/* The adapter still answers and its channel's descriptor is the one it was. */
static void expect_alive(struct ibv_context *context, struct ibv_comp_channel *channel)
{
	struct ibv_port_attr port;
	struct ibv_cq *cq;

	expect(is_open(channel->fd), "the channel's descriptor is open");
	expect(is_open(context->async_fd), "the context's descriptor is open");
	expect(!ibv_query_port(context, 1, &port), "the port can be queried");
	cq = ibv_create_cq(context, 16, NULL, channel, 0);
	expect(cq != NULL, "a CQ can be created");
	expect(!ibv_req_notify_cq(cq, 0), "it can be armed");
	expect(!ibv_destroy_cq(cq), "and destroyed");
}

static void check_close(struct ibv_context *context, struct ibv_comp_channel *channel,
			void (*closer)(void))
{
	int fd = open("/dev/null", O_RDONLY), high = fcntl(fd, F_DUPFD, 1000);

	expect(fd >= 0 && high >= 0, "descriptors can be opened");
	closer();
	expect(!is_open(fd) && !is_open(high), "the program's own descriptors are closed");
	expect_alive(context, channel);
}

static void check_dup(struct ibv_context *context, struct ibv_comp_channel *channel)
{
	int fd = open("/dev/null", O_RDONLY), copy;

	errno = 0;
	expect(dup2(fd, channel->fd) == -1 && errno == EBUSY, "dup2 onto ours is EBUSY");
	errno = 0;
	expect(dup3(fd, channel->fd, O_CLOEXEC) == -1 && errno == EBUSY, "so is dup3");
	expect(dup2(channel->fd, channel->fd) == channel->fd, "dup2 onto itself succeeds");
	copy = dup2(channel->fd, fd);
	expect(copy == fd, "dup2 of ours succeeds");
	expect(dup2(-1, channel->fd) == -1 && errno == EBADF, "a bad descriptor is EBADF");
	expect(!close(fd), "the copy can be closed");
	expect_alive(context, channel);
}

/* What the child becomes: this program, to say which descriptors above 2 it was left. */
static int list_descriptors(void)
{
	int fd, n = 0;

	for (fd = 3; fd < MAX_FD; fd++) {
		if (is_open(fd)) {
			printf("left open: %d\n", fd);
			n++;
		}
	}
	return n;
}

static void check_child(int vforked, struct ibv_comp_channel *channel)
{
	int fd = open("/dev/null", O_RDONLY), status = -1;
	pid_t pid = vforked ? vfork() : fork();

	if (!pid) {
		/* In a vfork child, with a descriptor table of its own and its parent's memory. */
		if (vforked && dup2(fd, channel->fd) != channel->fd)
			_exit(99);
		close_range(3, ~0U, 0);
		execl("/proc/self/exe", "attach_fds", "list", (char *)NULL);
		_exit(98);
	}
	expect(pid > 0 && waitpid(pid, &status, 0) == pid, "a child runs");
	expect(WIFEXITED(status) && WEXITSTATUS(status) != 99, "a child may use any number");
	expect(WIFEXITED(status) && !WEXITSTATUS(status), "a child keeps no descriptor");
	expect(!close(fd), "the parent keeps its own");
}

int main(int argc, char **argv)
{
	struct ibv_comp_channel *channel;
	struct ibv_device **list;
	struct ibv_context *context;
	int lowest, again;

	if (argc > 1)
		return list_descriptors();
	lowest = open("/dev/null", O_RDONLY);
	close(lowest);
	list = ibv_get_device_list(NULL);
	expect(list && list[0], "there is a device");
	context = ibv_open_device(list[0]);
	expect(context != NULL, "it can be opened");
	ibv_free_device_list(list);
	channel = ibv_create_comp_channel(context);
	expect(channel != NULL, "a channel can be created");

	again = open("/dev/null", O_RDONLY);
	expect(again == lowest, "the adapter takes no low descriptor numbers");
	close(again);

	check_close(context, channel, close_each);
	check_close(context, channel, close_one_range);
	check_close(context, channel, close_from);
	check_dup(context, channel);
	check_child(0, channel);
	check_child(1, channel);
	expect_alive(context, channel);

	expect(!ibv_destroy_comp_channel(channel), "the channel can be destroyed");
	expect(!ibv_close_device(context), "the device can be closed");
	puts("ok");
	return 0;
}
