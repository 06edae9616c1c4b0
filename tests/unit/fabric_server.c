// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Programs at fabricd's socket: what becomes of them, and of fabricd, when something runs out. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/fabric_test.h"

static struct server server;
static char path[64];

static int start(void **state)
{
	char error[TOPOLOGY_ERROR_LEN];
	struct topology t;
	int ret;

	memset(&server, 0, sizeof(server));
	snprintf(path, sizeof(path), "/tmp/fabric-server-%d", (int)getpid());
	ret = server_open(&server, path);
	if (!ret)
		ret = topology_read(&t, test_topology, strlen(test_topology), error);
	if (ret)
		return ret;
	ret = fabric_create(&server.fabric, &t, "test");
	topology_free(&t);
	return ret;
}

static int stop(void **state)
{
	server_close(&server);
	return 0;
}

static void serve(void)
{
	while (server_serve(&server, 0))
		;
}

static unsigned open_files(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 4096; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* So many further descriptors can be had: the limit that there was. */
static struct rlimit files_left(unsigned n)
{
	struct rlimit before, limit;
	int next = dup(0);

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	close(next);
	limit = (struct rlimit){(rlim_t)next + n, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	return before;
}

static struct rlimit no_more_files(void)
{
	return files_left(0);
}

static int connect_program(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&server.address, sizeof(server.address)),
			 0);
	return fd;
}

static struct fabric_welcome answer_to(int fd, uint32_t kind, unsigned node)
{
	const struct fabric_node *n = fabric_map_node(server.fabric.map, node);
	struct fabric_hello hello = {FABRIC_HELLO_MAGIC, FABRIC_PROTOCOL, kind, n->first_port + 1,
				     "h1"};
	struct fabric_welcome welcome;

	assert_int_equal(send(fd, &hello, sizeof(hello), 0), sizeof(hello));
	serve();
	assert_int_equal(recv(fd, &welcome, sizeof(welcome), 0), sizeof(welcome));
	return welcome;
}

static struct fabric_welcome greet(int fd, uint32_t kind, unsigned node)
{
	struct fabric_welcome welcome = answer_to(fd, kind, node);

	assert_int_equal(welcome.error, 0);
	return welcome;
}

/* A file of that kind with an agent for the SA's class. */
static int open_file(int host, uint32_t kind, unsigned node, uint64_t methods, uint8_t rmpp)
{
	int fd = connect_program();
	struct fabric_request r = {.command = FABRIC_REGISTER,
				   .cookie = greet(fd, kind, node).cookie,
				   .id = FABRIC_AGENTS,
				   .qpn = 1,
				   .mgmt_class = CLASS_SA,
				   .class_version = 2,
				   .rmpp_version = rmpp,
				   .method_mask = {methods}};
	struct fabric_reply reply;

	assert_int_equal(send(host, &r, sizeof(r), 0), sizeof(r));
	serve();
	assert_int_equal(recv(host, &reply, sizeof(reply), 0), sizeof(reply));
	assert_int_equal(reply.error, 0);
	assert_int_equal(reply.id, 0);
	return fd;
}

static int open_host(void)
{
	int host = connect_program();

	greet(host, FABRIC_HOST, H1);
	return host;
}

/* What a killed program has left is carried out at once: nothing else may come for long. */
static void a_port_leaves_its_groups_when_a_program_has_ended(void **state)
{
	int host = open_host(), sa = open_file(host, FABRIC_SA, H1, 0, 0);
	struct umad u = umad_to(5, 1, 0);

	u.hdr.id = 0;
	u.mad[MAD_CLASS] = CLASS_SA;
	u.mad[MAD_CLASS_VERSION] = 2;
	u.mad[MAD_METHOD] = METHOD_SET;
	put16(u.mad + MAD_ATTR, ATTR_MCMEMBER_RECORD);
	u.mad[SA_DATA + MCM_MGID] = 0xff;
	assert_int_equal(send(sa, &u, sizeof(u), 0), sizeof(u));
	serve();
	assert_non_null(server.fabric.members);
	/* With an answer that nobody has read the end of the connection is an error. */
	server_deliver(&server.fabric, server.connections, (const uint8_t *)&u, u.mad, MAD_LEN);
	outbox_flush(&server);
	close(sa);
	assert_true(server_serve(&server, 0));
	assert_null(server.fabric.members);
	assert_int_equal(server.fabric.head, server.fabric.tail);
	close(host);
}

static void send_with_file(int fd, const void *bytes, size_t len, size_t file_len)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {};
	struct iovec iov = {(void *)bytes, len};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	int file = memfd_create("mad", 0);

	assert_int_equal(ftruncate(file, (off_t)file_len), 0);
	assert_int_equal(pwrite(file, bytes, len, 0), len);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &file, sizeof(int));
	assert_int_equal(sendmsg(fd, &msg, 0), len);
	close(file);
}

/* The beginning of a long MAD, without its file, is no MAD. */
static void a_long_mad_whose_file_could_not_be_taken_is_not_sent(void **state)
{
	int host = open_host(), file = open_file(host, FABRIC_UMAD, H1, 0, 1);
	const struct fabric_node *n = fabric_map_node(server.fabric.map, H1);
	struct counters *count = &server.fabric.ports[n->first_port + 1].count;
	struct umad u = umad_to(5, 1, 0);
	struct rlimit before;

	u.hdr.id = 0;
	u.mad[MAD_CLASS] = CLASS_SA;
	u.mad[MAD_CLASS_VERSION] = 2;
	u.mad[MAD_METHOD] = 0x12;
	u.mad[RMPP_VERSION] = 1;
	u.mad[RMPP_TYPE] = RMPP_DATA;
	u.mad[RMPP_FLAGS] = RMPP_ACTIVE;
	send_with_file(file, &u, sizeof(u), 1000);
	before = no_more_files();
	serve();
	setrlimit(RLIMIT_NOFILE, &before);
	/* Nobody has the LID, and a first segment would count as discarded. */
	assert_int_equal(count->xmit_discards, 0);
	send_with_file(file, &u, sizeof(u), 1000);
	serve();
	assert_int_equal(count->xmit_discards, 1);
	close(file);
	close(host);
}

/* fabricd does not turn in circles, and takes the program when there is a descriptor again. */
static void a_program_that_cannot_be_accepted_waits(void **state)
{
	int fd = connect_program(), turns = 0;
	struct rlimit before = no_more_files();

	for (unsigned i = 0; i < 100; i++)
		turns += server_serve(&server, 0);
	setrlimit(RLIMIT_NOFILE, &before);
	assert_in_range(turns, 1, 2);
	assert_null(server.connections);
	assert_in_range(server_wait(&server), 1, 1000);
	usleep((useconds_t)server_wait(&server) * 1000 + 2000);
	serve();
	assert_non_null(server.connections);
	close(fd);
}

/* Another program is told at once, why and what helps, while those that are there go on, and
 * descriptors are left for the operator. */
static void a_program_that_there_are_no_descriptors_for_is_refused(void **state)
{
	struct fabric_welcome welcome;
	int first = connect_program(), second = connect_program(), events = connect_program();
	int file = connect_program();
	struct rlimit before = files_left(18);

	greet(first, FABRIC_HOST, H1);
	welcome = answer_to(second, FABRIC_HOST, H1);
	greet(events, FABRIC_EVENTS, H1);
	setrlimit(RLIMIT_NOFILE, &before);
	assert_int_equal(welcome.error, ENODEV);
	assert_non_null(strstr(welcome.message, "ulimit -Hn"));
	before = files_left(3);
	welcome = answer_to(file, FABRIC_UMAD, H1);
	setrlimit(RLIMIT_NOFILE, &before);
	assert_int_equal(welcome.error, ENFILE);
	/* With descriptors it is a program like others. */
	close(second);
	second = connect_program();
	greet(second, FABRIC_HOST, H1);
	close(first);
	close(second);
	close(events);
	close(file);
}

/* Neither do the long MADs of a program that does not read cost all descriptors, nor are short ones
 * lost for them. */
static void long_mads_that_nobody_reads_are_lost_but_for_a_few(void **state)
{
	static const uint8_t hdr[FABRIC_UMAD_HDR];
	static uint8_t mad[1000], bytes[FABRIC_INLINE];
	int host = open_host(), file = open_file(host, FABRIC_UMAD, H1, 0, 1);
	struct connection *c = server.connections;
	unsigned before = open_files(), num;

	assert_int_equal(c->kind, FABRIC_UMAD);
	assert_int_equal(setsockopt(c->fd, SOL_SOCKET, SO_SNDBUF, &(int){100000}, sizeof(int)), 0);
	for (unsigned i = 0; i < 2000; i++)
		server_deliver(&server.fabric, c, hdr, mad, sizeof(mad));
	outbox_flush(&server);
	assert_in_range(open_files(), before, before + 64);
	mad[0] = 0x55;
	server_deliver(&server.fabric, c, hdr, mad, MAD_LEN);
	do {
		serve();
		for (num = 0; recv(file, bytes, sizeof(bytes), 0) > 0; num++)
			;
	} while (num);
	assert_int_equal(bytes[FABRIC_UMAD_HDR], 0x55);
	assert_int_equal(open_files(), before);
	close(file);
	close(host);
}

/* Root's programs may have any number of descriptors under way. */
static void set_capabilities(const uint32_t without, struct __user_cap_data_struct before[2])
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2];

	if (without) {
		assert_int_equal(syscall(SYS_capget, &header, before), 0);
		memcpy(data, before, sizeof(data));
		data[0].effective &= ~without;
	} else {
		memcpy(data, before, sizeof(data));
	}
	assert_int_equal(syscall(SYS_capset, &header, data), 0);
}

/* The kernel takes no more descriptors that nobody has read (ETOOMANYREFS): a short MAD behind a
 * long one arrives all the same. */
static void a_long_mad_that_is_lost_takes_no_other_with_it(void **state)
{
	const uint32_t own = 1u << CAP_SYS_ADMIN | 1u << CAP_SYS_RESOURCE;
	static const uint8_t hdr[FABRIC_UMAD_HDR];
	static uint8_t mad[1000], bytes[FABRIC_INLINE];
	int host = open_host(), file = open_file(host, FABRIC_UMAD, H1, 0, 1);
	struct connection *c = server.connections;
	struct __user_cap_data_struct caps[2];
	struct rlimit before, limit;
	unsigned num;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	limit = (struct rlimit){60, before.rlim_max};
	set_capabilities(own, caps);
	setrlimit(RLIMIT_NOFILE, &limit);
	for (unsigned i = 0; i < 100; i++) {
		server_deliver(&server.fabric, c, hdr, mad, sizeof(mad));
		outbox_flush(&server);
	}
	serve();
	server_deliver(&server.fabric, c, hdr, mad, sizeof(mad));
	mad[0] = 0x55;
	server_deliver(&server.fabric, c, hdr, mad, MAD_LEN);
	outbox_flush(&server);
	serve();
	setrlimit(RLIMIT_NOFILE, &before);
	set_capabilities(0, caps);
	for (num = 0; recv(file, bytes, sizeof(bytes), 0) > 0; num++)
		;
	assert_in_range(num, 1, 100);
	assert_int_equal(bytes[FABRIC_UMAD_HDR], 0x55);
	close(file);
	close(host);
}

/* ---- two that begin at once ---- */

static pid_t second;
static int result_of_second;
static bool second_begins;

/* With the result of another process's server_open(), which keeps what it has got. */
static int begin_second(void)
{
	static struct server other;
	int ends[2], ret;

	assert_int_equal(pipe(ends), 0);
	second = fork();
	if (!second) {
		ret = server_open(&other, path);
		_exit(write(ends[1], &ret, sizeof(ret)) == sizeof(ret) ? pause() : 1);
	}
	close(ends[1]);
	return ends[0];
}

int __real_unlink(const char *name);
int __wrap_unlink(const char *name);
/* The other one has all the time that it needs just before the abandoned socket is removed. */
int __wrap_unlink(const char *name)
{
	if (second_begins) {
		second_begins = false;
		result_of_second = begin_second();
		poll(&(struct pollfd){result_of_second, POLLIN, 0}, 1, 500);
	}
	return __real_unlink(name);
}

static void one_of_two_that_begin_at_an_abandoned_socket_is_up(void **state)
{
	struct server first = {};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0), ret;

	/* Of a fabric that was killed. */
	unlink(path);
	assert_int_equal(bind(fd, (struct sockaddr *)&server.address, sizeof(server.address)), 0);
	close(fd);
	second_begins = true;
	assert_int_equal(server_open(&first, path), 0);
	assert_int_equal(read(result_of_second, &ret, sizeof(ret)), sizeof(ret));
	kill(second, SIGKILL);
	waitpid(second, NULL, 0);
	close(result_of_second);
	assert_int_equal(ret, -EADDRINUSE);
	close(first.listener);
	close(first.epoll);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
	const struct CMUnitTest tests[] = {
		TEST(a_port_leaves_its_groups_when_a_program_has_ended),
		TEST(a_long_mad_whose_file_could_not_be_taken_is_not_sent),
		TEST(a_program_that_cannot_be_accepted_waits),
		TEST(a_program_that_there_are_no_descriptors_for_is_refused),
		TEST(long_mads_that_nobody_reads_are_lost_but_for_a_few),
		TEST(a_long_mad_that_is_lost_takes_no_other_with_it),
		TEST(one_of_two_that_begin_at_an_abandoned_socket_is_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
