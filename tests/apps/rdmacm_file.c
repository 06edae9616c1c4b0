// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The file /dev/infiniband/rdma_cm as a program that writes its commands itself sees it: what it
 * is, that its descriptors can be copied, closed in every way and inherited, and that other files,
 * at the same numbers later, are left alone. One case each; no argument: all of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <arpa/inet.h>
#include <rdma/rdma_user_cm.h>

#define ADDR_RESOLVED 0 /* RDMA_CM_EVENT_ADDR_RESOLVED; its header cannot stand beside the above */
#define DEVICE	      "/dev/infiniband/rdma_cm"

#define CHECK(cond)                                                                             \
	do {                                                                                    \
		if (!(cond)) {                                                                  \
			fprintf(stderr, "%s:%d: not true: %s (errno %d)\n", __FILE__, __LINE__, \
				#cond, errno);                                                  \
			_exit(1);                                                               \
		}                                                                               \
	} while (0)

static int open_device(int flags)
{
	int fd = open(DEVICE, O_RDWR | O_CLOEXEC | flags);

	CHECK(fd >= 0);
	return fd;
}

struct create {
	struct rdma_ucm_cmd_hdr hdr;
	struct rdma_ucm_create_id cmd;
};

static struct create create_command(struct rdma_ucm_create_id_resp *resp)
{
	struct create c = {
		.hdr = {RDMA_USER_CM_CMD_CREATE_ID, sizeof(c.cmd), sizeof(*resp)},
		.cmd = {.uid = 7, .response = (uintptr_t)resp, .ps = RDMA_PS_TCP},
	};

	return c;
}

/* The new id, or -errno. */
static int64_t create_id(int fd)
{
	struct rdma_ucm_create_id_resp resp = {0};
	struct create c = create_command(&resp);
	ssize_t n = write(fd, &c, sizeof(c));

	CHECK(n < 0 || n == sizeof(c));
	return n < 0 ? -errno : (int64_t)resp.id;
}

static int destroy_id(int fd, uint32_t id)
{
	struct rdma_ucm_destroy_id_resp resp = {0};
	struct {
		struct rdma_ucm_cmd_hdr hdr;
		struct rdma_ucm_destroy_id cmd;
	} c = {
		.hdr = {RDMA_USER_CM_CMD_DESTROY_ID, sizeof(c.cmd), sizeof(resp)},
		.cmd = {.response = (uintptr_t)&resp, .id = id},
	};

	return write(fd, &c, sizeof(c)) == sizeof(c) ? 0 : -errno;
}

static int get_event(int fd, struct rdma_ucm_event_resp *resp)
{
	struct {
		struct rdma_ucm_cmd_hdr hdr;
		struct rdma_ucm_get_event cmd;
	} c = {
		.hdr = {RDMA_USER_CM_CMD_GET_EVENT, sizeof(c.cmd), sizeof(*resp)},
		.cmd = {.response = (uintptr_t)resp},
	};

	return write(fd, &c, sizeof(c)) == sizeof(c) ? 0 : -errno;
}

static int resolve_loopback(int fd, uint32_t id)
{
	struct {
		struct rdma_ucm_cmd_hdr hdr;
		struct rdma_ucm_resolve_ip cmd;
	} c = {
		.hdr = {RDMA_USER_CM_CMD_RESOLVE_IP, sizeof(c.cmd), 0},
		.cmd = {.id = id, .timeout_ms = 2000},
	};
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(7174)};

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	memcpy(&c.cmd.dst_addr, &to, sizeof(to));
	return write(fd, &c, sizeof(c)) == sizeof(c) ? 0 : -errno;
}

/* To an IPv4 address in host order: 0 or -errno. */
static int bind_to(int fd, uint32_t id, uint32_t address)
{
	struct {
		struct rdma_ucm_cmd_hdr hdr;
		struct rdma_ucm_bind_ip cmd;
	} c = {
		.hdr = {RDMA_USER_CM_CMD_BIND_IP, sizeof(c.cmd), 0},
		.cmd = {.id = id},
	};
	struct sockaddr_in to = {.sin_family = AF_INET};

	to.sin_addr.s_addr = htonl(address);
	memcpy(&c.cmd.addr, &to, sizeof(to));
	return write(fd, &c, sizeof(c)) == sizeof(c) ? 0 : -errno;
}

/* To the any-address of a family and that port. */
static int bind_any(int fd, uint32_t id, sa_family_t family, uint16_t port)
{
	struct {
		struct rdma_ucm_cmd_hdr hdr;
		struct rdma_ucm_bind_ip cmd;
	} c = {
		.hdr = {RDMA_USER_CM_CMD_BIND_IP, sizeof(c.cmd), 0},
		.cmd = {.addr = {.sin6_family = family, .sin6_port = htons(port)}, .id = id},
	};

	return write(fd, &c, sizeof(c)) == sizeof(c) ? 0 : -errno;
}

static int set_option(int fd, uint32_t id, uint32_t name)
{
	int on = 1;
	struct {
		struct rdma_ucm_cmd_hdr hdr;
		struct rdma_ucm_set_option cmd;
	} c = {
		.hdr = {RDMA_USER_CM_CMD_SET_OPTION, sizeof(c.cmd), 0},
		.cmd = {.optval = (uintptr_t)&on,
			.id = id,
			.level = RDMA_OPTION_ID,
			.optname = name,
			.optlen = sizeof(on)},
	};

	return write(fd, &c, sizeof(c)) == sizeof(c) ? 0 : -errno;
}

static int listen_on(int fd, uint32_t id)
{
	struct {
		struct rdma_ucm_cmd_hdr hdr;
		struct rdma_ucm_listen cmd;
	} c = {
		.hdr = {RDMA_USER_CM_CMD_LISTEN, sizeof(c.cmd), 0},
		.cmd = {.id = id, .backlog = 1},
	};

	return write(fd, &c, sizeof(c)) == sizeof(c) ? 0 : -errno;
}

static int disconnect(int fd, uint32_t id)
{
	struct {
		struct rdma_ucm_cmd_hdr hdr;
		struct rdma_ucm_disconnect cmd;
	} c = {
		.hdr = {RDMA_USER_CM_CMD_DISCONNECT, sizeof(c.cmd), 0},
		.cmd = {.id = id},
	};

	return write(fd, &c, sizeof(c)) == sizeof(c) ? 0 : -errno;
}

/* How many ports the device has that an id is bound to; 0 when it is bound to none. */
static int num_ports(int fd, uint32_t id)
{
	struct rdma_ucm_query_route_resp resp = {0};
	struct {
		struct rdma_ucm_cmd_hdr hdr;
		struct rdma_ucm_query cmd;
	} c = {
		.hdr = {RDMA_USER_CM_CMD_QUERY_ROUTE, sizeof(c.cmd), sizeof(resp)},
		.cmd = {.response = (uintptr_t)&resp, .id = id},
	};

	CHECK(write(fd, &c, sizeof(c)) == sizeof(c));
	return resp.port_num;
}

/* Does it carry out commands? */
static bool works(int fd)
{
	int64_t id = create_id(fd);

	return id >= 0 && !destroy_id(fd, id);
}

/* Puts a pipe where fd was, raw, and sees that a command written there is nothing but bytes. */
static void is_a_number_for(int fd, const void *what, size_t len)
{
	char got[256];
	int ends[2];

	CHECK(!pipe(ends));
	if (ends[0] == fd) {
		ends[0] = fcntl(fd, F_DUPFD, 300);
		syscall(SYS_close, fd);
	}
	if (ends[1] != fd) {
		CHECK(syscall(SYS_dup3, ends[1], fd, 0) == fd);
		syscall(SYS_close, ends[1]);
	}
	CHECK(write(fd, what, len) == (ssize_t)len);
	CHECK(read(ends[0], got, sizeof(got)) == (ssize_t)len);
	CHECK(!memcmp(what, got, len));
	syscall(SYS_close, fd);
	syscall(SYS_close, ends[0]);
}

static void is_a_plain_number(int fd)
{
	struct rdma_ucm_create_id_resp resp;
	struct create c = create_command(&resp);

	is_a_number_for(fd, &c, sizeof(c));
}

static void is_a_device(void)
{
	int fd = open_device(0), major, minor;
	struct stat by_path, st;
	struct statx stx;
	FILE *f;

	CHECK(!stat(DEVICE, &by_path) && S_ISCHR(by_path.st_mode) && by_path.st_rdev);
	CHECK(!fstat(fd, &st) && st.st_mode == by_path.st_mode && st.st_rdev == by_path.st_rdev);
	CHECK(!fstatat(fd, "", &st, AT_EMPTY_PATH) && st.st_rdev == by_path.st_rdev);
	CHECK(!statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &stx) && S_ISCHR(stx.stx_mode));
	CHECK(makedev(stx.stx_rdev_major, stx.stx_rdev_minor) == by_path.st_rdev);
	f = fopen("/sys/class/misc/rdma_cm/dev", "r");
	CHECK(f && fscanf(f, "%d:%d", &major, &minor) == 2);
	CHECK(makedev(major, minor) == by_path.st_rdev);
	fclose(f);
	CHECK(!access(DEVICE, R_OK | W_OK));
	close(fd);
	CHECK(fstat(fd, &st) && errno == EBADF);
	fd = openat(AT_FDCWD, DEVICE, O_RDWR);
	CHECK(fd >= 0 && !(fcntl(fd, F_GETFD) & FD_CLOEXEC) && works(fd));
	close(fd);
	fd = open_device(O_NONBLOCK);
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC && fcntl(fd, F_GETFL) & O_NONBLOCK);
	close(fd);
	CHECK(open(DEVICE, O_RDWR | O_DIRECTORY) < 0 && errno == ENOTDIR);
	CHECK(open(DEVICE, O_RDWR | O_CREAT | O_EXCL, 0600) < 0 && errno == EEXIST);
}

static void commands(void)
{
	int fd = open_device(0);
	struct rdma_ucm_create_id_resp resp;
	struct create c = create_command(&resp);
	struct iovec iov[2] = {{&c, sizeof(c)}, {&c, sizeof(c)}};
	char byte;

	CHECK(works(fd));
	CHECK(destroy_id(fd, 4711) == -ENOENT);
	CHECK(write(fd, &c, 3) < 0 && errno == EINVAL);
	CHECK(write(fd, &c, sizeof(c) - 1) < 0 && errno == EINVAL);
	c.hdr.cmd = 250;
	CHECK(write(fd, &c, sizeof(c)) < 0 && errno == EINVAL);
	c = create_command(&resp);
	CHECK(writev(fd, iov, 2) == 2 * sizeof(c));
	CHECK(read(fd, &byte, 1) < 0 && errno == EINVAL);
	CHECK(write(-1, &c, sizeof(c)) < 0 && errno == EBADF);
	close(fd);
	CHECK(write(fd, &c, sizeof(c)) < 0 && errno == EBADF);
}

static void bound(void)
{
	static const struct {
		uint32_t address;
		int ret, ports;
	} binds[] = {
		{INADDR_ANY, 0, 0},
		{INADDR_LOOPBACK, 0, 1},	 /* lo's device has it */
		{INADDR_LOOPBACK + 1, 0, 0},	 /* nobody's: as any, and as the kernel's does */
		{0xc0000201, -EADDRNOTAVAIL, 0}, /* 192.0.2.1 */
		{0xe0000001, -EADDRNOTAVAIL, 0}, /* 224.0.0.1 */
		{INADDR_BROADCAST, -EADDRNOTAVAIL, 0},
	};
	int fd = open_device(0);

	for (size_t i = 0; i < sizeof(binds) / sizeof(binds[0]); i++) {
		int64_t id = create_id(fd);

		CHECK(id >= 0 && bind_to(fd, id, binds[i].address) == binds[i].ret);
		CHECK(num_ports(fd, id) == binds[i].ports);
		CHECK(!destroy_id(fd, id));
	}
	close(fd);
}

/* Disconnecting a listener changes nothing, one that does not listen is told that it cannot. */
static void a_listener_disconnects(void)
{
	int fd = open_device(0);
	int64_t id = create_id(fd);

	CHECK(id >= 0 && !bind_to(fd, id, INADDR_LOOPBACK));
	CHECK(disconnect(fd, id) == -EINVAL);
	CHECK(!listen_on(fd, id));
	CHECK(!disconnect(fd, id));
	CHECK(!destroy_id(fd, id));
	close(fd);
}

/* What is set after an id is bound counts for those that come after it. */
static void options_after_binding(void)
{
	int fd = open_device(0);
	int64_t id[4];

	for (int i = 0; i < 4; i++)
		CHECK((id[i] = create_id(fd)) >= 0);
	CHECK(!bind_any(fd, id[0], AF_INET6, 7200));
	CHECK(bind_any(fd, id[1], AF_INET, 7200) == -EADDRNOTAVAIL);
	CHECK(!set_option(fd, id[0], RDMA_OPTION_ID_AFONLY));
	CHECK(!bind_any(fd, id[1], AF_INET, 7200));

	CHECK(!bind_any(fd, id[2], AF_INET, 7201));
	CHECK(!set_option(fd, id[3], RDMA_OPTION_ID_REUSEADDR));
	CHECK(bind_any(fd, id[3], AF_INET, 7201) == -EADDRNOTAVAIL);
	CHECK(!set_option(fd, id[2], RDMA_OPTION_ID_REUSEADDR));
	CHECK(!bind_any(fd, id[3], AF_INET, 7201));
	close(fd);
}

/* A port that is listened on is not shared any more. */
static void listening_ends_sharing(void)
{
	int fd = open_device(0);
	int64_t first = create_id(fd), second = create_id(fd);

	CHECK(!set_option(fd, first, RDMA_OPTION_ID_REUSEADDR));
	CHECK(!set_option(fd, second, RDMA_OPTION_ID_REUSEADDR));
	CHECK(!bind_any(fd, first, AF_INET, 7202));
	CHECK(!listen_on(fd, first));
	CHECK(bind_any(fd, second, AF_INET, 7202) == -EADDRNOTAVAIL);
	close(fd);
}

static void an_event_makes_it_readable(void)
{
	int fd = open_device(O_NONBLOCK), copy = dup(fd);
	struct pollfd p = {.fd = copy, .events = POLLIN};
	struct rdma_ucm_event_resp event = {0};
	int64_t id = create_id(fd);

	CHECK(id >= 0 && !poll(&p, 1, 0));
	CHECK(get_event(fd, &event) == -EAGAIN);
	CHECK(!resolve_loopback(fd, id));
	CHECK(poll(&p, 1, 5000) == 1 && p.revents & POLLIN);
	CHECK(!get_event(copy, &event));
	CHECK(event.event == ADDR_RESOLVED && event.uid == 7 && event.id == id);
	CHECK(!poll(&p, 1, 0));
	close(fd);
	close(copy);
}

static void copies(void)
{
	int fd = open_device(0), copy[5];
	int64_t id = create_id(fd);

	copy[0] = dup(fd);
	copy[1] = fcntl(fd, F_DUPFD, 100);
	copy[2] = fcntl(fd, F_DUPFD_CLOEXEC, 100);
	copy[3] = dup2(fd, 150);
	copy[4] = dup3(fd, 151, O_CLOEXEC);
	for (int i = 0; i < 5; i++)
		CHECK(copy[i] >= 0 && works(copy[i]));
	CHECK(dup2(fd, fd) == fd && works(fd));
	CHECK(!close(fd));
	is_a_plain_number(fd);
	for (int i = 0; i < 4; i++) {
		CHECK(!close(copy[i]));
		CHECK(works(copy[4]));
	}
	/* What was made by the first one lives on. */
	CHECK(!destroy_id(copy[4], id));
	CHECK(!close(copy[4]));
	is_a_plain_number(copy[4]);
	CHECK(fcntl(copy[4], F_DUPFD, 0) < 0 && errno == EBADF);
}

static void replaced(void)
{
	int fd = open_device(0), other = open_device(0), ends[2];
	int64_t id = create_id(other);

	/* By another of its kind: the ids are the other's. */
	CHECK(dup2(other, fd) == fd && !close(other));
	CHECK(!destroy_id(fd, id) && works(fd));
	/* By something else. */
	CHECK(!pipe(ends) && dup2(ends[1], fd) == fd);
	is_a_plain_number(fd);
	fd = open_device(0);
	CHECK(dup3(ends[1], fd, 0) == fd);
	is_a_plain_number(fd);
	/* And the other way round. */
	fd = open_device(0);
	CHECK(dup2(fd, ends[0]) == ends[0] && works(ends[0]));
	close(fd);
	CHECK(works(ends[0]) && !close(ends[0]));
	close(ends[1]);
}

static void closed_with_many(void)
{
	int fd = open_device(0), high;

	high = fcntl(fd, F_DUPFD, 200);
	CHECK(!close_range(high, high + 10, 0));
	is_a_plain_number(high);
	CHECK(works(fd));
	high = fcntl(fd, F_DUPFD, 200);
	closefrom(high);
	is_a_plain_number(high);
	CHECK(works(fd) && !close(fd));
}

/* Behind our back: the next file at that number is told apart by what is written to it. */
static void closed_by_a_bare_call(void)
{
	static const char text[] = "a line of text, and no command\n";
	int fd = open_device(0);

	CHECK(!syscall(SYS_close, fd));
	is_a_number_for(fd, text, sizeof(text));
	fd = open_device(0);
	CHECK(!syscall(SYS_close, fd));
	CHECK(open_device(0) == fd && works(fd));
	close(fd);
}

static void inherited(void)
{
	int fd = open_device(0), null = open("/dev/null", O_WRONLY), status;
	int64_t id = create_id(fd);
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		int own;

		CHECK(create_id(fd) == -ENODEV && destroy_id(fd, id) == -ENODEV);
		CHECK(!close(fd));
		is_a_plain_number(fd);
		own = open_device(0);
		CHECK(works(own));
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	CHECK(!destroy_id(fd, id) && works(fd));
	id = create_id(fd);
	pid = _Fork();
	if (!pid)
		_exit(create_id(fd) == -ENODEV ? 0 : 1);
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	CHECK(!destroy_id(fd, id) && works(fd));
	id = create_id(fd);
	pid = vfork();
	if (!pid) {
		dup2(null, fd);
		(void)!write(fd, "a line of text", 14);
		close(fd);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	CHECK(!destroy_id(fd, id) && works(fd));
	close(fd);
	close(null);
}

static int shared_fd;

/* Copies one descriptor, uses the copy and closes it, again and again. */
static void *copy_and_close(void *arg)
{
	for (int i = 0; i < 300; i++) {
		int fd = dup(shared_fd);

		CHECK(fd >= 0 && works(fd) && works(shared_fd));
		CHECK(!close(fd));
		fd = open_device(0);
		CHECK(works(fd) && !close(fd));
	}
	return NULL;
}

static void threads(void)
{
	pthread_t t[4];

	shared_fd = open_device(0);
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_create(&t[i], NULL, copy_and_close, NULL));
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	CHECK(works(shared_fd) && !close(shared_fd));
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"is_a_device", is_a_device},
	{"commands", commands},
	{"bound", bound},
	{"listener", a_listener_disconnects},
	{"options_after_binding", options_after_binding},
	{"listening_ends_sharing", listening_ends_sharing},
	{"an_event_makes_it_readable", an_event_makes_it_readable},
	{"copies", copies},
	{"replaced", replaced},
	{"closed_with_many", closed_with_many},
	{"closed_by_a_bare_call", closed_by_a_bare_call},
	{"inherited", inherited},
	{"threads", threads},
};

int main(int argc, char **argv)
{
	bool found = false;

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (argc > 1 && strcmp(argv[1], cases[i].name))
			continue;
		cases[i].run();
		found = true;
	}
	return found ? 0 : 2;
}
